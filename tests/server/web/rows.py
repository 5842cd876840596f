"""Rows of the tables that pages show in tests."""

from __future__ import annotations

from typing import Any

import barrage_server as bs

__all__ = ["SCHEMA", "rows_of", "rows_shown", "shown"]

SCHEMA = {"k": "int64", "text": "string", "x": "float64"}


def shown(table: bs.Table, first: int, count: int, *, reverse: bool = False) -> list[tuple[Any, ...]]:
    """What a window must show."""
    rows = [tuple(row.values()) for row in table.to_arrow().to_pylist()]
    if reverse:
        stop = max(0, len(rows) - first)
        return rows[max(0, stop - count) : stop]
    return rows[first : first + count]


def rows_of(numbers: range) -> dict[str, list[Any]]:
    return {"k": list(numbers), "text": [f"t{n}" for n in numbers], "x": [n / 2 for n in numbers]}


def rows_shown(table: bs.Table) -> list[tuple[Any, ...]]:
    """The rows of a table without times, as a page gets them."""
    return list(zip(*(column.to_pylist() for column in table.to_arrow().columns), strict=True))
