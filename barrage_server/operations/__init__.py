"""Operators that compute a table from others, and functions to derive tables."""

from __future__ import annotations

from barrage_server.arguments import instance
from barrage_server.engine import Table, UpdateGraph
from barrage_server.operations import build
from barrage_server.operations.derivation import derive

__all__ = ["derive", "empty_table"]


def empty_table(size: int, graph: UpdateGraph | None = None) -> Table:
    """A table of ``size`` rows without columns, to add computed columns to.

    >>> bs.empty_table(10).update(["x = i", "y = x * x"])

    Args:
        size: the number of rows.
        graph: the update graph of the tables that it is used with, such as ``server.graph``; its own without.

    Raises:
        InvalidRequestError: ``size`` is negative, or too large.

    """
    instance(graph, UpdateGraph, "graph")
    return build.empty_table(UpdateGraph() if graph is None else graph, size)
