"""The changes of a table since a version that is held."""

from __future__ import annotations

from barrage_server.engine.update import TableUpdate, coalesce
from barrage_server.rowset import RowSet

__all__ = ["PendingChanges"]


class PendingChanges:
    """Updates that are combined into one later.

    They are merged while neighbours are of like size, so that a row takes part in log(n) merges.

    They are merged while neighbours are of like size, so that a row takes part in log(n) merges.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[RowSet, TableUpdate]] = []  # each with the row set before it, oldest first

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def cells(self) -> int:
        """The approximate number of cells that the updates removed or modified."""
        return sum(
            update.removed.size * len(update.modified) + sum(rows.size for rows in update.modified)
            for _, update in self._parts
        )

    def add(self, before: RowSet, update: TableUpdate) -> None:
        """Add the next update, of a table that had the rows ``before``."""
        if update.is_empty:
            return
        self._parts.append((before, update))
        while len(self._parts) > 1 and _size(self._parts[-2][1]) <= 2 * _size(self._parts[-1][1]):
            self._merge_last()

    def take(self, column_count: int) -> TableUpdate:
        """Remove and combine all updates, of a table of ``column_count`` columns."""
        while len(self._parts) > 1:
            self._merge_last()
        return self._parts.pop()[1] if self._parts else TableUpdate.empty(column_count)

    def _merge_last(self) -> None:
        _, second = self._parts.pop()
        before, first = self._parts.pop()
        self._parts.append((before, coalesce(first, second, before)))


def _size(update: TableUpdate) -> int:
    return 1 + update.added.size + update.removed.size + update.modified_rows.size + update.shifted.size
