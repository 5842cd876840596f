"""Operations with formulas, alone and in chains of all operations that keep the columns as they are."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import (
    AppendTable,
    BlinkTable,
    KeyedTable,
    Table,
    TableTraits,
    UpdateGraph,
    coalesce_nodes,
)
from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.view import StoredView
from barrage_server.errors import InvalidRequestError, LimitError, TableFailedError, UnknownColumnError
from barrage_server.operations import build, formulas
from barrage_server.operations.condition import TreeCondition
from barrage_server.operations.result import make
from barrage_server.operations.traits import of_rows
from barrage_server.operations.where import FilteredRows
from barrage_server.plan.condition import AnyOf, Column, Compare, Comparison, Contains, IsNull, Not
from barrage_server.rowset import RowSet
from tests.operations.fakes import Fake
from tests.operations.oracle import Case, Row, Rows, Watch, check_stages, plain_rows
from tests.properties.sources import SOURCES, AppendSource

KINDS = list(dict.fromkeys(SOURCES))
NUMBERS = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("s", pa.string())])
TREE = AnyOf((Contains(Column("text"), "A", ignores_case=True), Not(Compare(Comparison.GREATER, Column("number"), 1))))


def above(number: float | None, least: float) -> bool:
    return number is not None and not math.isnan(number) and number > least


def in_tree(row: Row) -> bool:
    return (row[2] is not None and "a" in row[2].lower()) or not above(row[1], 1)


def kept(test: Any) -> Any:
    return lambda rows: [row for row in rows if test(row)]


def doubled(row: Row) -> Row:
    return (row[0], None if row[1] is None else row[1] * 2, *row[2:])


# These keep the columns as they are.
CASES = {
    "where": Case(
        lambda table: formulas.where([table], ["number > 0 && key < 8"]),
        kept(lambda row: above(row[1], 0) and row[0] < 8),
    ),
    "where of two": Case(
        lambda table: formulas.where([table], ["flag == null || flag", IsNull(Column("text"))]),
        kept(lambda row: row[3] is not False and row[2] is None),
    ),
    "where of a tree": Case(lambda table: formulas.where([table], [TREE]), kept(in_tree)),
    "where of none": Case(lambda table: formulas.where([table], []), lambda rows: rows),
    "update": Case(
        lambda table: formulas.update([table], ["number = number * 2"]),
        lambda rows: list(map(doubled, rows)),
        exact=[1],
    ),
    "update_view": Case(
        lambda table: formulas.update_view([table], ["number = number * 2"]), lambda rows: list(map(doubled, rows))
    ),
    "select": Case(lambda table: formulas.select([table]), lambda rows: rows),
    "head": Case(lambda table: build.head([table], 5), lambda rows: rows[:5]),
    "tail": Case(lambda table: build.tail([table], 5), lambda rows: rows[-5:]),
    "slice": Case(lambda table: build.slice_rows([table], 1, -1), lambda rows: rows[1:-1]),
    "flatten": Case(lambda table: build.flatten([table]), lambda rows: rows),
    "reverse": Case(lambda table: build.reverse([table]), lambda rows: rows[::-1]),
    "merge": Case(lambda table: build.merge([table, table]), lambda rows: rows + rows),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("where")])
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=6)
def test_rows_for_which_conditions_hold(name: str, kind: Any, seed: int) -> None:
    check_stages(kind, seed, lambda _: [CASES[name]])


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=20)
def test_chains_of_all_operations(kind: Any, seed: int) -> None:
    check_stages(kind, seed, lambda chance: chance.choices(list(CASES.values()), k=chance.randint(2, 6)))


@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=20)
def test_positions_of_rows_that_keep_theirs(seed: int) -> None:
    def before(rows: Rows) -> Rows:
        return [(row[0], rows[at - 1][0] if at else None, at) for at, row in enumerate(rows)]

    def even(rows: Rows) -> Rows:
        return rows[::2]

    cases = [
        Case(lambda table: formulas.where([table], ["i % 2 == 0"]), even),
        Case(lambda table: formulas.view([table], ["key", "before = key_[ii - 1]", "at = i"]), before),
    ]
    check_stages(AppendSource, seed, lambda chance: [cases[0], cases[1]])


def filled(size: int, kind: str = "append") -> Any:
    rows = {"k": range(size), "n": np.arange(size) % 20, "s": ["x"] * size}
    if kind == "append":
        table = AppendTable(UpdateGraph(), "t", NUMBERS)
        table.append(rows)
        return table
    keyed = KeyedTable(UpdateGraph(), "t", NUMBERS, "k")
    keyed.upsert(rows)
    return keyed


def test_conditions_see_the_rows_that_matter_only() -> None:
    table = filled(100_000, "keyed")
    asked = Fake(lambda n: n > 10, ("n",), pa.bool_())
    operator = FilteredRows(table.schema, [asked, asked], grows=True)
    made = make([table], "where", operator, of_rows(table.traits))
    assert (asked.rows, asked.most, made.size) == (200_000, 65_536, 45_000)
    asked.rows = 0
    table.upsert({"k": [1, 2], "n": [1, 2], "s": ["y", "y"]})
    assert asked.rows == 0
    table.upsert({"k": [1, 2], "n": [11, 2], "s": ["y", "y"]})
    table.delete({"k": range(50)})
    assert asked.rows == 2
    assert made.nbytes == table.nbytes
    assert all(one is other for one, other in zip(made.version.views, table.version.views, strict=True))


def test_many_tables_read_the_rows_of_an_update_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions on one column share what they read of the rows that a cycle has changed."""
    table = filled(10_000, "keyed")
    made = [formulas.where([table], [f"n > {bound}"]) for bound in range(20)]
    reads: list[int] = []
    read = StoredView.read

    def counted(self: StoredView, plan: ReadPlan) -> pa.Array:
        reads.append(plan.size)
        return read(self, plan)

    with monkeypatch.context() as patch:
        patch.setattr(StoredView, "read", counted)
        table.upsert({"k": [1, 2, 5_000], "n": [7, 19, 3], "s": ["y", "y", "y"]})
    assert reads == [3, 3], "as they were, and as they are"
    assert [found.size for found in made] == [sum(row[1] > bound for row in plain_rows(table)) for bound in range(20)]


