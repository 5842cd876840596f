"""Columns of every type can be read; results have the types of the page."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.formula import compile_formula

UTC = pa.timestamp("ns", "UTC")


def evaluate(formula: str, array: pa.Array) -> pa.Array:
    compiled = compile_formula(formula, {"x": array.type})
    whole = compiled.evaluate({"x": array}, len(array))
    assert whole.type == compiled.type
    whole.validate(full=True)
    part = compiled.evaluate({"x": array.slice(1)}, len(array) - 1)
    assert part.equals(whole.slice(1))
    return whole


@pytest.mark.parametrize(
    ("arrow", "values", "formula", "result", "wanted"),
    [
        (pa.uint8(), [200, None, 3], "x + 100", pa.int32(), [300, None, 103]),
        (pa.uint16(), [65535, None, 97], "x + 1", pa.int32(), [65536, None, 98]),
        (pa.uint32(), [2**32 - 1, None, 3], "x + 1", pa.int64(), [2**32, None, 4]),
        (pa.uint64(), [2**64 - 1, None, 3], "x + 1", pa.decimal128(21, 0), [Decimal(2**64), None, Decimal(4)]),
        (pa.uint64(), [2**64 - 1, None, 3], "x * 2", pa.decimal256(40, 0), [Decimal(2**65 - 2), None, Decimal(6)]),
        (pa.uint64(), [2**64 - 1, None, 3], "x * x > 9", pa.bool_(), [True, False, False]),
        (pa.decimal128(30, 2), [Decimal("1.25"), None], "x * x", pa.decimal256(61, 4), [Decimal("1.5625"), None]),
        (pa.decimal128(38, 2), [Decimal("1.25"), None], "x + 1", pa.decimal256(39, 2), [Decimal("2.25"), None]),
        (pa.uint64(), [2**64 - 1, None, 3], "x > 5", pa.bool_(), [True, False, False]),
        (pa.float16(), [1.5, None, -2.0], "x * 2", pa.float32(), [3.0, None, -4.0]),
        (pa.decimal128(5, 2), [Decimal("1.50"), None, Decimal(-3)], "x == 1.5", pa.bool_(), [True, False, False]),
        (pa.decimal128(5, 2), [Decimal("1.50"), None, Decimal(-3)], "(int)x", pa.int32(), [1, None, -3]),
        (pa.decimal128(5, 2), [Decimal("1.50"), None, Decimal(-3)], "x / 2", pa.float64(), [0.75, None, -1.5]),
        (pa.decimal128(5, 2), [Decimal("1.50"), None, Decimal(-3)], "x in 1.5, -3", pa.bool_(), [True, False, True]),
        (pa.large_string(), ["a", None, ""], "x + `b`", pa.string(), ["ab", "nullb", "b"]),
        (pa.timestamp("s"), [5, None, -5], "epochMillis(x)", pa.int64(), [5000, None, -5000]),
        (pa.timestamp("us", "Europe/Paris"), [5, None, -5], "epochNanos(x)", pa.int64(), [5000, None, -5000]),
        (pa.timestamp("s"), [2**40, None, -(2**40)], "epochNanos(x)", pa.int64(), [None, None, None]),
        (pa.date64(), [date(2024, 2, 29), None, date(1969, 12, 31)], "dayOfMonth(x)", pa.int32(), [29, None, 31]),
        (pa.date64(), [date(2024, 2, 29), None, date(1970, 1, 1)], "x + 'P1D'", pa.date32(), None),
        (pa.time32("s"), [time(1, 2, 3), None, time(0)], "secondOfDay(x)", pa.int32(), [3723, None, 0]),
        (pa.time64("us"), [time(1), None, time(0)], "nanosOfDay(x)", pa.int64(), [3_600_000_000_000, None, 0]),
        (pa.duration("ms"), [timedelta(seconds=1), None, timedelta(0)], "x.toNanos()", pa.int64(), [10**9, None, 0]),
        (pa.duration("s"), [2**40, None, 1], "x.toNanos()", pa.int64(), [None, None, 10**9]),
        (pa.large_list(pa.int8()), [[1, None, 2], None, []], "sum(x)", pa.int64(), [3, None, None]),
        (pa.list_(pa.int64(), 2), [[1, 2], None, [3, None]], "sum(x)", pa.int64(), [3, None, 3]),
        (pa.list_(pa.int64(), 2), [[1, 2], None, [3, None]], "x[1]", pa.int64(), [2, None, None]),
        (pa.list_(pa.string()), [["a", None], None, []], "first(x)", pa.string(), ["a", None, None]),
        (pa.list_(pa.string()), [["a", None], None, ["b", "a"]], "in(`a`, x)", pa.bool_(), [True, False, True]),
        (pa.list_(pa.string()), [["a", None], None, ["b", "a"]], "firstIndexOf(`a`, x)", pa.int64(), [0, None, 1]),
        (pa.list_(pa.date32()), [[date(2024, 1, 1)], None, []], "last(x)", pa.date32(), [date(2024, 1, 1), None, None]),
        (pa.struct({"a": pa.int8()}), [{"a": 1}, None, {"a": None}], "x == null", pa.bool_(), [False, True, False]),
        (pa.binary(), [b"a", None, b"b"], "x == x", pa.bool_(), [True, True, True]),
        (pa.null(), [None, None, None], "isNull(x)", pa.bool_(), [True, True, True]),
        (pa.null(), [None, None, None], "x == null", pa.bool_(), [True, True, True]),
        (pa.bool_(), [True, None, False], "x ? 1 : 2", pa.int32(), [1, 2, 2]),
        (pa.bool_(), [True, None, False], "!x", pa.bool_(), [False, None, True]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_types_are_read(arrow: pa.DataType, values: list[Any], formula: str, result: Any, wanted: Any) -> None:
    found = evaluate(formula, pa.array(values, arrow))
    assert found.type == result
    if wanted is not None:
        assert found.to_pylist() == wanted


@pytest.mark.parametrize(
    "arrow",
    [
        pa.struct({"a": pa.int8()}),
        pa.map_(pa.string(), pa.int8()),
        pa.binary(),
        pa.binary(3),
        pa.list_(pa.struct({"a": pa.int8()})),
        pa.list_(pa.list_(pa.int8())),
        pa.list_view(pa.int8()),
        pa.uuid(),
        pa.decimal256(70, 3),
    ],
    ids=str,
)
def test_values_of_other_types_are_passed_on(arrow: pa.DataType) -> None:
    array = pa.nulls(3, arrow)
    assert compile_formula("x", {"x": arrow}).type == arrow
    compiled = compile_formula("x_[ii]", {"x": arrow})
    found = compiled.evaluate({}, 3, pa.array([0, 1, 2]).to_numpy(), lambda name, places: array)
    assert (found.type, len(found)) == (arrow, 3)
    assert evaluate("isNull(x)", array).to_pylist() == [True] * 3
    for formula in ("isNull(x) ? x_[ii] : x", "ii > 1 ? x : null"):
        chosen = compile_formula(formula, {"x": arrow})
        found = chosen.evaluate({"x": array}, 3, pa.array([0, 1, 2]).to_numpy(), lambda name, places: array)
        assert (found.type, len(found)) == (arrow, 3)


def test_arithmetic_of_other_types_is_refused() -> None:
    for arrow in (pa.struct({"a": pa.int8()}), pa.binary(), pa.list_(pa.int8()), pa.string(), pa.bool_()):
        for formula in ("x * 2", "-x", "x % x", "sqrt(x)", "x << 1"):
            with pytest.raises(InvalidRequestError, match="does not take"):
                compile_formula(formula, {"x": arrow})


def test_zones_have_their_clocks() -> None:
    array = pa.array([datetime(2024, 3, 10, 12), datetime(2024, 3, 10, 6), None], UTC)  # clocks change at 7:00
    assert evaluate("hourOfDay(x, 'ET')", array).to_pylist() == [8, 1, None]
    assert evaluate("hourOfDay(x, 'ET', false)", array).to_pylist() == [7, 1, None]
    assert evaluate("toInstant(toLocalDate(x, 'ET'), toLocalTime(x, 'ET'), 'ET') == x", array).to_pylist() == [True] * 3
    gap = compile_formula("toInstant('2024-03-10', '02:30', 'ET')", {}).evaluate({}, 1)
    assert gap.to_pylist() == evaluate("'2024-03-10T07:00Z' + 0 * epochNanos(x)", array).to_pylist()[:1]
    twice = compile_formula("toInstant('2024-11-03', '01:30', 'ET') == '2024-11-03T05:30Z'", {}).evaluate({}, 1)
    assert twice.to_pylist() == [True]
    offset = compile_formula("hourOfDay('2024-06-15T10:00Z', '+05:30')", {}).evaluate({}, 1)
    assert offset.to_pylist() == [15]


def test_half_a_surrogate_pair_has_a_text() -> None:
    array = pa.array([0xD800, 0x20AC, None], pa.uint16())
    assert evaluate("String.valueOf(x)", array).to_pylist() == ["?", "€", None]


def test_now_is_passed_in() -> None:
    formula = compile_formula("now() - x", {"x": UTC})
    assert not formula.is_pure
    assert formula.evaluate({"x": pa.array([1, None], UTC)}, 2, now=5).to_pylist() == [4, None]
    with pytest.raises(InvalidRequestError, match="now"):
        formula.evaluate({"x": pa.array([1], UTC)}, 1)


def test_chance_is_drawn_for_each_row() -> None:
    formula = compile_formula("randomInt(0, 1000000)", {})
    assert not formula.is_pure
    found = formula.evaluate({}, 1000)
    assert found.null_count == 0
    assert len(found.unique()) > 900
    twice = compile_formula("random() == random()", {}).evaluate({}, 100)
    assert not any(twice.to_pylist())


@pytest.mark.parametrize(
    ("call", "columns"),
    [
        ("randomInt(5, 1)", "randomInt(x, y)"),
        ("randomInt(5, 5)", "randomInt(x, 5)"),
        ("randomLong(5, -1)", "randomLong(5, y)"),
        ("randomDouble(2.5, 1)", "randomDouble(x, y)"),
        ("randomDouble(NAN_DOUBLE, 1)", "randomDouble(x + NAN_DOUBLE, 9)"),
    ],
)
def test_bounds_the_wrong_way_round_are_refused_in_literals_and_null_in_columns(call: str, columns: str) -> None:
    """Deephaven's servers fail at both."""
    with pytest.raises(InvalidRequestError, match=r"the first bound must be below the second\. This is at character 1"):
        compile_formula(call, {})
    given = {"x": pa.array([5, 5], pa.int32()), "y": pa.array([-1, 4], pa.int32())}
    made = compile_formula(columns, {name: array.type for name, array in given.items()})
    assert made.evaluate(given, 2).to_pylist() == [None, None]
    for text in ("randomInt(null, 5)", "randomLong(5, null)"):
        assert compile_formula(text, {}).evaluate({}, 1).to_pylist() == [None]


