"""Many tables computed from one.

The same small change is made with a thousand of them, and with none.

In the process, without a server. A change writes 10 rows of a keyed source of 100,000 rows anew. The cost of a table is
the time of the cycle beyond that of the source alone, divided by their number; each is made by an operation with
arguments of its own, so that none is shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

import barrage_server as bs
from barrage_server.engine import KeyedTable, Table, UpdateGraph
from benchmarks.bench import Bench
from benchmarks.names import OURS

__all__ = ["run"]

TABLES: Final = 1000
WORK: Final = "1,000 tables computed from one, 10 rows changed"
_ROWS: Final = 100_000
_CHANGED: Final = 10
_GROUPS: Final = 100
_CYCLES: Final = 4

OPERATIONS: Final[dict[str, Callable[[Table, int], Table]]] = {
    "where": lambda table, number: table.where(f"x < {number / TABLES}"),
    "update_view": lambda table, number: table.update_view(f"y = x * {number}"),
    "update": lambda table, number: table.update(f"y = x * {number}"),
    "sum": lambda table, number: table.agg_by(bs.agg.sum_(f"s{number} = x"), by="g"),
}


def run(bench: Bench) -> None:
    """Each operation a thousand times."""
    rows = min(_ROWS, bench.sizes.rows)
    random = np.random.default_rng(5)
    graph = UpdateGraph()
    source = KeyedTable(graph, "t", {"id": "int64", "g": "int64", "x": "float64"}, ["id"])
    source.upsert(_rows(random, np.arange(rows)))

    def cycles() -> list[float]:
        taken = []
        for _ in range(_CYCLES * bench.sizes.repeats):
            changed = _rows(random, random.choice(rows, _CHANGED, replace=False))
            began = time.perf_counter()
            source.upsert(changed)
            taken.append((time.perf_counter() - began) * 1e3)
        return taken

    cycles()
    alone = float(np.median(cycles()))
    for name, make in OPERATIONS.items():
        bench.step(f"{TABLES} times {name}")
        tables = [make(source, number) for number in range(TABLES)]
        cycles()
        each = [max(0.0, one - alone) / TABLES for one in cycles()]
        bench.add(WORK, f"{name}, each", OURS, each, "ms")
        del tables


def _rows(random: np.random.Generator, ids: np.ndarray) -> pa.RecordBatch:
    columns = [ids, ids % _GROUPS, random.random(len(ids))]
    return pa.record_batch(list(map(pa.array, columns)), names=["id", "g", "x"])
