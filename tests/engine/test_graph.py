"""The update graph: one update per table and cycle, parents first, all visible together."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from barrage_server.engine import (
    AppendTable,
    BlinkTable,
    DerivedTable,
    KeyedTable,
    ReplacedTable,
    ReplicaTable,
    ReplicaUpdate,
    Table,
    TableUpdate,
    TableVersion,
    UpdateGraph,
)
from barrage_server.engine.operation import Operation
from barrage_server.engine.operator import Inputs
from barrage_server.errors import (
    InternalError,
    InvalidRequestError,
    SchemaMismatchError,
    TableFailedError,
    UnavailableError,
    UnsupportedOperationError,
)
from barrage_server.rowset import RowSet
from tests.engine.operators import OneRow, attached

SCHEMA = pa.schema([("n", pa.int64())])


def summed(name: str, *parents: Table) -> DerivedTable:
    """One row: the sum of a column over all parents."""
    return attached(DerivedTable(parents, name, OneRow()))


def numbers(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(values, pa.int64())})


def test_a_diamond_runs_each_table_once_and_in_order() -> None:
    """A table with two changed parents gets one update, after both of them."""
    graph = UpdateGraph()
    source = AppendTable(graph, "source", SCHEMA)
    sums = [OneRow() for _ in range(4)]
    left = attached(DerivedTable([source], "left", sums[0]))
    early = attached(DerivedTable([left, source], "early", sums[1]))
    right = attached(DerivedTable([source], "right", sums[2]))
    bottom = attached(DerivedTable([right, left], "bottom", sums[3]))
    assert [table.height for table in (left, early, right, bottom)] == [1, 2, 1, 2]
    for round_ in range(1, 4):
        source.append(numbers(1, 2))
        assert bottom.to_arrow()["n"].to_pylist() == [6 * round_]
        assert values(early) == [6 * round_]
        assert [operator.runs[-1] for operator in sums] == [(True,), (True, True), (True,), (True, True)]
        assert [len(operator.runs) for operator in sums] == [round_] * 4
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


def test_a_failing_listener_stops_no_other(caplog: pytest.LogCaptureFixture) -> None:
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


class FaultyAppend(AppendTable):
    """An append table that fails for negative numbers, half way through."""

    def apply_operations(self, operations: Sequence[Operation]) -> TableUpdate:
        update = super().apply_operations(operations)
        if any(value < 0 for operation in operations for value in operation.columns[0].to_pylist()):
            raise MemoryError
        return update


def values(table: Table) -> list[int]:
    found: list[int] = table.to_arrow()["n"].to_pylist()
    return found


def test_a_derived_table_that_fails_takes_its_descendants_along_and_no_other_table() -> None:
    """Its source, its sisters and tables beside go on; the publisher is not told that its rows failed."""
    graph = UpdateGraph()
    source, other = KeyedTable(graph, "source", SCHEMA, ["n"]), AppendTable(graph, "other", SCHEMA)
    blink = BlinkTable(graph, "blink", SCHEMA)
    source.upsert(numbers(1))
    faulty = attached(DerivedTable([source], "faulty", OneRow(good_runs=1)))
    child, sister = summed("child", faulty, other), summed("sister", source)
    grandchild = summed("grandchild", child)
    failed: list[Table] = []
    graph.add_failure_listener(failed.append)
    source.upsert(numbers(2))
    assert [values(table) for table in (faulty, child, sister, grandchild)] == [[3]] * 4
    for number in (3, 4):
        source.upsert(numbers(number))
        other.append(numbers(number))
        blink.append(numbers(number))
    assert (values(source), values(other), values(blink)) == ([1, 2, 3, 4], [3, 4], [4])
    assert values(sister) == [10]
    assert [values(table) for table in (faulty, child, grandchild)] == [[3]] * 3, "what they had stays readable"
    assert failed == [faulty, child, grandchild]
    assert isinstance(faulty.failure, ZeroDivisionError)
    assert sister.failure is source.failure is blink.failure is None
    with pytest.raises(InternalError, match="child"):
        summed("late", child)


def test_a_source_table_that_fails_fails_alone() -> None:
    """Its publishers are told; what the same cycle did to other tables is visible, and derived tables go on."""
    graph = UpdateGraph()
    faulty, other = FaultyAppend(graph, "faulty", SCHEMA), AppendTable(graph, "other", SCHEMA)
    blink = BlinkTable(graph, "blink", SCHEMA)
    both = summed("both", faulty, other)
    with graph.cycle():
        faulty.append(numbers(1))
        blink.append(numbers(7))
    with pytest.raises(InternalError, match=r"'faulty'.*MemoryError"), graph.cycle():
        faulty.append(numbers(-1))
        other.append(numbers(10))
    assert (values(faulty), values(other), values(blink), values(both)) == ([1], [10], [], [11])
    with pytest.raises(InternalError, match=r"'faulty'.*Drop and create"):
        faulty.append(numbers(2))
    with pytest.raises(InternalError, match="'faulty'"), graph.cycle():
        other.append(numbers(100))
        faulty.append(numbers(2))
    assert values(other) == [10], "a cycle that cannot begin changes nothing"
    other.append(numbers(20))
    blink.append(numbers(8))
    assert (values(other), values(blink), values(both)) == ([10, 20], [8], [31])


def test_blink_tables_without_rows_take_no_part_in_the_cycles_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may make thousands of them."""
    graph = UpdateGraph()
    other, blink = AppendTable(graph, "other", SCHEMA), BlinkTable(graph, "blink", SCHEMA)
    applied: list[Sequence[Any]] = []
    apply = blink.apply_operations

    def counting(operations: Sequence[Any]) -> TableUpdate:
        applied.append(operations)
        return apply(operations)

    monkeypatch.setattr(blink, "apply_operations", counting)
    for number in range(3):
        other.append(numbers(number))
    assert applied == []
    blink.append(numbers(1))
    for number in range(3):
        other.append(numbers(number))
    assert list(map(len, applied)) == [1, 0]  # its rows, and their end
    assert values(blink) == []


