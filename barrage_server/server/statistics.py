"""Figures of a running server, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from barrage_server.public import public
from barrage_server.publish import StagingStatistics
from barrage_server.relay.statistics import FollowedStatistics

__all__ = ["ResultStatistics", "ServerStatistics", "StreamGauges", "SubscriptionGauges", "TableStatistics"]


@public
@dataclass(frozen=True, slots=True)
class TableStatistics:
    """One table.

    Attributes:
        name: its name.
        kind: ``append``, ``ring``, ``blink``, ``keyed`` or ``replaced``, as publishers name it; ``replica`` for a table
            that follows another, ``derived`` for a computed table.
        rows: rows in the current version.
        nbytes: bytes of storage for its columns.
        step: the cycle that changed it last.
        subscribers: subscriptions that are open.
        failed: whether it has failed in a cycle, and does not change any more.
        state_bytes: of a derived table, bytes of its own storage and of that of tables without a name that it is
            computed from; 0 for others.
        cycles: of a derived table, the number of cycles in which it followed its inputs.
        changed_rows: rows added, removed and modified in these cycles.
        seconds: processor time of these cycles, with that of tables without a name that it is computed from.
        durable: whether it is in the data directory.

    """

    name: str
    kind: str
    rows: int
    nbytes: int
    step: int
    subscribers: int
    failed: bool = False
    state_bytes: int = 0
    cycles: int = 0
    changed_rows: int = 0
    seconds: float = 0.0
    durable: bool = False


@public
@dataclass(frozen=True, slots=True)
class SubscriptionGauges:
    """One subscription stream.

    Attributes:
        table: the table's name.
        peer: the client's address.
        user: the client's name.
        messages: number of messages made for it.
        rows: number of rows with values in them.
        nbytes: Arrow bytes passed to Flight for it.
        batches: number of record batches passed to Flight for it.
        sent_step: the last cycle whose changes were sent to the client; -1 before the first snapshot is complete.
        behind: number of cycles since then.
        interval_ms: its update interval, in milliseconds.
        viewport_rows: rows in its window; ``None`` for a full subscription.
        columns: number of its columns.
        writing_seconds: seconds of the present write so far; 0 without one.
        open_seconds: seconds since the stream was opened.
        rests: whether the server makes no updates for it now, because its client has paused it (as does a hidden page),
            or has as many unread updates as it takes at a time.

    """

    table: str
    peer: str
    user: str
    messages: int
    rows: int
    nbytes: int
    batches: int
    sent_step: int
    behind: int
    interval_ms: float
    viewport_rows: int | None
    columns: int
    writing_seconds: float
    open_seconds: float
    rests: bool


@public
@dataclass(frozen=True, slots=True)
class StreamGauges:
    """One open stream of any kind.

    Attributes:
        kind: ``subscription`` for a ``DoExchange``, ``upload`` for a ``DoPut``, ``download`` for a ``DoGet``,
            ``page`` for a page over Flight, whose tables are subscriptions of their own.
        peer: the client's address.
        user: the client's name.
        table: the table's name; ``None`` before the client has named one.
        request_id: the id of the call in the log.
        open_seconds: seconds since the stream was opened.
        awaited: the client's action that the server waits for: ``take`` a message, ``send`` one, ``hang_up``; ``None``
            if it waits for none.
        awaited_seconds: seconds that it has waited; 0 if it does not wait.
        messages: number of messages with rows: sent, or received by an upload.
        nbytes: Arrow bytes of these messages.

    """

    kind: str
    peer: str
    user: str
    table: str | None
    request_id: str
    open_seconds: float
    awaited: str | None
    awaited_seconds: float
    messages: int
    nbytes: int


@public
@dataclass(frozen=True, slots=True)
class ResultStatistics:
    """One table that is computed for clients.

    Attributes:
        name: its name in messages and logs.
        operation: the name of the method that makes it, such as ``where``.
        user: the name of the first caller that asked for it.
        tables: the names of the server's tables from which it is computed.
        rows: rows in the current version.
        state_bytes: bytes of its own storage, without the storage of its inputs.
        cycles: number of cycles in which it followed its inputs; 0 for a table that cannot change.
        changed_rows: rows added, removed and modified in these cycles.
        seconds: processor time of these cycles.
        failed: whether it has failed in a cycle, and does not change any more.

    """

    name: str
    operation: str
    user: str
    tables: tuple[str, ...]
    rows: int
    state_bytes: int
    cycles: int
    changed_rows: int
    seconds: float
    failed: bool


@public
@dataclass(frozen=True, slots=True)
class ServerStatistics:
    """The whole server.

    Attributes:
        uptime_seconds: seconds since the server was made.
        step: the update graph's logical clock.
        tables: one entry per table, by name.
        subscriptions: one entry per open subscription stream.
        uploads: number of open ``DoPut`` streams.
        downloads: number of open ``DoGet`` streams.
        evicted: number of connections ended because their client read or sent nothing for too long.
        writer_threads: number of threads that serve subscriptions now.
        staging: figures of staged batches.
        sessions: number of sessions of Deephaven clients.
        exports: number of tables that these sessions hold by number, and of results kept for other clients.
        commits: entries of the ledger: (publisher, table, last batch).
        streams: one entry per open subscription, upload, download and page.
        retained_bytes: approximate bytes of the updates that are retained for returning subscribers.
        results: one entry per table computed for clients, in descending order of processor time.
        followed: one entry per table that follows a table of another server, by name.
        read_only: the reason why commits to durable tables are refused, because the data directory could not be
            written; ``None`` while they are accepted.

    """

    uptime_seconds: float
    step: int
    tables: tuple[TableStatistics, ...]
    subscriptions: tuple[SubscriptionGauges, ...]
    uploads: int
    downloads: int
    evicted: int
    writer_threads: int
    staging: StagingStatistics
    sessions: int
    exports: int
    commits: tuple[tuple[str, str, int], ...]
    streams: tuple[StreamGauges, ...] = ()
    retained_bytes: int = 0
    results: tuple[ResultStatistics, ...] = ()
    followed: tuple[FollowedStatistics, ...] = ()
    read_only: str | None = None

    def of_tables(self, allowed: Callable[[str], bool]) -> Self:
        """The statistics without entries of tables whose names are not ``allowed``."""
        return replace(
            self,
            tables=tuple(entry for entry in self.tables if allowed(entry.name)),
            subscriptions=tuple(entry for entry in self.subscriptions if allowed(entry.table)),
            streams=tuple(entry for entry in self.streams if entry.table is not None and allowed(entry.table)),
            commits=tuple(entry for entry in self.commits if allowed(entry[1])),
            results=tuple(entry for entry in self.results if all(map(allowed, entry.tables))),
            followed=tuple(entry for entry in self.followed if allowed(entry.name)),
        )
