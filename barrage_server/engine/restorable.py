"""Source tables that can be restored: content, then repeated operations."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

import pyarrow as pa

from barrage_server.engine.operation import Operation
from barrage_server.engine.table import StoredTable
from barrage_server.engine.update import TableUpdate
from barrage_server.errors import InvalidRequestError
from barrage_server.rowset import RowSet

__all__ = ["RestorableTable"]


class RestorableTable(StoredTable):
    """A table whose content follows from its operations, row keys included.

    The same operations, in the same cycles, make the same row keys, in any process. A table that was restored goes on
    as the earlier one would have.
    """

    @abstractmethod
    def apply_operations(self, operations: Sequence[Operation]) -> TableUpdate:
        """Apply staged operations in order; returns the resulting update."""

    @property
    @abstractmethod
    def next_key(self) -> int:
        """The state, besides the rows, that decides about later row keys."""

    def restore(self, content: Iterable[Sequence[pa.Array]], rows: RowSet, next_key: int, step: int) -> None:
        """Give a new, unwritten table the rows and row keys of an earlier one.

        Args:
            content: the rows in key order, in parts: one array per column, of exactly its type. Values of columns that
                are no keys may have a dictionary.
            rows: their row keys.
            next_key: the earlier table's :attr:`next_key`.
            step: the cycle that the content is the result of.

        Raises:
            InvalidRequestError: there are not as many rows as row keys, or they do not fit.
        """
        taken = 0
        for batch in content:
            part = rows.slice(taken, taken + len(batch[0]))
            if part.size < len(batch[0]):
                break
            if part:
                self._restore_rows(part, batch)
            taken += part.size
        else:
            if taken == rows.size:
                self._resume(rows, next_key)
                self._version = self._make_version(step, TableUpdate.empty(len(self.schema)))
                return
        raise InvalidRequestError(f"There are not as many rows as row keys to restore table '{self.name}' from.")

    def _restore_rows(self, rows: RowSet, batch: Sequence[pa.Array]) -> None:
        for column, values in zip(self._store.columns, batch, strict=True):
            column.restore(rows, values)

    @abstractmethod
    def _resume(self, rows: RowSet, next_key: int) -> None:
        """Take over the written rows, and the state for later row keys."""
