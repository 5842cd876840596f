"""Tables computed from tables that tick.

The same operation with the same changes runs here and in Deephaven's engine.

The engines and their turns are those of :mod:`.queries`. In a cycle 10,000 rows of a keyed table get another value of
the column that is filtered, summed or sorted, or as many rows are appended to each of two tables. A keyed table is a
``last_by`` of a blink table in Deephaven, whose cycles begin on demand, are timed by itself, and do not include the
preparation of the rows; here a cycle is the time of the ``with`` body that writes. *With its source* is the whole
cycle; otherwise it is the median beyond that of cycles of the sources alone, in either engine.

The table that is filtered, grouped and joined has 10 million rows, in a million groups, and 100,000 right rows, of
which 100 change; the others have a million at first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from benchmarks.bench import Bench
from benchmarks.names import OURS
from benchmarks.works.queries import Engines, beside, check_equal

WORK: Final = "ticking queries, 10,000 changes a cycle"
_CYCLES: Final = 20
"""Cycles of a round."""
_WARM: Final = 10
"""Cycles of warming up, for each second of it."""


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on tables that tick.

    Attributes:
        name: of the operation.
        sources: the tables that change in a cycle.
        columns: those whose sums must agree.
        whole: whether the sources count.
    """

    name: str
    sources: tuple[str, ...]
    columns: tuple[str, ...]
    whole: bool = False

    @property
    def what(self) -> str:
        """What it is called in the results."""
        return f"{self.name}, with its source" if self.whole else self.name


GROUPS: Final = (
    (
        ("wide", "names"),
        (
            Operation("where", ("wide",), ("x", "item"), whole=True),
            Operation("sum, count", ("wide",), ("total", "n"), whole=True),
            Operation("natural_join", ("wide", "names"), ("x", "v"), whole=True),
        ),
    ),
    (
        ("small",),
        (
            Operation("sort", ("small",), ("x", "id")),
            Operation("min, max, median", ("small",), ("low", "high", "middle")),
        ),
    ),
    (
        ("trades", "quotes"),
        (
            Operation("aj", ("trades", "quotes"), ("x", "bid")),
            Operation("ema", ("trades",), ("x", "e")),
        ),
    ),
)
"""Tables that are there at a time, and the operations on them."""


def run(bench: Bench) -> None:
    """Each operation in turns."""
    rows = {"wide": bench.sizes.rows, "names": max(1, bench.sizes.rows // 100)}
    with beside(bench) as engines:
        for sources, operations in GROUPS:
            for engine in engines.values():
                bench.step(f"making {' and '.join(sources)}")
                engine.call("tick", sources={name: rows.get(name, bench.sizes.keyed) for name in sources})
            for operation in operations:
                _measure(bench, engines, operation)


def _measure(bench: Bench, engines: Engines, operation: Operation) -> None:
    alone = dict.fromkeys(engines, 0.0)
    if not operation.whole:
        bench.step(f"{operation.name}, sources alone")
        alone = {name: float(np.median(taken)) for name, taken in _rounds(bench, engines, operation).items()}
    for engine in engines.values():
        engine.call("follow", operation=operation.name)
    bench.step(operation.name)
    for name, taken in _rounds(bench, engines, operation).items():
        bench.add(WORK, operation.what, name, [max(0.0, one - alone[name]) for one in taken], "ms")
    check_equal({name: each.call("check_ticking", columns=operation.columns) for name, each in engines.items()})
    for engine in engines.values():
        engine.call("drop")
    bench.keep()


def _rounds(bench: Bench, engines: Engines, operation: Operation) -> dict[str, list[float]]:
    """Milliseconds of cycles, in turns, after as many of warming up in either engine."""
    taken: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(bench.sizes.repeats + 1):
        count = _CYCLES if number else round(_WARM * bench.sizes.warm)
        for name, engine in engines.items():
            found = engine.call("cycles", count=count, sources=operation.sources)
            if number:
                taken[name] += found
    assert OURS in taken
    return taken