def test_long_texts_are_not_kept_for_other_tables() -> None:
    """A version has the values that are shared as long as it is there."""
    table = KeyedTable(UpdateGraph(), "t", pa.schema([("k", pa.int64()), ("s", pa.string())]), ["k"])
    keys = list(range(0, 200, 2))
    table.upsert({"k": keys, "s": ["a" * 100_000] * len(keys)})
    before = pa.total_allocated_bytes()
    made = [formulas.where([table], [f"s.length() > {bound}"]) for bound in (5, 200_000)]
    table.upsert({"k": keys, "s": ["b" * 100_000] * len(keys)})
    assert [found.size for found in made] == [len(keys), 0]
    assert pa.total_allocated_bytes() - before < 2_000_000 < 100_000 * len(keys)


@pytest.mark.parametrize("rows", [3, 3_000])
def test_few_and_many_changed_rows_give_the_same(rows: int) -> None:
    """A cycle of few rows works on arrays of keys, one of many on row sets; both name rows that come, leave, stay."""
    table = filled(10_000, "keyed")
    made = formulas.where([table], ["n >= 10", "s = `x`"])
    before, keys = made.version, np.arange(0, 3 * rows, 3)
    rest = np.arange(rows) % 3
    table.upsert({"k": keys, "n": np.where(rest == 0, 5, 15), "s": np.where(rest == 2, "y", "x")})
    update = coalesce_nodes(before.node, made.version.node)
    ids = table.version.row_set.select(keys)
    was = before.row_set.contains(ids)
    is_in, is_new = rest == 1, keys % 20 != 15
    assert update.added == RowSet.from_keys(ids[is_in & ~was])
    assert update.removed == RowSet.from_keys(ids[was & ~is_in])
    assert update.modified[1] == RowSet.from_keys(ids[is_in & was & is_new])
    assert made.version.row_set == (before.row_set - update.removed) | update.added


