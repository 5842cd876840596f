"""Rows with columns of the row of another table that has the same key, against a dictionary."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, Table, UpdateGraph
from barrage_server.engine.condition import Condition
from barrage_server.engine.fixed_column import FixedColumn
from barrage_server.engine.restricted import Restriction, restrict
from barrage_server.engine.static import StaticTable
from barrage_server.errors import (
    BarrageError,
    InvalidRequestError,
    KeyMismatchError,
    TableFailedError,
    UnknownColumnError,
    UnsupportedTypeError,
)
from barrage_server.operations import build
from barrage_server.operations.join import exact_join, natural_join
from barrage_server.operations.sort import sort
from barrage_server.plan.operation import SortColumn
from barrage_server.rowset import MAX_KEY
from tests.operations.oracle import Rows, Watch, cells_of, plain_rows, read
from tests.operations.pairs import FORMS, KINDS, PairCase, by_key, check_pair, key_of
from tests.properties.sources import SCHEMA

RIGHTS: dict[str, Callable[[Table], Table]] = {
    "groups": by_key,
    "groups in order": lambda table: sort([by_key(table)], [SortColumn("n"), SortColumn("text")]),
    "positions": lambda table: build.flatten([by_key(table)]),
    "some": lambda table: build.tail([by_key(table)], 3),
}


@pytest.mark.parametrize("right_kind", KINDS)
@pytest.mark.parametrize("name", RIGHTS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=6)
def test_each_row_has_the_row_with_its_key(name: str, right_kind: Any, seed: int) -> None:
    """After any changes of one side or both; the updates alone lead a follower there."""
    chance = random.Random(seed)
    graph = UpdateGraph()
    left_source, right_source = chance.choice(KINDS)(graph), right_kind(graph)
    sources = [left_source, right_source]
    for source in sources:
        for _ in range(chance.randrange(3)):
            source.change(chance)
    left = left_source.table
    if chance.random() < 0.4:
        left = sort([left], [SortColumn("number")])
    right = RIGHTS[name](right_source.table)
    made = natural_join([left, right], ["number", "text"], ["n", "sum = total"])
    watch = Watch(made)
    for _ in range(8):
        with graph.cycle():
            for source in chance.choice([sources, sources[:1], sources[1:]]):
                source.change(chance)
        there = {key_of(row, [0, 1]): row[2:] for row in plain_rows(right)}
        expected = [(*row, *there.get(key_of(row, [1, 2]), (None, None))) for row in plain_rows(left)]
        assert cells_of(plain_rows(made)) == cells_of(expected)
    watch.check_held()


@pytest.mark.parametrize("match", ["first_match", "last_match"])
@pytest.mark.parametrize("right_form", FORMS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=5)
def test_of_several_rows_with_a_key_the_first_or_the_last_is_taken(match: str, right_form: str, seed: int) -> None:
    """In the order of the right table, whatever moves there."""

    def expected(left: Rows, right: Rows) -> Rows:
        ordered = right if match == "last_match" else right[::-1]
        there = {key_of(row, [1, 2]): (row[0], row[3]) for row in ordered}
        return [(*row, *there.get(key_of(row, [1, 2]), (None, None))) for row in left]

    case = PairCase(
        lambda left, right: natural_join([left, right], ["number", "text"], ["k = key", "f = flag"], match),
        expected,
        [*([number] for number in range(5)), [1, 2], [1, 2]],
        [*([[]] * 5), [0, 1, 2], [3, 1, 2]],
    )
    check_pair(case, seed, right_form=right_form)


def test_the_first_row_is_another_one_once_it_goes() -> None:
    graph = UpdateGraph()
    left = AppendTable(graph, "left", {"k": "string"})
    right = KeyedTable(graph, "right", {"id": "int64", "k": "string"}, ["id"])
    left.append({"k": ["a", None]})
    first, last = (left.natural_join(right, "k", "id", type=match) for match in ("first_match", "LAST_MATCH"))
    watch = Watch(last)
    right.upsert({"id": [1, 2, 3, 4], "k": ["a", "a", "a", None]})
    assert (first.to_arrow()["id"].to_pylist(), last.to_arrow()["id"].to_pylist()) == ([1, 4], [3, 4])
    right.delete({"id": [1]})
    assert len(watch.updates) == 1, "the last row has not changed"
    right.upsert({"id": [3], "k": ["b"]})
    assert (first.to_arrow()["id"].to_pylist(), last.to_arrow()["id"].to_pylist()) == ([2, 4], [2, 4])


def test_which_row_is_taken_has_three_names() -> None:
    left, right = tables()
    with pytest.raises(InvalidRequestError, match="type must be one of 'error_on_duplicate', 'first_match', 'last_ma"):
        left.natural_join(right, "sym", "bid", type="middle")


def tables() -> tuple[KeyedTable, KeyedTable]:
    graph = UpdateGraph()
    left = KeyedTable(graph, "trades", {"id": "int64", "sym": "string", "size": "int64"}, ["id"])
    right = KeyedTable(graph, "quotes", {"sym": "string", "bid": "float64", "tags": pa.list_(pa.string())}, ["sym"])
    return left, right


def test_what_a_change_modifies() -> None:
    """Of the right table only the columns that differ, in the rows that have the key; rows stay where they are."""
    left, right = tables()
    made = natural_join([left, right], ["sym"], [])
    watch = Watch(made)
    left.upsert({"id": [1, 2, 3], "sym": ["a", "b", "a"], "size": [1, 2, 3]})
    right.upsert({"sym": ["a"], "bid": [1.5], "tags": [["x"]]})
    right.upsert({"sym": ["a"], "bid": [2.5], "tags": [["x"]]})
    assert [[rows.size for rows in update.modified] for update in watch.updates] == [
        [0] * 5,
        [0, 0, 0, 2, 2],
        [0, 0, 0, 2, 0],
    ]
    assert all(not update.shifted.size and not update.removed for update in watch.updates)
    assert made.schema.names == ["id", "sym", "size", "bid", "tags"]
    assert made.key_columns == ("id",)
    right.delete({"sym": ["a"]})
    assert made.to_arrow()["tags"].to_pylist() == [None] * 3


def test_a_second_row_with_one_key_fails_the_result_alone() -> None:
    graph = UpdateGraph()
    left = AppendTable(graph, "left", {"k": "string"})
    right = AppendTable(graph, "right", {"k": "string", "v": "int64"})
    made = natural_join([left, right], ["k"], [])
    further = build.head([made], 3)
    left.append({"k": ["a"]})
    right.append({"k": ["a"], "v": [1]})
    right.append({"k": ["a"], "v": [2]})
    assert right.size == 2
    assert "more than one row with the key 'a'" in str(made.failure)
    assert further.failure is not None
    with pytest.raises(TableFailedError, match="natural_join"):
        made.check_usable()
    with pytest.raises(KeyMismatchError, match="more than one row with the key 'a'"):
        natural_join([left, right], ["k"], [])
    left.append({"k": ["b"]})
    assert left.size == 2


def test_a_key_may_pass_from_one_row_to_another_in_one_cycle() -> None:
    graph = UpdateGraph()
    left = AppendTable(graph, "left", {"k": "string"})
    right = KeyedTable(graph, "right", {"id": "int64", "k": "string"}, ["id"])
    right.upsert({"id": [1, 2], "k": ["a", "b"]})
    left.append({"k": ["a", "b"]})
    made = natural_join([left, right], ["k"], [])
    right.upsert({"id": [1, 2], "k": ["b", "a"]})
    assert made.to_arrow()["id"].to_pylist() == [2, 1]


def test_an_exact_join_needs_a_row_for_each() -> None:
    left, right = tables()
    left.upsert({"id": [1], "sym": ["a"], "size": [1]})
    with pytest.raises(KeyMismatchError, match="no row with the key 'a'"):
        exact_join([left, right], ["sym"], [])
    right.upsert({"sym": ["a", "b"], "bid": [1.5, 2.5], "tags": [None, None]})
    made = exact_join([left, right], ["sym"], ["bid"])
    left.upsert({"id": [2], "sym": ["b"], "size": [1]})
    assert made.to_arrow()["bid"].to_pylist() == [1.5, 2.5]
    right.delete({"sym": ["b"]})
    assert "no row with the key 'b'" in str(made.failure)
    assert left.size == 2


def test_an_exact_join_fails_with_a_new_row_that_has_none() -> None:
    left, right = tables()
    made = exact_join([left, right], ["sym"], ["bid"])
    left.upsert({"id": [2], "sym": [None], "size": [1]})
    assert "no row with the key None" in str(made.failure)


def test_a_right_table_that_never_changes_needs_no_order() -> None:
    """The left rows are found by the right ones only if these tick."""
    left, right = tables()
    right.upsert({"sym": [f"s{n}" for n in range(100)], "bid": np.arange(100.0), "tags": [None] * 100})
    version = right.version
    static = StaticTable(right.graph, "static", right.schema, version.row_set, version.views)
    ticking, still = natural_join([left, right], ["sym"], ["bid"]), natural_join([left, static], ["sym"], ["bid"])
    left.upsert({"id": np.arange(10_000), "sym": [f"s{n % 120}" for n in range(10_000)], "size": np.arange(10_000)})
    assert still.to_arrow() == ticking.to_arrow()
    assert still.nbytes - static.nbytes < ticking.nbytes - right.nbytes
    assert still.to_arrow()["bid"].null_count == sum(n % 120 >= 100 for n in range(10_000))


def test_no_value_is_copied() -> None:
    """The state is numbers of rows, whatever the columns hold."""
    left, right = tables()
    right.upsert({"sym": ["a", "b"], "bid": [1.0, 2.0], "tags": [["x" * 1_000_000], None]})
    left.upsert({"id": np.arange(1_000), "sym": ["a"] * 1_000, "size": np.arange(1_000)})
    made = natural_join([left, right], ["sym"], [])
    assert made.nbytes - left.nbytes - right.nbytes < 600_000


def test_keys_that_have_gone_on_both_sides_are_forgotten() -> None:
    left, right = tables()
    made = natural_join([left, right], ["sym"], ["bid"])
    watch = Watch(made)
    left.upsert({"id": [-1], "sym": ["stays"], "size": [0]})
    right.upsert({"sym": ["stays"], "bid": [7.0], "tags": [None]})
    sizes = []
    for batch in range(12):
        keys = np.arange(batch * 600, (batch + 1) * 600)
        names = [f"s{key:06}" for key in keys]
        right.upsert({"sym": names, "bid": keys * 1.0, "tags": [None] * 600})
        left.upsert({"id": keys, "sym": names, "size": keys})
        assert made.to_arrow()["bid"].to_pylist() == [7.0, *(keys * 1.0)]
        left.delete({"id": keys})
        right.delete({"sym": names})
        sizes.append(made.nbytes - left.nbytes - right.nbytes)
    assert max(sizes[6:]) <= 1.2 * max(sizes[:6])
    watch.check_held()


def test_rows_of_a_blink_table_take_what_there_is() -> None:
    graph = UpdateGraph()
    left = BlinkTable(graph, "left", {"k": "string"})
    right = KeyedTable(graph, "right", {"k": "string", "v": "int64"}, ["k"])
    made = natural_join([left, right], ["k"], [])
    right.upsert({"k": ["a"], "v": [1]})
    for _ in range(3):
        left.append({"k": ["a", "b"]})
        assert plain_rows(made) == [("a", 1), ("b", None)]
    assert made.traits.is_blink


def test_rows_of_a_blink_table_that_have_left_keep_their_keys() -> None:
    """Also when the keys that no row has any more are forgotten, and those that were there before the join."""
    graph = UpdateGraph()
    left = BlinkTable(graph, "left", {"k": "string"}, history=10_000)
    right = KeyedTable(graph, "right", {"k": "string", "v": "string"}, ["k"])
    right.upsert({"k": ["a"], "v": ["a"]})
    left.append({"k": ["early"] * 5})
    made = natural_join([left, right], ["k"], [])
    first = made.version.readable.last_key + 1
    sizes = []
    for batch in range(60):
        left.append({"k": ["a", *(f"{batch:032} {number:031}" for number in range(5_000))]})
        right.upsert({"k": ["a", str(batch)], "v": ["a", str(batch)]})
        version = made.version
        rows = read(version, version.readable.restrict(max(first, version.readable.first_key), MAX_KEY))
        assert all(joined == (key if key == "a" else None) for key, joined in rows.values())
        sizes.append(made.nbytes - left.nbytes - right.nbytes)
    assert made.failure is None
    assert max(sizes) < 60 * 5_000 * 64, "less than the keys of all rows that were there"


def test_a_table_may_be_joined_with_itself() -> None:
    left, _ = tables()
    made = natural_join([left, left], ["id"], ["other = size"])
    left.upsert({"id": [1, 2], "sym": ["a", "b"], "size": [1, 2]})
    left.upsert({"id": [2], "sym": ["b"], "size": [5]})
    assert made.to_arrow()["other"].to_pylist() == [1, 5]


def test_groups_are_looked_at_once_for_as_many_rows_that_have_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cycle does not cost the number of keys."""
    left, right = tables()
    right.upsert({"sym": [f"s{n}" for n in range(20_000)], "bid": np.zeros(20_000), "tags": [None] * 20_000})
    made = natural_join([left, right], ["sym"], ["bid"])
    read: list[int] = []
    plain = FixedColumn.read_current

    def counted(self: FixedColumn, keys: Any) -> pa.Array:
        read.append(len(keys))
        return plain(self, keys)

    monkeypatch.setattr(FixedColumn, "read_current", counted)
    for number in range(20):
        left.upsert({"id": [number], "sym": ["s5"], "size": [1]})
        left.delete({"id": [number]})
        right.upsert({"sym": ["s5"], "bid": [float(number)], "tags": [None]})
    assert max(read) < 100
    assert made.size == 0


