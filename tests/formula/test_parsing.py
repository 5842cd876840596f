"""Texts that are no formulas are refused with a place, what was found, and what would fit."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.errors import InvalidRequestError, LimitError, UnknownColumnError
from barrage_server.formula import compile_condition, compile_formula, rename_pair, split_assignment

COLUMNS = {"price": pa.float64(), "size": pa.int32(), "sym": pa.string(), "ok": pa.bool_()}


def refusal(text: str) -> str:
    with pytest.raises(InvalidRequestError) as caught:
        compile_formula(text, COLUMNS)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "place", "word"),
    [
        ("price +", 8, "ends"),
        ("(price", 7, "')'"),
        ("price price", 7, "'price'"),
        ("price)", 6, "closes nothing"),
        ("`abc", 1, "closing `"),
        ("'abc'", 1, "single quotes"),
        ("price ? 1 : 2", 7, "condition"),
        ("1 +* 2", 4, "'*'"),
        ("12abc", 1, "number"),
        ("010", 1, "octal"),
        ("1 + 2_", 5, "between two digits"),
        ("0x_1f", 1, "between two digits"),
        ("1e999", 1, "too large for a double"),
        ("size > 4e38f", 8, "too large for a float"),
        ("1e-999", 1, "too small for a double"),
        ("(foo) price", 2, "no type 'foo' to cast to. There are boolean,"),
        ("1 + (floot)(price)", 6, "Did you mean 'float'?"),
        ("(float64) price", 2, "Did you mean 'double'?"),
        ("(str) `a`", 2, "Did you mean 'String'?"),
        ("(price) and (size)", 9, "'&&' for 'and'"),
        ("99999999999999999999", 1, "64 bits"),
        ("price #", 7, "'#'"),
        ("size == `x`", 6, "int and a String"),
        ("size in 1, `x`", 6, "never"),
        ("(int)sym", 1, "cannot be cast"),
        ("'2024-13-01'", 1, "no such LocalDate"),
        ("sqrt(price, 1)", 1, "takes (double)"),
        ("price_", 1, "whole column"),
        ("k", 1, "'ii'"),
        ("size[1]", 5, "no items"),
        ("ok & 1", 4, "boolean and an int"),
    ],
)
def test_errors_say_where_and_what(text: str, place: int, word: str) -> None:
    told = refusal(text)
    assert f"at character {place} of" in told
    assert word in told


@pytest.mark.parametrize(
    "text",
    [
        "__import__(`os`).system(`ls`)",
        "price.__class__.__mro__",
        "().__class__",
        "lambda x: x",
        "x -> x",
        "[x for x in y]",
        "new String()",
        "price; size",
        "import os",
        "sym.getClass().forName(`x`)",
        "{1: 2}",
        "@size",
        "size = size = ",
        "java.lang.System.exit(0)",
        "System.exit(0)",
    ],
)
def test_code_is_no_formula(text: str) -> None:
    refusal(text)


def test_unknown_names_are_told_the_nearest() -> None:
    with pytest.raises(UnknownColumnError, match=r"'prise'.*'price'"):
        compile_formula("prise + 1", COLUMNS)
    assert "'sqrt'" in refusal("sqr(price)")
    assert "'toUpperCase'" in refusal("sym.toUppercase()")


def test_depth_length_and_nodes_are_bounded() -> None:
    compile_formula("(" * 60 + "1" + ")" * 60, COLUMNS)
    for text in ("(" * 65 + "1" + ")" * 65, "-" * 70 + "price", "ok?1:" * 70 + "2", "!" * 5_000 + "ok"):
        with pytest.raises(LimitError, match=r"64 levels deep \(formula_depth\)"):
            compile_formula(text, COLUMNS)
    with pytest.raises(LimitError, match=r"10,000 characters \(formula_characters\)"):
        compile_formula("1" + " " * 10_000, COLUMNS)
    with pytest.raises(LimitError, match=r"1,000 operators.*\(formula_parts\)"):
        compile_formula("+".join(["1"] * 501), COLUMNS)
    long = compile_formula("+".join(["size"] * 490), COLUMNS)
    assert long.evaluate({"size": pa.array([1, None], pa.int32())}, 2).to_pylist() == [490, None]
    chain = compile_formula("sym" + ".toUpperCase()" * 700, COLUMNS)
    assert chain.evaluate({"sym": pa.array(["a"])}, 1).to_pylist() == ["A"]


def test_a_condition_is_of_type_bool() -> None:
    with pytest.raises(InvalidRequestError, match="true or false"):
        compile_condition("price + 1", COLUMNS)
    found = compile_condition("ok", COLUMNS).evaluate({"ok": pa.array([True, None, False])}, 3)
    assert found.null_count == 0
    assert found.to_pylist() == [True, False, False]


def test_a_single_sign_of_equality_compares() -> None:
    assert compile_condition("size = 3", COLUMNS) == compile_condition("size == 3", COLUMNS)


@pytest.mark.parametrize(
    ("text", "name", "formula"),
    [
        ("C = A + B", "C", "A + B"),
        (" C=A==B ", "C", "A==B"),
        ("A", "A", "A"),
        ("C = `x=y`", "C", "`x=y`"),
        ("C = a <= b", "C", "a <= b"),
        ("C==1", None, ""),
        ("C <= 1", None, ""),
        ("C != 1", None, ""),
        ("`C` = 1", None, ""),
        ("C =", None, ""),
        ("", None, ""),
        ("A + B", None, ""),
    ],
)
def test_assignments_are_split_at_their_sign(text: str, name: str | None, formula: str) -> None:
    if name is None:
        with pytest.raises(InvalidRequestError):
            split_assignment(text)
    else:
        found, right = split_assignment(text)
        assert (found, right.text) == (name, formula)
        assert text[right.start :].startswith(formula)


def test_columns_go_before_constants_and_positions() -> None:
    for name in ("E", "DAY", "NULL_INT", "i", "k", "sqrt", "int"):
        formula = compile_formula(f"{name} + 1", {name: pa.int32()})
        assert formula.columns == (name,)
        assert formula.evaluate({name: pa.array([1], pa.int32())}, 1).to_pylist() == [2]
    array = compile_formula("a_ + 1", {"a": pa.int32(), "a_": pa.int32()})
    assert (array.columns, array.arrays) == (("a_",), ())


def test_renamings_are_two_names() -> None:
    assert rename_pair("New = Old") == ("New", "Old")
    for text in ("New", "A == B", "= B", "A =", "A = B = C", 3):
        with pytest.raises(InvalidRequestError):
            rename_pair(text)  # type: ignore[arg-type]


def test_formulas_are_equal_when_they_compute_the_same() -> None:
    formula = compile_formula("price+1", COLUMNS)
    assert formula == compile_formula(" price  + (1)", COLUMNS)
    assert hash(formula) == hash(compile_formula("price + 1", COLUMNS))
    assert formula != compile_formula("price + 1L", COLUMNS)
    assert formula != compile_formula("price + 1", {"price": pa.float32()})
    assert formula.columns == ("price",)
    assert formula.column is None
    assert compile_formula("(price)", COLUMNS).column == "price"
    at = compile_formula("price_[ii - 1] + size", COLUMNS)
    assert (at.columns, at.arrays, at.positions, at.is_pure) == (("size",), ("price",), True, True)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("price > 1 and size < 5", "'&&'"),
        ("price > 1 or (size < 5)", "'||'"),
        ("not ok", "'!'"),
        ("not sym in `A`", "'x not in a, b'"),
        ("price is None", "x == null"),
        ("1 if ok else 2", "condition ? a : b"),
        ("price between 1 and 2", "inRange"),
        ("sym like `A%`", "contains"),
        ("price ** 2", "pow(a, b)"),
        ("size // 2", "floorDiv(a, b)"),
        ("price <> 1", "'!='"),
        ("price => 1", "'>='"),
        ("price * 2, size", "list of strings"),
        ("sym in [`A`, `B`]", "no brackets"),
        ("sym in (`A`, `B`)", "no brackets"),
        ("f`x`", "no f-strings"),
        ("f'{size}'", "no f-strings"),
        ("lambda x: x", "no functions"),
        ("price == None", "'null'"),
        ("ok == True", "'true'"),
        ("price == nan", "isNaN(x)"),
        ("np.log(price)", "'log(x)'"),
        ("str(price)", "String.valueOf(x)"),
        ("int(price)", "(int)x"),
        ("len(sym)", "x.length()"),
        ("mean(price)", "agg_by"),
        ("sym.lower()", "toLowerCase()"),
        ("price.isna()", "isNull(x)"),
        ("price.round()", "'round(...)'"),
        ("1 < price < 3", "a < b && b < c"),
        ("time > '2024-01-01'", "'2024-06-15T00:00 UTC'"),
        ("time > '2024-01-01T10:00'", "with its zone"),
        ("sym == 'AB'", "in backticks"),
        ("time > `2024-01-01`", "in single quotes"),
        ("sym.str.contains(`A`)", "Leave '.str' out"),
        ("time.year == 2024", "'year(x)'"),
    ],
)
def test_words_of_other_languages_are_told_what_to_write(text: str, hint: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        compile_condition(text, COLUMNS | {"time": pa.timestamp("us")})
    assert hint in str(caught.value)


def test_a_column_goes_before_a_word_of_another_language() -> None:
    assert compile_formula("None + 1", {"None": pa.int32()}).evaluate({"None": pa.array([1])}, 1).to_pylist() == [2]


def test_a_hint_is_a_formula_itself() -> None:
    """What the texts of errors advise to write compiles."""
    compile_condition("time > '2024-06-15T00:00 UTC' && hourOfDay(time, 'UTC') > 1", {"time": pa.timestamp("us")})
    compile_condition("monthOfYear(time, 'UTC') + minuteOfHour(time, 'UTC') > 1", {"time": pa.timestamp("us")})
    compile_condition("dayOfMonth(time, 'UTC') == 1", {"time": pa.timestamp("us")})


@pytest.mark.parametrize("text", [r"x.matches(`\d+`)", r"`\q`", r"x.matches(`\1`)", r"`a\u12`", r"'\w'"])
def test_a_backslash_that_is_no_escape_is_refused(text: str) -> None:
    """Else a regular expression loses its backslash, and meets other texts, without a word."""
    with pytest.raises(InvalidRequestError, match=r"is no escape\. A backslash itself is written twice"):
        compile_formula(text, {"x": pa.string()})


def test_escapes_are_those_of_java() -> None:
    made = compile_formula(r"`\n\t\\d\`\"\'\u00e4`", {"x": pa.string()})
    assert made.evaluate({"x": pa.array(["a"])}, 1).to_pylist() == ["\n\t\\d`\"'\u00e4"]


def test_the_array_of_a_column_is_the_nearest_name_of_one() -> None:
    with pytest.raises(UnknownColumnError, match="Did you mean 'price_'"):
        compile_formula("pric_[ii - 1]", {"price": pa.float64()})


def test_periods_have_no_months() -> None:
    with pytest.raises(InvalidRequestError, match="A period has days and weeks"):
        compile_formula("d + 'P1M'", {"d": pa.date32()})


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("1_000_000", 1_000_000, pa.int32()),
        ("1e1_0", 1e10, pa.float64()),
        ("0xF_F", 255, pa.int32()),
        ("0xFFFFFFFF", 4_294_967_295, pa.int64()),
        ("0xFFFFFFFFFFFFFFFF", -1, pa.int64()),
        ("3.4e38f", float(np.float32(3.4e38)), pa.float32()),
        ("0e-999", 0.0, pa.float64()),
    ],
)
def test_numbers_have_the_type_that_has_room_for_them(text: str, value: float, kind: pa.DataType) -> None:
    found = bs.empty_table(1).update(f"y = {text}")
    assert found.schema.field("y").type == kind
    assert found.to_arrow()["y"].to_pylist() == [value]
