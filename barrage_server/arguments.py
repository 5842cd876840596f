"""Checks of what callers pass to public functions: a wrong argument is an error in words, naming the argument."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import StrEnum
from math import isfinite
from numbers import Real
from typing import Any, Final, TypeVar

from barrage_server.errors import InvalidRequestError

__all__ = ["callback", "instance", "integer", "names", "number", "optional_names", "seconds", "shown", "text"]

_SHOWN: Final = 60
_Choice = TypeVar("_Choice", bound=StrEnum)

_FOREVER: Final = 1e9  # seconds; what waits has limits of its own not far above


def shown(value: object) -> str:
    """``repr(value)`` cut short, for the text of an error; the class where that has several lines, as of a frame."""
    name = type(value).__name__
    words = f"an {name}" if name[:1] in "AEIOU" else f"a {name}"
    with suppress(Exception):  # it is the caller's object, and only its description is wanted
        told = repr(value).strip()
        words = words if "\n" in told else told
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]}..."


def text(value: Any, what: str) -> str:
    """``value``, a string that is not empty.

    Args:
        value: what the caller passed.
        what: the argument, as the first words of a sentence.

    Raises:
        InvalidRequestError: it is something else.
    """
    if not isinstance(value, str):
        raise InvalidRequestError(f"{what} must be a string, not {shown(value)}.")
    if not value.strip():
        raise InvalidRequestError(f"{what} must not be empty.")
    return value


def names(value: Any, what: str, *, single: bool = False) -> tuple[str, ...]:
    """``value``, a list of different strings, as a tuple.

    Args:
        value: what the caller passed.
        what: the argument, as the first words of a sentence.
        single: whether a bare string stands for a list of one.

    Raises:
        InvalidRequestError: it is something else, empty, or names one twice.
    """
    if isinstance(value, str):
        if single:
            return (text(value, what),)
        raise InvalidRequestError(f"{what} is a list of names: write [{value!r}].")
    found = (
        tuple(value) if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | memoryview) else None
    )
    if found is None or not all(isinstance(name, str) for name in found):
        raise InvalidRequestError(f"{what} must be a list of names, not {shown(value)}.")
    if not found:
        raise InvalidRequestError(f"{what} must have at least one name.")
    return found


def optional_names(value: Sequence[str] | str | None, what: str, *, single: bool = False) -> tuple[str, ...] | None:
    """:func:`names`, or None for None."""
    return None if value is None else names(value, what, single=single)


def integer(value: Any, what: str, *, least: int = 0, most: int = (1 << 63) - 1) -> int:
    """``value``, an integer from ``least`` to ``most``; numpy's integers are taken too, booleans are not.

    Raises:
        InvalidRequestError: it is something else.
    """
    try:
        found = operator.index(value)
    except TypeError:
        found = None
    if found is None or isinstance(value, bool):
        raise InvalidRequestError(f"{what} must be an integer, not {shown(value)}.")
    if not least <= found <= most:
        bound = f"at least {least}" if found < least else f"at most {most}"
        raise InvalidRequestError(f"{what} must be {bound}, not {shown(value)}.")
    return found


def number(value: Any, what: str) -> float:
    """``value``, a number that is finite.

    Raises:
        InvalidRequestError: it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(float(value)):
        raise InvalidRequestError(f"{what} must be a number, not {shown(value)}.")
    return float(value)


def seconds(value: Any, what: str, *, positive: bool = False) -> float:
    """``value``, a finite number of seconds that is not negative; above 0 when ``positive``.

    Raises:
        InvalidRequestError: it is something else.
    """
    kind = "positive number" if positive else "number"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidRequestError(f"{what} must be a {kind} of seconds, not {shown(value)}.")
    found = float(value)
    if not isfinite(found) or found < 0 or (positive and found == 0):
        raise InvalidRequestError(f"{what} must be a {kind} of seconds, not {shown(value)}.")
    return min(found, _FOREVER)


def choice(value: Any, kind: type[_Choice], what: str) -> _Choice | None:
    """``value`` as a member of an enumeration of texts, given as one or as its text; None for None.

    Raises:
        InvalidRequestError: there is no such member.
    """
    try:
        return None if value is None else kind(value)
    except ValueError:
        raise InvalidRequestError(f"{what} is one of {', '.join(kind)}, not {shown(value)}.") from None


def instance(value: Any, kind: type, what: str) -> None:
    """Raise InvalidRequestError unless ``value`` is None or of the class ``kind``."""
    if value is not None and not isinstance(value, kind):
        raise InvalidRequestError(f"{what} must be a {kind.__name__}, not {shown(value)}.")


def callback(value: Any, what: str) -> Callable[..., Any]:
    """``value``, something that can be called.

    Raises:
        InvalidRequestError: it is something else.
    """
    if not callable(value):
        raise InvalidRequestError(f"{what} must be a function, not {shown(value)}.")
    found: Callable[..., Any] = value
    return found
