"""A replica's cells lie by row key or by slot, by the spread of its rows: only its memory shows which."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine import ReplicaTable, ReplicaUpdate, UpdateGraph, replica_cells, row_slots
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.replica_cells import ReplicaCells
from barrage_server.engine.row_slots import NO_SLOT, RowSlots
from barrage_server.engine.sorting import last_of_each
from barrage_server.errors import RowSetError
from barrage_server.rowset import MAX_KEY, RowSet, RowSetShiftData
from tests.engine.followers import Follower

SCHEMA = pa.schema([("n", pa.int64()), ("flag", pa.bool_()), ("s", pa.string()), ("items", pa.list_(pa.int8()))])
NUMBERS = pa.schema([("n", pa.int64())])


def cells(column: int, chance: random.Random, count: int) -> pa.Array:
    makers: list[Any] = [
        lambda: chance.randrange(1000),
        lambda: chance.random() < 0.5,
        lambda: chance.choice("abc") * chance.randrange(5),
        lambda: [chance.randrange(100) for _ in range(chance.randrange(3))],
    ]
    values = [None if chance.random() < 0.1 else makers[column]() for _ in range(count)]
    return pa.array(values, SCHEMA.field(column).type)


class Scatter:
    """Row keys of changing patterns: close together, far apart, in clusters, at both ends of the key space."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.turn()

    def turn(self) -> None:
        self.stride = 1 << self.chance.choice([0, 0, 1, 6, 10, 12, 20, 40])
        self.first = self.chance.choice([0, 1000, 1 << 30, MAX_KEY - 300 * self.stride]) % (MAX_KEY + 1)
        self.cluster = self.chance.choice([1, 1, 5])

    def keys(self, count: int) -> set[int]:
        found = set()
        for _ in range(count):
            start = self.first + self.stride * self.chance.randrange(300)
            found |= {min(start + place, MAX_KEY) for place in range(self.cluster)}
        return found


