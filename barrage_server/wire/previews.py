"""Shortened lists, for clients that only show the beginning or the end of each."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import types

__all__ = ["preview"]

_LONGEST: Final = (1 << 31) - 1


def preview(array: pa.Array, limit: int) -> pa.Array:
    """A list array with at most ``|limit|`` elements in each list: the first ones, the last if ``limit`` is negative.

    0 is no limit. Arrays of other types, and those whose lists are all short, come back as they are.
    """
    large = types.is_large_list(array.type)
    if limit == 0 or not len(array) or not (large or types.is_list(array.type)):
        return array
    dtype = np.dtype(np.int64 if large else np.int32)
    data = np.frombuffer(array.buffers()[1], dtype, count=len(array) + 1, offset=array.offset * dtype.itemsize)
    offsets = data.astype(np.int64)
    lengths = np.diff(offsets)
    kept = np.minimum(lengths, min(abs(limit), _LONGEST))
    if array.null_count:
        kept[array.is_null().to_numpy(zero_copy_only=False)] = 0
    if np.array_equal(kept, lengths):
        return array
    starts = offsets[:-1] if limit > 0 else offsets[1:] - kept
    ends = np.cumsum(kept, dtype=np.int64)
    # Element i of list k lies at starts[k] + i; the arange runs through all lists, so each list's beginning is taken
    # off again.
    indices = np.arange(int(ends[-1])) + np.repeat(starts - (ends - kept), kept)
    new_offsets = np.concatenate(([0], ends)).astype(dtype)
    validity = None
    if array.null_count:
        validity = pa.py_buffer(np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))
    return pa.Array.from_buffers(
        array.type,
        len(array),
        [validity, pa.py_buffer(new_offsets)],
        null_count=array.null_count,
        children=[array.values.take(pa.array(indices))],
    )
