"""Conditions that are trees: what holds for which values, and what is refused."""

from __future__ import annotations

import math
import re
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import AppendTable, UpdateGraph
from barrage_server.errors import InvalidRequestError, LimitError, UnknownColumnError
from barrage_server.formula.constant_comparisons import ConstantComparisons
from barrage_server.formula.inputs import SharedValues
from barrage_server.operations.condition import TreeCondition
from barrage_server.plan.condition import (
    All,
    AnyOf,
    BigDecimal,
    Column,
    Compare,
    Comparison,
    Condition,
    Contains,
    Instant,
    IsNan,
    IsNull,
    LocalDate,
    Matches,
    Not,
    OneOf,
    Search,
)

SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("u", pa.uint64()),
        ("l", pa.int64()),
        ("d", pa.float64()),
        ("f", pa.float32()),
        ("s", pa.string()),
        ("t", pa.large_string()),
        ("b", pa.bool_()),
        ("at", pa.timestamp("us", "UTC")),
        ("x", pa.list_(pa.int8())),
    ]
)
NUMBERS = [None, -3, 0, 1, 2, 7]
FLOATS = [None, -1.5, -0.0, 0.0, 1.0, 1.5, float("nan"), float("inf")]
TEXTS = [None, "", "a", "A", "ab", "xAby", "7", "ä", "a\nb"]
INTEGERS = "iul"
LITERALS: dict[str, list[Any]] = {
    "i": [0, 1, 1.5, -0.5, 1 << 40, -(1 << 40), float("nan"), float("inf"), float("-inf"), 1e30, -1e30],
    "u": [0, 1, 1.5, -1, 1 << 70, 2.0],
    "l": [0, 1, 1.5, (1 << 63) - 1, -(1 << 63)],
    "d": [0, 1.5, -0.0, float("nan"), float("inf"), 10**400, -(10**400)],
    "f": [0, 1.5, 0.1],
    "s": ["a", "", "AB", "Ä"],
    "t": ["a", "", "AB", "Ä"],
    "b": [True, False],
    "at": [Instant(0), Instant(1_500), Instant(1 << 80)],
}


def table() -> AppendTable:
    return AppendTable(UpdateGraph(), "t", SCHEMA)


rows = st.lists(
    st.tuples(
        st.sampled_from(NUMBERS),
        st.sampled_from([None, 0, 1, (1 << 64) - 1]),
        st.sampled_from([*NUMBERS, (1 << 63) - 1, -(1 << 63)]),
        st.sampled_from(FLOATS),
        st.sampled_from(FLOATS),
        st.sampled_from(TEXTS),
        st.sampled_from(TEXTS),
        st.sampled_from([None, True, False]),
        st.sampled_from([None, 0, 1, 2, 5]),
        st.just(None),
    ),
    max_size=8,
)


def evaluated(condition: Condition, given: list[tuple[Any, ...]]) -> list[bool]:
    made = TreeCondition(condition, table())
    cells = list(zip(*given, strict=True)) or [()] * len(SCHEMA)
    columns = [pa.array(list(column), field.type) for column, field in zip(cells, SCHEMA, strict=True)]
    inputs = {name: columns[SCHEMA.names.index(name)] for name in made.columns}
    found = made.evaluate(inputs, len(given))
    assert found.type == pa.bool_() and found.null_count == 0 and len(found) == len(given)
    if made.comparison is not None:
        number = SCHEMA.names.index(made.comparison.column)
        flags = ConstantComparisons().share([(number, made.comparison)])[0].flags(SharedValues(columns.__getitem__))
        assert (
            flags is None if columns[number].null_count else flags is not None and flags.tolist() == found.to_pylist()
        )
    return list(found.to_pylist())


