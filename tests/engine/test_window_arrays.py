"""A small window keeps each column as one array: it reads as cells do, whatever is applied, and old versions stay."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from barrage_server.engine import ReplicaTable, ReplicaUpdate, TableVersion, UpdateGraph, window_arrays
from barrage_server.engine.window_arrays import ArrayView
from barrage_server.errors import RowSetError
from barrage_server.rowset import RowSet, RowSetShiftData

SCHEMA = pa.schema(
    [("n", pa.int64()), ("flag", pa.bool_()), ("s", pa.string()), ("b", pa.large_binary()), ("t", pa.timestamp("ns"))]
)
MAKERS: list[Any] = [
    lambda chance: chance.randrange(1000),
    lambda chance: chance.random() < 0.5,
    lambda chance: chance.choice("abä") * chance.randrange(5),
    lambda chance: chance.randbytes(chance.randrange(4)),
    lambda chance: chance.randrange(1 << 60),
]


def values(column: int, chance: random.Random, count: int) -> pa.Array:
    """Values as they come: perhaps a slice, perhaps with a bitmap that is not needed."""
    spare, nulls = chance.choice([0, 0, 3]), chance.choice([0.0, 0.0, 0.2])
    cells = [None if chance.random() < nulls else MAKERS[column](chance) for _ in range(count + spare)]
    return pa.array(cells, SCHEMA.field(column).type).slice(spare)


def change(held: list[int], chance: random.Random) -> ReplicaUpdate:
    """Rows go, those that stay keep their order and perhaps get other keys, rows come and change."""
    match chance.randrange(4):
        case 0:  # the window moves, and what it shows stays as it is
            first = chance.randrange(120)
            now = range(first, first + chance.choice([0, 1, 30]))
            removed, moved = sorted(set(held) - set(now)), sorted(set(held) & set(now))
            stayed, added = moved, sorted(set(now) - set(held))
        case _:
            removed = [key for key in held if chance.random() < chance.choice([0.0, 0.1, 1.0])]
            stayed = moved = sorted(set(held) - set(removed))
            if chance.random() < 0.4:
                moved = sorted(chance.sample(range(150), len(stayed)))
            added = sorted(set(chance.sample(range(150), chance.choice([0, 1, 10]))) - set(moved))
    modified = {}
    for column in range(len(SCHEMA)):
        rows = [key for key in moved if chance.random() < chance.choice([0.0, 0.1, 1.0])]
        if chance.random() < 0.2:
            modified[column] = (RowSet.from_keys(rows), values(column, chance, len(rows)))
    return ReplicaUpdate(
        RowSet.from_keys(added),
        RowSet.from_keys(removed),
        RowSetShiftData.between(RowSet.from_keys(stayed), RowSet.from_keys(moved)),
        [values(column, chance, len(added)) for column in range(len(SCHEMA))],
        modified,
    )


def replica(*, is_window: bool) -> ReplicaTable:
    return ReplicaTable(UpdateGraph(), "t", SCHEMA, is_window=is_window)


def keeps_arrays(version: TableVersion) -> bool:
    return all(isinstance(view, ArrayView) for view in version.views)


@pytest.mark.parametrize("most", [1 << 11, 25], ids=["arrays", "arrays, then cells"])
@pytest.mark.parametrize("seed", range(12))
def test_a_window_reads_as_the_same_rows_in_cells(seed: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window_arrays, "_MOST_ROWS", most)
    chance, window, cells = random.Random(seed), replica(is_window=True), replica(is_window=False)
    held: list[tuple[TableVersion, pa.Table]] = []
    for _ in range(60):
        update = change(window.version.row_set.keys().tolist(), chance)
        window.apply(update)
        cells.apply(update)
        version, other = window.version, cells.version
        assert version.row_set == other.row_set and version.node.update == other.node.update
        content = other.to_table()
        assert version.to_table().equals(content)
        some = RowSet.from_keys([key for key in version.row_set if chance.random() < 0.5])
        for array, expected in zip(version.read(some), other.read(some), strict=True):
            array.validate(full=True)
            assert array.equals(expected)
        held.append((version, content))
    for version, content in held:
        assert version.to_table().equals(content)
    assert keeps_arrays(held[-1][0]) == (most > 25) and keeps_arrays(held[0][0])


def test_rows_that_are_not_there_are_an_error() -> None:
    table = replica(is_window=True)
    table.apply(change([], random.Random(1)))
    with pytest.raises(RowSetError):
        table.version.read(RowSet.from_range(1 << 40, (1 << 40) + 3))


def test_many_bytes_go_to_cells() -> None:
    schema = pa.schema([("s", pa.string())])
    table = ReplicaTable(UpdateGraph(), "t", schema, is_window=True)
    texts = pa.array(["x" * 1_000_000] * 3)
    table.apply(ReplicaUpdate(RowSet.flat(3), columns=[texts]))
    assert keeps_arrays(table.version)
    table.apply(ReplicaUpdate(RowSet.from_range(3, 5), columns=[texts]))
    assert not keeps_arrays(table.version)
    assert table.to_arrow()["s"].to_pylist() == texts.to_pylist() * 2


def test_rows_that_are_replaced_by_as_many_stay_few() -> None:
    """What counts is the window after the update: one of 2,000 rows may jump, and go on by half of them."""
    table = ReplicaTable(UpdateGraph(), "t", pa.schema([("s", pa.string())]), is_window=True)
    held = RowSet.empty()
    for first, text in ((0, "x" * 1_500), (5_000, "y" * 1_500), (10_000, "z"), (11_000, "z")):
        rows = RowSet.from_range(first, first + 1_999)
        added = rows - held
        table.apply(ReplicaUpdate(added, held - rows, columns=[pa.array([text] * added.size)]))
        assert keeps_arrays(table.version)
        assert table.to_arrow()["s"].to_pylist() == [text] * 2_000
        held = rows
    table.apply(ReplicaUpdate(RowSet.from_range(20_000, 20_099), columns=[pa.array(["z"] * 100)]))
    assert not keeps_arrays(table.version)
    assert table.size == 2_100


def test_memory_is_that_of_the_rows_in_view() -> None:
    schema = pa.schema([("n", pa.int64())])
    table = ReplicaTable(UpdateGraph(), "t", schema, is_window=True)
    held = RowSet.empty()
    for first in (0, 10, 5000, 4990):
        rows = RowSet.from_range(first, first + 99)
        added = rows - held
        table.apply(ReplicaUpdate(added, held - rows, columns=[pa.array(np.arange(added.size))]))
        assert table.nbytes <= 100 * 8 + 64
        held = rows


def test_columns_of_other_types_are_kept_in_cells() -> None:
    schema = pa.schema([("n", pa.int64()), ("items", pa.list_(pa.int8()))])
    table = ReplicaTable(UpdateGraph(), "t", schema, is_window=True)
    assert not keeps_arrays(table.version)
