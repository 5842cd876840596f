"""The values of groups: all, the different ones, the only one, those that meet conditions, and formulas of them."""

from __future__ import annotations

import gc
import math
import random
import tracemalloc
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, Table, UpdateGraph
from barrage_server.errors import InvalidRequestError, UnknownColumnError, UnsupportedTypeError
from barrage_server.operations.aggregations import agg_by
from barrage_server.plan import agg
from barrage_server.plan.condition import Column, Compare, Comparison
from tests.operations.oracle import Row, Watch, cell, plain_rows
from tests.operations.test_rows import CASES as OTHERS
from tests.properties.sources import SOURCES

KINDS = list(dict.fromkeys(SOURCES))
_KEY, _NUMBER, _TEXT, _FLAG, _ITEMS = range(5)
BY = [(), (_TEXT,), (_FLAG, _TEXT), (_NUMBER,)]

AGGREGATIONS = [
    agg.count_where("large", ["number > 1", "key < 8"]),
    agg.count_where("flagged", "flag"),
    agg.count_where("few", Compare(Comparison.LESS, Column("key"), 4)),
    agg.count_distinct(["numbers=number", "texts=text"]),
    agg.count_distinct("flags=flag", count_nulls=True),
    agg.unique(["one=text", "one_number=number"]),
    agg.unique("only=key", non_unique_sentinel=-1),
    agg.unique("single=text", include_nulls=True, non_unique_sentinel="several"),
    agg.distinct(["all_numbers=number", "all_keys=key"]),
    agg.distinct("all_texts=text", include_nulls=True),
    agg.group(["group_number=number", "group_items=items", "group_key=key"]),
    agg.formula("low=min(number)"),
    agg.formula("count(each) + 1", "each", ["n_texts=text", "n_keys=key"]),
    agg.formula("turned=reverse(key)"),
    agg.formula("size=len(text) + sum(key)"),
]
NAMES = [
    "large flagged few numbers texts flags one one_number only single all_numbers all_keys all_texts group_number "
    "group_items group_key low n_texts n_keys turned size"
][0].split()
READS: dict[str, tuple[int, ...]] = {
    "large": (_NUMBER, _KEY),
    "flagged": (_FLAG,),
    "numbers": (_NUMBER,),
    "flags": (_FLAG,),
    "single": (_TEXT,),
    "all_numbers": (_NUMBER,),
    "all_texts": (_TEXT,),
    "group_number": (_NUMBER,),
    "group_items": (_ITEMS,),
    "low": (_NUMBER,),
    "n_texts": (_TEXT,),
    "turned": (_KEY,),
    "size": (_TEXT, _KEY),
}
LISTS = ("group_number", "group_items", "group_key")


def place(value: Any) -> tuple[int, Any]:
    """Null first, NaN last."""
    return (0, 0) if value is None else (2, 0) if isinstance(value, float) and math.isnan(value) else (1, value)


def told(value: Any) -> Any:
    """A value that equals another one if they are one value: NaN is, and both zeros are."""
    if isinstance(value, list):
        return [told(each) for each in value]
    return cell(0.0) if isinstance(value, float) and value == 0 else cell(value)


def values(rows: Sequence[Row], number: int, *, nulls: bool = False) -> list[Any]:
    """The different values in order: without null and NaN, or with them."""
    found = {repr(told(row[number])): row[number] for row in rows if nulls or place(row[number])[0] == 1}
    return sorted(found.values(), key=place)


def one(found: list[Any], several: Any = None) -> Any:
    return None if not found else found[0] if len(found) == 1 else several


def low(rows: Sequence[Row]) -> Any:
    numbers = [row[_NUMBER] for row in rows if row[_NUMBER] is not None]
    return math.nan if any(map(math.isnan, numbers)) else min(numbers, default=None)


