"""Column views: each is complete in itself, so that versions of several tables can share them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from barrage_server.engine import (
    KeyedTable,
    ReplicaTable,
    ReplicaUpdate,
    RingTable,
    SourceTable,
    TableUpdate,
    TableVersion,
    UpdateGraph,
    UpdateNode,
)
from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.row_slots import RowSlots
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.view import ColumnView
from barrage_server.errors import UnavailableError
from barrage_server.rowset import RowSet

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string())])


def rows(count: int, text: str) -> pa.Table:
    return pa.table({"k": range(count), "s": [f"{text} {number}" for number in range(count)]}, schema=SCHEMA)


def sharing(version: TableVersion, rows: RowSet) -> TableVersion:
    """A version of another table, with some of the rows."""
    node = UpdateNode(7, rows, TableUpdate.of_added(rows, 2))
    return TableVersion(schema=SCHEMA, row_set=rows, readable=rows, node=node, views=version.views)


def test_views_stay_what_they_were_without_their_version() -> None:
    """The version of another table that has them needs neither the first version nor its place in the history."""
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, "k")
    table.upsert(rows(1000, "old"))
    some = RowSet.from_range(10, 19)
    shared = sharing(table.version, some)
    expected = table.version.to_table(rows=some)
    node = weakref.ref(table.version)
    for number in range(3):
        table.upsert(rows(1000, f"new {number}"))
        table.delete({"k": range(5, 15)})
        gc.collect()
        assert node() is None
        assert shared.to_table().equals(expected)
    shared.compact()
    table.upsert(rows(1000, "last"))
    assert shared.to_table().equals(expected)
    assert shared.detached().to_table().equals(expected)


@pytest.mark.parametrize("kind", ["ring", "window"])
def test_a_view_says_where_its_pieces_end(kind: str) -> None:
    """Each row lies in one piece; a piece of cells that are never overwritten is read without a copy."""
    graph = UpdateGraph()
    size = 16_384
    table: RingTable | ReplicaTable
    if kind == "ring":
        table = RingTable(graph, "t", SCHEMA, size)
        table.append(rows(size, "x"))
    else:
        table = ReplicaTable(graph, "t", SCHEMA, is_window=True)
        table.apply(ReplicaUpdate(RowSet.flat(size), columns=rows(size, "x").columns))
    for view in table.version.views:
        assert view.is_frozen is (kind == "ring")
        first, pieces = 0, 0
        while first < size:
            end = view.piece_end(first)
            assert end >= first
            assert {view.piece_end(key) for key in (first, (first + end) // 2, end)} == {end}
            plan = ReadPlan.from_range(first, min(end, size - 1))
            one, other = view.read(plan), view.read(plan)
            assert one.equals(other)
            if view.is_frozen:
                assert one.buffers()[1].address == other.buffers()[1].address
            first, pieces = end + 1, pieces + 1
        assert 1 < pieces < 20


def test_where_the_slots_of_rows_are_is_worked_out_once_for_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that lie far apart have their cells elsewhere; that is for the view alone to know."""
    table = ReplicaTable(UpdateGraph(), "t", SCHEMA)
    keys = RowSet.from_sorted_keys(np.arange(2000, dtype=np.int64) << 20)
    table.apply(ReplicaUpdate(keys, columns=rows(2000, "x").columns))
    version = table.version
    assert [view.piece_end(5 << 20) for view in version.views] == [5 << 20] * 2
    calls: list[RowSet] = []
    plan = RowSlots.plan

    def counted(slots: RowSlots, wanted: RowSet) -> Any:
        calls.append(wanted)
        return plan(slots, wanted)

    monkeypatch.setattr(RowSlots, "plan", counted)
    table.apply(ReplicaUpdate(RowSet.empty(), modified={1: (keys, pa.array(["y"] * 2000))}))
    calls.clear()
    assert version.to_table().equals(rows(2000, "x"))
    assert len(calls) == 1
    # two versions, with slots of their own, may be read with one plan
    one = ReadPlan.from_row_set(keys)
    for number in (0, 1, 0):
        assert version.views[number].read(one).equals(rows(2000, "x").column(number).combine_chunks())
        assert table.version.views[1].read(one).to_pylist() == ["y"] * 2000


def test_a_store_may_have_no_columns() -> None:
    """What needs no cells of its own writes none."""
    store = ColumnStore(pa.schema([]))
    assert (store.views(), store.nbytes) == ((), 0)


class Squares(ColumnView):
    """Values that are worked out from row keys, unless they cannot be had."""

    def __init__(self, away: Sequence[int]) -> None:
        self.type, self.is_frozen = pa.int64(), True
        self._away = away

    def read(self, plan: ReadPlan) -> pa.Array:
        if np.isin(plan.keys, self._away).any():
            raise UnavailableError("The rows are away.")
        return pa.array(plan.keys**2)

    def piece_end(self, key: int) -> int:
        return key

    def compact(self) -> None:
        """Nothing is overwritten."""


class SquareTable(SourceTable):
    """A table that keeps no cells: it is told how many rows it has."""

    def __init__(self, graph: UpdateGraph, name: str = "squares", away: Sequence[int] = ()) -> None:
        self.away = away
        self._rows = RowSet.empty()
        super().__init__(graph, name, pa.schema([("n", pa.int64())]))

    @property
    def nbytes(self) -> int:
        return 0

    def current_rows(self) -> RowSet:
        return self._rows

    def make_views(self) -> Sequence[ColumnView]:
        return [Squares(self.away)]

    def apply_operations(self, operations: Sequence[int]) -> TableUpdate:
        added = RowSet.from_range(self._rows.size, operations[-1] - 1)
        self._rows = RowSet.flat(operations[-1])
        return TableUpdate.of_added(added, 1)


def test_a_table_need_not_keep_cells() -> None:
    """Nor does a cycle read any: values that cannot be had fail the reader, and nothing else."""
    graph = UpdateGraph()
    table = SquareTable(graph, away=[2])
    graph.stage(table, 2)
    assert table.to_arrow()["n"].to_pylist() == [0, 1]
    graph.stage(table, 4)
    with pytest.raises(UnavailableError, match="away"):
        table.to_arrow()
    assert table.version.read(RowSet.from_keys([0, 3]))[0].to_pylist() == [0, 9]
    table.check_usable()
    table.away = []
    graph.stage(table, 5)
    assert table.to_arrow()["n"].to_pylist() == [0, 1, 4, 9, 16]
