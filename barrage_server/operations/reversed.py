"""Columns in the opposite order of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.storage import from_storage, to_storage
from barrage_server.engine.values import take
from barrage_server.engine.view import ColumnView
from barrage_server.rowset import MAX_KEY, RowSet, RowSetShiftData

__all__ = ["Reversal", "ReversedView"]


@dataclass(frozen=True, slots=True, eq=False)
class Reversal:
    """The row keys of a table whose rows are in the opposite order.

    Attributes:
        pivot: the sum of the key of a row in one table and its key in the other.

    """

    FIRST_PIVOT: ClassVar[int] = (1 << 40) - 1

    pivot: int

    def reaching(self, rows: RowSet) -> Reversal:
        """A reversal with keys for all ``rows``: this one, or one of twice the size."""
        last = rows.last_key if rows else 0
        return self if last <= self.pivot else Reversal(min((1 << (last.bit_length() + 1)) - 1, MAX_KEY))

    def turned(self, rows: RowSet) -> RowSet:
        """The keys of ``rows`` in the other table, at the cost of their ranges."""
        if not rows:
            return rows
        if rows.is_scattered:
            return RowSet.from_sorted_keys(np.ascontiguousarray(self.pivot - rows.keys()[::-1]))
        starts, ends = rows.ranges()
        return RowSet.from_ranges(self.pivot - ends[::-1], self.pivot - starts[::-1])

    def turned_shifts(self, shifted: RowSetShiftData) -> RowSetShiftData:
        """The shifts of rows in the other table."""
        if not shifted.size:
            return shifted
        starts, ends = self.pivot - shifted.ends[::-1], self.pivot - shifted.starts[::-1]
        return RowSetShiftData.from_arrays(starts, ends, -shifted.deltas[::-1])


class ReversedView(ColumnView):
    """A column of another table, read backwards.

    Args:
        view: the column.
        reversal: the keys. One object for all columns of a version, which share the work of finding the rows.

    """

    __slots__ = ("_reversal", "_view", "depth", "is_frozen", "type")

    def __init__(self, view: ColumnView, reversal: Reversal) -> None:
        self.type = view.type
        self.is_frozen = view.is_frozen
        self.depth = view.depth + 1
        self._view = view
        self._reversal = reversal

    def read(self, plan: ReadPlan) -> pa.Array:
        """Read the rows by their keys in the other table, and reverse the values."""
        known = plan.in_source
        if known is None or known[0] is not self._reversal:
            known = plan.in_source = (self._reversal, ReadPlan.from_row_set(self._reversal.turned(plan.rows)))
        array = self._view.read(known[1])
        if len(array) < 2:
            return array
        return from_storage(take(to_storage(array), np.arange(len(array))[::-1]), self.type)

    def piece_end(self, key: int) -> int:
        """The end of the key space: values are copied in any case."""
        return max(key, self._reversal.pivot)

    def compact(self) -> None:
        """Compact the column."""
        self._view.compact()
