"""The figures of a relay as Prometheus metrics, without the names of tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client import Metric
from prometheus_client.metrics_core import GaugeMetricFamily

from barrage_server.relay.state import FollowedState
from barrage_server.relay.statistics import FollowedStatistics
from barrage_server.server.metrics import gauge

__all__ = ["followed_families"]


def followed_families(followed: Sequence[FollowedStatistics]) -> Iterator[Metric]:
    """Followed tables by state."""
    counts = Counter(entry.state for entry in followed)
    family = GaugeMetricFamily("barrage_followed_tables", "Tables that follow another server.", labels=["state"])
    for state in FollowedState:
        family.add_metric([state.value], counts[state])
    yield family
    away = (entry.state_seconds for entry in followed if entry.state is not FollowedState.LIVE)
    yield gauge(
        "followed_away_seconds_max", "Seconds for which a followed table has not been live.", max(away, default=0.0)
    )
