"""Changes of ranks in groups, and their effect on pairs of rows."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from barrage_server.engine.plan import Int64Array
from barrage_server.engine.ranges import ranges_of
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["Ranges", "RankChanges", "Ranks"]

_BITS: Final = 40
"""Bits for ranks, where several groups are in one row set."""


class Ranges(NamedTuple):
    """Ranges of ranks, each within one group.

    Attributes:
        groups: the number of the group of each, ascending.
        starts, ends: the first and the last rank of each.
        deltas: how far each is shifted.

    """

    groups: Int64Array
    starts: Int64Array
    ends: Int64Array
    deltas: Int64Array

    @classmethod
    def none(cls) -> Ranges:
        """No ranges."""
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, nothing, nothing)

    @property
    def sizes(self) -> Int64Array:
        """The number of ranks of each."""
        sizes: Int64Array = self.ends - self.starts + 1
        return sizes

    def number_of_pairs(self, here: Int64Array) -> float:
        """The number of pairs with ``here`` rows per group of the other table."""
        return float(np.dot(self.sizes.astype(np.float64), here[self.groups].astype(np.float64)))

    def with_rows(self, rows: Int64Array, groups: Int64Array, bits: int) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The pairs of these ranges with all rows of their groups.

        Args:
            rows: the row keys of rows of the other table, by group.
            groups: the group of each.
            bits: the bits of pairs for ranks.

        Returns:
            The first and last pairs of ranges, and their shifts; int64, ascending.

        """
        firsts = np.searchsorted(groups, self.groups)
        counts = np.searchsorted(groups, self.groups, "right") - firsts
        which = np.repeat(np.arange(len(counts)), counts)
        places = ranges_of(firsts, counts)
        base = rows[places] << bits
        starts, ends = base + self.starts[which], base + self.ends[which]
        order = np.argsort(starts)
        return starts[order], ends[order], self.deltas[which][order]

    def pairs(self, rows: Int64Array, groups: Int64Array, bits: int) -> RowSet:
        """The pairs of :meth:`with_rows`, as a set."""
        starts, ends, _ = self.with_rows(rows, groups, bits)
        return RowSet.from_ranges(starts, ends)


class Ranks(NamedTuple):
    """Ranks of rows in their groups.

    Attributes:
        groups: the number of the group of each, in any order.
        ranks: their ranks.

    """

    groups: Int64Array
    ranks: Int64Array

    def as_set(self) -> RowSet:
        """The ranks as one set."""
        return RowSet.from_keys((self.groups << _BITS) | self.ranks)

    def ranges(self) -> Ranges:
        """The ranks as ranges."""
        return _ranges(self.as_set())


class RankChanges:
    """The changes of groups to which rows came and from which rows went.

    Args:
        before, after: the number of rows of each group.
        removed: the ranks before, of the rows that have gone.
        added: the ranks after, of the rows that have come.

    Attributes:
        removed, added: the same as ranges.
        shifted: the ranks, before, of those that stay and have another rank.

    """

    def __init__(self, before: Int64Array, after: Int64Array, removed: RowSet, added: RowSet) -> None:
        self.removed, self.added = _ranges(removed), _ranges(added)
        self._before, self._after = before, after
        stayed, there = _whole(before) - removed, _whole(after) - added
        shifts = RowSetShiftData.between(stayed, there)
        firsts, lasts = shifts.starts >> _BITS, shifts.ends >> _BITS
        # those that reach over several groups are cut
        counts = lasts - firsts + 1
        which = np.repeat(np.arange(len(counts)), counts)
        groups = ranges_of(firsts, counts)
        low = np.maximum(shifts.starts[which], groups << _BITS)
        high = np.minimum(shifts.ends[which], ((groups + 1) << _BITS) - 1)
        first, end = stayed.rank(low), stayed.rank(high + 1)
        some = first < end
        mask = (1 << _BITS) - 1
        self.shifted = Ranges(
            groups[some],
            stayed.select(first[some]) & mask,
            stayed.select(end[some] - 1) & mask,
            shifts.deltas[which][some],
        )

    def as_replaced(self) -> RankChanges:
        """The same groups with all rows replaced, which takes few ranges."""
        return RankChanges(self._before, self._after, _whole(self._before), _whole(self._after))


def _whole(sizes: Int64Array) -> RowSet:
    groups = np.flatnonzero(sizes)
    starts = groups << _BITS
    return RowSet.from_ranges(starts, starts + sizes[groups] - 1)


def _ranges(rows: RowSet) -> Ranges:
    starts, ends = rows.ranges()
    mask = (1 << _BITS) - 1
    return Ranges(starts >> _BITS, starts & mask, ends & mask, np.zeros(len(starts), np.int64))
