"""The rows of blink tables that have left and can still be read."""

from __future__ import annotations

from barrage_server.engine.version import TableVersion
from barrage_server.rowset import RowSet

__all__ = ["readable_with"]


def readable_with(readable: RowSet, rows: RowSet, version: TableVersion) -> RowSet:
    """The rows of a result that can be read, when it has ``rows`` of an input whose keys are never used again.

    Args:
        readable: those that could be read before.
        rows: those that the result has now.
        version: the input.

    """
    return (readable | rows) & version.readable
