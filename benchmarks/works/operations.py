"""What tables that are computed from tables cost: the same change to sources of growing size, and the state they keep.

In the process, without a server. A change writes 1,000 rows of a keyed source anew, at random places; each goes to
another group. Costs are milliseconds of a cycle beyond its source, bytes of state are for each row of the source, and
the exponent is that of the cost against the size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

import barrage_server as bs
from barrage_server.engine import KeyedTable, Table, UpdateGraph
from barrage_server.engine.derived import DerivedTable
from benchmarks.bench import Bench
from benchmarks.figures import Figure
from benchmarks.names import OURS
from benchmarks.works.growth import CHANGED, exponent

WORK: Final = "operations on a keyed table"
_GROUP: Final = 100
_CYCLES: Final = 20
_WARM: Final = 3
_FEW: Final = 2
"""Repeats of a quick run, which leaves the largest size out."""

Operation = Callable[[Table, Table], Table]

OPERATIONS: Final[dict[str, Operation]] = {
    "where": lambda table, _: table.where("x < 0.5"),
    "update": lambda table, _: table.update("y = x * 2"),
    "update_view": lambda table, _: table.update_view("y = x * 2"),
    "reverse": lambda table, _: table.reverse(),
    "flatten": lambda table, _: table.flatten(),
    "sort": lambda table, _: table.sort("x"),
    "merge": lambda table, _: bs.merge([table, table]),
    "select_distinct": lambda table, _: table.select_distinct("k"),
    "sum, count": lambda table, _: table.agg_by([bs.agg.sum_("s = x"), bs.agg.count_("n")], by="k"),
    "min, max, median": lambda table, _: table.agg_by(
        [bs.agg.min_("a = x"), bs.agg.max_("b = x"), bs.agg.median("m = x")], by="k"
    ),
    "first, last": lambda table, _: table.agg_by([bs.agg.first("a = x"), bs.agg.last("b = x")], by="k"),
    "count_distinct": lambda table, _: table.agg_by(bs.agg.count_distinct("d = x"), by="k"),
    "group_by": lambda table, _: table.group_by("k"),
    "head_by": lambda table, _: table.head_by(3, "k"),
    "natural_join": lambda table, names: table.natural_join(names, on="k"),
    "where_in": lambda table, names: table.where_in(names, cols="k"),
    "join": lambda table, names: table.join(names, on="k", reserve_bits=1),
    "left_outer_join": lambda table, names: table.left_outer_join(names, on="k"),
    "aj": lambda table, names: table.aj(names, on=["k", "x >= v"]),
}


def run(bench: Bench) -> None:
    """Each operation on sources of each size."""
    points: dict[str, list[tuple[float, float]]] = {}
    random = np.random.default_rng(7)
    sizes = bench.sizes.growth if bench.sizes.repeats > _FEW else bench.sizes.growth[:-1]
    for rows in sizes:
        graph = UpdateGraph()
        graph.clock = time.perf_counter
        source = KeyedTable(graph, "t", {"id": "int64", "k": "int64", "x": "float64"}, ["id"])
        groups = max(1, rows // _GROUP)
        source.upsert(_rows(random, np.arange(rows), groups))
        names = KeyedTable(graph, "names", {"k": "int64", "v": "float64"}, ["k"])
        names.upsert({"k": np.arange(groups), "v": random.random(groups)})
        for name, make in OPERATIONS.items():
            bench.step(f"{name}, {rows:,} rows")
            began = time.perf_counter()
            result = make(source, names)
            bench.add(WORK, f"{name}, {rows:,} rows, start", OURS, [(time.perf_counter() - began) * 1e3], "ms")
            costs: list[float] = []
            for _ in range(_WARM + _CYCLES):
                before = _seconds(result)
                source.upsert(_rows(random, random.choice(rows, CHANGED, replace=False), groups))
                costs.append((_seconds(result) - before) * 1e3)
            bench.add(WORK, f"{name}, {rows:,} rows, 1,000 changes", OURS, costs[_WARM:], "ms")
            state = sum(table.state_bytes for table in _derived(result)) / rows
            bench.add(WORK, f"{name}, {rows:,} rows, state of a row", OURS, [state], "bytes")
            points.setdefault(name, []).append((float(rows), max(1e-3, float(np.median(costs[_WARM:])))))
            del result
    for name, found in points.items():
        figure = Figure(f"growth of {name}", "exponent", OURS, exponent(found), "cost follows the change", "")
        figure.points = found
        bench.outcome.figures.append(figure)


def _rows(random: np.random.Generator, ids: np.ndarray, groups: int) -> pa.RecordBatch:
    columns = [ids, random.integers(0, groups, len(ids)), random.random(len(ids))]
    return pa.record_batch(list(map(pa.array, columns)), names=["id", "k", "x"])


def _derived(table: Table) -> list[DerivedTable]:
    """A table, and those that it is computed from."""
    if not isinstance(table, DerivedTable):
        return []
    return list(dict.fromkeys([table, *(one for parent in table.parents for one in _derived(parent))]))


def _seconds(table: Table) -> float:
    return sum(one.seconds for one in _derived(table))
