"""Ranges of row positions: the rows to compute anew, and those that are read for that."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from barrage_server.engine.plan import Int64Array
from barrage_server.operations.members import ranges_of

__all__ = ["Flat", "Ranges"]

_NONE = np.zeros(0, np.int64)


class Ranges(NamedTuple):
    """Ranges of positions, ascending, which do not meet. Each is of one group, with the bounds of that group.

    Attributes:
        first, end: the first position of each, and that behind its last one.
        group_first, group_end: those of its group.

    """

    first: Int64Array = _NONE
    end: Int64Array = _NONE
    group_first: Int64Array = _NONE
    group_end: Int64Array = _NONE

    @classmethod
    def of(cls, first: Int64Array, end: Int64Array, group_first: Int64Array, group_end: Int64Array) -> Ranges:
        """The union of ranges in any order, cut to their groups."""
        first, end = np.maximum(first, group_first), np.minimum(end, group_end)
        order = np.argsort(first, kind="stable")
        order = order[first[order] < end[order]]
        first, end = first[order], end[order]
        if not len(first):
            return cls()
        furthest = np.maximum.accumulate(end)
        begins = np.append(True, first[1:] >= furthest[:-1])
        ends = np.append(begins[1:], True)
        return cls(first[begins], furthest[ends], group_first[order][begins], group_end[order][begins])

    @property
    def lengths(self) -> Int64Array:
        """The number of positions of each."""
        return self.end - self.first

    def positions(self) -> Int64Array:
        """All positions."""
        return ranges_of(self.first, self.lengths)

    def starts(self) -> Int64Array:
        """Where each range begins among all positions."""
        lengths = self.lengths
        return np.cumsum(lengths) - lengths

    def repeated(self, values: Int64Array) -> Int64Array:
        """A value of each range, for each of its positions."""
        return np.repeat(values, self.lengths)

    def part(self, start: int, stop: int) -> Ranges:
        """Some of the ranges."""
        return Ranges(*(each[start:stop] for each in self))


class Flat:
    """Places in an array of the values at all positions of some ranges.

    Args:
        ranges: the ranges.

    """

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self._starts = ranges.starts()

    def places(self, positions: Int64Array) -> Int64Array:
        """The places of positions; that behind the last one of a range is allowed, as an end."""
        number = np.searchsorted(self.ranges.first, positions, "right") - 1
        # an end may be the beginning of the next range: the same place, if the two are neighbours
        return positions - self.ranges.first[number] + self._starts[number]

    def bounds(self, positions: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The places of the first position of the range that each position is in, and that behind its last one."""
        number = np.searchsorted(self.ranges.first, positions, "right") - 1
        start = self._starts[number]
        return start, start + self.ranges.end[number] - self.ranges.first[number]
