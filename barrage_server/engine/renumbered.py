"""Columns of some rows of another table, under row keys of their own without gaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.storage import from_storage, to_storage
from barrage_server.engine.types import StorageKind, storage_kind
from barrage_server.engine.values import take
from barrage_server.engine.view import ColumnView
from barrage_server.rowset import RowSet

__all__ = ["Numbering", "RenumberedView"]


@dataclass(frozen=True, slots=True, eq=False)
class Numbering:
    """The row keys of some rows: consecutive, in the order of the rows.

    Attributes:
        rows: the rows, by their keys in the table that has them.
        first: the key of the first one.

    """

    rows: RowSet
    first: int

    def keys_of(self, rows: RowSet) -> RowSet:
        """The keys of ``rows``, which must be among the numbered ones."""
        return self.rows.invert(rows).shift(self.first)

    def rows_of(self, keys: RowSet) -> RowSet:
        """The rows with these keys."""
        return self.rows.subset(keys.shift(-self.first))


class RenumberedView(ColumnView):
    """A column of another table, whose rows have the keys of a numbering.

    Args:
        view: the column.
        numbering: the keys. One object for all columns of a version, which share the work of finding the rows.

    """

    __slots__ = ("_copies", "_numbering", "_view", "depth", "is_frozen", "type")

    def __init__(self, view: ColumnView, numbering: Numbering) -> None:
        self.type = view.type
        self.is_frozen = view.is_frozen
        self.depth = view.depth + 1
        self._view = view
        self._numbering = numbering
        # A slice of a heap has the rows beside it in the bitmaps and items that it shares with them.
        self._copies = storage_kind(view.type) is StorageKind.HEAP

    def read(self, plan: ReadPlan) -> pa.Array:
        """Read the rows by the keys that they have in their table. No byte of the array is of other rows."""
        known = plan.in_source
        if known is None or known[0] is not self._numbering:
            rows = ReadPlan.from_row_set(self._numbering.rows_of(plan.rows))
            known = plan.in_source = (self._numbering, rows)
        array = self._view.read(known[1])
        if not self._copies:
            return array
        # as stored: taking list views keeps all of the items that they share
        return from_storage(take(to_storage(array), np.arange(len(array))), self.type)

    def piece_end(self, key: int) -> int:
        """The last row of the same piece of storage."""
        numbering = self._numbering
        end = self._view.piece_end(numbering.rows[key - numbering.first])
        return numbering.first + int(numbering.rows.rank([end + 1])[0]) - 1

    def compact(self) -> None:
        """As the column does."""
        self._view.compact()
