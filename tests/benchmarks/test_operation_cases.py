"""What operations cost and keep is measured of every one of them, and written where the documents have it."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import state
from benchmarks.operation_cases import CASES, NOT_LOCAL, Sources, derived
from benchmarks.works.operations import OPERATIONS
from tests.operations.every.names import every_name, noted_names

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def sources() -> Sources:
    return Sources(2_000)


def test_every_operation_is_measured(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    """What never changes has no cycle, and nothing to keep."""
    found = noted_names(monkeypatch)
    for case in CASES.values():
        case.make(sources)
    still = {"snapshot", "meta_table"}
    short = {name for name in every_name() if name.endswith("_by") and name != "agg_by"}  # others under a second name
    assert every_name() - found - still - short == set()
    assert set(OPERATIONS) | set(NOT_LOCAL) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_each_case_has_a_part_in_a_cycle(name: str, sources: Sources) -> None:
    sources.fill_blink()
    sources.graph.clock = itertools.count().__next__
    made = CASES[name].make(sources)
    before = sum(table.seconds for table in derived(made))
    sources.change(CASES[name].change, 100)
    assert sum(table.seconds for table in derived(made)) > before
    assert [table.failure for table in derived(made) if table.failure is not None] == []


def test_state_is_measured_as_memory(tmp_path: Path) -> None:
    """A sort of a table that ticks keeps some 25 bytes a row, and a view nothing."""
    path = tmp_path / "state.json"
    chosen = ["--only", "sort_descending", "--only", "update_view"]
    command = [sys.executable, "-m", "benchmarks.state", "--rows", "300000", "--no-flat", *chosen, "--path", str(path)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=100, stdout=subprocess.DEVNULL)
    states = state.load(path)
    assert 15 < states["sort_descending"].measured < 45
    assert abs(states["update_view"].measured) < 5


def test_operations_with_the_same_figures_share_a_row() -> None:
    states = {
        "a": state.State(0.01, 0.0, 0, 1_000),
        "b": state.State(25.3, 25.4, 10 << 20, 15 << 20),
        "c": state.State(-0.02, 0.0, 5_000, 0),
        "d": state.State(8.44, 8.4),
    }
    assert state.as_lines(states)[2:] == [
        "| `a`, `c` | 0 | 0 | the same |",
        "| `b` | 25 | 25 | +50 % |",
        "| `d` | 8.4 | 8.4 |  |",
    ]


def test_the_document_has_the_state_of_every_operation() -> None:
    states = state.load()
    assert states.keys() == CASES.keys()
    marked = re.search(r"<!-- figures -->\n(.*)<!-- /figures -->", (ROOT / "docs/memory.md").read_text(), re.DOTALL)
    assert marked is not None
    assert marked[1].strip().splitlines() == state.as_lines(states)
