"""Leaves of an order that are laid out again, and the movement of their rows."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from barrage_server.engine.order_blocks import Blocks
from barrage_server.engine.order_leaves import BITS, Occupied, Rest
from barrage_server.engine.order_places import Places
from barrage_server.engine.order_windows import Hot, Windows, lay_out
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.ranges import ranges_of
from barrage_server.rowset import RowSetShiftData

__all__ = ["LaidOut", "Movement"]

_NONE = np.zeros(0, np.int64)


class Movement(NamedTuple):
    """The slots of rows that stay, before and after a change, in order.

    All rows of leaves that are laid out are listed, and the moved rows of other leaves.

    Attributes:
        before: the slots before the change.
        after: the slots after the change.
    """

    before: Int64Array
    after: Int64Array

    def merged(self, before: Int64Array, after: Int64Array) -> Movement:
        """The movement together with the movement of other rows."""
        if not len(before):
            return self
        if not len(self.before):
            return Movement(before, after)
        all_before = np.concatenate((self.before, before))
        order = np.argsort(all_before, kind="stable")  # merges, in linear time
        return Movement(all_before[order], np.concatenate((self.after, after))[order])

    def moved(self) -> Movement:
        """The movement of the rows whose slot has changed."""
        some = np.flatnonzero(self.before != self.after)
        return Movement(self.before[some], self.after[some])

    def keep(self, came: Int64Array, was: Int64Array) -> npt.NDArray[np.bool_]:
        """Whether each changed row keeps its slot and its rank among the rows that stay.

        Args:
            came: the slots of the changed and new rows.
            was: their slots before; -1 for new rows.
        """
        stays: npt.NDArray[np.bool_] = came == was
        there = came[stays]
        stays[stays] = np.searchsorted(self.before, there) == np.searchsorted(self.after, there)
        return stays

    def shifts(self, in_place: Int64Array, is_whole: npt.NDArray[np.bool_], blocks: Blocks) -> RowSetShiftData:
        """The shifts of rows.

        Args:
            in_place: the slots of changed rows that keep their places, ascending.
            is_whole: for each leaf, whether all rows that stay in it are listed here.
            blocks: the blocks of the leaves before the change.
        """
        before, after = self
        if len(in_place):
            before, after = (np.sort(np.concatenate((part, in_place)), kind="stable") for part in self)
        if not len(before):
            return RowSetShiftData.empty()
        deltas, leaves = after - before, blocks.places(before) >> BITS
        are_listed = is_whole[leaves[1:]] & is_whole[leaves[:-1]] & (leaves[1:] - leaves[:-1] <= 1)
        is_first = np.ones(len(before), np.bool_)
        is_first[1:] = (deltas[1:] != deltas[:-1]) | ~(are_listed | (before[1:] - before[:-1] == 1))
        begins = np.flatnonzero(is_first)
        ends = np.append(begins[1:] - 1, len(before) - 1)
        moved = deltas[begins] != 0
        return RowSetShiftData.from_arrays(before[begins][moved], before[ends][moved], deltas[begins][moved])


class LaidOut(NamedTuple):
    """The rows of leaves that are laid out again.

    Attributes:
        members: the leaves.
        filled: the number of rows of each leaf, which are in its first slots.
        came: the slots of the rows that have come.
        movement: the slots of the other rows.
    """

    members: Int64Array
    filled: Int64Array
    came: Int64Array
    movement: Movement

    @classmethod
    def of(cls, windows: Windows, rest: Rest, places: Places, former: Blocks, blocks: Blocks) -> Self:
        """Lay out the leaves of windows again.

        Args:
            windows: the leaves.
            rest: the rows that stay.
            places: the places of the rows that come, ascending.
            former: the blocks of the leaves before the change.
            blocks: the blocks of the leaves after the change.
        """
        if not len(windows.starts):
            return cls(_NONE, _NONE, _NONE, Movement(_NONE, _NONE))
        members = ranges_of(windows.starts, windows.ends - windows.starts)
        occupied = Occupied.of(rest.masks[members])
        here, begins = occupied.counts, occupied.starts
        old_slots = np.repeat(former.slots(members), here) + occupied.slots[:-1]
        # new rows among those that stay
        own = np.searchsorted(members, places.leaves)
        positions = begins[own] + places.offsets + np.arange(len(own))
        is_new = np.zeros(len(old_slots) + len(own), np.bool_)
        is_new[positions] = True
        window = np.searchsorted(windows.starts, members, side="right") - 1
        rows = np.bincount(window, here, minlength=len(windows.starts)) + np.bincount(
            window[own], minlength=len(windows.starts)
        )
        hot = Hot.of(places.leaves, places.offsets)
        filled = lay_out(windows, rows.astype(np.int64), positions[hot.last] + 1)
        slots = ranges_of(blocks.slots(members), filled)
        return cls(members, filled, slots[is_new], Movement(old_slots, slots[~is_new]))
