"""Upserts of random existing keys into a large keyed table.

The table has one full subscriber.
"""

from __future__ import annotations

from typing import Final

from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.names import DEEPHAVEN, OURS, PERSPECTIVE
from benchmarks.perspective import perspective
from benchmarks.steady import Steady, steady
from benchmarks.works.append import report, search

WORK: Final = "upserts of existing keys to one subscriber"
BATCH_MS: Final = 50


def run(bench: Bench) -> None:
    """From low to high, until one rate is not sustained."""
    rows, rates = bench.sizes.rows, bench.sizes.upsert_rates
    with systems.ours() as ours:
        bench.step("loading")
        ours.make("t", "keyed", rows)

        def attempt(_: str, rate: float) -> Steady:
            with ours.ticking("t", rate, BATCH_MS):
                return _steady(bench, ours, "t")

        report(bench, WORK, OURS, search(bench, OURS, rates, attempt))
    bench.peer(DEEPHAVEN, lambda: _deephaven(bench))
    bench.peer(PERSPECTIVE, lambda: _perspective(bench))


def _steady(bench: Bench, system: systems.System, name: str) -> Steady:
    rows, settle, measure = bench.sizes.rows, bench.sizes.settle, bench.sizes.measure
    return steady(
        system,
        name,
        interval_ms=BATCH_MS,
        settle=settle,
        measure=measure,
        rows=rows,
        patience=min(20.0, 2 * bench.sizes.search),
    )


def _deephaven(bench: Bench) -> None:
    """Its tables tick at the rate that they are made with, so each rate has its own."""
    rows, rates = bench.sizes.rows, bench.sizes.upsert_rates
    with systems.deephaven(cycle_ms=BATCH_MS, interval_ms=BATCH_MS, heap=bench.sizes.heap) as system:

        def attempt(name: str, rate: float) -> Steady:
            system.make(name, "keyed", rows, rate=rate)
            try:
                return _steady(bench, system, name)
            finally:
                system.drop(name)

        bench.warm(lambda: attempt("warm", rates[0]))
        found = search(bench, DEEPHAVEN, rates, attempt)
    report(bench, WORK, DEEPHAVEN, found)


def _perspective(bench: Bench) -> None:
    rows, rates = bench.sizes.rows, bench.sizes.upsert_rates
    with perspective() as system:
        system.make("t", "keyed", rows)

        def attempt(_: str, rate: float) -> Steady:
            with system.ticking("t", rate, BATCH_MS):
                settle, measure = bench.sizes.settle, bench.sizes.measure
                return system.steady("t", interval_ms=BATCH_MS, settle=settle, measure=measure)

        found = search(bench, PERSPECTIVE, [rates[0] / 500, rates[0] / 50, rates[0] / 10, *rates], attempt)
    report(bench, WORK, PERSPECTIVE, found)
