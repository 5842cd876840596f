"""The buffers of Arrow arrays as numpy arrays, and back: what a slice covers, from its first value on.

Nothing here visits rows one by one, and nothing checks: what comes from outside is checked by
:mod:`barrage_server.wire.soundness` before.
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
    """``count`` bits from bit ``offset`` on, one bool each."""
    start, skipped = offset >> 3, offset & 7
    used = np.frombuffer(buffer, np.uint8, ((offset + count + 7) >> 3) - start, start)
    return np.unpackbits(used, count=skipped + count, bitorder="little")[skipped:].view(np.bool_)


def bitmap_of(bits: Bools) -> pa.Buffer:
    """One bit for each bool."""
    return pa.py_buffer(np.packbits(bits, bitorder="little"))


def valid_of(array: pa.Array) -> Bools | None:
    """Which values are not null, one bool each; None when none is."""
    if array.type.id == lib.Type_NA:  # it has no bitmap
        return np.zeros(len(array), np.bool_)
    return bits_of(array.buffers()[0], array.offset, len(array)) if array.null_count else None


def is_valid(array: pa.Array) -> Bools:
    """Which values are not null, one bool each."""
    valid = valid_of(array)
    return np.ones(len(array), np.bool_) if valid is None else valid


def validity_of(array: pa.Array) -> pa.Buffer | None:
    """The validity bitmap of the slice from its first bit on; None when nothing is null."""
    valid = None if array.offset == 0 else valid_of(array)
    if valid is not None:
        return bitmap_of(valid)
    return array.buffers()[0] if array.null_count else None


def cells_of(array: pa.Array, dtype: npt.DTypeLike) -> Numbers:
    """The values of a fixed-width array as ``dtype``, those under nulls included; a view."""
    data, width = array.buffers()[1], np.dtype(dtype).itemsize
    if data is None or not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(data, dtype, count=len(array), offset=array.offset * width)


def offsets_of(array: pa.Array) -> npt.NDArray[np.int32] | npt.NDArray[np.int64]:
    """The offsets of a list, map, string or binary array of any size: one more than it has elements, as a view."""
    dtype = np.dtype(np.int64 if array.type.id in LARGE else np.int32)
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:  # Arrow allows an array without values to have no offsets
        return np.zeros(1, dtype)
    offsets: Numbers = np.frombuffer(buffer, dtype, len(array) + 1, array.offset * dtype.itemsize)
    return offsets


def codes_of(array: pa.Array) -> npt.NDArray[np.int8]:
    """The type codes of a union; pyarrow's own do not heed slices."""
    buffer = array.buffers()[1]
    return np.zeros(0, np.int8) if buffer is None else np.frombuffer(buffer, np.int8, len(array), array.offset)


def places_of(array: pa.Array) -> npt.NDArray[np.int32]:
    """Where in its child the value of each element of a dense union is."""
    buffer = array.buffers()[2]
    return np.zeros(0, np.int32) if buffer is None else np.frombuffer(buffer, np.int32, len(array), array.offset * 4)


def sizes_of_views(array: pa.Array) -> npt.NDArray[np.int32]:
    """The bytes of each value of a string view or binary view, those under nulls included; a view."""
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(0, np.int32)
    sizes: npt.NDArray[np.int32] = np.frombuffer(buffer, _VIEW, len(array), array.offset * _VIEW.itemsize)["size"]
    return sizes
