"""Views: one column of one version, independent of its storage."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import pyarrow as pa

from barrage_server.engine.column import ColumnSnapshot
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.row_slots import RowSlots
from barrage_server.engine.undo import UndoCursor
from barrage_server.engine.values import take

__all__ = ["ColumnView", "StoredView"]


class ColumnView(ABC):
    """The values of one column in one version.

    They never change, and several tables may share them.

    Attributes:
        type: the Arrow type of the values.
        is_frozen: whether read arrays may share the memory of the values, because it is never written again.
        depth: the number of views between this one and storage; 0 for a stored column.
    """

    __slots__ = ()

    type: pa.DataType
    is_frozen: bool
    depth: int

    @abstractmethod
    def read(self, plan: ReadPlan) -> pa.Array:
        """The values of the rows of ``plan``, in key order, as one array.

        The array has exactly the column's type.

        Raises:
            RowSetError: there are row keys without values.
            LimitError: the values are together too large for one array.
            BarrageError: the values cannot be read from their storage. It ends the stream that reads them.
        """

    @abstractmethod
    def piece_end(self, key: int) -> int:
        """The last row key of the piece of storage of ``key``.

        Reading rows of one piece is cheapest: it may need no copy.
        """

    @abstractmethod
    def compact(self) -> None:
        """Copy the values overwritten since, and release the chain of undo records."""


class StoredView(ColumnView):
    """A column in the cells of a :class:`~barrage_server.engine.store.ColumnStore`.

    Args:
        snapshot: the cells.
        cursor: the values overwritten since.
        slots: the slots of the rows; ``None``: cells are addressed by row key.
        is_frozen: whether cells are never overwritten.
    """

    __slots__ = ("_cursor", "_slots", "_snapshot", "is_frozen", "type")

    depth = 0

    def __init__(self, snapshot: ColumnSnapshot, cursor: UndoCursor, slots: RowSlots | None, is_frozen: bool) -> None:
        self.type = snapshot.type
        self.is_frozen = is_frozen
        self._snapshot = snapshot
        self._cursor = cursor
        self._slots = slots

    def read(self, plan: ReadPlan) -> pa.Array:
        """Gather the cells, and put overwritten values back."""
        if self._slots is None:
            return self._snapshot.read(plan, self._cursor, frozen=self.is_frozen)
        cells, places = _in_slots(plan, self._slots)
        array = self._snapshot.read(cells, self._cursor, frozen=self.is_frozen)
        return array if places is None else take(array, places)

    def piece_end(self, key: int) -> int:
        """The end of a page; for rows in slots, ``key`` itself."""
        return key if self._slots is not None else key | ((1 << self._snapshot.page_bits) - 1)

    def compact(self) -> None:
        """Merge the undo records; see :meth:`ColumnView.compact`.

        The cost is proportional to the overwritten values. The columns of one version share the work.
        """
        self._cursor.compact()


def _in_slots(plan: ReadPlan, slots: RowSlots) -> tuple[ReadPlan, Int64Array | None]:
    """The slots of a plan's rows, and the position of each row, once for all columns."""
    known = plan.in_slots
    if known is None or known[0] is not slots:
        cells, order = slots.plan(plan.rows)
        places: Int64Array | None = None
        if order is not None:
            places = np.empty(len(order), np.int64)
            places[order] = np.arange(len(order), dtype=np.int64)
        known = plan.in_slots = (slots, cells, places)
    return known[1], known[2]
