"""The context in which tables of scripts are computed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, TypeGuard, TypeVar, get_type_hints

import numpy as np
import pyarrow as pa

from barrage_server.engine import Table, UpdateGraph
from barrage_server.errors import AlreadyExistsError, BarrageError, InvalidRequestError
from barrage_server.formula.catalog import FUNCTIONS
from barrage_server.formula.functions import UserFunction
from barrage_server.plan.operation import Operation
from barrage_server.server.console.stop_switch import StopSwitch
from barrage_server.server.principal import UNAUTHENTICATED, Principal
from barrage_server.server.results import Results

__all__ = ["ScriptContext"]

Result = TypeVar("Result")

_Typed: TypeAlias = tuple[Callable[..., Any], pa.DataType, str]
_CALLED: Final = re.compile(r"(?<![\w.$])([A-Za-z_]\w*)\s*\(")
_STRING: Final = re.compile(r"`(?:[^`\\]|\\.)*`")
_TYPES: Final[Mapping[Any, pa.DataType]] = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
}


class ScriptContext:
    """Computes tables for scripts, within the limits for clients.

    Methods may be called from any thread.

    Args:
        graph: the graph of the server's tables.
        results: computes tables for clients.
        namespace: the variables of scripts.

    Attributes:
        graph: the graph of the server's tables.

    """

    def __init__(self, graph: UpdateGraph, results: Results, namespace: Mapping[str, Any]) -> None:
        self.graph: Final = graph
        self._results = results
        self._namespace = namespace
        self._principal = UNAUTHENTICATED
        self._switch = StopSwitch()
        self._registering = threading.Lock()
        self._registered: dict[str, UserFunction] = {}

    def begin(self, principal: Principal, switch: StopSwitch) -> None:
        """Begin a command of ``principal``, which ``switch`` stops."""
        self._principal, self._switch = principal, switch

    def end(self) -> None:
        """End the command. Threads that it has started may go on.

        Functions of scripts that formulas may call are updated to the present values of their variables.
        """
        self._switch = StopSwitch()
        for name, registered in tuple(self._registered.items()):
            function, there = self._namespace.get(name), self.graph.functions.function_of(name)
            if there is registered and _is_function(function) and not _is_of(registered, function):
                self._register_as(name, _typed(function))

    @contextmanager
    def shielded(self) -> Iterator[None]:
        """Run the ``with`` body, which uses tables, without interruption."""
        with self._switch.shielded():
            yield

    def check(self) -> None:
        """Raise ScriptStop if the command is to stop."""
        with self._switch.shielded():
            pass

    def guarded(self, function: Callable[[], Result]) -> Result:
        """The result of ``function()``, which uses tables, :meth:`shielded`."""
        with self.shielded():
            return function()

    def compute(self, operation: Operation, inputs: Sequence[Table]) -> Table:
        """The result of an operation.

        Raises what :meth:`Results.compute` does, and:
            AlreadyExistsError: it calls a function of a script whose name belongs to another function.
            InvalidRequestError: it calls a function of a script that is gone, or declares no type of its result.

        """
        switch = self._switch
        with self.shielded():
            untyped = self._register(operation)
            try:
                return self._results.compute(self._principal, operation, inputs, switch.is_stopped)
            except InvalidRequestError as error:
                for name in untyped:
                    if f"function '{name}'" in str(error):
                        raise InvalidRequestError(_untyped(name)) from error
                raise

    def _register(self, operation: Operation) -> list[str]:
        """Let formulas call the functions of scripts that the operation may name.

        Returns:
            The names of functions without a type of result, which formulas cannot call.

        """
        functions, text = self.graph.functions, repr(operation)
        untyped = []
        for name in sorted(set(_CALLED.findall(text))):
            function = self._namespace.get(name)
            there = functions.function_of(name)
            if there is not None and _is_of(there, function):
                continue
            found = _typed(function) if _is_function(function) else None
            if found is None:
                if there is not None and self._registered.get(name) is there and name in _called_outside_strings(text):
                    if _is_function(function):
                        raise InvalidRequestError(_untyped(name))
                    raise InvalidRequestError(
                        f"The function '{name}' that a script has defined is not there any more: define it again."
                    )
                untyped.append(name)
                continue
            with self._registering:
                owner = self._owner(name)
                if owner:
                    if name not in _called_outside_strings(text):
                        continue
                    raise AlreadyExistsError(
                        f"A formula cannot call the function '{name}' of a script: {owner} has that name, and keeps "
                        f"it. Give yours another one."
                    )
                self._register_as(name, found)
        return untyped

    def _register_as(self, name: str, found: _Typed | None) -> None:
        """Let formulas call a function that :func:`_typed` has returned."""
        if found is None:
            return
        functions = self.graph.functions
        try:
            functions.register(name, found[0], returns=found[1], kind=found[2])
        except BarrageError:
            return  # a reserved word of formulas: the operation's error says so
        registered = functions.function_of(name)
        if registered is not None:
            self._registered[name] = registered

    def _owner(self, name: str) -> str:
        """The owner of a name in formulas; empty if functions of scripts may have it."""
        there = self.graph.functions.function_of(name)
        if there is not None:
            return "" if self._registered.get(name) is there else "a function of the server"
        return "a function of formulas" if name in FUNCTIONS or name == "timeZone" else ""


def _is_function(value: Any) -> TypeGuard[Callable[..., Any]]:
    return callable(value) and not isinstance(value, type)


def _is_of(registered: UserFunction, function: Any) -> bool:
    """Whether formulas call that function of a script."""
    return getattr(registered.function, "script_function", registered.function) is function


def _called_outside_strings(text: str) -> set[str]:
    return set(_CALLED.findall(_STRING.sub("``", text)))


def _untyped(name: str) -> str:
    return (
        f"The function '{name}' of a script does not say what it returns, which formulas need: write 'def {name}(...) "
        f"-> float:', with bool, int, float, str, bytes or a type of numpy."
    )


def _typed(function: Callable[..., Any]) -> _Typed | None:
    """A function for formulas, its type of result, and its kind; ``None`` if untyped."""
    types = getattr(function, "types", None)
    if isinstance(types, list | tuple):  # a ufunc of numpy or numba
        results = {entry.rpartition("->")[2] for entry in types if isinstance(entry, str)}
        if len(results) != 1:
            return None
        try:
            returns = pa.from_numpy_dtype(np.dtype(results.pop()))
        except (pa.ArrowException, TypeError):
            return None
        return _Vectorised(function, returns), returns, "batch"
    try:
        hint = get_type_hints(function).get("return")
    except Exception:  # annotations of scripts may be anything
        return None
    returned = _arrow_type(hint)
    return None if returned is None else (function, returned, "scalar")


def _arrow_type(hint: Any) -> pa.DataType | None:
    if isinstance(hint, pa.DataType):
        return hint
    if hint in _TYPES:
        return _TYPES[hint]
    if isinstance(hint, type) and issubclass(hint, np.generic):
        try:
            return pa.from_numpy_dtype(np.dtype(hint))
        except (pa.ArrowException, TypeError):
            return None
    return None


class _Vectorised:
    """Applies a function of numpy arrays to Arrow arrays; null arguments give nulls."""

    def __init__(self, function: Callable[..., Any], returns: pa.DataType) -> None:
        self.script_function = function
        self._returns = returns

    def __call__(self, *arguments: pa.Array) -> pa.Array:
        is_null = np.zeros(len(arguments[0]) if arguments else 0, bool)
        values = []
        for argument in arguments:
            if argument.null_count:
                is_null |= argument.is_null().to_numpy(zero_copy_only=False)
                argument = argument.fill_null(0)
            values.append(argument.to_numpy(zero_copy_only=False))
        answer = np.asarray(self.script_function(*values))
        return pa.array(answer, mask=is_null if is_null.any() else None).cast(self._returns)
