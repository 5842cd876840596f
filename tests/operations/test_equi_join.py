"""Pairs of rows with equal keys, against loops over both tables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import AppendTable, KeyedTable, Table, UpdateGraph
from barrage_server.errors import (
    BarrageError,
    InvalidRequestError,
    LimitError,
    TableFailedError,
    UnknownColumnError,
    UnsupportedTypeError,
)
from barrage_server.operations import build
from barrage_server.operations import cross_join as cross_join_module
from barrage_server.operations.equi_join import cross_join, full_outer_join, left_outer_join
from tests.operations.oracle import Rows, Watch, plain_rows
from tests.operations.pairs import FORMS, PairCase, check_pair, key_of

ADDED = ["k = key", "n = number", "t = text", "l = items"]
ADDED_NUMBERS = [0, 1, 2, 4]
NONE = (None,) * 4


def pairs_of(left: Rows, right: Rows, columns: list[int], *, outer: bool = False) -> Rows:
    found: Rows = []
    for row in left:
        key = key_of(row, columns)
        those = [tuple(other[n] for n in ADDED_NUMBERS) for other in right if key_of(other, columns) == key]
        found += [(*row, *other) for other in those or ([NONE] if outer else [])]
    return found


def alone(left: Rows, right: Rows, columns: list[int]) -> Rows:
    keys = {key_of(row, columns) for row in left}
    there = [row for row in right if key_of(row, columns) not in keys]
    return [(None,) * 5 + tuple(row[n] for n in ADDED_NUMBERS) for row in there]


def cases(on: list[str], columns: list[int], bits: int = 10) -> dict[str, PairCase]:
    left = [*([number, *columns] for number in range(5)), *[columns] * 4]
    right = [*([[]] * 5), *([number, *columns] for number in ADDED_NUMBERS)]
    return {
        "join": PairCase(
            lambda one, two: cross_join([one, two], on, ADDED, bits),
            lambda one, two: pairs_of(one, two, columns),
            left,
            right,
        ),
        "left outer": PairCase(
            lambda one, two: left_outer_join([one, two], on, ADDED),
            lambda one, two: pairs_of(one, two, columns, outer=True),
            left,
            right,
        ),
        "full outer": PairCase(
            lambda one, two: full_outer_join([one, two], on, ADDED),
            lambda one, two: pairs_of(one, two, columns, outer=True) + alone(one, two, columns),
            left,
            right,
        ),
    }


@pytest.mark.parametrize("kind", ["join", "left outer", "full outer"])
@pytest.mark.parametrize("right_form", FORMS)
@given(seed=st.integers(0, 1 << 32), bits=st.sampled_from([0, 1, 10]))
@settings(deadline=None, max_examples=6)
def test_each_pair_with_one_key_is_a_row(kind: str, right_form: str, seed: int, bits: int) -> None:
    """After any changes of one side or both, in the order of the left rows, then of the right ones."""
    check_pair(cases(["flag"], [3], bits)[kind], seed, right_form=right_form)


@given(seed=st.integers(0, 1 << 32), kind=st.sampled_from(["join", "left outer", "full outer"]))
@settings(deadline=None, max_examples=20)
def test_keys_of_several_columns(kind: str, seed: int) -> None:
    check_pair(cases(["text", "number = number"], [2, 1])[kind], seed)


@given(seed=st.integers(0, 1 << 32), kind=st.sampled_from(["join", "left outer"]), most=st.sampled_from([0, 5]))
@settings(deadline=None, max_examples=20)
def test_many_changes_of_pairs_take_bounded_memory(kind: str, seed: int, most: int) -> None:
    """All pairs of the keys concerned are new then. Here a few are many."""
    case = cases(["flag"], [3])[kind]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cross_join_module, "MOST_RANGES", most)
        check_pair(case, seed)


@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=15)
def test_without_columns_all_pairs_are_rows(seed: int) -> None:
    check_pair(cases([], [])["join"], seed)


def tables() -> tuple[KeyedTable, KeyedTable]:
    graph = UpdateGraph()
    left = KeyedTable(graph, "trades", {"id": "int64", "sym": "string", "size": "int64"}, ["id"])
    right = KeyedTable(graph, "quotes", {"n": "int64", "sym": "string", "bid": "float64"}, ["n"])
    return left, right


def test_what_a_change_does_to_pairs() -> None:
    """A right row in the middle of its group shifts the pairs behind it, and leaves those of other keys alone."""
    left, right = tables()
    left.upsert({"id": [1, 2, 3], "sym": ["a", "b", "a"], "size": [1, 2, 3]})
    right.upsert({"n": [1, 2, 3], "sym": ["a", "a", "b"], "bid": [1.0, 2.0, 3.0]})
    made = left.join(right, "sym", "bid")
    watch = Watch(made)
    assert [row[3] for row in plain_rows(made)] == [1.0, 2.0, 3.0, 1.0, 2.0]
    right.delete({"n": [1]})
    right.upsert({"n": [3], "sym": ["b"], "bid": [4.0]})
    left.upsert({"id": [1], "sym": ["a"], "size": [7]})
    assert [
        (update.added.size, update.removed.size, update.shifted.size, [rows.size for rows in update.modified])
        for update in watch.updates
    ] == [(0, 2, 2, [0] * 4), (0, 0, 0, [0, 0, 0, 1]), (0, 0, 0, [0, 0, 1, 0])]
    assert plain_rows(made) == [(1, "a", 7, 2.0), (2, "b", 2, 4.0), (3, "a", 3, 2.0)]
    watch.check_held()


def test_a_left_row_without_a_right_one_has_nulls() -> None:
    left, right = tables()
    made = left.left_outer_join(right, "sym", ["n", "bid"])
    watch = Watch(made)
    left.upsert({"id": [1, 2], "sym": ["a", None], "size": [1, 2]})
    assert plain_rows(made) == [(1, "a", 1, None, None), (2, None, 2, None, None)]
    right.upsert({"n": [1, 2, 3], "sym": [None, None, "c"], "bid": [1.0, 2.0, 3.0]})
    assert plain_rows(made) == [(1, "a", 1, None, None), (2, None, 2, 1, 1.0), (2, None, 2, 2, 2.0)]
    right.delete({"n": [1, 2]})
    assert plain_rows(made) == [(1, "a", 1, None, None), (2, None, 2, None, None)]
    watch.check_held()


def test_a_right_row_without_a_left_one_comes_behind_all_others() -> None:
    left, right = tables()
    made = left.full_outer_join(right, "sym", ["symbol = sym", "bid"])
    right.upsert({"n": [1, 2], "sym": ["a", "b"], "bid": [1.0, 2.0]})
    left.upsert({"id": [1], "sym": ["b"], "size": [1]})
    assert plain_rows(made) == [(1, "b", 1, "b", 2.0), (None, None, None, "a", 1.0)]
    left.delete({"id": [1]})
    assert plain_rows(made) == [(None, None, None, "a", 1.0), (None, None, None, "b", 2.0)]


def test_the_columns_without_joins() -> None:
    left, right = tables()
    assert left.join(right, "sym").schema.names == ["id", "sym", "size", "n", "bid"]
    assert left.left_outer_join(right, "sym").schema.names == ["id", "sym", "size", "n", "bid"]
    assert left.full_outer_join(right.rename_columns("s = sym"), "sym = s").schema.names[3:] == ["n", "s", "bid"]
    with pytest.raises(InvalidRequestError, match="'sym' twice"):
        left.join(right)


def test_row_keys_get_more_bits_when_they_are_needed() -> None:
    """All pairs are shifted; a held version keeps its own."""
    left, right = tables()
    left.upsert({"id": [1, 2], "sym": ["a", "a"], "size": [1, 2]})
    made = left.join(right, "sym", "n", reserve_bits=1)
    watch = Watch(made)
    for count in (2, 3, 9, 40):
        keys = np.arange(count)
        right.upsert({"n": keys, "sym": ["a"] * count, "bid": keys * 1.0})
        assert [row[3] for row in plain_rows(made)] == [*range(count)] * 2
    assert any(update.shifted.size for update in watch.updates)
    assert not any(update.removed for update in watch.updates)
    watch.check_held()


def test_no_value_is_copied_and_nothing_is_kept_for_a_pair() -> None:
    left, right = tables()
    left.upsert({"id": np.arange(1_000), "sym": ["a" * 1_000] * 1_000, "size": np.arange(1_000)})
    right.upsert({"n": np.arange(1_000), "sym": ["a" * 1_000] * 1_000, "bid": np.arange(1_000.0)})
    made = left.join(right, "sym", "bid")
    assert made.size == 1_000_000
    assert made.nbytes - left.nbytes - right.nbytes < 700_000
    assert left.join(right.snapshot(), "sym", "bid").nbytes < made.nbytes


MAKERS: dict[str, Callable[[Table, Table, int], Table]] = {
    "join": lambda left, right, most: cross_join([left, right], ["sym"], ["bid"], most_rows=most),
    "all pairs": lambda left, right, most: cross_join([left, right], [], ["bid"], most_rows=most),
    "left outer": lambda left, right, most: left_outer_join([left, right], ["sym"], ["bid"], most_rows=most),
    "full outer": lambda left, right, most: full_outer_join([left, right], ["sym"], ["bid"], most_rows=most),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_too_many_pairs_are_refused_and_fail_the_table_later(kind: str) -> None:
    """With the limit in the text; the tables that they are made from go on."""
    left, right = tables()
    left.upsert({"id": np.arange(100), "sym": ["a"] * 100, "size": np.arange(100)})
    right.upsert({"n": np.arange(10), "sym": ["a"] * 10, "bid": np.zeros(10)})
    with pytest.raises(LimitError, match="would have 1,000 rows, and 999 is the most"):
        MAKERS[kind](left, right, 999)
    made = MAKERS[kind](left, right, 1_000)
    right.delete({"n": [0]})
    right.upsert({"n": [0], "sym": ["a"], "bid": [1.0]})
    assert made.failure is None
    with left.graph.cycle():  # as many as go
        right.delete({"n": [1]})
        right.upsert({"n": [20], "sym": ["a"], "bid": [1.0]})
    assert made.failure is None
    left.upsert({"id": [100], "sym": ["a"], "size": [1]})
    if kind == "full outer":  # made of others
        assert "left_outer_join', which it follows, failed" in str(made.failure)
    else:
        assert "would have 1,010 rows, and 1,000 is the most" in str(made.failure)
    assert left.size == 101
    with pytest.raises(TableFailedError):
        build.head([made], 3)


def test_too_many_pairs_take_no_memory() -> None:
    """A trillion of them are refused at once."""
    graph = UpdateGraph()
    left, right = (build.empty_table(graph, 1 << 20).update(f"{name} = 1") for name in "ab")
    with pytest.raises(LimitError, match="1,099,511,627,776 rows"):
        left.join(right)
    with pytest.raises(LimitError, match="would have 1,099,511,627,776 rows, and 2,147,483,648 is the most"):
        left.join(right, "a = b", "x = b")


def test_keys_that_have_gone_on_both_sides_are_forgotten() -> None:
    left, right = tables()
    made = left.left_outer_join(right, "sym", ["bid"])
    watch = Watch(made)
    sizes = []
    for batch in range(12):
        keys = np.arange(batch * 600, (batch + 1) * 600)
        names = [f"s{key:06}" for key in keys]
        right.upsert({"n": keys, "sym": names, "bid": keys * 1.0})
        left.upsert({"id": keys, "sym": names, "size": keys})
        assert made.to_arrow()["bid"].to_pylist() == (keys * 1.0).tolist()
        left.delete({"id": keys})
        right.delete({"n": keys})
        sizes.append(made.nbytes - left.nbytes - right.nbytes)
    assert max(sizes[6:]) <= 1.2 * max(sizes[:6])
    watch.check_held()


def test_pairs_of_growing_rows_with_still_ones_grow() -> None:
    graph = UpdateGraph()
    left = AppendTable(graph, "left", {"k": "string"})
    right = AppendTable(graph, "right", {"k": "string", "v": "int64"})
    right.append({"k": ["a", "a"], "v": [1, 2]})
    assert left.join(right.snapshot(), "k").traits.append_only
    assert not left.join(right, "k").traits.append_only


def test_a_table_may_be_joined_with_itself() -> None:
    left, _ = tables()
    made = left.join(left, "sym", "other = id")
    left.upsert({"id": [1, 2, 3], "sym": ["a", "b", "a"], "size": [1, 2, 3]})
    left.upsert({"id": [2], "sym": ["a"], "size": [2]})
    assert made.size == 9


WRONG: dict[str, tuple[list[str], list[str], type[BarrageError], str]] = {
    "left column": (["sm = sym"], [], UnknownColumnError, "'trades' has no column 'sm'"),
    "right column": (["sym = sm"], [], UnknownColumnError, "'quotes' has no column 'sm'"),
    "added column": (["sym"], ["bidd"], UnknownColumnError, "Did you mean 'bid'"),
    "types": (["size = bid"], [], InvalidRequestError, "'size' of 'trades' is int64, and 'bid' of 'quotes' is double"),
    "name": (
        ["sym"],
        ["size = bid"],
        InvalidRequestError,
        r"'size' twice, of 'trades' \(id: .*\) and 'quotes' \(n: ",
    ),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("make", [cross_join, left_outer_join, full_outer_join])
def test_what_does_not_fit_is_refused_at_once(make: Callable[..., Table], case: str) -> None:
    on, joins, error, text = WRONG[case]
    left, right = tables()
    with pytest.raises(error, match=text):
        make([left, right], on, joins)
    assert len(left.children) == 0


def test_other_arguments_that_do_not_fit() -> None:
    left, right = tables()
    with pytest.raises(InvalidRequestError, match="An outer join needs columns"):
        left_outer_join([left, right], [], [])
    with pytest.raises(InvalidRequestError, match="reserve_bits"):
        left.join(right, "sym", reserve_bits=32)
    graph = UpdateGraph()
    lists = [AppendTable(graph, name, {"k": pa.list_(pa.int64())}) for name in "lr"]
    with pytest.raises(UnsupportedTypeError):
        cross_join(lists, ["k"], ["r = k"])


def test_row_keys_that_are_too_large_are_refused() -> None:
    """Those of a join of joins have the bits of all of them."""
    left, right = tables()
    left.upsert({"id": np.arange(5), "sym": ["a"] * 5, "size": np.zeros(5, int)})
    right.upsert({"n": np.arange(1 << 16), "sym": ["a"] * (1 << 16), "bid": np.zeros(1 << 16)})
    made: Table = left
    for number in range(3):
        made = made.join(right, "sym", f"b{number} = bid").tail(5)
    assert made.size == 5
    with pytest.raises(LimitError, match="too large: they take 16 more bits"):
        made.join(right, "sym", "last = bid")
    assert made.flatten().join(right, "sym", "last = bid").size == 5 << 16