@pytest.mark.parametrize(
    ("column", "value", "is_shared"),
    [
        *(("i", 1, True), ("i", 1.5, False), ("l", 1 << 63, False), ("u", 1, False)),
        *(("d", 1, True), ("d", 10**400, False), ("f", 0.1, True)),
        *(("s", "a", True), ("t", "a", True), ("b", False, True), ("at", Instant(0), False)),
    ],
)
def test_what_filters_of_one_table_compare_together(column: str, value: Any, is_shared: bool) -> None:
    made = TreeCondition(All((Compare(Comparison.EQUAL, value, Column(column)),)), table())
    assert (made.comparison is not None) is is_shared
    assert TreeCondition(Not(Compare(Comparison.EQUAL, Column(column), value)), table()).comparison is None


def compares(comparison: Comparison, left: Any, right: Any) -> bool:
    """Null equals null and is lowest; NaN is only unequal."""
    if any(isinstance(value, float) and math.isnan(value) for value in (left, right)):
        return comparison is Comparison.NOT_EQUAL
    if left is None or right is None:
        left, right = left is not None, right is not None
    return bool(
        {
            Comparison.LESS: left < right,
            Comparison.LESS_OR_EQUAL: left <= right,
            Comparison.GREATER: left > right,
            Comparison.GREATER_OR_EQUAL: left >= right,
            Comparison.EQUAL: left == right,
            Comparison.NOT_EQUAL: left != right,
        }[comparison]
    )


def as_number(value: Any) -> Any:
    """What a literal is compared as."""
    if isinstance(value, Instant):
        return value.nanoseconds / 1_000
    return value


def folded(value: Any, ignores_case: bool) -> Any:
    return value.lower() if ignores_case and isinstance(value, str) else value


@given(
    given=rows,
    column=st.sampled_from(list(LITERALS)),
    comparison=st.sampled_from(list(Comparison)),
    place=st.integers(0, 20),
    ignores_case=st.booleans(),
    exchanged=st.booleans(),
)
@settings(deadline=None, max_examples=300)
def test_comparisons_with_values(
    given: Any, column: str, comparison: Comparison, place: int, ignores_case: bool, exchanged: bool
) -> None:
    value = LITERALS[column][place % len(LITERALS[column])]
    left, right = (value, Column(column)) if exchanged else (Column(column), value)
    found = evaluated(Compare(comparison, left, right, ignores_case), given)
    cells = [row[SCHEMA.names.index(column)] for row in given]
    wanted = []
    for cell in cells:
        pair = [folded(cell, ignores_case), folded(as_number(value), ignores_case)]
        wanted.append(compares(comparison, *(reversed(pair) if exchanged else pair)))
    assert found == wanted


@given(
    given=rows,
    pair=st.sampled_from(["il", "iu", "ul", "id", "df", "st", "ss", "bb", "dd"]),
    comparison=st.sampled_from(list(Comparison)),
)
@settings(deadline=None, max_examples=150)
def test_comparisons_of_columns(given: Any, pair: str, comparison: Comparison) -> None:
    left, right = pair[0], pair[1]
    found = evaluated(Compare(comparison, Column(left), Column(right)), given)
    one, two = SCHEMA.names.index(left), SCHEMA.names.index(right)
    assert found == [compares(comparison, row[one], row[two]) for row in given]


@given(
    given=rows,
    column=st.sampled_from(list(LITERALS)),
    count=st.integers(0, 4),
    inverted=st.booleans(),
    ignores_case=st.booleans(),
)
@settings(deadline=None, max_examples=150)
def test_one_of(given: Any, column: str, count: int, inverted: bool, ignores_case: bool) -> None:
    """Null is one of none: no literal is null."""
    candidates = tuple(LITERALS[column][:count])
    found = evaluated(OneOf(Column(column), candidates, ignores_case, inverted), given)
    cells = [row[SCHEMA.names.index(column)] for row in given]
    wanted = [
        any(
            compares(Comparison.EQUAL, folded(cell, ignores_case), folded(as_number(one), ignores_case))
            for one in candidates
        )
        for cell in cells
    ]
    assert found == [one is not inverted for one in wanted]


ROWS: list[tuple[Any, ...]] = [
    (number, 1, 7, real, 0.0, text, text, True, 0, None)
    for number, real, text in zip([None, 1, 7, 7, 2, 0, 3, 4, 5], [*FLOATS, 2.0], TEXTS, strict=True)
]


