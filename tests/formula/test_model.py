"""Random formulas give what the simplest possible program gives, row by row in Python."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.formula import compile_condition, compile_formula

Value = Any
Row = dict[str, Value]
ORDER = ["byte", "short", "int", "long", "float", "double"]
ARROW = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "String": pa.string(),
}
BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}
COLUMNS = {
    "b": "byte",
    "h": "short",
    "i1": "int",
    "i2": "int",
    "l": "long",
    "f": "float",
    "d": "double",
    "o": "boolean",
}
COLUMNS |= {"s": "String"}


@dataclass(frozen=True)
class Tree:
    """A formula: its text, its type in Java, and its value in one row."""

    text: str
    kind: str
    value: Callable[[Row], Value]


def fitted(value: Value, kind: str) -> Value:
    """A number in a type: integers wrap, floats are rounded."""
    if kind in BITS:
        half = 1 << (BITS[kind] - 1)
        return (int(value) + half) % (2 * half) - half
    if kind == "float":
        try:
            return struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            return math.copysign(math.inf, value)
    return float(value)


def widest(left: str, right: str) -> str:
    return next((kind for kind in ("double", "float", "long") if kind in (left, right)), "int")


def divided(a: float, b: float) -> float:
    if b == 0:
        return math.nan if a == 0 or a != a else math.copysign(math.inf, a) * math.copysign(1, b)
    return a / b


def remainder(a: Value, b: Value) -> Value:
    if isinstance(a, int):
        return None if b == 0 else int(math.copysign(1, a)) * (abs(a) % abs(b))
    if b == 0 or math.isinf(a) or a != a or b != b:
        return math.nan
    return math.fmod(a, b)


def arithmetic(operator: str, left: Tree, right: Tree) -> Tree:
    kind = widest(left.kind, right.kind)
    if operator == "/":
        kind = "float" if right.kind == "float" and left.kind != "double" else "double"

    def value(row: Row) -> Value:
        a, b = left.value(row), right.value(row)
        if a is None or b is None:
            return None
        a, b = fitted(a, kind), fitted(b, kind)
        if operator == "%":
            found = remainder(a, b)
            return None if found is None else fitted(found, kind)
        if operator == "/":
            return fitted(divided(a, b), kind)
        return fitted(a + b if operator == "+" else a - b if operator == "-" else a * b, kind)

    return Tree(f"({left.text} {operator} {right.text})", kind, value)


def compared(a: Value, b: Value) -> int | None:
    """-1, 0 or 1; ``None`` where NaN is."""
    if a != a or b != b:
        return None
    if a is None or b is None:
        return 0 if a is b else -1 if a is None else 1
    return 0 if a == b else -1 if a < b else 1


def comparison(operator: str, left: Tree, right: Tree) -> Tree:
    if left.kind in ORDER:
        kind = widest(left.kind, right.kind) if {left.kind, right.kind} & {"float", "double"} else "long"
    else:
        kind = left.kind

    def value(row: Row) -> Value:
        a, b = left.value(row), right.value(row)
        if kind in ORDER:
            a, b = (each if each is None else fitted(each, kind) for each in (a, b))
        order = compared(a, b)
        if order is None:
            return operator == "!="
        return {"==": order == 0, "!=": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}[
            operator
        ]

    return Tree(f"({left.text} {operator} {right.text})", "boolean", value)


def logic(operator: str, left: Tree, right: Tree) -> Tree:
    decisive = operator == "||"

    def value(row: Row) -> Value:
        a, b = left.value(row), right.value(row)
        if a is decisive or b is decisive:
            return decisive
        return None if a is None or b is None else not decisive

    return Tree(f"({left.text} {operator} {right.text})", "boolean", value)


def negation(tree: Tree) -> Tree:
    def value(row: Row) -> Value:
        found = tree.value(row)
        return None if found is None else not found

    return Tree(f"!{tree.text}", "boolean", value)


def choice(condition: Tree, first: Tree, second: Tree) -> Tree:
    kind = first.kind
    if first.kind != second.kind:
        kind = "short" if {first.kind, second.kind} <= {"byte", "short"} else widest(first.kind, second.kind)

    def value(row: Row) -> Value:
        found = first.value(row) if condition.value(row) else second.value(row)
        return found if found is None or kind not in ORDER else fitted(found, kind)

    return Tree(f"({condition.text} ? {first.text} : {second.text})", kind, value)


def cast(kind: str, tree: Tree) -> Tree:
    def value(row: Row) -> Value:
        found = tree.value(row)
        if found is None:
            return None
        if isinstance(found, float) and kind in BITS:
            if found != found:
                return 0
            wide = 1 << (63 if kind == "long" else 31)
            found = max(-wide, min(wide - 1, found if math.isinf(found) else int(found)))
        return fitted(found, kind)

    return Tree(f"({kind}){tree.text}", kind, value)


def bits(operator: str, left: Tree, right: Tree) -> Tree:
    kind = widest(left.kind, right.kind)

    def value(row: Row) -> Value:
        a, b = left.value(row), right.value(row)
        if a is None or b is None:
            return None
        return a & b if operator == "&" else a | b if operator == "|" else a ^ b

    return Tree(f"({left.text} {operator} {right.text})", kind, value)


def membership(tree: Tree, items: list[int], negated: bool) -> Tree:
    text = f"({tree.text} {'not ' * negated}in {', '.join(map(str, items))})"
    return Tree(text, "boolean", lambda row: (tree.value(row) in items) != negated)


def joined(left: Tree, right: Tree) -> Tree:
    def value(row: Row) -> Value:
        return "".join("null" if each is None else str(each) for each in (left.value(row), right.value(row)))

    return Tree(f"({left.text} + {right.text})", "String", value)


def is_null(tree: Tree) -> Tree:
    return Tree(f"isNull({tree.text})", "boolean", lambda row: tree.value(row) is None)


def column(name: str) -> Tree:
    return Tree(name, COLUMNS[name], lambda row: row[name])


def literal(value: Value) -> Tree:
    if isinstance(value, str):
        return Tree(f"`{value}`", "String", lambda row: value)
    if isinstance(value, bool):
        return Tree(str(value).lower(), "boolean", lambda row: value)
    kind = "double" if isinstance(value, float) else "int" if abs(value) < 2**31 else "long"
    return Tree(f"({value!r})", kind, lambda row: value)


def of(*kinds: str) -> st.SearchStrategy[Tree]:
    return st.sampled_from([column(name) for name, kind in COLUMNS.items() if kind in kinds])


INTEGERS = st.one_of(of("byte", "short", "int", "long"), st.integers(-5, 5).map(literal))
NUMBERS = st.one_of(
    of(*ORDER), st.integers(-(2**62), 2**62).map(literal), st.sampled_from([0, 1, -1, 2.5]).map(literal)
)
STRINGS = st.one_of(of("String"), st.text("ab", max_size=3).map(literal))
COMPARISONS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


@st.composite
def number(draw: st.DrawFn, depth: int) -> Tree:
    if depth == 0:
        return draw(NUMBERS)
    form = draw(st.sampled_from(["leaf", "arithmetic", "arithmetic", "choice", "cast", "bits"]))
    if form == "arithmetic":
        operator = draw(st.sampled_from(list("+-*/%")))
        return arithmetic(operator, draw(number(depth - 1)), draw(number(depth - 1)))
    if form == "choice":
        return choice(draw(condition(depth - 1)), draw(number(depth - 1)), draw(number(depth - 1)))
    if form == "cast":
        return cast(draw(st.sampled_from(ORDER)), draw(number(depth - 1)))
    if form == "bits":
        return bits(draw(st.sampled_from(list("&|^"))), draw(INTEGERS), draw(INTEGERS))
    return draw(NUMBERS)


@st.composite
def string(draw: st.DrawFn, depth: int) -> Tree:
    form = draw(st.sampled_from(["leaf", "joined", "choice"])) if depth else "leaf"
    if form == "joined":
        return joined(draw(string(depth - 1)), draw(st.one_of(string(depth - 1), of("int", "long"))))
    if form == "choice":
        return choice(draw(condition(depth - 1)), draw(string(depth - 1)), draw(string(depth - 1)))
    return draw(STRINGS)


@st.composite
def condition(draw: st.DrawFn, depth: int) -> Tree:
    if depth == 0:
        return draw(st.one_of(of("boolean"), st.booleans().map(literal)))
    form = draw(st.sampled_from(["compare", "compare", "texts", "logic", "not", "in", "null"]))
    if form == "compare":
        return comparison(draw(COMPARISONS), draw(number(depth - 1)), draw(number(depth - 1)))
    if form == "texts":
        return comparison(draw(COMPARISONS), draw(string(depth - 1)), draw(string(depth - 1)))
    if form == "logic":
        return logic(draw(st.sampled_from(["&&", "||"])), draw(condition(depth - 1)), draw(condition(depth - 1)))
    if form == "not":
        return negation(draw(condition(depth - 1)))
    if form == "in":
        items = draw(st.lists(st.integers(-3, 3), min_size=1, max_size=12))
        return membership(draw(INTEGERS), items, draw(st.booleans()))
    return is_null(draw(st.one_of(number(depth - 1), string(depth - 1), condition(depth - 1))))


def cells(kind: str) -> st.SearchStrategy[Value]:
    if kind in BITS:
        half = 1 << (BITS[kind] - 1)
        values: st.SearchStrategy[Value] = st.one_of(st.integers(-3, 3), st.integers(-half, half - 1))
    elif kind in ("float", "double"):
        values = st.one_of(st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf]), st.floats(width=32))
    elif kind == "boolean":
        values = st.booleans()
    else:
        values = st.text("abß", max_size=3)
    return st.one_of(st.none(), values)


ROWS = st.lists(st.fixed_dictionaries({name: cells(kind) for name, kind in COLUMNS.items()}), max_size=4)


def same(got: Value, wanted: Value) -> bool:
    if isinstance(got, float) and isinstance(wanted, float):
        return got == wanted or (got != got and wanted != wanted)
    return bool(got == wanted) and type(got) is type(wanted)


def arrays(rows: list[Row], offset: int) -> dict[str, pa.Array]:
    """The rows as columns; with an ``offset``, as slices of longer arrays."""
    made = {}
    for name, kind in COLUMNS.items():
        values = [row[name] for row in rows]
        made[name] = pa.array([None] * offset + values, ARROW[kind]).slice(offset)
    return made


@settings(max_examples=500, deadline=None)
@given(tree=st.one_of(number(3), string(3), condition(3)), rows=ROWS, offset=st.sampled_from([0, 3]))
def test_formulas_are_what_a_program_of_rows_is(tree: Tree, rows: list[Row], offset: int) -> None:
    types = {name: ARROW[kind] for name, kind in COLUMNS.items()}
    formula = compile_formula(tree.text, types)
    assert formula.type == ARROW[tree.kind]
    inputs = arrays(rows, offset)
    found = formula.evaluate({name: inputs[name] for name in formula.columns}, len(rows))
    found.validate(full=True)
    assert found.type == formula.type
    wanted = [tree.value(row) for row in rows]
    got = found.to_pylist()
    assert len(got) == len(wanted)
    assert all(map(same, got, wanted)), (tree.text, got, wanted)


@settings(max_examples=100, deadline=None)
@given(tree=condition(3), rows=ROWS)
def test_conditions_hold_where_they_are_true(tree: Tree, rows: list[Row]) -> None:
    formula = compile_condition(tree.text, {name: ARROW[kind] for name, kind in COLUMNS.items()})
    found = formula.evaluate(arrays(rows, 0), len(rows))
    assert found.null_count == 0
    assert found.to_pylist() == [tree.value(row) is True for row in rows]


@pytest.mark.parametrize("count", [0, 1, 65_536])
def test_constants_fill_their_rows(count: int) -> None:
    for text, wanted in (
        ("1", 1),
        ("`a`", "a"),
        ("NULL_INT", None),
        ("null", None),
        ("1 < 2", True),
        ("(String)null < `a`", True),
        ("'PT1s'", None),
    ):
        found = compile_formula(text, {}).evaluate({}, count)
        assert len(found) == count
        if wanted is not None and count:
            assert found[count - 1].as_py() == wanted


def test_positions_are_those_of_the_rows() -> None:
    formula = compile_formula("x_[ii - 1] + i", {"x": pa.int32()})
    seen: list[list[int]] = []

    def lookup(name: str, places: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
        assert name == "x"
        seen.append(places.tolist())
        return pa.array([None, 10, 20], pa.int32())

    found = formula.evaluate({}, 3, np.array([0, 7, 2**31 + 5]), lookup)
    assert seen == [[-1, 6, 2**31 + 4]]
    assert found.to_pylist() == [None, 17, 20 - 2**31 + 5]
