"""The rows whose key another table has, or has not, against a set of keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, UpdateGraph
from barrage_server.errors import BarrageError, InvalidRequestError, UnknownColumnError, UnsupportedTypeError
from barrage_server.operations.where_in import where_in
from tests.operations.oracle import Rows, Watch, plain_rows
from tests.operations.pairs import FORMS, PairCase, check_pair, key_of

KEYS: dict[str, tuple[list[str], list[int]]] = {
    "one number": (["number"], [1]),
    "one integer": (["key"], [0]),
    "several": (["text", "number"], [2, 1]),
    "flag and text": (["flag", "text == text"], [3, 2]),
}


def case_of(columns: list[str], numbers: list[int], *, inverted: bool) -> PairCase:
    def expected(left: Rows, right: Rows) -> Rows:
        there = {key_of(row, numbers) for row in right}
        return [row for row in left if (key_of(row, numbers) in there) != inverted]

    return PairCase(
        lambda left, right: where_in([left, right], columns, inverted=inverted),
        expected,
        [[number] for number in range(5)],
        [[]] * 5,
    )


@pytest.mark.parametrize("right_form", FORMS)
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("inverted", [False, True])
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=3)
def test_rows_are_there_while_their_key_is(keys: str, right_form: str, seed: int, inverted: bool) -> None:
    """After any changes of one side or both; no column is modified but those of the left table that are."""
    check_pair(case_of(*KEYS[keys], inverted=inverted), seed, right_form=right_form)


def tables() -> tuple[KeyedTable, KeyedTable]:
    graph = UpdateGraph()
    left = KeyedTable(graph, "trades", {"id": "int64", "sym": "string", "size": "int64"}, ["id"])
    right = KeyedTable(graph, "watched", {"n": "int64", "symbol": "string"}, ["n"])
    return left, right


def test_a_key_that_appears_or_vanishes_takes_its_rows_along() -> None:
    """Once: a second row with the same key changes nothing, nor does the first of two that goes."""
    left, right = tables()
    left.upsert({"id": [1, 2, 3], "sym": ["a", "b", "a"], "size": [1, 2, 3]})
    made, rest = left.where_in(right, "sym = symbol"), left.where_not_in(right, "sym = symbol")
    watch, other = Watch(made), Watch(rest)
    right.upsert({"n": [1], "symbol": ["a"]})
    right.upsert({"n": [2], "symbol": ["a"]})
    right.delete({"n": [1]})
    right.delete({"n": [2]})
    assert [(update.added.size, update.removed.size) for update in watch.updates] == [(2, 0), (0, 2)]
    assert [(update.added.size, update.removed.size) for update in other.updates] == [(0, 2), (2, 0)]
    watch.check_held()
    other.check_held()


def test_null_equals_null_and_nan_equals_nan() -> None:
    graph = UpdateGraph()
    left = AppendTable(graph, "l", {"x": "float64"})
    right = AppendTable(graph, "r", {"y": "float64"})
    left.append({"x": [None, float("nan"), -0.0, 1.0]})
    made, rest = left.where_in(right, "x = y"), left.where_not_in(right, "x = y")
    right.append({"y": [None, float("nan"), 0.0]})
    assert made.size == 3
    assert plain_rows(rest) == [(1.0,)]


def test_no_value_is_copied() -> None:
    """The columns are those of the left table; the state is a number for each row and key."""
    left, right = tables()
    left.upsert({"id": np.arange(1_000), "sym": ["a" * 10_000] * 1_000, "size": np.arange(1_000)})
    right.upsert({"n": [1], "symbol": ["a" * 10_000]})
    made = left.where_in(right, "sym = symbol")
    assert made.size == 1_000
    assert made.nbytes - left.nbytes - right.nbytes < 600_000
    assert made.version.views == left.version.views


def test_a_right_table_that_never_changes_needs_its_keys_only() -> None:
    left, right = tables()
    right.upsert({"n": [1], "symbol": ["a"]})
    left.upsert({"id": np.arange(10_000), "sym": ["a"] * 10_000, "size": np.arange(10_000)})
    still = right.snapshot()
    made = left.where_in(still, "sym = symbol")
    assert made.nbytes - left.nbytes - still.nbytes < 60_000
    assert left.where_in(right, "sym = symbol").nbytes - left.nbytes - right.nbytes > 200_000


def test_keys_that_have_gone_on_both_sides_are_forgotten() -> None:
    left, right = tables()
    made = left.where_in(right, "sym = symbol")
    watch = Watch(made)
    sizes = []
    for batch in range(12):
        keys = np.arange(batch * 600, (batch + 1) * 600)
        names = [f"s{key:06}" for key in keys]
        right.upsert({"n": keys, "symbol": names})
        left.upsert({"id": keys, "sym": names, "size": keys})
        assert made.size == 600
        left.delete({"id": keys})
        right.delete({"n": keys})
        sizes.append(made.nbytes - left.nbytes - right.nbytes)
    assert max(sizes[6:]) <= 1.2 * max(sizes[:6])
    watch.check_held()


def test_rows_of_a_blink_table_pass() -> None:
    graph = UpdateGraph()
    left = BlinkTable(graph, "left", {"k": "string"})
    right = KeyedTable(graph, "right", {"k": "string"}, ["k"])
    right.upsert({"k": ["a"]})
    made, still = left.where_in(right, "k"), left.where_in(right.snapshot(), "k")
    for _ in range(3):
        left.append({"k": ["a", "b"]})
        assert plain_rows(made) == plain_rows(still) == [("a",)]
    assert still.traits.is_blink


def test_a_table_may_be_filtered_by_itself() -> None:
    left, _ = tables()
    made, none = left.where_in(left, "sym"), left.where_not_in(left, "sym")
    left.upsert({"id": [1, 2], "sym": ["a", None], "size": [1, 2]})
    left.upsert({"id": [1], "sym": ["c"], "size": [1]})
    assert (made.size, none.size) == (2, 0)


def test_a_cycle_reads_few_rows() -> None:
    left, right = tables()
    names = [f"s{n}" for n in range(20_000)]
    right.upsert({"n": np.arange(20_000), "symbol": names})
    left.upsert({"id": np.arange(20_000), "sym": names, "size": np.zeros(20_000, int)})
    made = left.where_in(right, "sym = symbol")
    read: list[int] = []
    pieces = type(left.version).pieces

    def counted(self: Any, rows: Any, columns: Any) -> Any:
        read.append(rows.size)
        return pieces(self, rows, columns)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(left.version), "pieces", counted)
        right.delete({"n": [5]})
        left.upsert({"id": [3], "sym": ["s5"], "size": [1]})
    assert sum(read) < 10
    assert made.size == 19_998


WRONG: dict[str, tuple[list[str], type[BarrageError], str]] = {
    "left column": (["sm = symbol"], UnknownColumnError, "'trades' has no column 'sm'"),
    "right column": (["sym"], UnknownColumnError, "'watched' has no column 'sym'. Did you mean 'symbol'"),
    "types": (["size = symbol"], InvalidRequestError, "'size' of 'trades' is int64, and 'symbol' of 'watched' is str"),
    "written wrong": (["sym = a = b"], InvalidRequestError, "A column is written"),
    "nothing": ([], InvalidRequestError, "Name at least one column"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused_at_once(case: str) -> None:
    columns, error, text = WRONG[case]
    left, right = tables()
    with pytest.raises(error, match=text):
        where_in([left, right], columns)
    assert len(left.children) == 0


def test_values_that_cannot_be_keys_are_refused() -> None:
    graph = UpdateGraph()
    left, right = (AppendTable(graph, name, {"k": pa.list_(pa.int64())}) for name in "lr")
    with pytest.raises(UnsupportedTypeError):
        where_in([left, right], ["k"])


def test_strings_are_found_among_large_strings() -> None:
    graph = UpdateGraph()
    left = AppendTable(graph, "l", {"sym": "string"})
    right = AppendTable(graph, "r", {"sym": "large_string"})
    made = left.where_in(right, "sym")
    right.append({"sym": ["a"]})
    left.append({"sym": ["a", "b"]})
    assert plain_rows(made) == [("a",)]
