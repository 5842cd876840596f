"""Subscribers that take nothing, at a million rows per second.

The memory that the server keeps is measured, and the effect on another subscriber.

By each front.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Final

import numpy as np

from benchmarks import data, systems
from benchmarks.bench import Bench
from benchmarks.exchange import Receiver
from benchmarks.machine import MIB
from benchmarks.names import GRPC_FRONT, OURS

RING: Final = "20 subscribers that take nothing, ring"
KEYED: Final = "20 subscribers that take nothing, keyed table"
STALLED: Final = 20
_RATE: Final = 1e6
_BATCH_MS: Final = 10
_INTERVAL_MS: Final = 20


def run(bench: Bench) -> None:
    """Each of them has a connection of its own, and asks for all rows."""
    rows = bench.sizes.keyed
    for work, kind in ((RING, "ring"), (KEYED, "keyed")):
        for name, front in ((OURS, "pyarrow"), (GRPC_FRONT, "grpc")):
            _measure(bench, work, kind, rows, name, front)
            bench.keep()


def _measure(bench: Bench, work: str, kind: str, rows: int, name: str, front: str) -> None:
    """Turns without and with them; the ratio of the others' p99 is that of each pair."""
    held, alone, beside, ratios = list[float](), list[float](), list[float](), list[float]()
    for _ in range(bench.sizes.repeats):
        with systems.ours(front=front) as system, ExitStack() as stack:
            system.make("t", kind, rows)
            with system.ticking("t", _RATE, _BATCH_MS), system.receiving("t", _INTERVAL_MS) as receiver:
                bench.step(f"{kind}, front {front}, alone")
                before = _late(bench, receiver)
                resident = system.resident_bytes()
                bench.step(f"{kind}, front {front}, beside {STALLED}")
                for _ in range(STALLED):
                    stack.enter_context(system.subscribed("t", _INTERVAL_MS))
                    time.sleep(_BATCH_MS / 1000)  # each at another point of the history
                after = _late(bench, receiver)
                held.append((system.resident_bytes() - resident) / MIB)
        alone.append(1000 * before)
        beside.append(1000 * after)
        ratios.append(after / before)
    bench.add(work, "p99 of another one, alone", name, alone, "ms")
    bench.add(work, "p99 of another one, beside them", name, beside, "ms")
    bench.add(work, "p99 of another one", name, ratios, "times that without them")
    bench.add(work, "memory for all of them", name, held, "MiB")
    bench.add(work, "memory for each of them", name, [max(0.0, each) / STALLED for each in held], "MiB")
    of_table = [max(0.0, each) * MIB / (rows * data.BYTES_PER_ROW) for each in held]
    bench.add(work, "memory for all of them, by the table's", name, of_table, "times")


def _late(bench: Bench, receiver: Receiver) -> float:
    """The 99th percentile of the ages of received rows, in seconds."""
    time.sleep(bench.sizes.settle)
    begin = time.time()
    time.sleep(bench.sizes.measure)
    ages = receiver.between(begin, time.time()).ages
    return float(np.percentile(ages, 99)) if len(ages) else bench.sizes.measure
