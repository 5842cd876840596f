"""Resumption of subscribers: the lineage of tables, and resume points in it."""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

import pyarrow as pa

from barrage_server.engine import Table, UpdateNode
from barrage_server.subscription.history import History, TableHistory
from barrage_server.wire.resume import Era, Lineage, ResumePoint

__all__ = ["Resumption", "new_era"]

_ID_BYTES: Final = 8
_SEPARATOR: Final = "/"


def new_era(step: int = 0) -> Era:
    """The era that begins now, at ``step``."""
    return Era(secrets.token_hex(_ID_BYTES), step)


class Resumption:
    """The lineage of tables, and the resume points of returning subscribers.

    The lineage of a table, as clients see it, has two parts: the present era, and a digest of the identity of the table
    and of the schema that the client sees. A table of the data directory has one identity in all eras; every other
    table has a random identity. The digest reveals nothing about other tables, such as their number. Methods may be
    called from any thread.

    Args:
        history: the retained updates.
        clock: a monotonic clock, in seconds.

    Attributes:
        lineage: the eras of the server.

    """

    def __init__(self, history: History, clock: Callable[[], float]) -> None:
        self.history = history
        self.lineage = Lineage((new_era(),))
        self._clock = clock
        self._directory = ""
        self._durable_id: Callable[[Table], int | None] = lambda _table: None
        self._lock = threading.Lock()
        self._identities: WeakKeyDictionary[Table, str] = WeakKeyDictionary()

    def recovered(self, lineage: Lineage, directory: str, durable_id: Callable[[Table], int | None]) -> None:
        """Take over the lineage of a data directory.

        Args:
            lineage: the starts of servers with the directory, this one last.
            directory: the directory's identity, which clients do not see.
            durable_id: returns a table's number in the directory, or ``None``.

        """
        self.lineage, self._directory, self._durable_id = lineage, directory, durable_id

    def watch(self, table: Table) -> None:
        """Keep the history of a recovered table, for its former subscribers."""
        self.history.watch(table, self._clock())

    def lineage_text(self, table: Table, schema: pa.Schema) -> str:
        """The lineage of ``table`` for a client that sees ``schema``."""
        digest = hashlib.blake2b(self._identity(table).encode(), digest_size=_ID_BYTES)
        digest.update(schema.serialize())
        return f"{self.lineage.present.id}{_SEPARATOR}{digest.hexdigest()}"

    def join(self, table: Table) -> TableHistory:
        """Keep the history of ``table`` for a subscriber until :meth:`leave`."""
        return self.history.join(table, self._clock())

    def leave(self, history: TableHistory) -> None:
        """Note that a subscriber has left, and may come back."""
        self.history.leave(history, self._clock())

    def resume(self, point: ResumePoint, lineage: str, history: TableHistory) -> UpdateNode | None:
        """The point of a subscriber as a node of the table's history.

        Args:
            point: the point that the subscriber sent, which may be wrong.
            lineage: the lineage of the table for this subscriber.
            history: the retained updates of the table.

        Returns:
            The node; ``None`` when the subscriber must get a snapshot, because it followed another table, saw changes
            that a crash has lost, or was away for too long.

        """
        era, _, table = point.lineage.partition(_SEPARATOR)
        if table != lineage.partition(_SEPARATOR)[2] or not self.lineage.holds(era, point.step):
            return None
        return self.history.since(history, point.step, self._clock())

    def _identity(self, table: Table) -> str:
        number = self._durable_id(table)
        if number is not None:
            return f"{self._directory}{_SEPARATOR}{number}{_SEPARATOR}"
        with self._lock:
            known = self._identities.get(table)
            if known is None:
                known = self._identities[table] = secrets.token_hex(_ID_BYTES)
            return known
