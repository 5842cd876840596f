"""100,000 rows per second appended to one table, to more and more subscribers.

They are full subscribers.
"""

from __future__ import annotations

from typing import Final

from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.names import DEEPHAVEN, PERSPECTIVE
from benchmarks.perspective import perspective
from benchmarks.steady import Steady, steady

RATE: Final = 100_000
INTERVAL_MS: Final = 100


def run(bench: Bench) -> None:
    """Each subscriber has a connection of its own."""
    with systems.ours() as ours:
        _measure(bench, ours)
    bench.peer(DEEPHAVEN, lambda: _deephaven(bench))
    bench.peer(PERSPECTIVE, lambda: _perspective(bench))


def _measure(bench: Bench, system: systems.System) -> None:
    for subscribers in bench.sizes.fans:
        bench.step(f"{system.name}: {subscribers} subscribers")
        _report(bench, system.name, subscribers, _try(bench, system, subscribers, bench.sizes.measure))


def _try(bench: Bench, system: systems.System, subscribers: int, measure: float) -> Steady:
    system.make("t", "append", 0, rate=RATE, batch_ms=INTERVAL_MS)
    try:
        return steady(
            system,
            "t",
            interval_ms=INTERVAL_MS,
            settle=bench.sizes.settle,
            measure=measure,
            subscribers=subscribers,
        )
    finally:
        system.drop("t")


def _report(bench: Bench, name: str, subscribers: int, seen: Steady) -> None:
    work = f"100 k rows/s to {subscribers} subscribers" if subscribers > 1 else "100 k rows/s to 1 subscriber"
    bench.add(work, "server cores", name, [seen.cores], "cores")
    bench.add(work, "served on time", name, [seen.on_time], "%", "more")
    bench.add(work, "rows received", name, [100 * seen.rate / RATE], "% of those written", "")


def _deephaven(bench: Bench) -> None:
    with systems.deephaven(cycle_ms=INTERVAL_MS, interval_ms=INTERVAL_MS, heap=bench.sizes.heap) as system:
        bench.warm(lambda: _try(bench, system, max(bench.sizes.fans), bench.sizes.measure))
        _measure(bench, system)


def _perspective(bench: Bench) -> None:
    with perspective() as system:
        for subscribers in bench.sizes.fans:
            bench.step(f"{PERSPECTIVE}: {subscribers} subscribers")
            system.make("t", "append", 0, rate=RATE, batch_ms=INTERVAL_MS)
            seen = system.steady(
                "t",
                interval_ms=INTERVAL_MS,
                settle=bench.sizes.settle,
                measure=bench.sizes.measure,
                subscribers=subscribers,
            )
            _report(bench, PERSPECTIVE, subscribers, seen)
            system.drop("t")
