"""A server's figures as Prometheus metrics.

Clients choose any number of names of tables, users and publishers. So no such name is a label: figures of tables are
summed by kind, and figures of subscriptions over all subscriptions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from typing import Final

from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.registry import Collector

from barrage_server.engine.kinds import KIND_NAMES
from barrage_server.relay import FollowedState, FollowedStatistics
from barrage_server.server.readiness import Readiness
from barrage_server.server.server_state import ServerState
from barrage_server.server.statistics import ServerStatistics
from barrage_server.server.streams import Traffic
from barrage_server.server.translate import error_counts

__all__ = ["Metrics", "counter", "gauge", "readiness_families", "server_families"]

_STREAM_KINDS: Final = ("subscription", "upload", "download", "page")
_PUBLISH_KINDS: Final = ("put", "commit", "update")


class Metrics(Collector):
    """The metrics of one server, and of its process, on a registry of their own.

    Args:
        families: makes the server's metrics, for each request.

    """

    def __init__(self, families: Callable[[], Iterable[Metric]]) -> None:
        self._families = families
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def describe(self) -> Iterable[Metric]:
        """Nothing: otherwise the registry would collect the metrics to find their names."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """The present metrics of the server."""
        return self._families()

    def render(self) -> tuple[bytes, str]:
        """All metrics in Prometheus's text format, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST


def gauge(name: str, text: str, value: float) -> Metric:
    """A value that rises and falls."""
    return GaugeMetricFamily(f"barrage_{name}", text, value=value)


def counter(name: str, text: str, value: float) -> Metric:
    """A value that only rises; ``_total`` is appended to its name."""
    return CounterMetricFamily(f"barrage_{name}", text, value=value)


def _gauges(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"barrage_{name}", text, labels=[label])
    for entry, value in values.items():
        family.add_metric([entry], value)
    return family


