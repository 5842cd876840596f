"""Rows that an operation appends and never changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from barrage_server.engine.cells import MAX_PAGE_BITS
from barrage_server.engine.operator import Change
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.update import added_since
from barrage_server.engine.view import ColumnView
from barrage_server.operations.budget import check_bytes, most_bytes
from barrage_server.rowset import RowSet

__all__ = ["AppendedRows", "added_rows"]

_PAGES_PER_CAPACITY: Final = 8
_MIN_PAGE_BITS: Final = 10


class AppendedRows:
    """Cells of rows whose keys count up from 0.

    Args:
        schema: the columns.
        capacity: the rows that are kept, which are the last ones; all without.

    Attributes:
        rows: their row keys.

    """

    def __init__(self, schema: pa.Schema, capacity: int | None = None) -> None:
        bits = MAX_PAGE_BITS
        if capacity is not None:
            bits = max(_MIN_PAGE_BITS, min(MAX_PAGE_BITS, (capacity // _PAGES_PER_CAPACITY).bit_length()))
        self._store = ColumnStore(schema, overwrites=False, page_bits=bits)
        self._capacity = capacity
        self._next_key = 0
        self._most_bytes = most_bytes()
        self.rows = RowSet.empty()

    @property
    def nbytes(self) -> int:
        """Bytes of the cells."""
        return self._store.nbytes

    def append(self, columns: Sequence[pa.Array], count: int) -> RowSet:
        """Append rows, and return their keys.

        Args:
            columns: their values; a table may have no columns.
            count: how many rows.

        Raises:
            LimitError: they take more bytes than the result may have.

        """
        added = RowSet.from_range(self._next_key, self._next_key + count - 1) if count else RowSet.empty()
        if count:
            for column, values in zip(self._store.columns, columns, strict=True):
                column.write(added, values, None)
            self._next_key += count
            if self._most_bytes < math.inf:
                check_bytes(self.nbytes, self._most_bytes)
        return added

    def settle(self) -> tuple[RowSet, RowSet]:
        """Drop rows beyond the capacity.

        Returns:
            The rows appended since the last call, and the rows dropped.

        """
        before = self.rows
        first = 0 if self._capacity is None else max(0, self._next_key - self._capacity)
        self.rows = RowSet.from_range(first, self._next_key - 1) if self._next_key > first else RowSet.empty()
        removed = before - self.rows if first else RowSet.empty()
        if first:
            for column in self._store.columns:
                column.drop_before(first)
        return self.rows - before, removed

    def views(self) -> tuple[ColumnView, ...]:
        """The columns as they are now."""
        return self._store.views()


def added_rows(change: Change) -> RowSet:
    """The rows added to a table.

    They include rows of a blink table that have left meanwhile and can still be read.
    """
    # during a cycle the history ends before it
    passed = added_since(change.before.node, change.after.node) if change.before.node.next is not None else RowSet.EMPTY
    return change.update.added | (passed & change.after.readable)
