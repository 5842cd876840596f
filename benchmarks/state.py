"""``python -m benchmarks.state``: measure the bytes that each operation keeps.

They are for the table of docs/memory.md.

It is the memory of this process, of which everything large is in mappings of its own, so that it goes when it is freed.
Beside it stands what statistics say, ``state_bytes``. A million rows of a table of 100,000 are then written anew, and
the bytes taken once more.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Final

import pyarrow as pa
import typer

from benchmarks.operation_cases import CASES, Case, Sources, derived

__all__ = ["PATH", "State", "as_lines", "load"]

PATH: Final = Path(__file__).with_name("state.json")
_ROWS: Final = 1_000_000
_CHURNED_ROWS: Final = 100_000
_CHURNED: Final = 50_000
"""Rows of a cycle while a million are written."""
_UPDATES: Final = 1_000_000
_BEFORE: Final = 200_000
"""Updates after which the state is taken first: orders and maps have grown to what they need."""
_CYCLES: Final = 3
_ALLOCATORS: Final = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}
_SMALL: Final = 1 << 20
"""Bytes below which growth is that of allocators."""
_CHANGED: Final = 1_000


@dataclass(slots=True)
class State:
    """What one operation keeps.

    Attributes:
        measured: bytes for each row of the source, as allocated.
        stated: the same as statistics have it.
        before: bytes of a small table after some updates; None: it was not measured.
        after: bytes after a million.

    """

    measured: float
    stated: float
    before: int | None = None
    after: int | None = None


def load(path: Path = PATH) -> dict[str, State]:
    """What was measured last, by operation."""
    return {name: State(**entry) for name, entry in json.loads(path.read_text()).items()} if path.exists() else {}


def as_lines(states: dict[str, State]) -> list[str]:
    """The rows of the table in the document.

    Operations with the same figures share one.
    """
    rows: dict[tuple[str, str, str], list[str]] = {}
    for name, state in states.items():
        rows.setdefault((_short(state.measured), _short(state.stated), _growth(state)), []).append(f"`{name}`")
    lines = ["| operation | bytes per row | in the statistics | after a million updates |", "|---|---:|---:|---|"]
    return lines + [f"| {', '.join(names)} | {' | '.join(figures)} |" for figures, names in rows.items()]


def _short(value: float) -> str:
    return "0" if abs(value) < 0.05 else f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _growth(state: State) -> str:
    if state.before is None or state.after is None:
        return ""
    grown = state.after - state.before
    if grown < _SMALL:
        return "the same"
    return f"{100 * grown / max(1, state.before):+.0f} %"


def resident() -> int:
    """Bytes of the process's memory that belong to no file, after freeing."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)
    fields = dict(line.split(":", 1) for line in Path("/proc/self/smaps_rollup").read_text().splitlines()[1:])
    return int(fields["Anonymous"].split()[0]) << 10


def measure(sources: Sources, case: Case) -> State:
    """What an operation keeps after its start and some cycles."""
    sources.fill_blink()
    before = resident() - sources.nbytes
    result = case.make(sources)
    for _ in range(_CYCLES):
        sources.change(case.change, _CHANGED)
    kept = resident() - sources.nbytes - before
    stated = sum(table.state_bytes for table in derived(result))
    return State(kept / sources.rows, stated / sources.rows)


def churn(sources: Sources, case: Case, state: State) -> None:
    """Take the bytes after some updates and after a million."""
    before = resident() - sources.nbytes
    result = case.make(sources)
    for done in range(_CHURNED, _UPDATES + 1, _CHURNED):
        sources.change(case.change, _CHURNED)
        if done == _BEFORE:
            state.before = resident() - sources.nbytes - before
    state.after = resident() - sources.nbytes - before
    del result


def main(
    rows: Annotated[int, typer.Option(help="Rows of the table.")] = _ROWS,
    only: Annotated[list[str] | None, typer.Option(help="Only operations with this in their name.")] = None,
    flat: Annotated[bool, typer.Option(help="Write a million rows anew, too.")] = True,
    path: Annotated[Path, typer.Option(help="Where to keep it; what is there stays, but for what is measured.")] = PATH,
) -> None:
    """Measure, and write benchmarks/state.json.

    make figures writes the table of docs/memory.md from it.
    """
    if any(os.environ.get(name) != value for name, value in _ALLOCATORS.items()):  # read when a process begins
        os.execve(sys.executable, [sys.executable, "-m", "benchmarks.state", *sys.argv[1:]], os.environ | _ALLOCATORS)
    states = load(path)
    chosen = [name for name in CASES if not only or any(part in name for part in only)]
    warm = Sources(1_000)
    for name in chosen:
        measure(warm, CASES[name])  # what is loaded and compiled once is not of a table
    sources = Sources(rows)
    for name in chosen:
        measured = measure(sources, CASES[name])
        known = states.get(name, measured)
        states[name] = State(measured.measured, measured.stated, known.before, known.after)
        _tell(name, states[name])
    _save(states, path)
    if not flat:
        return
    sources = Sources(_CHURNED_ROWS)
    for name in chosen:
        if CASES[name].change != "appended":  # what grows keeps more
            churn(sources, CASES[name], states[name])
            _tell(name, states[name])
            _save(states, path)


def _save(states: dict[str, State], path: Path) -> None:
    path.write_text(json.dumps({name: asdict(states[name]) for name in CASES if name in states}, indent=1) + "\n")


def _tell(name: str, state: State) -> None:
    sys.stdout.write(f"{name}: {_short(state.measured)}, {_short(state.stated)} {_growth(state)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    typer.run(main)
