"""Rows in the order of columns, against a sort in plain Python."""

from __future__ import annotations

import math
import random
from functools import cmp_to_key
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import AppendTable, KeyedTable, UpdateGraph
from barrage_server.errors import InvalidRequestError, UnknownColumnError
from barrage_server.operations import build
from barrage_server.operations.aggregations import agg_by
from barrage_server.operations.sort import sort
from barrage_server.plan import aggregation as agg
from barrage_server.plan.operation import SortColumn
from tests.operations.oracle import Case, Row, Rows, Watch, check_stages, plain_rows
from tests.operations.test_rows import CASES as OTHERS
from tests.properties.sources import SCHEMA, SOURCES

KINDS = list(dict.fromkeys(SOURCES))


def compare(left: Any, right: Any) -> int:
    """Null first, NaN last."""

    def grade(value: Any) -> int:
        return 0 if value is None else 2 if isinstance(value, float) and math.isnan(value) else 1

    if grade(left) != 1 or grade(right) != 1:
        return grade(left) - grade(right)
    return int(left > right) - int(left < right)


def in_order(rows: Rows, columns: list[SortColumn]) -> Rows:
    def order(first: Row, second: Row) -> int:
        for column in columns:
            number = SCHEMA.names.index(column.name)
            left, right = first[number], second[number]
            if column.absolute:
                left, right = (None if value is None else abs(value) for value in (left, right))
            found = compare(left, right)
            if found:
                return -found if column.descending else found
        return 0

    return sorted(rows, key=cmp_to_key(order))


def case(*columns: SortColumn) -> Case:
    return Case(lambda table: sort([table], columns), lambda rows: in_order(rows, list(columns)))


CASES = {
    "integers": case(SortColumn("key")),
    "floats": case(SortColumn("number")),
    "floats descending": case(SortColumn("number", descending=True)),
    "sizes": case(SortColumn("number", absolute=True)),
    "text": case(SortColumn("text")),
    "text descending": case(SortColumn("text", descending=True)),
    "flags and text": case(SortColumn("flag", descending=True), SortColumn("text")),
    "three": case(SortColumn("text"), SortColumn("number", descending=True, absolute=True), SortColumn("key")),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=6)
def test_content_and_updates(name: str, kind: Any, seed: int) -> None:
    """Ties are in the order of the table, also those that shifts and modifications bring about."""
    check_stages(kind, seed, lambda _: [CASES[name]])


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=8)
def test_chains(kind: Any, seed: int) -> None:
    cases = [*CASES.values(), *OTHERS.values()]
    check_stages(kind, seed, lambda chance: chance.choices(cases, k=chance.randint(2, 5)))


TYPES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 0, 127, None]),
    (pa.int64(), [-(1 << 63), -1, 0, (1 << 63) - 1, None]),
    (pa.uint64(), [0, 1, (1 << 64) - 1, None]),
    (pa.float16(), [-1.5, 0.0, 2.0, None, math.nan]),
    (pa.float32(), [-math.inf, -1.5, 0.0, math.inf, None, math.nan]),
    (pa.large_string(), ["", "a", "ä", "b", None]),
    (pa.binary(), [b"", b"\x00", b"\xff", None]),
    (pa.bool_(), [False, True, None]),
    (pa.null(), [None, None]),
]


@pytest.mark.parametrize(("data_type", "values"), TYPES, ids=[str(kind) for kind, _ in TYPES])
def test_every_type_with_an_order(data_type: pa.DataType, values: list[Any]) -> None:
    """Those that are there in the beginning, and those that come, are ordered alike."""
    chance = random.Random(1)
    table = AppendTable(UpdateGraph(), "t", pa.schema([("v", data_type), ("n", pa.int64())]))

    def rows() -> pa.Table:
        chosen = chance.choices(values, k=7)
        return pa.table({"v": pa.array(chosen, data_type), "n": pa.array(range(7))}, schema=table.schema)

    table.append(rows())
    made, reverse = sort([table], [SortColumn("v")]), sort([table], [SortColumn("v", descending=True)])
    for _ in range(4):
        table.append(rows())
        expected = sorted((row[0] for row in plain_rows(table)), key=cmp_to_key(compare))
        assert list(map(repr, made.to_arrow()["v"].to_pylist())) == list(map(repr, expected))
        assert list(map(repr, reverse.to_arrow()["v"].to_pylist())) == list(map(repr, expected[::-1]))


