# ruff: noqa: ARG001, ARG005 -- numba wants the implementations of a function with its arguments
"""Users' functions that numba compiles: ``kind="compiled"``."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.arguments import shown
from barrage_server.errors import BarrageError, DependencyError, InternalError, InvalidRequestError, LimitError
from barrage_server.extras import missing_extra
from barrage_server.fixed_limits import FUNCTION_TYPES
from barrage_server.formula.kinds import BOOLEAN, INTEGERS, NUMBERS, Kind, kind_of
from barrage_server.formula.vectors import AnyArray, Cells, Flags, from_arrow

__all__ = ["CompiledFunction"]

_MOST_REASON: Final = 300
_PLACE: Final = re.compile(
    r"File |During: |There are |The (user-defined|unsupported)|<source |This (error|is) |Overload |Raised from "
)
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;]*m| at 0x[0-9a-f]+")


class _Loops(NamedTuple):
    """The compiled loops over columns, for one combination of argument types.

    Attributes:
        plain: for arguments without nulls.
        nullable: for others; the reason if the function does not compile for these.
        dtype: of the results.

    """

    plain: Callable[..., None]
    nullable: Callable[..., None] | str
    dtype: np.dtype[Any]


class CompiledFunction:
    """A function of numbers and booleans, compiled to machine code.

    Methods may be called from any thread.

    Integers are of 64 bits and wrap, floats are doubles. A null is ``None``, as in Python.

    Args:
        name: as formulas call it.
        function: a Python function, or one that numba has compiled.
        returns: the Arrow type of its results: numbers or booleans.

    Raises:
        InvalidRequestError: this is no function that numba takes, or results have another type.
        DependencyError: numba is missing, or switched off.

    """

    def __init__(self, name: str, function: Callable[..., Any], returns: pa.DataType) -> None:
        if not (pat.is_integer(returns) or pat.is_floating(returns) or pat.is_boolean(returns)):
            raise InvalidRequestError(
                f"returns must be a type of numbers or booleans for a compiled function, not {returns}."
            )
        self._name = name
        self._returns = returns
        self._numba = _import()
        try:
            plain = getattr(function, "py_func", function)  # without options of its own, such as a cache on disk
            self._function = self._numba.njit(nogil=True)(plain)
        except TypeError:
            raise InvalidRequestError(
                f"function must be a Python function for kind='compiled', not {shown(function)}."
            ) from None
        if not hasattr(self._function, "overloads"):
            raise DependencyError("Compiled functions need numba, which NUMBA_DISABLE_JIT has switched off.")
        self._loops: dict[tuple[str, ...], _Loops | str] = {}
        self._lock = threading.Lock()

    def compile(self, kinds: Sequence[Kind]) -> None:
        """Compile for arguments of these kinds, in some 0.3 s, unless that is done.

        Raises:
            InvalidRequestError: a kind is neither a number nor a boolean; it does not compile, with numba's reason;
                its results are not of the registered type.
            LimitError: it is compiled for too many types of arguments.

        """
        self._loops_of(self._types(kinds))

    def __call__(self, arguments: Sequence[pa.Array], rows: int) -> pa.Array:
        """Compute ``rows`` results. Exceptions of the function propagate.

        Raises:
            InternalError: there are nulls, and it does not compile for these; a result is none of its type.

        """
        kinds = [kind_of(argument.type) for argument in arguments]
        loops = self._loops_of(self._types(kinds))
        columns, masks = [], []
        has_nulls = False
        for argument, kind in zip(arguments, kinds, strict=True):
            values, valid = _cells(argument, kind)
            columns.append(values)
            masks.append(valid)
            has_nulls |= valid is not None
        out, is_null = np.zeros(rows, loops.dtype), np.zeros(rows, np.bool_)
        if not has_nulls:
            loops.plain(out, is_null, tuple(columns))
        elif isinstance(loops.nullable, str):
            raise InternalError(
                f"The function '{self._name}' got a null, for which it does not compile: {loops.nullable}"
            )
        else:
            present = np.ones(rows, np.bool_)
            loops.nullable(out, is_null, tuple(columns), tuple(present if mask is None else mask for mask in masks))
        try:
            return pa.array(out, mask=is_null if is_null.any() else None).cast(
                self._returns, safe=pat.is_integer(self._returns)
            )
        except pa.ArrowException as error:
            raise InternalError(f"The function '{self._name}' returned a value that is no {self._returns}.") from error

    def _types(self, kinds: Sequence[Kind]) -> tuple[str, ...]:
        """The names of numba's types for the arguments, equal to numpy's."""
        for number, kind in enumerate(kinds, 1):
            if kind is not BOOLEAN and kind not in NUMBERS:
                raise InvalidRequestError(
                    f"'{self._name}' is compiled, and takes numbers and booleans; argument {number} is of type {kind}."
                )
        return tuple("bool" if kind is BOOLEAN else "int64" if kind in INTEGERS else "float64" for kind in kinds)

    def _loops_of(self, types: tuple[str, ...]) -> _Loops:
        found = self._loops.get(types)
        if found is None:
            found = self._add(types)
        if isinstance(found, str):
            raise InvalidRequestError(found)
        return found

    def _add(self, types: tuple[str, ...]) -> _Loops | str:
        """The loops for these types, or the reason why there are none.

        Both are kept, so that nothing is compiled twice.
        """
        with self._lock:
            found = self._loops.get(types)
            if found is None:
                if len(self._loops) >= FUNCTION_TYPES.most:
                    raise LimitError(
                        f"'{self._name}' is compiled for {FUNCTION_TYPES.most} types of arguments already "
                        f"({FUNCTION_TYPES.name})."
                    )
                try:
                    found = self._made(types)
                except InvalidRequestError as error:
                    found = str(error)
                self._loops[types] = found
        return found

    def _made(self, types: tuple[str, ...]) -> _Loops:
        known = self._numba.types
        arguments = tuple(known.boolean if each == "bool" else getattr(known, each) for each in types)
        given = f"'{self._name}' of ({', '.join(types)})"
        try:
            result = self._result(arguments)
        except _CompileError as error:
            raise InvalidRequestError(f"{given} does not compile: {error}") from None
        returned = known.unliteral(result.type if isinstance(result, known.Optional) else result)
        is_number = isinstance(returned, known.Integer | known.Float | known.Boolean)
        dtype = np.dtype(str(returned) if is_number else object)
        if not _fits(dtype, self._returns):
            what = "None" if returned is known.none else _ESCAPE.sub("", str(returned))[:60]
            raise InvalidRequestError(f"{given} returns {what}, and is registered with returns={self._returns}.")
        function = self._function
        row_of, row_or_none = _toolkit()

        def plain(out: Any, is_null: Any, columns: Any) -> None:
            for row in range(len(out)):
                value = function(*row_of(columns, row))
                if value is None:
                    is_null[row] = True
                else:
                    out[row] = value

        def nullable(out: Any, is_null: Any, columns: Any, masks: Any) -> None:
            for row in range(len(out)):
                value = function(*row_or_none(columns, masks, row))
                if value is None:
                    is_null[row] = True
                else:
                    out[row] = value

        results, flags = known.Array(self._numba.from_dtype(dtype), 1, "C"), known.Array(known.boolean, 1, "C")
        columns = known.BaseTuple.from_types([known.Array(each, 1, "C", readonly=True) for each in arguments])
        masks = known.BaseTuple.from_types([known.Array(known.boolean, 1, "C", readonly=True)] * len(arguments))
        try:
            made = self._compiled(plain, (results, flags, columns))
        except _CompileError as error:
            raise InvalidRequestError(f"{given} does not compile: {error}") from None
        try:
            self._result(tuple(known.Optional(each) for each in arguments))
            made_nullable: Callable[..., None] | str = self._compiled(nullable, (results, flags, columns, masks))
        except _CompileError as error:
            made_nullable = str(error)
        return _Loops(made, made_nullable, dtype)

    def _result(self, arguments: tuple[Any, ...]) -> Any:
        """Compile for arguments of these types, and return the type of results."""
        _guarded(lambda: self._function.compile(arguments))
        return self._function.overloads[arguments].signature.return_type

    def _compiled(self, loop: Callable[..., None], signature: tuple[Any, ...]) -> Callable[..., None]:
        made = self._numba.njit(nogil=True)(loop)
        _guarded(lambda: made.compile(signature))
        made.disable_compile()
        found: Callable[..., None] = made
        return found


class _CompileError(Exception):
    """The short reason why a function does not compile."""


def _guarded(compiling: Callable[[], Any]) -> None:
    try:
        compiling()
    except BarrageError:
        raise
    except Exception as error:  # numba's compiler raises errors of its own, and those of what it calls
        raise _CompileError(_reason(error)) from None


def _reason(error: Exception) -> str:
    """The first lines of a numba error, without places in source files."""
    told: list[str] = []
    for line in map(str.strip, _ESCAPE.sub("", str(error)).splitlines()):
        if told and _PLACE.match(line):
            break
        if line and not line.startswith("Failed in nopython mode") and not _PLACE.match(line):
            told.append(line)
    text = " ".join(told[:3]) or type(error).__name__
    return (text if len(text) <= _MOST_REASON else f"{text[:_MOST_REASON]}...").rstrip(".")


def _fits(dtype: np.dtype[Any], returns: pa.DataType) -> bool:
    if dtype.kind == "b" or pat.is_boolean(returns):
        return dtype.kind == "b" and pat.is_boolean(returns)
    return dtype.kind in "iu" or (dtype.kind == "f" and pat.is_floating(returns))


def _cells(argument: pa.Array, kind: Kind) -> tuple[AnyArray, Flags | None]:
    """The values as contiguous int64, float64 or bool, and their validity."""
    cells = from_arrow(argument, kind)
    assert isinstance(cells, Cells)
    dtype = np.bool_ if kind is BOOLEAN else np.int64 if kind in INTEGERS else np.float64
    values = np.ascontiguousarray(cells.values, dtype)
    return values, None if cells.valid is None or cells.valid.all() else np.ascontiguousarray(cells.valid)


def _import() -> Any:
    try:
        import numba
        import numba.extending
    except ImportError as error:
        raise missing_extra("A compiled function needs", "compiled", error) from error
    return numba


@cache
def _toolkit() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Functions for compiled loops, which read a row as a tuple.

    The first takes all values as they are; the second replaces masked values by ``None``.
    """
    numba = _import()

    def row_of(columns: Any, row: Any) -> Any:
        raise NotImplementedError("Only loops that numba compiles call this.")

    def row_or_none(columns: Any, masks: Any, row: Any) -> Any:
        raise NotImplementedError("Only loops that numba compiles call this.")

    def of_row(columns: Any, row: Any) -> Any:
        if len(columns) == 0:
            return lambda columns, row: ()
        return lambda columns, row: (columns[0][row],) + row_of(columns[1:], row)  # noqa: RUF005, which numba needs

    def of_row_or_none(columns: Any, masks: Any, row: Any) -> Any:
        if len(columns) == 0:
            return lambda columns, masks, row: ()

        def value(columns: Any, masks: Any, row: Any) -> Any:
            first = columns[0][row] if masks[0][row] else None
            return (first,) + row_or_none(columns[1:], masks[1:], row)  # noqa: RUF005

        return value

    numba.extending.overload(row_of, strict=False)(of_row)
    numba.extending.overload(row_or_none, strict=False)(of_row_or_none)
    return row_of, row_or_none
