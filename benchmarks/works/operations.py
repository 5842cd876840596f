"""The cost of computed tables: the same change to sources of growing size.

In the process, without a server. A change writes 1,000 rows of a keyed source anew, at random places, and each goes to
another group; tables that only grow get 1,000 rows. Costs are milliseconds of processor time of a cycle beyond its
sources, and the exponent is that of the cost against the size. ``benchmarks/state.py`` measures what is kept.
"""

from __future__ import annotations

import time
from typing import Final

import numpy as np

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
_CYCLES: Final = 12
_WARM: Final = 3


def run(bench: Bench) -> None:
    """Each operation on sources of each size but the largest one.

    It is measured on the largest one, too, if that is selected.
    """
    points: dict[str, list[tuple[float, float]]] = {}
    sizes = bench.sizes.growth if bench.asks_for(LARGE) else bench.sizes.growth[:-1]
    for rows in sizes:
        sources = Sources(rows)
        sources.graph.clock = time.process_time
        for name, case in CASES.items():
            bench.step(f"{name}, {rows:,} rows")
            points.setdefault(name, []).append((float(rows), _measure(bench, sources, name, case)))
        bench.keep()
    for name, found in points.items():
        expected = "the table" if name in NOT_LOCAL else "the change"
        value = exponent(found) if len(found) > 1 else 0.0
        figure = Figure(f"growth of {name}", "exponent", OURS, value, f"cost follows {expected}", "")
        figure.points = found
        bench.outcome.figures.append(figure)


def _measure(bench: Bench, sources: Sources, name: str, case: Case) -> float:
    """Milliseconds of a cycle."""
    began = time.process_time()
    result = case.make(sources)
    bench.add(WORK, f"{name}, {sources.rows:,} rows, start", OURS, [(time.process_time() - began) * 1e3], "ms")
    tables = derived(result)
    costs: list[float] = []
    for _ in range(_WARM + _CYCLES):
        before = sum(table.seconds for table in tables)
        sources.change(case.change, CHANGED)
        costs.append((sum(table.seconds for table in tables) - before) * 1e3)
    bench.add(WORK, f"{name}, {sources.rows:,} rows, 1,000 changes", OURS, costs[_WARM:], "ms")
    return max(1e-3, float(np.median(costs[_WARM:])))
