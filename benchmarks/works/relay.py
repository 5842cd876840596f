"""The cost of a relay.

A table is followed directly, and through another server of this project.
"""

from __future__ import annotations

import time
from typing import Final

from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.names import OURS
from benchmarks.works.latency import ages

RELAYED: Final = "by way of a relay"
ROWS: Final = "single rows, directly or by way of a relay"
BURST: Final = "appends as fast as they go, directly or by way of a relay"
BATCH: Final = 100_000
_PATIENCE: Final = 60.0


def run(bench: Bench) -> None:
    """The two alternate; ratios are of following directly to the relay."""
    with systems.ours() as origin, systems.ours() as relay:
        origin.make("t", "append", 0)
        relay.process.call("follow", port=origin.port, name="t", interval_ms=1)
        for system, name in ((origin, OURS), (relay, RELAYED)):
            bench.step(f"writing rows, {name}")
            waited, cores = ages(origin, bench.sizes.single, received_from=system)
            bench.timed(ROWS, "", name, waited)
            bench.add(ROWS, "server cores", name, [cores], "cores")
        origin.drop("t")
        relay.drop("t")
        rates: dict[str, list[float]] = {OURS: [], RELAYED: []}
        for number in range(bench.sizes.repeats + 1):
            for system, name in ((origin, OURS), (relay, RELAYED)):
                bench.step(f"appending, {name}")
                rate = _burst(bench, origin, system, f"{name} {number}".replace(" ", "_"))
                if number:  # the first one warms up
                    rates[name].append(rate)
    for name, found in rates.items():
        bench.add(BURST, "rows received", name, found, "rows/s", "more")


def _burst(bench: Bench, origin: systems.System, system: systems.System, table: str) -> float:
    """Rows per second until all rows appended at ``origin`` are received.

    ``system`` sends them.
    """
    rows = max(BATCH, bench.sizes.rows // 2 // BATCH * BATCH)
    origin.make(table, "append", 0)
    if system is not origin:
        system.process.call("follow", port=origin.port, name=table, interval_ms=10)
    with system.receiving(table, 10) as receiver:
        begin = time.perf_counter()
        origin.process.call("burst", name=table, rows=rows, batch=BATCH)
        while not receiver.has_caught_up(rows, _PATIENCE):
            if time.perf_counter() - begin > _PATIENCE:
                raise TimeoutError(f"{rows:,} rows were not received in {_PATIENCE:g} s")
            time.sleep(0.001)
        took = time.perf_counter() - begin
    if system is not origin:
        system.drop(table)
    origin.drop(table)
    return rows / took
