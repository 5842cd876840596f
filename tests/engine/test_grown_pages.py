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