def test_a_cycle_reads_few_rows() -> None:
    left, right = tables()
    right.upsert({"sym": [f"s{n}" for n in range(20_000)], "bid": np.zeros(20_000), "tags": [None] * 20_000})
    left.upsert({"id": np.arange(20_000), "sym": [f"s{n}" for n in range(20_000)], "size": np.zeros(20_000, int)})
    made = natural_join([left, right], ["sym"], ["bid"])
    read: list[int] = []
    pieces = type(left.version).pieces

    def counted(self: Any, rows: Any, columns: Any) -> Any:
        read.append(rows.size)
        return pieces(self, rows, columns)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(left.version), "pieces", counted)
        right.upsert({"sym": ["s5"], "bid": [1.0], "tags": [None]})
        left.upsert({"id": [3], "sym": ["s4"], "size": [1]})
    assert sum(read) < 10
    assert made.to_arrow()["bid"][5].as_py() == 1.0


WRONG: dict[str, tuple[list[str], list[str], type[BarrageError], str]] = {
    "left column": (["sm = sym"], [], UnknownColumnError, "'trades' has no column 'sm'"),
    "right column": (["sym = sm"], [], UnknownColumnError, "'quotes' has no column 'sm'"),
    "added column": (["sym"], ["bidd"], UnknownColumnError, "Did you mean 'bid'"),
    "types": (["size = bid"], [], InvalidRequestError, "'size' of 'trades' is int64, and 'bid' of 'quotes' is double"),
    "name": (
        ["sym"],
        ["size = bid"],
        InvalidRequestError,
        r"'size' twice, of 'trades' \(id: .*\) and 'quotes' \(sym: ",
    ),
    "nothing": ([], [], InvalidRequestError, "needs columns"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused_at_once(case: str) -> None:
    on, joins, error, text = WRONG[case]
    left, right = tables()
    with pytest.raises(error, match=text):
        natural_join([left, right], on, joins)
    assert len(left.children) == 0


def test_values_that_cannot_be_keys_are_refused() -> None:
    graph = UpdateGraph()
    left, right = AppendTable(graph, "l", SCHEMA), AppendTable(graph, "r", SCHEMA)
    with pytest.raises(UnsupportedTypeError):
        natural_join([left, right], ["items"], ["n = number"])
    with pytest.raises(InvalidRequestError, match="different update graphs"):
        natural_join([left, AppendTable(UpdateGraph(), "r", SCHEMA)], ["key"], ["n = number"])


def test_they_are_methods_of_tables() -> None:
    left, right = tables()
    joined, exact = left.natural_join(right, on="sym", joins="bid"), left.exact_join(right, ["sym"], ["b = bid"])
    right.upsert({"sym": ["a"], "bid": [1.5], "tags": [None]})
    left.upsert({"id": [1], "sym": ["a"], "size": [1]})
    assert joined.to_arrow().to_pylist() == [{"id": 1, "sym": "a", "size": 1, "bid": 1.5}]
    assert exact.to_arrow()["b"].to_pylist() == [1.5]
    assert left.natural_join(right, "sym", "bid") is joined
    with pytest.raises(InvalidRequestError, match="The other table must be a table"):
        left.natural_join("quotes", "sym")  # type: ignore[arg-type]


def test_strings_join_large_strings() -> None:
    graph = UpdateGraph()
    left = KeyedTable(graph, "l", {"id": "int64", "sym": "large_string"}, "id")
    right = KeyedTable(graph, "r", {"sym": "string", "bid": "float64"}, "sym")
    joined, other = left.natural_join(right, "sym"), right.natural_join(left.select_distinct("sym"), "sym")
    left.upsert({"id": [1, 2], "sym": ["a", "b"]})
    right.upsert({"sym": ["b", "c"], "bid": [1.0, 2.0]})
    left.upsert({"id": [1, 3], "sym": ["c", None]})
    right.upsert({"sym": ["c"], "bid": [3.0]})
    assert joined.to_arrow().to_pydict() == {"id": [1, 2, 3], "sym": ["c", "b", None], "bid": [3.0, 1.0, None]}
    assert joined.schema.field("sym").type == pa.large_string()
    assert other.schema.field("sym").type == pa.string()
    right.delete({"sym": ["b"]})
    assert joined.to_arrow()["bid"].to_pylist() == [3.0, None, None]


def test_a_failed_join_says_so_where_it_is_displayed() -> None:
    left, right = tables()
    joined = left.natural_join(right.drop_columns("tags").rename_columns("key = sym"), "sym = key", "bid")
    assert "failed" not in repr(joined)
    ids = left.view(["sym", "n = id"])
    failing = right.natural_join(ids, "sym", "n")
    left.upsert({"id": [1, 2], "sym": ["a", "a"], "size": [1, 2]})
    assert repr(failing).endswith(" failed>")
    assert ", failed" in failing._repr_html_()
    assert "failed" not in joined._repr_html_()
    assert failing.to_arrow().num_rows == 0
    with pytest.raises(TableFailedError, match="Make it again"):
        failing.where("n > 1")


def test_what_is_computed_from_a_failed_join_says_which_failed_and_why() -> None:
    left, right = tables()
    failing = right.exact_join(left.view(["sym", "n = id"]), "sym", "n")
    below = failing.where("n > 1").sort("n")
    left.upsert({"id": [1, 2], "sym": ["a", "a"], "size": [1, 2]})
    with pytest.raises(TableFailedError) as caught:
        below.head(3)
    for told in (below.failure, caught.value):
        assert re.search(r"exact_join', which it follows, failed \(KeyMismatchError: .* the key 'a'\.", str(told))
        assert "'sort'" not in str(told)
    assert below.failure is not None
    assert below.failure.__cause__ is failing.failure


def test_a_part_of_a_failed_join_does_not_say_why() -> None:
    """The key may be one that its readers must not see."""
    left, right = tables()
    failing = right.natural_join(left.view(["sym", "n = id"]), "sym", "n")
    part = restrict(failing.where("n > 0"), Restriction(frozenset([Condition("n > 1")])))
    below = part.head(3)
    left.upsert({"id": [1, 2], "sym": ["a", "a"], "size": [1, 2]})
    for table in (part, below):
        assert str(table.failure).endswith("which it follows, failed.")
        with pytest.raises(TableFailedError) as caught:
            table.check_usable()
        assert "'a'" not in str(caught.value)
