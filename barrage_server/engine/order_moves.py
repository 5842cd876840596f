"""Changes of row keys by an order, and its rows, computed only when used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Self

import numpy as np

from barrage_server.engine.order_blocks import Blocks
from barrage_server.engine.order_leaves import Masks, Occupied
from barrage_server.engine.plan import Int64Array
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["Moves", "OrderRows"]

_FEW: Final = 1 << 12
"""Up to this number of changed slots, changes are kept in any case."""
_PER_LEAF: Final = 2
"""Changed slots per leaf from which the row set is made from all leaves instead."""


class Moves:
    """The changes of row keys by one change of an order, computed when used.

    Args:
        find: computes the three attributes.
    """

    __slots__ = ("_find", "_found")

    def __init__(self, find: Callable[[], tuple[RowSet, RowSet, RowSetShiftData]]) -> None:
        self._find = find
        self._found: tuple[RowSet, RowSet, RowSetShiftData] | None = None

    @classmethod
    def of(cls, removed: RowSet, added: RowSet, shifted: RowSetShiftData) -> Self:
        """Known changes."""
        return cls(lambda: (removed, added, shifted))

    @property
    def removed(self) -> RowSet:
        """The keys of removed rows, and the old keys of changed rows that move."""
        return self._known[0]

    @property
    def added(self) -> RowSet:
        """The keys of new rows, and the new keys of changed rows that move."""
        return self._known[1]

    @property
    def shifted(self) -> RowSetShiftData:
        """The shifts of all other rows."""
        return self._known[2]

    @property
    def _known(self) -> tuple[RowSet, RowSet, RowSetShiftData]:
        if self._found is None:
            self._found = self._find()
        return self._found


class OrderRows:
    """The slots of an order that hold rows, as a row set that is made when used."""

    def __init__(self) -> None:
        self._rows: RowSet | None = RowSet.empty()  # None: to be found from the leaves
        self._pending: list[tuple[Int64Array, Int64Array]] = []
        self._count = 0  # of pending slots

    @property
    def nbytes(self) -> int:
        """Bytes of the changes that are not in the row set yet."""
        return 8 * self._count

    def set(self, rows: RowSet) -> None:
        """Replace all slots by ``rows``."""
        self._rows, self._pending, self._count = rows, [], 0

    def change(self, left: Int64Array, got: Int64Array, leaves: int) -> None:
        """Record a change.

        Args:
            left: the slots that rows have left, ascending.
            got: the slots that rows have taken, ascending; they may be among ``left``.
            leaves: the number of leaves.
        """
        if self._rows is None:
            return
        self._pending.append((left, got))
        self._count += len(left) + len(got)
        if self._count > max(_FEW, _PER_LEAF * leaves):
            self._rows, self._pending, self._count = None, [], 0

    def get(self, blocks: Blocks, masks: Masks) -> RowSet:
        """The slots that hold rows.

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
