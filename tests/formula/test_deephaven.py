"""Results are those of a Deephaven server 42: ``deephaven.json`` has what it answered, with the columns below.

Where its null is a value (``NULL_INT`` in a text, or a sum that overflows to it) results differ, and are left out.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from barrage_server.formula import compile_formula

ANSWERS = json.loads((Path(__file__).parent / "deephaven.json").read_text())
NAN = math.nan
INTS, DOUBLES = [3, -8, 2147483647, None], [2.5, -1e10, NAN, None]
LONGS, SMALL = [5, -9000000000, 2**63 - 1, None], [2, 3, 2, None]
ROWS = {
    "By": pa.array([1, -7, 127, None], pa.int8()),
    "Sh": pa.array([2, -300, 32767, None], pa.int16()),
    "Ch": pa.array([97, 90, 48, None], pa.uint16()),
    "I": pa.array(INTS, pa.int32()),
    "J": pa.array(SMALL, pa.int32()),
    "L": pa.array(LONGS, pa.int64()),
    "D": pa.array(DOUBLES, pa.float64()),
    "D2": pa.array([2.5, -3.5, 0.0, None]),
    "S": pa.array(["abc", "Hello World", "", None]),
    "T": pa.array([1718446272123456789, -500000000, 1709164800000000000, None], pa.timestamp("ns", "UTC")),
    "LD": pa.array([19889, -1, 19782, None], pa.date32()),
    "LT": pa.array([36672123456789, 86399000000000, 0, None], pa.time64("ns")),
    "Du": pa.array([5_400_000_000_000, -2_000_000_000, 1, None], pa.duration("ns")),
}


def lists(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([values, values[3:], values[:1], values[:2]], pa.list_(kind))


LISTS = {
    "VI": lists(INTS, pa.int32()),
    "VD": lists(DOUBLES, pa.float64()),
    "VL": lists(LONGS, pa.int64()),
    "VJ": lists(SMALL, pa.int32()),
}
TYPES = {
    "Boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "char": pa.uint16(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "String": pa.string(),
    "Instant": pa.timestamp("ns", "UTC"),
    "LocalDate": pa.date32(),
    "LocalTime": pa.time64("ns"),
    "Duration": pa.duration("ns"),
}


def result(formula: str, columns: dict[str, pa.Array]) -> pa.Array:
    compiled = compile_formula(formula, {name: array.type for name, array in columns.items()})

    def lookup(name: str, places: Any) -> pa.Array:
        inside = (places >= 0) & (places < 4)
        return columns[name].take(pa.array(np.where(inside, places, 0), mask=~inside))

    found = compiled.evaluate(columns, 4, np.arange(4), lookup)
    assert found.type == compiled.type
    assert len(found) == 4
    found.validate(full=True)
    return found


def check(formula: str, kind: str, wanted: list[Any], columns: dict[str, pa.Array]) -> None:
    found = result(formula, columns)
    assert found.type == TYPES[kind]
    if kind in ("Instant", "LocalDate", "LocalTime", "Duration"):
        shown = compile_formula("String.valueOf(x)", {"x": found.type})
        found = shown.evaluate({"x": found}, 4)
    for got, value in zip(found.to_pylist(), wanted, strict=True):
        if kind in ("float", "double") and value is not None:
            assert got == pytest.approx(float(value), rel=1e-12, nan_ok=True)
        else:
            assert got == value


@pytest.mark.parametrize(("formula", "kind", "wanted"), ANSWERS["rows"], ids=lambda value: str(value)[:40])
def test_values_are_those_of_deephaven(formula: str, kind: str, wanted: list[Any]) -> None:
    check(formula, kind, wanted, ROWS | {"S2": pa.array([" Ab,b ", "Hello Wörld", "12", None])})


@pytest.mark.parametrize(("formula", "kind", "wanted"), ANSWERS["lists"], ids=lambda value: str(value)[:40])
def test_lists_are_those_of_deephaven(formula: str, kind: str, wanted: list[Any]) -> None:
    check(formula, kind, wanted, LISTS)
