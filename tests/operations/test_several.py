"""Operations on several tables or on none: merge, snapshot, empty tables, descriptions of columns."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import (
    AppendTable,
    BlinkTable,
    KeyedTable,
    ReplicaTable,
    ReplicaUpdate,
    Table,
    TableTraits,
    UpdateGraph,
)
from barrage_server.errors import InvalidRequestError, LimitError, TableFailedError
from barrage_server.operations import build
from barrage_server.rowset import MAX_KEY, RowSet
from tests.engine.operators import OneRow, attached
from tests.operations.oracle import Watch, cells_of, content, plain_rows
from tests.properties.sources import SOURCES

KINDS = list(dict.fromkeys(SOURCES))
NUMBERS = pa.schema([("k", pa.int64()), ("n", pa.int64())])


@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=60)
def test_rows_of_tables_behind_each_other(seed: int) -> None:
    """Tables of every kind, some more than once and some static; several may change in one cycle."""
    chance = random.Random(seed)
    graph = UpdateGraph()
    sources = [chance.choice(SOURCES)(graph) for _ in range(chance.randint(1, 4))]
    tables: list[Table] = [source.table for source in sources]
    for source in sources:
        for _ in range(chance.randrange(3)):
            source.change(chance)
    tables.insert(chance.randrange(len(tables) + 1), build.snapshot([chance.choice(tables)]))
    tables.append(chance.choice(tables))
    merged = Watch(build.merge(tables))
    above = Watch(build.merge([merged.table, build.reverse([tables[0]])]))
    for _ in range(8):
        rows = [row for table in tables for row in plain_rows(table)]
        assert cells_of(plain_rows(merged.table)) == cells_of(rows)
        assert cells_of(plain_rows(above.table)) == cells_of(rows + plain_rows(tables[0])[::-1])
        with graph.cycle():
            for source in chance.sample(sources, chance.randint(1, len(sources))):
                source.change(chance)
    merged.check_held()
    above.check_held()


def replica(graph: UpdateGraph, *keys: int) -> ReplicaTable:
    table = ReplicaTable(graph, "r", NUMBERS)
    values = pa.array(list(keys), pa.int64())
    table.apply(ReplicaUpdate(added=RowSet.from_keys(keys), columns=[values, values]))
    return table


def test_a_table_that_outgrows_its_block_shifts_those_behind() -> None:
    """Once: its block at least doubles."""
    graph = UpdateGraph()
    first, second = AppendTable(graph, "first", NUMBERS), KeyedTable(graph, "second", NUMBERS, "k")
    second.upsert({"k": [1, 2], "n": [3, 4]})
    made = build.merge([first, second])
    assert made.version.row_set == RowSet.from_range(1 << 16, (1 << 16) + 1)
    watch = Watch(made)
    first.append({"k": range(65_536), "n": range(65_536)})
    assert made.version.row_set == RowSet.flat((1 << 16) + 2)
    with graph.cycle():
        first.append({"k": [0], "n": [0]})
        second.upsert({"k": [2, 3], "n": [5, 6]})
        second.delete({"k": [1]})
    assert list(watch.updates[-1].shifted) == [((1 << 16) + 1, (1 << 16) + 1, 3 << 16)]
    assert made.version.row_set == RowSet.flat((1 << 16) + 1) | RowSet.from_range((1 << 18) + 1, (1 << 18) + 2)
    first.append({"k": range(60_000), "n": range(60_000)})
    assert watch.updates[-1].shifted.size == 0


def test_row_keys_that_are_too_large_are_an_error() -> None:
    graph = UpdateGraph()
    large = replica(graph, 0, MAX_KEY)
    with pytest.raises(LimitError, match="Flatten the tables first"):
        build.merge([large, large])
    assert build.merge([build.flatten([large])] * 2).size == 4


def test_a_merge_keeps_no_values() -> None:
    graph = UpdateGraph()
    table = AppendTable(graph, "t", NUMBERS)
    table.append({"k": range(200_000), "n": range(200_000)})
    made = build.merge([table, build.snapshot([table])])
    assert made.nbytes == table.nbytes
    assert build.merge([table]).version.views == table.version.views


def test_columns_of_merged_tables_are_the_same() -> None:
    """In any order; the result has that of the first table."""
    graph = UpdateGraph()
    one, two = AppendTable(graph, "one", NUMBERS), AppendTable(graph, "two", {"n": "int64", "k": "int64"})
    one.append({"k": [1], "n": [2]})
    two.append({"k": [3], "n": [4]})
    made = build.merge([one, two])
    watch = Watch(made)
    two.append({"k": [5], "n": [6]})
    assert plain_rows(made) == [(1, 2), (3, 4), (5, 6)]
    assert watch.rows == content(made.version)
    for columns in ({"k": "int64"}, {"k": "int64", "n": "int32"}, {"k": "int64", "n": "int64", "m": "int8"}):
        other = AppendTable(graph, "other", columns)
        for tables in ([one, other], [other, one]):
            with pytest.raises(InvalidRequestError, match=r"same columns\. '(one|other)' has k: int64"):
                build.merge(tables)
    with pytest.raises(InvalidRequestError, match="at least one table"):
        build.merge([])
    with pytest.raises(InvalidRequestError, match="different update graphs"):
        build.merge([one, AppendTable(UpdateGraph(), "far", NUMBERS)])
    with pytest.raises(InvalidRequestError, match="different update graphs"):
        build.merge([build.snapshot([one]), build.snapshot([AppendTable(UpdateGraph(), "far", NUMBERS)])])


def test_what_holds_for_a_merge() -> None:
    graph = UpdateGraph()
    log, blink = AppendTable(graph, "log", NUMBERS), BlinkTable(graph, "blink", NUMBERS)
    past = build.snapshot([log])
    grows = TableTraits(append_only=True, add_only=True)
    assert build.merge([past, log]).traits == grows
    assert build.merge([log, past]).traits == TableTraits()
    assert build.merge([log, log]).traits == TableTraits()
    assert build.merge([blink, blink]).traits == TableTraits()
    assert not build.merge([past, past]).is_refreshing


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=8)
def test_a_snapshot_stays_as_it_is(kind: Any, seed: int) -> None:
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    taken = []
    for _ in range(8):
        source.change(chance)
        made = build.snapshot([source.table])
        taken.append((made, content(source.table.version), build.reverse([made]), plain_rows(made)[::-1]))
    for made, rows, turned, reversed_rows in taken:
        assert content(made.version) == rows
        assert cells_of(plain_rows(turned)) == cells_of(reversed_rows)
        assert not made.is_refreshing and not turned.is_refreshing
        assert len(made.children) == 0


def test_a_snapshot_holds_the_version_and_copies_nothing() -> None:
    table = KeyedTable(UpdateGraph(), "t", NUMBERS, "k")
    table.upsert({"k": range(100_000), "n": range(100_000)})
    made = build.snapshot([table])
    assert made.nbytes == 0
    assert made.version.views == table.version.views
    assert (made.key_columns, made.traits) == (("k",), TableTraits(is_flat=True))


def test_of_a_table_that_has_failed_there_is_no_snapshot() -> None:
    table = AppendTable(UpdateGraph(), "t", NUMBERS)
    table.append({"k": [1], "n": [1]})
    made = attached(table_of := _failing(table))
    table.append({"k": [1], "n": [1]})
    assert table_of.failure is not None
    with pytest.raises(TableFailedError):
        build.snapshot([made])
    with pytest.raises(TableFailedError):
        build.merge([made, made])


def _failing(table: Table) -> Any:
    from barrage_server.engine import DerivedTable

    return DerivedTable([table], "failing", OneRow(good_runs=0))


def test_empty_tables_have_rows_and_no_columns() -> None:
    graph = UpdateGraph()
    made = build.empty_table(graph, 5)
    assert (made.size, made.nbytes, made.schema.names, made.is_refreshing) == (5, 0, [], False)
    assert made.to_arrow().num_rows == 5
    assert build.head([made], 3).size == 3
    assert build.reverse([made]).to_arrow().num_rows == 5
    assert build.merge([made, made]).size == 10
    assert build.empty_table(graph, 0).to_arrow().num_rows == 0
    for rows, text in ((-1, "size must be at least 0"), (1 << 40, "size must be at most"), (1.5, "must be an integer")):
        with pytest.raises(InvalidRequestError, match=text):
            build.empty_table(graph, rows)  # type: ignore[arg-type]


def test_the_columns_of_a_table_as_rows() -> None:
    schema = pa.schema(
        [
            ("a", pa.int32()),
            ("b", pa.timestamp("ns", "UTC")),
            pa.field("c", pa.binary(), metadata={"deephaven:type": "java.math.BigInteger"}),
            ("d", pa.list_(pa.string())),
        ]
    )
    made = build.meta_table([AppendTable(UpdateGraph(), "t", schema)])
    assert made.schema.names == ["Name", "DataType", "ColumnType", "IsPartitioning"]
    assert plain_rows(made) == [
        ("a", "int", "Normal", False),
        ("b", "java.time.Instant", "Normal", False),
        ("c", "java.math.BigInteger", "Normal", False),
        ("d", "java.lang.String[]", "Normal", False),
    ]
    assert build.meta_table([build.empty_table(UpdateGraph(), 3)]).size == 0
