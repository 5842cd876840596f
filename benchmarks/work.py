"""What is measured: each function does one kind of work and adds its figures to the run."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pyarrow.flight as flight

import barrage_server as bs
from benchmarks import data
from benchmarks.harness import Host, Run, host

Work = Callable[[Run], None]
MIB = 1 << 20


def doget(run: Run) -> None:
    """All rows of a large append table by DoGet, beside a bare Flight server that has the same batches in memory."""
    with host("bare") as bare, host("ours") as ours:
        bare.tell("load", rows=run.large)
        ours.tell("load", rows=run.large)
        seconds: dict[str, list[float]] = {"bare": [], "ours": []}
        for _ in range(2 * run.repeats + 1):
            for name, server, ticket in (("bare", bare, b""), ("ours", ours, b"s/t")):
                seconds[name].append(_doget_once(server, ticket, run.large))
    limit = run.add(f"DoGet {run.large:,} rows", "bare pyarrow.flight server", seconds["bare"], "s")
    ratios = limit / float(np.median(seconds["ours"]))
    run.add(
        f"DoGet {run.large:,} rows",
        "this server",
        seconds["ours"],
        "s",
        ratio=ratios,
        against="rate of the bare server",
    )


def _doget_once(server: Host, ticket: bytes, rows: int) -> float:
    with flight.connect(server.uri) as client:
        begin = time.perf_counter()
        received = sum(chunk.data.num_rows for chunk in client.do_get(flight.Ticket(ticket)))
        took = time.perf_counter() - begin
    assert received == rows
    return took


def snapshot(run: Run) -> None:
    """The first snapshot of a full subscription, applied to a replica by this project's client."""
    with host("bare") as bare, host("ours") as ours:
        bare.tell("load", rows=run.large)
        ours.tell("load", rows=run.large)
        limit = float(np.median([_doget_once(bare, b"", run.large) for _ in range(run.repeats)]))
        seconds = []
        for _ in range(run.repeats):
            with bs.connect(ours.uri) as client:
                begin = time.perf_counter()
                with client.subscribe("t", interval_ms=50) as live:
                    seconds.append(time.perf_counter() - begin)
                    assert live.size == run.large
    ratio = float(np.median(seconds)) / limit
    run.add(
        f"first snapshot, {run.large:,} rows",
        "received and applied",
        seconds,
        "s",
        ratio=ratio,
        against="time of a bare DoGet",
    )