def change(table: ReplicaTable, chance: random.Random, scatter: Scatter) -> ReplicaUpdate:
    """A random update: rows go, those that stay keep their order and perhaps get other keys, rows come and change."""
    held: list[int] = table.version.row_set.keys().tolist()
    share = chance.choice([0.0, 0.1, 0.1, 0.5, 0.9, 1.0])
    removed = [key for key in held if chance.random() < share]
    stayed = sorted(set(held) - set(removed))
    moved = stayed
    if stayed and chance.random() < 0.4:
        pool = scatter.keys(2 * len(stayed)) | set(stayed)
        moved = sorted(chance.sample(sorted(pool), len(stayed)))
    added = sorted(scatter.keys(chance.choice([0, 1, 5, 40])) - set(moved))
    modified = {}
    for column in range(len(SCHEMA)):
        rows = [key for key in moved if chance.random() < chance.choice([0.0, 0.1, 1.0])]
        if rows and chance.random() < 0.5:
            modified[column] = (RowSet.from_keys(rows), cells(column, chance, len(rows)))
    return ReplicaUpdate(
        RowSet.from_keys(added),
        RowSet.from_keys(removed),
        RowSetShiftData.between(RowSet.from_keys(stayed), RowSet.from_keys(moved)),
        [cells(column, chance, len(added)) for column in range(len(SCHEMA))],
        modified,
    )


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Layouts that change with a few rows already; which ones were begun."""
    for name, value in {"_SMALL": 8, "_MIN_BLOCKS": 2, "_MIN_SLOTS": 8, "_MOST_CELLS": 200, "_FEW_CELLS": 100}.items():
        monkeypatch.setattr(replica_cells, name, value)
    begun: list[str] = []
    for name in ("lay_out_by_key", "lay_out_by_slot"):
        original = getattr(ReplicaCells, name)

        def noted(cells: ReplicaCells, rows: RowSet, name: str = name, original: Any = original) -> None:
            begun.append(name)
            original(cells, rows)

        monkeypatch.setattr(ReplicaCells, name, noted)
    return begun


@pytest.mark.parametrize("is_window", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_a_replica_reads_the_same_in_every_layout(seed: int, is_window: bool, eager: list[str]) -> None:
    """Removes, shifts, adds and modifications of rows that are close and far apart; held versions stay as they were."""
    chance = random.Random(seed)
    scatter = Scatter(chance)
    table = ReplicaTable(UpdateGraph(), "t", SCHEMA, is_window=is_window)
    follower = Follower(table)
    for step in range(60):
        if step % 6 == 5:
            scatter.turn()
        if chance.random() < 0.3:
            follower.hold(table.version)
        update = change(table, chance, scatter)
        before = dict(follower.rows)
        table.apply(update)
        expected = applied(before, update)
        assert follower.rows == expected
        if chance.random() < 0.1:
            follower.check_held()
    follower.check_held()
    assert {"lay_out_by_key", "lay_out_by_slot"} <= set(eager), "both layouts were used"


def applied(rows: dict[int, list[Any]], update: ReplicaUpdate) -> dict[int, list[Any]]:
    """The update model, row by row."""
    stayed = {key: values for key, values in rows.items() if key not in update.removed}
    moved = {}
    for key, values in stayed.items():
        delta = next((delta for first, last, delta in update.shifted if first <= key <= last), 0)
        moved[key + delta] = list(values)
    for key, *values in zip(update.added, *(column.to_pylist() for column in update.columns), strict=True):
        moved[key] = values
    for number, (changed, values) in update.modified.items():
        for key, value in zip(changed, values.to_pylist(), strict=True):
            moved[key][number] = value
    return moved


def test_several_updates_of_one_cycle_change_the_layout_between_them(eager: list[str]) -> None:
    """What the first has written is what the second finds, wherever it is by then."""
    graph = UpdateGraph()
    table = ReplicaTable(graph, "t", NUMBERS)
    held = []
    for round_ in range(6):
        close, apart = RowSet.flat(50), RowSet.from_keys(np.arange(50) << 20)
        held.append((table.version, table.to_arrow()))
        with graph.cycle():
            table.apply(ReplicaUpdate(close, table.version.row_set, columns=[pa.array(np.arange(50) + round_)]))
            table.apply(ReplicaUpdate(RowSet.empty(), shifted=RowSetShiftData.between(close, apart)))
            table.apply(ReplicaUpdate(RowSet.empty(), modified={0: (RowSet.from_keys([0]), pa.array([-round_]))}))
        assert table.to_arrow()["n"].to_pylist() == [-round_, *range(1 + round_, 50 + round_)]
    for version, content in held:
        assert version.to_table().equals(content)
    assert len(eager) >= 6


@pytest.mark.parametrize("bits", [10, 20, 40])
@pytest.mark.parametrize("is_window", [False, True])
def test_rows_far_apart_take_memory_for_themselves_alone(bits: int, is_window: bool) -> None:
    """Whether they come at once, a few at a time, or by a shift; close rows before them leave nothing behind."""
    rows = 20_000
    keys = np.arange(rows, dtype=np.int64) << bits
    most = 64 * rows + (4 << 20)

    def replica() -> ReplicaTable:
        return ReplicaTable(UpdateGraph(), "t", NUMBERS, is_window=is_window)

    at_once = replica()
    at_once.apply(ReplicaUpdate(RowSet.from_sorted_keys(keys), columns=[pa.array(np.arange(rows))]))
    assert at_once.nbytes < most

    a_few = replica()
    for start in range(0, rows, 100):
        part = keys[start : start + 100]
        a_few.apply(ReplicaUpdate(RowSet.from_keys(part), columns=[pa.array(np.arange(start, start + len(part)))]))
    assert a_few.nbytes < most
    assert a_few.to_arrow().equals(at_once.to_arrow())

    shifted = replica()
    shifted.apply(ReplicaUpdate(RowSet.flat(rows), columns=[pa.array(np.arange(rows))]))
    shifts = RowSetShiftData.between(RowSet.flat(rows), RowSet.from_sorted_keys(keys))
    shifted.apply(ReplicaUpdate(RowSet.empty(), shifted=shifts))
    assert shifted.nbytes < most
    assert shifted.to_arrow().equals(at_once.to_arrow())
    back = RowSetShiftData.between(RowSet.from_sorted_keys(keys), RowSet.flat(rows))
    shifted.apply(ReplicaUpdate(RowSet.empty(), shifted=back))
    assert shifted.version.row_set == RowSet.flat(rows)
    assert shifted.version.views[0].piece_end(0) > 0, "cells are under their row keys again"
    assert shifted.to_arrow().equals(at_once.to_arrow())


def test_rows_that_wander_leave_no_memory_behind() -> None:
    """One row stays at each end of the key space; between them, rows come and go at ever new places."""
    table = ReplicaTable(UpdateGraph(), "t", NUMBERS)
    ends = RowSet.from_keys([0, MAX_KEY >> 20 << 20])  # the first cell of a page: nbytes counts untouched memory, too
    table.apply(ReplicaUpdate(ends, columns=[pa.array([-1, -2])]))
    most, before = 0, RowSet.empty()
    for step in range(2000):
        rows = RowSet.from_range((step + 1) << 24, ((step + 1) << 24) + 9)
        table.apply(ReplicaUpdate(rows, before, columns=[pa.array(np.arange(10) + step)]))
        most, before = max(most, table.nbytes), rows
    assert most < 10 << 20
    assert table.to_arrow()["n"].to_pylist() == [-1, *range(1999, 2009), -2]


def test_the_highest_row_keys_are_keys_like_others() -> None:
    """Held versions of rows up to 2**63 - 1, close together and apart."""
    for apart in (1, 5, 1 << 30):
        keys = np.array([MAX_KEY - 2 * apart, MAX_KEY - apart, MAX_KEY], np.int64)
        table = ReplicaTable(UpdateGraph(), "t", NUMBERS)
        rows = RowSet.from_keys(keys)
        table.apply(ReplicaUpdate(rows, columns=[pa.array([1, 2, 3])]))
        held = table.version
        table.apply(ReplicaUpdate(RowSet.empty(), modified={0: (rows, pa.array([10, 20, 30]))}))
        down = RowSetShiftData.from_arrays([MAX_KEY], [MAX_KEY], [-1])
        after = table.version
        table.apply(ReplicaUpdate(RowSet.empty(), RowSet.from_keys(keys[:2]), down))
        assert held.to_table()["n"].to_pylist() == [1, 2, 3]
        assert after.to_table()["n"].to_pylist() == [10, 20, 30]
        assert table.to_arrow()["n"].to_pylist() == [30]
        assert table.version.row_set.last_key == MAX_KEY - 1


@given(st.lists(st.dictionaries(st.integers(0, 30), st.integers(-1, 5), max_size=12), max_size=12))
def test_slots_are_a_mapping_that_versions_can_hold(changes: list[dict[int, int]]) -> None:
    """Against a dict; each state is as it was, whatever came after it."""
    slots, model = RowSlots(), dict[int, int]()
    states = [(slots, dict(model))]
    for entries in changes:
        slots = slots.changed(np.array([*entries], np.int64), np.array([*entries.values()], np.int64))
        model |= entries
        model = {key: slot for key, slot in model.items() if slot != NO_SLOT}
        states.append((slots, dict(model)))
    keys = np.array([*range(31), *range(30, -1, -1)], np.int64)
    for state, expected in states:
        assert state.find(keys).tolist() == [expected.get(key, NO_SLOT) for key in keys.tolist()]
        for key in set(range(31)) - set(expected):
            with pytest.raises(RowSetError, match="no cells"):
                state.plan(RowSet.from_keys([key]))


def test_the_cost_of_a_change_follows_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few entries are merged when few are changed, on average, however many there are."""
    slots = RowSlots().changed(np.arange(1 << 16), np.arange(1 << 16))
    merged: list[int] = []

    def noted(keys: Int64Array, **options: Any) -> tuple[Int64Array, Int64Array]:
        merged.append(len(keys))
        return last_of_each(keys, **options)

    monkeypatch.setattr(row_slots, "last_of_each", noted)
    for step in range(200):
        slots = slots.changed(np.array([step * 7, step * 11]), np.array([step, NO_SLOT]))
    assert max(merged) <= 2 * 200
    assert sum(merged) <= 2 * 200 * 10
    assert slots.nbytes <= 16 * ((1 << 16) + 2 * 200)
