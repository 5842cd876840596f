"""Expressions against the text that they stand for."""

from __future__ import annotations

import copy
import enum
import operator
import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.formula.parser import parse
from barrage_server.formula.syntax import Node

Pair = tuple[Any, str]
"""A value, and its text with all brackets."""

BINARY: list[tuple[Callable[[Any, Any], Any], str]] = [
    (operator.add, "+"),
    (operator.sub, "-"),
    (operator.mul, "*"),
    (operator.truediv, "/"),
    (operator.mod, "%"),
    (operator.lt, "<"),
    (operator.le, "<="),
    (operator.gt, ">"),
    (operator.ge, ">="),
    (operator.eq, "=="),
    (operator.ne, "!="),
    (operator.and_, "&&"),
    (operator.or_, "||"),
]

columns = st.sampled_from([(bs.col("a"), "a"), (bs.col("b_1"), "b_1"), (bs.col("$c"), "$c")])
numbers = st.sampled_from(
    [(None, "null"), (True, "true"), (5, "5"), (-5, "(-5)"), (1 << 40, f"{1 << 40}L"), (0.5, "0.5"), (-2.0, "(-2.0)")]
)
literals = numbers | st.sampled_from([("", "``"), ("A1", "`A1`")])


def combined(parts: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    """Expressions of other ones."""
    others = parts | literals
    pairs = st.tuples(st.sampled_from(BINARY), parts, others)
    return st.one_of(
        pairs.map(lambda it: (it[0][0](it[1][0], it[2][0]), f"({it[1][1]} {it[0][1]} {it[2][1]})")),
        st.tuples(st.sampled_from([*BINARY[:5], *BINARY[11:]]), numbers, parts).map(
            lambda it: (it[0][0](it[1][0], it[2][0]), f"({it[1][1]} {it[0][1]} {it[2][1]})")
        ),
        parts.map(lambda it: (-it[0], f"(-{it[1]})")),
        parts.map(lambda it: (~it[0], f"(!{it[1]})")),
        parts.map(lambda it: (abs(it[0]), f"abs({it[1]})")),
        parts.map(lambda it: (it[0].cast("long"), f"((long){it[1]})")),
        parts.map(lambda it: (it[0].is_null(), f"isNull({it[1]})")),
        st.tuples(parts, others).map(lambda it: (it[0][0] ** it[1][0], f"pow({it[0][1]}, {it[1][1]})")),
        st.tuples(parts, others).map(lambda it: (it[0][0] // it[1][0], f"floorDiv({it[0][1]}, {it[1][1]})")),
        st.tuples(parts, st.lists(others, min_size=1, max_size=3)).map(
            lambda it: (it[0][0].is_in([each for each, _ in it[1]]), f"({it[0][1]} in {_commas(it[1])})")
        ),
        st.tuples(parts, st.lists(others, min_size=1, max_size=3)).map(
            lambda it: (
                it[0][0].not_in([each for each, _ in it[1]], ignore_case=True),
                f"({it[0][1]} icase not in {_commas(it[1])})",
            )
        ),
        st.tuples(parts, others, others).map(
            lambda it: (it[0][0].choose(it[1][0], it[2][0]), f"({it[0][1]} ? {it[1][1]} : {it[2][1]})")
        ),
        st.tuples(parts, others).map(lambda it: (it[0][0].call("concat", it[1][0]), f"{it[0][1]}.concat({it[1][1]})")),
    )


def _commas(parts: list[Pair]) -> str:
    return ", ".join(text for _, text in parts)


def shape(node: Node) -> Any:
    """A tree without places."""
    return node.form, node.text, node.value, str(node.kind), [shape(child) for child in node.children]


@given(st.recursive(columns, combined, max_leaves=12))
def test_an_expression_is_the_tree_that_brackets_would_give(pair: Pair) -> None:
    expression, bracketed = pair
    assert shape(parse(expression.text)) == shape(parse(bracketed))


def test_long_sums_are_not_nested() -> None:
    total = bs.col("x")
    for _ in range(300):
        total = total + bs.col("x")
    assert "(" not in total.text
    parse(total.text)


class Level(int, enum.Enum):
    LOW = 1


class Shade(str, enum.Enum):  # noqa: UP042  (its text is not its value, as that of StrEnum is)
    DARK = "dark"


class Odd(float):
    def __repr__(self) -> str:
        return "x + 1"


BEYOND = (
    datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
    np.timedelta64(5, "Y"),
    np.timedelta64(1, "M"),
)


def rows(**columns: Any) -> bs.Table:
    return bs.table(pa.table(columns))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (-(2**31), -(2**31)),
        (2**63 - 1, 2**63 - 1),
        (1 - 2**63, 1 - 2**63),
        (-(2**63), -(2**63)),
        (Level.LOW, 1),
        (Shade.DARK, "dark"),
        (Odd(5), 5.0),
        (1e-300, 1e-300),
        (float("inf"), float("inf")),
        (float("-inf"), float("-inf")),
        (-0.0, -0.0),
        (1.5e300, 1.5e300),
        ("", ""),
        ("a`b\\c\n\"d'é\U0001f600\\u0041", "a`b\\c\n\"d'é\U0001f600\\u0041"),
        (np.int8(-3), -3),
        (np.float32(0.1), float(np.float32(0.1))),
        (np.bool_(False), False),
        (np.str_("x"), "x"),
        (date(2024, 6, 15), date(2024, 6, 15)),
        (time(10, 0, 0, 5), time(10, 0, 0, 5)),
        (timedelta(days=-1, microseconds=1), timedelta(days=-1, microseconds=1)),
        (pd.Timedelta(-1, "ns"), pd.Timedelta(-1, "ns")),
        (np.timedelta64(90, "m"), timedelta(minutes=90)),
        (datetime(2024, 6, 15, 10, tzinfo=timezone(timedelta(hours=2))), datetime(2024, 6, 15, 8, tzinfo=UTC)),
        (pd.Timestamp("2024-06-15T10:00:00.123456789", tz="UTC"), pd.Timestamp("2024-06-15T10:00:00.123456789Z")),
        (np.datetime64("2024-06-15T10:00:00.123456789"), pd.Timestamp("2024-06-15T10:00:00.123456789Z")),
        (np.datetime64("2024-06-15"), datetime(2024, 6, 15, tzinfo=UTC)),
    ],
)
def test_a_literal_is_its_value(value: Any, expected: Any) -> None:
    made = rows(x=[1]).view((bs.col("x") > 0).choose(value, None if value is not None else 1).named("y"))
    (found,) = made.to_arrow()["y"].to_pylist() if value is not None else [None]
    assert found == expected
    assert str(found) == str(expected) or not isinstance(value, float)  # the sign of zero


def test_methods_take_expressions_and_text_alike() -> None:
    table = rows(x=[1, 2, 3], s=["a", "b", "ab"])
    x, s = bs.col("x"), bs.col("s")
    assert table.where((x > 1) & ~s.call("startsWith", "a")).to_arrow()["x"].to_pylist() == [2]
    assert table.where([x > 1, "x < 3", s == "b"]).to_arrow()["x"].to_pylist() == [2]
    made = table.update([(x * 2).named("y"), "z = y + 1", (x - x.at(bs.col("ii") - 1)).named("d")])
    assert made.to_arrow()["z"].to_pylist() == [3, 5, 7]
    assert made.to_arrow()["d"].to_pylist() == [None, 1, 1]
    assert table.view(x).to_arrow().column_names == ["x"]
    assert table.select([bs.call("Math.sqrt", x).named("r")]).to_arrow()["r"].to_pylist()[0] == 1.0
    assert table.agg_by(bs.agg.count_where("n", s.is_in(["a", "b"]))).to_arrow()["n"].to_pylist() == [2]


def test_a_client_sends_them() -> None:
    with bs.Server(port=0) as server, bs.connect(server.uri) as client:
        server.append_table("t", {"x": "int64"}).append({"x": [1, 2, 3]})
        with client.table("t").where(bs.col("x") >= 2).update((bs.col("x") + 1).named("y")) as made:
            assert made.to_arrow()["y"].to_pylist() == [3, 4]


@pytest.mark.parametrize(
    "value", [object(), 1j, b"x", Decimal(1), 2**63, -(2**63) - 1, [1], "\ud800", np.array([1, 2]), pd.NaT]
)
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(InvalidRequestError, match="not a value of formulas"):
        bs.call("f", value)
    with pytest.raises(InvalidRequestError, match="not a value of formulas"):
        bs.col("x") + value


def test_moments_need_a_zone_and_fit_nanoseconds() -> None:
    with pytest.raises(InvalidRequestError, match="needs a time zone"):
        bs.col("t") > datetime(2024, 1, 1)  # noqa: B015
    for value in (np.datetime64("0001-01-01"), np.datetime64("NaT"), time(1, tzinfo=UTC), *BEYOND):
        with pytest.raises(InvalidRequestError, match="not a value of formulas"):
            bs.call("f", value)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "1a", "null", "true", "in", "not", "x)", "x`", " x", "x // y"])
