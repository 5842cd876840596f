"""Shortened lists, for clients that show the beginning or the end of lists only."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import types

from barrage_server.wire.buffers import valid_of, validity_of
from barrage_server.wire.variable import list_runs, view_runs

__all__ = ["preview"]

_LONGEST: Final = (1 << 31) - 1


def preview(array: pa.Array, limit: int) -> pa.Array:
    """Cut each list of an array to at most ``|limit|`` elements.

    The first elements are kept, or the last ones if ``limit`` is negative; 0 is no limit. Arrays of other types, and
    arrays without longer lists, are returned unchanged.
    """
    large = types.is_large_list(array.type) or types.is_large_list_view(array.type)
    is_view = types.is_list_view(array.type) or types.is_large_list_view(array.type)
    if limit == 0 or not len(array) or not (large or is_view or types.is_list(array.type)):
        return array
    if is_view:
        offsets, items = view_runs(array)
    else:
        offsets, first, last = list_runs(array)
        items = array.values.slice(first, last - first)
    lengths = np.diff(offsets)
    kept = np.minimum(lengths, min(abs(limit), _LONGEST))
    valid = valid_of(array)
    if valid is not None:
        kept[~valid] = 0
    if np.array_equal(kept, lengths):
        return array
    starts = offsets[:-1] if limit > 0 else offsets[1:] - kept
    ends = np.cumsum(kept, dtype=np.int64)
    # Element i of list k is at starts[k] + i. The arange counts through all lists, so the start of list k in the result
    # is subtracted.
    indices = np.arange(int(ends[-1])) + np.repeat(starts - (ends - kept), kept)
    dtype = np.dtype(np.int64 if large else np.int32)
    cuts = [ends - kept, kept] if is_view else [np.concatenate(([0], ends))]
    return pa.Array.from_buffers(
        array.type,
        len(array),
        [validity_of(array), *(pa.py_buffer(cut.astype(dtype)) for cut in cuts)],
        null_count=array.null_count,
        children=[items.take(pa.array(indices))],
    )
