"""Cells that are new in a page which has had nulls can be written while an older version is held."""

from __future__ import annotations

import pyarrow as pa

from barrage_server.engine import ReplicaTable, ReplicaUpdate, UpdateGraph
from barrage_server.rowset import RowSet, RowSetShiftData


def test_a_row_moves_beyond_the_page_that_knows_its_nulls() -> None:
    table = ReplicaTable(UpdateGraph(), "t", pa.schema([("x", pa.int64())]))
    table.apply(ReplicaUpdate(RowSet.flat(3), columns=[pa.array([None, 1, 2])]))
    held = table.version
    far = 1_000_000  # in the same page of the key space, beyond the cells that exist
    shift = RowSetShiftData.from_arrays([2], [2], [far - 2])
    table.apply(ReplicaUpdate(RowSet.empty(), shifted=shift))
    assert table.to_arrow()["x"].to_pylist() == [None, 1, 2]
    assert table.version.row_set == RowSet.from_keys([0, 1, far])
    assert held.to_table()["x"].to_pylist() == [None, 1, 2]


def test_a_window_that_comes_back_does_not_change_what_older_versions_saw() -> None:
    schema = pa.schema([("x", pa.int64()), ("text", pa.string())])
    table = ReplicaTable(UpdateGraph(), "t", schema, is_window=True)
    here, there = RowSet.from_range(50_000, 50_009), RowSet.flat(3)

    def show(rows: RowSet, value: int) -> None:
        values = [pa.array([value] * rows.size), pa.array([f"text {value}"] * rows.size)]
        table.apply(ReplicaUpdate(rows, table.version.row_set, columns=values))

    held = []
    for value in range(1, 7):
        show(here if value % 2 else there, value)
        held.append(table.version)
        assert table.nbytes < 200_000
    for value, version in enumerate(held, start=1):
        rows = version.to_table()
        assert set(rows["x"].to_pylist()) == {value}
        assert set(rows["text"].to_pylist()) == {f"text {value}"}
