"""The values of Arrow arrays as plain Python, bit by bit: the measure of all comparisons.

A cell is ``None`` for a null, the value's own bytes for numbers of any kind (so that the payload of a NaN and the sign
of a zero count), ``bytes`` for texts, and tuples of cells for what is nested; of a union the type code and the cell of
the member. How a value is encoded does not show: neither slices nor dictionaries, run ends, views, or what lies beneath
a null. Buffers are read here, not by pyarrow's kernels.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

Cell = Any
Row = tuple[Cell, ...]


def cells(array: pa.Array | pa.ChunkedArray) -> list[Cell]:
    """The cells of an array of any type."""
    if isinstance(array, pa.ChunkedArray):
        return [cell for chunk in array.chunks for cell in cells(chunk)]
    if isinstance(array, pa.ExtensionArray):
        return cells(array.storage)
    kind = array.type
    if pat.is_null(kind):
        return [None] * len(array)
    if pat.is_dictionary(kind):
        values = cells(array.dictionary)
        nothing = _null(kind.value_type)
        return [nothing if index is None else values[index] for index in array.indices.to_pylist()]
    if pat.is_run_end_encoded(kind):
        values, ends = cells(array.values), array.run_ends.to_pylist()
        return [values[bisect_right(ends, array.offset + row)] for row in range(len(array))]
    if pat.is_union(kind):
        return _members(array)
    valid = _valid(array)
    return [cell if there else None for cell, there in zip(_unmasked(array), valid, strict=True)]


def rows(table: pa.Table | pa.RecordBatch) -> list[Row]:
    """The rows of a table."""
    return list(zip(*(cells(column) for column in table.columns), strict=True))


def _unmasked(array: pa.Array) -> list[Cell]:
    """The cells; under a null anything."""
    kind, count, offset = array.type, len(array), array.offset
    if count == 0:
        return []
    if pat.is_boolean(kind):
        return _bits(array.buffers()[1], offset, count)
    if pat.is_string_view(kind) or pat.is_binary_view(kind):
        values = array.to_pylist()
        return [value.encode() if isinstance(value, str) else value for value in values]
    if pat.is_string(kind) or pat.is_binary(kind) or pat.is_large_string(kind) or pat.is_large_binary(kind):
        is_large = pat.is_large_string(kind) or pat.is_large_binary(kind)
        offsets, data = _offsets(array, large=is_large), array.buffers()[2]
        content = b"" if data is None else data.to_pybytes()
        return [content[first:last] for first, last in pairwise(offsets)]
    if pat.is_struct(kind):
        # fields are sliced as the array is; nulls of the array do not show in them
        parts = [cells(array.field(number)) for number in range(kind.num_fields)]
        return list(zip(*parts, strict=True)) if parts else [()] * count
    if pat.is_fixed_size_list(kind):
        size, children = kind.list_size, cells(array.values)
        return [tuple(children[row * size : (row + 1) * size]) for row in range(offset, offset + count)]
    if pat.is_list_view(kind) or pat.is_large_list_view(kind):
        children = cells(array.values)
        places = zip(array.offsets.to_pylist(), array.sizes.to_pylist(), strict=True)
        return [tuple(children[first : first + size]) for first, size in places]
    if pat.is_list(kind) or pat.is_large_list(kind) or pat.is_map(kind):
        offsets, children = _offsets(array, large=pat.is_large_list(kind)), cells(array.values)
        return [tuple(children[first:last]) for first, last in pairwise(offsets)]
    width = kind.byte_width if pat.is_fixed_size_binary(kind) else kind.bit_width // 8
    data = array.buffers()[1]
    content = b"" if data is None else data.to_pybytes()
    return [content[row * width : (row + 1) * width] for row in range(offset, offset + count)]


def _members(array: pa.UnionArray) -> list[Cell]:
    kind, count, offset = array.type, len(array), array.offset
    if count == 0:
        return []
    codes = np.frombuffer(array.buffers()[1], np.int8, count, offset).tolist()
    # Arrow slices the members of a sparse union with it
    places = (
        np.frombuffer(array.buffers()[2], np.int32, count, 4 * offset).tolist()
        if kind.mode == "dense"
        else range(count)
    )
    members = {code: cells(array.field(number)) for number, code in enumerate(kind.type_codes)}
    return [(code, members[code][place]) for code, place in zip(codes, places, strict=True)]


def _null(kind: pa.DataType) -> Cell:
    """The cell of a null. A union has none of its own: it is one of the first member."""
    while pat.is_dictionary(kind) or pat.is_run_end_encoded(kind) or isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind.value_type
    return (kind.type_codes[0], _null(kind.field(0).type)) if pat.is_union(kind) else None


def _valid(array: pa.Array) -> list[bool]:
    validity = array.buffers()[0]
    return [True] * len(array) if validity is None else _bits(validity, array.offset, len(array))


def _bits(buffer: pa.Buffer, offset: int, count: int) -> list[bool]:
    bits = np.unpackbits(np.frombuffer(buffer, np.uint8), bitorder="little")[offset : offset + count]
    return [bool(bit) for bit in bits.tolist()]


def _offsets(array: pa.Array, *, large: bool) -> list[int]:
    dtype = np.dtype(np.int64 if large else np.int32)
    found: list[int] = np.frombuffer(array.buffers()[1], dtype, len(array) + 1, array.offset * dtype.itemsize).tolist()
    return found
