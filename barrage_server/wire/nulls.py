"""Deephaven's nulls: one value of each fixed-width type means null.

There is no validity bitmap then.

======================  ==========================================================
type                    null
======================  ==========================================================
int8, 16, 32, 64        the least value
uint16 (Java's char)    65535
float32, float64        the least finite value
date32, time32          the least int32
timestamp, date64,      the least int64
time64, duration
======================  ==========================================================

Elements of lists follow the same rule. All other types keep their validity bitmaps: booleans, strings, binary,
decimals, structs, maps, and the unsigned and half-precision numbers, for which Deephaven has no type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import types

from barrage_server.wire.buffers import bitmap_of, cells_of, offsets_of, valid_of, validity_of

__all__ = ["from_deephaven_nulls", "has_deephaven_null", "to_deephaven_nulls"]

_LEAST_INT32: Final = np.int32(np.iinfo(np.int32).min)
_LEAST_INT64: Final = np.int64(np.iinfo(np.int64).min)
_SENTINELS: Final[dict[int, np.generic]] = {
    types.lib.Type_INT8: np.int8(-128),
    types.lib.Type_INT16: np.int16(np.iinfo(np.int16).min),
    types.lib.Type_INT32: _LEAST_INT32,
    types.lib.Type_INT64: _LEAST_INT64,
    types.lib.Type_UINT16: np.uint16(65535),
    types.lib.Type_FLOAT: np.float32(np.finfo(np.float32).min),
    types.lib.Type_DOUBLE: np.float64(np.finfo(np.float64).min),
    types.lib.Type_DATE32: _LEAST_INT32,
    types.lib.Type_TIME32: _LEAST_INT32,
    types.lib.Type_DATE64: _LEAST_INT64,
    types.lib.Type_TIME64: _LEAST_INT64,
    types.lib.Type_TIMESTAMP: _LEAST_INT64,
    types.lib.Type_DURATION: _LEAST_INT64,
}


def has_deephaven_null(data_type: pa.DataType) -> bool:
    """Whether a value means null in this type, or in the elements of this list type."""
    if _is_list(data_type):
        return has_deephaven_null(data_type.value_type)
    return data_type.id in _SENTINELS


def to_deephaven_nulls(array: pa.Array) -> pa.Array:
    """Replace nulls by null values; no copy where nothing is null.

    The receiver reads a value that equals the null value as null: the encoding cannot distinguish them.
    """
    sentinel = _SENTINELS.get(array.type.id)
    if sentinel is None:
        nested = len(array) and has_deephaven_null(array.type)
        return _map_elements(array, to_deephaven_nulls) if nested else array
    valid = valid_of(array)
    if valid is None:
        return array
    values = cells_of(array, sentinel.dtype).copy()
    values[~valid] = sentinel
    return pa.Array.from_buffers(array.type, len(array), [None, pa.py_buffer(values)], null_count=0)


def from_deephaven_nulls(array: pa.Array) -> pa.Array:
    """Replace null values by nulls; existing nulls stay. The values are not copied."""
    sentinel = _SENTINELS.get(array.type.id)
    if sentinel is None:
        nested = len(array) and has_deephaven_null(array.type)
        return _map_elements(array, from_deephaven_nulls) if nested else array
    values = cells_of(array, sentinel.dtype)
    told = values != sentinel
    if told.all():
        return array
    valid = valid_of(array)
    bitmap = bitmap_of(told if valid is None else told & valid)
    return pa.Array.from_buffers(array.type, len(array), [bitmap, pa.py_buffer(values)])


def _is_list(data_type: pa.DataType) -> bool:
    return bool(types.is_list(data_type) or types.is_large_list(data_type) or types.is_fixed_size_list(data_type))


def _map_elements(array: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Convert the elements of a list array of any kind, within the slice."""
    count = len(array)
    if types.is_fixed_size_list(array.type):
        width = array.type.list_size
        elements = array.values.slice(array.offset * width, count * width)
        buffers = [validity_of(array)]
    else:
        offsets = offsets_of(array)
        elements = array.values.slice(offsets[0], offsets[-1] - offsets[0])
        buffers = [validity_of(array), pa.py_buffer(offsets - offsets[0])]
    converted = convert(elements)
    if converted is elements:
        return array
    return pa.Array.from_buffers(array.type, count, buffers, null_count=array.null_count, children=[converted])
