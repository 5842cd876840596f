"""A table that is computed from another one in several ways counts its bytes once, and in little time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import barrage_server as bs
from barrage_server.engine import AppendTable, KeyedTable, Table, UpdateGraph
from barrage_server.operations.estimate import held_bytes

ROWS = 1000
STEPS = 40


def ticking() -> Table:
    table = KeyedTable(UpdateGraph(), "t", {"x": "int64"}, ["x"])
    table.upsert({"x": range(ROWS)})
    return table


def still() -> Table:
    return bs.empty_table(ROWS).update("x = ii")


def joined(table: Table, steps: int) -> Table:
    """The table, joined at each step with what was made of it."""
    for step in range(steps):
        table = table.natural_join(table.view(["x", f"y{step} = x"]), on="x")
    return table


@pytest.mark.parametrize("make", [ticking, still])
@pytest.mark.parametrize("figure", ["nbytes", "state_bytes"])
def test_each_step_adds_what_the_first_one_added(make: Callable[[], Table], figure: str) -> None:
    """Forty steps would otherwise have a million million times the bytes."""
    few: Any = getattr(joined(make(), 2), figure)
    many: Any = getattr(joined(make(), STEPS), figure)
    assert few <= many <= STEPS * few


def test_the_estimate_of_a_snapshot_does_not_double_with_each_step() -> None:
    table = ticking()
    assert held_bytes(joined(table, STEPS)) <= STEPS * held_bytes(joined(table, 1))


def test_tables_that_are_merged_with_themselves_count_once() -> None:
    table = AppendTable(UpdateGraph(), "t", {"x": "int64"})
    table.append({"x": range(ROWS)})
    merged: Table = table
    for _ in range(4):
        merged = bs.merge([merged, merged])
    assert merged.nbytes < 3 * table.nbytes
