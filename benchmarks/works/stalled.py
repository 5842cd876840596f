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
    """Turns without and with them; ratios of the other's p99 are those of each turn.

    The other one is late while they arrive, which is measured apart: each is sent the first of its snapshot then.
    """
    held, alone, arriving, beside = list[float](), list[float](), list[float](), list[float]()
    for _ in range(bench.sizes.repeats):
        with systems.ours(front=front) as system, ExitStack() as stack:
            system.make("t", kind, rows)
            with system.ticking("t", _RATE, _BATCH_MS), system.receiving("t", _INTERVAL_MS) as receiver:
                bench.step(f"{kind}, front {front}, alone")
                before = _late(bench, receiver)
                resident = system.resident_bytes()
                bench.step(f"{kind}, front {front}, beside {STALLED}")
                began = time.time()
                for _ in range(STALLED):
                    stack.enter_context(system.subscribed("t", _INTERVAL_MS))
                    time.sleep(_BATCH_MS / 1000)  # each at another point of the history
                time.sleep(bench.sizes.settle)
                during = _p99(receiver, began)
                after = _late(bench, receiver)
                held.append((system.resident_bytes() - resident) / MIB)
        alone.append(1000 * before)
        arriving.append(1000 * during)
        beside.append(1000 * after)
    bench.add(work, "p99 of another one, alone", name, alone, "ms")
    for what, late in (("while they arrive", arriving), ("beside them", beside)):
        bench.add(work, f"p99 of another one, {what}", name, late, "ms")
    ratios = [after / before for before, after in zip(alone, beside, strict=True)]
    bench.add(work, "p99 of another one", name, ratios, "times that without them")
    bench.add(work, "memory for all of them", name, held, "MiB")
    bench.add(work, "memory for each of them", name, [max(0.0, each) / STALLED for each in held], "MiB")
    of_table = [max(0.0, each) * MIB / (rows * data.BYTES_PER_ROW) for each in held]
    bench.add(work, "memory for all of them, by the table's", name, of_table, "times")


def _late(bench: Bench, receiver: Receiver) -> float:
    """The 99th percentile of the ages of rows received in a while from now, in seconds."""
    time.sleep(bench.sizes.settle)
    begin = time.time()
    time.sleep(bench.sizes.measure)
    return _p99(receiver, begin)


def _p99(receiver: Receiver, begin: float) -> float:
    """The 99th percentile of the ages of rows received since ``begin``, in seconds."""
    end = time.time()
    ages = receiver.between(begin, end).ages
    return float(np.percentile(ages, 99)) if len(ages) else end - begin
