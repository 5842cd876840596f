"""Upserts of existing keys, drawn at random, into a large keyed table with one full subscriber."""

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
    """From low to high, until one rate is not sustained twice in a row."""
    rates = bench.sizes.upsert_rates
    with systems.ours() as ours:
        report(bench, WORK, OURS, search(bench, rates, lambda name, rate: _try(bench, ours, name, rate)))
    bench.peer(DEEPHAVEN, lambda: _deephaven(bench))
    bench.peer(PERSPECTIVE, lambda: _perspective(bench))


def _try(bench: Bench, system: systems.System, name: str, rate: float) -> Steady:
    rows = bench.sizes.rows
    system.make(name, "keyed", rows, rate=rate, batch_ms=BATCH_MS)
    try:
        return steady(
            system,
            name,
            interval_ms=BATCH_MS,
            settle=bench.sizes.settle,
            measure=bench.sizes.measure,
            rows=rows,
        )
    finally:
        system.drop(name)


def _deephaven(bench: Bench) -> None:
    rates = bench.sizes.upsert_rates
    with systems.deephaven(cycle_ms=BATCH_MS, interval_ms=BATCH_MS, heap=bench.sizes.heap) as system:
        bench.warm(lambda: _try(bench, system, "warm", rates[0]))
        found = search(bench, rates, lambda name, rate: _try(bench, system, name, rate))
    report(bench, WORK, DEEPHAVEN, found)


def _perspective(bench: Bench) -> None:
    rows = bench.sizes.rows
    with perspective() as system:

        def attempt(name: str, rate: float) -> Steady:
            system.make(name, "keyed", rows, rate=rate, batch_ms=BATCH_MS)
            try:
                return system.steady(name, interval_ms=BATCH_MS, settle=bench.sizes.settle, measure=bench.sizes.measure)
            finally:
                system.drop(name)

        rates = bench.sizes.upsert_rates
        found = search(bench, [rates[0] / 10, *rates], attempt)
    report(bench, WORK, PERSPECTIVE, found)
