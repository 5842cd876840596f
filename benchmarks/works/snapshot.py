"""The first content of a full subscription.

The raw client receives it, and each system's own client applies it to a replica.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import barrage_server as bs
from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.environments import python_of
from benchmarks.names import DEEPHAVEN, OURS
from benchmarks.process import Process, ProcessFailedError

WORK = "first snapshot"
RAW, APPLIED = "received raw", "applied to a replica"
_MOST_FAILURES = 4


def run(bench: Bench) -> None:
    """Each subscriber is a new one."""
    rows = bench.sizes.rows
    with systems.ours() as ours:
        bench.step("loading")
        ours.make("t", "append", rows)
        bench.step("receiving")
        raw = [_raw(ours, rows) for _ in range(bench.sizes.repeats + 1)][1:]
        bench.step("applying")
        applied = [_applied(ours, rows) for _ in range(bench.sizes.repeats + 1)][1:]
    bench.add(WORK, RAW, OURS, raw, "s")
    bench.add(WORK, APPLIED, OURS, applied, "s")
    bench.peer(DEEPHAVEN, lambda: _deephaven(bench))


def _raw(system: systems.System, rows: int) -> float:
    begin = time.perf_counter()
    with system.subscribed("t", 50) as exchange:
        exchange.first_content(rows)
        return time.perf_counter() - begin


def _applied(system: systems.System, rows: int) -> float:
    begin = time.perf_counter()
    with bs.connect(f"grpc://127.0.0.1:{system.port}") as client, client.subscribe("t", interval_ms=50) as live:
        took = time.perf_counter() - begin
        assert live.size == rows
        return took


def _deephaven(bench: Bench) -> None:
    rows, repeats = bench.sizes.rows, bench.sizes.repeats
    with systems.deephaven(cycle_ms=50, interval_ms=50, heap=bench.sizes.heap) as system:
        system.make("t", "append", rows)
        bench.warm(lambda: _raw(system, rows))
        bench.add(WORK, RAW, DEEPHAVEN, [_raw(system, rows) for _ in range(repeats)], "s")
        bench.step("its ticking client")
        seconds = list(_ticking(system, rows, max(1, repeats // 2)))
    bench.add(WORK, APPLIED, DEEPHAVEN, seconds, "s")


def _ticking(system: systems.System, rows: int, times: int) -> Iterator[float]:
    """Seconds of snapshots by Deephaven's own client, ``times`` times.

    Its connection breaks now and then, by a fault in its transport's flow control. A new one begins with a time that
    does not count.
    """
    failures = 0
    while times:
        try:
            with Process("benchmarks.clients.ticking", python=python_of("ticking")) as client:
                client.call("first_content", port=system.port, table="t", rows=rows)
                while times:
                    yield client.call("first_content", port=system.port, table="t", rows=rows)
                    times -= 1
        except ProcessFailedError:
            failures += 1
            if failures > _MOST_FAILURES:
                raise
