"""The tables of a server as a tuple with a view for notebooks."""

from __future__ import annotations

from collections.abc import Sequence

from barrage_server.engine import Table
from barrage_server.engine.html import grid_html
from barrage_server.public import public

__all__ = ["ServedTables", "tables_html"]


@public
class ServedTables(tuple[Table, ...]):
    """The tables of a server, by name: a tuple, with a view for notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        """A line per table."""
        return tables_html("", self)


def tables_html(title: str, tables: Sequence[Table]) -> str:
    """A line per table, below ``title`` and the number of tables."""
    rows = [
        (table.name, type(table).__name__, f"{table.size:,}", str(len(table.schema)), ", ".join(table.key_columns))
        for table in tables
    ]
    count = f"{len(tables):,} {'table' if len(tables) == 1 else 'tables'}"
    header = [(word, "") for word in ("table", "kind", "rows", "columns", "key")]
    return grid_html(f"{title}, {count}" if title else count, header, rows)