def test_names_are_one_word(name: str) -> None:
    for function in (bs.col, bs.call, bs.col("x").call, bs.col("x").named):
        if function is bs.call and name == "a.b":
            continue
        with pytest.raises(InvalidRequestError, match="must"):
            function(name)


def test_no_column_stands_for_a_literal() -> None:
    table = rows(x=[5.0], POS_INFINITY_DOUBLE=[1.0], NAN_DOUBLE=["q"])
    assert table.where(bs.col("x") < float("inf")).size == 1
    (found,) = table.view((bs.col("x") + float("nan")).named("y")).to_arrow()["y"].to_pylist()
    assert found != found


def test_a_text_can_be_a_part() -> None:
    assert (bs.Expression("x + 1") * 2).text == "(x + 1) * 2"
    with pytest.raises(InvalidRequestError, match="text"):
        bs.Expression(5)  # type: ignore[arg-type]


def test_names_are_plain_strings() -> None:
    assert (bs.col(Shade.DARK) + 1).text == "dark + 1"
    assert type(bs.col(np.str_("x")).text) is str
    assert bs.col("x").named(Shade.DARK) == "dark = x"


def test_formulas_of_groups_and_windows_may_be_expressions() -> None:
    table = rows(x=[1, 2, 3])
    spread = bs.call("max", bs.col("x")) - bs.call("min", bs.col("x"))
    assert table.agg_by(bs.agg.formula(spread.named("s"))).to_arrow()["s"].to_pylist() == [2]
    total = bs.agg.formula(bs.call("sum", bs.col("each")), "each", "t = x")
    assert table.agg_by(total).to_arrow()["t"].to_pylist() == [6]
    moving = bs.updateby.rolling_formula_tick(bs.call("sum", bs.col("each")), "each", "t = x", rev_ticks=2)
    assert table.update_by(moving).to_arrow()["t"].to_pylist() == [1, 3, 5]


