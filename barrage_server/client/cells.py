"""Picking and merging columns of values by row keys, whole row sets at a time."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from barrage_server.engine.values import take
from barrage_server.rowset import RowSet

__all__ = ["Values", "contiguous", "merged", "picked"]

Values: TypeAlias = Any  # pa.Array | pa.ChunkedArray; pyarrow has no types to tell them by
"""One column's values, one for each row of some row set, in key order."""


def picked(values: Values, rows: RowSet, wanted: RowSet) -> Values:
    """Of ``values``, which belong to ``rows``, those of ``wanted``, a subset. No copy when it is all of them."""
    if wanted.size == rows.size:
        return values
    if not wanted:
        return values.slice(0, 0)
    positions = rows.invert(wanted)
    if positions.is_contiguous:
        return values.slice(positions.first_key, positions.size)
    return take(contiguous(values), positions.keys())


def merged(first: RowSet, first_values: Values, second: RowSet, second_values: Values) -> Values:
    """The values of ``first | second``, which are disjoint, in key order."""
    if not second:
        return first_values
    if not first:
        return second_values
    order = np.argsort(np.concatenate([first.keys(), second.keys()]), kind="stable")
    return take(pa.concat_arrays([contiguous(first_values), contiguous(second_values)]), order)


def contiguous(values: Values) -> pa.Array:
    """One array; taking from a chunked one would concatenate its chunks every time."""
    if isinstance(values, pa.ChunkedArray):
        return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    return values
