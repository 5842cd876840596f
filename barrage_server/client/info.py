"""The description of a table by a server."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from barrage_server.engine.html import grid_html
from barrage_server.public import public

__all__ = ["TableInfo", "TableList"]


@public
@dataclass(frozen=True, slots=True)
class TableInfo:
    """One table of a server, as of the moment it was listed.

    Attributes:
        name: the name that ``subscribe`` and ``snapshot`` take.
        schema: the columns, without the annotations of the protocol.
        size: rows at that moment; -1 when the server does not say.
        attributes: what the server promises about the table, such as ``AppendOnly`` or ``BlinkTable``.
        key_columns: the columns whose values identify a row; empty when there are none.
        durable: whether the table is in the server's data directory, and is there again when the server starts again;
            ``None`` when the server does not say.
    """

    name: str
    schema: pa.Schema
    size: int
    attributes: dict[str, object] = field(default_factory=dict)
    key_columns: tuple[str, ...] = ()
    durable: bool | None = None

    def __repr__(self) -> str:
        columns = ", ".join(f"{column.name}: {column.type}" for column in self.schema)
        keys = f" key={list(self.key_columns)}" if self.key_columns else ""
        rows = "?" if self.size < 0 else f"{self.size:,}"
        return f"<TableInfo {self.name!r} rows={rows}{keys} ({columns})>"

    def _repr_html_(self) -> str:
        """The columns, for notebooks."""
        rows = [
            (column.name, str(column.type), "key" if column.name in self.key_columns else "") for column in self.schema
        ]
        size = "an unknown number of rows" if self.size < 0 else f"{self.size:,} rows"
        return grid_html(f"{self.name}: {size}, {len(rows)} columns", [("column", ""), ("type", ""), ("", "")], rows)


@public
class TableList(list[TableInfo]):
    """The tables of a server: a list, with a view for notebooks."""

    def _repr_html_(self) -> str:
        """One line for each table, for notebooks."""
        rows = [
            (
                info.name,
                "?" if info.size < 0 else f"{info.size:,}",
                str(len(info.schema)),
                ", ".join(info.key_columns),
                ", ".join(sorted(info.attributes)),
            )
            for info in self
        ]
        header = [(word, "") for word in ("table", "rows", "columns", "key", "attributes")]
        return grid_html(f"{len(self):,} {'table' if len(self) == 1 else 'tables'}", header, rows)
