"""Source tables against the simplest model: content, updates, and versions that readers hold."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.engine import (
    AppendTable,
    BlinkTable,
    KeyedTable,
    ReplacedTable,
    ReplicaTable,
    ReplicaUpdate,
    RingTable,
    UpdateGraph,
)
from barrage_server.errors import (
    InvalidRequestError,
    KeyMismatchError,
    SchemaMismatchError,
    UnknownColumnError,
    WireFormatError,
)
from barrage_server.rowset import RowSet, RowSetShiftData
from tests.engine.followers import Follower, rows_of

SCHEMA = pa.schema([("key", pa.string()), ("number", pa.int64()), ("words", pa.list_(pa.string()))])

texts = st.none() | st.sampled_from(["", "a", "b", "cc", "ddd", "longer than eight bytes"])
row = st.tuples(texts, st.none() | st.integers(-3, 3), st.none() | st.lists(texts, max_size=2))
batches = st.lists(row, max_size=6)


def batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    return pa.record_batch(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def rows_in(table: Any) -> list[tuple[Any, ...]]:
    return rows_of([column.combine_chunks() for column in table.to_arrow().columns])


@given(st.lists(batches, max_size=6))
def test_an_append_table_holds_what_was_appended(parts: list[list[tuple[Any, ...]]]) -> None:
    """Rows come in order, under the keys 0, 1, 2 ...; versions that are held stay as they are."""
    table = AppendTable(UpdateGraph(), "t", SCHEMA)
    follower = Follower(table)
    expected: list[tuple[Any, ...]] = []
    for part in parts:
        follower.hold(table.version)
        table.append(batch(part))
        expected += part
        assert rows_in(table) == expected
        assert table.version.row_set == RowSet.flat(len(expected))
    follower.check_held()


@given(st.integers(1, 7), st.lists(st.lists(batches, min_size=1, max_size=3), max_size=6))
def test_a_ring_table_holds_the_last_rows(capacity: int, cycles: list[list[list[tuple[Any, ...]]]]) -> None:
    """Never more than the capacity; rows pushed out by their own cycle never appear."""
    graph = UpdateGraph()
    table = RingTable(graph, "t", SCHEMA, capacity)
    follower = Follower(table)
    expected: list[tuple[Any, ...]] = []
    for parts in cycles:
        follower.hold(table.version)
        with graph.cycle():
            for part in parts:
                table.append(batch(part))
                expected += part
        assert rows_in(table) == expected[-capacity:]
    follower.check_held()


def test_a_ring_frees_what_it_pushed_out() -> None:
    """Storage follows the capacity, not what went through."""
    table = RingTable(UpdateGraph(), "t", SCHEMA, 1000)
    part = batch([("some text", 1, ["x", "y"])] * 500)
    sizes = []
    for _ in range(100):
        table.append(part)
        sizes.append(table.nbytes)
    assert max(sizes[50:]) <= 2 * max(sizes[:10])


@given(st.lists(st.tuples(st.booleans(), batches), max_size=8))
def test_blink_rows_live_for_one_cycle(cycles: list[tuple[bool, list[tuple[Any, ...]]]]) -> None:
    """The next cycle of the graph removes them, also one that only touches another table."""
    graph = UpdateGraph()
    table, other = BlinkTable(graph, "t", SCHEMA), AppendTable(graph, "other", SCHEMA)
    follower = Follower(table)
    everything: list[tuple[Any, ...]] = []
    for elsewhere, part in cycles:
        (other if elsewhere else table).append(batch(part))
        if part:
            assert rows_in(table) == ([] if elsewhere else part)
        everything += [] if elsewhere else part
    version = table.version
    assert rows_of(version.read(version.readable)) == everything, "the history stays readable"
    follower.check_held()


def test_the_history_of_a_blink_table_is_bounded() -> None:
    """Rows further back than the history are gone, except those that are in the table."""
    table = BlinkTable(UpdateGraph(), "t", SCHEMA, history=3)
    table.append(batch([("a", 1, None)] * 2))
    table.append(batch([("b", 1, None)] * 2))
    assert table.version.readable == RowSet.from_range(1, 3)
    table.append(batch([("c", 1, None)] * 5))
    assert table.version.readable == RowSet.from_range(4, 8)


operations = st.lists(st.tuples(st.sampled_from(["upsert", "delete", "replace", "pause"]), batches), max_size=10)


@given(st.lists(operations, max_size=4), st.sampled_from([["key"], ["number", "key"], ["number"]]))
def test_a_keyed_table_is_a_dictionary(cycles: list[list[tuple[str, list[tuple[Any, ...]]]]], key: list[str]) -> None:
    """Upsert sets, delete removes, replace makes it so; the last row of a key wins; null is a key like any other."""
    graph = UpdateGraph()
    table = KeyedTable(graph, "t", SCHEMA, key)
    follower = Follower(table)
    places = [SCHEMA.names.index(name) for name in key]
    expected: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for parts in cycles:
        follower.hold(table.version)
        with graph.cycle():
            for kind, rows in parts:
                keyed = {tuple(values[place] for place in places): values for values in rows}
                if kind == "upsert":
                    table.upsert(batch(rows))
                    expected.update(keyed)
                elif kind == "delete":
                    table.delete(batch(rows).select(key))
                    for one in keyed:
                        expected.pop(one, None)
                elif kind == "replace":
                    table.replace(batch(rows))
                    expected = keyed
        assert sorted(map(repr, rows_in(table))) == sorted(map(repr, expected.values()))
    follower.check_held()


structs = st.none() | st.fixed_dictionaries(
    {
        "s": st.none() | st.sampled_from(["", "a", "longer than eight"]),
        "in": st.none() | st.fixed_dictionaries({"f": st.none() | st.sampled_from([0.0, -0.0, math.nan, 1.5])}),
    }
)
STRUCT = pa.struct([("s", pa.string()), ("in", pa.struct([("f", pa.float64())]))])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["upsert", "delete", "replace"]),
            st.lists(st.tuples(structs, st.integers(0, 2), st.integers(0, 9)), max_size=8),
            st.integers(0, 3),
        ),
        max_size=6,
    )
)
def test_structs_are_keys_like_any_other(cycles: list[tuple[str, list[tuple[Any, int, int]], int]]) -> None:
    """Beside a flat key, at every depth, sliced: null, NaN and one zero as in a flat column."""
    schema = pa.schema([("where", STRUCT), ("n", pa.int64()), ("value", pa.int64())])
    table = KeyedTable(UpdateGraph(), "t", schema, ["where", "n"])
    expected: dict[str, int] = {}
    for kind, drawn, skipped in cycles:
        columns = list(zip(*drawn, strict=True)) or [(), (), ()]
        rows = pa.table([pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema)
        rows = rows.slice(skipped)
        given = by_struct(rows)
        if kind == "delete":
            table.delete(rows.select(["n", "where"]))
            for key in given:
                expected.pop(key, None)
        else:
            (table.upsert if kind == "upsert" else table.replace)(rows)
            expected = expected | given if kind == "upsert" else given
        assert by_struct(table.to_arrow()) == expected
        assert table.size == len(expected)


def by_struct(rows: pa.Table) -> dict[str, int]:
    """The value of the last row of each key, as a text in which there is one zero."""
    return {repr((row["where"], row["n"])).replace("-0.0", "0.0"): row["value"] for row in rows.to_pylist()}


def test_an_upsert_modifies_only_cells_that_differ() -> None:
    """Per column, exactly the rows with a new value; a row keeps its row key."""
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["key"])
    table.upsert(batch([("a", 1, ["x"]), ("b", 2, None), ("c", 3, ["z"])]))
    follower = Follower(table)
    table.upsert(batch([("c", 3, ["new"]), ("a", 9, ["x"]), ("b", 2, None), ("d", 4, None)]))
    (update,) = follower.updates
    assert update.added == RowSet.from_range(3, 3)
    assert [rows.keys().tolist() for rows in update.modified] == [[], [0], [2]]


def test_a_replacement_is_the_smallest_update() -> None:
    """Rows that stay equal are not in it."""
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["key"])
    table.replace(batch([(name, number, None) for number, name in enumerate("abcd")]))
    follower = Follower(table)
    table.replace(batch([("d", 3, None), ("x", 7, None), ("b", 8, None), ("a", 0, None)]))
    (update,) = follower.updates
    assert update.removed.keys().tolist() == [2]
    assert update.added.size == 1
    assert [rows.keys().tolist() for rows in update.modified] == [[], [1], []]


def test_row_keys_of_deleted_rows_come_back_into_use() -> None:
    """Churn does not grow the key space without bound, nor the storage."""
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["number"])
    follower = Follower(table)
    for round_ in range(12):
        numbers = pa.array(range(round_ * 1000, round_ * 1000 + 1000))
        table.replace(
            {
                "key": pa.array([f"row {round_}"] * 1000),
                "number": numbers,
                "words": pa.nulls(1000, SCHEMA.field(2).type),
            }
        )
        follower.hold(table.version)
    assert table.version.row_set.last_key < 4000
    follower.check_held()


@given(st.lists(st.lists(st.tuples(st.booleans(), batches), max_size=4), max_size=5))
def test_a_replaced_table_takes_rows_at_its_end_too(cycles: list[list[tuple[bool, list[tuple[Any, ...]]]]]) -> None:
    """In any order within a cycle; what a later replacement hides is never seen."""
    graph = UpdateGraph()
    table = ReplacedTable(graph, "t", SCHEMA)
    follower = Follower(table)
    expected: list[tuple[Any, ...]] = []
    for cycle in cycles:
        follower.hold(table.version)
        with graph.cycle():
            for appends, rows in cycle:
                (table.append if appends else table.replace)(batch(rows))
                expected = expected + rows if appends else rows
        assert rows_in(table) == expected
    follower.check_held()


@given(st.lists(batches, max_size=6))
def test_a_replaced_table_is_what_it_was_last_replaced_by(contents: list[list[tuple[Any, ...]]]) -> None:
    """In the order of the batch."""
    table = ReplacedTable(UpdateGraph(), "t", SCHEMA)
    follower = Follower(table)
    for rows in contents:
        follower.hold(table.version)
        table.replace(batch(rows))
        assert rows_in(table) == rows
    follower.check_held()


@given(st.data())
def test_a_replica_applies_removes_shifts_adds_and_modifications(data: st.DataObject) -> None:
    """Applied in the order of the update model, each on its own columns."""
    table = ReplicaTable(UpdateGraph(), "t", SCHEMA)
    follower = Follower(table)
    model: dict[int, list[Any]] = {}
    for _ in range(data.draw(st.integers(1, 5))):
        follower.hold(table.version)
        removed = data.draw(st.sets(st.sampled_from(sorted(model)))) if model else set()
        stay = sorted(set(model) - removed)
        after = sorted(data.draw(st.sets(st.integers(0, 60), min_size=len(stay), max_size=len(stay))))
        if data.draw(st.booleans()):
            after = stay
        moved = {new: model[old] for old, new in zip(stay, after, strict=True)}
        added = sorted(data.draw(st.sets(st.integers(0, 70), max_size=8)) - set(moved))
        new_rows = data.draw(st.lists(row, min_size=len(added), max_size=len(added)))
        modified = {}
        for column in range(len(SCHEMA)):
            keys = sorted(data.draw(st.sets(st.sampled_from(after)))) if after else []
            values = data.draw(st.lists(row, min_size=len(keys), max_size=len(keys)))
            if keys:
                cells = [one[column] for one in values]
                modified[column] = (RowSet.from_keys(keys), pa.array(cells, SCHEMA.field(column).type))
                for key, cell in zip(keys, cells, strict=True):
                    moved[key] = [*moved[key][:column], cell, *moved[key][column + 1 :]]
        shifted = RowSetShiftData.empty()
        if stay:
            shifted = RowSetShiftData.between(RowSet.from_keys(stay), RowSet.from_keys(after))
        table.apply(
            ReplicaUpdate(
                RowSet.from_keys(added), RowSet.from_keys(sorted(removed)), shifted, batch(new_rows).columns, modified
            )
        )
        model = moved | {key: list(values) for key, values in zip(added, new_rows, strict=True)}
        assert follower.rows == model
    follower.check_held()


def test_a_replica_refuses_updates_that_do_not_fit() -> None:
    """Rows that are not there cannot go or change, rows that are there cannot come; nothing is applied then."""
    table = ReplicaTable(UpdateGraph(), "t", SCHEMA)
    one, rows = RowSet.flat(1), batch([("a", 1, None)]).columns
    table.apply(ReplicaUpdate(one, columns=rows))
    other = RowSet.from_range(5, 5)
    for bad in (
        ReplicaUpdate(one, columns=rows),
        ReplicaUpdate(RowSet.empty(), removed=other),
        ReplicaUpdate(RowSet.empty(), modified={1: (other, pa.array([1]))}),
        ReplicaUpdate(RowSet.empty(), modified={1: (one, pa.array([1, 2]))}),
        ReplicaUpdate(other, columns=rows[:2]),
        ReplicaUpdate(RowSet.from_range(5, 6), columns=rows),
    ):
        with pytest.raises(WireFormatError):
            table.apply(bad)
    assert rows_in(table) == [("a", 1, None)]


def test_columns_that_were_not_asked_for_are_null_in_a_replica() -> None:
    """An array of length zero stands for a column without data."""
    table = ReplicaTable(UpdateGraph(), "t", SCHEMA)
    table.apply(ReplicaUpdate(RowSet.flat(2), columns=[pa.array(["a", "b"]), pa.array([], pa.int64()), pa.nulls(0)]))
    assert rows_in(table) == [("a", None, None), ("b", None, None)]


def test_a_table_reads_like_a_live_table_of_a_client() -> None:
    table = AppendTable(UpdateGraph(), "t", {"sym": "string", "price": "float64"})
    large = table.where("price > 1")
    assert (len(table), len(large), table["price"].to_pylist()) == (0, 0, [])
    assert table and large, "a table without rows is a table"
    table.append({"sym": ["a", "b", "c"], "price": [1.0, 2.0, 3.0]})
    assert (len(table), len(large)) == (3, 2)
    assert table["price"].to_pylist() == [1.0, 2.0, 3.0]
    assert isinstance(table["price"], pa.ChunkedArray)
    assert large[["price"]].to_pydict() == {"price": [2.0, 3.0]}
    assert "sym" in table and "nope" not in table
    for take in (list, pd.DataFrame, iter, tuple):
        with pytest.raises(InvalidRequestError, match=r"table\.to_arrow\(\)"):
            take(table)
    wrong: tuple[Any, ...] = (0, None, slice(3), 1.5, b"sym", bs.col("price") > 1)
    for columns in wrong:
        with pytest.raises(InvalidRequestError, match=r"table\['price'\].*table\.where"):
            table[columns]
    for missing in ("nope", ["sym", "nope"]):
        with pytest.raises(UnknownColumnError, match="sym, price"):
            table[missing]
    assert pl.DataFrame(table).shape == (3, 2)


def test_rows_must_fit_the_schema() -> None:
    """Columns go by name; missing, unknown and differently typed ones are refused with what the table has."""
    table = AppendTable(UpdateGraph(), "t", SCHEMA)
    table.append({"words": [["w"]], "number": [1], "key": ["k"]})
    table.append(pa.table({"number": [2], "words": pa.nulls(1), "key": pa.array(["k"]).dictionary_encode()}))
    assert rows_in(table) == [("k", 1, ["w"]), ("k", 2, None)]
    for bad, text in (
        ({"key": ["k"], "number": [1]}, "missing columns words"),
        ({"key": ["k"], "number": [1], "words": [None], "x": [1]}, "unknown columns x"),
        ({"key": ["k"], "number": ["1"], "words": [None]}, "number"),
        ({"key": ["k"], "number": pa.array([1], pa.int32()), "words": [None]}, "int32"),
        ({"key": ["k", "l"], "number": [1], "words": [None]}, "same length"),
        ([1, 2], "RecordBatch or Table"),
    ):
        with pytest.raises(SchemaMismatchError, match=text):
            table.append(bad)
    assert table.size == 2


def test_a_column_declared_without_nulls_takes_none() -> None:
    """The schema's promise is kept."""
    table = AppendTable(UpdateGraph(), "t", pa.schema([pa.field("n", pa.int64(), nullable=False)]))
    with pytest.raises(SchemaMismatchError, match="without nulls"):
        table.append({"n": [1, None]})


