"""All rows of a table by DoGet, received by pyarrow's client."""

from __future__ import annotations

import time

from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.names import BARE, DEEPHAVEN, OURS

WORK = "DoGet"


def run(bench: Bench) -> None:
    """This server and the bare one take turns.

    Other work of the machine falls on both.
    """
    rows = bench.sizes.rows
    with systems.bare() as bare, systems.ours() as ours:
        bench.step("loading")
        bare.make("t", "append", rows)
        ours.make("t", "append", rows)
        seconds: dict[str, list[float]] = {BARE: [], OURS: []}
        for system in (bare, ours):
            _get(system, rows)
        bench.step("reading")
        for _ in range(2 * bench.sizes.repeats):
            for system in (bare, ours):
                seconds[system.name].append(_get(system, rows))
    for name, took in seconds.items():
        bench.add(WORK, "time", name, took, "s")
    bench.peer(DEEPHAVEN, lambda: _deephaven(bench))


def _deephaven(bench: Bench) -> None:
    rows = bench.sizes.rows
    with systems.deephaven(cycle_ms=100, interval_ms=100, heap=bench.sizes.heap) as system:
        system.make("t", "append", rows)
        bench.warm(lambda: _get(system, rows))
        seconds = [_get(system, rows) for _ in range(bench.sizes.repeats)]
    bench.add(WORK, "time", DEEPHAVEN, seconds, "s")


def _get(system: systems.System, rows: int) -> float:
    begin = time.perf_counter()
    received = system.get("t")
    took = time.perf_counter() - begin
    assert received == rows
    return took
