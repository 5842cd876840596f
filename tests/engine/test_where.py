"""Rows for which a condition holds: as an operator of versions and updates alone, and as a table that follows."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import (
    AppendTable,
    Change,
    DerivedTable,
    KeyedTable,
    Table,
    TableTraits,
    TableUpdate,
    TableVersion,
    UpdateGraph,
    UpdateNode,
    coalesce_nodes,
)
from barrage_server.engine.where import Predicate, Where, where
from barrage_server.errors import SchemaMismatchError, TableFailedError, UnknownColumnError
from barrage_server.rowset import RowSet
from tests.engine.followers import Follower
from tests.engine.operators import OneRow, attached, count
from tests.properties.sources import SCHEMA, SOURCES

KINDS = list(dict.fromkeys(SOURCES))  # some are there twice, to be drawn more often
NUMBERS = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("s", pa.string())])


def positive(batch: pa.RecordBatch) -> pa.Array:
    """Null where the number is."""
    return pc.greater(batch["number"], 0)


def short(batch: pa.RecordBatch) -> pa.Array:
    """Of two columns, and no row is without an answer."""
    return pc.or_(pc.less(pc.utf8_length(batch["text"].fill_null("")), 2), pc.is_null(batch["flag"]))


CONDITIONS: list[tuple[Predicate, list[str] | None]] = [
    (positive, ["number"]),
    (short, ["flag", "text"]),
    (positive, None),
    (lambda batch: pa.array([True] * batch.num_rows, pa.bool_()), ["key"]),
    (lambda batch: pa.array([False] * batch.num_rows, pa.bool_()), ["key"]),
]


def expected(version: TableVersion, predicate: Predicate) -> RowSet:
    """The keys of the rows of a version for which the condition holds, worked out anew."""
    batch = pa.RecordBatch.from_arrays(version.read(version.row_set), schema=version.schema)
    flags = predicate(batch).fill_null(False).to_pylist()
    return RowSet.from_keys([key for key, flag in zip(version.row_set, flags, strict=True) if flag])


def result(node: UpdateNode, outcome: Any) -> TableVersion:
    """A version as a table with this outcome would have it."""
    return TableVersion(
        schema=SCHEMA, row_set=outcome.rows, readable=outcome.rows, node=node, views=tuple(outcome.views)
    )


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32), condition=st.sampled_from(CONDITIONS))
@settings(deadline=None, max_examples=12)
def test_the_operator_alone(kind: Any, seed: int, condition: tuple[Predicate, list[str] | None]) -> None:
    """After any changes, one by one or several at once, it has the rows that there would be from the beginning.

    Its updates alone lead a follower to the same content, and shared columns stay what they were.
    """
    chance = random.Random(seed)
    graph = UpdateGraph()
    source = kind(graph)
    for _ in range(chance.randrange(4)):
        source.change(chance)
    predicate, columns = condition
    table = source.table
    numbers = range(len(SCHEMA)) if columns is None else [SCHEMA.names.index(name) for name in columns]
    operator = Where(SCHEMA, predicate, tuple(numbers))
    seen: TableVersion = table.version
    outcome = operator.start((seen,))
    assert outcome.rows == outcome.update.added == expected(seen, predicate)
    shown = result(seen.node, outcome)
    follower = Follower.__new__(Follower)
    follower.rows, follower.updates, follower.held = {}, [], []
    follower.take(outcome.update, shown)
    for _ in range(8):
        for _ in range(chance.choice([1, 1, 3])):
            source.change(chance)
        now = table.version
        if now is seen:
            continue
        outcome = operator.follow((Change(coalesce_nodes(seen.node, now.node), seen, now),), (now,))
        assert outcome.rows == expected(now, predicate)
        assert outcome.update.apply_to(shown.row_set) == outcome.rows
        assert all(outcome.rows.is_superset(rows) for rows in outcome.update.modified)
        assert all(rows.is_disjoint(outcome.update.added) for rows in outcome.update.modified)
        assert outcome.update.removed.is_empty or shown.row_set.is_superset(outcome.update.removed)
        before, seen, shown = shown, now, result(now.node, outcome)
        follower.hold(before)
        follower.listen(outcome.update, before, shown)
    follower.check_held()


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=5)
def test_chains_in_a_graph(kind: Any, seed: int) -> None:
    """A condition on a condition, made at any time, follows the table with one update per cycle."""
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    chains: list[tuple[DerivedTable, DerivedTable, list[Follower]]] = []
    for _ in range(8):
        if chance.random() < 0.3:
            first = where(source.table, positive, ["number"], name="first")
            second = where(first, short, name="second")
            chains.append((first, second, [Follower(first), Follower(second)]))
        source.change(chance)
        version = source.table.version
        for first, second, followers in chains:
            wanted = expected(version, positive)
            assert first.version.row_set == wanted
            assert second.version.row_set == expected(version, short) & wanted
            for follower in followers:
                follower.hold(follower_version := (first if follower is followers[0] else second).version)
                assert follower_version.node.step <= source.table.graph.step
    for _, _, followers in chains:
        for follower in followers:
            follower.check_held()


def numbers(keys: Any, n: Any, text: str = "x") -> pa.Table:
    return pa.table({"k": keys, "n": n, "s": [text] * len(keys)}, schema=NUMBERS)


class Watched:
    """A condition that counts the rows that it is asked about."""

    def __init__(self) -> None:
        self.rows = 0
        self.most = 0

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        assert batch.schema.names == ["n"]
        self.rows += batch.num_rows
        self.most = max(self.most, batch.num_rows)
        return pc.greater(batch["n"], 10)


def test_a_cycle_looks_at_the_rows_that_matter_only() -> None:
    """The table may have any number of others, and other columns may change."""
    table = KeyedTable(UpdateGraph(), "t", NUMBERS, "k")
    table.upsert(numbers(range(200_000), np.arange(200_000) % 20))
    asked = Watched()
    made = where(table, asked, ["n"], name="made")
    assert (asked.rows, made.size, asked.most) == (200_000, 90_000, 65_536)
    asked.rows = 0
    table.upsert(numbers(range(50), np.arange(50) % 20, "other"))
    assert (asked.rows, made.size) == (0, 90_000)
    table.upsert(numbers([1, 2, 3], [11, 12, 3]))
    assert (asked.rows, made.size) == (2, 90_002)
    table.delete({"k": range(100)})
    table.upsert(numbers([-1, -2], [0, 99]))
    assert asked.rows == 4
    assert (
        made.version.to_table().sort_by("k").equals(table.to_arrow().filter(pc.greater(pc.field("n"), 10)).sort_by("k"))
    )


def test_a_table_whose_rows_do_not_change_takes_the_new_columns_all_the_same() -> None:
    """Otherwise it would keep overwritten values alive; listeners are not called, and its history has no step."""
    table = KeyedTable(UpdateGraph(), "t", NUMBERS, "k")
    table.upsert(numbers(range(1000), range(1000)))
    made = where(table, lambda batch: pc.less(batch["n"], 5), ["n"], name="made")
    below = where(made, lambda batch: pc.less(batch["n"], 3), ["n"], name="below")
    sizes = attached(DerivedTable([made], "sizes", OneRow(count)))
    told: list[TableUpdate] = []
    for derived in (made, below, sizes):
        derived.add_listener(lambda update, before, after: told.append(update))
    nodes = [derived.version.node for derived in (made, below, sizes)]
    held, content = made.version, made.to_arrow()
    for number in range(5):
        table.upsert(numbers(range(10, 1000), range(10 + number, 1000 + number)))
        for derived in (made, below):
            assert all(one is other for one, other in zip(derived.version.views, table.version.views, strict=True))
    assert told == []
    assert [derived.version.node for derived in (made, below, sizes)] == nodes
    assert [node.next for node in nodes] == [None] * 3
    assert held.to_table().equals(content) and made.to_arrow().equals(content)
    table.upsert(numbers([0, 1], [7, 2]))
    assert [update.removed.size for update in told] == [1, 1, 0]
    assert below.to_arrow()["k"].to_pylist() == [1, 2]


def test_it_starts_beside_cycles_and_misses_none() -> None:
    """Whatever is written while it starts is there when it is made; writers go on meanwhile."""
    graph = UpdateGraph()
    table = KeyedTable(graph, "t", NUMBERS, "k")
    table.upsert(numbers(range(20_000), range(20_000)))
    stop, problems = threading.Event(), []
    entered, opened = threading.Event(), threading.Event()

    def write() -> None:
        chance = np.random.default_rng(1)
        try:
            while not stop.is_set():
                keys = chance.integers(0, 30_000, 200)
                table.upsert(numbers(keys, chance.integers(0, 30_000, 200)))
                table.delete({"k": keys[:20]})
        except BaseException as error:
            problems.append(error)

    def slow(batch: pa.RecordBatch) -> pa.Array:
        entered.set()
        assert opened.wait(30)
        return pc.greater(batch["n"], 10_000)

    starting: list[DerivedTable] = []
    starter = threading.Thread(target=lambda: starting.append(where(table, slow, ["n"], name="slow")))
    starter.start()
    assert entered.wait(30)
    step = graph.step
    table.upsert(numbers([1], [20_000]))
    assert graph.step == step + 1, "a cycle runs while the table starts"
    opened.set()
    starter.join(30)
    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(20):
        starting.append(where(table, lambda batch: pc.greater(batch["n"], 10_000), ["n"], name="made"))
    stop.set()
    writer.join(30)
    assert problems == []
    wanted = table.to_arrow().filter(pc.greater(pc.field("n"), 10_000))
    for made in starting:
        assert made.failure is None
        assert made.to_arrow().equals(wanted)


def test_a_condition_that_fails_fails_its_table_alone() -> None:
    """The source goes on; the error names the table, the operator and the kind of fault, and says nothing else."""
    table = AppendTable(UpdateGraph(), "t", NUMBERS)
    table.append(numbers([1], [1]))

    def touchy(batch: pa.RecordBatch) -> pa.Array:
        if 7 in batch["n"].to_pylist():
            raise ValueError("secret")
        return pc.greater(batch["n"], 0)

    made = where(table, touchy, name="made")
    table.append(numbers([2], [2]))
    table.append(numbers([3], [7]))
    assert (table.size, made.size) == (3, 2)
    with pytest.raises(TableFailedError, match=r"'made' .*'where' failed.*\(ValueError\)") as told:
        made.check_usable()
    assert "secret" not in str(told.value)
    with pytest.raises(ValueError, match="secret"):
        where(table, touchy, name="again")
    with pytest.raises(TableFailedError, match="'made'"):
        where(made, lambda batch: pc.greater(batch["n"], 0), name="below")


@pytest.mark.parametrize(
    "answer",
    [
        lambda batch: None,
        lambda batch: batch["n"],
        lambda batch: pa.array([True]),
        lambda batch: np.zeros((batch.num_rows, 2), bool)[:, :1].tolist(),
    ],
)
def test_a_condition_gives_one_boolean_per_row(answer: Any) -> None:
    table = AppendTable(UpdateGraph(), "t", NUMBERS)
    table.append(numbers([1, 2, 3], [1, 2, 3]))
    with pytest.raises(SchemaMismatchError, match="one boolean for each of the 3 rows"):
        where(table, answer, name="made")
    made = where(table, lambda batch: np.array(batch["n"]) > 1, ["n"], name="made")
    assert made.size == 2
    chunked = where(table, lambda batch: pc.greater(pa.chunked_array([batch["n"]]), 2), ["n"], name="made")
    assert chunked.size == 1


def test_what_is_promised_about_the_result() -> None:
    """Rows stay where those of the table do; keys stay keys; positions do not."""
    graph = UpdateGraph()
    log, quotes = AppendTable(graph, "log", NUMBERS), KeyedTable(graph, "quotes", NUMBERS, "k")
    yes: Predicate = lambda batch: pc.is_valid(batch["k"])  # noqa: E731
    tables: list[tuple[Table, TableTraits]] = [
        (log, TableTraits(append_only=True, add_only=True)),
        (quotes, TableTraits()),
    ]
    for table, traits in tables:
        made = where(table, yes, ["k"], name="made")
        assert (made.traits, made.key_columns, made.schema) == (traits, table.key_columns, NUMBERS)
        assert made.nbytes == table.nbytes
    with pytest.raises(UnknownColumnError):
        where(log, yes, ["missing"], name="made")