def append(run: Run) -> None:
    """Appends as fast as they go, until one full subscriber has all of them."""
    per_cycle, cycles = 100_000, max(20, run.large // 200_000)
    rates, cores = [], []
    for _ in range(run.repeats):
        with host("ours") as ours, bs.connect(ours.uri) as client:
            ours.tell("load", rows=0)
            with client.subscribe("t", interval_ms=50) as live:
                used, begin = ours.tell("cpu")["seconds"], time.perf_counter()
                with ours.meanwhile("publish", table="t", rows=per_cycle, cycles=cycles):
                    live.wait_until(lambda table: table.size >= per_cycle * cycles, timeout=120)
                took = time.perf_counter() - begin
                rates.append(per_cycle * cycles / took)
                cores.append((ours.tell("cpu")["seconds"] - used) / took)
    run.add("append to one full subscriber", "rows applied", rates, "rows/s")
    run.add("append to one full subscriber", "server cores meanwhile", cores, "cores")


def upsert(run: Run) -> None:
    """Upserts of random existing keys into a large keyed table, with one full subscriber; and what a small one
    costs.
    """
    per_cycle, cycles = 20_000, 50
    rates = []
    with host("ours") as ours, bs.connect(ours.uri) as client:
        ours.tell("load", rows=run.large, kind="keyed")
        with client.subscribe("t", interval_ms=50) as live:
            for _ in range(run.repeats):
                goal = live.step + cycles

                def done(table: bs.LiveTable, goal: int = goal) -> bool:
                    return table.step >= goal

                begin = time.perf_counter()
                with ours.meanwhile("publish", table="t", rows=per_cycle, cycles=cycles, within=run.large):
                    live.wait_until(done, timeout=120)
                rates.append(per_cycle * cycles / (time.perf_counter() - begin))
    run.add(f"upserts into {run.large:,} rows, one subscriber", "rows applied", rates, "rows/s")
    for size in (run.small, run.large):
        with host("ours") as ours:
            ours.tell("load", rows=size, kind="keyed")
            took = ours.tell("publish", table="t", rows=100, cycles=300, within=size, pause_ms=1)["took"]
        run.add(f"upsert of 100 rows into {size:,}", "server time p50", [float(np.percentile(took, 50)) * 1e3], "ms")
        run.add(f"upsert of 100 rows into {size:,}", "server time p99", [float(np.percentile(took, 99)) * 1e3], "ms")


def viewport(run: Run) -> None:
    """A viewport of 100 rows moved at random, on tables that stand still and on ones that tick.

    The small and the large table take turns, so that whatever else the machine does falls on both.
    """
    for kind in ("append", "keyed"):
        with ExitStack() as stack:
            subscribed = []
            for size in (run.small, run.large):
                ours = stack.enter_context(host("ours"))
                ours.tell("load", rows=size, kind=kind)
                client = stack.enter_context(bs.connect(ours.uri))
                live = stack.enter_context(client.subscribe("t", viewport=range(100), interval_ms=100))
                subscribed.append((size, ours, live))
            still: dict[int, list[float]] = {run.small: [], run.large: []}
            ticking: dict[int, list[float]] = {run.small: [], run.large: []}
            for turn in range(10):
                for size, ours, live in subscribed:
                    still[size] += _moves(live, size, 60, turn)
                    ids = size if kind == "keyed" else 0
                    with ours.meanwhile("publish", table="t", rows=100, cycles=20, pause_ms=5, within=ids):
                        ticking[size] += _moves(live, size, 60, turn)
        for name, took in (("still", still), ("ticking", ticking)):
            work = f"viewport of 100 rows moved, {kind} table, {name}"
            for percentile in (50, 99):
                small, large = (float(np.percentile(took[size], percentile)) * 1e3 for size in (run.small, run.large))
                run.add(work, f"p{percentile} at {run.small:,} rows", [small], "ms")
                against = f"time at {run.small:,} rows"
                run.add(
                    work, f"p{percentile} at {run.large:,} rows", [large], "ms", ratio=large / small, against=against
                )


def _moves(live: bs.LiveTable, size: int, count: int, seed: int) -> list[float]:
    random = np.random.default_rng(seed)
    took = []
    for start in random.integers(0, size - 100, count).tolist():
        begin = time.perf_counter()
        live.set_viewport(range(start, start + 100))
        took.append(time.perf_counter() - begin)
    return took


def latency(run: Run) -> None:
    """From a row written in the server's process to the same row applied in the client's, at an interval of 1 ms."""
    seen: list[float] = []
    with host("ours") as ours, bs.connect(ours.uri) as client:
        ours.tell("load", rows=0)
        with client.subscribe("t", interval_ms=1) as live:

            def arrived(update: bs.Update) -> None:
                now = time.monotonic_ns()
                seen.extend((now - written) / 1e6 for written in update.added_values(["id"])["id"].to_pylist())

            live.on_update(arrived)
            ours.tell("stamp", table="t", cycles=1000, pause_ms=2)
            live.wait_until(lambda table: table.size >= 1000, timeout=30)
    run.add("row written to row applied, 1 ms interval", "p50", [float(np.percentile(seen, 50))], "ms")
    run.add("row written to row applied, 1 ms interval", "p99", [float(np.percentile(seen, 99))], "ms")


def memory(run: Run) -> None:
    """Resident memory of the server's process for the rows of a large table, beside their Arrow bytes."""
    for kind in ("append", "keyed"):
        with host("ours") as ours:
            ours.tell("load", table="warm", rows=1000, kind=kind)
            before = ours.tell("memory")["resident"]
            ours.tell("load", rows=run.large, kind=kind)
            per_row = (ours.tell("memory")["resident"] - before) / run.large
        run.add(
            f"memory, {kind} table of {run.large:,} rows",
            "resident",
            [per_row],
            "bytes/row",
            ratio=per_row / data.BYTES_PER_ROW,
            against="Arrow bytes",
        )
        if kind == "append":
            run.add("memory, server without rows", "resident", [before / MIB], "MiB")


WORKS: dict[str, Work] = {
    "doget": doget,
    "snapshot": snapshot,
    "append": append,
    "upsert": upsert,
    "viewport": viewport,
    "latency": latency,
    "memory": memory,
}
