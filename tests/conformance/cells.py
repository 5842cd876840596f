"""Arrow values in the manifests' JSON form, and their comparison."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece: an update that comes in several batches has its columns in chunks."""
    return (
        pa.concat_arrays(column.chunks)
        if isinstance(column, pa.ChunkedArray) and column.num_chunks
        else (pa.array([], column.type) if isinstance(column, pa.ChunkedArray) else column)
    )


def cells(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Times as integers of nanoseconds (dates of milliseconds), binary as hex, NaN and infinities as text."""
    array = one_array(column)
    data_type = array.type
    if types.is_timestamp(data_type) or types.is_duration(data_type) or types.is_time(data_type):
        factor = _NANOSECONDS[data_type.unit]
        integers = array.view(pa.int32() if data_type.bit_width == 32 else pa.int64()).to_pylist()
        return [None if value is None else value * factor for value in integers]
    if types.is_date64(data_type):
        values: list[Any] = array.view(pa.int64()).to_pylist()
        return values
    if types.is_date32(data_type):
        return [None if value is None else value * 86_400_000 for value in array.view(pa.int32()).to_pylist()]
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        return [None if not value.is_valid else cells(value.values) for value in array]
    if types.is_struct(data_type):
        children = [cells(array.field(number)) for number in range(data_type.num_fields)]
        rows = [dict(zip([field.name for field in data_type], row, strict=True)) for row in zip(*children, strict=True)]
        return [row if valid else None for row, valid in zip(rows, array.is_valid().to_pylist(), strict=True)]
    return [_cell(value) for value in array.to_pylist()]


def _cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def same_cell(got: Any, expected: Any, *, single: bool = False) -> bool:
    """Whether two cells are equal; ``single``: as float32."""
    if isinstance(got, list) and isinstance(expected, list):
        pairs = zip(got, expected, strict=False)
        return len(got) == len(expected) and all(same_cell(one, other, single=single) for one, other in pairs)
    if isinstance(expected, str) and isinstance(got, str):
        return got == expected or (got in _SPECIAL and _SPECIAL.get(expected.lower()) == got)
    if isinstance(got, bool) or isinstance(expected, bool):
        return got is expected
    if single and isinstance(got, float) and isinstance(expected, (int, float)):
        return bool(np.float32(got) == np.float32(expected))
    if got is None or expected is None:
        return got is expected
    return bool(got == expected or str(got) == str(expected))


_SPECIAL = {"NaN": "NaN", "nan": "NaN", "inf": "inf", "infinity": "inf", "-inf": "-inf", "-infinity": "-inf"}


def is_single(data_type: pa.DataType) -> bool:
    """Whether floats of the type, or of its elements, are of single precision."""
    if types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type):
        return is_single(data_type.value_type)
    return bool(types.is_float32(data_type) or types.is_float16(data_type))


def same_arrays(one: pa.Array | pa.ChunkedArray, other: pa.Array | pa.ChunkedArray) -> bool:
    """Whether two columns have equal values, NaN being equal to NaN; in however many pieces they came."""
    one, other = one_array(one), one_array(other)
    return len(one) == len(other) and (not len(one) or one.equals(other) or cells(one) == cells(other))
