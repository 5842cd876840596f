"""Offsets and contents of variable-size arrays, cut to their slices.

Conversions of whole columns use these functions.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import types

from barrage_server.errors import MessageTooLargeError
from barrage_server.wire.buffers import Numbers, offsets_of, valid_of

__all__ = ["byte_runs", "list_runs", "offsets_buffer", "view_moves", "view_runs"]

_MOST: Final = (1 << 31) - 1


def offsets_buffer(offsets: Numbers) -> pa.Buffer:
    """Make a buffer of int32 offsets; MessageTooLargeError when the last exceeds it."""
    if len(offsets) and offsets[-1] > _MOST:
        raise MessageTooLargeError(
            f"a column of one batch has {int(offsets[-1]):,} bytes or elements where this client can take {_MOST:,}; "
            "ask for smaller batches with the option batch_size"
        )
    return pa.py_buffer(np.ascontiguousarray(offsets, np.int32))


def byte_runs(array: pa.Array) -> tuple[Numbers, Numbers]:
    """Return the offsets and the bytes of a binary or string array of any kind.

    Returns:
        ``len(array) + 1`` offsets (int64, from 0), and the bytes (uint8) that they refer to.

    """
    count = len(array)
    if types.is_fixed_size_binary(array.type):
        width = array.type.byte_width
        data = array.buffers()[1]
        offsets = np.arange(count + 1, dtype=np.int64) * width
        if data is None or not count * width:
            return offsets, np.zeros(0, np.uint8)
        return offsets, np.frombuffer(data, np.uint8, count=count * width, offset=array.offset * width)
    offsets = offsets_of(array).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    data = array.buffers()[2]
    if data is None or first == last:
        return offsets - first, np.zeros(0, np.uint8)
    return offsets - first, np.frombuffer(data, np.uint8, count=last - first, offset=first)


def list_runs(array: pa.Array) -> tuple[Numbers, int, int]:
    """Return the offsets of a list or map array, and the range in its child.

    Returns:
        ``len(array) + 1`` offsets (int64, from 0), and start and stop in the child.

    """
    count = len(array)
    if types.is_fixed_size_list(array.type):
        width, start = array.type.list_size, array.offset
        return np.arange(count + 1, dtype=np.int64) * width, start * width, (start + count) * width
    offsets = offsets_of(array).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, first, last


def view_moves(array: pa.Array) -> tuple[Numbers, Numbers]:
    """Return the offsets of a list view whose items are put in order.

    A null has no items. An empty list has the move of the first list with items, so that equal moves mean that the
    items are in order already.

    Returns:
        ``len(array) + 1`` offsets (int64, from 0), and for each list the distance of its items in the child behind
        their position in order.

    """
    count = len(array)
    dtype = np.dtype(np.int64 if types.is_large_list_view(array.type) else np.int32)
    offsets = np.zeros(count + 1, np.int64)
    if not count:
        return offsets, offsets[:0]
    buffers, offset = array.buffers(), array.offset * dtype.itemsize
    starts = np.frombuffer(buffers[1], dtype, count, offset).astype(np.int64)
    sizes = np.frombuffer(buffers[2], dtype, count, offset).astype(np.int64)
    valid = valid_of(array)
    if valid is not None:
        sizes[~valid] = 0
    np.cumsum(sizes, out=offsets[1:])
    moves = starts - offsets[:-1]
    filled = sizes > 0
    moves[~filled] = moves[filled.argmax()] if offsets[-1] else 0
    return offsets, moves


def view_runs(array: pa.Array) -> tuple[Numbers, pa.Array]:
    """Return the offsets (int64, from 0) of a list view, and its items in order.

    The items are a view where they are in order already, and copied otherwise. A null has no items.
    """
    offsets, moves = view_moves(array)
    if (moves == moves[:1]).all():
        return offsets, array.values.slice(int(moves[0]) if len(moves) else 0, int(offsets[-1]))
    return offsets, array.values.take(pa.array(np.repeat(moves, np.diff(offsets)) + np.arange(offsets[-1])))