def expected(rows: Sequence[Row]) -> list[Any]:
    keys = [row[_KEY] for row in rows]
    known = [key for key in keys if key is not None]
    return [
        sum(1 for row in rows if row[_NUMBER] is not None and row[_NUMBER] > 1 and row[_KEY] < 8),
        sum(1 for row in rows if row[_FLAG]),
        sum(1 for row in rows if row[_KEY] is None or row[_KEY] < 4),
        len(values(rows, _NUMBER)),
        len(values(rows, _TEXT)),
        len(values(rows, _FLAG, nulls=True)),
        one(values(rows, _TEXT)),
        one(values(rows, _NUMBER)),
        one(values(rows, _KEY), -1),
        one(values(rows, _TEXT, nulls=True), "several"),
        values(rows, _NUMBER) or None,
        values(rows, _KEY) or None,
        values(rows, _TEXT, nulls=True),
        [row[_NUMBER] for row in rows],
        [row[_ITEMS] for row in rows],
        keys,
        low(rows),
        sum(1 for row in rows if row[_TEXT] is not None) + 1,
        len(known) + 1,
        keys[::-1],
        len(rows) + sum(known) if known else None,
    ]


def grouped(rows: Sequence[Row], by: Sequence[int]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(repr([told(row[number]) for number in by]), []).append(row)
    return groups


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32), by=st.sampled_from(BY))
@settings(deadline=None, max_examples=15)
def test_the_results_are_those_of_the_rows_there_are(kind: Any, seed: int, by: tuple[int, ...]) -> None:
    """After any changes, as if computed from the beginning, in the order of the rows; the updates alone say so, too."""
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    table = source.table
    for _ in range(chance.randrange(3)):
        source.change(chance)
    # columns that tell groups apart are single values in formulas, which other tests have
    aggregations = AGGREGATIONS[:11] if by else AGGREGATIONS
    names = NAMES[: NAMES.index("low")] if by else NAMES
    keys = [f"by{place} = {table.schema.names[number]}" for place, number in enumerate(by)]
    made = agg_by([table], aggregations, keys)
    assert made.schema.names[len(by) :] == names
    exact = [number for number, name in enumerate(made.schema.names) if number >= len(by) and name not in LISTS]
    watch, parent = Watch(made, exact), Watch(table)
    for _ in range(8):
        for each in (watch, parent):
            each.last = None
        source.change(chance)
        groups = grouped(plain_rows(table), by)
        found = {repr([told(value) for value in row[: len(by)]]): row for row in plain_rows(made)}
        assert found.keys() == groups.keys()
        assert made.size == len(groups)
        for key, rows in groups.items():
            for name, value, wanted in zip(names, found[key][len(by) :], expected(rows), strict=False):
                assert told(value) == told(wanted), (name, rows)
        if watch.last is not None:
            assert parent.last is not None
            structural = parent.last.added or parent.last.removed or any(parent.last.modified[number] for number in by)
            for name, modified in zip(names, watch.last.modified[len(by) :], strict=True):
                if modified and not structural and name in READS:
                    assert any(parent.last.modified[number] for number in READS[name]), name
    watch.check_held()
    parent.check_held()


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=10)
def test_within_chains(kind: Any, seed: int) -> None:
    """Behind operations that shift and remove rows, and before others that read the lists."""
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    parent = chance.choice(list(OTHERS.values())).make(source.table)
    wanted = [agg.group("key"), agg.distinct("number"), agg.formula("top = max(key)"), agg.unique("flag")]
    grouped = parent.agg_by(wanted, "text").sort("text")
    undone = parent.head_by(100, "text").sort("text")
    again = parent.group_by("text").ungroup(["key", "number", "flag"]).drop_columns("items").sort("text")
    watches = [Watch(table) for table in (parent, grouped, undone, again)]
    for _ in range(6):
        source.change(chance)
        rows = sorted(plain_rows(parent), key=lambda row: place(row[_TEXT]))
        groups = [list(members) for _, members in groupby(rows, lambda row: row[_TEXT])]
        found = [
            (
                members[0][_TEXT],
                [row[_KEY] for row in members],
                values(members, _NUMBER) or None,
                max(row[_KEY] for row in members),
                one(values(members, _FLAG)),
            )
            for members in groups
        ]
        assert [told(list(row)) for row in plain_rows(grouped)] == [told(list(row)) for row in found]
        in_order = [[row[number] for number in (_TEXT, _KEY, _NUMBER, _FLAG, _ITEMS)] for row in rows]
        assert [told(list(row)) for row in plain_rows(undone)] == [told(row) for row in in_order]
        assert [told(list(row)) for row in plain_rows(again)] == [told(row[:4]) for row in in_order]
    for watch in watches:
        watch.check_held()


