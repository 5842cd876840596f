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
_TURNS: Final = 2  # for each repetition
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
            both = (whole, part)
            for system in both:
                system.make("t", kind, _ROWS)
            for readers in (1, 10):
                bench.step(f"{what}, {readers} readers")
                used = _turns(bench, both, readers)
                figure = f"{what}, {readers} reader{'s' * (readers > 1)}"
                for name, cores in zip((OURS, ROLES), used, strict=True):
                    bench.add(WORK, figure, name, cores, "cores")
                ratios = [other / one for one, other in zip(*used, strict=True)]
                bench.add(WORK, f"{figure}, {RATIO}", OURS, ratios, "times")


def _turns(bench: Bench, both: tuple[systems.System, systems.System], readers: int) -> tuple[list[float], list[float]]:
    """Cores that each server's process uses, turn by turn. Many short turns: a machine is not equally fast for long."""
    used: tuple[list[float], list[float]] = ([], [])
    with ExitStack() as stack:
        for system in both:
            for _ in range(readers):
                stack.enter_context(system.receiving("t", INTERVAL_MS, stamps=False))
        for turn in range(1 + _TURNS * bench.sizes.repeats):
            for place in (0, 1) if turn % 2 else (1, 0):
                cores = _used(bench, both[place])
                if turn:  # the first one warms up
                    used[place].append(cores)
    return used


def _used(bench: Bench, system: systems.System) -> float:
    with system.ticking("t", _RATE, 10):
        time.sleep(bench.sizes.settle / 4)
        used, begin = system.cpu_seconds(), time.perf_counter()
        time.sleep(bench.sizes.measure / 3)
        return (system.cpu_seconds() - used) / (time.perf_counter() - begin)
