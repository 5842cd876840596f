"""Conversion of Arrow arrays to numpy cells and back, and comparison of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from barrage_server.engine.storage import from_storage, storage_type, to_storage
from barrage_server.engine.types import StorageKind, cell_dtype, storage_kind
from barrage_server.errors import LimitError
from barrage_server.wire.array_bound import MOST_ITEMS
from barrage_server.wire.buffers import bitmap_of, bits_of, is_valid, offsets_of, valid_of
from barrage_server.wire.plain_form import check_item_counts, to_plain

__all__ = [
    "BoolArray",
    "canonical_cells",
    "cells_differ",
    "concatenated",
    "differs",
    "from_cells",
    "raw_differ",
    "take",
    "to_cells",
]

BoolArray = npt.NDArray[np.bool_]

_BLOCK_ITEMS: Final = 1 << 20

_CELLS_ARE_VALUES = frozenset(
    data_type.id
    for data_type in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("us")),
        *(pa.timestamp("ns"), pa.duration("ns")),
    )
)
"""Types whose values are stored as they are, cell by cell."""
_FLOATS: dict[int, np.dtype[Any]] = {2: np.dtype(np.float16), 4: np.dtype(np.float32), 8: np.dtype(np.float64)}


def to_cells(array: pa.Array) -> tuple[npt.NDArray[Any], BoolArray | None]:
    """The cells of a bool or fixed-width array, as views where possible.

    Slices are allowed.

    Returns:
        The cells, and whether each cell holds a value (``None``: all do).
    """
    data_type = array.type
    if data_type.id not in _CELLS_ARE_VALUES:
        array = to_storage(array)
        data_type = array.type
    count, offset = len(array), array.offset
    valid, data = valid_of(array), array.buffers()[1]
    dtype = cell_dtype(data_type)
    if data is None or count == 0:
        return np.zeros(count, dtype), valid
    if pat.is_boolean(data_type):
        return bits_of(data, offset, count).view(np.uint8), valid
    return np.frombuffer(data, dtype, count, offset * dtype.itemsize), valid


def from_cells(data_type: pa.DataType, data: npt.NDArray[Any], valid: BoolArray | None) -> pa.Array:
    """The Arrow array of cells, which shares the memory of ``data``.

    ``data`` must be contiguous. Booleans are packed into a copy.
    """
    if valid is None and data_type.id in _CELLS_ARE_VALUES:
        return pa.Array.from_buffers(data_type, len(data), [None, pa.py_buffer(data)], 0)
    stored = storage_type(data_type)
    count = len(data)
    validity, nulls = None, 0
    if valid is not None:
        nulls = count - int(np.count_nonzero(valid))
        if nulls:
            validity = bitmap_of(valid)
    buffer = bitmap_of(data) if pat.is_boolean(stored) else pa.py_buffer(data)
    array = pa.Array.from_buffers(stored, count, [validity, buffer], nulls)
    return array if stored is data_type else from_storage(array, data_type)


def take(array: pa.Array, positions: npt.NDArray[np.integer]) -> pa.Array:
    """The values at ``positions``, without a validity buffer unless there are nulls.

    Raises:
        pa.ArrowInvalid: the values are too large for one array.
    """
    if pat.is_nested(array.type) or isinstance(array.type, pa.BaseExtensionType):
        taken = to_plain(array, array.type).take(pa.array(positions))  # Arrow is not sure with slices
        check_item_counts(taken)
        return taken
    taken = array.take(pa.array(positions))
    if taken.null_count == 0:
        validity, *others = taken.buffers()
        if validity is not None:
            return pa.Array.from_buffers(taken.type, len(taken), [None, *others], 0, taken.offset)
    return taken


def concatenated(arrays: Sequence[pa.Array], data_type: pa.DataType) -> pa.Array:
    """Arrays of ``data_type`` one after the other.

    Raises:
        LimitError: they are together too large for one array.
    """
    if len(arrays) == 1:
        return arrays[0]
    stored = storage_type(data_type)
    parts = [to_storage(array) for array in arrays if len(array)]
    if len(parts) < 2:
        return from_storage(parts[0] if parts else pa.nulls(0, stored), data_type)
    try:
        whole = pa.concat_arrays(parts)
    except pa.ArrowInvalid:
        raise LimitError(
            f"The values of a column are too large for one array, which holds {MOST_ITEMS:,} bytes of "
            "texts or items of lists. Read fewer rows at a time."
        ) from None
    return from_storage(whole, data_type)


def canonical_cells(array: pa.Array) -> tuple[npt.NDArray[Any], BoolArray | None]:
    """The cells of an array such that equal keys have equal cells.

    There is one NaN, one zero, and zero bytes under nulls. See :func:`to_cells`.
    """
    data, valid = to_cells(array)
    stored = to_storage(array).type
    if pat.is_floating(stored):
        values = data.view(_FLOATS[data.dtype.itemsize])
        values = values + values.dtype.type(0)  # -0.0 + 0.0 is 0.0; a copy, too
        values[np.isnan(values)] = np.nan
        data = values.view(data.dtype)
    if valid is not None:
        data = data.copy()
        data[~valid] = np.zeros((), data.dtype)
    return data, valid


def cells_differ(
    first: npt.NDArray[Any],
    first_valid: BoolArray | None,
    second: npt.NDArray[Any],
    second_valid: BoolArray | None,
) -> BoolArray:
    """Whether each two cells differ, bit by bit; nulls equal nulls."""
    different = raw_differ(first, second)
    if first_valid is None and second_valid is None:
        return different
    ours = np.ones(len(first), np.bool_) if first_valid is None else first_valid
    theirs = np.ones(len(first), np.bool_) if second_valid is None else second_valid
    different &= ours
    different |= ours ^ theirs
    return different


def raw_differ(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> BoolArray:
    """Whether each two cells differ in any bit."""
    if first.dtype.kind != "V":
        different: BoolArray = first != second
        return different
    width = first.dtype.itemsize
    unit = next(unit for unit in (np.uint64, np.uint32, np.uint16, np.uint8) if width % np.dtype(unit).itemsize == 0)
    shape = (len(first), width // np.dtype(unit).itemsize)
    left = np.ascontiguousarray(first).view(unit).reshape(shape)
    right = np.ascontiguousarray(second).view(unit).reshape(shape)
    return np.asarray((left != right).any(axis=1))


def differs(first: pa.Array, second: pa.Array) -> BoolArray:
    """Whether each two values of arrays of one type and length differ.

    Nulls equal nulls, and every bit of other values counts, at every depth: NaNs with different payloads differ, and
    -0.0 differs from 0.0. Bytes under a null are ignored.
    """
    first, second = to_storage(first), to_storage(second)
    data_type = first.type
    kind = storage_kind(data_type)
    if kind is StorageKind.NULL or len(first) == 0:
        return np.zeros(len(first), np.bool_)
    if kind is not StorageKind.HEAP:
        return cells_differ(*to_cells(first), *to_cells(second))
    ours, theirs = is_valid(first), is_valid(second)
    different = ours ^ theirs
    both = np.flatnonzero(ours & theirs)
    if len(both):
        if len(both) < len(first):
            picked = pa.array(both)
            first, second = first.take(picked), second.take(picked)
        different[both] = _values_differ(first, second)
    return different


def _values_differ(first: pa.Array, second: pa.Array) -> BoolArray:
    """Whether each two values of arrays without nulls at the top differ."""
    data_type = first.type
    if pat.is_struct(data_type):
        different = np.zeros(len(first), np.bool_)
        for index in range(data_type.num_fields):
            different |= differs(first.field(index), second.field(index))
        return different
    if pat.is_list(data_type) or pat.is_large_list(data_type) or pat.is_map(data_type):
        return _lists_differ(first, second)
    if pat.is_fixed_size_list(data_type):
        size = data_type.list_size
        if size == 0:
            return np.zeros(len(first), np.bool_)
        items = differs(first.flatten(), second.flatten())
        return np.asarray(items.reshape(len(first), size).any(axis=1))
    return np.asarray(pc.not_equal(first, second).to_numpy(zero_copy_only=False))


def _lists_differ(first: pa.Array, second: pa.Array) -> BoolArray:
    left, right = offsets_of(first), offsets_of(second)
    different: BoolArray = np.diff(left) != np.diff(right)
    same = np.flatnonzero(~different)
    if len(same) == 0:
        return different
    if len(same) < len(first):
        picked = pa.array(same)
        first, second = first.take(picked), second.take(picked)
        left, right = offsets_of(first), offsets_of(second)
    bounds = left - left[0]
    found = np.zeros(len(same), np.bool_)
    for ours, theirs in zip(_items(first), _items(second), strict=True):
        # in blocks: the bytes of an item may be few, or none
        for begin in range(0, int(bounds[-1]), _BLOCK_ITEMS):
            end = min(begin + _BLOCK_ITEMS, int(bounds[-1]))
            items = differs(
                ours.slice(int(left[0]) + begin, end - begin), theirs.slice(int(right[0]) + begin, end - begin)
            )
            if items.any():
                _mark(found, bounds, begin, items)
    different[same] = found
    return different


def _mark(found: BoolArray, bounds: npt.NDArray[np.int64], begin: int, items: BoolArray) -> None:
    """Mark the lists that have one of ``items``.

    Args:
        found: whether each list has one; changed here.
        bounds: the places at which the lists begin and end.
        begin: the place of the first one of ``items``.
        items: flags of items that follow each other.
    """
    end = begin + len(items)
    first = int(np.searchsorted(bounds, begin, "right")) - 1
    last = int(np.searchsorted(bounds, end, "left"))
    edges = np.clip(bounds[first : last + 1], begin, end) - begin
    totals = np.zeros(len(items) + 1, np.int64)
    np.cumsum(items, out=totals[1:])
    found[first:last] |= totals[edges[1:]] > totals[edges[:-1]]


def _items(array: pa.Array) -> tuple[pa.Array, ...]:
    """The whole child arrays, to which the offsets refer."""
    return (array.keys, array.items) if pat.is_map(array.type) else (array.values,)