EXACT: dict[str, tuple[pa.DataType, list[Any], list[Any]]] = {
    "exact": (
        pa.decimal128(38, 3),
        [
            None,
            Decimal("12345678901234567890123456789012345.678"),
            Decimal("-0.010"),
            Decimal("0.000"),
            Decimal("7.125"),
        ],
        [
            "12345678901234567890123456789012345.678",
            "12345678901234567890123456789012345.6781",
            "-0.01",
            "0",
            "7.1250000",
        ],
    ),
    "hundreds": (
        pa.decimal128(5, -2),
        [None, Decimal("1.2E+3"), Decimal("-1E+2"), Decimal(0)],
        ["1200", "-100.0", "0", "1250", "1200.5"],
    ),
    "day": (
        pa.date32(),
        [None, date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29)],
        [-1, 0, 19782, -719162, 1 << 40],
    ),
    "date64": (pa.date64(), [None, date(1969, 12, 31), date(9999, 12, 31)], [-1, 0, 2932896]),
}


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("comparison", Comparison)
def test_decimals_and_dates_are_compared_exactly(name: str, comparison: Comparison) -> None:
    """To the last digit, also with values that the column cannot have."""
    data_type, cells, literals = EXACT[name]
    made = AppendTable(UpdateGraph(), "t", pa.schema([("c", data_type)]))
    inputs = {"c": pa.array(cells, data_type)}
    epoch = date(1970, 1, 1)
    numbers = [None if cell is None else (cell - epoch).days if isinstance(cell, date) else cell for cell in cells]
    values: list[Any] = [LocalDate(one) if isinstance(one, int) else BigDecimal(one) for one in literals]
    for literal, value in zip(literals, values, strict=True):
        number = literal if isinstance(literal, int) else Decimal(literal)
        found = TreeCondition(Compare(comparison, Column("c"), value), made).evaluate(inputs, len(cells))
        assert found.to_pylist() == [compares(comparison, cell, number) for cell in numbers], value
    among = TreeCondition(OneOf(Column("c"), tuple(values)), made).evaluate(inputs, len(cells))
    exact = [literal if isinstance(literal, int) else Decimal(literal) for literal in literals]
    assert among.to_pylist() == [cell is not None and cell in exact for cell in numbers]


@pytest.mark.parametrize("digits", ["", "1e5", "0x1", "1.", ".5", "9" * 77, "1." + "1" * 76, "NaN", "\u0661", 5])
def test_a_decimal_is_digits(digits: Any) -> None:
    made = AppendTable(UpdateGraph(), "t", pa.schema([("c", pa.decimal128(9, 2))]))
    with pytest.raises(InvalidRequestError, match=r"decimal|digits"):
        TreeCondition(Compare(Comparison.EQUAL, Column("c"), BigDecimal(digits)), made)


def test_tests_of_texts_and_of_what_is_missing() -> None:
    def texts(condition: Condition) -> list[str | None]:
        return [row[5] for row, flag in zip(ROWS, evaluated(condition, ROWS), strict=True) if flag]

    for name in "st":
        column = Column(name)
        assert texts(Contains(column, "a")) == ["a", "ab", "a\nb"]
        assert texts(Contains(column, "a", ignores_case=True)) == ["a", "A", "ab", "xAby", "a\nb"]
        assert texts(Contains(column, "a", inverted=True)) == ["", "A", "xAby", "7", "ä"]
        assert texts(Contains(column, "Ä", ignores_case=True)) == ["ä"]
        assert texts(Matches(column, "a|b")) == ["a"]
        assert texts(Matches(column, "A.*", ignores_case=True)) == ["a", "A", "ab"]
        assert texts(Matches(column, "[a-z]*", inverted=True)) == ["A", "xAby", "7", "ä", "a\nb"]
        assert texts(IsNull(column)) == [None]
    assert texts(IsNan(Column("d"))) == ["7"]
    assert texts(Search("7")) == ROWS_WITH_7
    assert texts(Search("7", (Column("s"), Column("i")))) == ["a", "A", "7"]
    assert texts(Search("AB", (Column("s"),))) == ["ab", "xAby"]
    assert texts(Search("1e0", (Column("d"), Column("i")))) == ["ab"]
    assert texts(Search("zz", (Column("b"),))) == []


