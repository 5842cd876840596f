"""Tables computed from tables that do not change.

The same operation on the same rows runs here and in Deephaven's engine.

Each engine computes in a process of its own, which sends nothing. They take turns, operation by operation and round by
round, after a warm-up of Deephaven's. A time is that of the call that makes the result, with everything that it
computes at once: rows, stored columns, groups, maps of joins and orders; in neither engine are values of shared columns
copied. Before it, garbage is collected. Deephaven's memoisation is off, and it uses its threads. The rows come from
seeds, and sums over the results, which depend on the order of rows, must agree.

The sizes are those of the large table, of which the groups and the right tables are a part: a tenth as many groups and
right rows of ``aj``, a hundredth as many right rows of ``natural_join``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import numpy as np

from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.names import DEEPHAVEN, OURS
from benchmarks.process import Process, ProcessFailedError

__all__ = ["beside", "check_equal", "run"]

OPERATIONS: Final = {
    "where": ("where, two conditions", ("x", "item")),
    "update": ("update", ("z",)),
    "sort": ("sort by doubles", ("x", "y")),
    "agg_by groups": ("agg_by many groups, five aggregations", ("total", "mean", "low", "high", "n")),
    "agg_by strings": ("agg_by 1,000 strings, sum and count", ("total", "n")),
    "natural_join": ("natural_join", ("x", "v")),
    "aj": ("aj by symbol and time", ("x", "bid")),
}
"""What each is called in the results, and the columns whose sums must agree."""

Engines = Mapping[str, Process]


def run(bench: Bench) -> None:
    """Each operation in turns."""
    with beside(bench) as engines:
        for engine in engines.values():
            bench.step("making rows")
            engine.call("prepare", rows=bench.sizes.rows)
        for operation, (what, columns) in OPERATIONS.items():
            bench.step(what)
            check_equal(
                {name: each.call("check", operation=operation, columns=columns) for name, each in engines.items()}
            )
            if DEEPHAVEN in engines:
                bench.warm(partial(engines[DEEPHAVEN].call, "run", operation=operation))
            taken: dict[str, list[float]] = {name: [] for name in engines}
            for _ in range(bench.sizes.repeats):
                for name, engine in engines.items():
                    taken[name].append(engine.call("run", operation=operation))
            for name, values in taken.items():
                bench.add(f"queries on {bench.sizes.rows:,} rows", what, name, values, "ms")
            bench.keep()


@contextmanager
def beside(bench: Bench) -> Iterator[Engines]:
    """Processes of this project's engine and, if it is there, of Deephaven's."""
    with Process("benchmarks.servers.queries") as ours:
        engines = {OURS: ours}
        starting = systems.deephaven_process(
            "deephaven_queries", cycle_ms=1000, interval_ms=1000, heap=bench.sizes.heap
        )
        bench.peer(DEEPHAVEN, lambda: engines.update({DEEPHAVEN: starting.__enter__()}))
        try:
            yield engines
        finally:
            if DEEPHAVEN in engines:
                starting.__exit__(None, None, None)


def check_equal(sums: Mapping[str, Sequence[float]]) -> None:
    """Raise ProcessFailedError if two engines have computed different results.

    See :func:`.query_data.checksum`.
    """
    first, *others = sums.items()
    for name, found in others:
        if not np.allclose(first[1], found, rtol=1e-9):
            raise ProcessFailedError(f"{first[0]} and {name} have different results: {first[1]} and {list(found)}")