NUMBERS = {
    "b": pa.array([0, 1, 2, 3], pa.int8()),
    "x": pa.array([0, None, 2, 3], pa.int32()),
    "l": pa.array([0, 5, 10, 15], pa.int64()),
    "f": pa.array([0, None, 3, 4.5], pa.float32()),
    "d": pa.array([0, 0.5, float("nan"), 1.5], pa.float64()),
    "c": pa.array([97, 98, 99, 100], pa.uint16()),
}


@pytest.mark.parametrize(
    ("formula", "result", "wanted"),
    [
        ("sum(b)", pa.int64(), [0, 1, 2, 3]),
        ("sum(x)", pa.int64(), [0, None, 2, 3]),
        ("sum(c)", pa.int64(), [97, 98, 99, 100]),
        ("sum(f)", pa.float64(), [0.0, None, 3.0, 4.5]),
        ("sum(d)", pa.float64(), [0.0, 0.5, float("nan"), 1.5]),
        ("sum(x, l)", pa.int64(), [0, 5, 12, 18]),
        ("sum(x, x)", pa.int64(), [0, None, 4, 6]),
        ("sum(x, f)", pa.float64(), [0.0, None, 5.0, 7.5]),
        ("sum(f, d)", pa.float64(), [0.0, 0.5, float("nan"), 6.0]),
        ("min(x)", pa.int32(), [0, None, 2, 3]),
        ("max(b)", pa.int8(), [0, 1, 2, 3]),
        ("min(f)", pa.float32(), [0.0, None, 3.0, 4.5]),
        ("max(d)", pa.float64(), [0.0, 0.5, float("nan"), 1.5]),
        ("min(c)", pa.uint16(), [97, 98, 99, 100]),
        ("sum(1, 2.5)", pa.float64(), [3.5] * 4),
    ],
)
def test_sums_and_extremes_of_single_numbers(formula: str, result: pa.DataType, wanted: list[Any]) -> None:
    """As on a Deephaven server 42.7, whose functions take any number of arguments."""
    compiled = compile_formula(formula, {name: array.type for name, array in NUMBERS.items()})
    found = compiled.evaluate(NUMBERS, 4)
    assert (found.type, repr(found.to_pylist())) == (result, repr(wanted))


