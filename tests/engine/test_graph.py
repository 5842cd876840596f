"""The update graph: one update per table and cycle, parents first, all visible together."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pytest

from barrage_server.engine import AppendTable, DerivedTable, KeyedTable, Table, TableUpdate, TableVersion, UpdateGraph
from barrage_server.errors import InternalError, InvalidRequestError, SchemaMismatchError
from barrage_server.rowset import RowSet

SCHEMA = pa.schema([("n", pa.int64())])


class Sum(DerivedTable):
    """One row: the sum of a column over all parents."""

    def __init__(self, name: str, *parents: Table) -> None:
        super().__init__(parents, name, SCHEMA)
        self.runs: list[set[str]] = []

    def start(self, step: int) -> None:
        self.compute()

    def follow(self, updates: Mapping[Table, TableUpdate]) -> TableUpdate:
        self.runs.append({parent.name for parent in updates})
        had = bool(self._rows)
        self.compute()
        one = RowSet.flat(1)
        update = TableUpdate.of_added(one, 1)
        return TableUpdate(RowSet.empty(), update.removed, update.shifted, (one,)) if had else update

    def compute(self) -> None:
        total = sum(sum(parent.peek().to_table()["n"].to_pylist()) for parent in self.parents)
        self._columns[0].write(RowSet.flat(1), pa.array([total], pa.int64()), self._undo)
        self._rows = RowSet.flat(1)


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values, pa.int64())})


def test_a_diamond_runs_each_table_once_and_in_order() -> None:
    """A table with two changed parents gets one update, after both of them."""
    graph = UpdateGraph()
    source = AppendTable(graph, "source", SCHEMA)
    left, right = Sum("left", source), Sum("right", source)
    bottom = Sum("bottom", right, left)
    for table in (bottom, left, right):
        graph.attach(table)
    for round_ in range(1, 4):
        source.append(numbers(1, 2))
        assert bottom.to_arrow()["n"].to_pylist() == [6 * round_]
        assert bottom.runs[-1] == {"left", "right"}
        assert [len(table.runs) for table in (left, right, bottom)] == [round_] * 3
        assert {table.version.step for table in (source, left, right, bottom)} == {round_}


def test_a_cycle_shows_all_tables_at_once() -> None:
    """Listeners of any table see the new versions of all."""
    graph = UpdateGraph()
    one, two = AppendTable(graph, "one", SCHEMA), AppendTable(graph, "two", SCHEMA)
    seen: list[tuple[int, int]] = []
    for table in (one, two):
        table.add_listener(lambda *_: seen.append((one.size, two.size)))
    with graph.cycle():
        one.append(numbers(1))
        two.append(numbers(1, 2))
        assert (one.size, two.size) == (0, 0)
        with graph.cycle():
            one.append(numbers(3))
        assert one.size == 0, "an inner cycle is part of the outer one"
    assert seen == [(2, 2), (2, 2)]
    assert graph.step == 1
    assert [version.step for version in graph.versions([one, two])] == [1, 1]


def test_nothing_of_a_cycle_that_raises_is_applied() -> None:
    """An error in the body leaves all tables as they were; so does one that is found when rows are handed over."""
    graph = UpdateGraph()
    table = AppendTable(graph, "t", SCHEMA)
    with pytest.raises(RuntimeError, match="no"), graph.cycle():
        table.append(numbers(1))
        raise RuntimeError("no")
    with pytest.raises(SchemaMismatchError), graph.cycle():
        table.append(numbers(1))
        table.append({"other": [1]})
    assert (table.size, graph.step) == (0, 0)
    with graph.cycle():
        table.append(numbers(1))
        with pytest.raises(RuntimeError, match="inner"), graph.cycle():
            table.append(numbers(2))
            raise RuntimeError("inner")
    assert table.to_arrow()["n"].to_pylist() == [1]


def test_an_empty_cycle_makes_no_step() -> None:
    """The clock counts cycles in which something changed."""
    graph = UpdateGraph()
    table = KeyedTable(graph, "t", SCHEMA, ["n"])
    with graph.cycle():
        pass
    table.upsert(numbers())
    table.delete(numbers(7))
    assert graph.step == 0
    table.upsert(numbers(7))
    table.upsert(numbers(7))
    assert graph.step == 1


def test_a_listener_may_publish() -> None:
    """Its cycle is told to listeners after the one that is being told."""
    graph = UpdateGraph()
    source, echo = AppendTable(graph, "source", SCHEMA), AppendTable(graph, "echo", SCHEMA)
    order: list[str] = []

    def forward(update: TableUpdate, previous: TableVersion, current: TableVersion) -> None:
        echo.append(numbers(current.size))
        order.append("forwarded")

    source.add_listener(forward)
    source.add_listener(lambda *_: order.append("second"))
    echo.add_listener(lambda *_: order.append("echo"))
    source.append(numbers(1))
    assert order == ["forwarded", "second", "echo"]


def test_a_failing_listener_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the publisher nor other listeners notice; the log does."""
    graph = UpdateGraph()
    table = AppendTable(graph, "t", SCHEMA)
    told: list[int] = []

    def fail(*_: object) -> None:
        raise ValueError("broken listener")

    table.add_listener(fail)
    remove = table.add_listener(lambda update, previous, current: told.append(current.size))
    table.append(numbers(1))
    remove()
    table.append(numbers(1))
    assert told == [1]
    assert "broken listener" in caplog.text


def test_a_cycle_that_breaks_off_closes_its_tables_for_writing_only() -> None:
    """Readers keep the last version; writers are told; other tables go on."""

    class Broken(Sum):
        def follow(self, updates: Mapping[Table, TableUpdate]) -> TableUpdate:
            raise ZeroDivisionError

    graph = UpdateGraph()
    source, other = KeyedTable(graph, "source", SCHEMA, ["n"]), AppendTable(graph, "other", SCHEMA)
    source.upsert(numbers(1))
    graph.attach(Broken("broken", source))
    with pytest.raises(InternalError, match="source"):
        source.upsert(numbers(2))
    assert source.to_arrow()["n"].to_pylist() == [1]
    with pytest.raises(InternalError, match="Drop and create"):
        source.upsert(numbers(3))
    other.append(numbers(1))
    assert other.size == 1


def test_parents_must_share_a_graph() -> None:
    """A derived table belongs to the graph of its parents."""
    with pytest.raises(InvalidRequestError, match="one update graph"):
        Sum("s", AppendTable(UpdateGraph(), "a", SCHEMA), AppendTable(UpdateGraph(), "b", SCHEMA))
    with pytest.raises(InvalidRequestError, match="at least one parent"):
        Sum("s")
