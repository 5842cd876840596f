"""The end of subscriptions when their table is dropped, replaced or failed."""

from __future__ import annotations

from barrage_server.engine import Table
from barrage_server.errors import BarrageError, UnavailableError, UnknownTableError
from barrage_server.publish import Ledger
from barrage_server.server.streams import Streams

__all__ = ["StreamEnds"]


class StreamEnds:
    """Callbacks of the catalog and the update graph that end a table's subscriptions."""

    def __init__(self, ledger: Ledger, streams: Streams) -> None:
        self._ledger = ledger
        self._streams = streams

    def dropped(self, table: Table) -> None:
        """End them after ``table`` was dropped, and forget its publishers."""
        self._ledger.forget_table(table.name, table)
        self._end(table, UnknownTableError(f"Table '{table.name}' was dropped."))

    def replaced(self, before: Table) -> None:
        """End them after another table has taken the place of ``before``."""
        # Not UnknownTableError: the client resubscribes by itself, and finds the new table.
        self._end(before, UnavailableError(f"Table '{before.name}' was overwritten. Subscribe again."))

    def failed(self, table: Table) -> None:
        """End them after a cycle failed at ``table``."""
        try:
            table.check_usable()
        except BarrageError as error:
            self._end(table, error)

    def _end(self, table: Table, error: BarrageError) -> None:
        for stream in self._streams.subscriptions():
            if stream.follows(table):
                stream.end(error)
