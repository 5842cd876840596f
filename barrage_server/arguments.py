"""Checks of the arguments of public functions; errors name the argument."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import isfinite
from numbers import Real
from pathlib import Path
from reprlib import Repr
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from barrage_server.errors import InvalidRequestError

if TYPE_CHECKING:
    import numpy as np

    _NumpyDuration: TypeAlias = np.timedelta64
    _NumpyMoment: TypeAlias = np.datetime64
else:  # numpy is not imported with the package
    _NumpyDuration, _NumpyMoment = timedelta, datetime

__all__ = [
    "Duration",
    "Moment",
    "as_path",
    "callback",
    "class_with_article",
    "duration_nanoseconds",
    "flag",
    "instance",
    "integer",
    "is_writable",
    "listed_names",
    "moment_nanoseconds",
    "names",
    "number",
    "optional_names",
    "seconds",
    "shown",
    "text",
    "unbroken",
]

Duration: TypeAlias = int | str | timedelta | _NumpyDuration
"""Nanoseconds, a text such as ``"PT1M"``, or a duration of Python, pandas or numpy."""
Moment: TypeAlias = int | str | datetime | _NumpyMoment
"""Nanoseconds since 1970 UTC, a text with a zone, or a moment of Python, pandas or numpy."""

_SHOWN: Final = 60
_HALF: Final = re.compile("[\ud800-\udfff]")
_UNWRITABLE: Final = 10**4_000
_Choice = TypeVar("_Choice", bound=StrEnum)

_FOREVER: Final = 1e9  # seconds; the waiting functions of Python have limits not far above


def is_writable(value: int) -> bool:
    """Whether an integer has at most 4,000 digits.

    ``str`` and ``repr`` raise ValueError for more than 4,300.
    """
    return abs(value) < _UNWRITABLE


class _BoundedRepr(Repr):
    """``repr`` in bounded time, also of values that nest and share parts."""

    def repr_instance(self, x: object, level: int) -> str:  # noqa: ARG002  (as the library calls it)
        """The name of a dataclass alone: its fields may share parts."""
        return f"{type(x).__name__}(...)" if is_dataclass(x) and not isinstance(x, type) else repr(x)

    def repr_int(self, x: int, level: int) -> str:  # noqa: ARG002
        """The digits; the number of bits of an integer that is not writable."""
        return repr(x) if is_writable(x) else f"an integer of {x.bit_length():,} bits"


_BOUNDED: Final = _BoundedRepr()
_BOUNDED.maxstring = _BOUNDED.maxother = 1_000
_BOUNDED.maxlist = _BOUNDED.maxtuple = _BOUNDED.maxdict = _BOUNDED.maxset = _BOUNDED.maxfrozenset = 100


def shown(value: object) -> str:
    """Show ``value`` in a text of an error: its ``repr``, cut, or its class."""
    words = class_with_article(value)
    with suppress(Exception):  # the repr of a caller's object may raise
        told = _BOUNDED.repr(value).strip()
        words = words if "\n" in told else told
    return words if len(words) <= _SHOWN else f"{words[:_SHOWN]}..."


def class_with_article(value: object) -> str:
    """The class of ``value`` with its article: ``an int``.

    For texts of errors on values that may be secrets.
    """
    name = type(value).__name__
    return f"an {name}" if name[:1].lower() in ("a", "e", "i", "o", "u") else f"a {name}"


def text(value: Any, what: str) -> str:
    """Check that ``value`` is a string that is not empty, and return it.

    Args:
        value: what the caller passed.
        what: the name of the argument, as the beginning of a sentence.

    Raises:
        InvalidRequestError: it is not.
    """
    if not isinstance(value, str):
        raise InvalidRequestError(f"{what} must be a string, not {shown(value)}.")
    if not value.strip():
        raise InvalidRequestError(f"{what} must not be empty.")
    return unbroken(value, what)


def unbroken(value: str, what: str) -> str:
    """``value``; an error for half of a surrogate pair, which UTF-8 cannot encode.

    The text of the error leaves ``value`` out: it may be a secret.

    Raises:
        InvalidRequestError: it has one.
    """
    if not value.isascii() and _HALF.search(value) is not None:
        raise InvalidRequestError(f"{what} has half of a surrogate pair, which is no character.")
    return value


def names(value: Any, what: str, *, single: bool = False) -> tuple[str, ...]:
    """Check that ``value`` is a list of names, and return it as a tuple.

    Args:
        value: what the caller passed.
        what: the name of the argument, as the beginning of a sentence.
        single: whether a bare string stands for a list of one.

    Raises:
        InvalidRequestError: it is not a list of strings, or is empty.
    """
    if isinstance(value, str):
        if single:
            return (text(value, what),)
        raise InvalidRequestError(f"{what} is a list of names: write [{value!r}].")
    found = _name_tuple(value, what)
    if not found:
        raise InvalidRequestError(f"{what} must have at least one name.")
    return found


def listed_names(value: Any, what: str) -> tuple[str, ...]:
    """``value`` as a tuple, if it is a list of names, which may be empty.

    Args:
        value: what the caller passed.
        what: the name of the argument, as the beginning of a sentence.

    Raises:
        InvalidRequestError: it is not a list of strings.
    """
    if isinstance(value, str):
        raise InvalidRequestError(f"{what} must be a list of names; write {what}=[{shown(value)}].")
    return _name_tuple(value, what)


def _name_tuple(value: Any, what: str) -> tuple[str, ...]:
    is_list = isinstance(value, Iterable) and not isinstance(value, bytes | bytearray | memoryview)
    found = tuple(value) if is_list else None
    if found is None or not all(isinstance(name, str) for name in found):
        raise InvalidRequestError(f"{what} must be a list of names, not {shown(value)}.")
    for name in found:
        unbroken(name, f"{shown(name)} in {what}")
    return found


def optional_names(value: Sequence[str] | str | None, what: str, *, single: bool = False) -> tuple[str, ...] | None:
    """:func:`names`, or None for None."""
    return None if value is None else names(value, what, single=single)


def flag(value: Any, what: str) -> bool:
    """Check that ``value`` is a boolean, and return it.

    Raises:
        InvalidRequestError: it is not.
    """
    if not isinstance(value, bool):
        raise InvalidRequestError(f"{what} must be True or False, not {shown(value)}.")
    return value


def integer(value: Any, what: str, *, least: int = 0, most: int = (1 << 63) - 1, unit: str = "") -> int:
    """Check that ``value`` is an integer from ``least`` to ``most``, and return it.

    Integers of numpy count, bools do not. ``unit`` is that of the bounds, for the text of the error.

    Raises:
        InvalidRequestError: it is not.
    """
    try:
        found = operator.index(value)
    except TypeError:
        found = None
    if found is None or isinstance(value, bool):
        raise InvalidRequestError(f"{what} must be an integer, not {shown(value)}.")
    if not least <= found <= most:
        bound = f"at least {least}" if found < least else f"at most {most}"
        bound = f"{bound} {unit}" if unit else bound
        raise InvalidRequestError(f"{what} must be {bound}, not {shown(value)}.")
    return found


def number(value: Any, what: str) -> float:
    """Check that ``value`` is a finite number, and return it.

    Raises:
        InvalidRequestError: it is not.
    """
    found = _finite(value)
    if found is None:
        raise InvalidRequestError(f"{what} must be a number, not {shown(value)}.")
    return found


def seconds(value: Any, what: str, *, positive: bool = False) -> float:
    """Check that ``value`` is a number of seconds, and return it.

    It is finite, and at least 0, or above 0 if ``positive``.

    Raises:
        InvalidRequestError: it is not.
    """
    kind = "positive number" if positive else "number"
    found = _finite(value)
    if found is None or found < 0 or (positive and found == 0):
        raise InvalidRequestError(f"{what} must be a {kind} of seconds, not {shown(value)}.")
    return min(found, _FOREVER)


def _finite(value: Any) -> float | None:
    """The float of a finite number; None for other values."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if isfinite(found) else None