@pytest.mark.parametrize(
    ("columns", "error", "text"),
    [
        ([SortColumn("numbr")], UnknownColumnError, "Did you mean 'number'"),
        ([SortColumn("items")], InvalidRequestError, "cannot be sorted by"),
        ([SortColumn("text", absolute=True)], InvalidRequestError, "no absolute values"),
        ([], InvalidRequestError, "at least one column to sort by"),
    ],
)
def test_what_has_no_order_is_refused(columns: list[SortColumn], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        sort([AppendTable(UpdateGraph(), "t", SCHEMA)], columns)


def numbers(size: int) -> KeyedTable:
    table = KeyedTable(UpdateGraph(), "t", {"k": "int64", "v": "float64", "w": "int64"}, ["k"])
    table.upsert({"k": np.arange(size), "v": np.random.default_rng(5).random(size), "w": np.arange(size)})
    return table


def test_a_result_holds_an_order_and_no_values() -> None:
    """Two numbers for each row, and the free slots beside them."""
    table = numbers(100_000)
    made = sort([table], [SortColumn("v")])
    assert 0 < made.nbytes - table.nbytes < 32 * table.size


def test_a_change_of_other_columns_moves_nothing() -> None:
    table = numbers(1_000)
    watch = Watch(sort([table], [SortColumn("v")]))
    rows = table.to_arrow().slice(100, 50)
    table.upsert({"k": rows["k"], "v": rows["v"], "w": [7] * 50})
    (update,) = watch.updates
    assert (update.added.size, update.removed.size, update.shifted.size) == (0, 0, 0)
    assert [changed.size for changed in update.modified] == [0, 0, 50]


def test_few_rows_that_change_move_few_others() -> None:
    table = numbers(50_000)
    watch = Watch(sort([table], [SortColumn("v")]))
    chance = np.random.default_rng(8)
    for _ in range(20):
        keys = chance.choice(50_000, 100, replace=False)
        table.upsert({"k": keys, "v": chance.random(100), "w": keys})
    moved = sum(last - first + 1 for update in watch.updates for first, last, _ in update.shifted)
    assert moved < 40 * 20 * 100


def test_a_cycle_reads_few_rows() -> None:
    """The rows that have changed, and some to compare them with: not all of them. The first cycle reads one of 22."""
    table = numbers(50_000)
    made = sort([table], [SortColumn("v")])
    table.upsert({"k": [4], "v": [0.25], "w": [1]})
    read: list[int] = []
    view = type(table.version.views[0])
    plain = view.read

    def counted(self: Any, plan: Any) -> Any:
        read.append(plan.size)
        return plain(self, plan)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view, "read", counted)
        table.upsert({"k": [3], "v": [0.5], "w": [1]})
    assert sum(read) < 60
    assert made.size == 50_000


def test_it_is_one_of_the_methods() -> None:
    table = AppendTable(UpdateGraph(), "t", {"a": "int64", "b": "float64"})
    up, down = table.sort("a"), table.sort_descending(["a", "abs(b)"])
    mixed = table.sort(["a", "b"], ["descending", "ascending"])
    table.append({"a": [1, 2, 2], "b": [0.0, -5.0, 3.0]})
    assert plain_rows(up) == [(1, 0.0), (2, -5.0), (2, 3.0)]
    assert plain_rows(down) == [(2, -5.0), (2, 3.0), (1, 0.0)]
    assert plain_rows(mixed) == [(2, -5.0), (2, 3.0), (1, 0.0)]
    assert plain_rows(build.head([down], 1)) == [(2, -5.0)]


EDGES: dict[pa.DataType, list[Any]] = {
    pa.int8(): [-128, 127],
    pa.uint8(): [0, 255],
    pa.uint16(): [0, 1],
    pa.uint32(): [0, (1 << 32) - 1],
    pa.int64(): [-(1 << 63), 1 - (1 << 63), (1 << 63) - 1],
    pa.uint64(): [0, 1, (1 << 64) - 1],
    pa.timestamp("ns"): [-(1 << 63), 0],
    pa.float32(): [-math.inf, math.inf, math.nan],
    pa.float64(): [-math.inf, math.inf, math.nan, -5e-324, 5e-324],
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("data_type", EDGES, ids=str)
def test_null_and_nan_are_told_from_the_values_next_to_them(data_type: pa.DataType, descending: bool) -> None:
    """In a column that others follow, which count where it is equal only."""
    schema = pa.schema([("id", pa.int64()), ("edge", data_type), ("number", pa.int64())])
    keys = [SortColumn("edge", descending), SortColumn("number", descending)]
    for seed in range(30):
        chance, first = random.Random(seed), 0
        table = AppendTable(UpdateGraph(), "t", schema)
        made = sort([table], keys)
        ranked = agg_by([table], [agg.sorted_first(["edge", "number"], "f = id")], ["number"])
        for count in (chance.choice([2, 60]), 1, 5, 3):
            rows = {
                "id": range(first, first + count),
                "edge": pa.array(chance.choices([None, *EDGES[data_type]], k=count), data_type),
                "number": chance.choices(range(4), k=count),
            }
            table.append(pa.table(rows, schema=schema))
            first += count
            expected = sort([table.snapshot()], keys)
            assert made.to_arrow()["id"].to_pylist() == expected.to_arrow()["id"].to_pylist()
        still = agg_by([table.snapshot()], [agg.sorted_first(["edge", "number"], "f = id")], ["number"])
        assert ranked.to_arrow().equals(still.to_arrow())
