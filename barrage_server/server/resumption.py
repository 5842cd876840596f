"""Subscribers that come back: the lineage that they are told, and the points that they name."""

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
    """What subscribers that come back are told and given. Methods may be called from any thread.

    The lineage of a table, as clients are told it, has two parts: the present era, and a digest of the identity of the
    table and of the schema that the client sees. A table of the data directory has one identity in all eras; every
    other table has a random one of its own. The digest tells nothing of other tables, such as their number.

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
            lineage: the starts with it, this one last.
            directory: its identity, which clients are not told.
            durable_id: a table's number in it.

        """
        self.lineage, self._directory, self._durable_id = lineage, directory, durable_id

    def watch(self, table: Table) -> None:
        """Keep the history of a table that is recovered, for its subscribers from before."""
        self.history.watch(table, self._clock())

    def lineage_text(self, table: Table, schema: pa.Schema) -> str:
        """The lineage of ``table`` for a client that sees ``schema``."""
        digest = hashlib.blake2b(self._identity(table).encode(), digest_size=_ID_BYTES)
        digest.update(schema.serialize())
        return f"{self.lineage.present.id}{_SEPARATOR}{digest.hexdigest()}"

    def join(self, table: Table) -> TableHistory:
        """Keep the history of ``table`` for a subscriber that may come back, until :meth:`leave`."""
        return self.history.join(table, self._clock())

    def leave(self, history: TableHistory) -> None:
        """The subscriber has left, and may come back."""
        self.history.leave(history, self._clock())

    def resume(self, point: ResumePoint, lineage: str, history: TableHistory) -> UpdateNode | None:
        """The point of a subscriber as a node of the table's history.

        Args:
            point: what it says; anything.
            lineage: that of the table, for this subscriber.
            history: the retained updates of the table.

        Returns:
            The node; ``None`` when the subscriber must have a snapshot: it followed another table, saw what a crash has
            lost, or was away for too long.

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
