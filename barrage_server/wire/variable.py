"""Parts of Arrow arrays, cut to what a slice covers: validity from bit 0, offsets from 0, bytes in between.

Conversions of whole columns are made of these. Nothing here visits rows one by one.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from barrage_server.errors import MessageTooLargeError

__all__ = ["bits", "byte_runs", "cells", "list_runs", "offsets_buffer", "validity", "view_moves", "view_runs"]

_MOST: Final = (1 << 31) - 1

Numbers = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]


def bits(array: pa.Array) -> Bools | None:
    """Which values are not null, one bool each; None when none is."""
    if not array.null_count:
        return None
    packed, first, last = np.frombuffer(array.buffers()[0], np.uint8), array.offset, array.offset + len(array)
    start = first // 8
    unpacked = np.unpackbits(packed[start : (last + 7) // 8], bitorder="little")
    return unpacked[first - 8 * start : last - 8 * start].view(np.bool_)


def validity(array: pa.Array) -> pa.Buffer | None:
    """The validity bitmap of the slice from its first bit on; None when nothing is null."""
    valid = None if array.offset == 0 else bits(array)
    if valid is not None:
        return pa.py_buffer(np.packbits(valid, bitorder="little"))
    return array.buffers()[0] if array.null_count else None


def cells(array: pa.Array, dtype: npt.DTypeLike) -> Numbers:
    """The values of a fixed-width array as ``dtype``, those under nulls included; a view."""
    data, width = array.buffers()[1], np.dtype(dtype).itemsize
    if data is None or not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(data, dtype, count=len(array), offset=array.offset * width)


def offsets_buffer(offsets: Numbers) -> pa.Buffer:
    """Offsets as int32; MessageTooLargeError when the last one does not fit."""
    if len(offsets) and offsets[-1] > _MOST:
        raise MessageTooLargeError(
            f"a column of one batch has {int(offsets[-1]):,} bytes or elements where this client can take {_MOST:,}; "
            "ask for smaller batches with the option batch_size"
        )
    return pa.py_buffer(np.ascontiguousarray(offsets, np.int32))


def byte_runs(array: pa.Array) -> tuple[Numbers, Numbers]:
    """Of a binary or string array of any kind: offsets (int64, from 0; one more than values) and the bytes they cut."""
    count = len(array)
    if types.is_fixed_size_binary(array.type):
        width = array.type.byte_width
        data = array.buffers()[1]
        offsets = np.arange(count + 1, dtype=np.int64) * width
        if data is None or not count * width:
            return offsets, np.zeros(0, np.uint8)
        return offsets, np.frombuffer(data, np.uint8, count=count * width, offset=array.offset * width)
    offsets = _offsets(array, types.is_large_binary(array.type) or types.is_large_string(array.type))
    first, last = int(offsets[0]), int(offsets[-1])
    data = array.buffers()[2]
    if data is None or first == last:
        return offsets - first, np.zeros(0, np.uint8)
    return offsets - first, np.frombuffer(data, np.uint8, count=last - first, offset=first)


def list_runs(array: pa.Array) -> tuple[Numbers, int, int]:
    """Of a list or map array of any kind: offsets (int64, from 0), and where in its child they start and end."""
    count = len(array)
    if types.is_fixed_size_list(array.type):
        width, start = array.type.list_size, array.offset
        return np.arange(count + 1, dtype=np.int64) * width, start * width, (start + count) * width
    offsets = _offsets(array, types.is_large_list(array.type))
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, first, last


def view_moves(array: pa.Array) -> tuple[Numbers, Numbers]:
    """Of a list view of either width: offsets of its lists (int64, from 0) when their items are put in order, and by
    how much the items of each list lie behind their place there.

    A null has no items. Lists without items are moved as the first one that has some: where all moves are equal, the
    items are in order already.
    """
    count = len(array)
    dtype = np.dtype(np.int64 if types.is_large_list_view(array.type) else np.int32)
    offsets = np.zeros(count + 1, np.int64)
    if not count:
        return offsets, offsets[:0]
    buffers, offset = array.buffers(), array.offset * dtype.itemsize
    starts = np.frombuffer(buffers[1], dtype, count, offset).astype(np.int64)
    sizes = np.frombuffer(buffers[2], dtype, count, offset).astype(np.int64)
    valid = bits(array)
    if valid is not None:
        sizes[~valid] = 0
    np.cumsum(sizes, out=offsets[1:])
    moves = starts - offsets[:-1]
    filled = sizes > 0
    moves[~filled] = moves[filled.argmax()] if offsets[-1] else 0
    return offsets, moves


def view_runs(array: pa.Array) -> tuple[Numbers, pa.Array]:
    """Of a list view of either width: offsets (int64, from 0), and the items that they cut, in order.

    The items are shared where the views follow one another, and copied otherwise. A null has no items.
    """
    offsets, moves = view_moves(array)
    if (moves == moves[:1]).all():
        return offsets, array.values.slice(int(moves[0]) if len(moves) else 0, int(offsets[-1]))
    return offsets, array.values.take(pa.array(np.repeat(moves, np.diff(offsets)) + np.arange(offsets[-1])))


def _offsets(array: pa.Array, large: bool) -> Numbers:
    dtype = np.dtype(np.int64 if large else np.int32)
    buffer = array.buffers()[1]
    if buffer is None or buffer.size == 0:  # Arrow allows an array without values to have no offsets
        return np.zeros(1, np.int64)
    offsets = np.frombuffer(buffer, dtype, count=len(array) + 1, offset=array.offset * dtype.itemsize)
    return offsets.astype(np.int64)
