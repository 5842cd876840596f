"""Appends at a steady rate to one full subscriber.

The highest sustained rate is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.names import DEEPHAVEN, OURS, PERSPECTIVE
from benchmarks.perspective import perspective
from benchmarks.process import ProcessFailedError
from benchmarks.steady import Steady, steady

WORK: Final = "append to one full subscriber"
BATCH_MS: Final = 50


def run(bench: Bench) -> None:
    """From low to high, until one rate is not sustained twice in a row."""
    with systems.ours() as ours:
        found = search(bench, OURS, bench.sizes.rates, lambda name, rate: _try(bench, ours, name, rate))
    report(bench, WORK, OURS, found)
    bench.peer(DEEPHAVEN, lambda: _deephaven(bench))
    bench.peer(PERSPECTIVE, lambda: _perspective(bench))


def search(
    bench: Bench, system: str, rates: Sequence[float], attempt: Callable[[str, float], Steady]
) -> dict[float, Steady]:
    """Try rates from low to high with new tables; returns the sustained ones.

    A server that dies at a rate, for lack of memory, has not sustained it.
    """
    end = time.monotonic() + bench.sizes.search
    sustained: dict[float, Steady] = {}
    for number, rate in enumerate(rates):
        for again in range(bench.sizes.attempts):
            if sustained and time.monotonic() > end:
                bench.outcome.notes.append(
                    f"{system}: rates from {rate / 1e6:g} M rows/s on were not tried: no time was left"
                )
                return sustained
            bench.step(f"{system}: {rate / 1e6:g} M rows/s")
            try:
                seen = attempt(f"t{number}_{again}", rate)
            except (ProcessFailedError, OSError, pa.ArrowException) as error:
                bench.outcome.notes.append(f"{system}: {rate / 1e6:g} M rows/s: {error}")
                return sustained
            if seen.keeps_up(rate):
                sustained[rate] = seen
                break
        else:
            break
    return sustained


def report(bench: Bench, work: str, system: str, sustained: dict[float, Steady]) -> None:
    """The highest rate, its cost, and the cost of a million rows per second.

    The last one is known where that rate was tried.
    """
    if not sustained:
        bench.outcome.notes.append(f"{system}: {work}: no rate that was tried is sustained")
        return
    best = max(sustained)
    bench.add(work, "sustained", system, [best], "rows/s", "more")
    bench.add(work, "server cores at that rate", system, [sustained[best].cores], "cores", "")
    million = min(sustained, key=lambda rate: abs(rate - 1e6))
    bench.add(work, "cores per million rows/s", system, [sustained[million].cores / million * 1e6], "cores")
    bench.add(work, "bytes per row on the wire", system, [sustained[million].nbytes], "bytes", "")


def _try(bench: Bench, system: systems.System, name: str, rate: float) -> Steady:
    system.make(name, "append", 0, rate=rate, batch_ms=BATCH_MS)
    try:
        return steady(
            system,
            name,
            interval_ms=BATCH_MS,
            settle=bench.sizes.settle,
            measure=bench.sizes.measure,
            # rows that the subscriber does not read in time take memory
            patience=1.0,
        )
    finally:
        system.drop(name)


def _deephaven(bench: Bench) -> None:
    with systems.deephaven(cycle_ms=BATCH_MS, interval_ms=BATCH_MS, heap=bench.sizes.heap) as system:
        bench.warm(lambda: _try(bench, system, "warm", bench.sizes.rates[0]))
        found = search(bench, DEEPHAVEN, bench.sizes.rates, lambda name, rate: _try(bench, system, name, rate))
    report(bench, WORK, DEEPHAVEN, found)


def _perspective(bench: Bench) -> None:
    with perspective() as system:

        def attempt(name: str, rate: float) -> Steady:
            system.make(name, "append", 0, rate=rate, batch_ms=BATCH_MS)
            try:
                return system.steady(name, interval_ms=BATCH_MS, settle=bench.sizes.settle, measure=bench.sizes.measure)
            finally:
                system.drop(name)

        rates = bench.sizes.rates
        found = search(bench, PERSPECTIVE, [rates[0] / 100, rates[0] / 20, rates[0] / 5, *rates], attempt)
    report(bench, WORK, PERSPECTIVE, found)
