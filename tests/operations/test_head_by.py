"""The first and the last rows of groups, against a list per group."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, Table, UpdateGraph
from barrage_server.errors import InvalidRequestError, UnknownColumnError, UnsupportedTypeError
from barrage_server.operations.head_by import head_by
from tests.operations.oracle import Row, Watch, cell, plain_rows
from tests.properties.sources import SOURCES

KINDS = list(dict.fromkeys(SOURCES))
_KEY, _NUMBER, _TEXT, _FLAG, _ITEMS = range(5)
BY: list[tuple[int, ...]] = [(), (_TEXT,), (_FLAG, _TEXT), (_NUMBER,)]


def told(value: Any) -> Any:
    return cell(0.0) if isinstance(value, float) and value == 0 else cell(value)


@pytest.mark.parametrize("from_end", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32), by=st.sampled_from(BY), rows=st.sampled_from([0, 1, 2, 3, 100, (1 << 62) - 1]))
@settings(deadline=None, max_examples=15)
def test_content_and_updates(kind: Any, from_end: bool, seed: int, by: tuple[int, ...], rows: int) -> None:
    """After any changes each group is there once, with its first or last rows in their order."""
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    table = source.table
    for _ in range(chance.randrange(3)):
        source.change(chance)
    names = table.schema.names
    made = head_by([table], rows, [names[number] for number in by], from_end=from_end)
    order = [*by, *(number for number in range(5) if number not in by)]
    assert made.schema.names == [names[number] for number in order]
    watch, parent = Watch(made), Watch(table)
    for _ in range(10):
        for each in (watch, parent):
            each.last = None
        source.change(chance)
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in plain_rows(table):
            groups.setdefault(tuple(told(row[number]) for number in by), []).append(row)
        found = [
            (key, [tuple(map(cell, row)) for row in members])
            for key, members in groupby(plain_rows(made), lambda row: tuple(map(told, row[: len(by)])))
        ]
        wanted = {
            key: [tuple(cell(row[number]) for number in order) for row in members[-rows:] if rows]
            if from_end
            else [tuple(cell(row[number]) for number in order) for row in members[:rows]]
            for key, members in groups.items()
        }
        assert len(dict(found)) == len(found)
        assert dict(found) == (wanted if rows else {})
        if watch.last is not None:
            assert parent.last is not None
            for number, modified in zip(order, watch.last.modified, strict=True):
                assert not modified or parent.last.modified[number]
    watch.check_held()
    parent.check_held()


def test_groups_come_in_the_order_of_their_appearance() -> None:
    table = AppendTable(UpdateGraph(), "t", {"x": "int64", "g": "string"})
    first, last = table.head_by(2, "g"), table.tail_by(1, by=["group = g"])
    table.append({"x": [1, 2, 3], "g": ["z", "a", "z"]})
    table.append({"x": [4, 5, 6], "g": ["b", "z", "a"]})
    assert plain_rows(first) == [("z", 1), ("z", 3), ("a", 2), ("a", 6), ("b", 4)]
    assert last.to_arrow().to_pydict() == {"group": ["z", "a", "b"], "x": [5, 6, 4]}


def test_it_holds_no_values() -> None:
    """Other columns of the input cost nothing, however large."""
    narrow = KeyedTable(UpdateGraph(), "t", {"k": "int64", "g": "int32"}, "k")
    wide = KeyedTable(UpdateGraph(), "t", {"k": "int64", "g": "int32", "s": "string", "v": "float64"}, "k")
    keys = np.arange(50_000)
    narrow.upsert({"k": keys, "g": keys % 100})
    wide.upsert({"k": keys, "g": keys % 100, "s": [f"text {key}" for key in keys], "v": keys / 3})
    taken = [table.head_by(3, "g").nbytes - table.nbytes for table in (narrow, wide)]
    assert taken[0] == taken[1] < 60 * 50_000


def test_a_cycle_costs_the_groups_that_change() -> None:
    """A row within the first ones is modified; one behind them changes nothing; one before them moves a row out."""
    table = KeyedTable(UpdateGraph(), "t", {"k": "int64", "g": "string", "v": "int64"}, "k")
    keys = np.arange(1_000)
    table.upsert({"k": keys, "g": [f"g{key % 10}" for key in keys], "v": keys})
    made = table.head_by(3, "g")
    watch = Watch(made)
    table.upsert({"k": [3], "g": ["g3"], "v": [-1]})
    assert [rows.size for rows in watch.updates[-1].modified] == [0, 0, 1]
    table.upsert({"k": [503], "g": ["g3"], "v": [-1]})
    assert len(watch.updates) == 1
    table.delete({"k": [3]})
    assert (watch.updates[-1].removed.size, watch.updates[-1].added.size) == (1, 1)
    watch.check_held()


def test_groups_that_have_gone_are_forgotten() -> None:
    table = KeyedTable(UpdateGraph(), "t", {"k": "int64", "g": "string"}, "k")
    made = table.tail_by(1, "g")
    watch = Watch(made)
    sizes = []
    for batch in range(16):
        keys = np.arange(batch * 20_000, (batch + 1) * 20_000)
        table.upsert({"k": keys, "g": [f"g{key:07}" for key in keys]})
        table.delete({"k": np.arange((batch + 1) * 20_000 - 3)})
        sizes.append(made.nbytes - table.nbytes)
        assert sorted(plain_rows(made)) == [(f"g{key:07}", key) for key in keys[-3:]]
    assert max(sizes[8:]) < 1.2 * max(sizes[:8])
    watch.check_held()


def test_of_a_blink_table_it_has_the_rows_of_the_cycle() -> None:
    table = BlinkTable(UpdateGraph(), "t", {"g": "string", "v": "int64"})
    made = table.head_by(1, "g")
    table.append({"g": ["a", "b", "a"], "v": [1, 2, 3]})
    table.append({"g": ["b", "a"], "v": [4, 5]})
    assert sorted(plain_rows(made)) == [("a", 5), ("b", 4)]


WRONG: dict[str, tuple[Callable[[Table], Table], type[Exception], str]] = {
    "column": (lambda table: table.head_by(1, "pric"), UnknownColumnError, "Did you mean 'price'"),
    "rows": (lambda table: table.tail_by(-1, "sym"), InvalidRequestError, "num_rows must be at least 0"),
    "twice": (lambda table: table.head_by(1, ["sym", "sym"]), InvalidRequestError, "twice"),
    "name": (lambda table: table.head_by(1, "price = sym"), InvalidRequestError, "'price' twice"),
    "list": (lambda table: table.head_by(1, "items"), UnsupportedTypeError, "list"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_computed_is_refused_at_once(case: str) -> None:
    make, error, words = WRONG[case]
    table = AppendTable(UpdateGraph(), "t", {"sym": "string", "price": "float64", "items": pa.list_(pa.int64())})
    with pytest.raises(error, match=words):
        make(table)
    assert len(table.children) == 0
