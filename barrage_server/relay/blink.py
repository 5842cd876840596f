"""Blink tables that follow blink tables of other servers."""

from __future__ import annotations

import threading
from dataclasses import replace

import pyarrow as pa

from barrage_server.engine import BlinkTable, Rows, TableTraits, UpdateGraph
from barrage_server.engine.operation import Operation, OperationKind
from barrage_server.errors import UnsupportedOperationError
from barrage_server.wire.empty import empty_array

__all__ = ["BlinkSink", "FollowedBlinkTable"]


class FollowedBlinkTable(BlinkTable):
    """A blink table of upstream rows, each of which it shows for at most one cycle.

    The rows stay readable for slow subscribers. A replica drops a row when the upstream does; subscribers with longer
    intervals would miss it.
    """

    def append(self, rows: Rows) -> None:  # noqa: ARG002  (the signature is the base's)
        """Refuse rows that do not come from upstream."""
        raise UnsupportedOperationError(
            f"Table '{self.name}' follows another one and cannot be published to; choose another name."
        )

    def feed(self, rows: pa.Table) -> None:
        """Add rows from upstream."""
        super().append(rows)

    def restate(self, traits: TableTraits) -> None:
        """Take the upstream's present traits, except that rows blink."""
        self._traits = replace(traits, is_blink=True)

    def clear(self) -> None:
        """Remove all rows, because the upstream has none."""
        if self.size:
            nothing = [empty_array(data_type) for data_type in self.schema.types]
            self.graph.stage(self, Operation(OperationKind.APPEND, nothing))


class BlinkSink:
    """The target of the rows of one subscription: a new table, or the previous one.

    Args:
        graph: the graph of a new table.
        name: its name.
        before: the table to reuse, if it has the same columns.
    """

    def __init__(self, graph: UpdateGraph, name: str, before: FollowedBlinkTable | None) -> None:
        self._graph = graph
        self._name = name
        self._table = before
        self._lock = threading.Lock()

    def table(self, schema: pa.Schema) -> FollowedBlinkTable:
        """The table for rows of ``schema``."""
        with self._lock:
            if self._table is None or not self._table.schema.equals(schema):
                self._table = FollowedBlinkTable(self._graph, self._name, schema)
            return self._table

    def feed(self, rows: pa.Table) -> None:
        """Replace the rows in view. Raises InternalError for a table closed for writing."""
        table = self.table(rows.schema)
        if rows.num_rows:
            table.feed(rows)
        else:
            table.clear()

    def clear(self) -> None:
        """Remove the rows in view. Raises InternalError for a table closed for writing."""
        if self._table is not None:
            self._table.clear()
