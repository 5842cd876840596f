"""The two fronts of this server side by side: pyarrow, and gRPC's event loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import pyarrow.flight as flight

from benchmarks import data, systems
from benchmarks.bench import Bench
from benchmarks.exchange import connect
from benchmarks.names import GRPC_FRONT, OURS

GET: Final = "DoGet, by front"
PUT: Final = "DoPut, by front"
SUBSCRIBE: Final = "appends as fast as they are received, by front"
RATE: Final = "rate of the front grpc, turn by turn"
_SMALL_BATCH: Final = 5_000
_PUT_BATCH: Final = 50_000
_MOST: Final = 4_000_000
"""Rows that are put, or appended to a subscriber, in one turn."""


def run(bench: Bench) -> None:
    """The fronts take turns, so that whatever else the machine does falls on both."""
    rows = bench.sizes.rows
    with systems.ours() as plain, systems.ours(front="grpc") as front:
        front.name = GRPC_FRONT
        both = (plain, front)
        bench.step("loading")
        for system in both:
            system.make("t", "append", rows)
        _turns(bench, GET, both, lambda system: _get(system, rows))
        for system in both:
            system.drop("t")
        some = min(rows, _MOST)
        _turns(bench, PUT, both, lambda system: _put(system, some))
        _turns(bench, SUBSCRIBE, both, lambda system: _subscribe(system, some))


def _turns(
    bench: Bench, work: str, both: tuple[systems.System, ...], measure: Callable[[systems.System], float]
) -> None:
    """Seconds and processor seconds of each front.

    The ratio is that of each turn: a busy machine slows both alike.
    """
    seconds: dict[str, list[float]] = {OURS: [], GRPC_FRONT: []}
    bench.step(work)
    for system in both:
        measure(system)
    used = {system.name: system.cpu_seconds() for system in both}
    turns = 2 * bench.sizes.repeats
    for _ in range(turns):
        for system in both:
            seconds[system.name].append(measure(system))
    for system in both:
        bench.add(work, "time", system.name, seconds[system.name], "s")
        spent = (system.cpu_seconds() - used[system.name]) / turns
        bench.add(work, "server's processor time", system.name, [spent], "s")
    ratios = [mine / other for mine, other in zip(seconds[OURS], seconds[GRPC_FRONT], strict=True)]
    bench.add(work, RATE, OURS, ratios, "of that of the front pyarrow", "")
    bench.keep()


def _get(system: systems.System, rows: int) -> float:
    begin = time.perf_counter()
    received = system.get("t")
    took = time.perf_counter() - begin
    assert received == rows
    return took


def _put(system: systems.System, rows: int) -> float:
    batches = list(data.batches(rows, _PUT_BATCH))
    with connect(system.port) as client:
        begin = time.perf_counter()
        writer, answers = client.do_put(flight.FlightDescriptor.for_path("put"), data.SCHEMA)
        with writer:
            for batch in batches:
                writer.write_batch(batch)
            writer.done_writing()
            answers.read()
        took = time.perf_counter() - begin
    system.drop("put")
    return took


def _subscribe(system: systems.System, rows: int) -> float:
    """Seconds until a subscriber has all rows of a burst of appends."""
    system.make("s", "append", 0)
    try:
        with system.subscribed("s", 1) as exchange:
            exchange.read()
            begin = time.perf_counter()
            system.process.call("burst", name="s", rows=rows, batch=_SMALL_BATCH)
            exchange.first_content(rows)
            return time.perf_counter() - begin
    finally:
        system.drop("s")
