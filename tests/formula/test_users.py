"""Users' functions are called by name; what goes wrong in them is told without its text."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from barrage_server.errors import AlreadyExistsError, InternalError, InvalidRequestError, UnsupportedTypeError
from barrage_server.formula import Functions, compile_formula

COLUMNS = {"x": pa.int64(), "s": pa.string()}
INPUTS = {"x": pa.array([1, None, 3]), "s": pa.array(["a", "b", None])}


def evaluate(text: str, functions: Functions) -> pa.Array:
    return compile_formula(text, COLUMNS, functions).evaluate(INPUTS, 3)


def registered(function: Callable[..., Any], returns: pa.DataType, kind: str = "batch") -> Functions:
    functions = Functions()
    functions.register("f", function, returns=returns, kind=kind)
    return functions


def test_batch_functions_get_arrays() -> None:
    functions = registered(lambda x, y: pc.add(x, y), pa.int64())
    assert evaluate("f(x, 10L) + 1", functions).to_pylist() == [12, None, 14]


def test_batch_functions_may_return_numpy_and_chunks() -> None:
    assert evaluate("f(s)", registered(lambda s: np.arange(len(s)), pa.int64())).to_pylist() == [0, 1, 2]
    assert evaluate("f(s)", registered(lambda s: pa.chunked_array([s]), pa.string())).to_pylist() == ["a", "b", None]


def test_scalar_functions_get_values() -> None:
    functions = registered(lambda x, s: None if x is None else f"{s}{x}", pa.string(), "scalar")
    assert evaluate("f(x, s).toUpperCase()", functions).to_pylist() == ["A1", None, "NONE3"]
    assert evaluate("f() + 1", registered(lambda: 4, pa.int32(), "scalar")).to_pylist() == [5, 5, 5]


def test_only_registered_names_can_be_called() -> None:
    with pytest.raises(InvalidRequestError, match=r"no function 'g'"):
        evaluate("g(x)", registered(lambda x: x, pa.int64()))


def fails(*_: Any) -> Any:
    raise ValueError("the password is 1234")


@pytest.mark.parametrize(
    ("function", "returns", "kind", "word"),
    [
        (fails, pa.int64(), "batch", "raised an exception"),
        (fails, pa.int64(), "scalar", "raised an exception"),
        (lambda x: x.slice(1), pa.int64(), "batch", "2 values for 3 rows"),
        (lambda x: x, pa.float64(), "batch", "int64 instead of double"),
        (lambda x: [1, 2, 3], pa.int64(), "batch", "a list"),
        (lambda x: None, pa.int64(), "batch", "a NoneType"),
        (lambda x: "1234", pa.int64(), "scalar", "no int64"),
        (lambda x: 1234.5, pa.int64(), "scalar", "no int64"),
        (lambda x: None if x is None else np.float64(2), pa.int8(), "scalar", "no int8"),
        (lambda x: 1234.5, pa.date32(), "scalar", "no date32"),
        (lambda x: [1, 1234.5], pa.list_(pa.int64()), "scalar", "no list"),
    ],
)
def test_a_function_that_fails_is_an_error_without_its_text(
    function: Callable[..., Any], returns: pa.DataType, kind: str, word: str
) -> None:
    with pytest.raises(InternalError, match=word) as caught:
        evaluate("f(x)", registered(function, returns, kind))
    assert "1234" not in str(caught.value)
    if function is fails:
        assert isinstance(caught.value.__cause__, ValueError)


def test_a_scalar_function_may_return_integers_where_floats_are_registered() -> None:
    assert evaluate("f(x)", registered(lambda x: x, pa.float64(), "scalar")).to_pylist() == [1.0, None, 3.0]


@pytest.mark.parametrize("kind", ["batch", "scalar"])
def test_the_number_of_arguments_is_checked_when_a_formula_is_made(kind: str) -> None:
    functions = registered(lambda x, y=1: x, pa.int64(), kind)
    for text in ("f(x)", "f(x, x)"):
        compile_formula(text, COLUMNS, functions)
    for text, count in (("f()", "0 arguments"), ("1 + f(x, x, x)", "3 arguments")):
        with pytest.raises(InvalidRequestError, match=rf"'f' does not take {count}; .*\(x, y=1\)\. This is at char"):
            compile_formula(text, COLUMNS, functions)
    compile_formula("f(x, x, x)", COLUMNS, registered(lambda *_: 1, pa.int64(), kind))
    compile_formula("f(x)", COLUMNS, registered(max, pa.int64(), kind))  # it tells no parameters


@pytest.mark.parametrize("kind", ["batch", "scalar"])
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_function_cannot_end_a_thread(kind: str, error: type[BaseException]) -> None:
    """On the main one such an error may be Ctrl-C, which must come through."""

    def ends(*_: Any) -> Any:
        raise error

    functions = registered(ends, pa.int64(), kind)
    with pytest.raises(error):
        evaluate("f(x)", functions)
    with ThreadPoolExecutor(1) as pool, pytest.raises(InternalError, match="raised an exception") as caught:
        pool.submit(evaluate, "f(x)", functions).result()
    assert isinstance(caught.value.__cause__, error)


@pytest.mark.parametrize("returns", [pa.float64(), "float64", " double ", float, np.float64, np.dtype("f8")])
def test_the_type_of_results_is_named_as_in_schemas(returns: Any) -> None:
    functions = Functions()
    functions.register("half", lambda x: pc.divide(x.cast("float64"), 2.0), returns=returns)
    assert evaluate("half(x) + 1", functions).to_pylist() == [1.5, None, 2.5]


def test_wrong_registrations_are_refused() -> None:
    functions = Functions()
    for name in ("", "a b", "1a", "a.b", "é", 3):
        with pytest.raises(InvalidRequestError):
            functions.register(name, len, returns=pa.int64())  # type: ignore[arg-type]
    for name in ("in", "null", "int", "i", "NULL_INT"):
        with pytest.raises(AlreadyExistsError):
            functions.register(name, len, returns=pa.int64())
    with pytest.raises(InvalidRequestError, match="kind"):
        functions.register("f", len, returns=pa.int64(), kind="other")
    with pytest.raises(InvalidRequestError, match="returns: None is no type"):
        functions.register("f", len, returns=None)
    with pytest.raises(UnsupportedTypeError, match=r"returns: 'flaot64' is not .* Did you mean 'float64'\?"):
        functions.register("f", len, returns="flaot64")
    with pytest.raises(InvalidRequestError, match="function"):
        functions.register("f", 3, returns=pa.int64())  # type: ignore[arg-type]
    assert functions.names == ()


def test_a_function_registered_again_makes_other_formulas() -> None:
    functions = registered(lambda x: x, pa.int64())
    before = compile_formula("f(x)", COLUMNS, functions)
    assert before == compile_formula("f( x )", COLUMNS, functions)
    functions.register("f", lambda x: pc.negate(x), returns=pa.int64())
    after = compile_formula("f(x)", COLUMNS, functions)
    assert before != after
    assert before.evaluate(INPUTS, 3).to_pylist() == [1, None, 3]
    assert after.evaluate(INPUTS, 3).to_pylist() == [-1, None, -3]