def test_a_blink_table_that_fails_between_its_rows_does_not_stop_the_others() -> None:
    """It takes part in every cycle, and leaves with its first failure."""

    class FaultyBlink(BlinkTable):
        def apply_operations(self, operations: Sequence[Operation]) -> TableUpdate:
            if not operations and self._rows:
                raise MemoryError
            return super().apply_operations(operations)

    graph = UpdateGraph()
    blink, other = FaultyBlink(graph, "blink", SCHEMA), AppendTable(graph, "other", SCHEMA)
    blink.append(numbers(1))
    for number in (1, 2):
        other.append(numbers(number))
    assert (values(blink), values(other)) == ([1], [1, 2])
    assert isinstance(blink.failure, MemoryError)


@pytest.mark.parametrize("is_logged", [True, False], ids=["once", "and again while that is logged"])
@pytest.mark.parametrize("where", ["apply_operations", "prepare_version", "show_version"])
def test_an_interrupt_leaves_no_table_between_two_states(
    where: str, is_logged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in a cycle: the table that it hit is closed or whole, the others are whole, and the interrupt goes on."""
    graph = UpdateGraph()
    hit, other = AppendTable(graph, "hit", SCHEMA), AppendTable(graph, "other", SCHEMA)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(hit, where, interrupted)
        if not is_logged:
            patch.setattr("barrage_server.engine.cycle.logger.error", interrupted)
        with pytest.raises(KeyboardInterrupt), graph.cycle():
            hit.append(numbers(1))
            other.append(numbers(1))
    for table in (hit, other):
        if table.failure is None:
            table.append(numbers(2))
            assert values(table) == [1, 2]
        else:
            assert values(table) == []
    assert hit.failure is not None


def test_a_failure_because_of_another_names_the_id_of_its_own_log_record(caplog: pytest.LogCaptureFixture) -> None:
    """As when a user's function reads a table that has failed."""
    graph = UpdateGraph()
    source = AppendTable(graph, "source", SCHEMA)

    def read(inputs: Inputs) -> int:
        if inputs[0].size:
            raise TableFailedError("Another table failed.", "0123456789abcdef")
        return 0

    reading = attached(DerivedTable([source], "reading", OneRow(read)))
    below = attached(DerivedTable([reading], "below", OneRow(lambda _: 0)))
    source.append(numbers(1))
    (record,) = [record for record in caplog.records if "failed in cycle" in record.getMessage()]
    for table in (reading, below):
        with pytest.raises(TableFailedError, match=r"Another table failed|which it follows") as told:
            table.check_usable()
        assert re.findall("under the id ([0-9a-f]+)", str(told.value)) == [table.failure_id]
        assert table.failure_id in record.getMessage()


def test_a_table_cannot_write_to_another_while_a_cycle_is_computed() -> None:
    """That would run a cycle within a cycle; a listener may do it."""
    graph = UpdateGraph()
    source, other = AppendTable(graph, "source", SCHEMA), AppendTable(graph, "other", SCHEMA)

    def write(inputs: Inputs) -> int:
        if inputs[0].size:
            other.append(numbers(1))
        return 0

    writing = attached(DerivedTable([source], "writing", OneRow(write)))
    source.append(numbers(1))
    assert isinstance(writing.failure, UnsupportedOperationError)
    assert (values(source), values(other), graph.step) == ([1], [], 1)
    other.append(numbers(2))
    assert values(other) == [2]


@pytest.mark.parametrize("kind", ["append", "blink", "keyed", "replaced", "replica"])
def test_tables_of_a_closed_graph_cannot_be_written(kind: str) -> None:
    """A write is an error with the reason, inside of a cycle too; what is there can still be read."""
    graph = UpdateGraph()
    append, keyed = AppendTable(graph, "t", SCHEMA), KeyedTable(graph, "t", SCHEMA, ["n"])
    blink, replaced, replica = (
        BlinkTable(graph, "t", SCHEMA),
        ReplacedTable(graph, "t", SCHEMA),
        ReplicaTable(graph, "t", SCHEMA),
    )
    write: Callable[[], None] = {
        "append": lambda: append.append(numbers(1)),
        "blink": lambda: blink.append(numbers(1)),
        "keyed": lambda: keyed.upsert(numbers(1)),
        "replaced": lambda: replaced.replace(numbers(1)),
        "replica": lambda: replica.apply(ReplicaUpdate(RowSet.flat(1), RowSet.empty(), columns=[pa.array([1])])),
    }[kind]
    write()
    before = graph.step
    graph.close("its server is closed")
    graph.close("another reason")
    assert graph.is_closed
    with pytest.raises(UnavailableError, match="'t' cannot be written: its server is closed"):
        write()
    with pytest.raises(UnavailableError, match="its server is closed"), graph.cycle():
        write()
    assert graph.step == before
    assert len(append.to_arrow()) == (kind == "append")


def test_a_listener_may_close_the_graph() -> None:
    """The cycle that it belongs to is complete; the next one is refused."""
    graph = UpdateGraph()
    table = AppendTable(graph, "t", SCHEMA)
    table.add_listener(lambda *_: graph.close())
    table.append(numbers(1))
    with pytest.raises(UnavailableError):
        table.append(numbers(2))
    assert values(table) == [1]


def test_parents_must_share_a_graph() -> None:
    """A derived table belongs to the graph of its parents."""
    with pytest.raises(InvalidRequestError, match="different update graphs"):
        summed("s", AppendTable(UpdateGraph(), "a", SCHEMA), AppendTable(UpdateGraph(), "b", SCHEMA))
    with pytest.raises(InvalidRequestError, match="at least one parent"):
        summed("s")


def test_a_table_is_attached_once_and_after_its_parents() -> None:
    """Else it would have missed what its parents did, or hear of it twice."""
    source = AppendTable(UpdateGraph(), "source", SCHEMA)
    loose = DerivedTable([source], "loose", OneRow())
    source.append(numbers(1, 2))
    assert values(loose) == [0]
    with pytest.raises(InvalidRequestError, match="'loose' follows its parents after the graph has attached it"):
        DerivedTable([loose], "child", OneRow())
    attached(loose)
    assert (values(loose), loose.version.step) == ([3], 1)
    with pytest.raises(InvalidRequestError, match="'loose' was attached before"):
        attached(loose)
    source.append(numbers(4))
    assert (values(loose), values(summed("child", loose))) == ([7], [7])


def test_a_derived_table_of_a_schema_stays_empty() -> None:
    """Unless its class has a way of its own to follow; one that fails fails alone."""

    class Faulty(DerivedTable):
        def follow(self, updates: Mapping[Table, TableUpdate]) -> TableUpdate:
            raise ValueError("a fault")

    source = AppendTable(UpdateGraph(), "source", SCHEMA)
    empty, faulty = attached(DerivedTable([source], "empty", SCHEMA)), attached(Faulty([source], "faulty", SCHEMA))
    source.append({"n": [1]})
    assert (empty.size, empty.failure, faulty.size) == (0, None, 0)
    assert isinstance(faulty.failure, ValueError)
    source.append({"n": [2]})
    assert source.size == 2
