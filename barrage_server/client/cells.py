"""Columns of values, picked and merged by row sets."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from barrage_server.engine.values import take
from barrage_server.rowset import RowSet

__all__ = ["Values", "contiguous", "merged", "picked"]

Values: TypeAlias = Any  # pa.Array | pa.ChunkedArray; pyarrow has no types to tell them by
"""The values of one column for the rows of a row set, in key order."""


def picked(values: Values, rows: RowSet, wanted: RowSet) -> Values:
    """Pick the values of the rows ``wanted``, a subset of ``rows``.

    Args:
        values: the values of ``rows``; returned unchanged when ``wanted`` is all of them.
        rows: the rows.
        wanted: the rows to pick.
    """
    if wanted.size == rows.size:
        return values
    if not wanted:
        return values.slice(0, 0)
    positions = rows.invert(wanted)
    if positions.is_contiguous:
        return values.slice(positions.first_key, positions.size)
    return take(contiguous(values), positions.keys())


def merged(first: RowSet, first_values: Values, second: RowSet, second_values: Values) -> Values:
    """Merge the values of two disjoint row sets, in key order."""
    if not second:
        return first_values
    if not first:
        return second_values
    order = np.argsort(np.concatenate([first.keys(), second.keys()]), kind="stable")
    return take(pa.concat_arrays([contiguous(first_values), contiguous(second_values)]), order)


def contiguous(values: Values) -> pa.Array:
    """Return ``values`` as one array.

    Taking from a chunked array concatenates its chunks every time.
    """
    if isinstance(values, pa.ChunkedArray):
        return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()
    return values
