"""Columns of two tables for the pairs of their rows with equal keys."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.redirected import numbers_of, pick
from barrage_server.engine.view import ColumnView
from barrage_server.operations.gathered import GatheredView
from barrage_server.operations.row_places import RowPlaces
from barrage_server.rowset import RowSet

__all__ = ["LeftView", "Pairs", "RightView"]


@dataclass(frozen=True, eq=False)
class Pairs:
    """The rows of pairs by row key: the left row's key, then the right row's rank.

    The rank takes the lowest ``bits`` bits.

    Attributes:
        bits: the number of bits for ranks.
        groups: the group of each left row.
        firsts: the slot of the first right row of each group; -1 for a group without one.
        slots: the slots of right rows in their order.
        rows: the row key of the right row in each slot.

    """

    bits: int
    groups: ColumnView
    firsts: ColumnView
    slots: RowSet
    rows: ColumnView

    def places(self, plan: ReadPlan) -> _Places:
        """The rows of some pairs, found once for all columns."""
        known = plan.in_source
        if known is None or known[0] is not self:
            known = plan.in_source = (self, _Places(self, plan.keys))
        found: _Places = known[1]
        return found

    def compact(self) -> None:
        """Compact the maps."""
        for view in (self.groups, self.firsts, self.rows):
            view.compact()


class _Places:
    """The rows of some pairs; each side is computed on first use."""

    def __init__(self, pairs: Pairs, keys: Int64Array) -> None:
        self._pairs = pairs
        self._keys = keys

    @cached_property
    def left(self) -> RowPlaces:
        """The left rows."""
        keys = self._keys >> self._pairs.bits
        is_first = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
        return RowPlaces(ReadPlan.from_keys(keys[is_first]), np.cumsum(is_first) - 1, True)

    @cached_property
    def right(self) -> RowPlaces:
        """The right rows; missing for a left row without one."""
        pairs, left = self._pairs, self.left
        (first,) = pick([pairs.firsts], numbers_of(pairs.groups.read(left.plan)))
        firsts = numbers_of(first)
        begin = pairs.slots.rank(firsts)[left.places]
        there = firsts[left.places] >= 0
        ranks = self._keys & ((1 << pairs.bits) - 1)
        slots = pairs.slots.select((begin + ranks)[there])
        found = np.full(len(ranks), -1, np.int64)
        found[there] = numbers_of(pick([pairs.rows], slots)[0])
        return RowPlaces.of(found)


class LeftView(GatheredView):
    """A column of the left table, for pairs.

    Args:
        view: the column.
        pairs: the pairs. One object for all columns of a version, which share the look-up.

    """

    __slots__ = ("_pairs",)

    def __init__(self, view: ColumnView, pairs: Pairs) -> None:
        super().__init__(view, pairs)
        self._pairs = pairs

    def read(self, plan: ReadPlan) -> pa.Array:
        """Read each left row once, and repeat it."""
        return self._pairs.places(plan).left.read(self._view)


class RightView(LeftView):
    """A column of the right table, for pairs; null without a right row.

    Takes what :class:`LeftView` does.
    """

    __slots__ = ()

    def read(self, plan: ReadPlan) -> pa.Array:
        """Read the right rows in their order, and put values in their places."""
        return self._pairs.places(plan).right.read(self._view)
