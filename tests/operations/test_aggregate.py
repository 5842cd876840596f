"""Rows for groups: sums, means, variances and counts, against a computation by fractions from the beginning."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, Table, UpdateGraph
from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.static import StaticTable
from barrage_server.engine.view import StoredView
from barrage_server.errors import InvalidRequestError, LimitError, UnknownColumnError, UnsupportedTypeError
from barrage_server.operations.aggregations import agg_all_by, agg_by, select_distinct
from barrage_server.plan import aggregation as agg
from barrage_server.plan.aggregation import Aggregation
from tests.operations.oracle import Row, Watch, cell, cells_of, make_row, plain_rows
from tests.properties.sources import SCHEMA as SOURCE_SCHEMA
from tests.properties.sources import SOURCES, to_table

KINDS = list(dict.fromkeys(SOURCES))
_KEY, _NUMBER, _TEXT, _FLAG, _ITEMS = range(5)
_MASK: Final = (1 << 64) - 1


def total(values: Sequence[float]) -> float | None:
    """The exact sum, as a double."""
    if not values:
        return None
    if any(math.isnan(value) for value in values) or {math.inf, -math.inf} <= set(values):
        return math.nan
    for value in values:
        if math.isinf(value):
            return value
    try:
        return float(sum(map(Fraction, values)))
    except OverflowError:
        return math.inf if sum(map(Fraction, values)) > 0 else -math.inf


def variance(values: Sequence[float]) -> float | None:
    if not values:
        return None
    if len(values) == 1 or not all(math.isfinite(value) and abs(value) < 2.0**480 for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return float(sum((value - mean) ** 2 for value in exact) / (len(exact) - 1))


def root(value: float | None) -> float | None:
    return value if value is None or math.isnan(value) else math.sqrt(value)


def wrapped(value: int) -> int:
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def mean(values: Sequence[float]) -> float | None:
    found = total(values)
    return None if found is None else found / len(values)


def weighted(rows: Sequence[Row]) -> tuple[float | None, float | None]:
    """Of the numbers with the keys as weights: sum and mean."""
    pairs = [(row[_NUMBER], row[_KEY]) for row in rows if row[_NUMBER] is not None and row[_KEY] is not None]
    if not pairs:
        return None, None
    special = [value * weight for value, weight in pairs if not math.isfinite(value)]
    top = total(special) if special else float(sum(Fraction(value) * weight for value, weight in pairs))
    weights = sum(weight for _, weight in pairs)
    assert top is not None
    return top, math.nan if weights == 0 and (
        top == 0 or math.isnan(top)
    ) else top / weights if weights else math.copysign(math.inf, top)


AGGREGATIONS = [
    agg.sum_(["sum=number", "keys=key", "flags=flag"]),
    agg.abs_sum("sizes=number"),
    agg.avg(["mean=number", "mean_key=key"]),
    agg.var("var=number"),
    agg.std("std=number"),
    agg.weighted_sum("key", "ws=number"),
    agg.weighted_avg("key", "wa=number"),
    agg.count_("n"),
    agg.min_(["least=number", "least_text=text"]),
    agg.max_(["most=number", "most_text=text"]),
    agg.median(["median=number", "median_key=key", "median_text=text"]),
    agg.median(["mid=number", "mid_key=key"], average_evenly_divided=False),
    agg.pct(0.25, "quarter=number"),
    agg.pct(0.6, ["more=number", "more_text=text"], average_evenly_divided=True),
    agg.first(["first=number", "first_items=items"]),
    agg.last("last=text"),
    agg.sorted_first(["text", "number"], "sf=key"),
    agg.sorted_last("number", "sl=text"),
]


NAMES: Final = [column.split("=")[0].strip() for each in AGGREGATIONS for column in each.columns]


def place(value: Any) -> tuple[int, Any]:
    """Null first, NaN last."""
    return (0, 0) if value is None else (2, 0) if isinstance(value, float) and math.isnan(value) else (1, value)


def in_order(rows: Sequence[Row], number: int) -> tuple[list[Any], bool]:
    """The values of a column in order, without nulls and NaN; whether there are NaN."""
    values = sorted((row[number] for row in rows), key=place)
    return [value for value in values if place(value)[0] == 1], any(place(value)[0] == 2 for value in values)


def middle(values: list[Any], *, nans: bool) -> Any:
    if nans:
        return math.nan
    if not values:
        return None
    if isinstance(values[0], str):
        return values[math.floor(0.5 * (len(values) - 1) + 0.5)]
    low, high = values[(len(values) - 1) // 2], values[len(values) // 2]
    return float(low) if low == high else 0.5 * low + 0.5 * high


def nearest(values: list[Any], share: float, *, nans: bool = False) -> Any:
    if nans:
        return math.nan
    return values[math.floor(share * (len(values) - 1) + 0.5)] if values else None


def averaged(values: list[Any], share: float, *, nans: bool) -> Any:
    """The last one up to the share; the mean with the next one where these are the two in the middle."""
    if nans:
        return math.nan
    if not values:
        return None
    count = int(share * (len(values) - 1)) + 1
    low, high = values[count - 1], values[count] if 2 * count == len(values) else values[count - 1]
    return float(low) if low == high else 0.5 * low + 0.5 * high


def ranked(rows: Sequence[Row]) -> list[Any]:
    numbers, nans = in_order(rows, _NUMBER)
    texts, _ = in_order(rows, _TEXT)
    keys, _ = in_order(rows, _KEY)
    by_text = sorted(rows, key=lambda row: (place(row[_TEXT]), place(row[_NUMBER])))
    by_number = sorted(rows, key=lambda row: place(row[_NUMBER]))
    return [
        math.nan if nans else min(numbers, default=None),
        texts[0] if texts else None,
        math.nan if nans else max(numbers, default=None),
        texts[-1] if texts else None,
        middle(numbers, nans=nans),
        middle(keys, nans=False),
        middle(texts, nans=False),
        nearest(numbers, 0.5, nans=nans),
        nearest(keys, 0.5),
        nearest(numbers, 0.25, nans=nans),
        averaged(numbers, 0.6, nans=nans),
        nearest(texts, 0.6),
        rows[0][_NUMBER],
        rows[0][_ITEMS],
        rows[-1][_TEXT],
        by_text[0][_KEY],
        by_number[-1][_TEXT],
    ]


def expected(rows: Sequence[Row]) -> list[Any]:
    """The results for the rows of one group."""
    numbers = [row[_NUMBER] for row in rows if row[_NUMBER] is not None]
    keys = [row[_KEY] for row in rows if row[_KEY] is not None]
    flags = [row[_FLAG] for row in rows if row[_FLAG] is not None]
    return [
        total(numbers),
        wrapped(sum(keys)) if keys else None,
        sum(flags) if flags else None,
        total([abs(number) for number in numbers]),
        mean(numbers),
        mean(keys),
        variance(numbers),
        root(variance(numbers)),
        *weighted(rows),
        len(rows),
        *ranked(rows),
    ]


def same(found: Any, wanted: Any) -> bool:
    if not isinstance(found, float) or not isinstance(wanted, float):
        return bool(found == wanted)
    if math.isnan(found) or math.isnan(wanted):
        return math.isnan(found) and math.isnan(wanted)
    return math.isclose(found, wanted, rel_tol=1e-14, abs_tol=0)


def grouped(rows: Sequence[Row], by: Sequence[int]) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        key = tuple(cell(0.0 if row[number] == 0 and isinstance(row[number], float) else row[number]) for number in by)
        groups.setdefault(key, []).append(row)
    return groups


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 1 << 32), by=st.sampled_from([(), (_TEXT,), (_FLAG, _TEXT), (_NUMBER,)]))
@settings(deadline=None, max_examples=15)
def test_the_results_are_those_of_the_rows_there_are(kind: Any, seed: int, by: tuple[int, ...]) -> None:
    """After any changes, as if computed from the beginning; and the updates alone lead a follower there."""
    chance = random.Random(seed)
    source = kind(UpdateGraph())
    table = source.table
    for _ in range(chance.randrange(3)):
        source.change(chance)
    names = [table.schema.names[number] for number in by]
    made = agg_by([table], AGGREGATIONS, names and [f"by{place} = {name}" for place, name in enumerate(names)])
    watch = Watch(made)
    for _ in range(8):
        source.change(chance)
        groups = grouped(plain_rows(table), by)
        found = {
            tuple(cell(0.0 if value == 0 and isinstance(value, float) else value) for value in row[: len(by)]): row
            for row in plain_rows(made)
        }
        assert found.keys() == groups.keys()
        assert made.size == len(groups)
        for key, rows in groups.items():
            for value, wanted in zip(found[key][len(by) :], expected(rows), strict=True):
                assert same(value, wanted), (rows, value, wanted)
    watch.check_held()


SCHEMA: Final = {"k": "int64", "g": "string", "v": "float64", "i": "int64"}


def keyed() -> KeyedTable:
    return KeyedTable(UpdateGraph(), "t", SCHEMA, ["k"])


def column(table: Table, name: str) -> list[Any]:
    values: list[Any] = table.to_arrow()[name].to_pylist()
    return values


def test_sums_do_not_drift() -> None:
    """What a large number has covered is there again when it has gone, after any number of changes."""
    table = keyed()
    made = agg_by([table], [agg.sum_("v"), agg.var("var = v")], ["g"])
    table.upsert({"k": [1, 2], "g": ["a", "a"], "v": [0.1, 0.2], "i": [0, 0]})
    before = made.to_arrow()
    chance = random.Random(7)
    for _ in range(200):
        table.upsert({"k": [3], "g": ["a"], "v": [chance.choice([1e16, -1e200, 1e308, math.inf])], "i": [0]})
        table.upsert({"k": [4], "g": ["a"], "v": [chance.choice([math.nan, 3.7e-9, 1e308])], "i": [0]})
        table.delete({"k": [3, 4]})
        assert made.to_arrow()["v"] == before["v"]
    assert math.isclose(column(made, "var")[0], 0.005, rel_tol=1e-12)


def test_a_sum_beyond_the_range_comes_back() -> None:
    table = keyed()
    made = agg_by([table], [agg.sum_("v"), agg.avg("mean = v")], [])
    table.upsert({"k": [1, 2, 3], "g": ["a"] * 3, "v": [1.7e308, 1.7e308, 1.0], "i": [0] * 3})
    assert column(made, "v") == [math.inf]
    table.delete({"k": [1]})
    assert column(made, "v") == [1.7e308]
    table.delete({"k": [2]})
    assert column(made, "v") == [1.0]


@pytest.mark.parametrize("order", [(math.inf, -math.inf), (-math.inf, math.inf)])
def test_infinities_of_both_signs_have_no_sum_whatever_the_other_numbers(order: tuple[float, float]) -> None:
    table = keyed()
    made = agg_by([table], [agg.sum_("v")], [])
    for key, value in enumerate((*order, 1.7e308, 1.7e308)):
        table.upsert({"k": [key], "g": ["a"], "v": [value], "i": [0]})
    assert repr(column(made, "v")) == "[nan]"
    table.upsert({"k": [2, 3], "g": ["a"] * 2, "v": [-1.7e308] * 2, "i": [0] * 2})
    assert repr(column(made, "v")) == "[nan]"


def test_sums_of_integers_wrap_around_and_means_do_not() -> None:
    most = (1 << 63) - 1
    table = keyed()
    made = agg_by([table], [agg.sum_("s = i"), agg.avg("m = i")], [])
    table.upsert({"k": [1, 2], "g": ["a", "a"], "v": [0.0, 0.0], "i": [most, most]})
    assert (column(made, "s"), column(made, "m")) == ([-2], [float(most)])
    table.delete({"k": [2]})
    assert (column(made, "s"), column(made, "m")) == ([most], [float(most)])


def test_unsigned_integers_keep_their_size() -> None:
    table = AppendTable(UpdateGraph(), "t", {"a": "uint64", "b": "uint8"})
    made = agg_by([table], [agg.sum_(["a", "b"]), agg.avg(["ma = a", "mb = b"]), agg.abs_sum("c = a")], [])
    table.append({"a": [(1 << 64) - 1, 0], "b": [255, 250]})
    row = made.to_arrow().to_pylist()[0]
    assert row == {"a": (1 << 64) - 1, "b": 505, "ma": float((1 << 64) - 1) / 2, "mb": 252.5, "c": (1 << 64) - 1}
    assert made.schema.field("a").type == pa.uint64()


def test_only_results_that_differ_are_modified() -> None:
    """An update that leaves a sum as it is changes nothing, and one column of it nothing of the others."""
    table = keyed()
    made = agg_by([table], [agg.sum_("v"), agg.count_("n")], ["g"])
    watch = Watch(made)
    table.upsert({"k": [1, 2, 3], "g": ["a", "a", "b"], "v": [1.0, 2.0, 5.0], "i": [0, 0, 0]})
    table.upsert({"k": [1, 2], "g": ["a", "a"], "v": [2.0, 1.0], "i": [1, 1]})
    assert len(watch.updates) == 1
    table.upsert({"k": [1], "g": ["a"], "v": [2.5], "i": [1]})
    update = watch.updates[-1]
    assert [rows.size for rows in update.modified] == [0, 1, 0]
    assert not update.added
    assert not update.removed


def test_groups_that_have_gone_are_forgotten_when_they_outnumber_the_others() -> None:
    """Row keys stay few, the state does not grow, and the rows keep their order."""
    table = keyed()
    made = agg_by([table], [agg.sum_("v"), agg.avg("m = v"), agg.var("s = i"), agg.count_("n")], ["g"])
    watch = Watch(made)
    table.upsert({"k": [-1, -2], "g": ["first", "second"], "v": [1.0, 2.0], "i": [1, 2]})
    sizes = []
    for batch in range(12):
        keys = np.arange(batch * 700, (batch + 1) * 700)
        table.upsert({"k": keys, "g": [f"g{key:07}" for key in keys], "v": keys / 7, "i": keys})
        if batch % 2:
            table.delete({"k": np.arange((batch + 1) * 700 - 3)})
        sizes.append(made.nbytes - table.nbytes)
        rows = {row["g"]: row for row in made.to_arrow().to_pylist()}
        assert len(rows) == table.size
        assert [rows["first"][name] for name in ("v", "m", "n")] == [1.0, 1.0, 1]
        assert all(row["v"] == row["m"] for row in rows.values())
    assert column(made, "g")[:2] == ["first", "second"]
    assert made.version.row_set.last_key < 4_000
    assert any(update.shifted.size for update in watch.updates)
    assert max(sizes[6:]) < 1.5 * max(sizes[:6])
    watch.check_held()


def test_a_group_that_comes_back_is_new() -> None:
    table = keyed()
    made = agg_by([table], [agg.count_("n")], ["g"])
    watch = Watch(made)
    table.upsert({"k": [1], "g": ["a"], "v": [1.0], "i": [1]})
    table.delete({"k": [1]})
    table.upsert({"k": [2], "g": ["a"], "v": [1.0], "i": [1]})
    assert [(update.added.size, update.removed.size) for update in watch.updates] == [(1, 0), (0, 1), (1, 0)]


def test_rows_of_a_blink_table_stay_counted() -> None:
    table = BlinkTable(UpdateGraph(), "t", {"g": "string", "v": "int64"})
    made = agg_by([table], [agg.sum_("v"), agg.count_("n")], ["g"])
    for _ in range(5):
        table.append({"g": ["a", "b"], "v": [1, 10]})
    assert made.to_arrow().to_pydict() == {"g": ["a", "b"], "v": [5, 50], "n": [5, 5]}


def test_a_value_of_each_group_is_kept_of_a_blink_table() -> None:
    """The smallest, largest, first and last ones of all rows that ever came, as of a table that keeps them."""
    graph, chance = UpdateGraph(), random.Random(11)
    blink, kept = BlinkTable(graph, "b", SOURCE_SCHEMA), AppendTable(graph, "a", SOURCE_SCHEMA)
    wanted = [each for each in AGGREGATIONS if each.function not in ("median", "pct")]
    for by in ([], ["text"]):
        made, other = agg_by([blink], wanted, by), agg_by([kept], wanted, by)
        watch = Watch(made)
        for _ in range(20):
            rows = to_table([make_row(chance) for _ in range(chance.choice([0, 1, 2, 30]))])
            blink.append(rows)
            kept.append(rows)
        groups = grouped(plain_rows(kept), [_TEXT] if by else [])
        assert made.size == len(groups)
        for row, rows in zip(plain_rows(made), groups.values(), strict=True):
            for name, value in zip(made.schema.names[len(by) :], row[len(by) :], strict=True):
                (place,) = [number for number, known in enumerate(NAMES) if known == name]
                assert same(value, expected(rows)[place]), name
        assert repr(plain_rows(made)) == repr(plain_rows(other))
        watch.check_problems()
        blink, kept = BlinkTable(graph, "b", SOURCE_SCHEMA), AppendTable(graph, "a", SOURCE_SCHEMA)


def test_rows_that_never_leave_need_no_order() -> None:
    """A value for each group takes nothing for each row."""
    schema = {"g": "int64", "v": "float64", "s": "string"}
    made, taken = [agg.min_("v"), agg.max_("m = s"), agg.last("l = s"), agg.sorted_first("v", "f = s")], []
    for rows in (20_000, 200_000):
        table = AppendTable(UpdateGraph(), "t", schema)
        keys = np.arange(rows)
        result = agg_by([table], made, ["g"])
        for part in np.array_split(keys, rows // 10_000):
            table.append({"g": part % 10, "v": -part / 3, "s": [f"text {key}" for key in part]})
        taken.append(result.nbytes - table.nbytes)
        assert result.to_arrow().to_pylist()[3]["l"] == f"text {rows - 7}"
    assert taken[1] < taken[0] + 1_000_000


def test_types_of_results_are_those_of_deephaven() -> None:
    """Of floats sums and medians are floats; weighted sums of integers are integers, which wrap around."""
    floats, integers = ["f", "h"], ["i", "b"]
    types = {"f": pa.float32(), "h": pa.float16(), "d": pa.float64(), "i": pa.int64(), "b": pa.int8(), "u": pa.uint64()}
    table = AppendTable(UpdateGraph(), "t", types)
    halves = np.array([0.5, 2.0], np.float16)
    table.append({"f": [0.5, 2.0], "h": halves, "d": [3.0, 4.0], "i": [2**62, 3], "b": [2, -5], "u": [1, 2]})
    for wanted, values in ((agg.sum_(floats), (2.5, 2.5)), (agg.median(floats), (1.25, 1.25))):
        made = agg_by([table], [wanted], [])
        assert made.schema.types == [pa.float32()] * 2
        assert plain_rows(made) == [values]
    assert agg_by([table], [agg.avg(floats)], []).schema.types == [pa.float64()] * 2
    made = agg_by([table], [agg.weighted_sum("i", integers), agg.weighted_sum("b", ["x = d", "y = u"])], [])
    assert dict(zip(made.schema.names, made.schema.types, strict=True)) == {
        "i": pa.int64(),
        "b": pa.int64(),
        "x": pa.float64(),
        "y": pa.float64(),
    }
    (row,) = plain_rows(made)
    assert row == (9, -(2**63) - 15 + 2**64, -14.0, -8.0)


def test_weighted_sums_of_integers_leave_out_nulls_and_rows_that_go() -> None:
    table = KeyedTable(UpdateGraph(), "t", {"k": "int64", "w": "int16", "v": "int32"}, ["k"])
    made = agg_by([table], [agg.weighted_sum("w", "v")], [])
    table.upsert({"k": [1, 2, 3, 4], "w": [2, None, 3, 5], "v": [10, 20, None, -4]})
    assert plain_rows(made) == [(0,)]
    table.delete({"k": [4]})
    assert plain_rows(made) == [(20,)]
    table.delete({"k": [1]})
    assert plain_rows(made) == [(None,)]


def test_rows_of_a_blink_table_are_not_kept_for_an_order() -> None:
    table = BlinkTable(UpdateGraph(), "t", {"g": "string", "v": "int64"})
    for wanted in (agg.median("v"), agg.pct(0.5, "v")):
        with pytest.raises(InvalidRequestError, match="which a blink table does not keep"):
            agg_by([table], [wanted], ["g"])


def test_first_and_last_rows_of_groups() -> None:
    """Whole rows, of any types; the last one is another when a row comes, and the former one when it goes."""
    table = KeyedTable(UpdateGraph(), "t", {"k": "int64", "g": "string", "tags": pa.list_(pa.string())}, ["k"])
    first, last = table.first_by("g"), table.last_by("g")
    table.upsert({"k": [1, 2, 3], "g": ["a", "b", "a"], "tags": [["x"], None, ["y", "z"]]})
    assert first.to_arrow().to_pylist() == [{"g": "a", "k": 1, "tags": ["x"]}, {"g": "b", "k": 2, "tags": None}]
    assert last.to_arrow().to_pylist() == [{"g": "a", "k": 3, "tags": ["y", "z"]}, {"g": "b", "k": 2, "tags": None}]
    table.delete({"k": [3]})
    assert last.to_arrow() == first.to_arrow()
    assert table.max_by("g").schema.names == ["g", "k"]


def test_distinct_values_come_in_the_order_of_their_appearance() -> None:
    table = AppendTable(UpdateGraph(), "t", {"a": "string", "b": "float64"})
    one, both = select_distinct([table], ["a"]), select_distinct([table], [])
    table.append({"a": ["z", "y", "z", None], "b": [0.0, 1.0, -0.0, math.nan]})
    table.append({"a": [None, "x"], "b": [math.nan, None]})
    assert column(one, "a") == ["z", "y", None, "x"]
    assert both.size == 4
    assert both.key_columns == ("a", "b")


def test_rows_of_columns_of_nulls() -> None:
    """Their type has no bitmap of what is null."""
    table = KeyedTable(UpdateGraph(), "t", pa.schema([("k", pa.int64()), ("v", pa.null())]), ["k"])
    ranked = [agg.min_("a=v"), agg.median("b=v"), agg.first("c=v"), agg.sorted_last("v", "d=k")]
    made = agg_by([table], [*ranked, agg.count_("n")], [])
    for key in (1, 2):
        table.upsert({"k": [key], "v": [None]})
    assert plain_rows(made) == [(None, None, None, 2, 2)]


def test_a_mean_and_a_sum_of_one_column_have_one_state() -> None:
    table = keyed()
    both = agg_by([table], [agg.sum_("s = v"), agg.avg("m = v"), agg.abs_sum("a = v")], ["g"])
    alone = agg_by([table], [agg.sum_("s = v"), agg.abs_sum("a = v")], ["g"])
    table.upsert({"k": [1, 2, 3], "g": ["a", "a", "b"], "v": [1.5, -2.5, math.nan], "i": [3, 4, 5]})
    assert plain_rows(both)[0] == ("a", -1.0, -0.5, 4.0)
    table.upsert({"k": [2, 3], "g": ["b", "a"], "v": [7.0, None], "i": [3, 4]})
    assert plain_rows(both) == [("a", 1.5, 1.5, 1.5), ("b", 7.0, 7.0, 7.0)]
    assert both.nbytes < alone.nbytes * 1.2
    table.delete({"k": [1, 3]})
    assert plain_rows(both) == [("b", 7.0, 7.0, 7.0)]


def test_all_columns_with_numbers() -> None:
    table = keyed()
    made = agg_all_by([table], agg.sum_(), ["g"])
    table.upsert({"k": [1, 2], "g": ["a", "a"], "v": [1.5, 2.5], "i": [3, 4]})
    assert made.to_arrow().to_pydict() == {"g": ["a"], "k": [3], "v": [4.0], "i": [7]}


def test_a_static_table_gives_a_static_one() -> None:
    table = keyed()
    table.upsert({"k": [1, 2], "g": ["a", "b"], "v": [1.5, 2.5], "i": [3, 4]})
    version = table.version
    static = StaticTable(table.graph, "s", table.schema, version.row_set, version.views)
    made = agg_all_by([static], agg.sum_(), ["g"])
    table.upsert({"k": [3], "g": ["c"], "v": [1.0], "i": [1]})
    assert made.to_arrow().to_pydict() == {"g": ["a", "b"], "k": [1, 2], "v": [1.5, 2.5], "i": [3, 4]}
    assert not made.is_refreshing


WRONG: dict[str, tuple[Callable[[Table], Table], type[Exception], str]] = {
    "column": (lambda table: agg_by([table], [agg.sum_("pric")], []), UnknownColumnError, "Did you mean 'price'"),
    "key": (lambda table: agg_by([table], [], ["pric"]), UnknownColumnError, "Did you mean 'price'"),
    "key of a formula": (
        lambda table: agg_by([table], [agg.formula("f = sum(price)")], ["pric"]),
        UnknownColumnError,
        "Did you mean 'price'",
    ),
    "text": (lambda table: agg_by([table], [agg.sum_("sym")], []), InvalidRequestError, "type string"),
    "weight": (lambda table: agg_by([table], [agg.weighted_avg("sym", "price")], []), InvalidRequestError, "'sym'"),
    "twice": (lambda table: agg_by([table], [agg.sum_("price")], ["price"]), InvalidRequestError, "twice"),
    "nothing": (lambda table: agg_by([table], [], []), InvalidRequestError, "Give aggregations"),
    "function": (lambda table: agg_by([table], [Aggregation("summ", ("a",))], []), InvalidRequestError, "'sum'"),
    "no columns": (lambda table: agg_by([table], [agg.sum_()], []), InvalidRequestError, "needs columns"),
    "no weight": (
        lambda table: agg_by([table], [Aggregation("weighted_avg", ("price",))], []),
        InvalidRequestError,
        "weights",
    ),
    "list": (lambda table: agg_by([table], [agg.count_("n")], ["items"]), UnsupportedTypeError, "items|list"),
    "pair": (lambda table: agg_by([table], [agg.sum_("a = ")], []), InvalidRequestError, "written"),
    "all of none": (lambda table: agg_all_by([table], agg.avg(), ["price"]), InvalidRequestError, "no columns"),
    "no order": (lambda table: agg_by([table], [agg.min_("items")], []), InvalidRequestError, "have an order"),
    "share": (lambda table: agg_by([table], [agg.pct(1.5, "price")], []), InvalidRequestError, "from 0 to 1"),
    "order": (
        lambda table: agg_by([table], [Aggregation("sorted_last", ("price",))], []),
        InvalidRequestError,
        "ordered by",
    ),
    "all with columns": (lambda table: agg_all_by([table], agg.avg("price"), []), InvalidRequestError, "without"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_computed_is_refused_at_once(case: str) -> None:
    make, error, words = WRONG[case]
    table = AppendTable(UpdateGraph(), "t", {"sym": "string", "price": "float64", "items": pa.list_(pa.int64())})
    with pytest.raises(error, match=words):
        make(table)
    assert len(table.children) == 0


def test_a_cycle_reads_changed_rows_only() -> None:
    """Ten rows of a hundred thousand cost the reading of twenty: as they were, and as they are."""
    table = keyed()
    keys = np.arange(100_000)
    table.upsert({"k": keys, "g": [f"g{key % 10}" for key in keys], "v": keys / 3, "i": keys})
    made = agg_by([table], [agg.sum_("v")], ["g"])
    read: list[int] = []
    read_view = StoredView.read

    def counted(self: StoredView, plan: ReadPlan) -> Any:
        read.append(plan.size)
        return read_view(self, plan)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoredView, "read", counted)
        table.upsert({"k": keys[:10], "g": ["g1"] * 10, "v": [0.5] * 10, "i": keys[:10]})
    assert read == [10] * 4  # two columns each
    assert made.size == 10


@pytest.mark.parametrize("func", [agg.sum_, agg.abs_sum, agg.avg])
def test_values_that_rows_have_had_leave_no_trace_in_sums(func: Any) -> None:
    """Rows that stay in their groups, of which some or all have other values: of any size, NaN, infinite and null."""
    chance = random.Random(7)
    table = KeyedTable(UpdateGraph(), "t", {"id": "int64", "g": "int64", "x": "float64"}, "id")
    values: dict[int, float | None] = {number: float(number) for number in range(12)}

    def write(ids: list[int]) -> None:
        table.upsert({"id": ids, "g": [each % 3 for each in ids], "x": [values[each] for each in ids]})

    write(list(values))
    made = table.agg_by(func("s = x"), "g")
    usual = [1e300, -1e300, 1e-300, 0.1, -0.1, 3.0]
    for turn in range(120):
        unusual = [None, float("nan"), float("inf"), -float("inf"), 1.7e308] if turn % 3 else []
        changed = chance.sample(sorted(values), chance.choice([1, 3, 12]))
        values |= {each: chance.choice([*usual, *unusual]) for each in changed}
        write(changed)
        fresh = table.snapshot().agg_by(func("s = x"), "g")
        assert cells_of(plain_rows(made)) == cells_of(plain_rows(fresh))
    values |= dict.fromkeys(values, 0.5)
    write(sorted(values))
    assert plain_rows(made)[0][1] == plain_rows(table.snapshot().agg_by(func("s = x"), "g"))[0][1]


@pytest.mark.parametrize("before", [0, 1])
def test_rows_of_a_blink_table_that_come_and_go_beside_the_start_are_counted(before: int) -> None:
    """As those that are there at the start are, and those that come later."""
    blink = BlinkTable(UpdateGraph(), "blink", {"x": "int64"})
    blink.append({"x": [0] * before})
    with pytest.MonkeyPatch.context() as patch:
        attach = UpdateGraph.attach

        def attach_late(self: UpdateGraph, table: Any) -> None:
            for number in (1, 2, 3):
                blink.append({"x": [number]})
            AppendTable(self, "other", {"x": "int64"}).append({"x": [1]})  # the cycle in which the last row leaves
            attach(self, table)

        patch.setattr(UpdateGraph, "attach", attach_late)
        made = agg_by([blink], [agg.count_("n"), agg.sum_("s = x"), agg.first("f = x"), agg.max_("m = x")], [])
    watch = Watch(made)
    blink.append({"x": [4]})
    assert plain_rows(made) == [(before + 4, 10, 0 if before else 1, 4)]
    watch.check_held()


def test_there_are_at_most_ten_thousand_results() -> None:
    sums = [agg.sum_([f"{letter}{number} = v" for number in range(5_001)]) for letter in "xy"]
    with pytest.raises(LimitError, match=r"at most 10,000 results \(operation_results\), not 10,002"):
        agg_by([keyed()], sums, ["g"])
