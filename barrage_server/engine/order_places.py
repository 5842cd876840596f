"""Places of new rows within the leaves of an order, and their slots there.

Most new rows fit between two rows with free slots between them, or move some rows up to the next free slot.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from barrage_server.engine.order_leaves import BITS, SLOTS, Masks, Occupied, first_slots, last_slots
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.ranges import ranges_of

__all__ = ["Fitted", "Places"]

_SPILLS: Final = 4
"""The most free leaves over which rows at the end of a leaf are spread."""

_BoolArray = npt.NDArray[np.bool_]


class Places(NamedTuple):
    """Places between the rows that stay.

    Attributes:
        leaves: the leaf of each place.
        offsets: the number of rows of the leaf before the place.
        behind: the slot of the last row before the place, or -1.
        until: the slot of the next row of the leaf, or 32.
    """

    leaves: Int64Array
    offsets: Int64Array
    behind: Int64Array
    until: Int64Array

    @classmethod
    def of(cls, leaves: Int64Array, offsets: Int64Array, occupied: Occupied, number: Int64Array) -> Self:
        """Places with ``offsets`` rows of their leaf before them.

        Args:
            leaves: the leaf of each place.
            offsets: the number of rows of the leaf before the place.
            occupied: the slots of the rows that stay.
            number: the position of each leaf in ``occupied``.
        """
        starts, counts = occupied.starts[number], occupied.counts[number]
        behind = np.where(offsets > 0, occupied.slots[starts + np.maximum(offsets - 1, 0)], -1)
        until = np.where(offsets < counts, occupied.slots[starts + np.minimum(offsets, counts)], SLOTS)
        return cls(leaves, offsets, behind, until)

    @classmethod
    def at_start(cls, count: int) -> Self:
        """``count`` places in an order without rows."""
        none = np.zeros(count, np.int64)
        return cls(none, none, none - 1, none + SLOTS)

    @classmethod
    def joined(cls, first: Int64Array, these: Places, second: Int64Array, those: Places) -> Self:
        """Two groups of places as one.

        Args:
            first: the positions of ``these`` in the result.
            these: the one group.
            second: the positions of ``those`` in the result.
            those: the other group.
        """
        parts = []
        for one, other in zip(these, those, strict=True):
            whole = np.empty(len(first) + len(second), np.int64)
            whole[first], whole[second] = one, other
            parts.append(whole)
        return cls(*parts)

    def chosen(self, which: Any) -> Places:
        """The places at the positions, or in the slice, ``which``."""
        return Places(*(part[which] for part in self))

    def with_front(self, more: int) -> Places:
        """The places after ``more`` leaves were added in front."""
        return self._replace(leaves=self.leaves + more) if more else self

    def spread(self, where: Int64Array) -> Places:
        """The places after their leaves have moved to the positions ``where``."""
        return self._replace(leaves=where[self.leaves])

    def spilled(self, masks: Masks) -> Places:
        """The places, moved to the next leaf where their leaf is full at its end.

        Places move only to leaves without rows.

        Args:
            masks: all leaves, with the rows that stay.
        """
        places = self
        for _ in range(_SPILLS):
            begins = places.begins()
            rows = np.diff(np.append(begins, len(places.leaves)))
            room = SLOTS - 1 - places.behind[begins]
            following = places.leaves[begins] + 1
            is_free = (following < len(masks)) & (masks[np.minimum(following, len(masks) - 1)] == 0)
            spills = (places.until[begins] == SLOTS) & (rows > room) & is_free
            if not spills.any():
                break
            number = np.arange(len(places.leaves)) - np.repeat(begins, rows)
            moves = np.repeat(spills, rows) & (number >= np.repeat(room, rows))
            leaves, offsets, behind, until = (part.copy() for part in places)
            leaves[moves] += 1
            offsets[moves], behind[moves] = 0, -1
            places = Places(leaves, offsets, behind, until)
        return places

    def begins(self) -> Int64Array:
        """The positions at which each distinct one of ascending places begins."""
        if not len(self.leaves):
            return self.leaves
        differs = (self.leaves[1:] != self.leaves[:-1]) | (self.offsets[1:] != self.offsets[:-1])
        return np.flatnonzero(np.append(True, differs))


class Fitted(NamedTuple):
    """The slots of new rows that fit into their leaves.

    Attributes:
        is_fitted: for each new row, whether it fits. Of one leaf all new rows fit, or none.
        slots: the slot of each row that fits, within its leaf.
        moved: the leaf of each row that is moved to make room, ascending.
        before: the slot of each of these, within its leaf.
        steps: the number of slots by which it moves: 1 or -1.
    """

    is_fitted: _BoolArray
    slots: Int64Array
    moved: Int64Array
    before: Int64Array
    steps: Int64Array

    @classmethod
    def of(cls, places: Places, was: Int64Array, masks: Masks) -> Self:
        """Fit new rows into their leaves.

        Args:
            places: the places of the rows, ascending.
            was: the former slot of each row, by the position of its leaf; negative for new rows.
            masks: all leaves, with the rows that stay.
        """
        leaves, _, behind, until = places
        if not len(leaves):
            return cls(np.zeros(0, np.bool_), *[leaves] * 4)
        begins = places.begins()
        rows = np.diff(np.append(begins, len(leaves)))
        slots = behind + 1 + np.arange(len(leaves)) - np.repeat(begins, rows)
        fits = rows <= (until - behind)[begins] - 1
        _keep(slots, places, was, begins, rows)
        # leaves of which all rows fit, or the only one
        edges = np.flatnonzero(np.append(True, np.diff(leaves[begins]) != 0))
        all_fit = np.logical_and.reduceat(fits, edges)
        heads = begins[edges]
        counts = np.diff(np.append(heads, len(leaves)))
        moving = np.flatnonzero(~all_fit & (counts == 1) & (masks[leaves[heads]] != ~np.uint32(0)))
        fitted = all_fit
        fitted[moving] = True
        rooms = _Room.of(until[heads[moving]], masks[leaves[heads[moving]]])
        slots[heads[moving]] = rooms.slots
        return cls(
            np.repeat(fitted, counts),
            slots,
            np.repeat(leaves[heads[moving]], rooms.ends - rooms.starts),
            ranges_of(rooms.starts, rooms.ends - rooms.starts),
            np.repeat(rooms.steps, rooms.ends - rooms.starts),
        )

    def with_front(self, more: int) -> Fitted:
        """The slots after ``more`` leaves were added in front."""
        return self._replace(moved=self.moved + more) if more else self

    def spread(self, where: Int64Array) -> Fitted:
        """The slots after the leaves have moved to the positions ``where``."""
        return self._replace(moved=where[self.moved])

    def without(self, leaves: _BoolArray, places: Places) -> Fitted:
        """The slots without the rows of the flagged leaves."""
        rest = ~leaves[self.moved]
        fitted = self.is_fitted & ~leaves[places.leaves]
        return Fitted(fitted, self.slots, self.moved[rest], self.before[rest], self.steps[rest])


def _keep(slots: Int64Array, places: Places, was: Int64Array, begins: Int64Array, rows: Int64Array) -> None:
    """Give the rows of a place their former slots, if these are free and in order."""
    leaves, _, behind, until = places
    former = was - (leaves << BITS)
    is_kept = (was >= 0) & (former > behind) & (former < until)
    if not is_kept.any():
        return
    ascends = np.append(True, former[1:] > former[:-1])
    ascends[begins] = True
    kept = np.repeat(np.logical_and.reduceat(is_kept & ascends, begins), rows)
    slots[kept] = former[kept]


class _Room(NamedTuple):
    """Slots for rows between two adjacent slots, each row in a leaf of its own.

    Attributes:
        slots: the slot of each row.
        starts, ends: the slots of the rows that are moved for it.
        steps: the number of slots by which these move: 1 or -1.
    """

    slots: Int64Array
    starts: Int64Array
    ends: Int64Array
    steps: Int64Array

    @classmethod
    def of(cls, until: Int64Array, masks: Masks) -> Self:
        """The slot at ``until`` of each leaf, after rows up to the next free slot move."""
        below = ((np.uint64(1) << until.astype(np.uint64)) - np.uint64(1)).astype(np.uint32)
        above, before = first_slots(~masks & ~below), last_slots(~masks & below)
        is_up = (before < 0) | ((above < SLOTS) & (above - until <= until - 1 - before))
        return cls(
            np.where(is_up, until, until - 1),
            np.where(is_up, until, before + 1),
            np.where(is_up, above, until),
            np.where(is_up, 1, -1),
        )