def test_it_does_not_grow_without_end() -> None:
    total = bs.col("x")
    with pytest.raises(LimitError, match="10,000 characters"):
        for _ in range(40):
            total = total + total
    with pytest.raises(LimitError, match="where_in"):
        bs.col("x").is_in(range(3_000))


def test_copies_are_the_same() -> None:
    made = bs.col("x") + 1
    assert [copy.deepcopy(made).text, pickle.loads(pickle.dumps(made)).text] == [made.text] * 2
    assert (pickle.loads(pickle.dumps(made)) * 2).text == "(x + 1) * 2"


def test_an_expression_has_no_truth_value() -> None:
    x = bs.col("x")
    with pytest.raises(InvalidRequestError, match="with &"):
        bool(1 < x < 3)
    with pytest.raises(InvalidRequestError, match="one formula"):
        list(x)
    with pytest.raises(TypeError, match="unhashable"):
        {x}  # noqa: B018
    assert repr(x > 1) == "<formula x > 1>"


def test_wrong_arguments_are_named() -> None:
    x = bs.col("x")
    with pytest.raises(InvalidRequestError, match="values must not be empty"):
        x.is_in([])
    with pytest.raises(InvalidRequestError, match="values must be a list"):
        x.not_in("abc")
    with pytest.raises(InvalidRequestError, match="values must be a list"):
        x.is_in(np.array("b"))
    with pytest.raises(InvalidRequestError, match="type must be one of"):
        x.cast("int64")
    with pytest.raises(InvalidRequestError, match="Only a column"):
        (x + 1).at(0)
    with pytest.raises(InvalidRequestError, match="name of the new column"):
        rows(x=[1]).update(x + 1)


def test_columns_of_aggregations_and_moves_may_be_expressions() -> None:
    x, made = bs.col("x"), bs.col("y").named("z")
    assert bs.agg.sum_(x) == bs.agg.sum_("x")
    assert bs.agg.avg([x, made]) == bs.agg.avg(["x", "z = y"])
    assert bs.agg.sorted_first(x, ["y"]) == bs.agg.sorted_first("x", ["y"])
    assert bs.updateby.cum_sum([x, "y"]) == bs.updateby.cum_sum(["x", "y"])
    assert bs.updateby.ema_tick(2, x) == bs.updateby.ema_tick(2, "x")
    assert rows(x=[1, 2]).agg_by(bs.agg.sum_(x)).to_arrow().to_pydict() == {"x": [3]}


def test_a_method_that_is_not_there_is_told_with_the_nearest_one() -> None:
    with pytest.raises(AttributeError, match=r"no method 'isin'. Did you mean 'is_in'\?"):
        bs.col("x").isin([1])  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"Did you mean 'is_null'\?"):
        bs.col("x").is_nul()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"There are: at, call, cast, choose, .*text"):
        bs.col("x").quux()  # type: ignore[attr-defined]
