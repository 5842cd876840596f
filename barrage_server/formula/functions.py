"""Users' functions: Python functions that formulas may name."""

from __future__ import annotations

import inspect
import keyword
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.arguments import callback, class_with_article, shown
from barrage_server.errors import AlreadyExistsError, InternalError, InvalidRequestError
from barrage_server.formula.compiled import CompiledFunction
from barrage_server.formula.kinds import Kind
from barrage_server.formula.literals import CONSTANTS
from barrage_server.formula.parser import CASTS
from barrage_server.function_signature import FunctionSignature
from barrage_server.public import public
from barrage_server.type_names import TypeLike, as_type

__all__ = ["Functions", "UserFunction"]

KINDS: Final = ("batch", "scalar", "compiled")
_RESERVED: Final = {*CONSTANTS, *CASTS, "in", "not", "icase", "i", "ii", "k", "new"}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, eq=False)
class UserFunction:
    """A registered function; it equals only itself.

    Hence the formulas of a replaced function differ from those of the new one.

    Attributes:
        name: as formulas call it.
        function: takes one Arrow array per argument (``batch``), or one Python value per argument.
        returns: the Arrow type of its results.
        kind: ``batch``, ``scalar`` or ``compiled``.
        compiled: what runs it, if its kind is ``compiled``.

    """

    name: str
    function: Callable[..., Any]
    returns: pa.DataType
    kind: str
    compiled: CompiledFunction | None = None

    def prepare(self, kinds: Sequence[Kind]) -> None:
        """Check that it takes arguments of these kinds, before it is called.

        Raises:
            InvalidRequestError: it takes another number of arguments.
            LimitError: see :meth:`CompiledFunction.compile`, which is called if ``kind`` is ``compiled``.

        """
        if self.compiled is not None:
            self.compiled.compile(kinds)
            return
        try:
            signature = inspect.signature(self.function)
        except (TypeError, ValueError):  # some functions written in C do not tell
            return
        try:
            signature.bind(*kinds)
        except TypeError:
            raise InvalidRequestError(
                f"'{self.name}' does not take {len(kinds)} argument{'s' * (len(kinds) != 1)}; it was registered with "
                f"the parameters {signature.replace(return_annotation=inspect.Signature.empty)}."
            ) from None

    def __call__(self, arguments: Sequence[pa.Array], rows: int) -> pa.Array:
        """The results for ``rows`` rows, of type ``returns``.

        Raises:
            InternalError: the function raised, or returned something else; its own exception is the cause, and no
                part of the text.

        """
        try:
            if self.compiled is not None:
                answer = self.compiled(arguments, rows)
            else:
                answer = self._batch(arguments) if self.kind == "batch" else self._scalar(arguments, rows)
        except InternalError:
            raise
        except BaseException as error:
            if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
                raise  # Ctrl-C, or the end of the program
            raise InternalError(f"The function '{self.name}' raised an exception.") from error
        if len(answer) != rows:
            raise InternalError(f"The function '{self.name}' returned {len(answer)} values for {rows} rows.")
        return answer

    def _batch(self, arguments: Sequence[pa.Array]) -> pa.Array:
        answer = self.function(*arguments)
        if isinstance(answer, pa.ChunkedArray):
            answer = answer.combine_chunks()
        if isinstance(answer, np.ndarray):
            answer = pa.array(answer)
        if not isinstance(answer, pa.Array):
            raise InternalError(
                f"The function '{self.name}' returned {class_with_article(answer)}; a batch function returns an Arrow "
                "or numpy array."
            )
        if answer.type != self.returns:
            raise InternalError(f"The function '{self.name}' returned {answer.type} instead of {self.returns}.")
        return answer

    def _scalar(self, arguments: Sequence[pa.Array], rows: int) -> pa.Array:
        columns = [argument.to_pylist() for argument in arguments]
        values = (
            [self.function(*row) for row in zip(*columns, strict=True)]
            if columns
            else [self.function() for _ in range(rows)]
        )
        try:
            if not _has_floats(self.returns) and _has_floats(pa.infer_type(values)):
                raise TypeError("Arrow would cut the fraction off")
            return pa.array(values, self.returns)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InternalError(f"The function '{self.name}' returned a value that is no {self.returns}.") from error


@public
class Functions:
    """The functions of users that formulas may name.

    Formulas can name these and the built-in functions, nothing else.

    Attributes:
        generation: how often a function was registered.

    """

    def __init__(self) -> None:
        self._functions: dict[str, UserFunction] = {}
        self.generation = 0

    def register(self, name: str, function: Callable[..., Any], *, returns: TypeLike, kind: str = "batch") -> None:
        """Let formulas call ``function`` as ``name``.

        A function must be pure, and takes nulls as Arrow or Python has them. A name that is registered again means
        the new function in formulas that are compiled from then on. A function of a user goes before a built-in one.
        A table fails with what it raises.

        Args:
            name: a name of letters, digits and underscores.
            function: for ``kind="batch"`` takes one Arrow array per argument and returns an array of the same length;
                for ``"scalar"`` and ``"compiled"`` takes one Python value per argument, for each row, and returns one.
                Numba compiles the latter when a formula is made that calls it: it takes and returns numbers and
                booleans, which are int64, float64 and bool in it, and ``None`` for nulls.
            returns: the type of its results, in the forms that schemas take: an Arrow type, its name such as
                ``"float64"``, a numpy dtype, or ``float`` and the like.
            kind: ``"batch"``, ``"scalar"`` or ``"compiled"``.

        Raises:
            InvalidRequestError: an argument is wrong.
            UnsupportedTypeError: ``returns`` is no type.
            AlreadyExistsError: the language itself has the name.
            DependencyError: ``kind`` is ``"compiled"``, and the extra ``compiled`` is not installed.

        """
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidRequestError(f"A function's name has letters, digits and underscores, unlike {shown(name)}.")
        if name in _RESERVED or keyword.iskeyword(name):
            raise AlreadyExistsError(f"A function cannot be named '{name}': formulas have a word '{name}'.")
        callback(function, "function")
        result = as_type(returns, "returns")
        if kind not in KINDS:
            raise InvalidRequestError(f"kind must be one of {', '.join(KINDS)}, not {shown(kind)}.")
        compiled = CompiledFunction(name, function, result) if kind == "compiled" else None
        replaced = dict(self._functions)
        replaced[name] = UserFunction(name, function, result, kind, compiled)
        self._functions = replaced
        self.generation += 1

    @property
    def signatures(self) -> tuple[FunctionSignature, ...]:
        """The registered functions, in the order of their first registration."""
        return tuple(FunctionSignature(one.name, one.kind, str(one.returns)) for one in self._functions.values())

    def function_of(self, name: str) -> UserFunction | None:
        """The function of a name, or ``None``."""
        return self._functions.get(name)

    @property
    def names(self) -> tuple[str, ...]:
        """The registered names, in the order of their first registration."""
        return tuple(self._functions)


def _has_floats(data_type: pa.DataType) -> bool:
    """Whether values of the type are floats, or contain some."""
    return pat.is_floating(data_type) or any(
        _has_floats(data_type.field(number).type) for number in range(data_type.num_fields)
    )
