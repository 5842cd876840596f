"""What all calls of one server share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from barrage_server.errors import BarrageError
from barrage_server.publish import Committer, Ledger, StagingArea
from barrage_server.server.access import AccessControl
from barrage_server.server.authentication import Authentication
from barrage_server.server.catalog import Catalog
from barrage_server.server.counters import Counters
from barrage_server.server.dispatcher import Dispatcher
from barrage_server.server.limits import Limits
from barrage_server.server.statistics import ServerStatistics
from barrage_server.server.streams import Streams
from barrage_server.server.table_feeds import TableFeeds
from barrage_server.server.workers import Workers

if TYPE_CHECKING:
    from barrage_server.server.durability import Durability

__all__ = ["ServerState"]


@dataclass(slots=True)
class ServerState:
    """The state shared by all endpoints: tables, staged batches, open streams. Independent of Flight.

    Attributes:
        catalog: tables by name.
        access: what principals may see and do: calls look tables up there.
        authentication: credentials, and whether they still hold.
        staging: batches that wait for their commit.
        ledger: last batches of publishers.
        committer: turns staged batches into deltas.
        followers: tables with subscribers.
        dispatcher: the threads that serve subscriptions.
        streams: open long calls.
        checks: threads that check uploads while they arrive.
        limits: the limits of the server.
        drop: drops a table and ends its streams.
        statistics: the current statistics.
        durability: the data directory; ``None`` without.
        counters: what publishers have done.
        clock: a monotonic clock, in seconds.
        wall_clock: the time of day, in seconds since 1970.

    """

    catalog: Catalog
    staging: StagingArea
    ledger: Ledger
    committer: Committer
    followers: TableFeeds
    dispatcher: Dispatcher
    streams: Streams
    checks: Workers
    limits: Limits
    drop: Callable[[str], None]
    statistics: Callable[[], ServerStatistics]
    access: AccessControl
    authentication: Authentication
    durability: Durability | None = None
    counters: Counters = field(default_factory=Counters)
    clock: Callable[[], float] = field(default=time.monotonic)
    wall_clock: Callable[[], float] = field(default=time.time)

    def end_disallowed(self) -> None:
        """End the streams whose credentials have expired or were revoked, and those that roles no longer allow."""
        for stream in self.streams.open():
            try:
                self.authentication.check(stream.principal)
                needed = stream.needs()
                if needed is not None:
                    name, right = needed
                    self.access.check(stream.principal, name, right)
            except BarrageError as error:
                stream.end(error)
