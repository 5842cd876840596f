"""What is known of a table that a plan computes, and the tables that plans begin with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from .random_formulas import Column

__all__ = ["SOURCES", "PlannedTable"]


@dataclass(frozen=True)
class PlannedTable:
    """A table that is computed from others.

    Attributes:
        text: the expression that computes it.
        columns: its columns.
        ordered: the order of its rows is the same on every server.
        grows: rows only come, at the end, and stay as they are.
        unique: sets of columns that no two rows have the same cells in.
        rows: how many rows it has at most.
        batch: the text is a chain of calls that begins at a table, and can be one query.
    """

    text: str
    columns: dict[str, Column]
    ordered: bool = True
    grows: bool = False
    unique: frozenset[frozenset[str]] = frozenset()
    rows: int = 100
    batch: bool = field(default=True, compare=False)

    def call(self, call: str, **changes: Any) -> PlannedTable:
        """The result of a method; what is not said of it is as before."""
        return replace(self, text=f"{self.text}.{call}", **changes)

    @property
    def keys(self) -> list[str]:
        """Columns that rows can be chosen, ordered and grouped by."""
        return [name for name, column in self.columns.items() if column.is_key]

    def still_unique(self, names: set[str]) -> frozenset[frozenset[str]]:
        """The sets that are within ``names``, which are as they were."""
        return frozenset(one for one in self.unique if one <= names)


_SHARED: Final = {
    "id": Column("long"),
    "sym": Column("String"),
    "level": Column("int", fine=True),
    "at": Column("Instant"),
    "moment": Column("Instant"),
    "tiny": Column("byte", fine=True),
    "small": Column("short", fine=True),
    "whole": Column("int"),
    "large": Column("long"),
    "single": Column("float", fine=True),
    "price": Column("double", fine=True),
    "wild": Column("double", fine=True, wild=True),
    "text": Column("String"),
    "flag": Column("boolean"),
}
SOURCES: Final = {
    "grown": PlannedTable("grown", _SHARED, grows=True, unique=frozenset([frozenset(["id"])])),
    "keyed": PlannedTable("keyed", _SHARED, unique=frozenset([frozenset(["id"])])),
    "lookup": PlannedTable(
        "lookup",
        {
            "sym": Column("String"),
            "rank": Column("int", fine=True),
            "rate": Column("double", fine=True),
            "since": Column("Instant"),
        },
        unique=frozenset([frozenset(["sym"])]),
        rows=8,
    ),
}
