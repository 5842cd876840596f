"""Operations that choose, number or turn round rows by position."""

from __future__ import annotations

from math import ceil
from typing import Any, cast

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
from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.operations import build
from barrage_server.operations.result import make
from barrage_server.rowset import RowSet
from tests.operations.oracle import Case, Rows, Watch, check_stages, plain_rows
from tests.properties.sources import SOURCES

KINDS = list(dict.fromkeys(SOURCES))
NUMBERS = pa.schema([("k", pa.int64()), ("n", pa.int64())])


def sliced(start: int, stop: int) -> Any:
    def expected(rows: Rows) -> Rows:
        size = len(rows)
        first = start if start >= 0 else max(size + start, 0)
        end = size if stop == 0 and start < 0 else stop if stop >= 0 else max(size + stop, 0)
        return rows[first:end] if end > first else []

    return Case(lambda table: build.slice_rows([table], start, stop), expected)


CASES = {
    "head": Case(lambda table: build.head([table], 3), lambda rows: rows[:3]),
    "head of none": Case(lambda table: build.head([table], 0), lambda rows: []),
    "tail": Case(lambda table: build.tail([table], 3), lambda rows: rows[-3:]),
    "tail of none": Case(lambda table: build.tail([table], 0), lambda rows: []),
    "head_pct": Case(lambda table: build.head_pct([table], 0.3), lambda rows: rows[: ceil(0.3 * len(rows))]),
    "tail_pct": Case(
        lambda table: build.tail_pct([table], 0.3), lambda rows: rows[len(rows) - ceil(0.3 * len(rows)) :]
    ),
    "all": Case(lambda table: build.tail_pct([table], 1), lambda rows: rows),
    "slice 1 3": sliced(1, 3),
    "slice 2 2": sliced(2, 2),
    "slice 1 -1": sliced(1, -1),
    "slice -3 -1": sliced(-3, -1),
    "slice -3 0": sliced(-3, 0),
    "slice -3 5": sliced(-3, 5),
    "slice 0 -2": sliced(0, -2),
    "flatten": Case(lambda table: build.flatten([table]), lambda rows: rows),
    "reverse": Case(lambda table: build.reverse([table]), lambda rows: rows[::-1]),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=6)
def test_content_and_updates(name: str, kind: Any, seed: int) -> None:
    check_stages(kind, seed, lambda _: [CASES[name]])


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=10)
def test_chains(kind: Any, seed: int) -> None:
    check_stages(kind, seed, lambda chance: chance.choices(list(CASES.values()), k=chance.randint(2, 6)))


def filled(size: int) -> AppendTable:
    table = AppendTable(UpdateGraph(), "t", NUMBERS)
    table.append({"k": range(size), "n": range(size)})
    return table


def test_values_are_not_copied() -> None:
    """A result has row keys only, whatever the size of its input."""
    table = filled(200_000)
    for made in (
        build.head([table], 100_000),
        build.tail_pct([table], 0.5),
        build.flatten([build.tail([table], 100_000)]),
        build.reverse([table]),
    ):
        assert made.nbytes == table.nbytes


def test_rows_of_results_have_the_columns_of_the_input() -> None:
    table = filled(100)
    made = build.head([table], 7)
    assert made.version.views == table.version.views
    assert build.flatten([table]).version.views == table.version.views


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda table: build.head([table], -1), "num_rows must be at least 0, not -1"),
        (lambda table: build.head([table], cast("Any", 1.5)), "num_rows must be an integer, not 1.5"),
        (lambda table: build.tail([table], 1 << 63), "num_rows must be at most"),
        (lambda table: build.head_pct([table], 1.01), "pct must be from 0 to 1, not 1.01"),
        (lambda table: build.tail_pct([table], -0.1), "pct must be from 0 to 1, not -0.1"),
        (lambda table: build.tail_pct([table], float("nan")), "pct must be a number"),
        (lambda table: build.slice_rows([table], 3, 2), "stop must not come before start"),
        (lambda table: build.slice_rows([table], -2, -3), "stop must not come before start"),
        (lambda table: build.slice_rows([table], cast("Any", "a"), -3), "start must be an integer"),
        (lambda table: build.head([table], 1, name=""), "name must not be empty"),
        (lambda table: make([], "head", cast("Any", None), TableTraits()), "at least one table"),
    ],
)
def test_wrong_arguments_are_told(make: Any, text: str) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        make(filled(3))


def test_what_holds_for_the_result() -> None:
    graph = UpdateGraph()
    log, keyed = AppendTable(graph, "log", NUMBERS), KeyedTable(graph, "keyed", NUMBERS, "k")
    blink = BlinkTable(graph, "blink", NUMBERS)
    added = ReplicaTable(graph, "added", NUMBERS, traits=TableTraits(add_only=True))
    grows = TableTraits(append_only=True, add_only=True, is_flat=True)
    found: list[tuple[Table, TableTraits]] = [
        (build.head([log], 3), grows),
        (build.head_pct([log], 0.5), grows),
        (build.head([added], 3), TableTraits()),
        (build.slice_rows([log], 1, 3), TableTraits(append_only=True, add_only=True)),
        (build.slice_rows([log], 1, -3), TableTraits()),
        (build.tail([log], 3), TableTraits()),
        (build.flatten([log]), grows),
        (build.flatten([keyed]), TableTraits(is_flat=True)),
        (build.flatten([blink]), TableTraits(is_flat=True)),
        (build.reverse([log]), TableTraits()),
        (build.head([blink], 3), TableTraits(is_blink=True)),
    ]
    assert [made.traits for made, _ in found] == [traits for _, traits in found]
    assert build.head([keyed], 3).key_columns == ("k",)


def test_rows_of_a_blink_table_stay_readable() -> None:
    table = BlinkTable(UpdateGraph(), "t", NUMBERS, history=5)
    made = build.head([table], 2)
    for start in range(0, 9, 3):
        table.append({"k": range(start, start + 3), "n": range(start, start + 3)})
    assert plain_rows(made) == [(6, 6), (7, 7)]
    assert made.version.readable == RowSet.from_keys([4, 6, 7])
    assert made.version.read(made.version.readable, [0])[0].to_pylist() == [4, 6, 7]


def test_keys_above_the_pivot_are_turned_round_too() -> None:
    """All rows shift then, and the content is the same."""
    table = ReplicaTable(UpdateGraph(), "t", NUMBERS)
    columns = [pa.array([1, 2]), pa.array([3, 4])]
    table.apply(ReplicaUpdate(added=RowSet.from_keys([0, 5]), columns=columns))
    made = build.reverse([table])
    watch = Watch(made)
    table.apply(ReplicaUpdate(added=RowSet.from_keys([6, 1 << 41]), columns=columns))
    assert plain_rows(made) == [(2, 4), (1, 3), (2, 4), (1, 3)]
    assert [(update.added.size, update.removed.size, update.shifted.size) for update in watch.updates] == [(2, 0, 1)]


def test_views_do_not_nest_without_end() -> None:
    table: Table = filled(3)
    with pytest.raises(LimitError, match=r"64 is the most \(view_depth\)"):
        for _ in range(100):
            table = build.reverse([table])
    assert plain_rows(build.head([table], 1)) in ([(0, 0)], [(2, 2)])


def test_an_update_of_rows_that_are_not_shown_is_none() -> None:
    table = filled(10)
    watch = Watch(build.head([table], 3))
    table.append({"k": [11], "n": [11]})
    assert watch.updates == []
