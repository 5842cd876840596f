"""The collection of a server's statistics from its state."""

from __future__ import annotations

from collections.abc import Collection

from barrage_server.engine import Table
from barrage_server.engine.derived import DerivedTable
from barrage_server.engine.kinds import kind_name
from barrage_server.errors import ForbiddenError
from barrage_server.relay import FollowedStatistics
from barrage_server.server.access import Right
from barrage_server.server.principal import Principal
from barrage_server.server.server_state import ServerState
from barrage_server.server.statistics import ServerStatistics, TableStatistics

__all__ = ["collected", "shown_to"]


def shown_to(server_state: ServerState, principal: Principal) -> ServerStatistics:
    """The part of the current statistics that ``principal`` may see.

    Raises:
        ForbiddenError: it may see none.

    """
    access = server_state.access
    try:
        access.check_any(principal, Right.STATISTICS)
    except ForbiddenError as error:
        error.is_routine = True  # the command ``tables`` asks for them in every caller's name
        raise
    figures = server_state.statistics()
    if access.is_open:
        return figures
    return figures.of_tables(lambda name: access.allows(principal, name, Right.STATISTICS))


def collected(
    server_state: ServerState,
    *,
    uptime_seconds: float,
    evicted: int,
    sessions: int,
    exports: int,
    followed: tuple[FollowedStatistics, ...] = (),
) -> ServerStatistics:
    """The current statistics.

    The arguments after the state are figures that it does not have, named as in :class:`ServerStatistics`.
    """
    streams = server_state.streams
    exchanges = streams.subscriptions()
    listed = server_state.catalog.tables()
    served = frozenset(listed)
    tables = tuple(_figures(table, served, server_state) for table in listed)
    commits = server_state.ledger.entries().items()
    return ServerStatistics(
        uptime_seconds=uptime_seconds,
        step=server_state.catalog.graph.step,
        tables=tables,
        subscriptions=tuple(gauges for stream in exchanges if (gauges := stream.gauges()) is not None),
        uploads=streams.count("upload"),
        downloads=streams.count("download"),
        evicted=evicted,
        writer_threads=server_state.dispatcher.threads,
        staging=server_state.staging.statistics(),
        sessions=sessions,
        exports=exports,
        commits=tuple((publisher, table, batch) for (publisher, table), batch in commits),
        streams=tuple(stream.describe() for stream in streams.open()),
        retained_bytes=server_state.resumption.history.nbytes,
        results=server_state.results.statistics(),
        followed=followed,
        read_only=None if server_state.durability is None else server_state.durability.failure,
    )


def _figures(table: Table, served: Collection[Table], server_state: ServerState) -> TableStatistics:
    kind = kind_name(table)
    nodes = _unnamed(table, served) if kind == "derived" else []
    counted = {parent for node in nodes if isinstance(node, DerivedTable) for parent in node.included}
    computed = table if isinstance(table, DerivedTable) else None
    return TableStatistics(
        name=table.name,
        kind=kind,
        rows=table.size,
        nbytes=table.nbytes,
        step=table.version.step,
        subscribers=server_state.feeds.count(table),
        failed=table.failure is not None,
        state_bytes=sum(node.state_bytes for node in nodes if node not in counted),
        cycles=0 if computed is None else computed.cycles,
        changed_rows=0 if computed is None else computed.changed_rows,
        seconds=sum([node.seconds for node in nodes if isinstance(node, DerivedTable)], 0.0),
        durable=server_state.catalog.keeps(table),
    )


def _unnamed(table: Table, served: Collection[Table]) -> list[Table]:
    """The table, and those without a name that it is computed from, each once."""
    found, waiting = dict.fromkeys([table]), [table]
    while waiting:
        for parent in waiting.pop().parents:
            if kind_name(parent) == "derived" and parent not in served and parent not in found:
                found[parent] = None
                waiting.append(parent)
    return list(found)
