"""``kind="compiled"``: what scalar functions give; what does not compile is refused with the reason."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.errors import InternalError, InvalidRequestError, LimitError
from barrage_server.fixed_limits import FixedLimit
from barrage_server.formula import Formula, Functions, compile_formula

COLUMNS = {
    "b": pa.bool_(),
    "tiny": pa.int8(),
    "char": pa.uint16(),
    "x": pa.int64(),
    "wide": pa.uint64(),
    "f": pa.float32(),
    "y": pa.float64(),
    "s": pa.string(),
}


def functions_of(function: Callable[..., Any], returns: pa.DataType, kind: str = "compiled") -> Functions:
    functions = Functions()
    functions.register("g", function, returns=returns, kind=kind)
    return functions


def made(text: str, function: Callable[..., Any], returns: pa.DataType, kind: str = "compiled") -> Formula:
    return compile_formula(text, COLUMNS, functions_of(function, returns, kind))


def inputs(rows: int, seed: int, nulls: float = 0.3) -> dict[str, pa.Array]:
    chance = random.Random(seed)

    def column(value: Callable[[], Any], name: str) -> pa.Array:
        return pa.array([None if chance.random() < nulls else value() for _ in range(rows)], COLUMNS[name])

    return {
        "b": column(lambda: chance.random() < 0.5, "b"),
        "tiny": column(lambda: chance.randint(-9, 9), "tiny"),
        "char": column(lambda: chance.randint(0, 9), "char"),
        "x": column(lambda: chance.randint(-9, 9), "x"),
        "f": column(lambda: chance.randint(-9, 9) / 4, "f"),
        "y": column(lambda: chance.choice([math.nan, math.inf, chance.randint(-9, 9) / 4]), "y"),
    }


def clipped(value: Any, least: Any) -> Any:
    if value is None or least is None:
        return None
    return value if value > least else least


def rough_root(value: Any, is_wanted: Any) -> Any:
    if value is None or is_wanted is None or not is_wanted:
        return -1
    guess = 1.0
    for _ in range(20):
        guess = (guess + abs(value) / guess) / 2
    return math.floor(guess * 1000)


def is_between(value: Any, low: Any, high: Any) -> bool:
    return value is not None and low is not None and high is not None and low <= value <= high


@pytest.mark.parametrize("nulls", [0, 0.3])
@pytest.mark.parametrize(
    ("text", "function", "returns"),
    [
        ("g(x, 2)", clipped, pa.int64()),
        ("g(tiny, x)", clipped, pa.int32()),
        ("g(char, 3)", clipped, pa.uint16()),
        ("g(y, f)", clipped, pa.float64()),
        ("g(x, y)", clipped, pa.float64()),
        ("g(f, 0.5)", clipped, pa.float32()),
        ("g(x, b)", rough_root, pa.int64()),
        ("g(x, true)", rough_root, pa.float64()),
        ("g(y, f, x)", is_between, pa.bool_()),
    ],
)
def test_results_are_those_of_a_scalar_function(
    text: str, function: Callable[..., Any], returns: pa.DataType, nulls: float
) -> None:
    """With nulls, which are None, and without them; also of parts of arrays, and of no rows."""
    compiled, scalar = made(text, function, returns), made(text, function, returns, "scalar")
    for rows in (0, 1, 200):
        given = inputs(rows, rows, nulls)
        found, wanted = compiled.evaluate(given, rows), scalar.evaluate(given, rows)
        assert found.type == returns
        found.validate(full=True)
        assert list(map(repr, found.to_pylist())) == list(map(repr, wanted.to_pylist()))
        part = {name: array.slice(rows // 3) for name, array in given.items()}
        assert repr(compiled.evaluate(part, rows - rows // 3).to_pylist()) == repr(wanted.to_pylist()[rows // 3 :])


def test_a_function_without_arguments_is_called_for_each_row() -> None:
    assert made("g() + 1", lambda: 4, pa.int32()).evaluate({}, 3).to_pylist() == [5, 5, 5]


def test_integers_wrap() -> None:
    compiled = made("g(x)", lambda value: value * 2, pa.int64())
    assert compiled.evaluate({"x": pa.array([2**62])}, 1).to_pylist() == [-(2**63)]


def test_functions_that_numba_has_compiled_are_taken() -> None:
    numba = pytest.importorskip("numba")
    inner = numba.njit(lambda value: value + 1)
    outer = numba.njit(lambda value: inner(value) * 2)
    assert made("g(x)", outer, pa.int64()).evaluate({"x": pa.array([1, 2])}, 2).to_pylist() == [4, 6]


class Unpleasant:
    secret = "1234"


@pytest.mark.parametrize(
    ("text", "function", "returns", "words"),
    [
        ("g(x)", lambda value: value.nothing, pa.int64(), "Unknown attribute 'nothing' of type int64"),
        ("g(x)", lambda value: input(value), pa.int64(), "Untyped global name 'input'"),
        ("g(x)", lambda value: Unpleasant().secret, pa.int64(), "does not compile: "),
        ("g(x)", lambda value: nowhere(value), pa.int64(), "'nowhere' is not defined"),  # type: ignore[name-defined] # noqa: F821
        ("g(x, y)", lambda value: value, pa.int64(), "2 argument types given, but function takes 1"),
        ("g()", lambda value: value, pa.int64(), "0 argument types given"),
        ("g(x)", lambda value: value * 0.5, pa.int64(), r"returns float64, and is registered with returns=int64"),
        ("g(x)", lambda value: value > 1, pa.int64(), "returns bool"),
        ("g(x)", lambda value: value, pa.bool_(), "returns int64"),
        ("g(x)", lambda value: None, pa.int64(), "returns None"),
        ("g(x)", lambda value: str(value), pa.int64(), "returns unicode_type"),
        ("g(x)", lambda value: complex(value), pa.float64(), "returns complex128"),
        ("g(s)", lambda value: value, pa.int64(), "takes numbers and booleans; argument 1 is of type String"),
        ("g(1, wide)", lambda _, value: value, pa.int64(), "argument 2 is of type"),
        ("g(null)", lambda value: 1, pa.int64(), "argument 1 is of type null"),
    ],
)
def test_what_does_not_compile_is_refused_with_the_reason(
    text: str, function: Callable[..., Any], returns: pa.DataType, words: str
) -> None:
    """And with the place in the formula, but no file, line of source or address."""
    with pytest.raises(InvalidRequestError, match=words) as caught:
        made(text, function, returns)
    told = str(caught.value)
    assert "at character 1 of the formula" in told and "\n" not in told and len(told) < 600
    assert "File" not in told and ".py" not in told and "lambda" not in told and "0x" not in told


@pytest.mark.parametrize("returns", [pa.string(), pa.timestamp("ns"), pa.list_(pa.int64()), pa.decimal128(9, 2)])
def test_results_are_numbers_or_booleans(returns: pa.DataType) -> None:
    with pytest.raises(InvalidRequestError, match="returns must be a type of numbers or booleans"):
        functions_of(lambda value: value, returns)


def test_what_is_no_python_function_is_refused() -> None:
    for wrong in (len, max, int):
        with pytest.raises(InvalidRequestError, match="function must be a Python function"):
            functions_of(wrong, pa.int64())


def fails(value: Any) -> Any:
    if value > 2:
        raise ValueError("the password is 1234")
    return value


@pytest.mark.parametrize(
    ("function", "returns", "cause", "values"),
    [
        (fails, pa.int64(), ValueError, [1, 3]),
        (lambda value: 7 // value, pa.int64(), ZeroDivisionError, [1, 0]),
        (lambda value: value + 1, pa.int64(), TypeError, [1, None]),
    ],
)
def test_what_a_function_raises_is_the_cause_of_an_error(
    function: Callable[..., Any], returns: pa.DataType, cause: type[Exception], values: list[Any]
) -> None:
    compiled = made("g(x)", function, returns)
    with pytest.raises(InternalError, match="'g' raised an exception") as caught:
        compiled.evaluate({"x": pa.array(values)}, len(values))
    assert isinstance(caught.value.__cause__, cause) and "1234" not in str(caught.value)
    assert compiled.evaluate({"x": pa.array([1])}, 1).to_pylist() == [function(1)]


def test_a_result_beyond_its_type_is_an_error() -> None:
    compiled = made("g(x)", lambda value: value * 2, pa.int8())
    assert compiled.evaluate({"x": pa.array([1, -3])}, 2).to_pylist() == [2, -6]
    with pytest.raises(InternalError, match="returned a value that is no int8"):
        compiled.evaluate({"x": pa.array([100])}, 1)


def test_a_function_that_does_not_compile_for_nulls_takes_other_rows() -> None:
    compiled = made("g(x)", lambda value: float(value), pa.float64())
    assert compiled.evaluate({"x": pa.array([1, 2])}, 2).to_pylist() == [1, 2]
    with pytest.raises(InternalError, match="'g' got a null, for which it does not compile: No implementation"):
        compiled.evaluate({"x": pa.array([1, None])}, 2)


def test_it_is_compiled_for_so_many_types_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barrage_server.formula.compiled.FUNCTION_TYPES", FixedLimit("function_types", 2))
    functions = functions_of(lambda value: value, pa.float64())
    for text in ("g(x)", "g(y)", "g(tiny)", "g(f)", "g((int)y)"):  # two types: integers, and others
        compile_formula(text, COLUMNS, functions)
    with pytest.raises(LimitError, match=r"compiled for 2 types of arguments already \(function_types\)"):
        compile_formula("g(b)", COLUMNS, functions)


def test_threads_compile_and_run_together() -> None:
    functions = functions_of(clipped, pa.float64())
    given = inputs(5_000, 1)
    texts = ["g(x, y)", "g(y, x)", "g(x, f)", "g(y, y)"] * 2

    def run(text: str) -> str:
        return repr(compile_formula(text, COLUMNS, functions).evaluate(given, 5_000).to_pylist())

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(run, texts))
    scalar = functions_of(clipped, pa.float64(), "scalar")
    wanted = [repr(compile_formula(text, COLUMNS, scalar).evaluate(given, 5_000).to_pylist()) for text in texts]
    assert found == wanted


def test_a_table_follows_and_fails_with_its_function() -> None:
    table = bs.AppendTable(bs.UpdateGraph(), "t", {"x": "int64"})
    table.graph.functions.register("g", fails, returns=pa.int64(), kind="compiled")
    result = table.update("y = g(x)")
    table.append({"x": [1, 2]})
    assert result.to_arrow()["y"].to_pylist() == [1, 2]
    table.append({"x": [3]})
    assert result.failure is not None and "1234" not in str(result.failure)
    with pytest.raises(InvalidRequestError, match="does not compile"):
        table.update("y = g(x, x)")


def run_python(code: str, **settings: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.strip()


def test_without_the_extra_one_error_says_what_to_install() -> None:
    """Other kinds do not need it."""
    code = (
        "import sys; sys.modules['numba'] = None\n"
        "import pyarrow as pa, barrage_server as bs\n"
        "functions = bs.UpdateGraph().functions\n"
        "functions.register('f', lambda x: x, returns=pa.int64(), kind='scalar')\n"
        "try: functions.register('g', lambda x: x, returns=pa.int64(), kind='compiled')\n"
        "except bs.DependencyError as error: print(functions.names, error)\n"
    )
    told = run_python(code)
    assert told.startswith("('f',) A compiled function needs numba") and "Run: pip install" in told


def test_numba_is_imported_by_the_first_compiled_function_only() -> None:
    assert run_python("import sys, barrage_server as bs; bs.Server; print('numba' in sys.modules)") == "False"


def test_numba_switched_off_is_an_error() -> None:
    code = (
        "import pyarrow as pa, barrage_server as bs\n"
        "try: bs.UpdateGraph().functions.register('g', lambda x: x, returns=pa.int64(), kind='compiled')\n"
        "except bs.DependencyError as error: print(error)\n"
    )
    assert "NUMBA_DISABLE_JIT has switched off" in run_python(code, NUMBA_DISABLE_JIT="1")
