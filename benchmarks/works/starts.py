"""Publishing while a table is computed for the first time.

The time that a publisher to its parent waits beyond the usual is measured.

In the process, without a server. A thread makes a result of a large keyed table again and again; another one writes 100
rows to that table every two milliseconds, first alone. What is compared is the 99th percentile of the time of a write.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

import barrage_server as bs
from barrage_server.engine import KeyedTable, Table, UpdateGraph
from benchmarks.bench import Bench
from benchmarks.names import OURS

__all__ = ["run"]

_CHANGED: Final = 100
_PAUSE: Final = 0.002
_GROUP: Final = 10
_LEAST: Final = 300
"""Writes during starts, at least; but in a tiny run."""

OPERATIONS: Final[dict[str, Callable[[Table, Table], Table]]] = {
    "where": lambda table, _: table.where("x < 0.5"),
    "update": lambda table, _: table.update("y = x * 2"),
    "sort": lambda table, _: table.sort("x"),
    "sum, count": lambda table, _: table.agg_by([bs.agg.sum_("s = x"), bs.agg.count_("n")], by="k"),
    "median": lambda table, _: table.agg_by([bs.agg.median("m = x")], by="k"),
    "select_distinct": lambda table, _: table.select_distinct("k"),
    "group_by": lambda table, _: table.group_by("k"),
    "first_by": lambda table, _: table.first_by("k"),
    "head_by": lambda table, _: table.head_by(2, "k"),
    "where_in": lambda table, names: table.where_in(names.where("v < 0.5"), "k"),
    "natural_join": lambda table, names: table.natural_join(names, on="k"),
    "left_outer_join": lambda table, names: table.left_outer_join(names, on="k"),
    "aj": lambda table, names: table.aj(names, ["k", "x >= v"]),
    "cum_sum": lambda table, _: table.update_by(bs.updateby.cum_sum("s = x"), by="k"),
    "rolling_avg_tick": lambda table, _: table.update_by(bs.updateby.rolling_avg_tick("a = x", rev_ticks=5), by="k"),
}


def run(bench: Bench) -> None:
    """Each operation on the large table."""
    rows = bench.sizes.rows
    groups = max(1, rows // _GROUP)
    work = f"publishing while a table of {rows:,} rows starts"
    random = np.random.default_rng(9)
    graph = UpdateGraph()
    source = KeyedTable(graph, "t", {"id": "int64", "k": "int64", "x": "float64"}, ["id"])
    source.upsert(_rows(random, np.arange(rows), groups))
    names = KeyedTable(graph, "names", {"k": "int64", "v": "float64"}, ["k"])
    names.upsert({"k": np.arange(groups), "v": random.random(groups)})
    least = _LEAST if bench.sizes.repeats > 1 else 1

    def write() -> float:
        changed = _rows(random, random.choice(rows, min(_CHANGED, rows), replace=False), groups)
        began = time.perf_counter()
        source.upsert(changed)
        return time.perf_counter() - began

    bench.step("alone")
    alone = _paced(write, lambda taken: len(taken) < least)
    bench.timed(work, "alone", OURS, alone)
    for name, make in OPERATIONS.items():
        bench.step(name)
        taken = _while_starting(write, partial(make, source, names), least)
        bench.timed(work, name, OURS, taken)
        beyond = max(0.0, float(np.percentile(taken, 99) - np.percentile(alone, 99))) * 1e3
        bench.add(work, f"p99 beyond that alone, {name}", OURS, [beyond], "ms")


def _while_starting(write: Callable[[], float], make: Callable[[], Table], least: int) -> list[float]:
    """Seconds of writes while a table is made, as often as it takes."""
    taken: list[float] = []
    while len(taken) < least:
        starting = ThreadPoolExecutor(1)
        future = starting.submit(make)
        taken += _paced(write, partial(_is_running, future))
        starting.shutdown()
        future.result()
    return taken


def _is_running(future: Future[Table], _taken: list[float]) -> bool:
    return not future.done()


def _paced(write: Callable[[], float], goes_on: Callable[[list[float]], bool]) -> list[float]:
    taken: list[float] = []
    while goes_on(taken) or not taken:
        taken.append(write())
        time.sleep(_PAUSE)
    return taken


def _rows(random: np.random.Generator, ids: np.ndarray, groups: int) -> pa.RecordBatch:
    columns = [ids, ids % groups, random.random(len(ids))]
    return pa.record_batch(list(map(pa.array, columns)), names=["id", "k", "x"])
