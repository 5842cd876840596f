"""The cost of a role that shows a part of a table.

A server that shows half of it runs beside one that shows all.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Final

from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.names import OURS, ROLES

WORK: Final = "subscribers of a part of a table that ticks"
RATIO: Final = "processor time, of that for the whole table"
INTERVAL_MS: Final = 50
_ROWS: Final = 200_000
_RATE: Final = 100_000.0
_MOST_PAIRS: Final = 3  # of steady states for each case: five of them take longer than a benchmark may
_ROLE: Final = {"tables": ["t"], "rights": ["list", "read"]}
_CASES: Final = (
    ("append, half of the rows", "append", "quantity < 500"),
    ("keyed, half of the rows", "keyed", f"id < {_ROWS // 2}"),
    ("keyed, half of the changed rows enter or leave", "keyed", "quantity < 500"),
)


def run(bench: Bench) -> None:
    """The same rows are written to both servers, in turns.

    There is one subscriber, then ten.
    """
    for what, kind, where in _CASES:
        with (
            systems.ours(roles={"all": _ROLE}, default_roles=["all"]) as whole,
            systems.ours(roles={"part": {**_ROLE, "where": where}}, default_roles=["part"]) as part,
        ):
            for system in (whole, part):
                system.make("t", kind, _ROWS)
            for readers in (1, 10):
                bench.step(f"{what}, {readers} readers")
                repeats = min(bench.sizes.repeats, _MOST_PAIRS)
                pairs = [(_used(bench, whole, readers), _used(bench, part, readers)) for _ in range(repeats)]
                figure = f"{what}, {readers} reader{'s' * (readers > 1)}"
                bench.add(WORK, figure, OURS, [one for one, _ in pairs], "cores")
                bench.add(WORK, figure, ROLES, [other for _, other in pairs], "cores")
                bench.add(WORK, f"{figure}, {RATIO}", OURS, [other / one for one, other in pairs], "times")


def _used(bench: Bench, system: systems.System, readers: int) -> float:
    """Cores that the server's process uses."""
    with ExitStack() as stack:
        for _ in range(readers):
            stack.enter_context(system.receiving("t", INTERVAL_MS, stamps=False))
        stack.enter_context(system.ticking("t", _RATE, 10))
        time.sleep(bench.sizes.settle)
        used, begin = system.cpu_seconds(), time.perf_counter()
        time.sleep(bench.sizes.measure)
        return (system.cpu_seconds() - used) / (time.perf_counter() - begin)
