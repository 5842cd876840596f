"""The comparison at the end of the demo finds every difference, and nothing else."""

from __future__ import annotations

import pyarrow as pa
import pytest

from barrage_server.demo.verdict import compare

EXPECTED = pa.table({"k": ["a", "b", "c"], "n": [1, 2, 3], "v": [1.5, None, 3.5], "w": ["x", None, "z"]})


def test_the_order_of_rows_and_columns_does_not_matter() -> None:
    verdict = compare("t", EXPECTED, EXPECTED.take([2, 0, 1]).select(["w", "n", "k", "v"]), ["k"])
    assert verdict.agrees
    assert (verdict.rows, verdict.cells) == (3, 12)
    assert str(verdict) == "t: all 12 cells of 3 rows agree"


@pytest.mark.parametrize("key", [["k"], ["k", "n"]])
def test_a_missing_and_a_surplus_row(key: list[str]) -> None:
    verdict = compare("t", EXPECTED, EXPECTED.slice(1), key)
    assert (verdict.agrees, verdict.missing, verdict.surplus) == (False, 1, 0)
    assert "k=a" in str(verdict)
    verdict = compare("t", EXPECTED.slice(1), EXPECTED, key)
    assert (verdict.agrees, verdict.missing, verdict.surplus) == (False, 0, 1)


@pytest.mark.parametrize(
    ("column", "values"),
    [("v", [1.5, None, 3.75]), ("v", [1.5, 2.5, 3.5]), ("v", [None, None, 3.5]), ("w", ["x", "", "z"])],
)
def test_one_cell(column: str, values: list[object]) -> None:
    number = EXPECTED.column_names.index(column)
    verdict = compare("t", EXPECTED, EXPECTED.set_column(number, column, [values]), ["k"])
    assert (verdict.agrees, verdict.differing, verdict.missing, verdict.surplus) == (False, 1, 0, 0)
    assert f"{column} of k=" in str(verdict)


def test_an_order_that_matters() -> None:
    verdict = compare("t", EXPECTED, EXPECTED, ["k"], in_order=True)
    assert (verdict.agrees, verdict.cells) == (True, 15)
    assert str(verdict) == "t: all 15 cells of 3 rows agree, and so does their order"
    verdict = compare("t", EXPECTED, EXPECTED.take([1, 0, 2]), ["k"], in_order=True)
    assert (verdict.agrees, verdict.differing, verdict.missing, verdict.surplus) == (False, 2, 0, 0)
    assert "position of k=a is 1, expected 0" in str(verdict)


def test_one_bit_of_a_double() -> None:
    expected = pa.table({"k": ["a"], "v": [0.3]})
    verdict = compare("t", expected, pa.table({"k": ["a"], "v": [0.1 + 0.2]}), ["k"])
    assert (verdict.agrees, verdict.differing) == (False, 1)


def test_a_row_twice() -> None:
    verdict = compare("t", EXPECTED, pa.concat_tables([EXPECTED, EXPECTED.slice(0, 1)]), ["k"])
    assert (verdict.agrees, verdict.surplus) == (False, 1)
    assert "more than once" in str(verdict)


def test_nothing_received() -> None:
    verdict = compare("t", EXPECTED, EXPECTED.schema.empty_table(), ["k"])
    assert (verdict.agrees, verdict.missing) == (False, 3)


def test_other_columns_or_types() -> None:
    assert "columns k, n, v, w were expected" in str(compare("t", EXPECTED, EXPECTED.drop_columns("v"), ["k"]))
    other = EXPECTED.set_column(1, "n", EXPECTED["n"].cast(pa.int32()))
    assert not compare("t", EXPECTED, other, ["k"]).agrees


def test_two_empty_tables_agree() -> None:
    empty = EXPECTED.schema.empty_table()
    assert compare("t", empty, empty, ["k"]).agrees
