"""Publishers that wait share a cycle; listeners are told beside later cycles, and in order."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
import pytest

from barrage_server.engine import (
    AppendTable,
    DerivedTable,
    KeyedTable,
    ReplicaTable,
    ReplicaUpdate,
    Table,
    TableUpdate,
    UpdateGraph,
)
from barrage_server.engine.operation import Operation
from barrage_server.errors import InternalError, TableFailedError, UnavailableError, WireFormatError
from barrage_server.rowset import RowSet
from tests.engine.followers import Follower
from tests.engine.operators import OneRow, count
from tests.properties.sources import SCHEMA as ROWS
from tests.properties.sources import make_row, to_table
from tests.waiting import until

SCHEMA = pa.schema([("n", pa.int64())])
SECONDS = 30.0


class Gate(AppendTable):
    """A table whose cycles stop until they are let go on."""

    def __init__(self, graph: UpdateGraph) -> None:
        super().__init__(graph, "gate", SCHEMA)
        self.entered, self.opened = threading.Event(), threading.Event()

    def apply_operations(self, operations: Sequence[Operation]) -> TableUpdate:
        self.entered.set()
        assert self.opened.wait(SECONDS)
        return super().apply_operations(operations)


@contextmanager
def waiting_publishers(
    graph: UpdateGraph, works: Sequence[Callable[[], object]]
) -> Iterator[list[BaseException | None]]:
    """Have each of ``works`` publish on a thread, all while a cycle runs; what each raised, after the ``with`` body."""
    gate = Gate(graph)
    raised: list[BaseException | None] = [None] * len(works)

    def call(place: int) -> None:
        try:
            works[place]()
        except BaseException as error:
            raised[place] = error

    threads = [threading.Thread(target=gate.append, args=({"n": [0]},))]
    threads[0].start()
    assert gate.entered.wait(SECONDS)
    for place in range(len(works)):
        threads.append(threading.Thread(target=call, args=(place,)))
        threads[-1].start()
        until(lambda: graph.waiting == len(threads) - 1)
    gate.opened.set()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    yield raised


def values(table: Table) -> list[int]:
    found: list[int] = table.to_arrow()["n"].to_pylist()
    return found


def test_publishers_that_wait_share_one_cycle() -> None:
    """In the order in which they came; listeners hear of one update."""
    graph = UpdateGraph()
    table, keyed = AppendTable(graph, "t", SCHEMA), KeyedTable(graph, "k", SCHEMA, ["n"])
    told: list[int] = []
    table.add_listener(lambda update, before, after: told.append(update.added.size))
    works: list[Callable[[], object]] = [lambda n=n: table.append({"n": [n]}) for n in range(5)]  # type: ignore[misc]
    works += [lambda: keyed.upsert({"n": [1, 2]}), lambda: keyed.delete({"n": [1]})]
    with waiting_publishers(graph, works) as raised:
        assert raised == [None] * 7
    assert graph.step == 2
    assert graph.waiting == 0
    assert (values(table), values(keyed), told) == ([0, 1, 2, 3, 4], [2], [5])


def test_a_publisher_that_is_refused_takes_no_other_along() -> None:
    """What does not fit is judged after what came before it, and told to the one who sent it."""
    graph = UpdateGraph()
    table, retired = AppendTable(graph, "t", SCHEMA), AppendTable(graph, "r", SCHEMA)
    replica = ReplicaTable(graph, "m", SCHEMA)
    graph.retire(retired, "It is another one now.")

    def both() -> None:
        with graph.cycle():
            table.append({"n": [100]})
            retired.append({"n": [100]})

    one = RowSet.flat(1)
    works: list[Callable[[], object]] = [
        lambda: table.append({"n": [1]}),
        both,
        lambda: replica.apply(ReplicaUpdate(one, columns=[pa.array([7])])),
        lambda: replica.apply(ReplicaUpdate(one, columns=[pa.array([8])])),
        lambda: replica.apply(ReplicaUpdate(RowSet.empty(), one)),
        lambda: table.append({"n": [2]}),
    ]
    with waiting_publishers(graph, works) as raised:
        assert [type(error) for error in raised] == [
            type(None),
            UnavailableError,
            type(None),
            WireFormatError,
            type(None),
            type(None),
        ]
    assert (values(table), values(replica), graph.step) == ([1, 2], [], 2)


def test_the_writers_of_a_failed_table_get_the_error() -> None:
    """To each by an error of its own; the others have their rows."""

    class Faulty(AppendTable):
        def apply_operations(self, operations: Sequence[Operation]) -> TableUpdate:
            raise MemoryError

    graph = UpdateGraph()
    table, faulty = AppendTable(graph, "t", SCHEMA), Faulty(graph, "faulty", SCHEMA)
    append: Callable[[], object] = lambda: table.append({"n": [1]})  # noqa: E731
    fail: Callable[[], object] = lambda: faulty.append({"n": [1]})  # noqa: E731
    with waiting_publishers(graph, [append, fail, fail, append]) as raised:
        first, one, two, last = raised
    assert (first, last, values(table)) == (None, None, [1, 1])
    assert isinstance(one, TableFailedError) and isinstance(two, TableFailedError)
    assert one is not two
    assert "'faulty'" in str(one) and "MemoryError" in str(one)


def test_an_interrupt_is_raised_where_it_came_and_the_others_are_told() -> None:
    class Interrupted(AppendTable):
        def apply_operations(self, operations: Sequence[Operation]) -> TableUpdate:
            raise KeyboardInterrupt

    graph = UpdateGraph()
    table, hit = AppendTable(graph, "t", SCHEMA), Interrupted(graph, "hit", SCHEMA)
    works: list[Callable[[], object]] = [lambda: hit.append({"n": [1]}) for _ in range(3)]
    with waiting_publishers(graph, [*works, lambda: table.append({"n": [1]})]) as raised:
        pass
    assert sorted(type(error).__name__ for error in raised if error is not None) in (
        ["KeyboardInterrupt", "TableFailedError", "TableFailedError"],
        ["KeyboardInterrupt"] + ["TableFailedError"] * 3,  # raised for whose turn it was
    )
    assert values(table) == [1]
    table.append({"n": [2]})
    assert values(table) == [1, 2]


def test_ctrl_c_breaks_off_no_operations_of_other_threads() -> None:
    """It interrupts the main thread, which therefore leads cycles with operations of its own alone."""

    class Interrupted(AppendTable):
        def apply_operations(self, operations: Sequence[Operation]) -> TableUpdate:
            if threading.current_thread() is threading.main_thread():
                raise KeyboardInterrupt
            return super().apply_operations(operations)

    assert threading.current_thread() is threading.main_thread()
    for _ in range(30):  # whose turn comes first is left to chance
        graph = UpdateGraph()
        gate, own, other = Gate(graph), AppendTable(graph, "own", SCHEMA), Interrupted(graph, "other", SCHEMA)
        raised: list[BaseException] = []

        def append(other: AppendTable = other, raised: list[BaseException] = raised) -> None:
            try:
                other.append({"n": [1]})
            except BaseException as error:
                raised.append(error)

        def open_gate(graph: UpdateGraph = graph, gate: Gate = gate) -> None:
            until(lambda: graph.waiting == 2)
            gate.opened.set()

        threads = [threading.Thread(target=gate.append, args=({"n": [0]},))]
        threads[0].start()
        assert gate.entered.wait(SECONDS)
        threads += [threading.Thread(target=work) for work in (append, open_gate)]
        for thread in threads[1:]:
            thread.start()
        own.append({"n": [1]})
        for thread in threads:
            thread.join(SECONDS)
        assert (raised, values(other)) == ([], [1])


def test_rows_are_visible_and_told_when_a_publisher_returns() -> None:
    """Whichever thread ran the cycle, with other publishers and listeners beside it."""
    graph = UpdateGraph()
    table = AppendTable(graph, "t", SCHEMA)
    heard: set[int] = set()
    steps: list[int] = []
    problems: list[object] = []

    def listen(update: TableUpdate, before: object, after: object) -> None:
        version = after
        heard.update(version.read(update.added)[0].to_pylist())  # type: ignore[attr-defined]
        steps.append(version.step)  # type: ignore[attr-defined]

    table.add_listener(listen)

    def publish(first: int) -> None:
        for number in range(first, first + 100):
            table.append({"n": [number]})
            if number not in heard:
                problems.append(number)

    threads = [threading.Thread(target=publish, args=(100 * place,)) for place in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert problems == []
    assert sorted(values(table)) == list(range(600))
    assert steps == sorted(set(steps))


def test_a_slow_listener_holds_up_no_cycle() -> None:
    """Others publish, and read, while it is at it; it hears of their cycles afterwards, in order."""
    graph = UpdateGraph()
    table, other = AppendTable(graph, "t", SCHEMA), AppendTable(graph, "other", SCHEMA)
    entered, opened = threading.Event(), threading.Event()
    told: list[tuple[str, int]] = []

    def slow(update: TableUpdate, before: object, after: object) -> None:
        entered.set()
        assert opened.wait(SECONDS)
        told.append(("t", update.added.size))

    table.add_listener(slow)
    other.add_listener(lambda update, before, after: told.append(("other", update.added.size)))
    threads = [threading.Thread(target=table.append, args=({"n": [1]},))]
    threads[0].start()
    assert entered.wait(SECONDS)
    for publish in (lambda: other.append({"n": [1, 2]}), lambda: table.append({"n": [1, 2, 3]})):
        before = graph.step
        threads.append(threading.Thread(target=publish))
        threads[-1].start()
        until(lambda before=before: graph.step > before)  # type: ignore[misc]
    assert (table.size, other.size, told) == (4, 2, [])
    graph.detach(other)  # needs no listener to end
    opened.set()
    for thread in threads:
        thread.join(SECONDS)
    assert told == [("t", 1), ("other", 2), ("t", 3)]


class Size(DerivedTable):
    """One row: how many rows the parents have. Counts how often a cycle looked at it."""

    visits = 0

    def __init__(self, name: str, *parents: Table, good_runs: int = 100) -> None:
        super().__init__(parents, name, OneRow(count, good_runs=good_runs))
        self.graph.attach(self)
        self.visits = 0

    @property
    def failure(self) -> BaseException | None:
        self.visits += 1
        return super().failure


def test_a_cycle_visits_only_what_has_a_changed_parent() -> None:
    """However many tables are derived from others."""
    graph = UpdateGraph()
    changed, resting = AppendTable(graph, "c", SCHEMA), AppendTable(graph, "r", SCHEMA)
    near, far = Size("near", changed), Size("far", changed, resting)
    idle = [Size(f"idle {number}", resting) for number in range(10)]
    changed.append({"n": [1, 2]})
    assert (values(near), values(far)) == ([2], [2])
    assert [table.visits for table in idle] == [0] * 10
    graph.detach(near)
    changed.append({"n": [3]})
    assert (values(near), values(far)) == ([2], [3])


def test_a_derived_table_is_kept_by_its_users_and_its_children_only() -> None:
    """The graph and the parents let it go; the next cycle is one without it."""
    graph = UpdateGraph()
    source = AppendTable(graph, "s", SCHEMA)
    middle = Size("middle", source)
    bottom = Size("bottom", middle)
    alive = weakref.ref(middle)
    del middle
    gc.collect()
    source.append({"n": [1]})
    assert alive() is not None
    assert values(bottom) == [1]
    del bottom
    gc.collect()
    assert alive() is None
    source.append({"n": [2]})
    assert graph.step == 2
    assert len(source.children) == 0


def test_the_error_of_a_failed_table_names_it_what_failed_and_why() -> None:
    """Of a fault that is not of this package, only the class: its text may name what is for the log alone."""

    graph = UpdateGraph()
    source = AppendTable(graph, "s", SCHEMA)
    faulty = Size("faulty", source, good_runs=0)
    child = Size("child", faulty)
    source.append({"n": [1]})
    with pytest.raises(TableFailedError, match=r"'faulty' .*'one_row' failed.*ZeroDivisionError") as told:
        faulty.check_usable()
    assert "secret" not in str(told.value)
    with pytest.raises(TableFailedError, match=r"'child' .*'faulty', which it follows, failed \(Zero"):
        child.check_usable()
    source.check_usable()
    assert issubclass(TableFailedError, InternalError)


@pytest.mark.parametrize("seed", range(20))
def test_upserts_of_one_cycle_come_to_what_they_are_one_by_one(seed: int) -> None:
    """Small ones are applied together; also between deletes and replaces, with keys that come again, and nulls."""
    chance = random.Random(seed)
    alone, shared = (KeyedTable(UpdateGraph(), "t", ROWS, ["key"]) for _ in range(2))
    follower = Follower(shared)
    for _ in range(6):
        works: list[tuple[str, pa.Table]] = []
        for _ in range(chance.randrange(1, 7)):
            rows = to_table([make_row(chance) for _ in range(chance.choice([1, 1, 2, 8]))])
            works.append((chance.choice(["upsert", "upsert", "upsert", "delete", "replace"]), rows))
        for verb, rows in works:
            getattr(alone, verb)(rows)
        with shared.graph.cycle():
            for verb, rows in works:
                getattr(shared, verb)(rows)
        assert shared.to_arrow().sort_by("key").equals(alone.to_arrow().sort_by("key"))
        follower.hold(shared.version)
    follower.check_held()


@pytest.mark.parametrize("seed", range(10))
def test_upserts_of_one_cycle_leave_the_rows_in_the_order_in_which_their_keys_came(seed: int) -> None:
    """Applied as one, a key that comes again would stand where it came last."""
    chance = random.Random(seed)
    alone, shared = (KeyedTable(UpdateGraph(), "t", ROWS, ["key"]) for _ in range(2))
    for _ in range(4):
        batches = [to_table([make_row(chance)]) for _ in range(chance.randrange(2, 6))]
        for rows in batches:
            alone.upsert(rows)
        with shared.graph.cycle():
            for rows in batches:
                shared.upsert(rows)
        assert shared.to_arrow().equals(alone.to_arrow())


def test_only_the_main_thread_writes_to_a_halted_graph() -> None:
    """What a process does at its end: a thread that feeds a table waits, and what still runs at exit may write."""
    graph = UpdateGraph()
    table = AppendTable(graph, "numbers", SCHEMA)
    graph.halt(0.0)
    threading.Thread(target=lambda: table.append({"n": [1]}), daemon=True).start()  # it waits for ever
    until(lambda: graph.waiting)
    table.append({"n": [2]})
    assert table.to_arrow()["n"].to_pylist() == [2]
    assert graph.waiting == 1


def test_a_graph_halts_when_its_cycle_has_ended() -> None:
    graph = UpdateGraph()
    gate = Gate(graph)
    publisher = threading.Thread(target=gate.append, args=({"n": [0]},))
    publisher.start()
    assert gate.entered.wait(SECONDS)
    threading.Timer(0.05, gate.opened.set).start()
    graph.halt(SECONDS)
    assert gate.to_arrow().num_rows == 1
    publisher.join(SECONDS)
