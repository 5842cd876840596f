"""Conditions as text: what they choose, and that nothing else than a condition is one."""

from __future__ import annotations

import contextlib
import datetime
import operator
import re
import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine.condition import Condition
from barrage_server.errors import InvalidRequestError

SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("j", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("t", pa.string()),
        ("b", pa.bool_()),
    ]
)
Logic = bool | None
Test = Callable[[dict[str, Any]], Logic]
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-2, 2),
    "f": st.sampled_from([-1.5, -0.0, 0.0, 2.0, float("inf")]),
    "s": st.sampled_from(["", "a", "b", "it's", 'x"y', "ä\\"]),
    "b": st.booleans(),
}
SAME = {"i": "j", "s": "t"}
OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def both(left: Logic, right: Logic) -> Logic:
    """Kleene's and."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def negated(value: Logic) -> Logic:
    return None if value is None else not value


def either(left: Logic, right: Logic) -> Logic:
    return negated(both(negated(left), negated(right)))


@st.composite
def comparisons(draw: st.DrawFn) -> tuple[str, Test]:
    """A comparison as text, and what it means."""
    name = draw(st.sampled_from(sorted(TYPES)))
    shown = draw(st.sampled_from([name, f"column({name!r})"]))
    match draw(st.sampled_from(["value", "value", "swapped", "column", "chain", "in", "not in", "is", "is not"])):
        case "in":
            values = draw(st.lists(TYPES[name], min_size=1, max_size=3))
            return f"{shown} in {values!r}".replace(
                "inf", "1e999"
            ), lambda row: None if row[name] is None else row[name] in values
        case "not in":
            values = draw(st.lists(TYPES[name], min_size=1, max_size=3))
            return f"{shown} not in {tuple(values)!r}".replace(
                "inf", "1e999"
            ), lambda row: None if row[name] is None else row[name] not in values
        case "is":
            return f"{shown} is None", lambda row: row[name] is None
        case "is not":
            return f"{shown} is not None", lambda row: row[name] is not None
        case "column" if name in SAME:
            sign, other = draw(st.sampled_from(sorted(OPERATORS))), SAME[name]
            return (
                f"{shown} {sign} {other}",
                lambda row: None if row[name] is None or row[other] is None else OPERATORS[sign](row[name], row[other]),
            )
        case "chain":
            low, high = draw(TYPES[name]), draw(TYPES[name])
            return f"{low!r} <= {shown} < {high!r}".replace(
                "inf", "1e999"
            ), lambda row: None if row[name] is None else low <= row[name] < high
        case "swapped":
            sign, value = draw(st.sampled_from(sorted(OPERATORS))), draw(TYPES[name])
            return f"{value!r} {sign} {shown}".replace(
                "inf", "1e999"
            ), lambda row: None if row[name] is None else OPERATORS[sign](value, row[name])
    sign, value = draw(st.sampled_from(sorted(OPERATORS))), draw(TYPES[name])
    return f"{shown}{sign}{value!r}".replace(
        "inf", "1e999"
    ), lambda row: None if row[name] is None else OPERATORS[sign](row[name], value)


def extended(inner: st.SearchStrategy[tuple[str, Test]]) -> st.SearchStrategy[tuple[str, Test]]:
    pairs = st.tuples(inner, inner)
    return (
        inner.map(lambda one: (f"not ({one[0]})", lambda row: negated(one[1](row))))
        | pairs.map(lambda two: (f"({two[0][0]}) and ({two[1][0]})", lambda row: both(two[0][1](row), two[1][1](row))))
        | pairs.map(lambda two: (f"({two[0][0]}) or ({two[1][0]})", lambda row: either(two[0][1](row), two[1][1](row))))
    )


CONDITIONS = st.recursive(comparisons() | st.just(("b", lambda row: row["b"])), extended, max_leaves=5)
ROWS = st.lists(
    st.fixed_dictionaries(
        {name: st.none() | TYPES[{"j": "i", "t": "s"}.get(name, name)] for name in SCHEMA.names},
    ),
    max_size=8,
)


@given(condition=CONDITIONS, rows=ROWS)
@settings(deadline=None, max_examples=400)
def test_a_condition_is_what_plain_python_says(condition: tuple[str, Test], rows: list[dict[str, Any]]) -> None:
    """With null where a value is missing, as SQL has it; of a batch with its columns alone."""
    text, means = condition
    made = Condition(text)
    table = pa.Table.from_pylist(rows, SCHEMA).select(list(dict.fromkeys(made.columns)))
    batch = pa.RecordBatch.from_arrays([column.combine_chunks() for column in table.columns], schema=table.schema)
    found = made.predicate(SCHEMA)(batch)
    assert found.type == pa.bool_()
    assert found.to_pylist() == [means(row) for row in rows]


DAY = datetime.date(2024, 2, 28)


@pytest.mark.parametrize(
    ("data_type", "values", "text", "expected"),
    [
        (pa.timestamp("ns", "UTC"), [0, 1 << 62], "x >= '2024-01-01T00:00:00Z'", [False, True]),
        (pa.timestamp("us"), [0, 1 << 52], "x >= '2024-01-01 10:00:00'", [False, True]),
        (pa.date32(), [DAY, None], "x == '2024-02-28'", [True, None]),
        (pa.decimal128(10, 2), [1, 2], "x < 1.5", [True, False]),
        (pa.decimal128(10, 2), [1, 2], "x in (2, 3.25)", [False, True]),
        (pa.uint64(), [1, 2**64 - 1], "x > 18446744073709551614", [False, True]),
        (pa.binary(), [b"x", b"y"], "x == b'x'", [True, False]),
        (pa.large_string(), ["x", "y"], "x in ['x']", [True, False]),
        (pa.string_view(), ["x", None], "x not in ['x']", [False, None]),
        (pa.float32(), [0.1, 0.2], "x == 0.1", [True, False]),
        (pa.float32(), [16777216.0, float("inf")], "x in (16777216, 1e999)", [True, True]),
        (pa.time32("s"), [34200, 34201], "x > '09:30'", [False, True]),
        (pa.time32("ms"), [34200499, 34200500], "x == '09:30:00.5'", [False, True]),
        (pa.time64("ns"), [1, 2], "x == '00:00:00.000000001'", [True, False]),
        (pa.time64("ns"), [1, 0], "x in ['00:00:00.000000001']", [True, False]),
        (pa.timestamp("ns"), [1, 0], "x in ['1970-01-01T00:00:00.000000001']", [True, False]),
        (pa.list_(pa.int8()), [[1], None], "x is None", [False, True]),
        (pa.null(), [None], "x is not None", [False]),
        (pa.int8(), [1, 2], "x == 1.0", [True, False]),
        (pa.bool_(), [True, False, None], "x == False", [False, True, None]),
    ],
)
def test_values_of_every_type(data_type: pa.DataType, values: list[Any], text: str, expected: list[Logic]) -> None:
    schema = pa.schema([("x", data_type)])
    batch = pa.RecordBatch.from_arrays([pa.array(values, data_type)], schema=schema)
    assert Condition(text).predicate(schema)(batch).to_pylist() == expected


HOSTILE = [
    "__import__('os').system('true')",
    "x.__class__",
    "x == x.y",
    "x[0] == 1",
    "(lambda: 1)()",
    "[y for y in x]",
    "x == f'{x}'",
    "x if x else x",
    "(x := 1)",
    "await x",
    "x + 1 == 2",
    "-x == 1",
    "x == -True",
    "x == 1j",
    "x == ...",
    "x == None",
    "None == x",
    "x is 1",
    "x in y",
    "x in []",
    "x in 'abc'",
    "x in [y]",
    "x in [None]",
    "1 == 1",
    "1 in [1]",
    "True",
    "1",
    "'x'",
    "column(x) == 1",
    "column('x', 1) == 1",
    "column(*['x']) == 1",
    "column(name='x') == 1",
    "open('x') == 1",
    "print",
    "x == 1; y == 2",
    "x = 1",
    "import os",
    "x == 1 #\n+ 1",
    "*x",
    "yield x",
    "",
    " ",
    "\0",
    "x ==",
    "x == 'a",
    "(" * 300 + "x" + ")" * 300,
    "not " * 60 + "x",
    "not " * 2000 + "x",
    "-" * 9000 + "1 == x",
    "x == " + "9" * 5000,
    "x == 1 or " * 2000 + "x == 1",
    "é" * 10_001,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_anything_else_is_an_error(text: str) -> None:
    """Of one class and one line, when it is read or when it meets columns; and nothing is run."""
    schema = pa.schema([("x", pa.int64()), ("y", pa.int64())])
    with warnings.catch_warnings(), pytest.raises(InvalidRequestError) as caught:
        warnings.simplefilter("error")
        Condition(text).predicate(schema)
    told = str(caught.value)
    assert "\n" not in told and told.endswith(".") and len(told) < 500


@given(
    text=st.text(max_size=30)
    | st.lists(st.sampled_from(re.findall(r"\w+|\W", " ".join(HOSTILE[:40]))), max_size=12).map("".join)
)
@settings(deadline=None, max_examples=1000)
def test_any_text_is_a_condition_or_an_error(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(InvalidRequestError):
            Condition(text).predicate(SCHEMA)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("z == 1", "names 'z', which is no column"),
        ("i == 'a'", "Column 'i' has the type int64, and 'a' is no such value"),
        ("i == 1.5", "1.5 is no such value"),
        ("i == 9223372036854775808", "is no such value"),
        ("f == 9007199254740993", "is no such value"),
        ("i == True", "True is no such value"),
        ("b == 1", "1 is no such value"),
        ("s < 1", "1 is no such value"),
        ("s", "Column 's' has no booleans"),
        ("i < f", "different types, int64 and double"),
        ("l == l", "does not fit the types of the columns"),
        ("h < 1", "does not fit the types of the columns"),
        ("d == '2024-02-30'", "'2024-02-30' is no such value"),
        ("c < 1.234", "1.234 is no such value"),
        ("g == 16777217", "16777217 is no such value"),
        ("g < 1e39", "is no such value"),
        ("g in [1, -1e39]", "is no such value"),
        ("g > 1e-60", "1e-60 is no such value"),
        ("h < 65520.0", "65520.0 is no such value"),
        ("h == 2049", "2049 is no such value"),
        ("v == '09:30:00.5'", "'09:30:00.5' is no such value"),
        ("w == '09:30:00.1234567'", "is no such value"),
        ("w == '09:30:00Z'", "is no such value"),
        ("w == '24:00'", "is no such value"),
        ("y == '2024-01-31T09:30:00.0011'", "is no such value"),
        ("d == '2024-01-31T09:30:00'", "is no such value"),
        ("u == 256", "256 is no such value"),
        ("u == -1", "-1 is no such value"),
    ],
)
def test_a_value_that_its_column_cannot_have_is_an_error(text: str, words: str) -> None:
    """Arrow would cut numbers off, or fail at some rows and not at others."""
    more = [("l", pa.list_(pa.int8())), ("h", pa.float16()), ("d", pa.date32()), ("c", pa.decimal128(9, 2))]
    more += [("g", pa.float32()), ("v", pa.time32("s")), ("w", pa.time64("us")), ("y", pa.timestamp("ms"))]
    more += [("u", pa.uint8())]
    schema = pa.schema([*SCHEMA, *(pa.field(name, data_type) for name, data_type in more)])
    with pytest.raises(InvalidRequestError, match=words):
        Condition(text).predicate(schema)


def test_conditions_of_one_text_are_equal() -> None:
    assert {Condition("a == 1"), Condition("a == 1")} == {Condition("a == 1")}
    assert Condition("a == 1") != Condition("a == 2")
    assert Condition("b == 1 and a == b").columns == ("b", "a")