def test_keys_must_be_columns_that_can_be_compared() -> None:
    """Missing, repeated and nested key columns are refused when the table is made, missing ones when rows are
    deleted.
    """
    graph = UpdateGraph()
    for key in ([], ["nope"], ["key", "key"]):
        with pytest.raises(KeyMismatchError):
            KeyedTable(graph, "t", SCHEMA, key)
    with pytest.raises(InvalidRequestError, match="list"):
        KeyedTable(graph, "t", SCHEMA, ["words"])
    with pytest.raises(KeyMismatchError, match="key columns key"):
        KeyedTable(graph, "t", SCHEMA, ["key"]).delete({"number": [1]})


@pytest.mark.parametrize("schema", [pa.schema([]), pa.schema([("a", pa.int8()), ("a", pa.int8())])])
def test_a_schema_needs_columns_with_names_of_their_own(schema: pa.Schema) -> None:
    """No columns, or one name twice: no table."""
    with pytest.raises(InvalidRequestError):
        AppendTable(UpdateGraph(), "t", schema)


@pytest.mark.parametrize("kind", [RingTable, BlinkTable])
@pytest.mark.parametrize("capacity", [0, -1, 1 << 63, 1 << 80, True, 1.5])
def test_a_capacity_is_a_number_of_rows_that_there_are_keys_for(kind: Any, capacity: Any) -> None:
    with pytest.raises(InvalidRequestError, match="from 1 to 9,223,372,036,854,775,807 rows, not"):
        kind(UpdateGraph(), "t", SCHEMA, capacity)
    assert kind(UpdateGraph(), "t", SCHEMA, (1 << 63) - 1).size == 0