@pytest.mark.parametrize(
    ("arrow", "values", "formula", "wanted"),
    [
        (pa.int32(), [0, None, -2], "'2001-01-31' + (x * 'P1D')", [date(2001, 1, 31), None, date(2001, 1, 29)]),
        (pa.int32(), [0, None, 2], "'2001-01-31' - 'P1W' * x", [date(2001, 1, 31), None, date(2001, 1, 17)]),
        (pa.int8(), [0, None, 1], "'2001-01-31'.plus(x * 'P1D')", [date(2001, 1, 31), None, date(2001, 2, 1)]),
        (pa.int32(), [1, None, 2**31 - 1], "'1970-01-01' + x * 'P2D'", [date(1970, 1, 3), None, None]),
        (pa.int32(), [1, None, 0], "'1970-01-01' + ('P2D' - x * 'P1D')", [date(1970, 1, 2), None, date(1970, 1, 3)]),
        (pa.int64(), [0, None, 1], "'12:34:56'.plus(x * 'PT12H')", [time(12, 34, 56), None, time(0, 34, 56)]),
        (pa.int64(), [0, None, 1], "'12:34:56'.minus(x * 'PT13H')", [time(12, 34, 56), None, time(23, 34, 56)]),
        (
            pa.int64(),
            [2**63 // 10**9, None, 2],
            "'23:00:00'.plus(x * 'PT1S')",
            [time(22, 47, 16), None, time(23, 0, 2)],
        ),
    ],
)
def test_times_are_moved_by_multiples(arrow: pa.DataType, values: list[Any], formula: str, wanted: list[Any]) -> None:
    """As on a Deephaven server 42.7, which refuses periods that no int of days holds."""
    assert evaluate(formula, pa.array(values, arrow)).to_pylist() == wanted


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("'2001-01-31' + x * 'P1D'", "'*' does not take a long and a Period."),
        ("'12:34:56' + x * 'PT1S'", "'+' does not take a LocalTime and a Duration."),
        ("'2001-01-31'.plus('PT1S')", "'plus' of a LocalDate does not take (a literal Duration); it takes (Period)."),
        ("'12:34:56'.plus('P1D')", "'plus' of a LocalTime does not take (a literal Period); it takes (Duration)."),
        ("at.minus(x)", "'minus' of an Instant does not take (long); it takes (Duration) or (Period)."),
    ],
)
def test_what_deephaven_does_not_move_is_refused(formula: str, text: str) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(text)):
        compile_formula(formula, {"x": pa.int64(), "at": UTC})


