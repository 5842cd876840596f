"""The rows of blink tables that have left and can still be read."""

from __future__ import annotations

from barrage_server.engine.version import TableVersion
from barrage_server.rowset import RowSet

__all__ = ["readable_with"]


def readable_with(readable: RowSet, rows: RowSet, version: TableVersion) -> RowSet:
    """The readable rows of a result, whose input never reuses row keys.

    Args:
        readable: the rows that were readable before.
        rows: the present rows of the result.
        version: the input.

    """
    return (readable | rows) & version.readable
