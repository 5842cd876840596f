"""What a change of an order has done to row keys, and which there are then: found out when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Self

import numpy as np

from barrage_server.engine.order_blocks import Blocks
from barrage_server.engine.order_leaves import Masks, Occupied
from barrage_server.engine.plan import Int64Array
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["Moves", "OrderRows"]

_FEW: Final = 1 << 18
"""Slots that have changed, up to which they are kept in any case."""
_PER_LEAF: Final = 2
"""Slots that have changed for each leaf, from which on all leaves are looked at instead."""


class Moves:
    """What a change has done to row keys. It is found out when it is asked for.

    Args:
        find: gives the three attributes.

    """

    __slots__ = ("_find", "_found")

    def __init__(self, find: Callable[[], tuple[RowSet, RowSet, RowSetShiftData]]) -> None:
        self._find = find
        self._found: tuple[RowSet, RowSet, RowSetShiftData] | None = None

    @classmethod
    def of(cls, removed: RowSet, added: RowSet, shifted: RowSetShiftData) -> Self:
        """What is known."""
        return cls(lambda: (removed, added, shifted))

    @property
    def removed(self) -> RowSet:
        """The keys of rows that have gone, and of changed rows that now have another place."""
        return self._known[0]

    @property
    def added(self) -> RowSet:
        """The keys of new rows, and of changed rows in their new place."""
        return self._known[1]

    @property
    def shifted(self) -> RowSetShiftData:
        """How the keys of others have moved."""
        return self._known[2]

    @property
    def _known(self) -> tuple[RowSet, RowSet, RowSetShiftData]:
        if self._found is None:
            self._found = self._find()
        return self._found


class OrderRows:
    """The slots of an order that hold rows. Orders of which only the keys of rows are wanted never make the row set."""

    def __init__(self) -> None:
        self._rows: RowSet | None = RowSet.empty()  # None: to be found from the leaves
        self._pending: list[tuple[Int64Array, Int64Array]] = []
        self._count = 0  # of pending slots

    @property
    def nbytes(self) -> int:
        """Bytes of the changes that have not been looked at."""
        return 8 * self._count

    def set(self, rows: RowSet) -> None:
        """These are all."""
        self._rows, self._pending, self._count = rows, [], 0

    def change(self, left: Int64Array, got: Int64Array, leaves: int) -> None:
        """Take note of a change.

        Args:
            left: the slots that rows have left, ascending.
            got: those that rows have got, ascending; they may be among ``left``.
            leaves: the number of leaves.

        """
        if self._rows is None:
            return
        self._pending.append((left, got))
        self._count += len(left) + len(got)
        if self._count > max(_FEW, _PER_LEAF * leaves):
            self._rows, self._pending, self._count = None, [], 0

    def get(self, blocks: Blocks, masks: Masks) -> RowSet:
        """The slots.

        Args:
            blocks: the blocks of the leaves.
            masks: the leaves.

        """
        rows = self._rows
        if rows is None:
            occupied = Occupied.of(masks)
            first = np.repeat(blocks.slots(np.arange(len(masks))), occupied.counts)
            rows = RowSet.from_sorted_keys(first + occupied.slots[:-1])
        for left, got in self._pending:
            rows = (rows - RowSet.from_sorted_keys(left)) | RowSet.from_sorted_keys(got)
        self.set(rows)
        return rows