SCHEMA = {"k": "int64", "g": "string", "v": "float64", "i": "int64"}


def keyed(rows: int, groups: int) -> KeyedTable:
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["k"])
    keys = np.arange(rows)
    table.upsert({"k": keys, "g": [f"g{key % groups}" for key in keys], "v": keys / 3, "i": keys})
    return table


def test_lists_hold_no_values_of_their_own() -> None:
    """Another column of lists takes nothing more; the first one takes the order of the rows."""
    table = keyed(100_000, 100)
    one, four = agg_by([table], [agg.group("v")], ["g"]), agg_by([table], [agg.group(["v", "i", "k", "w=v"])], ["g"])
    taken = one.nbytes - table.nbytes
    assert taken < 70 * 100_000
    assert four.nbytes - table.nbytes == taken
    assert [len(values) for values in four.to_arrow()["w"].to_pylist()] == [1000] * 100


def test_a_cycle_costs_the_groups_that_change() -> None:
    """One modified row: the lists of one group are modified, in its column alone, and other cells are not read."""
    table = keyed(10_000, 100)
    made = agg_by([table], [agg.group(["v", "i"]), agg.formula("top = max(v)")], ["g"])
    watch = Watch(made)
    table.upsert({"k": [7], "g": ["g7"], "v": [0.25], "i": [7]})
    update = watch.updates[-1]
    assert [rows.size for rows in update.modified] == [0, 1, 0, 0]
    table.upsert({"k": [7], "g": ["g7"], "v": [1e9], "i": [8]})
    assert [rows.size for rows in watch.updates[-1].modified] == [0, 1, 1, 1]


def test_a_row_that_moves_to_another_group_changes_both() -> None:
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["k"])
    made = table.agg_by([agg.group("k"), agg.distinct("i"), agg.unique("v")], "g")
    watch = Watch(made)
    table.upsert({"k": [1, 2, 3], "g": ["a", "a", "b"], "v": [1.0, 1.0, 2.0], "i": [5, 5, 6]})
    assert plain_rows(made) == [("a", [1, 2], [5], 1.0), ("b", [3], [6], 2.0)]
    table.upsert({"k": [2], "g": ["b"], "v": [1.0], "i": [5]})
    assert plain_rows(made) == [("a", [1], [5], 1.0), ("b", [2, 3], [5, 6], None)]
    table.delete({"k": [1]})
    assert plain_rows(made) == [("b", [2, 3], [5, 6], None)]
    watch.check_held()


