"""The assembly of a server's state, with its graph, recovered tables and threads."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from barrage_server.engine import Table, UpdateGraph
from barrage_server.errors import JournalError
from barrage_server.journal.json_form import MALFORMED
from barrage_server.log import Throttle
from barrage_server.publish import Committer, Ledger, RefusedBatches, StagingArea
from barrage_server.server.access import AccessControl, Role
from barrage_server.server.authentication import Authentication
from barrage_server.server.catalog import Catalog, accept, never
from barrage_server.server.dispatcher import Dispatcher
from barrage_server.server.fsync import Fsync
from barrage_server.server.limits import Limits
from barrage_server.server.patterns import matcher
from barrage_server.server.resumption import Resumption
from barrage_server.server.server_state import ServerState
from barrage_server.server.statistics import ServerStatistics
from barrage_server.server.stream_ends import StreamEnds
from barrage_server.server.streams import Streams
from barrage_server.server.table_feeds import TableFeeds
from barrage_server.server.workers import Workers
from barrage_server.subscription import SubscriptionLimits
from barrage_server.subscription.history import History

if TYPE_CHECKING:
    from barrage_server.server.durability import Durability

__all__ = ["assemble"]

logger = logging.getLogger("barrage_server.server")

_REFUSED_BATCHES: Final = (200, 20.0)
"""Most lines of refused batches in the log: at once, and per second after those."""


def assemble(
    *,
    data_dir: Path | None,
    fsync: Fsync,
    limits: Limits,
    subscriptions: SubscriptionLimits,
    writers: int,
    authentication: Authentication,
    roles: Mapping[str, Role] | None,
    drop: Callable[[str], None],
    statistics: Callable[[], ServerStatistics],
    has_console: bool = False,
    release_publishers: Sequence[str] = (),
    graph: UpdateGraph | None = None,
) -> ServerState:
    """The state of a server, with the tables and the ledger of its data directory.

    The arguments are the server's, except ``graph``: an existing update graph to use.

    Raises:
        JournalError, AlreadyExistsError, ReadOnlyError, InvalidRequestError: the data directory cannot be used.
        LimitError: this process can start no further thread.

    """
    graph, ledger, dispatcher = (
        UpdateGraph() if graph is None else graph,
        Ledger(
            limits.ledger_seconds,
            limits.ledger_entries,
            single_capacity=limits.ledger_entries,
            per_principal=limits.ledger_per_caller,
        ),
        Dispatcher(writers),
    )
    resumption = Resumption(History(limits.retain_seconds, limits.retain_bytes), time.monotonic)
    durability: Durability | None = None
    is_durable: Callable[[Table], bool] = never
    keeps: Callable[[Table], bool] = never
    check_kept: Callable[[pa.Schema], object] = accept
    if data_dir is not None:
        # imported only here: most of the modules behind them read and write files
        from barrage_server.journal import content
        from barrage_server.server import durable_tables
        from barrage_server.server.durability import Durability

        durability = Durability.of_folder(data_dir, graph, fsync, resumption.watch)
        resumption.recovered(durability.lineage, durability.identity, durability.id_of)
        is_durable, keeps = durable_tables.is_durable, durability.keeps
        check_kept = content.check_kept
    staging = StagingArea(limits.staging)
    streams = Streams(
        {
            "subscription": limits.subscriptions,
            "upload": limits.uploads,
            "download": limits.downloads,
            "page": limits.pages,
        },
        limits.streams_per_caller,
    )
    ends = StreamEnds(ledger, streams)
    _listen(graph, ends)
    catalog = Catalog(
        graph,
        ends.dropped,
        ledger.pass_on,
        ends.replaced,
        columns=limits.columns,
        schema_bytes=limits.schema_bytes,
        is_durable=is_durable,
        check_kept=check_kept,
        keeps=keeps,
    )
    warn = partial(Throttle(*_REFUSED_BATCHES).log, logger, logging.WARNING)
    server_state = ServerState(
        catalog=catalog,
        staging=staging,
        ledger=ledger,
        committer=Committer(catalog, staging, ledger, RefusedBatches(warn)),
        durability=durability,
        feeds=TableFeeds(dispatcher, subscriptions),
        dispatcher=dispatcher,
        streams=streams,
        checks=Workers(os.cpu_count() or 1, "barrage-checks"),
        limits=limits,
        drop=drop,
        statistics=statistics,
        access=AccessControl(catalog, roles),
        authentication=authentication,
        resumption=resumption,
        has_console=has_console,
    )
    if durability is not None:
        try:
            _restore(server_state, durability)
            _release(server_state.ledger, release_publishers)
        except BaseException:
            durability.close()
            raise
    server_state.access.check_tables()
    return server_state


def _listen(graph: UpdateGraph, ends: StreamEnds) -> None:
    """End the streams of tables that fail, as long as ``ends`` lives.

    The graph may live longer than the server.
    """
    failed = weakref.WeakMethod(ends.failed)

    def tell(table: Table) -> None:
        if (listener := failed()) is not None:
            listener(table)

    weakref.finalize(ends, graph.add_failure_listener(tell)).atexit = False


def _release(ledger: Ledger, patterns: Sequence[str]) -> None:
    """Take publishers' names from their users."""
    for name in ledger.release(matcher(patterns)):
        logger.info("publisher name %r: released from its user", name)


def _restore(server_state: ServerState, durability: Durability) -> None:
    """Serve the recovered tables, and write later cycles to the journal."""
    recovered = durability.recovered
    try:
        server_state.catalog.restore(recovered.tables.values())
        server_state.ledger.restore((recovered.tables[one.table], one.entry) for one in recovered.ledger.values())
        server_state.ledger.expire(server_state.wall_clock())
    except MALFORMED as error:
        raise JournalError(
            f"Tables or committed batches of the data directory cannot be served: {type(error).__name__}: {error}"
        ) from error
    durability.attach(server_state.ledger.export)
    durability.start()
