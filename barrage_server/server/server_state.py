"""The state that all calls of one server share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from barrage_server.engine import Table
from barrage_server.engine.restricted import source_of
from barrage_server.errors import BarrageError
from barrage_server.publish import Committer, Ledger, StagingArea
from barrage_server.publish.delta import CheckNew
from barrage_server.server.access import AccessControl, Right
from barrage_server.server.authentication import Authentication
from barrage_server.server.catalog import Catalog
from barrage_server.server.counters import Counters
from barrage_server.server.dispatcher import Dispatcher
from barrage_server.server.export_counts import ExportCounts
from barrage_server.server.leases import Leases
from barrage_server.server.limits import Limits
from barrage_server.server.made_tables import MadeTables
from barrage_server.server.pages import Pages
from barrage_server.server.principal import Principal
from barrage_server.server.private_tables import PrivateTables
from barrage_server.server.request_rate import RequestRate
from barrage_server.server.results import Results
from barrage_server.server.resumption import Resumption
from barrage_server.server.statistics import ServerStatistics
from barrage_server.server.streams import Streams
from barrage_server.server.table_feeds import TableFeeds
from barrage_server.server.workers import Workers
from barrage_server.wire.table_facts import TableFacts

if TYPE_CHECKING:
    from barrage_server.server.durability import Durability

__all__ = ["ServerState"]


@dataclass(slots=True)
class ServerState:
    """The state shared by all endpoints, independent of Flight.

    Attributes:
        catalog: tables by name.
        access: what principals may see and do; calls look tables up there.
        authentication: checks credentials, and whether they still hold.
        resumption: the points from which returning subscribers resume.
        staging: batches that wait for their commit.
        ledger: the last batch of each publisher.
        committer: turns staged batches into deltas.
        feeds: tables with subscribers.
        dispatcher: the threads that serve subscriptions.
        streams: open streams.
        checks: threads that check uploads while they arrive.
        limits: the limits of the server.
        drop: drops a table and ends its streams.
        statistics: the current statistics.
        durability: the data directory; ``None`` without.
        counters: batches and rows published since the start.
        clock: a monotonic clock, in seconds.
        request_rate: bounds the calls of each principal, and of all principals.
        made_tables: the tables that clients have made.
        private: the tables without a name in the catalog.
        results: computes tables for clients.
        export_counts: numbers of tables that clients hold by export or ticket.
        leases: the results that are kept for clients of Arrow Flight.
        pages: the open pages of browsers and notebooks.
        has_console: whether callers with every right may run scripts.
        wall_clock: the time of day, in seconds since 1970.

    """

    catalog: Catalog
    staging: StagingArea
    ledger: Ledger
    committer: Committer
    feeds: TableFeeds
    dispatcher: Dispatcher
    streams: Streams
    checks: Workers
    limits: Limits
    drop: Callable[[str], None]
    statistics: Callable[[], ServerStatistics]
    access: AccessControl
    authentication: Authentication
    resumption: Resumption
    durability: Durability | None = None
    has_console: bool = False
    counters: Counters = field(default_factory=Counters)
    clock: Callable[[], float] = field(default=time.monotonic)
    request_rate: RequestRate = field(init=False)
    made_tables: MadeTables = field(init=False)
    private: PrivateTables = field(init=False)
    results: Results = field(init=False)
    export_counts: ExportCounts = field(init=False)
    leases: Leases = field(init=False)
    pages: Pages = field(init=False)
    wall_clock: Callable[[], float] = field(default=time.time)

    def __post_init__(self) -> None:
        self.request_rate = RequestRate(
            self.limits.requests_per_second, self.limits.total_requests_per_second, self.clock
        )
        self.made_tables = MadeTables(self.catalog, self.limits)
        self.private = PrivateTables(self.access)
        self.results = Results(self.catalog.graph, self.private, self.limits)
        self.export_counts = ExportCounts(self.limits.total_exports, self.limits.exports_per_caller)
        self.leases = Leases(self.limits.session_seconds, self.export_counts, self.clock, self.authentication.holds)
        self.pages = Pages(self)
        self.catalog.graph.clock = time.thread_time

    @contextmanager
    def making(self, principal: Principal) -> Iterator[CheckNew]:
        """Let ``principal`` make tables during the ``with`` body.

        Yields:
            A check to call right before, with the schemas of the new tables by name. It raises ForbiddenError when the
            principal lacks the right to create one, and LimitError for too many tables or columns.

        """
        with self.made_tables.making(principal) as admit:

            def check_new(tables: Mapping[str, pa.Schema]) -> None:
                for name in tables:
                    self.access.check_new(principal, name)
                admit(tables)

            yield check_new

    def facts_of(self, table: Table) -> bytes:
        """The ``app_metadata`` of the description of a table; empty for a result."""
        source = source_of(table)
        if self.catalog.find(source.name) is not source:
            return b""
        return TableFacts(self.catalog.keeps(source)).to_json()

    def end_disallowed(self) -> None:
        """End streams whose credentials no longer hold, or that roles no longer allow."""
        for stream in self.streams.open():
            try:
                self.authentication.check(stream.principal)
                for name, right, restriction in stream.needs():
                    self.access.check(stream.principal, name, right)
                    if right is Right.READ:
                        self.access.check_shown(stream.principal, name, restriction)
            except BarrageError as error:
                stream.end(error)
                self.streams.expect_end(stream, str(error), self.clock())
