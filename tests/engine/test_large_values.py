"""Values that are too large for one array are read and applied in parts.

Lists of a billion nulls stand for long texts: they take next to no memory, and one array holds no two of them.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from barrage_server.engine import AppendTable, KeyedTable, ReplicaTable, ReplicaUpdate, UpdateGraph, replica
from barrage_server.engine.types import normalise
from barrage_server.errors import LimitError
from barrage_server.rowset import RowSet, RowSetShiftData
from tests.engine.samples import half_full

LARGE = half_full()
NONE = pa.nulls(1, LARGE.type)
SCHEMA = pa.schema([("k", pa.int64()), ("x", LARGE.type)])


def large_rows(*keys: int) -> list[pa.Table]:
    """Tables of one row each, since one array holds no two of them."""
    return [pa.table({"k": [key], "x": LARGE}, schema=SCHEMA) for key in keys]


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_a_version_is_read_in_as_many_batches_as_its_values_require(kind: str) -> None:
    graph = UpdateGraph()
    if kind == "append":
        log = AppendTable(graph, "t", SCHEMA)
        for row in large_rows(0, 1, 2):
            log.append(row)
        version = log.version
    else:
        keyed = KeyedTable(graph, "t", SCHEMA, ["k"])
        for row in large_rows(0, 1, 2):
            keyed.upsert(row)
        version = keyed.version
    with pytest.raises(LimitError, match="Read fewer"):
        version.read(version.row_set)
    batches = list(version.batches())
    assert [batch["k"].to_pylist() for batch in batches] == [[0], [1], [2]]
    assert all(batch["x"].equals(LARGE) for batch in batches)
    assert version.to_table([0]).num_rows == 3
    parts = list(version.read_parts(version.row_set, [1, 0]))
    assert [rows.size for rows, _ in parts] == [1, 1, 1]
    assert [k.to_pylist() for _, (_, k) in parts] == [[0], [1], [2]]


def test_a_replica_takes_an_update_whose_values_need_several_arrays() -> None:
    graph = UpdateGraph()
    table = ReplicaTable(graph, "t", SCHEMA)
    before = table.version.node
    table.apply(
        ReplicaUpdate(RowSet.from_range(5, 7), columns=[pa.array([5, 6, 7]), pa.chunked_array([LARGE, LARGE, LARGE])])
    )
    assert before.next is not None and before.next.next is None, "One update, of one cycle."
    assert table.version.to_table([0])["k"].to_pylist() == [5, 6, 7]

    table.apply(
        ReplicaUpdate(
            RowSet.from_range(1, 2),
            RowSet.from_keys([6]),
            RowSetShiftData.from_arrays([5], [5], [1]),
            [pa.array([1, 2]), pa.chunked_array([LARGE, LARGE])],
            {0: (RowSet.from_keys([6, 7]), pa.array([60, 70])), 1: (RowSet.from_keys([7]), NONE)},
        )
    )
    content = table.version.to_table()
    assert table.version.row_set == RowSet.from_keys([1, 2, 6, 7])
    assert content["k"].to_pylist() == [1, 2, 60, 70]
    assert pc.list_value_length(content["x"]).to_pylist() == [1 << 30, 1 << 30, 1 << 30, None]

    two = RowSet.from_keys([6, 7])
    table.apply(ReplicaUpdate(RowSet.empty(), modified={1: (two, pa.chunked_array([NONE, LARGE]))}))
    table.apply(ReplicaUpdate(RowSet.empty(), modified={1: (two, pa.chunked_array([LARGE, LARGE]))}))
    assert pc.list_value_length(table.version.to_table([1])["x"]).to_pylist() == [1 << 30] * 4


def test_one_value_that_no_array_holds_is_refused_and_nothing_is_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ReplicaTable(UpdateGraph(), "t", SCHEMA)

    def refusing(values: pa.Array, data_type: pa.DataType) -> pa.Array:
        if data_type == LARGE.type:
            raise LimitError("too large")
        return normalise(values, data_type)

    monkeypatch.setattr(replica, "normalise", refusing)
    with pytest.raises(LimitError, match="too large"):
        table.apply(ReplicaUpdate(RowSet.flat(2), columns=[pa.array([1, 2]), pa.chunked_array([LARGE, LARGE])]))
    assert not table.version.row_set


def test_rows_that_an_update_adds_and_modifies_are_there_when_they_are_modified() -> None:
    """In whatever parts the update is applied."""
    table = ReplicaTable(UpdateGraph(), "t", SCHEMA)
    keys = pa.array([0, 1, 2, 3])
    modified = RowSet.from_keys([2, 3])
    table.apply(
        ReplicaUpdate(
            RowSet.flat(4),
            columns=[keys, pa.chunked_array([LARGE] * 4)],
            modified={0: (modified, pa.array([20, 30])), 1: (modified, pa.chunked_array([LARGE, LARGE]))},
        )
    )
    assert table.version.to_table([0])["k"].to_pylist() == [0, 1, 20, 30]