ROWS_WITH_7 = TEXTS  # in column l


def test_trees() -> None:
    low, big = Compare(Comparison.LESS, Column("i"), 3), Compare(Comparison.GREATER, Column("d"), 0)
    one, two = evaluated(low, ROWS), evaluated(big, ROWS)
    assert evaluated(All((low, big)), ROWS) == [a and b for a, b in zip(one, two, strict=True)]
    assert evaluated(AnyOf((low, big)), ROWS) == [a or b for a, b in zip(one, two, strict=True)]
    assert evaluated(Not(low), ROWS) == [not a for a in one]
    assert evaluated(All(()), ROWS) == [True] * len(ROWS)
    assert evaluated(AnyOf(()), ROWS) == [False] * len(ROWS)
    assert TreeCondition(All((low, big, low)), table()).columns == ("i", "d")


def nested(depth: int) -> Condition:
    condition: Condition = IsNull(Column("i"))
    for _ in range(depth):
        condition = Not(condition)
    return condition


@pytest.mark.parametrize(
    ("condition", "error", "text"),
    [
        (IsNull(Column("ii")), UnknownColumnError, r"'t' has no column 'ii'. Did you mean 'i'\?"),
        (Search("a", (Column("nope"),)), UnknownColumnError, "no column 'nope'"),
        (IsNan(Column("i")), InvalidRequestError, "'i' has the type int32, which has no NaN"),
        (Compare(Comparison.LESS, Column("i"), "a"), InvalidRequestError, "int32, and 'a' is no such value"),
        (Compare(Comparison.LESS, Column("s"), 1), InvalidRequestError, "string, and 1 is no such value"),
        (Compare(Comparison.LESS, Column("b"), 1), InvalidRequestError, "bool, and 1 is no such value"),
        (Compare(Comparison.LESS, Column("i"), True), InvalidRequestError, "int32, and True is no such value"),
        (Compare(Comparison.LESS, Column("x"), 1), InvalidRequestError, "list.*and 1 is no such value"),
        (Compare(Comparison.LESS, Column("x"), Column("x")), InvalidRequestError, "cannot be compared"),
        (Compare(Comparison.LESS, Column("s"), Column("i")), InvalidRequestError, "string and int32, which cannot"),
        (Compare(Comparison.LESS, 1, 2), InvalidRequestError, "needs a column on one side"),
        (Matches(Column("i"), "a"), InvalidRequestError, "'i' has the type int32, and not strings"),
        (Matches(Column("s"), "(a"), InvalidRequestError, "regular expression .* is not allowed: .*missing"),
        (Matches(Column("s"), "a)|(b"), InvalidRequestError, "is not allowed"),
        (Matches(Column("s"), "(?=a)"), InvalidRequestError, "is not allowed"),
        (Contains(Column("s"), "a" * 10_001), LimitError, "has 10,001 characters, and 10,000 is the most"),
        (Contains(Column("s"), "\ud800"), InvalidRequestError, "surrogate"),
        (nested(64), LimitError, "nested at most 64 levels deep"),
        (All((IsNull(Column("i")),) * 1_000), LimitError, "at most 1,000 parts"),
        (OneOf(Column("i"), tuple(range(100_001))), LimitError, "at most 100,000 candidates"),
    ],
)
def test_what_is_refused(condition: Condition, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        TreeCondition(condition, table())


def test_a_pathological_pattern_takes_linear_time() -> None:
    """The same text would take Python's expressions longer than the universe has."""
    condition = Matches(Column("s"), "(a+)+b")
    assert evaluated(condition, [(*ROWS[0][:5], "a" * 5_000, *ROWS[0][6:])]) == [False]
    assert re.fullmatch("(a+)+b", "aaab")
