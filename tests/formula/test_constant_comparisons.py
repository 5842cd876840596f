"""Comparisons of a column with constants: made together, they are what each formula gives by itself."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.formula import Formula, compile_condition
from barrage_server.formula.constant_comparisons import ConstantComparisons, SharedComparison
from barrage_server.formula.inputs import SharedValues

TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "byte": (pa.int8(), st.integers(-128, 127)),
    "int": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.one_of(st.integers(-3, 3), st.integers(-(2**63), 2**63 - 1))),
    "float": (pa.float32(), st.floats(width=32)),
    "double": (pa.float64(), st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 0.1, 2.0**53, float("nan")]))),
    "text": (pa.string(), st.sampled_from(["", "a", "A", "ab", "ä"])),
    "flag": (pa.bool_(), st.booleans()),
    "time": (pa.timestamp("us", "UTC"), st.integers(-(10**15), 10**15)),
}
"""Columns, by name, and values for them."""
NUMBERS = ["0", "1", "-1", "0.1", "2147483648", "9007199254740993", "NAN_DOUBLE", "NEG_INFINITY_DOUBLE", "1.5f", "127"]
CONSTANTS = {
    "text": ["`a`", "``", "`no`"],
    "flag": ["true", "false"],
    "time": ["'2001-09-09T01:46:40Z'", "'1970-01-01T00:00:00Z'"],
}
COLUMNS = {name: data_type for name, (data_type, _) in TYPES.items()}


def shared(formulas: list[str], table: ConstantComparisons) -> list[tuple[Formula, SharedComparison]]:
    """The formulas that are comparisons with a constant, each with its shared form."""
    found = []
    for formula in formulas:
        made = compile_condition(formula, COLUMNS)
        if made.comparison is not None:
            number = list(COLUMNS).index(made.comparison.column)
            found.append((made, table.share([(number, made.comparison)])[0]))
    return found


def answer(comparison: SharedComparison, rows: SharedValues) -> list[bool]:
    found = comparison.flags(rows)
    assert found is not None
    return list(found.tolist())


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_comparisons_made_together_are_what_each_formula_gives(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(list(TYPES)))
    data_type, values = TYPES[name]
    constants = CONSTANTS.get(name, NUMBERS)
    operators = ["==", "!="] if name == "text" else ["==", "!=", "<", "<=", ">", ">="]
    formulas = [
        text
        for constant in constants
        for operator in data.draw(st.lists(st.sampled_from(operators), min_size=1, unique=True))
        for text in (f"{name} {operator} {constant}", f"{constant} {operator} {name}")
    ]
    array = pa.array(data.draw(st.lists(values, max_size=20)), data_type)
    rows = SharedValues(lambda _: array)
    found = shared(formulas, ConstantComparisons())
    assert len(found) == len(formulas), "each of them is one"
    for formula, comparison in found:
        expected = formula.flags({name: array}, len(array))
        assert answer(comparison, rows) == expected.tolist(), formula.text


@pytest.mark.parametrize("name", list(TYPES))
def test_a_null_leaves_the_rows_to_the_formulas(name: str) -> None:
    constant = CONSTANTS.get(name, NUMBERS)[0]
    array = pa.array([None, None], COLUMNS[name])
    ((formula, comparison),) = shared([f"{name} == {constant}"], ConstantComparisons())
    assert comparison.flags(SharedValues(lambda _: array)) is None
    assert formula.flags({name: array}, 2).tolist() == [False, False]


@pytest.mark.parametrize(
    "formula",
    [
        "int > 1 + 2",
        "int > -(3)",
        "3 > int",
        "text == `a` + `b`",
        "double <= Math.PI",
    ],
)
def test_a_constant_may_be_computed(formula: str) -> None:
    assert compile_condition(formula, COLUMNS).comparison is not None


@pytest.mark.parametrize(
    "formula",
    [
        "int > long",
        "int == null",
        "int + 1 > 3",
        "text < `a`",
        "!(int > 3)",
        "int > 3 && int < 5",
        "flag",
        "true",
        "1 < 2",
        "ii > 3",
        "text.startsWith(`a`)",
    ],
)
def test_other_conditions_are_none(formula: str) -> None:
    assert compile_condition(formula, COLUMNS).comparison is None


def test_equal_comparisons_are_one_object() -> None:
    table = ConstantComparisons()
    made = [comparison for _, comparison in shared(["int > 3", "3 < int", "int > 3L", "int > 4"], table)]
    assert made[0] is made[1]
    assert made[0] is not made[3]
    assert made[3].constants == made[0].constants == 2


def test_constants_that_nothing_uses_are_forgotten() -> None:
    table = ConstantComparisons()
    array = pa.array(np.arange(10, dtype=np.int32))
    many = [comparison for _, comparison in shared([f"int > {number}" for number in range(1000)], table)]
    assert many[5].flags(SharedValues(lambda _: array)) is not None
    kept = many[7]
    del many
    gc.collect()
    assert kept.constants == 1
    rows = SharedValues(lambda _: array)
    assert answer(kept, rows) == [False] * 8 + [True] * 2
    (answers,) = rows.answers.values()
    assert len(answers.flags) == 1


def test_a_comparison_made_after_the_others_were_asked_is_answered() -> None:
    table, array = ConstantComparisons(), pa.array(np.arange(5, dtype=np.int32))
    rows = SharedValues(lambda _: array)
    first = shared(["int > 1"], table)[0][1]
    assert answer(first, rows) == [False, False, True, True, True]
    second = shared(["int > 3"], table)[0][1]
    assert answer(second, rows) == [False] * 4 + [True]
    assert answer(first, rows) == [False, False, True, True, True]


def test_flags_of_a_version_are_bounded() -> None:
    table, array = ConstantComparisons(), pa.array(np.arange(1000, dtype=np.int32))
    rows = SharedValues(lambda _: array)
    many = shared([f"int {operator} {number}" for operator in ("<", ">") for number in range(200)], table)
    answered = [comparison.flags(rows) is not None for _, comparison in many]
    assert answered == [True] * 200 + [False] * 200, "the second operator finds no room"
    held = [answers.flags.nbytes for answers in rows.answers.values() if answers.flags is not None]
    assert sum(held) <= 1 << 18
