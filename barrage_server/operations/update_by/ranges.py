"""Ranges of row positions: rows to compute, and rows to read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from barrage_server.engine.plan import Int64Array
from barrage_server.engine.ranges import joined, ranges_of

__all__ = ["Flat", "Ranges"]

_NONE = np.zeros(0, np.int64)


class Ranges(NamedTuple):
    """Ascending, disjoint ranges of positions, each within one group.

    Attributes:
        first, end: the first position of each, and the position behind its last one.
        group_first, group_end: the same positions of its group.

    """

    first: Int64Array = _NONE
    end: Int64Array = _NONE
    group_first: Int64Array = _NONE
    group_end: Int64Array = _NONE

    @classmethod
    def of(cls, first: Int64Array, end: Int64Array, group_first: Int64Array, group_end: Int64Array) -> Ranges:
        """The union of ranges in any order, clipped to their groups."""
        first, end = np.maximum(first, group_first), np.minimum(end, group_end)
        some = np.flatnonzero(first < end)
        first, end, which = joined(first[some], end[some])
        return cls(first, end, group_first[some[which]], group_end[some[which]])

    @property
    def lengths(self) -> Int64Array:
        """The number of positions of each."""
        return self.end - self.first

    def positions(self) -> Int64Array:
        """All positions."""
        return ranges_of(self.first, self.lengths)

    def starts(self) -> Int64Array:
        """The index among all positions at which each range begins."""
        lengths = self.lengths
        return np.cumsum(lengths) - lengths

    def repeated(self, values: Int64Array) -> Int64Array:
        """Repeat a value per range for each of its positions."""
        return np.repeat(values, self.lengths)

    def part(self, start: int, stop: int) -> Ranges:
        """A slice of the ranges."""
        return Ranges(*(each[start:stop] for each in self))


class Flat:
    """Indices into an array of the values at all positions of ranges.

    Args:
        ranges: the ranges.

    """

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self._starts = ranges.starts()

    def places(self, positions: Int64Array) -> Int64Array:
        """The indices of positions, of which the end of a range is one, too."""
        number = np.searchsorted(self.ranges.first, positions, "right") - 1
        # an end may be the beginning of the next range: the same place, if the two are neighbours
        return positions - self.ranges.first[number] + self._starts[number]

    def bounds(self, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The indices at which the range of each position begins and ends."""
        number = np.searchsorted(self.ranges.first, positions, "right") - 1
        start = self._starts[number]
        return start, start + self.ranges.end[number] - self.ranges.first[number]
