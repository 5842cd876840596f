"""Many subscribers, each with a viewport of its own.

In each viewport one row changes ten times a second.
"""

from __future__ import annotations

from typing import Final

from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.crowd import crowd
from benchmarks.names import DEEPHAVEN
from benchmarks.servers.writer import ROWS_PER_VIEW
from benchmarks.steady import Steady

INTERVAL_MS: Final = 100


def run(bench: Bench) -> None:
    """The table has only the rows in view.

    A row of each viewport changes in each cycle.
    """
    with systems.ours() as ours:
        bench.step("watching")
        _report(bench, ours.name, _try(bench, ours, bench.sizes.measure))
    bench.peer(DEEPHAVEN, lambda: _deephaven(bench))


def _try(bench: Bench, system: systems.System, measure: float) -> Steady:
    viewers = bench.sizes.viewers
    rows = viewers * ROWS_PER_VIEW
    rate = viewers * 1000 / INTERVAL_MS
    system.make("t", "keyed", rows, rate=rate, batch_ms=INTERVAL_MS, writes="views")
    try:
        viewports = [(first, ROWS_PER_VIEW) for first in range(0, rows, ROWS_PER_VIEW)]
        return crowd(system, "t", viewports, interval_ms=INTERVAL_MS, settle=bench.sizes.settle, measure=measure)
    finally:
        system.drop("t")


def _report(bench: Bench, name: str, seen: Steady) -> None:
    work = f"{bench.sizes.viewers:,} viewport subscribers at 10 Hz"
    bench.add(work, "server cores", name, [seen.cores], "cores")
    bench.add(work, "served on time", name, [seen.on_time], "%", "more")
    bench.add(work, "messages per subscriber", name, [seen.rate], "per second", "")


def _deephaven(bench: Bench) -> None:
    with systems.deephaven(cycle_ms=INTERVAL_MS, interval_ms=INTERVAL_MS, heap=bench.sizes.heap) as system:
        bench.warm(lambda: _try(bench, system, bench.sizes.measure))
        _report(bench, DEEPHAVEN, _try(bench, system, bench.sizes.measure))
