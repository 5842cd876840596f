"""Functions of lists give what Python's own give for each list."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.errors import InvalidRequestError
from barrage_server.formula import compile_formula

Items = list[Any]


def wrapped(value: int) -> int:
    return (value + 2**63) % 2**64 - 2**63


def extreme(choose: Callable[[Items], Any]) -> Callable[[Items], Any]:
    return lambda known: math.nan if any(each != each for each in known) else choose(known)


def nearest(known: Items) -> Any:
    if any(each != each for each in known):
        return math.nan
    return sorted(known)[math.floor(0.25 * (len(known) - 1) + 0.5)]


def total(known: Items) -> Any:
    return sum(known) if isinstance(known[0], float) else wrapped(sum(known))


def spread(known: Items) -> float:
    return statistics.variance(map(float, known)) if len(known) > 1 else math.nan


OF_KNOWN: dict[str, Callable[[Items], Any]] = {
    "sum(v)": total,
    "absSum(v)": lambda known: total([abs(each) for each in known]),
    "product(v)": lambda known: math.prod(known) if isinstance(known[0], float) else wrapped(math.prod(known)),
    "avg(v)": lambda known: sum(map(float, known)) / len(known),
    "min(v)": extreme(min),
    "max(v)": extreme(max),
    "median(v)": extreme(lambda known: float(statistics.median(map(float, known)))),
    "percentile(0.25, v)": nearest,
}
COUNTS: dict[str, Callable[[Items], Any]] = {
    "count(v)": len,
    "countPos(v)": lambda known: sum(each > 0 for each in known),
    "countNeg(v)": lambda known: sum(each < 0 for each in known),
    "countZero(v)": lambda known: sum(each == 0 for each in known),
    "countDistinct(v)": lambda known: len({"nan" if each != each else each for each in known}),
}
OF_ITEMS: dict[str, Callable[[Items, int], Any]] = {
    "len(v)": lambda items, at: len(items),
    "v.size()": lambda items, at: len(items),
    "first(v)": lambda items, at: items[0] if items else None,
    "last(v)": lambda items, at: items[-1] if items else None,
    "v[p]": lambda items, at: items[at] if 0 <= at < len(items) else None,
    "nth(p, v)": lambda items, at: items[at] if 0 <= at < len(items) else None,
    "v.get(1)": lambda items, at: items[1] if len(items) > 1 else None,
    "firstIndexOf(p, v)": lambda items, at: items.index(at) if at in items else None,
}


def same(got: Any, wanted: Any) -> bool:
    if isinstance(wanted, float) and isinstance(got, float):
        return got == pytest.approx(wanted, rel=1e-9, abs=1e-9, nan_ok=True)
    return bool(got == wanted)


NUMBERS = st.one_of(st.none(), st.integers(-4, 4), st.integers(-(2**31), 2**31 - 1))
FLOATS = st.one_of(st.none(), st.sampled_from([0.0, -1.5, 2.0, math.nan]), st.integers(-1000, 1000).map(float))


@settings(max_examples=150, deadline=None)
@given(data=st.data(), layout=st.sampled_from([pa.list_, pa.large_list]), offset=st.sampled_from([0, 2]))
def test_lists_of_numbers(data: st.DataObject, layout: Callable[..., pa.DataType], offset: int) -> None:
    item, values = data.draw(st.sampled_from([(pa.int32(), NUMBERS), (pa.int64(), NUMBERS), (pa.float64(), FLOATS)]))
    rows = data.draw(st.lists(st.one_of(st.none(), st.lists(values, max_size=5)), max_size=5))
    places = data.draw(st.lists(st.integers(-2, 5), min_size=len(rows), max_size=len(rows)))
    spare: list[Any] = [[1, 2], None][:offset]
    inputs = {
        "v": pa.array(spare + rows, layout(item)).slice(offset),
        "p": pa.array(places, pa.int32()),
    }
    types = {name: array.type for name, array in inputs.items()}

    def answers(formula: str) -> list[Any]:
        found = compile_formula(formula, types).evaluate(inputs, len(rows))
        found.validate(full=True)
        return list(found.to_pylist())

    for formula, of_known in (OF_KNOWN | COUNTS).items():
        for got, row in zip(answers(formula), rows, strict=True):
            known = None if row is None else [each for each in row if each is not None]
            wanted = None if known is None or not (known or formula in COUNTS) else of_known(known)
            assert same(got, wanted), (formula, row, got, wanted)
    for formula, of_items in OF_ITEMS.items():
        for got, row, place in zip(answers(formula), rows, places, strict=True):
            wanted = None if row is None else of_items(row, place)
            assert same(got, wanted), (formula, row, place, got, wanted)
    for got, row, place in zip(answers("in(p, v)"), rows, places, strict=True):
        assert got == (row is not None and place in row)
    if item != pa.float64() and all(abs(each or 0) < 1000 for row in rows for each in row or ()):
        for got, row in zip(answers("var(v)"), rows, strict=True):
            known = [each for each in row or () if each is not None]
            assert same(got, spread(known) if known else None)


def test_lists_are_reversed_and_sorted() -> None:
    inputs = {"v": pa.array([[3, None, 1], [], None, [2, -5]], pa.large_list(pa.int32()))}
    types = {"v": inputs["v"].type}
    for formula, wanted in (
        ("reverse(v)", [[1, None, 3], [], None, [-5, 2]]),
        ("sort(v)", [[None, 1, 3], [], None, [-5, 2]]),
        ("reverse(sort(v))", [[3, 1, None], [], None, [2, -5]]),
    ):
        compiled = compile_formula(formula, types)
        found = compiled.evaluate(inputs, 4)
        found.validate(full=True)
        assert found.type == compiled.type == pa.list_(pa.int32())
        assert found.to_pylist() == wanted
        assert compiled.evaluate({"v": inputs["v"][1:]}, 3).to_pylist() == wanted[1:]
    texts = {"v": pa.array([["a", "b"], None])}
    assert compile_formula("reverse(v)[0]", {"v": texts["v"].type}).evaluate(texts, 2).to_pylist() == ["b", None]


def test_values_are_among_others() -> None:
    inputs = {"x": pa.array([1, 3, None], pa.int32()), "s": pa.array(["a", None, "c"])}
    types = {name: array.type for name, array in inputs.items()}
    for formula, wanted in (
        ("in(x, 1, 2L)", [True, False, False]),
        ("in(x, 1, null)", [True, False, True]),
        ("in(s, `c`, `a`)", [True, False, True]),
        ("and(x > 0, s != null, true)", [True, False, False]),
        ("or(x > 1, s == null)", [False, True, False]),
    ):
        assert compile_formula(formula, types).evaluate(inputs, 3).to_pylist() == wanted, formula
    with pytest.raises(InvalidRequestError):
        compile_formula("in(x, `a`)", types)


def test_weights_need_lists_of_one_length() -> None:
    inputs = {"v": pa.array([[1, 2], [1], [1, None], None]), "w": pa.array([[3, 1], [1, 2], [2, 5], [1]])}
    types = {name: array.type for name, array in inputs.items()}
    assert compile_formula("wsum(v, w)", types).evaluate(inputs, 4).to_pylist() == [5, None, 2, None]
    assert compile_formula("wavg(v, w)", types).evaluate(inputs, 4).to_pylist() == [1.25, None, 1.0, None]


def test_percentiles_are_between_0_and_1() -> None:
    for part in ("-0.1", "1.1", "NULL_DOUBLE"):
        with pytest.raises(InvalidRequestError, match="between 0 and 1"):
            compile_formula(f"percentile({part}, v)", {"v": pa.list_(pa.int8())})


def test_lists_of_other_items_have_no_sums() -> None:
    for formula in ("sum(v)", "v + 1", "v == v", "v < v"):
        with pytest.raises(InvalidRequestError, match="does not take"):
            compile_formula(formula, {"v": pa.list_(pa.string())})
