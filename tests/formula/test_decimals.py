"""Decimals against Python's: exact beside integers, the nearest doubles, integers cut toward zero."""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import barrage_server as bs
from barrage_server.formula import compile_formula

TYPES = [
    pa.uint64(),
    pa.decimal128(5, 2),
    pa.decimal128(18, 18),
    pa.decimal128(30, 2),
    pa.decimal128(38, 0),
    pa.decimal128(38, 30),
    pa.decimal256(60, 3),
    pa.decimal256(76, 76),
]
SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
EDGES = [0, 1, -1, 3, 2**31, -(2**31), 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63)]
CONTEXT = Context(prec=200)


def values_of(data_type: pa.DataType) -> st.SearchStrategy[Decimal | None]:
    if data_type == pa.uint64():
        whole: st.SearchStrategy[int] = st.sampled_from([0, 1, 2**53, 2**53 + 1, 2**63, 2**64 - 1]) | st.integers(
            0, 2**64 - 1
        )
        return st.none() | whole.map(Decimal)
    most = 10**data_type.precision - 1
    unit = 10**data_type.scale
    near = [edge * unit + more for edge in EDGES for more in (-1, 0, 1) if abs(edge * unit) < most]
    digits = st.sampled_from([*near, most, -most]) | st.integers(-most, most) | st.integers(-1000, 1000)
    return st.none() | digits.map(lambda found: Decimal(found).scaleb(-data_type.scale, CONTEXT))


def computed(formula: str, data_type: pa.DataType, values: list[Decimal | None], **others: pa.Array) -> list[Any]:
    is_integer = data_type == pa.uint64()
    array = pa.array([None if each is None else int(each) if is_integer else each for each in values], data_type)
    columns = {"x": array, **others}
    compiled = compile_formula(formula, {name: column.type for name, column in columns.items()})
    whole: list[Any] = compiled.evaluate(columns, len(array)).to_pylist()
    parts = {name: column.slice(1) for name, column in columns.items()}
    assert compiled.evaluate(parts, len(array) - 1).to_pylist() == whole[1:]
    return whole


@pytest.mark.parametrize("data_type", TYPES, ids=str)
@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_doubles_are_the_nearest_and_integers_are_cut(data_type: pa.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(values_of(data_type), min_size=1, max_size=8))
    assert computed("(double)x", data_type, values) == [None if each is None else float(each) for each in values]
    for name, bits in (("long", 63), ("int", 31)):
        wanted = [None if each is None else min(max(int(each), -(2**bits)), 2**bits - 1) for each in values]
        assert computed(f"({name})x", data_type, values) == wanted


@pytest.mark.parametrize("data_type", TYPES, ids=str)
@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_comparisons_with_integers_are_exact(data_type: pa.DataType, data: st.DataObject) -> None:
    """Not so for the one type that has no digits left beside those of an integer."""
    values = data.draw(st.lists(values_of(data_type), min_size=1, max_size=8))
    integers = data.draw(st.lists(st.sampled_from(EDGES) | st.integers(-(2**63), 2**63 - 1), min_size=8, max_size=8))
    column = pa.array(integers[: len(values)], pa.int64())
    literal = integers[0] if abs(integers[0]) < 2**63 else 5
    for sign, compare in SIGNS.items():
        known = [(one, other) for one, other in zip(values, integers, strict=False) if one is not None]
        found = computed(f"x {sign} y", data_type, values, y=column)
        if data_type.bit_width < 256 or data_type.scale < 57:
            assert [one for one, each in zip(found, values, strict=True) if each is not None] == [
                compare(one, other) for one, other in known
            ]
            alone = computed(f"x {sign} {literal}L", data_type, values)
            assert [one for one, each in zip(alone, values, strict=True) if each is not None] == [
                compare(one, literal) for one, _ in known
            ]
    wanted = [each in (literal, 3) for each in values]
    assert computed(f"x in {literal}L, 3", data_type, values) == wanted
    assert computed(f"x not in {literal}L, 3", data_type, values) == [not each for each in wanted]
    assert computed("x in 3, null", data_type, values) == [each is None or each == 3 for each in values]


def test_what_looks_equal_is_found() -> None:
    table = bs.table({"total": pa.array([Decimal("2.55"), Decimal("2.56")], pa.decimal128(12, 2))})
    assert table.where("total == 2.55").size == 1
    assert table.where("total in 2.55, 7").size == 1
    assert table.where("total > 2.55").size == 1


def test_decimals_whose_digits_do_not_go_together_are_not_compared() -> None:
    types = {"x": pa.decimal256(76, 76), "y": pa.decimal256(76, 0)}
    with pytest.raises(bs.InvalidRequestError, match="more than 76 digits"):
        compile_formula("x == y", types)
