"""Whatever text arrives: a typed error or a result, in bounded time and memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.errors import BarrageError, InvalidRequestError, LimitError
from barrage_server.formula import compile_formula, rename_pair, split_assignment

ROWS = 5
INPUTS = {
    "a": pa.array([1, -8, 2**31 - 1, None, -(2**31)], pa.int32()),
    "b": pa.array([1.5, float("nan"), float("inf"), None, -0.0]),
    "l": pa.array([2**63 - 1, -(2**63), 0, None, 7]),
    "s": pa.array(["abc", "", "ÄöÜ \U0001f600", None, "x" * 100]),
    "t": pa.array([0, 2**63 - 1, -(2**63), None, 1718446272123456789], pa.timestamp("ns", "UTC")),
    "d": pa.array([0, 2**31 - 1, -(2**31), None, 19889], pa.date32()),
    "u": pa.array([0, 2**63 - 1, -(2**63), None, 5], pa.duration("ns")),
    "o": pa.array([True, False, None, True, False]),
    "v": pa.array([[1, None], [], None, [3, 4, 5], [-1]], pa.list_(pa.int32())),
    "c": pa.array([97, 0xD800, 0xFFFF, None, 0], pa.uint16()),
    "m": pa.array([1, None, 3, 4, 5]).cast(pa.decimal128(21, 2)),
    "r": pa.array([{"q": 1}, None, {"q": None}, {"q": 2}, {"q": 3}]),
}
COLUMNS = {name: array.type for name, array in INPUTS.items()}
VOCABULARY = """
+ - * / % == != < <= > >= && || ! ~ & | ^ << >> >>> ? : ( ) [ ] , . = in not icase i ii a_ s_
0 1 7 -1 2.5 1f 3L 9223372036854775807L 0x7f null true false NULL_INT NULL_DOUBLE `abc` `` `(a` 'a' SECOND
'2024-06-15' '2024-06-15T10:00:00Z' 'PT1h' 'P1D' 'UTC' 'ET' '+05:30' '10:00' (int) (byte) (long) (double)
sqrt abs max min round pow floorMod lowerBin isNull replaceIfNull ifelse inRange sum avg median first
year hourOfDay toLocalDate toInstant atMidnight formatDateTime epochNanosToInstant plus String.valueOf
.length .substring .replace .replaceAll .matches .charAt .repeat .indexOf .toString .get .concat
"""
WORDS = [*INPUTS, *VOCABULARY.split()]
BINARY = "+,-,*,/,%,==,<,>=,&&,||,&,|,^,<<,>>>,in,not in"


def run(text: str) -> None:
    """Compile and evaluate: the result is of the promised type and length, and sound."""
    try:
        formula = compile_formula(text, COLUMNS)
    except (InvalidRequestError, LimitError) as error:
        assert str(error).endswith((".", text[-30:])) or "formula" in str(error)
        return

    def lookup(name: str, places: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
        assert places.dtype == np.int64
        inside = (places >= 0) & (places < ROWS)
        return INPUTS[name].take(pa.array(np.where(inside, places, 0), mask=~inside))

    found = formula.evaluate(INPUTS, ROWS, np.arange(ROWS), lookup, 0)
    assert found.type == formula.type
    assert len(found) == ROWS
    found.validate(full=True)
    empty = {name: array[:0] for name, array in INPUTS.items()}
    none = formula.evaluate(empty, 0, np.arange(0), lambda name, _: empty[name], 0)
    assert (len(none), none.type) == (0, formula.type)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60))
def test_random_texts(text: str) -> None:
    run(text)
    for read in (split_assignment, rename_pair):
        try:
            read(text)
        except BarrageError:
            continue


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=14), st.sampled_from(["", " "]))
def test_random_words(words: list[str], between: str) -> None:
    run(between.join(words))


def expressions() -> st.SearchStrategy[str]:
    """Texts that parse, most of them with types that do not go together."""
    leaves = st.sampled_from([word for word in WORDS if word[0].isalnum() or word[0] in "`'"]).filter(
        lambda word: word not in ("in", "not", "icase", "a_", "s_")
    )
    functions = [word for word in WORDS if word.isalpha() and len(word) > 2 and word not in ("not", "icase", "null")]
    methods = [word for word in WORDS if word[0] == "." and len(word) > 1]

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        binary = st.sampled_from(BINARY.split(","))
        return st.one_of(
            st.builds("({} {} {})".format, inner, binary, inner),
            st.builds("({} ? {} : {})".format, inner, inner, inner),
            st.builds("{}{}".format, st.sampled_from(["-", "!", "~", "(int)", "(byte)", "(double)"]), inner),
            st.builds("{}({})".format, st.sampled_from(functions), inner),
            st.builds("{}({}, {})".format, st.sampled_from(functions), inner, inner),
            st.builds("{}{}({})".format, inner, st.sampled_from(methods), inner),
            st.builds("a_[{}]".format, inner),
        )

    return st.recursive(leaves, larger, max_leaves=6)


@settings(max_examples=1000, deadline=None)
@given(expressions())
def test_random_expressions(text: str) -> None:
    run(text)


@pytest.mark.parametrize(
    "text",
    [
        "+".join(["s"] * 400),
        "s" + ".concat(s)" * 300,
        "s" + (".replace(`x`, `" + "x" * 500 + "`)") * 4,
        "s" + ".replaceAll(`x+`, `$0$0$0`)" * 12,
        "s" + ".repeat(10000)" * 3,
        "`abc`" + ".repeat(10000)" * 3,
        "`abc`" + (".replace(``, `" + "x" * 500 + "`)") * 4,
    ],
)
def test_texts_do_not_grow_without_bound(text: str) -> None:
    inputs = {"s": pa.array(["x" * 5_000] * 4_000)}
    formula = compile_formula(text, {"s": pa.string()})
    with pytest.raises(LimitError, match="MiB"):
        for _ in range(1):
            formula.evaluate(inputs, 4_000)


def test_doubling_by_reuse_is_bounded() -> None:
    text = "s"
    for _ in range(8):
        text = f"({text} + {text})"
    inputs = {"s": pa.array(["x" * 3_000] * 4_000)}
    with pytest.raises(LimitError, match="MiB"):
        compile_formula(text, {"s": pa.string()}).evaluate(inputs, 4_000)


@pytest.mark.parametrize(
    "pattern", ["(?=a)", "(?!a)", "(?<=a)b", r"(a)\1", "(a", "[", "a{100000}", "((((a{30}){30}){30}){30})", "*"]
)
def test_patterns_beyond_linear_time_are_refused_with_the_reason(pattern: str) -> None:
    text = pattern.replace("\\", "\\\\")
    with pytest.raises(InvalidRequestError, match="regular expression"):
        compile_formula(f"s.matches(`{text}`)", COLUMNS)


def test_a_pattern_that_backtracking_engines_choke_on_is_linear() -> None:
    inputs = {"s": pa.array(["a" * 50_000 + "b"])}
    formula = compile_formula("s.matches(`(a+)+$`)", {"s": pa.string()})
    assert formula.evaluate(inputs, 1).to_pylist() == [False]


def test_shifts_use_the_lowest_bits_of_the_distance() -> None:
    formula = compile_formula("1 << l", COLUMNS)
    assert formula.evaluate(INPUTS, ROWS).to_pylist() == [-(2**31), 1, 1, None, 128]
