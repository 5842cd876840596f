"""A viewport of 100 rows that jumps to random places.

The time is from the sent request to the received rows.
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np
import pyarrow.flight as flight

import barrage_server as bs
from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.exchange import DPHN, connect
from benchmarks.names import BARE, DEEPHAVEN, OURS, PERSPECTIVE
from benchmarks.perspective import perspective

WIDTH: Final = 100
TICKS: Final = 20_000
BATCH_MS: Final = 5


def run(bench: Bench) -> None:
    """Tables at rest, and tables that get 20,000 rows per second."""
    rows = bench.sizes.rows
    tables = (("append table", "append", rows), ("keyed table", "keyed", rows))
    for label, kind, size in (*tables, ("ring of ten times the rows", "ring", 10 * rows)):
        with systems.ours() as ours:
            bench.step(f"{label}, loading")
            ours.make("t", kind, size, rate=TICKS, batch_ms=BATCH_MS)
            for state in ("ticking", "still"):
                if state == "still":
                    ours.process.call("still", name="t")
                bench.step(f"{label}, {state}")
                bench.timed(_work(label, state), "raw", OURS, _moves(bench, ours, size))
                if kind == "append":
                    bench.timed(_work(label, state), "applied", OURS, _applied(bench, ours, size))
    bench.step(BARE)
    bench.timed(_work("append table", "still"), "raw", BARE, _answers(bench))
    bench.peer(DEEPHAVEN, lambda: _deephaven(bench))
    bench.peer(PERSPECTIVE, lambda: _perspective(bench))


def places(rows: int, count: int, seed: int = 0) -> list[int]:
    """First rows of windows."""
    return np.random.default_rng(seed).integers(0, rows - WIDTH, count).tolist()  # type: ignore[no-any-return]


def _work(label: str, state: str) -> str:
    return f"viewport of 100 rows moved, {label}, {state}"


def _moves(bench: Bench, system: systems.System, rows: int) -> list[float]:
    with system.subscribed("t", 1, (0, WIDTH)) as exchange:
        requests = [exchange.request((first, WIDTH)) for first in places(rows, bench.sizes.moves)]
        for request in requests[: len(requests) // 10]:
            exchange.move(request)
        return [exchange.move(request) for request in requests]


def _answers(bench: Bench) -> list[float]:
    """The time from a sent message to a received, ready batch of as many rows.

    No server can be faster.
    """
    took = []
    with systems.bare() as system:
        system.make("t", "append", WIDTH)
        with connect(system.port) as client:
            writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(DPHN))
            for _ in range(bench.sizes.moves):
                begin = time.perf_counter()
                writer.write_metadata(DPHN)
                reader.read_chunk()
                took.append(time.perf_counter() - begin)
            reader.cancel()
    return took[len(took) // 10 :]


def _applied(bench: Bench, system: systems.System, rows: int) -> list[float]:
    took = []
    with (
        bs.connect(f"grpc://127.0.0.1:{system.port}") as client,
        client.subscribe("t", viewport=range(WIDTH), interval_ms=1) as live,
    ):
        for first in places(rows, bench.sizes.moves):
            begin = time.perf_counter()
            live.set_viewport(range(first, first + WIDTH))
            took.append(time.perf_counter() - begin)
    return took


def _deephaven(bench: Bench) -> None:
    rows = bench.sizes.rows
    kinds = (
        ("append table", "append", "still"),
        ("append table", "append", "ticking"),
        ("keyed table", "keyed", "ticking"),
    )
    with systems.deephaven(cycle_ms=BATCH_MS, interval_ms=1, heap=bench.sizes.heap) as system:
        for label, kind, state in kinds:
            bench.step(f"{DEEPHAVEN}: {label}, {state}")
            system.make("t", kind, rows, rate=TICKS if state == "ticking" else 0)
            bench.warm(lambda: _moves(bench, system, rows))
            bench.timed(_work(label, state), "raw", DEEPHAVEN, _moves(bench, system, rows))
            system.drop("t")


def _perspective(bench: Bench) -> None:
    rows = bench.sizes.rows
    with perspective() as system:
        for label, kind, state in (("append table", "append", "still"), ("append table", "append", "ticking")):
            bench.step(f"{PERSPECTIVE}: {label}, {state}")
            system.make("t", kind, rows, rate=TICKS if state == "ticking" else 0, batch_ms=BATCH_MS)
            took = system.client.call(
                "moves",
                port=system.port,
                table="t",
                firsts=places(rows, bench.sizes.moves),
                width=WIDTH,
                seconds=2 * bench.sizes.measure,
            )
            bench.timed(_work(label, state), "raw", PERSPECTIVE, took)
            system.drop("t")