def test_groups_that_have_gone_are_forgotten() -> None:
    """Groups and pairs that outnumber the others are numbered anew; held versions keep their lists."""
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["k"])
    table.upsert({"k": [-1, -2], "g": ["first", "second"], "v": [1.0, 2.0], "i": [1, 2]})
    wanted = [agg.group("v"), agg.distinct("d = v"), agg.unique("u = i"), agg.count_distinct("c = i"), agg.count_("n")]
    made = table.agg_by([*wanted, agg.formula("s = sum(i)")], "g")
    watch = Watch(made)
    sizes = []
    for batch in range(12):
        keys = np.arange(batch * 700, (batch + 1) * 700)
        table.upsert({"k": keys, "g": [f"g{key:07}" for key in keys], "v": keys / 7, "i": keys})
        if batch % 2:
            table.delete({"k": np.arange((batch + 1) * 700 - 3)})
        sizes.append(made.nbytes - table.nbytes)
        rows = made.to_arrow().to_pylist()
        assert len(rows) == table.size
        assert all(row["v"] == row["d"] for row in rows)
        assert all((row["c"], row["n"], row["u"]) == (1, 1, row["s"]) for row in rows)
    assert any(update.shifted.size for update in watch.updates)
    assert max(sizes[6:]) < 1.5 * max(sizes[:6])
    watch.check_held()


def test_the_memory_is_flat_over_many_changes() -> None:
    """Values that come and go leave nothing, although most of them were never there before."""
    table = keyed(1_000, 10)
    made = table.agg_by([agg.group("k"), agg.distinct("v"), agg.unique("i"), agg.formula("s = sum(i)")], "g")
    chance = np.random.default_rng(3)
    taken = []
    tracemalloc.start()
    try:
        for _ in range(4):
            for _ in range(60):
                keys = chance.choice(1_000, 100, replace=False)
                groups = [f"g{number}" for number in chance.integers(0, 10, 100)]
                table.upsert({"k": keys, "g": groups, "v": chance.random(100), "i": keys})
            gc.collect()
            taken.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert made.size == 10
    assert taken[3] < 1.3 * taken[1] + 500_000


def test_values_of_many_types() -> None:
    rows = {"b": [b"x", b"x"], "s": [{"a": 1}, {"a": 1}], "t": [5, 6], "e": [[1], None]}
    schema = pa.schema(
        [
            ("b", pa.binary()),
            ("s", pa.struct([("a", pa.int8())])),
            ("t", pa.timestamp("us")),
            ("e", pa.list_(pa.int8())),
        ]
    )
    table = bs.table(pa.table(rows, schema=schema))
    made = table.agg_by([agg.unique(["b", "s"]), agg.distinct("t"), agg.group("e"), agg.count_distinct("n = s")])
    assert made.schema.field("t").type == pa.list_(pa.timestamp("us"))
    (row,) = made.to_arrow().to_pylist()
    assert (row["b"], row["s"], row["e"], row["n"]) == (b"x", {"a": 1}, [[1], None], 1)
    assert len(row["t"]) == 2


def test_different_values_of_a_blink_table_stay() -> None:
    """What is counted of rows that come and go is that of all that ever came."""
    table = BlinkTable(UpdateGraph(), "t", {"g": "string", "v": "int64"})
    wanted = [agg.count_distinct("c = v"), agg.distinct("d = v"), agg.unique("u = v"), agg.count_where("w", "v > 1")]
    made = table.agg_by(wanted, "g")
    table.append({"g": ["a", "b"], "v": [2, 5]})
    table.append({"g": ["a"], "v": [1]})
    table.append({"g": ["a", "b"], "v": [2, 5]})
    assert plain_rows(made) == [("a", 2, [1, 2], None, 2), ("b", 1, [5], 5, 2)]


def test_columns_that_tell_groups_apart_are_single_values_in_formulas() -> None:
    table = bs.table({"g": ["a", "b", "a"], "x": [1, 2, 3]})
    made = table.agg_by([agg.formula("label = g + `:` + sum(x)"), agg.formula("top = max(x)")], by="key = g")
    assert plain_rows(made) == [("a", "a:4", 3), ("b", "b:2", 2)]


def test_functions_of_users_take_lists() -> None:
    graph = UpdateGraph()
    graph.functions.register(
        "spread", lambda lists: pa.array([max(x) - min(x) for x in lists.to_pylist()]), returns=pa.int64()
    )
    table = AppendTable(graph, "t", {"g": "string", "x": "int64"})
    made = table.agg_by(agg.formula("s = spread(x)"), "g")
    table.append({"g": ["a", "a", "b"], "x": [1, 5, 3]})
    assert plain_rows(made) == [("a", 4), ("b", 0)]


