"""Threads write to tables of every kind at once, with derived tables, faults and held versions: all stay consistent."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Sequence

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
    RingTable,
    Table,
    TableUpdate,
    TableVersion,
    UpdateGraph,
)
from barrage_server.engine.operation import Operation
from barrage_server.errors import InternalError
from barrage_server.rowset import RowSet, RowSetShiftData
from tests.engine.operators import OneRow, attached, count

SCHEMA = pa.schema([("k", pa.int64()), ("s", pa.string()), ("items", pa.list_(pa.int8()))])
ROUNDS = 40


def rows(chance: random.Random, count: int) -> pa.Table:
    return pa.table(
        {
            "k": [chance.randrange(100) for _ in range(count)],
            "s": [chance.choice([None, "a", "b" * chance.randrange(40)]) for _ in range(count)],
            "items": [chance.choice([None, [], [chance.randrange(9)]]) for _ in range(count)],
        },
        schema=SCHEMA,
    )


class FaultyAppend(AppendTable):
    """Fails with its fifth cycle, after its rows are written."""

    runs = 0

    def apply_operations(self, operations: Sequence[Operation]) -> TableUpdate:
        update = super().apply_operations(operations)
        self.runs += 1
        if self.runs == 5:
            raise MemoryError
        return update


class Copy:
    """A replica that follows the updates of a table."""

    def __init__(self, table: Table) -> None:
        self.replica = ReplicaTable(UpdateGraph(), "copy", SCHEMA)
        self.table = table
        table.add_listener(self.listen)

    def listen(self, update: TableUpdate, previous: TableVersion, current: TableVersion) -> None:
        assert previous.row_set == self.replica.version.row_set
        modified = {
            number: (changed, current.read(changed, (number,))[0])
            for number, changed in enumerate(update.modified)
            if changed
        }
        columns = current.read(update.added) if update.added else ()
        self.replica.apply(ReplicaUpdate(update.added, update.removed, update.shifted, columns, modified))


def moved(table: ReplicaTable, chance: random.Random) -> ReplicaUpdate:
    """Rows of a replica go, get other keys, close together or far apart, and come."""
    held = table.version.row_set.keys().tolist()
    stride = chance.choice([1, 1 << 10, 1 << 40])
    stayed = [key for key in held if chance.random() < 0.8]
    pool = sorted({chance.randrange(500) * stride for _ in range(2 * len(stayed))} | set(stayed))
    after = sorted(chance.sample(pool, len(stayed)))
    added = sorted({chance.randrange(500) * stride for _ in range(30)} - set(after))
    return ReplicaUpdate(
        RowSet.from_keys(added),
        RowSet.from_keys(held) - RowSet.from_keys(stayed),
        RowSetShiftData.between(RowSet.from_keys(stayed), RowSet.from_keys(after)),
        rows(chance, len(added)).columns,
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_faults_and_writers_of_all_kinds_beside_each_other(seed: int) -> None:
    """Each table is what its updates say, whole tables agree with each other, and versions stay what they were."""
    graph = UpdateGraph()
    append, ring, blink = (
        AppendTable(graph, "a", SCHEMA),
        RingTable(graph, "r", SCHEMA, 50),
        BlinkTable(graph, "b", SCHEMA),
    )
    keyed, replaced = KeyedTable(graph, "k", SCHEMA, ["k"]), ReplacedTable(graph, "p", SCHEMA)
    replica, faulty = ReplicaTable(graph, "m", SCHEMA), FaultyAppend(graph, "f", SCHEMA)
    total = attached(DerivedTable([append, keyed, replica, faulty], "total", OneRow(count)))
    failing = attached(DerivedTable([keyed], "failing", OneRow(count, good_runs=4)))
    below = attached(DerivedTable([failing, append], "below", OneRow(count)))
    tables = (append, ring, blink, keyed, replaced, replica)
    copies = [Copy(table) for table in tables]
    problems: list[BaseException] = []

    def guarded(work: Callable[[random.Random], object], own_seed: int) -> None:
        chance = random.Random(own_seed)
        try:
            for _ in range(ROUNDS):
                work(chance)
        except BaseException as error:
            problems.append(error)

    def both(chance: random.Random) -> None:
        with graph.cycle():
            append.append(rows(chance, 3))
            replaced.replace(rows(chance, chance.randrange(60)))

    def key(chance: random.Random) -> None:
        keyed.upsert(rows(chance, chance.randrange(50)))
        keyed.delete(rows(chance, 10).select(["k"]))

    def fail(chance: random.Random) -> None:
        with contextlib.suppress(InternalError):
            faulty.append(rows(chance, 1))

    def break_down(*_: object) -> None:
        raise ZeroDivisionError

    def distract(_: random.Random) -> None:
        remove = append.add_listener(break_down)
        keyed.add_listener(lambda *_: None)()
        remove()

    def read(chance: random.Random) -> None:
        version = chance.choice(tables).version
        content = version.to_table()
        for _ in range(3):
            assert version.to_table().equals(content)
        held.append((version, content))

    held: list[tuple[TableVersion, pa.Table]] = []
    works: list[Callable[[random.Random], object]] = [
        both,
        key,
        key,
        lambda chance: ring.append(rows(chance, 20)),
        lambda chance: blink.append(rows(chance, 5)),
        lambda chance: replica.apply(moved(replica, chance)),
        fail,
        distract,
        read,
        read,
    ]
    threads = [threading.Thread(target=guarded, args=(work, 100 * seed + number)) for number, work in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    for copy in copies:
        assert copy.replica.version.row_set == copy.table.version.row_set
        assert copy.replica.to_arrow().equals(copy.table.to_arrow())
    for version, content in held:
        assert version.to_table().equals(content)
    assert all(table.failure is None for table in (*tables, total))
    assert isinstance(faulty.failure, MemoryError)
    assert isinstance(failing.failure, ZeroDivisionError)
    assert below.failure is not None
    assert total.to_arrow()["n"].to_pylist() == [append.size + keyed.size + replica.size + faulty.size]
