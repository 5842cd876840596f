"""What all calls of one server share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from barrage_server.publish import Committer, Ledger, StagingArea
from barrage_server.server.catalog import Catalog
from barrage_server.server.dispatcher import Dispatcher
from barrage_server.server.durability import Durability
from barrage_server.server.limits import Limits
from barrage_server.server.statistics import ServerStatistics
from barrage_server.server.streams import Streams
from barrage_server.server.table_feeds import TableFeeds
from barrage_server.server.workers import Workers

__all__ = ["ServerState"]


@dataclass(slots=True)
class ServerState:
    """The state shared by all endpoints: tables, staged batches, open streams. Independent of Flight.

    Attributes:
        catalog: tables by name.
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
        clock: a monotonic clock, in seconds.

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
    durability: Durability | None = None
    clock: Callable[[], float] = field(default=time.monotonic)