@pytest.mark.parametrize(
    ("formula", "result", "wanted"),
    [
        ("(Instant)'2024-06-15T10:00:00Z' + x * SECOND == '2024-06-15T10:00:01Z'", pa.bool_(), [False, True]),
        ("(Instant)null", UTC, [None, None]),
        ("x == 0 ? (LocalDate)null : '2024-06-15'", pa.date32(), [None, date(2024, 6, 15)]),
        ("(LocalTime)'10:00:00'", pa.time64("ns"), [time(10)] * 2),
        ("(Duration)'PT1S' * (int)x == 'PT1S'", pa.bool_(), [False, True]),
    ],
)
def test_times_are_cast_to_their_own_classes(formula: str, result: pa.DataType, wanted: list[Any]) -> None:
    found = evaluate(formula, pa.array([0, 1], pa.int64()))
    assert (found.type, found.to_pylist()) == (result, wanted)


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("m * m", "'*' does not take a BigDecimal and a BigDecimal. The result may need more than 76 digits: take"),
        ("abs(u)", "it takes (number). A BigDecimal is no number there: take '(double)x'."),
        (
            "ifelse(true, i, `a`)",
            "it takes (boolean, any, any). Where it takes 'any' more than once, these have one type.",
        ),
        ("zzz", "There is no column 'zzz'. Columns: i, m, u, s, c0, c1, c2, c3, and 5 more. This is at"),
        (
            "s.repeat(100000)",
            "'repeat': a text is repeated 0 to 10000 times. This is at character 3 of the formula: s.»",
        ),
        ("i +\n nope", "This is at character 6 of the formula: i +\\n »nope"),
        (
            "(" * 70 + "i" + ")" * 70,
            "A formula is nested at most 64 levels deep (formula_depth). This is at character 65 of the",
        ),
    ],
)
def test_texts_of_errors_name_the_rule_and_the_place_in_one_line(formula: str, text: str) -> None:
    columns = {"i": pa.int64(), "m": pa.decimal128(38, 2), "u": pa.uint64(), "s": pa.string()}
    columns |= {f"c{number}": pa.int64() for number in range(9)}
    with pytest.raises((InvalidRequestError, LimitError), match=re.escape(text)) as error:
        compile_formula(formula, columns)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("formula", ["(Instant)'PT1S'", "(Instant)x", "(LocalDate)'10:00:00'", "(Duration)(x)"])
def test_no_other_type_is_cast_to_a_time(formula: str) -> None:
    with pytest.raises(InvalidRequestError, match="cannot be cast"):
        compile_formula(formula, {"x": pa.int64()})


def test_columns_with_names_of_casts_are_read_in_parentheses() -> None:
    array = pa.array([5, 6], pa.int64())
    columns = {"Instant": array.type, "Duration": array.type}
    for formula, wanted in [
        ("(Instant) - 2", [3, 4]),
        ("(Instant) * (Duration)", [25, 36]),
        ("(Instant) in 5", [True, False]),
        ("(Duration)", [5, 6]),
    ]:
        found = compile_formula(formula, columns).evaluate({"Instant": array, "Duration": array}, 2)
        assert found.to_pylist() == wanted, formula
