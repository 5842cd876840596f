"""A server that is written to at a steady rate, and its subscribers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks.exchange import Receiver
from benchmarks.systems import System

__all__ = ["LATE", "Steady", "on_time", "steady"]

LATE: Final = 1.5
"""Intervals between two messages beyond which the second is late."""
_FRESH_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Steady:
    """What was seen while it was measured.

    Attributes:
        rate: rows per second that each subscriber got.
        cores: that the server's process kept busy.
        worst_age: of the youngest row of a message on arrival, in seconds; that of the stalest subscriber.
        nbytes: per row received.
        on_time: share of the messages that were due which came in time, in percent.
    """

    rate: float
    cores: float
    worst_age: float
    nbytes: float
    on_time: float

    def keeps_up(self, rate: float) -> bool:
        """Whether ``rate`` was sustained.

        All rows were received, and none was half a second old.
        """
        return self.rate >= 0.95 * rate and self.worst_age < _FRESH_SECONDS


def steady(
    system: System,
    name: str,
    *,
    interval_ms: int,
    settle: float,
    measure: float,
    subscribers: int = 1,
    rows: int = 0,
    patience: float = 40.0,
) -> Steady:
    """Subscribe, wait until the subscribers have what there is, then measure.

    Args:
        system: the server.
        name: a table that ticks.
        interval_ms: the subscribers'.
        settle: seconds to wait once they have it.
        measure: seconds to measure.
        subscribers: how many, each with a connection of its own.
        rows: that the first content has.
        patience: seconds after which it is measured even if they do not have it yet.
    """
    with ExitStack() as stack:
        receivers = [stack.enter_context(system.receiving(name, interval_ms)) for _ in range(subscribers)]
        _catch_up(receivers, rows, patience)
        time.sleep(settle)
        used, begin = system.cpu_seconds(), time.time()
        time.sleep(measure)
        used, end = system.cpu_seconds() - used, time.time()
        got = [receiver.between(begin, end) for receiver in receivers]
    took = end - begin
    received = sum(int(window.rows.sum()) for window in got)
    # a subscriber that gets nothing at all is as stale as can be
    ages = [float(window.ages.max()) if len(window.ages) else took for window in got]
    return Steady(
        rate=received / len(got) / took,
        cores=used / took,
        worst_age=max(ages),
        nbytes=sum(int(window.nbytes.sum()) for window in got) / max(1, received),
        on_time=float(np.mean([on_time(window.update_times, begin, end, interval_ms) for window in got])),
    )


def on_time(times: Sequence[float] | npt.NDArray[np.float64], begin: float, end: float, interval_ms: float) -> float:
    """The percentage of messages due from ``begin`` to ``end`` that came in time.

    A message is in time relative to the one before.
    """
    due = max(1, int((end - begin) * 1000 / interval_ms))
    gaps = np.diff(np.asarray(times), prepend=begin)
    return 100.0 * min(1.0, int(np.count_nonzero(gaps <= LATE * interval_ms / 1000)) / due)


def _catch_up(receivers: Sequence[Receiver], rows: int, patience: float) -> None:
    """Wait until all have the first content, and recent rows if ages matter."""
    end = time.monotonic() + patience
    waiting = list(receivers)
    while waiting and time.monotonic() < end:
        waiting = [receiver for receiver in waiting if not receiver.has_caught_up(rows, _FRESH_SECONDS)]
        time.sleep(0.05)