def test_group_by_has_all_other_columns_as_lists() -> None:
    table = bs.table({"g": ["a", "b", "a"], "x": [1, None, 3], "y": ["p", "q", None]})
    assert table.group_by("g").to_arrow().to_pydict() == {
        "g": ["a", "b"],
        "x": [[1, 3], [None]],
        "y": [["p", None], ["q"]],
    }
    assert table.group_by().to_arrow().to_pydict()["x"] == [[1, None, 3]]
    assert table.group_by(["g", "x", "y"]).size == 3
    assert table.agg_all_by(agg.formula("first(each)", "each"), "g").to_arrow() == table.first_by("g").to_arrow()


def test_the_sentinel_of_characters_is_a_character() -> None:
    table = bs.table({"g": ["a", "a", "b"]}).update("c = (char)(97 + i)")
    made = table.agg_by(agg.unique("c", non_unique_sentinel="\x80"), "g").to_arrow()
    assert made.schema.field("c").type == pa.uint16()
    assert made.to_pydict() == {"g": ["a", "b"], "c": [128, 99]}
    with pytest.raises(InvalidRequestError, match="must be a value of type uint16"):
        table.agg_by(agg.unique("c", non_unique_sentinel="xy"), "g")


WRONG: dict[str, tuple[list[Any], type[Exception], str]] = {
    "no filters": ([agg.count_where("n", [])], InvalidRequestError, "needs filters"),
    "filter": ([agg.count_where("n", "price >")], InvalidRequestError, "price >"),
    "position": ([agg.count_where("n", "i > 3")], InvalidRequestError, "positions"),
    "unknown": ([agg.count_where("n", "pric > 3")], UnknownColumnError, "price"),
    "sentinel": ([agg.unique("price", non_unique_sentinel="x")], InvalidRequestError, "type double"),
    "order": ([agg.distinct("items")], InvalidRequestError, "have an order"),
    "lists": ([agg.count_distinct("items")], UnsupportedTypeError, "items|list"),
    "no cols": ([agg.formula("avg(each)", "each")], InvalidRequestError, "needs cols"),
    "assignment": ([agg.formula("avg(price)")], InvalidRequestError, "="),
    "name": ([agg.formula("a = avg(pric)")], UnknownColumnError, "price"),
    "numbers": ([agg.formula("a = price + 1")], InvalidRequestError, "price"),
    "now": ([agg.formula("a = now()")], InvalidRequestError, "time"),
    "no group": ([agg.group()], InvalidRequestError, "needs columns"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_computed_is_refused_at_once(case: str) -> None:
    wanted, error, words = WRONG[case]
    table: Table = AppendTable(UpdateGraph(), "t", {"sym": "string", "price": "float64", "items": pa.list_(pa.int64())})
    with pytest.raises(error, match=words):
        agg_by([table], wanted, ["sym"])
    assert len(table.children) == 0


@pytest.mark.parametrize("wanted", [agg.group("v"), agg.formula("s = sum(v)")])
def test_rows_of_a_blink_table_are_not_kept_for_lists(wanted: Any) -> None:
    table = BlinkTable(UpdateGraph(), "t", {"g": "string", "v": "int64"})
    with pytest.raises(InvalidRequestError, match="which a blink table does not keep"):
        agg_by([table], [wanted], ["g"])


def test_functions_of_lists_take_the_single_values_of_groups() -> None:
    table = bs.table({"k": [1, 2, 1], "n": [5, 6, 7]})
    made = table.agg_by([agg.formula("low = min(k)"), agg.formula("both = sum(k) + sum(n)")], "k")
    assert made.to_arrow().to_pydict() == {"k": [1, 2], "low": [1, 2], "both": [13, 8]}
