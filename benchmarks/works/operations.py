"""The cost of computed tables: the same change to sources of growing size.

In the process, without a server. A change writes 1,000 rows of a keyed source anew, at random places, and each goes to
another of 500 groups; tables that only grow get 1,000 rows. Costs are milliseconds of processor time of a cycle beyond
its sources, and the exponent is that of the cost against the size. The sizes take turns, since a machine is not equally
fast all the time. After each cycle the floor is measured: random reads of an array that grows with the table, which
miss the processor's caches as the cycle does. ``benchmarks/state.py`` measures what is kept.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final, TypeAlias

import numpy as np

from barrage_server.engine.derived import DerivedTable
from benchmarks.bench import Bench
from benchmarks.figures import Figure
from benchmarks.names import OURS
from benchmarks.operation_cases import CASES, NOT_LOCAL, Case, Sources, derived
from benchmarks.works.growth import CHANGED, exponent

WORK: Final = "operations on a keyed table"
LARGE: Final = "large"
"""The row that takes the largest size in, too: some 16 GB and an hour."""
OPERATIONS: Final = tuple(name for name in CASES if name not in NOT_LOCAL)
"""Operations whose cost follows the change."""
_Points: TypeAlias = list[tuple[float, float]]
"""Pairs of a size and milliseconds."""
FLOOR: Final = "exponent of 20,000 random reads"
_TURNS: Final = 4
_CYCLES: Final = 4
"""Cycles of a turn that count."""
_WARM: Final = 2
"""Cycles before them in each turn: the other sizes have taken the caches."""
_READS: Final = 20_000
_READ_CELLS: Final = 8
"""Cells of 8 bytes for each row of a table, in the array that is read: a line of the caches."""


def run(bench: Bench) -> None:
    """Each operation on sources of each size but the largest one.

    It is measured on the largest one, too, if that is selected. Rows are operations.
    """
    sizes = bench.sizes.growth if bench.asks_for(LARGE) else bench.sizes.growth[:-1]
    places = [_Place(rows) for rows in sizes]
    for name, case in CASES.items():
        if not (bench.asks_for(LARGE) or bench.wants(name)):
            continue
        bench.step(name)
        derived(case.make(places[0].sources))  # the first start imports what it needs
        expected = "the table" if name in NOT_LOCAL else "the change"
        costs, reads = _measure(bench, places, name, case)
        figure = Figure(f"growth of {name}", "exponent", OURS, _slope(costs), f"cost follows {expected}", "")
        figure.points = costs
        bench.outcome.figures += [figure, Figure(f"growth of {name}", FLOOR, OURS, _slope(reads), "", "")]
        bench.keep()


class _Place:
    """The sources of one size, and the array whose random reads are the floor."""

    def __init__(self, rows: int) -> None:
        self.sources = Sources(rows)
        self.sources.graph.clock = time.process_time
        self._cells = np.ones(rows * _READ_CELLS, np.int64)
        self._random = np.random.default_rng(1)

    def cycle(self, case: Case, tables: Sequence[DerivedTable]) -> tuple[float, float]:
        """Milliseconds of a cycle, and those of the random reads after it."""
        before = sum(table.seconds for table in tables)
        self.sources.change(case.change, CHANGED)
        cost = sum(table.seconds for table in tables) - before
        where = self._random.integers(0, len(self._cells), _READS)
        began = time.process_time()
        self._cells.take(where)
        return max(1e-3, cost * 1e3), (time.process_time() - began) * 1e3


def _measure(bench: Bench, places: Sequence[_Place], name: str, case: Case) -> tuple[_Points, _Points]:
    """Milliseconds of a cycle at each size, and those of random reads."""
    tables, costs, reads = [], [], []
    for place in places:
        began = time.process_time()
        tables.append(derived(case.make(place.sources)))
        took = (time.process_time() - began) * 1e3
        bench.add(WORK, f"{name}, {place.sources.rows:,} rows, start", OURS, [took], "ms")
    taken: list[list[tuple[float, float]]] = [[] for _ in places]
    for _ in range(_TURNS):
        for place, made, found in zip(places, tables, taken, strict=True):
            found += [place.cycle(case, made) for _ in range(_WARM + _CYCLES)][_WARM:]
    for place, found in zip(places, taken, strict=True):
        rows = place.sources.rows
        cost, floor = (list(part) for part in zip(*found, strict=True))
        bench.add(WORK, f"{name}, {rows:,} rows, 1,000 changes", OURS, cost, "ms")
        costs.append((float(rows), float(np.median(cost))))
        reads.append((float(rows), float(np.median(floor))))
    return costs, reads


def _slope(points: _Points) -> float:
    return exponent(points) if len(points) > 1 else 0.0
