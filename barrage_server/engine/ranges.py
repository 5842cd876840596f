"""Ranges of numbers as arrays of their starts, and of their lengths or ends.

The end of a range is the number behind its last one. Ranges of row keys are row sets.
"""

from __future__ import annotations

import numpy as np

from barrage_server.engine.plan import Int64Array

__all__ = ["joined", "ranges_of"]


def ranges_of(starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """All numbers of ranges, one range after the other."""
    numbers = np.repeat(starts - (np.cumsum(lengths) - lengths), lengths)
    numbers += np.arange(len(numbers))
    return numbers


def joined(starts: Int64Array, ends: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Join ranges that overlap; those that only touch stay apart.

    Args:
        starts: the starts of the ranges, in any order.
        ends: their ends; no range is empty.

    Returns:
        The starts and ends of the joined ranges, ascending, and the index of the first range in each.

    """
    if not len(starts):
        return starts, ends, starts
    order = np.argsort(starts, kind="stable")  # merges presorted runs in linear time
    starts, reached = starts[order], np.maximum.accumulate(ends[order])
    is_first = np.ones(len(starts), np.bool_)
    is_first[1:] = starts[1:] >= reached[:-1]
    is_last = np.append(is_first[1:], True)
    return starts[is_first], reached[is_last], order[is_first]