def _counters(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(f"barrage_{name}", text, labels=[label])
    for entry, value in values.items():
        family.add_metric([entry], value)
    return family


def readiness_families(readiness: Readiness) -> Iterator[Metric]:
    """The metrics of the version and the readiness of the server."""
    try:
        version = metadata.version("barrage-server")
    except metadata.PackageNotFoundError:  # run from the sources, without an installation
        version = "unknown"
    yield InfoMetricFamily("barrage_build", "The program.", value={"version": version})
    yield gauge("ready", "1 while the server is ready to serve, else 0.", float(readiness.reason is None))


def server_families(server_state: ServerState, connections: Mapping[str, int]) -> Iterator[Metric]:
    """All metrics of a server that serves; ``connections``: open ones by endpoint."""
    figures, durability = server_state.statistics(), server_state.durability
    yield from _statistics_families(figures)
    yield from _traffic_families(server_state.streams.traffic())
    yield from _publish_families(server_state.counters.publishes())
    yield _counters("errors", "Errors that clients were given, by class.", "error", error_counts())
    if durability is not None:
        yield gauge(
            "durable_read_only",
            "1 when durable tables can be read only, because of the disk.",
            durability.failure is not None,
        )
        yield gauge("journal_bytes", "Bytes of the journal since the last checkpoint.", durability.nbytes)
    yield _gauges("connections", "Connections that are open.", "endpoint", connections)
    yield from _followed_families(figures.followed)


def _statistics_families(figures: ServerStatistics) -> Iterator[Metric]:
    """The metrics of tables, subscriptions, staged batches, sessions and results."""
    yield gauge("uptime_seconds", "Seconds since the server was made.", figures.uptime_seconds)
    yield counter("cycles", "Cycles of the update graph that became visible.", figures.step)

    tables, rows, sizes = (dict.fromkeys(KIND_NAMES, 0.0) for _ in range(3))
    for table in figures.tables:
        tables[table.kind] = tables.get(table.kind, 0.0) + 1
        rows[table.kind] = rows.get(table.kind, 0.0) + table.rows
        sizes[table.kind] = sizes.get(table.kind, 0.0) + table.nbytes
    yield _gauges("tables", "Tables.", "kind", tables)
    yield _gauges("table_rows", "Rows of all tables.", "kind", rows)
    yield _gauges("table_bytes", "Bytes of storage for the columns of all tables.", "kind", sizes)

    behind = [entry.behind for entry in figures.subscriptions]
    yield gauge("subscriptions", "Subscriptions that are open.", len(figures.subscriptions))
    yield gauge("subscriptions_behind", "Subscriptions that have not been sent the last cycle.", sum(map(bool, behind)))
    yield gauge("behind_cycles_max", "Cycles that the slowest subscription has not been sent.", max(behind, default=0))
    yield gauge("behind_cycles_sum", "Cycles that subscriptions have not been sent, over all of them.", sum(behind))
    yield gauge(
        "writing_seconds_max",
        "Seconds of the longest present write to a subscriber.",
        max((entry.writing_seconds for entry in figures.subscriptions), default=0.0),
    )
    yield gauge("writer_threads", "Threads that serve subscriptions.", figures.writer_threads)

    yield gauge("staged_batches", "Batches that are staged.", figures.staging.entries)
    yield gauge("staged_rows", "Rows that are staged.", figures.staging.rows)
    yield gauge("staged_bytes", "Arrow bytes that are staged.", figures.staging.nbytes)
    yield counter("staged_expired", "Staged batches that have expired.", figures.staging.expired)
    yield gauge("ledger_entries", "Publishers and tables whose last batch is known.", len(figures.commits))

    yield counter("evictions", "Connections that were cut because their client stalled.", figures.evicted)
    yield gauge("sessions", "Sessions of Deephaven clients.", figures.sessions)
    yield gauge("exports", "Tables that clients hold by number or ticket.", figures.exports)
    yield gauge(
        "retained_bytes", "Bytes of updates that are kept for subscribers that come back.", figures.retained_bytes
    )
    yield gauge("results", "Tables that are computed for clients.", len(figures.results))
    yield gauge("result_bytes", "Bytes of their own storage.", sum(result.state_bytes for result in figures.results))
    yield gauge("results_failed", "Those that have failed.", sum(result.failed for result in figures.results))


def _traffic_families(traffic: Mapping[str, Traffic]) -> Iterator[Metric]:
    """The metrics of streams and their messages, by kind."""
    found = {kind: Traffic() for kind in _STREAM_KINDS} | dict(traffic)
    yield _gauges("streams", "Streams that are open.", "kind", {kind: entry.open for kind, entry in found.items()})
    for name, text, attribute in (
        ("streams_opened", "Streams that were opened.", "opened"),
        ("streams_refused", "Streams that were refused because of a limit.", "refused"),
        ("stream_messages", "Messages with rows that were sent, or received by uploads.", "messages"),
        ("stream_bytes", "Arrow bytes that were sent, or received by uploads.", "nbytes"),
    ):
        yield _counters(name, text, "kind", {kind: getattr(entry, attribute) for kind, entry in found.items()})


def _publish_families(publishes: Mapping[str, tuple[int, int]]) -> Iterator[Metric]:
    """The metrics of publishes and their rows, by kind."""
    found = dict.fromkeys(_PUBLISH_KINDS, (0, 0)) | dict(publishes)
    counts, rows = ({kind: float(entry[at]) for kind, entry in found.items()} for at in range(2))
    yield _counters("publishes", "Publishes by clients that were applied.", "kind", counts)
    yield _counters("published_rows", "Rows that clients have published.", "kind", rows)


def _followed_families(followed: Sequence[FollowedStatistics]) -> Iterator[Metric]:
    """The metrics of followed tables, by state."""
    counts = Counter(entry.state for entry in followed)
    states = {state.value: float(counts[state]) for state in FollowedState}
    yield _gauges("followed_tables", "Tables that follow another server.", "state", states)
    away = (entry.state_seconds for entry in followed if entry.state is not FollowedState.LIVE)
    yield gauge(
        "followed_away_seconds_max", "Seconds for which a followed table has not been live.", max(away, default=0.0)
    )
