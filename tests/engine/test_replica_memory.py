"""What a replica holds follows the rows that it has, whatever its source promises about them."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from barrage_server.engine import ReplicaTable, ReplicaUpdate, TableTraits, UpdateGraph
from barrage_server.rowset import RowSet, RowSetShiftData

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])
PROMISES: list[dict[str, object]] = [
    {},
    {"AppendOnly": True},
    {"AddOnly": True},
    {"BlinkTable": True},
    {"RingCapacity": 20},
]
ROWS, CYCLES, TEXT = 20, 200, "x" * 1000
MOST = 40 * ROWS * len(TEXT) + (1 << 20)  # of 4 MB that are written: a megabyte of garbage is not looked for


def columns(rows: RowSet, cycle: int) -> list[pa.Array]:
    return [pa.array(rows.keys()), pa.array([f"{cycle}-{key}{TEXT}" for key in rows])]


def replica(promises: dict[str, object], is_window: bool) -> ReplicaTable:
    return ReplicaTable(UpdateGraph(), "t", SCHEMA, traits=TableTraits.of(promises), is_window=is_window)


def moved_along(table: ReplicaTable, cycle: int) -> ReplicaUpdate:
    """The last rows in view of a table that grows, as positions in the view."""
    held, half = table.version.row_set, ROWS // 2
    if not held:
        return ReplicaUpdate(RowSet.flat(ROWS), columns=columns(RowSet.flat(ROWS), cycle))
    added = RowSet.from_range(half, ROWS - 1)
    shifts = RowSetShiftData.from_arrays([half], [ROWS - 1], [-half])
    return ReplicaUpdate(added, RowSet.flat(half), shifts, columns(added, cycle))


def scrolled(table: ReplicaTable, cycle: int) -> ReplicaUpdate:
    """Rows of other places of a table, back and forth."""
    first = ROWS * (cycle % 90 if cycle % 2 else 90 - cycle % 90)
    rows = RowSet.from_range(first, first + ROWS - 1)
    held = table.version.row_set
    return ReplicaUpdate(rows - held, held - rows, columns=columns(rows - held, cycle))


def overwritten(table: ReplicaTable, cycle: int) -> ReplicaUpdate:
    """The same rows with other values."""
    rows = RowSet.flat(ROWS)
    if not table.size:
        return ReplicaUpdate(rows, columns=columns(rows, cycle))
    return ReplicaUpdate(RowSet.empty(), modified={1: (rows, columns(rows, cycle)[1])})


def begun_anew(table: ReplicaTable, cycle: int) -> ReplicaUpdate:
    """A ring; once its source has restarted, its row keys begin anew."""
    held = table.version.row_set
    first = 0 if not held or cycle == 30 else held.last_key + 1
    rows = RowSet.from_range(first, first + ROWS - 1)
    return ReplicaUpdate(rows - held if cycle != 30 else rows, held, columns=columns(rows, cycle))


@pytest.mark.parametrize("is_window", [False, True])
@pytest.mark.parametrize("promises", PROMISES, ids=str)
@pytest.mark.parametrize("change", [moved_along, scrolled, overwritten, begun_anew])
def test_storage_follows_the_rows_whatever_was_promised(
    change: Any, promises: dict[str, object], is_window: bool
) -> None:
    """A promise that is not kept, or not kept by a part of the table, makes no difference."""
    table = replica(promises, is_window)
    most = 0
    for cycle in range(CYCLES):
        table.apply(change(table, cycle))
        most = max(most, table.nbytes)
        assert table.size == ROWS
    assert most < MOST


@pytest.mark.parametrize("promises", PROMISES, ids=str)
def test_a_version_that_is_held_stays_what_it_was(promises: dict[str, object]) -> None:
    """Also of a table that is said to have its rows at the end only."""
    table, random_ = replica(promises, is_window=True), random.Random(1)
    held = []
    for cycle in range(120):
        table.apply(random_.choice([moved_along] if cycle == 0 else [moved_along, overwritten])(table, cycle))
        if cycle % 7 == 0:
            held.append((table.version, table.to_arrow()))
    for version, content in held:
        assert version.to_table().equals(content)
