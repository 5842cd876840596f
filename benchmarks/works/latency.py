"""Single rows, from just before their write until a subscriber has them.

The write is a call in the server.
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np

from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.names import DEEPHAVEN, PERSPECTIVE
from benchmarks.perspective import perspective

WORK: Final = "row written to row received, 1 ms interval"
PAUSE_MS: Final = 2


def run(bench: Bench) -> None:
    """A row each two milliseconds, an update interval of one."""
    with systems.ours() as ours:
        ours.make("t", "append", 0)
        _measure(bench, ours)
    bench.peer(DEEPHAVEN, lambda: _deephaven(bench))
    bench.peer(PERSPECTIVE, lambda: _perspective(bench))


def ages(
    system: systems.System, count: int, *, received_from: systems.System | None = None
) -> tuple[list[float], float]:
    """Write ``count`` rows to the table ``t``.

    Returns the age of each update on arrival in seconds, and the server's cores.

    With ``received_from``, a server that follows this one, they are received from there, and its cores count.
    """
    source = received_from or system
    with source.receiving("t", 1) as receiver:
        while not receiver.received.updates:
            time.sleep(0.001)  # the first content, which may be empty
        used, begin = source.cpu_seconds(), time.time()
        system.process.call("write", name="t", count=count, pause_ms=PAUSE_MS)
        used, end = source.cpu_seconds() - used, time.time()
        time.sleep(0.05)
        window = receiver.between(begin, time.time())
    # of a message with two rows the older one counts
    waited = (window.at - window.oldest)[window.rows > 0]
    return list(waited), used / (end - begin)


def _measure(bench: Bench, system: systems.System) -> None:
    bench.step("writing rows")
    waited, cores = ages(system, bench.sizes.single)
    bench.timed(WORK, "", system.name, waited)
    bench.add(WORK, "server cores", system.name, [cores], "cores")


def _deephaven(bench: Bench) -> None:
    with systems.deephaven(cycle_ms=1, interval_ms=1, heap=bench.sizes.heap) as system:
        system.process.call("writable", name="t")
        bench.warm(lambda: ages(system, min(500, bench.sizes.single)))
        _measure(bench, system)


def _perspective(bench: Bench) -> None:
    with perspective() as system:
        system.make("t", "append", 0)
        rows = bench.sizes.single
        with system.client.meanwhile("ages", port=system.port, table="t", rows=rows) as result:
            time.sleep(1.0)
            used, begin = system.cpu_seconds(), time.time()
            system.process.call("write", name="t", count=rows, pause_ms=PAUSE_MS)
            cores = (system.cpu_seconds() - used) / (time.time() - begin)
    bench.timed(WORK, "", PERSPECTIVE, np.asarray(result["value"]).tolist())
    bench.add(WORK, "server cores", PERSPECTIVE, [cores], "cores")
