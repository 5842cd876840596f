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
        name: what clients call it.
        kind: ``append``, ``ring``, ``blink``, ``keyed`` or ``replaced``, as publishers name it; ``replica`` of a table
            that follows another, ``derived`` of one that is computed.
        rows: rows in the current version.
        nbytes: bytes of storage for its columns.
        step: the cycle that changed it last.
        subscribers: subscriptions that are open.

    """

    name: str
    kind: str
    rows: int
    nbytes: int
    step: int
    subscribers: int


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
        sent_step: the cycle up to which the client has been sent everything; -1 before the first snapshot is complete.
        behind: cycles since then.
        interval_ms: its update interval, in milliseconds.
        viewport_rows: rows in its window; ``None`` for a full subscription.
        columns: number of its columns.
        writing_seconds: seconds of the present write so far; 0 without one.
        open_seconds: seconds since the stream was opened.
        rests: whether nothing is made for it now: its client has paused it, or has as many updates to read or to paint
            as it takes at a time. So does a page that is hidden or out of view.

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
        awaited: what the server waits for: ``take`` (a message), ``send`` (one), ``hang_up``; ``None`` for nothing.
        awaited_seconds: seconds that it has waited; 0 when it waits for nothing.
        messages: number of messages with rows: sent, or received by an upload.
        nbytes: their Arrow bytes.

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
        user: who asked for it first.
        tables: the names of the tables of the server that it is computed from.
        rows: rows in the current version.
        state_bytes: bytes of its own storage, that of the tables that it is computed from not included.
        cycles: how often it has followed a change; 0 of one that cannot change.
        changed_rows: rows that were added, removed and modified then.
        seconds: processor time that this took.
        failed: whether it follows no more, because a cycle of it failed.

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
        uptime_seconds: since it was made.
        step: the update graph's logical clock.
        tables: one entry per table, by name.
        subscriptions: one entry per open subscription stream.
        uploads: ``DoPut`` streams that are open.
        downloads: ``DoGet`` streams that are open.
        evicted: connections that were ended because their client took or sent nothing for too long.
        writer_threads: number of threads that serve subscriptions now.
        staging: what is staged.
        sessions: sessions of Deephaven clients.
        exports: tables that those sessions hold by number, and results of plans that are kept for other clients.
        commits: entries of the ledger: (publisher, table, last batch).
        streams: one entry per open stream of any kind, the subscriptions too.
        retained_bytes: bytes of the updates that are retained for subscribers that come back, about.
        results: the tables that are computed for clients, the costliest first.
        followed: one entry per table that follows one of another server, by name.

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

    def of_tables(self, allowed: Callable[[str], bool]) -> Self:
        """Without the entries of other tables than those whose names are ``allowed``."""
        return replace(
            self,
            tables=tuple(entry for entry in self.tables if allowed(entry.name)),
            subscriptions=tuple(entry for entry in self.subscriptions if allowed(entry.table)),
            streams=tuple(entry for entry in self.streams if entry.table is not None and allowed(entry.table)),
            commits=tuple(entry for entry in self.commits if allowed(entry[1])),
            results=tuple(entry for entry in self.results if all(map(allowed, entry.tables))),
            followed=tuple(entry for entry in self.followed if allowed(entry.name)),
        )
