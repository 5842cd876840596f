"""``range_join``: after any changes of both tables each row has the values of the other one within its range."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.engine import AppendTable, KeyedTable, Table, UpdateGraph
from barrage_server.errors import (
    BarrageError,
    InvalidRequestError,
    LimitError,
    UnknownColumnError,
    UnsupportedOperationError,
)
from barrage_server.fixed_limits import FixedLimit
from barrage_server.operations import range_view
from barrage_server.plan import agg
from barrage_server.plan.range_match import RangeMatch
from tests.operations.oracle import Row, Rows, Watch, plain_rows
from tests.operations.pairs import FORMS, PairCase, check_pair, key_of

LEFT = [
    "low = number == 1e300 ? NAN_DOUBLE : number",
    "high = flag == null ? NULL_DOUBLE : key == 11 ? NAN_DOUBLE : key - 3.0",
]
RIGHT = ["x = number == 1e300 ? NAN_DOUBLE : number"]
MATCHES = ["low <= x <= high", "low < x <= high", "<- low <= x < high", "low < x <= high ->", "<- low <= x <= high ->"]


def members(row: Row, others: Rows, match: RangeMatch, keys: list[int]) -> Rows | None:
    """The rows of the right table in the range of a left one, in order; None for a range that is none."""
    low = math.nan if row[1] == 1e300 else row[1]
    high = None if row[3] is None else math.nan if row[0] == 11 else row[0] - 3.0
    if any(bound is not None and math.isnan(bound) for bound in (low, high)):
        return None
    is_closed = match.takes_first and match.takes_last
    if low is not None and high is not None and (low > high or (low == high and not is_closed)):
        return None
    ordered = [other for other in others if other[1] not in (None, 1e300) and not math.isnan(other[1])]
    mine = [other for other in ordered if key_of(other, keys) == key_of(row, keys)]
    mine.sort(key=lambda other: other[1])
    values = [other[1] for other in mine]
    begin = sum(low is not None and (value < low or (value == low and not match.takes_first)) for value in values)
    end = sum(high is None or value < high or (value == high and match.takes_last) for value in values)
    if match.takes_preceding and low not in values and low is not None:
        begin = max(0, begin - 1)
    if match.takes_following and high not in values and high is not None:
        end = min(len(values), end + 1)
    return mine[begin:end]


def case_of(text: str, keys: list[int]) -> PairCase:
    """The join by columns of some numbers, with two lists."""
    names = [["key", "number", "text", "flag", "items"][number] for number in keys]
    match = RangeMatch.of(text)

    def make(left: Table, right: Table) -> Table:
        aggs = [agg.group("xs = x"), agg.group("others = items")]
        return left.update_view(LEFT).range_join(right.update_view(RIGHT), [*names, text], aggs)

    def expected(left: Rows, right: Rows) -> Rows:
        found = []
        for row in left:
            low = math.nan if row[1] == 1e300 else row[1]
            high = None if row[3] is None else math.nan if row[0] == 11 else row[0] - 3.0
            there = members(row, right, match, keys)
            lists = (None, None) if there is None else ([one[1] for one in there], [one[4] for one in there])
            found.append((*row, low, high, *lists))
        return found

    watched = sorted({0, 1, 3, *keys})
    return PairCase(
        make,
        expected,
        [[0], [1], [2], [3], [4], [1], [0, 3], watched, watched],
        [[]] * 7 + [[1, *keys], [1, 4, *keys]],
    )


@pytest.mark.parametrize("keys", [[], [2], [3, 2]], ids=str)
@pytest.mark.parametrize("match", MATCHES)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=8)
def test_content_and_updates(match: str, keys: list[int], seed: int) -> None:
    """Tables of every kind, both of which may change in one cycle."""
    check_pair(case_of(match, keys), seed)


@pytest.mark.parametrize("form", FORMS)
@given(seed=st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=5)
def test_each_form_of_the_right_table(form: str, seed: int) -> None:
    check_pair(case_of("low <= x <= high", [2]), seed, right_form=form)


NULL = None
DEEPHAVEN: dict[str, list[list[int] | None]] = {
    "lo <= x <= hi": [[], [4, 5, 6], [], [], [2, 3], [], [4, 5, 6]],
    "<- lo <= x <= hi": [[3], [3, 4, 5, 6], [], [6], [2, 3], [], [3, 4, 5, 6]],
    "lo <= x <= hi ->": [[4], [4, 5, 6], [2], [], [2, 3, 4], [2], [4, 5, 6]],
    "<- lo <= x <= hi ->": [[3, 4], [3, 4, 5, 6], [2], [6], [2, 3, 4], [2], [3, 4, 5, 6]],
    "<- lo <= x < hi": [[3], [3], NULL, [6], [2, 3], [], [3, 4, 5, 6]],
    "lo < x <= hi ->": [[4], [4, 5, 6], NULL, [], [4], [2], [4, 5, 6]],
}
"""What a server of Deephaven 42.7 has given for the tables of the test below."""


@pytest.mark.parametrize("match", DEEPHAVEN)
def test_what_deephaven_gives(match: str) -> None:
    graph = UpdateGraph()
    right = bs.table({"x": [None, 3, 3, 7, 7, 7], "y": [1, 2, 3, 4, 5, 6]}, graph=graph)
    left = bs.table({"lo": [4, 4, 2, 8, 3, None, 4], "hi": [6, 7, 2, 9, 5, 2, None]}, graph=graph)
    for table in (right, right.snapshot()):
        assert left.range_join(table, match, agg.group("y")).to_arrow()["y"].to_pylist() == DEEPHAVEN[match]


def pair() -> tuple[KeyedTable, KeyedTable]:
    graph = UpdateGraph()
    left = KeyedTable(graph, "orders", {"id": "int64", "sym": "string", "lo": "int64", "hi": "int64"}, "id")
    right = KeyedTable(graph, "trades", {"n": "int64", "sym": "string", "x": "int64", "price": "float64"}, "n")
    return left, right


def test_the_columns() -> None:
    left, right = pair()
    made = left.range_join(right, ["sym", "lo <= x <= hi"], [agg.group(["x", "p = price"]), agg.group("n")])
    assert made.schema.names == ["id", "sym", "lo", "hi", "x", "p", "n"]
    assert made.schema.field("p").type == pa.list_(pa.float64())
    assert made.key_columns == ("id",)
    assert not left.range_join(right.snapshot(), ["sym", "lo <= x <= hi"], agg.group("n")).traits.is_blink


def test_text_and_times_have_ranges_too() -> None:
    graph = UpdateGraph()
    left = bs.table({"lo": ["a", "b"], "hi": ["c", "b"]}, graph=graph)
    right = bs.table({"s": pa.array(["a", "d", "b"], pa.large_string())}, graph=graph)
    assert left.range_join(right, "lo <= s < hi", agg.group("s")).to_arrow()["s"].to_pylist() == [["a", "b"], None]


def test_a_cycle_costs_the_groups_that_change() -> None:
    left, right = pair()
    numbers = np.arange(1_000)
    names = [f"s{number % 10}" for number in numbers]
    left.upsert({"id": numbers, "sym": names, "lo": numbers - 50, "hi": numbers})
    right.upsert({"n": numbers, "sym": names, "x": numbers, "price": numbers * 1.0})
    made = left.range_join(right, ["sym", "lo <= x <= hi"], [agg.group(["x", "price"])])
    watch = Watch(made)
    right.upsert({"n": [503], "sym": ["s3"], "x": [503], "price": [-1.0]})
    assert [rows.size for rows in watch.updates[-1].modified] == [0, 0, 0, 0, 0, 100]
    left.upsert({"id": [7], "sym": ["s7"], "lo": [-1], "hi": [8]})
    assert [rows.size for rows in watch.updates[-1].modified] == [0, 0, 1, 1, 0, 0], "the list is the same"
    right.delete({"n": [503]})
    assert [rows.size for rows in watch.updates[-1].modified] == [0, 0, 0, 0, 100, 100]
    watch.check_held()


def test_no_value_is_copied() -> None:
    left, right = pair()
    numbers, names = np.arange(1_000), ["a" * 10_000] * 1_000
    left.upsert({"id": numbers, "sym": names, "lo": numbers - 50, "hi": numbers})
    right.upsert({"n": numbers, "sym": names, "x": numbers, "price": numbers * 1.0})
    made = left.range_join(right, "lo <= x <= hi", [agg.group(["sym_ = sym", "price"])])
    assert made.nbytes - left.nbytes - right.nbytes < 700_000


def test_keys_that_have_gone_on_both_sides_are_forgotten() -> None:
    left, right = pair()
    made = left.range_join(right, ["sym", "lo <= x <= hi"], agg.group("x"))
    watch = Watch(made)
    sizes = []
    for batch in range(12):
        keys = np.arange(batch * 600, (batch + 1) * 600)
        names = [f"s{key:06}" for key in keys]
        right.upsert({"n": keys, "sym": names, "x": keys, "price": keys * 1.0})
        left.upsert({"id": keys, "sym": names, "lo": keys, "hi": keys + 1})
        assert made.to_arrow()["x"].to_pylist() == [[key] for key in keys]
        left.delete({"id": keys})
        right.delete({"n": keys})
        sizes.append(made.nbytes - left.nbytes - right.nbytes)
    assert max(sizes[6:]) <= 1.2 * max(sizes[:6])
    watch.check_held()


def test_lists_that_are_too_long_together_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """One reading of all is refused before it takes memory."""
    monkeypatch.setattr(range_view, "RANGE_ITEMS", FixedLimit("range_items", 1_000))
    left, right = pair()
    numbers, names = np.arange(100), ["a"] * 100
    left.upsert({"id": numbers, "sym": names, "lo": numbers * 0, "hi": numbers * 0 + 100})
    right.upsert({"n": numbers, "sym": names, "x": numbers, "price": numbers * 1.0})
    made = left.range_join(right, ["sym", "lo <= x <= hi"], agg.group("x"))
    with pytest.raises(LimitError, match="The lists of 100 rows have 10,000 items in each column, and"):
        made.version.read(made.version.row_set)
    sizes = [batch.num_rows for batch in made.version.batches()]
    assert max(sizes) <= 10
    assert sum(sizes) == 100
    assert made.to_arrow()["x"].to_pylist() == [list(range(100))] * 100


WRONG: dict[str, tuple[list[str], Any, type[BarrageError], str]] = {
    "left column": (["sym", "low <= x <= hi"], agg.group("x"), UnknownColumnError, "'orders' has no column 'low'"),
    "right column": (["sym", "lo <= t <= hi"], agg.group("x"), UnknownColumnError, "'trades' has no column 't'"),
    "listed": (["sym", "lo <= x <= hi"], agg.group("y"), UnknownColumnError, "'trades' has no column 'y'"),
    "types": (["sym", "lo <= price <= hi"], agg.group("x"), InvalidRequestError, "'lo' of 'orders' is int64"),
    "name": (["sym", "lo <= x <= hi"], agg.group("lo = x"), InvalidRequestError, "'lo' twice"),
    "no range": (["sym"], agg.group("x"), InvalidRequestError, "The last entry of on is a range"),
    "half a range": (["sym", "lo <= x"], agg.group("x"), InvalidRequestError, "The last entry of on is a range"),
    "direction": (["sym", "hi >= x >= lo"], agg.group("x"), InvalidRequestError, "The last entry of on is a range"),
    "preceding": (["sym", "<- lo < x <= hi"], agg.group("x"), InvalidRequestError, "'<-' has '<=' behind it"),
    "following": (["sym", "lo < x < hi ->"], agg.group("x"), InvalidRequestError, "'->' has '<=' before it"),
    "aggregation": (["lo <= x <= hi"], agg.sum_("x"), UnsupportedOperationError, "'group' alone, not 'sum'"),
    "nothing": (["lo <= x <= hi"], agg.group(), InvalidRequestError, "aggs must name the columns"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused_at_once(case: str) -> None:
    on, aggs, error, text = WRONG[case]
    left, right = pair()
    with pytest.raises(error, match=text):
        left.range_join(right, on, aggs)
    assert len(left.children) == len(right.children) == 0


def test_values_without_an_order_have_no_ranges() -> None:
    left = AppendTable(UpdateGraph(), "left", {"t": pa.list_(pa.int64())})
    right = left.view(["s = t"])
    with pytest.raises(InvalidRequestError, match="Column 't' has no order: it has the type list"):
        left.range_join(right, "t <= s <= t", agg.group("s"))


def test_of_a_blink_table_it_has_the_rows_of_the_cycle() -> None:
    graph = UpdateGraph()
    left = bs.BlinkTable(graph, "left", {"lo": "int64", "hi": "int64"})
    right = bs.table({"x": [1, 2, 3]}, graph=graph)
    made = left.range_join(right, "lo <= x <= hi", agg.group("x"))
    left.append({"lo": [1, 2], "hi": [2, 2]})
    assert plain_rows(made) == [(1, 2, [1, 2]), (2, 2, [2])]
    left.append({"lo": [3], "hi": [9]})
    assert plain_rows(made) == [(3, 9, [3])] and not made.traits.is_blink