def duration_nanoseconds(value: Any) -> Any:
    """The nanoseconds of a duration; other values unchanged.

    A duration is one of Python, pandas or numpy. Other values are ``NaT``, and those of numpy in years or months, or
    that nanoseconds of 64 bits do not hold exactly.
    """
    if isinstance(value, timedelta):
        micros = (value.days * 86_400 + value.seconds) * 1_000_000 + value.microseconds
        return micros * 1_000 + int(getattr(value, "nanoseconds", 0))  # pandas has nanoseconds
    if type(value).__module__ != "numpy":
        return value
    import numpy as np

    if not isinstance(value, np.timedelta64) or np.datetime_data(value.dtype)[0] in ("Y", "M"):
        return value
    return _exact(value, "timedelta64[ns]")


def moment_nanoseconds(value: Any, what: str) -> Any:
    """The nanoseconds since 1970 UTC of a moment; other values unchanged.

    A moment is a datetime of Python or pandas, or of numpy, which is UTC.

    Args:
        value: what the caller passed.
        what: the name of the argument, as the beginning of a sentence.

    Raises:
        InvalidRequestError: the datetime has no zone.
    """
    if isinstance(value, datetime):
        if value != value:  # pandas.NaT
            return value
        if value.tzinfo is None:
            raise InvalidRequestError(f"{what} must have a zone: datetime(..., tzinfo=timezone.utc).")
        try:
            return duration_nanoseconds(value - datetime(1970, 1, 1, tzinfo=UTC))
        except (OverflowError, ValueError):  # beyond the range of pandas
            return value
    if type(value).__module__ != "numpy":
        return value
    import numpy as np

    return _exact(value, "datetime64[ns]") if isinstance(value, np.datetime64) else value


def _exact(value: Any, unit: str) -> Any:
    """The integer of a value of numpy in ``unit``; the value where that is not exact."""
    import numpy as np

    found = value.astype(unit)
    return value if np.isnat(value) or found.astype(value.dtype) != value else int(found.astype(np.int64))


def choice(value: Any, kind: type[_Choice], what: str) -> _Choice | None:
    """The member of an enumeration of texts for a member or its text; None for None.

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


def as_path(value: Any, what: str, kind: str = "folder or file") -> Path:
    """Check that ``value`` is a path or the text of one, and return it.

    Args:
        value: what the caller passed.
        what: the name of the argument, as the beginning of a sentence.
        kind: what is there, for the text of the error.

    Raises:
        InvalidRequestError: it is not, or no file can have that name.
    """
    found = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    if not isinstance(found, str):
        raise InvalidRequestError(f"{what} must be the path of a {kind}, not {shown(value)}.")
    if not found.strip():
        raise InvalidRequestError(f"{what} must not be empty.")
    try:
        is_path = b"\0" not in os.fsencode(found)  # bytes that are no UTF-8 are halves of surrogate pairs in Python
    except UnicodeEncodeError:
        is_path = False
    if not is_path:
        raise InvalidRequestError(f"{what} must be the path of a {kind}, and {shown(value)} cannot be one.")
    return Path(found)


def callback(value: Any, what: str) -> Callable[..., Any]:
    """Check that ``value`` is callable, and return it.

    Raises:
        InvalidRequestError: it is not.
    """
    if not callable(value):
        raise InvalidRequestError(f"{what} must be a function, not {shown(value)}.")
    found: Callable[..., Any] = value
    return found