def test_it_starts_beside_cycles_and_misses_none() -> None:
    table = filled(1_000, "keyed")
    stop, problems = threading.Event(), []

    def write() -> None:
        chance = np.random.default_rng(1)
        try:
            while not stop.is_set():
                keys = chance.integers(0, 2_000, 50)
                table.upsert({"k": keys, "n": chance.integers(0, 20, 50), "s": ["x"] * 50})
                table.delete({"k": keys[:20]})
        except BaseException as error:
            problems.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    made = []
    for _ in range(10):
        found = formulas.where([table], ["n > 10"])
        turned = build.reverse([build.flatten([build.merge([found, table])])])
        made.append((found, formulas.update([turned], ["Q = n * k"])))
    stop.set()
    writer.join(30)
    assert problems == []
    for found, last in made:
        rows = [row for row in plain_rows(table) if row[1] > 10]
        assert plain_rows(found) == rows
        assert plain_rows(last) == [(*row, row[0] * row[1]) for row in (rows + plain_rows(table))[::-1]]


def test_rows_of_a_blink_table_stay_readable() -> None:
    table = BlinkTable(UpdateGraph(), "t", NUMBERS, history=5)
    made = formulas.where([table], ["k % 2 == 0"])
    for start in range(0, 9, 3):
        table.append({"k": range(start, start + 3), "n": range(3), "s": ["x"] * 3})
    assert made.traits == TableTraits(is_blink=True)
    assert made.version.row_set == RowSet.from_keys([6, 8])
    assert made.version.readable == RowSet.from_keys([4, 6, 8])


@pytest.mark.parametrize("operation", [formulas.view, formulas.update_view, formulas.lazy_update, formulas.update])
def test_rows_of_a_blink_table_stay_readable_with_the_positions_of_their_cycle(operation: Callable[..., Table]) -> None:
    table = BlinkTable(UpdateGraph(), "t", NUMBERS, history=5)
    made = operation([table], ["P = ii * 10"])
    for start in range(0, 9, 3):
        table.append({"k": range(start, start + 3), "n": range(3), "s": ["x"] * 3})
    assert made.version.row_set == RowSet.from_range(6, 8)
    assert made.version.readable == RowSet.from_range(4, 8)
    assert made.version.read(made.version.readable)[-1].to_pylist() == [10, 20, 0, 10, 20]


def test_a_condition_that_fails_fails_its_table_alone() -> None:
    table = filled(3)

    def touchy(n: int) -> bool:
        if n == 7:
            raise ValueError("secret")
        return True

    operator = FilteredRows(table.schema, [Fake(touchy, ("n",), pa.bool_())], grows=True)
    made = make([table], "where", operator, TableTraits())
    below, other = build.merge([made, table]), formulas.where([table], ["n >= 0"])
    table.append({"k": [7], "n": [7], "s": ["x"]})
    table.append({"k": [8], "n": [8], "s": ["x"]})
    assert (table.size, other.size, made.size, below.size) == (5, 5, 3, 6)
    for failed in (made, below):
        with pytest.raises(TableFailedError) as told:
            failed.check_usable()
        assert "secret" not in str(told.value)


def test_results_of_tables_that_never_change_do_not_either() -> None:
    """They have no operator, and no parent has them as children."""
    past = build.snapshot([filled(10)])
    made = formulas.update([formulas.where([build.reverse([past])], ["k >= 5"])], ["at = i", "after = k_[ii + 1]"])
    assert not made.is_refreshing and len(past.children) == 0
    assert [row[-2:] for row in plain_rows(made)] == [(0, 8), (1, 7), (2, 6), (3, 5), (4, None)]
    counted = formulas.update([build.empty_table(UpdateGraph(), 4)], ["X = i", "Y = X * 2"])
    assert plain_rows(counted) == [(0, 0), (1, 2), (2, 4), (3, 6)]
    assert build.head([formulas.where([counted], ["X != 1"])], 2).to_arrow()["X"].to_pylist() == [0, 2]


