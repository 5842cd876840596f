"""The cost of the same change to tables of one, ten and a hundred times the size.

The exponent says how the cost grows.

Costs are milliseconds: from request to answer, of the call that writes, or ("to a subscriber") of processor time of the
server per change. Memory is MiB.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.exchange import Receiver
from benchmarks.figures import Figure
from benchmarks.machine import MIB
from benchmarks.names import OURS
from benchmarks.works.latency import ages
from benchmarks.works.viewport import WIDTH, places

CHANGED: Final = 1000
_TIMES: Final = 500

Costs = dict[str, list[tuple[float, float]]]


def run(bench: Bench) -> None:
    """Costs that should follow the change, and costs that must follow the table."""
    flat: Costs = {}
    following: Costs = {}
    for rows in bench.sizes.growth:
        bench.step(f"{rows:,} rows")
        for kind in ("append", "keyed"):
            with systems.ours() as ours:
                ours.make("t", kind, rows)
                _measure(bench, ours, kind, rows, flat, following)
    for costs, expected in ((flat, "the change"), (following, "the table")):
        for work, points in costs.items():
            figure = Figure(f"growth of {work}", "exponent", OURS, exponent(points), f"cost follows {expected}", "")
            figure.points = points
            bench.outcome.figures.append(figure)


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The slope of cost against size, both in logarithms, by least squares.

    It is 0 if size does not matter, and 1 if cost is proportional to size.
    """
    sizes, costs = np.log(np.array(points)).T
    return float(np.polyfit(sizes, costs, 1)[0])


def _measure(bench: Bench, ours: systems.System, kind: str, rows: int, flat: Costs, following: Costs) -> None:
    def keep(costs: Costs, work: str, cost: float) -> None:
        costs.setdefault(work, []).append((float(rows), cost))

    if kind == "append":
        with ours.subscribed("t", 1, (0, WIDTH)) as exchange:
            requests = [exchange.request((first, WIDTH)) for first in places(rows, bench.sizes.moves)]
            for request in requests[:100]:
                exchange.move(request)
            took = [exchange.move(request) for request in requests]
        keep(flat, "moving a viewport", float(np.median(took)) * 1e3)
        keep(following, "reading all rows by DoGet", _best(lambda: ours.get("t"), 5) * 1e3)
        keep(following, "a first snapshot, raw", _best(lambda: _snapshot(ours, rows), 5) * 1e3)
    with ours.receiving("t", 1) as receiver:
        _all_there(receiver, rows)
        if kind == "append":
            waited, _ = ages(ours, min(500, bench.sizes.single))
            keep(flat, "row written to row received", float(np.median(waited)) * 1e3)
        name = f"an {'append' if kind == 'append' else 'upsert'} of 1,000 rows"
        before = ours.cpu_seconds()
        calls = ours.process.call("burst", name="t", rows=_TIMES * CHANGED, batch=CHANGED, pause_ms=2)
        time.sleep(0.1)
        used = ours.cpu_seconds() - before
        keep(flat, f"{name} to a subscriber", used / _TIMES * 1e3)
        keep(flat, name, float(np.median(calls)) * 1e3)
    if kind == "keyed":
        keep(following, "memory of the process", ours.resident_bytes() / MIB)
        seconds = ours.process.call("replace", name="t", share=CHANGED / max(rows, CHANGED), times=3)
        keep(following, "a replace that changes 1,000 rows", min(seconds) * 1e3)


def _best(action: Callable[[], object], times: int) -> float:
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        action()
        took.append(time.perf_counter() - begin)
    return min(took)


def _snapshot(system: systems.System, rows: int) -> None:
    with system.subscribed("t", 1) as exchange:
        exchange.first_content(rows)


def _all_there(receiver: Receiver, rows: int) -> None:
    end = time.monotonic() + 30
    while sum(receiver.received.rows) < rows and time.monotonic() < end:
        time.sleep(0.01)
