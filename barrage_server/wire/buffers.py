"""The buffers of Arrow arrays as numpy arrays, and back.

All functions heed slices: the result begins with the first value of the slice. Nothing is checked here;
:mod:`barrage_server.wire.soundness` checks data from outside before.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import lib

__all__ = [
    "LARGE",
    "Bools",
    "Numbers",
    "bitmap_of",
    "bits_of",
    "cells_of",
    "codes_of",
    "is_valid",
    "offsets_of",
    "places_of",
    "sizes_of_views",
    "valid_of",
    "validity_of",
]

Numbers = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]

LARGE: Final = frozenset({lib.Type_LARGE_STRING, lib.Type_LARGE_BINARY, lib.Type_LARGE_LIST, lib.Type_LARGE_LIST_VIEW})
"""Types whose offsets have 64 bits."""

_VIEW: Final = np.dtype([("size", np.int32), ("rest", "V12")])


def bits_of(buffer: pa.Buffer, offset: int, count: int) -> Bools:
    """Unpack ``count`` bits from bit ``offset`` on to bools."""
    start, skipped = offset >> 3, offset & 7
    used = np.frombuffer(buffer, np.uint8, ((offset + count + 7) >> 3) - start, start)
    return np.unpackbits(used, count=skipped + count, bitorder="little")[skipped:].view(np.bool_)


def bitmap_of(bits: Bools) -> pa.Buffer:
    """Pack bools to a bitmap."""
    return pa.py_buffer(np.packbits(bits, bitorder="little"))


def valid_of(array: pa.Array) -> Bools | None:
    """Return which values are valid, as bools; None when all are."""
    if array.type.id == lib.Type_NA:  # all null, without a bitmap
        return np.zeros(len(array), np.bool_)
    return bits_of(array.buffers()[0], array.offset, len(array)) if array.null_count else None


def is_valid(array: pa.Array) -> Bools:
    """Return which values are valid, as bools."""
    valid = valid_of(array)
    return np.ones(len(array), np.bool_) if valid is None else valid


def validity_of(array: pa.Array) -> pa.Buffer | None:
    """Return the validity bitmap of the slice; None when nothing is null."""
    valid = None if array.offset == 0 else valid_of(array)
    if valid is not None:
        return bitmap_of(valid)
    return array.buffers()[0] if array.null_count else None


def cells_of(array: pa.Array, dtype: npt.DTypeLike) -> Numbers:
    """View the values of a fixed-width array as ``dtype``, with values under nulls."""
    data, width = array.buffers()[1], np.dtype(dtype).itemsize
    if data is None or not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(data, dtype, count=len(array), offset=array.offset * width)


def offsets_of(array: pa.Array) -> npt.NDArray[np.int32] | npt.NDArray[np.int64]:
    """View the ``len(array) + 1`` offsets of a list, map, string or binary array."""
    dtype = np.dtype(np.int64 if array.type.id in LARGE else np.int32)
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:  # Arrow allows an empty array without offsets
        return np.zeros(1, dtype)
    offsets: Numbers = np.frombuffer(buffer, dtype, len(array) + 1, array.offset * dtype.itemsize)
    return offsets


def codes_of(array: pa.Array) -> npt.NDArray[np.int8]:
    """View the type codes of a union; ``array.type_codes`` does not heed slices."""
    buffer = array.buffers()[1]
    return np.zeros(0, np.int8) if buffer is None else np.frombuffer(buffer, np.int8, len(array), array.offset)


def places_of(array: pa.Array) -> npt.NDArray[np.int32]:
    """View the offsets of a dense union: the position of each element in its child."""
    buffer = array.buffers()[2]
    return np.zeros(0, np.int32) if buffer is None else np.frombuffer(buffer, np.int32, len(array), array.offset * 4)


def sizes_of_views(array: pa.Array) -> npt.NDArray[np.int32]:
    """View the sizes in bytes of the values of a string view or binary view.

    Values under nulls are included.
    """
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(0, np.int32)
    sizes: npt.NDArray[np.int32] = np.frombuffer(buffer, _VIEW, len(array), array.offset * _VIEW.itemsize)["size"]
    return sizes
