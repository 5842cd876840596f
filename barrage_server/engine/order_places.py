"""Where new rows belong within the leaves of an order, and which of them find a slot there.

Most of them come between rows that have free slots between them, or move some rows up to the next free slot.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from barrage_server.engine.order_leaves import BITS, SLOTS, Masks, Occupied, first_slots, last_slots
from barrage_server.engine.order_windows import ranges
from barrage_server.engine.plan import Int64Array

__all__ = ["Fitted", "Places"]

_SPILLS: Final = 4
"""Free leaves that rows at the end of one are spread over."""

_BoolArray = npt.NDArray[np.bool_]


class Places(NamedTuple):
    """Places between the rows that stay.

    Attributes:
        leaves: of each place its leaf.
        offsets: the rows of the leaf that come before it.
        behind: the slot of the last one of these, or -1.
        until: the slot of the next row of the leaf, or 32.

    """

    leaves: Int64Array
    offsets: Int64Array
    behind: Int64Array
    until: Int64Array

    @classmethod
    def of(cls, leaves: Int64Array, offsets: Int64Array, occupied: Occupied, number: Int64Array) -> Self:
        """Places by what is before them; ``number`` says which of ``occupied`` each leaf is."""
        starts, counts = occupied.starts[number], occupied.counts[number]
        behind = np.where(offsets > 0, occupied.slots[starts + np.maximum(offsets - 1, 0)], -1)
        until = np.where(offsets < counts, occupied.slots[starts + np.minimum(offsets, counts)], SLOTS)
        return cls(leaves, offsets, behind, until)

    @classmethod
    def at_start(cls, count: int) -> Self:
        """Places in an order without rows."""
        none = np.zeros(count, np.int64)
        return cls(none, none, none - 1, none + SLOTS)

    @classmethod
    def joined(cls, first: Int64Array, these: Places, second: Int64Array, those: Places) -> Self:
        """Places by their positions: ``these`` are at ``first``, ``those`` at ``second``."""
        parts = []
        for one, other in zip(these, those, strict=True):
            whole = np.empty(len(first) + len(second), np.int64)
            whole[first], whole[second] = one, other
            parts.append(whole)
        return cls(*parts)

    def chosen(self, which: Any) -> Places:
        """Some of them."""
        return Places(*(part[which] for part in self))

    def with_front(self, more: int) -> Places:
        """The same with ``more`` leaves in front."""
        return self._replace(leaves=self.leaves + more) if more else self

    def spread(self, where: Int64Array) -> Places:
        """The same when the leaves have the positions ``where``."""
        return self._replace(leaves=where[self.leaves])

    def spilled(self, masks: Masks) -> Places:
        """The same, but those for which there is no room at the end of their leaf are in the next one, if it is free.

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
        """Of places in ascending order, where each different one begins."""
        if not len(self.leaves):
            return self.leaves
        differs = (self.leaves[1:] != self.leaves[:-1]) | (self.offsets[1:] != self.offsets[:-1])
        return np.flatnonzero(np.append(True, differs))


class Fitted(NamedTuple):
    """New rows that find slots in their leaves.

    Attributes:
        is_fitted: of each new row, whether it does. Of a leaf all do, or none.
        slots: the slot of each that does, within its leaf.
        moved: the leaf of each row that is moved for one of them, ascending.
        before: its slot, within its leaf.
        steps: how far it moves: 1 or -1.

    """

    is_fitted: _BoolArray
    slots: Int64Array
    moved: Int64Array
    before: Int64Array
    steps: Int64Array

    @classmethod
    def of(cls, places: Places, was: Int64Array, masks: Masks) -> Self:
        """Those of some new rows.

        Args:
            places: of the rows, ascending.
            was: the slot that each has had, by the position of its leaf; negative if it is new.
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
            ranges(rooms.starts, rooms.ends),
            np.repeat(rooms.steps, rooms.ends - rooms.starts),
        )

    def with_front(self, more: int) -> Fitted:
        """The same with ``more`` leaves in front."""
        return self._replace(moved=self.moved + more) if more else self

    def spread(self, where: Int64Array) -> Fitted:
        """The same when the leaves have the positions ``where``."""
        return self._replace(moved=where[self.moved])

    def without(self, leaves: _BoolArray, places: Places) -> Fitted:
        """The same without the rows of the leaves that are flagged."""
        rest = ~leaves[self.moved]
        fitted = self.is_fitted & ~leaves[places.leaves]
        return Fitted(fitted, self.slots, self.moved[rest], self.before[rest], self.steps[rest])


def _keep(slots: Int64Array, places: Places, was: Int64Array, begins: Int64Array, rows: Int64Array) -> None:
    """Give the rows of a place the slots that they have had, if these are there and in order."""
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
    """Slots for rows between two rows that have none between them; each in a leaf of its own.

    Attributes:
        slots: of each row its slot.
        starts, ends: the slots of rows that are moved for it.
        steps: how far they move: 1 or -1.

    """

    slots: Int64Array
    starts: Int64Array
    ends: Int64Array
    steps: Int64Array

    @classmethod
    def of(cls, until: Int64Array, masks: Masks) -> Self:
        """Those before the slots ``until`` of leaves, which have room: at the next free slot."""
        below = ((np.uint64(1) << until.astype(np.uint64)) - np.uint64(1)).astype(np.uint32)
        above, before = first_slots(~masks & ~below), last_slots(~masks & below)
        is_up = (before < 0) | ((above < SLOTS) & (above - until <= until - 1 - before))
        return cls(
            np.where(is_up, until, until - 1),
            np.where(is_up, until, before + 1),
            np.where(is_up, above, until),
            np.where(is_up, 1, -1),
        )