def test_a_mapping_of_old_to_new_names_renames_all_at_once() -> None:
    table = filled(3, "keyed")
    swapped = table.rename_columns({"k": "n", "n": "k"})
    assert swapped.schema.names == ["n", "k", "s"] and swapped.key_columns == ("n",)
    assert swapped.to_arrow()["n"].to_pylist() == table.to_arrow()["k"].to_pylist()
    with pytest.raises(UnknownColumnError, match="no column 'key'"):
        table.rename_columns({"key": "k"})


def test_what_holds_for_the_result() -> None:
    log, keyed = filled(3), filled(3, "keyed")
    grows = TableTraits(append_only=True, add_only=True)
    flat = TableTraits(append_only=True, add_only=True, is_flat=True)
    assert formulas.where([log], ["n > 1"]).traits == grows
    assert formulas.update([log], ["A = n"]).traits == formulas.view([log], ["A = n"]).traits == flat
    assert formulas.update([formulas.where([log], ["n > 0"])], ["A = n + 1"]).traits == grows
    assert formulas.where([keyed], ["n > 1"]).key_columns == ("k",)
    assert formulas.rename_columns([keyed], ["key = k"]).key_columns == ("key",)
    assert formulas.update([keyed], ["k = n + 1"]).key_columns == ()
    assert formulas.drop_columns([keyed], ["k"]).schema.names == ["n", "s"]
    assert formulas.view([keyed], ["q = n", "n"]).schema == pa.schema([("q", pa.int64()), ("n", pa.int64())])


def test_rows_of_a_ring_leave_the_results() -> None:
    """And their storage with them: the rows pass through pages of 65,536."""
    from barrage_server.engine import RingTable

    table = RingTable(UpdateGraph(), "t", NUMBERS, 1_000)
    made = formulas.update([table], ["T = k + n"])
    watch = Watch(made, [3])
    sizes = []
    for start in range(0, 300_000, 10_000):
        keys = range(start, start + 1_000)
        table.append({"k": keys, "n": keys, "s": ["x"] * 1_000})
        sizes.append(made.nbytes - table.nbytes)
    assert max(sizes) <= 2 * 8 * 65_536, "two pages of cells"
    assert len(watch.rows) == 1_000
    watch.check_held()


@pytest.mark.parametrize(
    ("make_table", "error", "text"),
    [
        (lambda table: formulas.update([table], ["A = price"]), UnknownColumnError, "no column 'price'"),
        (lambda table: formulas.where([table], ["nn > 1"]), UnknownColumnError, "no column 'nn'"),
        (lambda table: formulas.update([table], ["A = "]), InvalidRequestError, "formula"),
        (lambda table: formulas.update([table], []), InvalidRequestError, "must be a list of strings"),
        (lambda table: formulas.update([table], cast("Any", [1])), InvalidRequestError, "must be a list of strings"),
        (lambda table: formulas.where([table], ["n + 1"]), InvalidRequestError, "formula"),
        (lambda table: formulas.where([table], ["i > 1"]), InvalidRequestError, "depends on the positions of rows"),
        (lambda table: formulas.update([table], ["A = i"]), InvalidRequestError, "depends on the positions of rows"),
        (lambda table: formulas.update([table], ["A = n_[ii - 1]"]), InvalidRequestError, "Take a snapshot"),
        (lambda table: formulas.rename_columns([table], ["A + B"]), InvalidRequestError, "New = Old"),
        (lambda table: formulas.drop_columns([table], ["N"]), UnknownColumnError, "Its columns are: k, n, s"),
        (
            lambda table: formulas.update([table], ["A = n"] * 10_001),
            LimitError,
            r"at most 10,000 formulas \(operation_results\), not 10,001",
        ),
    ],
)
def test_what_is_refused_makes_nothing(make_table: Any, error: type[Exception], text: str) -> None:
    table = filled(3, "keyed")
    with pytest.raises(error, match=text):
        make_table(table)
    assert len(table.children) == 0


def test_a_tree_is_a_condition_of_its_columns() -> None:
    table: Table = AppendSource(UpdateGraph()).table
    assert TreeCondition(TREE, table).columns == ("text", "number")
