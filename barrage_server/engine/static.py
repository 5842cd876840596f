"""A table that never changes."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence

from barrage_server.engine.graph import UpdateGraph
from barrage_server.engine.schemas import SchemaLike
from barrage_server.engine.table import Table
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.view import ColumnView
from barrage_server.rowset import RowSet

__all__ = ["StaticTable"]


class StaticTable(Table):
    """A table with constant rows, for example of a version of another table.

    It shares the columns of that table.

    Args:
        graph: the update graph of the tables that it is used with.
        name: its name in messages and logs.
        schema: column names and Arrow types, in order; there may be none.
        rows: the row keys.
        views: the columns.
        nbytes: bytes of storage, including tables whose columns it shares.
        state_bytes: bytes of storage that only this table holds; ``None`` for ``nbytes``.
        kept: tables whose storage it keeps, which is counted beside these, each once.
        key_columns: the columns whose values identify a row.
        traits: the promises to subscribers.
    """

    is_refreshing = False

    def __init__(
        self,
        graph: UpdateGraph,
        name: str,
        schema: SchemaLike,
        rows: RowSet,
        views: Sequence[ColumnView],
        *,
        nbytes: int = 0,
        state_bytes: int | None = None,
        kept: Iterable[Table] = (),
        key_columns: Sequence[str] = (),
        traits: TableTraits | None = None,
    ) -> None:
        self._rows = rows
        self._views = tuple(views)
        # bytes by what they are of, so that tables that are kept in several ways count once
        self._bytes: dict[object, tuple[int, int]] = {
            object(): (nbytes, nbytes if state_bytes is None else state_bytes)
        }
        for table in kept:
            if isinstance(table, StaticTable):
                self._bytes |= table._bytes
            else:
                self._bytes[weakref.ref(table)] = table.nbytes, table.state_bytes
        super().__init__(graph, name, schema, key_columns=key_columns, traits=traits)

    @property
    def operation(self) -> str:
        """The operation of a cycle on it, for error texts: ``nothing``."""
        return "nothing"

    @property
    def nbytes(self) -> int:
        """Bytes of storage, including tables whose columns it shares; 0 of a snapshot."""
        return sum(nbytes for nbytes, _ in self._bytes.values())

    @property
    def state_bytes(self) -> int:
        """Bytes of storage that only this table holds."""
        return sum(nbytes for _, nbytes in self._bytes.values())

    def current_rows(self) -> RowSet:
        """The rows."""
        return self._rows

    def make_views(self) -> Sequence[ColumnView]:
        """The columns."""
        return self._views
