"""``partition_by``: a table for each key, which follow the whole one."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.engine import AppendTable, KeyedTable, Table, UpdateGraph
from barrage_server.errors import (
    InvalidRequestError,
    UnknownColumnError,
    UnsupportedTypeError,
)
from tests.operations.oracle import Row, Watch, cells_of, plain_rows
from tests.operations.pairs import KINDS, key_of


def parts_of(table: Table, by: list[int]) -> dict[Any, list[Row]]:
    """The rows of each key."""
    found: dict[Any, list[Row]] = {}
    for row in plain_rows(table):
        found.setdefault(key_of(row, by), []).append(row)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("drop_keys", [False, True])
@given(seed=st.integers(0, 1 << 32), by=st.sampled_from([[0], [2], [1], [3, 2]]))
@settings(deadline=None, max_examples=8)
def test_content_and_updates(kind: Any, drop_keys: bool, seed: int, by: list[int]) -> None:
    """Constituents that were made at different times have the rows of their keys; merged, they are all rows."""
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    table = source.table
    names = [table.schema.names[number] for number in by]
    kept = [number for number in range(5) if number not in by or not drop_keys]
    parted = table.partition_by(names, drop_keys)
    merged = Watch(parted.merge())
    assert merged.table.schema.names == [table.schema.names[number] for number in kept]
    watches: dict[Any, Watch] = {}

    def shown(rows: list[Row]) -> list[Row]:
        return cells_of([tuple(row[number] for number in kept) for row in rows])

    for _ in range(8):
        source.change(chance)
        wanted = parts_of(table, by)
        keys = [key_of(row, list(range(len(by)))) for row in plain_rows(parted.keys())]
        assert sorted(keys, key=repr) == sorted(wanted, key=repr)
        for key, constituent in zip(keys, parted.constituents, strict=True):
            assert cells_of(plain_rows(constituent)) == shown(wanted[key])
            if chance.random() < 0.4 and key not in watches:
                watches[key] = Watch(constituent)
        for key, watch in watches.items():
            assert cells_of(plain_rows(watch.table)) == shown(wanted.get(key, []))
        rows = [row for key in keys for row in shown(wanted[key])]
        assert sorted(cells_of(plain_rows(merged.table)), key=repr) == sorted(rows, key=repr)
    for watch in (merged, *watches.values()):
        watch.check_held()


def trades() -> AppendTable:
    table = AppendTable(UpdateGraph(), "trades", {"price": "float64", "sym": "string", "side": "string"})
    table.append({"price": [1.0, 2.0, 3.0], "sym": ["A", "B", "A"], "side": ["x", "x", None]})
    return table


def test_a_constituent_by_its_key() -> None:
    table = trades()
    parted, pairs = table.partition_by("sym"), table.partition_by(["sym", "side"])
    assert plain_rows(parted.get_constituent("A")) == [(1.0, "A", "x"), (3.0, "A", None)]  # type: ignore[arg-type]
    assert plain_rows(pairs.get_constituent(["A", None])) == [(3.0, "A", None)]  # type: ignore[arg-type]
    assert parted.get_constituent("C") is None
    table.append({"price": [4.0], "sym": ["C"], "side": ["y"]})
    assert plain_rows(parted.get_constituent(["C"])) == [(4.0, "C", "y")]  # type: ignore[arg-type]
    assert repr(parted) == "<PartitionedTable 'trades' by=['sym'] keys=3>"


def test_one_key_is_one_table_while_it_is_referenced() -> None:
    parted = trades().partition_by("sym")
    first = parted.get_constituent("A")
    assert first is not None and parted.constituents[0] is first


def test_keys_come_and_go_with_their_rows() -> None:
    table = KeyedTable(UpdateGraph(), "t", {"id": "int64", "sym": "string"}, "id")
    table.upsert({"id": [1, 2], "sym": ["A", "B"]})
    parted = table.partition_by("sym")
    second = parted.get_constituent("B")
    assert second is not None
    table.delete({"id": [2]})
    assert plain_rows(parted.keys()) == [("A",)]
    assert (second.size, parted.get_constituent("B")) == (0, None)
    table.upsert({"id": [3], "sym": ["B"]})
    assert plain_rows(second) == [(3, "B")]


def test_times_of_nanoseconds_are_keys() -> None:
    table = AppendTable(UpdateGraph(), "t", {"at": pa.timestamp("ns", "UTC"), "x": "int64"})
    table.append({"at": pa.array([1, 2, 1], pa.timestamp("ns", "UTC")), "x": [1, 2, 3]})
    assert [plain_rows(each.view("x")) for each in table.partition_by("at").constituents] == [[(1,), (3,)], [(2,)]]


def test_transformed_constituents_follow_too() -> None:
    """Those of keys that come later are transformed as well."""
    table = trades()
    tops = table.partition_by("sym").transform(lambda each: each.sort_descending("price"))
    tops = tops.transform(lambda each: each.head(1))
    first = tops.get_constituent("A")
    table.append({"price": [9.0, 8.0, 7.0], "sym": ["A", "C", "C"], "side": ["x"] * 3})
    assert first is not None and first.to_arrow()["price"].to_pylist() == [9.0]
    assert [each.to_arrow()["price"].to_pylist() for each in tops.constituents] == [[9.0], [2.0], [8.0]]


def test_transformed_constituents_of_a_table_that_never_changes_are_merged() -> None:
    tops = trades().snapshot().partition_by("sym").transform(lambda each: each.sort_descending("price").head(1))
    assert tops.merge().to_arrow()["price"].to_pylist() == [3.0, 2.0]


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32), with_keys=st.booleans())
@settings(deadline=None, max_examples=5)
def test_cells_of_an_aggregation_stand_for_constituents(kind: Any, seed: int, with_keys: bool) -> None:
    """One for each row of the result; the tables are those of the keys, under the names that they have in the table."""
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    table = source.table
    name = table.schema.names[1]
    made = table.agg_by([bs.agg.count_("n"), bs.agg.partition("part", with_keys)], by=f"key = {name}")
    watch = Watch(made)
    parted = bs.PartitionedTable.from_partitioned_table(made)
    assert (parted.table, parted.key_columns, parted.drop_keys) == (table, (name,), not with_keys)
    for _ in range(6):
        source.change(chance)
        wanted = {key: len(rows) for key, rows in parts_of(table, [1]).items()}
        assert {key_of(row, [0]): row[1:] for row in plain_rows(made)} == {
            key: (size, "QueryTable") for key, size in wanted.items()
        }
        assert sorted(each.size for each in parted.constituents) == sorted(wanted.values())
    watch.check_held()


def test_a_column_of_constituents_is_typed_as_on_a_deephaven_server() -> None:
    table = trades()
    made = table.agg_by([bs.agg.partition("a"), bs.agg.partition("b", include_by_columns=False)], "sym")
    assert made.schema.field("a").type == pa.string()
    assert made.schema.field("b").metadata == {b"deephaven:type": b"io.deephaven.engine.table.impl.QueryTable"}
    whole = bs.PartitionedTable.from_partitioned_table(made, "a").get_constituent("B")
    part = bs.PartitionedTable.from_partitioned_table(made, "b").get_constituent("B")
    assert whole is not None and plain_rows(whole) == [(2.0, "B", "x")]
    assert part is not None and plain_rows(part) == [(2.0, "x")]


def test_what_is_no_column_of_constituents_is_refused() -> None:
    table = trades()
    made = table.agg_by([bs.agg.partition("a"), bs.agg.partition("b")], "sym")
    parted = bs.PartitionedTable.from_partitioned_table
    with pytest.raises(InvalidRequestError, match="constituent_column must be given: there are a, b"):
        parted(made)
    with pytest.raises(InvalidRequestError, match="constituent_column must be one of a, b, not 'sym'"):
        parted(made, "sym")
    for other in (table, made.where("sym == `A`"), table.agg_by(bs.agg.count_("n"), "sym")):
        with pytest.raises(InvalidRequestError, match="has no column of constituents"):
            parted(other)
    with pytest.raises(InvalidRequestError, match="table must be a table"):
        parted(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="by must have at least one name"):
        parted(table.agg_by(bs.agg.partition("a")))
    with pytest.raises(InvalidRequestError, match="agg_all_by takes an aggregation without columns"):
        table.agg_all_by(bs.agg.partition("a"), "sym")
    with pytest.raises(InvalidRequestError, match="include_by_columns must be True or False"):
        bs.agg.partition("a", 1)  # type: ignore[arg-type]


def test_what_does_not_fit_is_refused() -> None:
    table = AppendTable(UpdateGraph(), "t", {"x": "int64", "sym": "string", "items": pa.list_(pa.int64())})
    table.append({"x": [1], "sym": ["A"], "items": [[1]]})
    parted = table.partition_by("sym")
    with pytest.raises(UnknownColumnError, match="no column 'symbol'"):
        table.partition_by("symbol")
    with pytest.raises(UnsupportedTypeError):
        table.partition_by("items")
    with pytest.raises(InvalidRequestError, match="one value for each key column"):
        parted.get_constituent(["A", "B"])
    with pytest.raises(InvalidRequestError, match="values of the key columns"):
        parted.get_constituent(object())
    with pytest.raises(InvalidRequestError, match="func must return a table, not 3"):
        assert parted.transform(lambda _: 3).constituents  # type: ignore[arg-type, return-value]
    with pytest.raises(InvalidRequestError, match="has no column"):
        bs.table({"k": [1]}).partition_by("k", drop_keys=True)
    with pytest.raises(InvalidRequestError, match="a merge takes names of letters"):
        bs.table({"a b": [1], "k": [1]}).partition_by("k").merge()
    with pytest.raises(InvalidRequestError, match="no constituents to merge"):
        table.where("x > 1").snapshot().partition_by("sym").transform(lambda each: each.head(1)).merge()
