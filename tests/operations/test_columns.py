"""Operations that compute, choose and rename columns."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, Table, TableTraits, UpdateGraph
from barrage_server.errors import (
    InvalidRequestError,
    LimitError,
    TableFailedError,
    UnknownColumnError,
)
from barrage_server.formula import Text
from barrage_server.operations import build
from barrage_server.operations import layout as layouts
from barrage_server.operations import traits as traits_of
from barrage_server.operations.columns import Layout, StoredColumns, ViewedColumns
from barrage_server.operations.result import make
from barrage_server.rowset import RowSet
from tests.operations.fakes import Fake, Language
from tests.operations.oracle import Case, Row, check_stages, plain_rows
from tests.properties.sources import SCHEMA, SOURCES, AppendSource

KINDS = list(dict.fromkeys(SOURCES))
NUMBERS = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("s", pa.string())])


def twice(number: float | None) -> float | None:
    return None if number is None else number * 2


def shape(text: str | None, flag: bool | None) -> str | None:
    return None if text is None else f"{min(len(text), 2)}{flag}"


def joined(c: str | None, number: float | None) -> str:
    return f"{c}{number is None}"


LANGUAGE = {
    "twice(number)": Fake(twice, ("number",)),
    "shape(text, flag)": Fake(shape, ("text", "flag"), pa.string()),
    "joined(C, number)": Fake(joined, ("C", "number"), pa.large_string()),
    "one": Fake(lambda: 1, (), pa.int8()),
}
FORMULAS = [("A", "twice(number)"), ("C", "shape(text, flag)"), ("D", "joined(C, number)"), ("K", "key"), ("E", "one")]


def texts(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, Text]]:
    return [(name, Text(formula)) for name, formula in pairs]


def stored(table: Table, pairs: Sequence[tuple[str, str]], language: Any, *, keeps: bool = True) -> Table:
    layout = layouts.of_formulas(table, texts(pairs), language, keeps=keeps, is_stored=True)
    traits = table.traits
    operator = StoredColumns(
        layout,
        grows=table.is_refreshing and not traits.is_blink,
        is_append_only=traits.append_only and traits.is_flat,
        keeps_history=traits.is_blink,
    )
    return make([table], "update", operator, traits_of.of_columns(traits))


def viewed(table: Table, pairs: Sequence[tuple[str, str]], language: Any, *, keeps: bool = True) -> Table:
    layout = layouts.of_formulas(table, texts(pairs), language, keeps=keeps, is_stored=False)
    operator = ViewedColumns(layout, grows=table.is_refreshing and not table.traits.is_blink)
    return make([table], "view", operator, traits_of.of_columns(table.traits))


def computed(row: Row) -> Row:
    key, number, text, flag, _ = row
    c = shape(text, flag)
    return twice(number), c, joined(c, number), key, 1


DEPENDS = [[1], [2, 3], [1, 2, 3], [0], []]
CASES = {
    "view": Case(
        lambda table: viewed(table, FORMULAS, Language(**LANGUAGE), keeps=False),
        lambda rows: [computed(row) for row in rows],
        DEPENDS,
    ),
    "update_view": Case(
        lambda table: viewed(table, FORMULAS, Language(**LANGUAGE)),
        lambda rows: [row + computed(row) for row in rows],
        [[number] for number in range(5)] + DEPENDS,
    ),
    "select": Case(
        lambda table: stored(table, FORMULAS, Language(**LANGUAGE), keeps=False),
        lambda rows: [computed(row) for row in rows],
        DEPENDS,
        [0, 1, 2],
    ),
    "update": Case(
        lambda table: stored(table, FORMULAS, Language(**LANGUAGE)),
        lambda rows: [row + computed(row) for row in rows],
        [[number] for number in range(5)] + DEPENDS,
        [5, 6, 7],
    ),
}
# Of one schema in and out, for chains.
CHAINED = [
    Case(
        lambda table: stored(table, [("number", "twice(number)"), ("key", "key")], Language(**LANGUAGE)),
        lambda rows: [(row[0], twice(row[1]), *row[2:]) for row in rows],
        exact=[1],
    ),
    Case(
        lambda table: viewed(table, [("number", "twice(number)")], Language(**LANGUAGE)),
        lambda rows: [(row[0], twice(row[1]), *row[2:]) for row in rows],
    ),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=10)
def test_content_and_updates(name: str, kind: Any, seed: int) -> None:
    check_stages(kind, seed, lambda _: [CASES[name]])


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=6)
def test_chains(kind: Any, seed: int) -> None:
    check_stages(kind, seed, lambda chance: chance.choices(CHAINED, k=chance.randint(2, 6)))


BEFORE = Fake(lambda number, place, text: f"{number} {place} {text}", ("number",), pa.string(), arrays=("text",))


@pytest.mark.parametrize("make_table", [viewed, stored])
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=20)
def test_positions_of_rows_that_keep_theirs(make_table: Any, seed: int) -> None:
    """A row may read those before it."""
    language = Language(before=BEFORE)
    case = Case(
        lambda table: make_table(table, [("B", "before")], language, keeps=False),
        lambda rows: [(f"{row[1]} {at} {rows[at - 1][2] if at else None}",) for at, row in enumerate(rows)],
        [[1, 2]],
    )
    check_stages(AppendSource, seed, lambda _: [case])


@pytest.mark.parametrize("make_table", [viewed, stored])
def test_a_row_does_not_read_rows_behind_it_where_more_may_come(make_table: Any) -> None:
    """What it would read would change although no row does. In a table that never changes, it does."""

    class Ahead(Fake):
        def evaluate(self, inputs: Any, rows: int, positions: Any = None, lookup: Any = None) -> pa.Array:
            return lookup("n", positions + 1)

    def following(table: Table) -> list[Any]:
        ahead = Ahead(lambda: None, (), pa.int64(), arrays=("n",))
        return [row[-1] for row in plain_rows(make_table(table, [("A", "ahead")], Language(ahead=ahead)))]

    table = filled(3)
    assert following(table) == [None] * 3
    assert following(static(table)) == [1, 2, None]


def filled(size: int, kind: str = "append") -> Any:
    graph = UpdateGraph()
    rows = {"k": range(size), "n": range(size), "s": ["x"] * size}
    if kind == "append":
        table = AppendTable(graph, "t", NUMBERS)
        table.append(rows)
        return table
    keyed = KeyedTable(graph, "t", NUMBERS, "k")
    keyed.upsert(rows)
    return keyed


def static(table: Table) -> Table:
    from barrage_server.engine import StaticTable

    return StaticTable(table.graph, "s", table.schema, table.version.row_set, table.version.views)


def test_a_cycle_evaluates_what_has_changed_only() -> None:
    """The table may have any number of rows, and other columns may change; views evaluate nothing in a cycle."""
    table = filled(100_000, "keyed")
    square, sign = Fake(lambda n: n * n, ("n",), pa.int64()), Fake(lambda q: q > 50, ("Q",), pa.bool_())
    made = stored(table, [("Q", "square"), ("P", "sign")], Language(square=square, sign=sign))
    other = Fake(lambda n: n * n, ("n",), pa.int64())
    shown = viewed(table, [("Q", "other")], Language(other=other))
    watch: list[Any] = []
    made.add_listener(lambda update, before, after: watch.append(update))
    assert (square.rows, sign.rows, square.most) == (100_000, 100_000, 65_536)
    square.rows = sign.rows = 0
    table.upsert({"k": [1, 2], "n": [1, 2], "s": ["y", "y"]})
    assert (square.rows, sign.rows) == (0, 0)
    table.upsert({"k": [1, 2, 3], "n": [-1, -2, 30], "s": ["y", "y", "x"]})
    assert (square.rows, sign.rows) == (3, 1), "results that did not change are not passed on"
    assert [rows.size for rows in watch[-1].modified] == [0, 3, 0, 1, 1]
    table.upsert({"k": [-1], "n": [7], "s": ["z"]})
    table.delete({"k": [4, 5]})
    assert (square.rows, sign.rows) == (4, 2)
    assert other.rows == 0
    assert build.head([shown], 3).to_arrow()["Q"].to_pylist() == [0, 1, 4]
    assert other.rows == 3


def test_columns_are_shared() -> None:
    """A formula that is one column is that column; views keep nothing, and stored results their own cells."""
    table = filled(100_000)
    square = Fake(lambda n: n * n, ("n",), pa.int64())
    made = stored(table, [("N", "n"), ("M", "N")], Language(), keeps=False)
    assert [view is table.version.views[1] for view in made.version.views] == [True, True]
    shown = viewed(table, [("Q", "square")], Language(square=square))
    assert shown.nbytes == table.nbytes
    kept = stored(table, [("Q", "square")], Language(square=square))
    assert 800_000 <= kept.nbytes - table.nbytes < 1_100_000
    assert kept.version.is_frozen, "rows of an append-only table are read without a copy"


def test_views_of_one_read_share_what_they_are_computed_from() -> None:
    """Otherwise each step of a chain would double the work."""
    table = filled(100)
    known = {"f0": Fake(lambda n: n, ("n",), pa.int64())}
    for step in range(1, 40):
        before = f"F{step - 1}"
        known[f"f{step}"] = Fake(lambda one: one + 1, (before,), pa.int64())
    made = viewed(table, [(f"F{step}", f"f{step}") for step in range(40)], Language(**known))
    assert made.to_arrow()["F39"].to_pylist() == list(range(39, 139))
    assert {fake.rows for fake in known.values()} == {100}


def test_views_do_not_nest_without_end() -> None:
    known = {f"f{step}": Fake(lambda n: n, (f"F{step - 1}" if step else "n",), pa.int64()) for step in range(100)}
    pairs = [(f"F{step}", f"f{step}") for step in range(100)]
    with pytest.raises(LimitError, match="computed from others 100 times in a row, and 64 is the most"):
        viewed(filled(3), pairs, Language(**known))
    assert plain_rows(stored(filled(3), pairs, Language(**known)))[2][-1] == 2


def test_a_formula_that_fails_fails_its_table_and_those_below() -> None:
    """The source and others go on."""
    table = filled(3)

    def touchy(n: int) -> int:
        if n == 7:
            raise ValueError("secret")
        return n

    made = stored(table, [("A", "touchy")], Language(touchy=Fake(touchy, ("n",), pa.int64())))
    below = stored(made, [("B", "A")], Language(), keeps=False)
    other = stored(table, [("A", "n")], Language())
    for n in (6, 7, 8):
        table.append({"k": [n], "n": [n], "s": ["x"]})
    assert (table.size, made.size, below.size, other.size) == (6, 4, 4, 6)
    for failed in (made, below):
        with pytest.raises(TableFailedError) as told:
            failed.check_usable()
        assert "secret" not in str(told.value)
    with pytest.raises(ValueError, match="secret"):
        stored(table, [("A", "touchy")], Language(touchy=Fake(touchy, ("n",), pa.int64())))


def test_it_starts_beside_cycles_and_misses_none() -> None:
    table = filled(1_000, "keyed")
    stop, problems = threading.Event(), []

    def write() -> None:
        chance = np.random.default_rng(1)
        try:
            while not stop.is_set():
                keys = chance.integers(0, 2_000, 50)
                table.upsert({"k": keys, "n": chance.integers(0, 99, 50), "s": ["x"] * 50})
                table.delete({"k": keys[:20]})
        except BaseException as error:
            problems.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    made = []
    for _ in range(10):
        square = Fake(lambda n: n * n, ("n",), pa.int64())
        made.append(stored(table, [("Q", "square")], Language(square=square)))
    stop.set()
    writer.join(30)
    assert problems == []
    for each in made:
        assert plain_rows(each) == [(*row, row[1] * row[1]) for row in plain_rows(table)]


def test_rows_of_a_blink_table_stay_readable() -> None:
    """With their results, as long as the table has them."""
    table = BlinkTable(UpdateGraph(), "t", NUMBERS, history=5)
    square = Fake(lambda n: n * n, ("n",), pa.int64())
    pairs, language = [("Q", "square")], Language(square=square)
    tables = [stored(table, pairs, language, keeps=False), viewed(table, pairs, language, keeps=False)]
    for start in range(0, 9, 3):
        table.append({"k": range(start, start + 3), "n": range(start, start + 3), "s": ["x"] * 3})
    for made in tables:
        assert made.traits == TableTraits(is_blink=True)
        assert made.version.row_set == RowSet.from_range(6, 8)
        assert made.version.readable == RowSet.from_range(4, 8)
        assert made.version.read(made.version.readable)[0].to_pylist() == [16, 25, 36, 49, 64]


def test_memory_of_stored_results_stays() -> None:
    """Over many changes of the same rows, and rows that come and go."""
    table = filled(2_000, "keyed")
    text = Fake(lambda n: f"text {n}" * 5, ("n",), pa.string())
    made = stored(table, [("T", "text")], Language(text=text), keeps=False)
    sizes = []
    for start in range(60):
        table.upsert({"k": range(start * 50, start * 50 + 2_000), "n": [start] * 2_000, "s": ["x"] * 2_000})
        table.delete({"k": range(start * 50)})
        sizes.append(made.nbytes - table.nbytes)
    assert max(sizes[30:]) < 1.5 * max(sizes[:30])


def test_columns_can_be_dropped_and_renamed() -> None:
    table = filled(3, "keyed")

    def with_layout(layout: Layout) -> tuple[list[str], tuple[str, ...]]:
        keys = layout.key_columns(table.column_numbers(table.key_columns))
        return layout.schema.names, keys

    assert with_layout(layouts.without(table, ["n"])) == (["k", "s"], ("k",))
    assert with_layout(layouts.without(table, ["k"])) == (["n", "s"], ())
    assert with_layout(layouts.renamed(table, [("n", "k"), ("k", "n")])) == (["n", "k", "s"], ("n",))
    with pytest.raises(UnknownColumnError, match=r"'t' has no column 'kk'. Did you mean 'k'\?"):
        layouts.without(table, ["kk"])
    with pytest.raises(UnknownColumnError, match=r"no column 'price'\. Its columns are: k, n, s"):
        layouts.renamed(table, [("a", "price")])
    with pytest.raises(InvalidRequestError, match="would have the column 's' twice"):
        layouts.renamed(table, [("s", "k")])
    with pytest.raises(InvalidRequestError, match="'k' cannot be renamed twice"):
        layouts.renamed(table, [("a", "k"), ("b", "k")])
    with pytest.raises(InvalidRequestError, match="would have no columns"):
        layouts.without(table, ["k", "n", "s"])


def test_a_name_of_a_key_column_with_other_values_is_no_key() -> None:
    table = filled(3, "keyed")
    language = Language(square=Fake(lambda n: n * n, ("n",), pa.int64()))
    layout = layouts.of_formulas(table, [("k", Text("square"))], language, keeps=True, is_stored=True)
    assert layout.key_columns([0]) == ()
    assert [field.name for field in layout.schema] == ["k", "n", "s"]


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_formulas_that_are_not_allowed(kind: str) -> None:
    table = filled(3, kind)
    at = Fake(lambda place: place, (), pa.int64(), positions=True)
    now = Fake(lambda: 1, (), pa.int64(), is_pure=False)
    array = Fake(lambda place, q: q, (), pa.int64(), arrays=("Q",))
    language = Language(at=at, now=now, array=array, square=Fake(lambda n: n * n, ("n",), pa.int64()))
    if kind == "keyed":
        with pytest.raises(InvalidRequestError, match=r"'at' depends on the positions of rows.*Take a snapshot"):
            viewed(table, [("A", "at")], language)
    else:
        assert [row[-1] for row in plain_rows(viewed(table, [("A", "at")], language))] == [0, 1, 2]
        with pytest.raises(InvalidRequestError, match="reads column 'Q' by position, which the same operation"):
            viewed(table, [("Q", "square"), ("A", "array")], language)
    with pytest.raises(InvalidRequestError, match="Use it in 'update' or 'select'"):
        viewed(table, [("A", "now")], language)
    assert [row[-1] for row in plain_rows(stored(table, [("A", "now")], language))] == [1, 1, 1]


def test_columns_of_the_schema_of_tests() -> None:
    """All of the columns that the sources have take part in the cases."""
    assert SCHEMA.names == ["key", "number", "text", "flag", "items"]
