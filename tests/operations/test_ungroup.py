"""A row for each item of lists, against plain Python."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.engine import AppendTable, KeyedTable, ReplicaTable, ReplicaUpdate, Table, UpdateGraph
from barrage_server.errors import InvalidRequestError, LimitError, TableFailedError, UnknownColumnError
from barrage_server.operations.aggregations import agg_by
from barrage_server.operations.ungroup import ungroup
from barrage_server.plan import agg
from barrage_server.rowset import RowSet, RowSetShiftData
from tests.operations.oracle import Case, Rows, Watch, cells_of, check_stages, plain_rows
from tests.operations.test_rows import CASES as OTHERS
from tests.properties.sources import SCHEMA, SOURCES

KINDS = list(dict.fromkeys(SOURCES))
_ITEMS = 4


def expected(rows: Rows, lists: Sequence[int]) -> Rows:
    """The rows, once for each item of the longest list."""
    found: Rows = []
    for row in rows:
        count = max(len(row[number] or ()) for number in lists)
        padded = {number: [*(row[number] or ()), *[None] * count] for number in lists}
        for place in range(count):
            found.append(tuple(padded[number][place] if number in lists else cell for number, cell in enumerate(row)))
    return found


ONE = Case(lambda table: ungroup([table], ["items"]), lambda rows: expected(rows, [_ITEMS]))


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=15)
def test_content_and_updates(kind: Any, seed: int) -> None:
    check_stages(kind, seed, lambda _: [ONE])


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=8)
def test_within_chains(kind: Any, seed: int) -> None:
    """Behind operations that shift and remove rows."""
    check_stages(kind, seed, lambda chance: [chance.choice(list(OTHERS.values())), ONE])


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32), by=st.sampled_from(["flag", "text"]))
@settings(deadline=None, max_examples=12)
def test_lists_of_groups(kind: Any, seed: int, by: str) -> None:
    """Lists of unequal lengths end with nulls, whichever of them grows or shrinks; ungrouping undoes grouping."""
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    lists = [agg.group(["key", "items"]), agg.distinct("n = number"), agg.count_("size")]
    grouped = agg_by([source.table], lists, [by])
    made, undone = grouped.ungroup(["key", "n", "items"]), source.table.group_by(by).ungroup(["key", "number"])
    watches = Watch(grouped), Watch(made), Watch(undone)
    for _ in range(8):
        source.change(chance)
        assert cells_of(plain_rows(made)) == cells_of(expected(plain_rows(grouped), [1, 2, 3]))
        assert undone.size == source.table.size
    for watch in watches:
        watch.check_held()


def test_longer_lists_than_ever() -> None:
    """Items of a row have keys of their own, however many there are; the keys of all rows change then, by shifts."""
    table = KeyedTable(UpdateGraph(), "t", {"k": "int64", "x": pa.list_(pa.int64())}, "k")
    made = table.ungroup()
    watch = Watch(made)
    lists: dict[int, list[int]] = {}
    for key, count in enumerate([3, 64, 65, 1, 1000, 0, 5000]):
        lists[key] = list(range(count))
        lists[0] = [key] * (count // 2)
        table.upsert({"k": list(lists), "x": list(lists.values())})
        assert plain_rows(made) == [(key, item) for key, items in lists.items() for item in items]
    assert any(update.shifted.size for update in watch.updates)
    table.delete({"k": [1, 6]})
    watch.check_held()


def test_it_holds_no_values() -> None:
    table = bs.table({"k": np.arange(10_000), "x": [list(range(10))] * 10_000, "s": ["text"] * 10_000})
    made = table.ungroup("x")
    assert made.size == 100_000
    assert made.nbytes <= table.nbytes


def test_only_what_changes_is_modified() -> None:
    """A longer list adds a row, and modifies those of its column; another column modifies all rows of the row."""
    table = KeyedTable(UpdateGraph(), "t", {"k": "int64", "x": pa.list_(pa.int64()), "v": "int64"}, "k")
    table.upsert({"k": [1, 2], "x": [[1, 2], [3]], "v": [5, 6]})
    watch = Watch(table.ungroup())
    table.upsert({"k": [1], "x": [[1, 7, 8]], "v": [5]})
    update = watch.updates[-1]
    assert (update.added.size, [rows.size for rows in update.modified]) == (1, [0, 2, 0])
    table.upsert({"k": [1], "x": [[1, 7, 8]], "v": [9]})
    assert [rows.size for rows in watch.updates[-1].modified] == [0, 0, 3]
    table.upsert({"k": [1], "x": [None], "v": [9]})
    assert watch.updates[-1].removed.size == 3
    watch.check_held()


@given(st.lists(st.lists(st.sampled_from([0, 1, 7, 8]), min_size=6, max_size=6), min_size=2, max_size=6))
def test_neighbours_with_as_many_items_as_their_bits_number(lengths: list[list[int]]) -> None:
    """Eight items take all keys of a row: the next one is of the next row, and says nothing of this one."""
    table = KeyedTable(UpdateGraph(), "t", {"k": "int64", "x": pa.list_(pa.int64())}, "k")
    watch = Watch(table.ungroup())
    for step, counts in enumerate(lengths):
        lists = [[100 * step + item for item in range(count)] for count in counts]
        table.upsert({"k": list(range(len(counts))), "x": lists})
        assert plain_rows(watch.table) == [(key, item) for key, items in enumerate(lists) for item in items]
    watch.check_held()


def test_lists_of_every_kind() -> None:
    schema = pa.schema(
        [
            ("large", pa.large_list(pa.string())),
            ("fixed", pa.list_(pa.int8(), 2)),
            ("nested", pa.list_(pa.list_(pa.int8()))),
        ]
    )
    rows = {"large": [["a"], None, ["b", None]], "fixed": [[1, 2], [3, 4], None], "nested": [[[1], None], [], [[]]]}
    made = bs.table(pa.table(rows, schema=schema)).ungroup()
    assert made.schema.types == [pa.string(), pa.int8(), pa.list_(pa.int8())]
    assert plain_rows(made) == [
        ("a", 1, [1]),
        (None, 2, None),
        (None, 3, None),
        (None, 4, None),
        ("b", None, []),
        (None, None, None),
    ]


def test_lists_of_one_length_without_null_fill() -> None:
    """Another length is refused at once, and fails the table if it comes later."""
    schema = {"k": "int64", "x": pa.list_(pa.int64()), "y": pa.list_(pa.int64())}
    table = KeyedTable(UpdateGraph(), "t", schema, "k")
    made = table.ungroup(["x", "y"], null_fill=False)
    table.upsert({"k": [1, 2], "x": [[1, 2], None], "y": [[3, 4], []]})
    assert plain_rows(made) == [(1, 1, 3), (1, 2, 4)]
    table.upsert({"k": [2], "x": [[1, 2]], "y": [[3]]})
    assert "'x' has 2 items, and 'y' has 1" in str(made.failure)
    with pytest.raises(TableFailedError):
        made.head(1)
    with pytest.raises(InvalidRequestError, match="must be of one length without null_fill"):
        table.ungroup(null_fill=False)
    assert table.ungroup().size == 4


def test_row_keys_that_are_too_large_are_refused() -> None:
    """Rather than keys that wrap around."""
    table = ReplicaTable(UpdateGraph(), "t", SCHEMA)
    far = (1 << 62) + 5
    rows = pa.table({"key": [1], "number": [1.0], "text": ["a"], "flag": [True], "items": [[1]]}).cast(table.schema)
    table.apply(
        ReplicaUpdate(
            added=RowSet.from_keys([far]),
            removed=RowSet.empty(),
            shifted=RowSetShiftData.empty(),
            columns=rows.columns,
            modified={},
        )
    )
    with pytest.raises(LimitError, match="Flatten it first"):
        table.ungroup()
    assert table.flatten().ungroup().size == 1


WRONG: dict[str, tuple[Callable[[Table], Table], type[Exception], str]] = {
    "column": (lambda table: table.ungroup("item"), UnknownColumnError, "Did you mean 'items'"),
    "type": (lambda table: table.ungroup(["items", "sym"]), InvalidRequestError, "the type string"),
    "flag": (lambda table: table.ungroup("items", null_fill=1), InvalidRequestError, "null_fill must be"),  # type: ignore[arg-type]
    "none": (lambda table: table.drop_columns("items").ungroup(), InvalidRequestError, "no columns of lists"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_computed_is_refused_at_once(case: str) -> None:
    make, error, words = WRONG[case]
    table = AppendTable(UpdateGraph(), "t", {"sym": "string", "items": pa.list_(pa.int64())})
    with pytest.raises(error, match=words):
        make(table)
