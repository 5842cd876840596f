"""Memory of the server's process: for rows, over many updates, and after a burst."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Final

from benchmarks import data, systems
from benchmarks.bench import Bench
from benchmarks.machine import MIB
from benchmarks.names import DEEPHAVEN, OURS, PERSPECTIVE
from benchmarks.perspective import perspective

ALLOWED_FACTOR: Final = 1.3
ALLOWED_BYTES: Final = 150e6
_CHANGED_AT_A_TIME: Final = 100


def run(bench: Bench) -> None:
    """Resident memory, as the system counts it.

    The process is not asked to return memory before.
    """
    for kind in ("append", "keyed"):
        with systems.ours() as ours:
            bench.step(f"{kind} table")
            before = ours.resident_bytes()
            ours.make("t", kind, bench.sizes.rows)
            _rows(bench, f"memory, {kind} table", OURS, before, ours.resident_bytes())
    _updates(bench)
    _burst(bench)
    bench.peer(DEEPHAVEN, lambda: _deephaven(bench))
    bench.peer(PERSPECTIVE, lambda: _perspective(bench))


def _rows(bench: Bench, work: str, system: str, before: int, after: int) -> None:
    arrow = bench.sizes.rows * data.BYTES_PER_ROW
    bench.add(work, "process without rows", system, [before / MIB], "MiB")
    bench.add(work, "bytes per row", system, [(after - before) / bench.sizes.rows], "bytes")
    bench.add(work, "process", system, [after / MIB], "MiB")
    allowed = ALLOWED_FACTOR * arrow + ALLOWED_BYTES
    bench.add(work, "of what is allowed", system, [after / allowed], "of 1.3 times the Arrow bytes and 150 MB")


def _updates(bench: Bench) -> None:
    """Rows of a keyed table change, a hundred at a time, with one subscriber."""
    rows, changed = bench.sizes.keyed, bench.sizes.updates
    with systems.ours() as ours, ExitStack() as stack:
        ours.make("t", "keyed", rows)
        stack.enter_context(ours.receiving("t", 20, stamps=False))
        ours.process.call("burst", name="t", rows=max(_CHANGED_AT_A_TIME, changed // 10), batch=_CHANGED_AT_A_TIME)
        before = ours.resident_bytes()
        bench.step(f"{changed:,} updates")
        ours.process.call("burst", name="t", rows=changed, batch=_CHANGED_AT_A_TIME)
        after = ours.resident_bytes()
    bench.add("memory over a million updates", "growth", OURS, [max(0, after - before) / MIB], "MiB")


def _burst(bench: Bench) -> None:
    """A full ring gets ten times its rows as fast as possible.

    Its subscribers cannot keep up.
    """
    rows = bench.sizes.keyed
    with systems.ours() as ours, ExitStack() as stack:
        ours.make("t", "ring", rows)
        for _ in range(5):
            stack.enter_context(ours.receiving("t", 20, stamps=False))
        ours.process.call("burst", name="t", rows=rows, batch=max(1, rows // 10))
        time.sleep(bench.sizes.settle)
        before = ours.resident_bytes()
        bench.step("a burst")
        ours.process.call("burst", name="t", rows=10 * rows, batch=max(1, rows // 10))
        peak = ours.resident_bytes()
        time.sleep(2 * bench.sizes.settle)
        after = ours.resident_bytes()
    bench.add("memory after a burst", "at its end", OURS, [max(0, peak - before) / MIB], "MiB", "")
    bench.add("memory after a burst", "left over", OURS, [max(0, after - before) / MIB], "MiB")


def _deephaven(bench: Bench) -> None:
    for kind in bench.sizes.peers_kinds:
        with systems.deephaven(cycle_ms=100, interval_ms=100, heap=bench.sizes.heap) as system:
            before = system.resident_bytes()
            # one that ticks hardly ever: a table that never does keeps nothing but its cells
            system.make("t", kind, bench.sizes.rows, rate=1000)
            time.sleep(2 * bench.sizes.settle)
            _rows(bench, f"memory, {kind} table", DEEPHAVEN, before, system.resident_bytes())


def _perspective(bench: Bench) -> None:
    for kind in bench.sizes.peers_kinds:
        with perspective() as system:
            before = system.resident_bytes()
            system.make("t", kind, bench.sizes.rows)
            _rows(bench, f"memory, {kind} table", PERSPECTIVE, before, system.resident_bytes())
