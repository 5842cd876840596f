"""Literals of conditions, as values in the types of comparisons."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.arguments import shown
from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.fixed_limits import CONDITION_TEXT_CHARACTERS
from barrage_server.plan.condition import BigDecimal, Instant, LocalDate
from barrage_server.wire.conversions import DAY_MILLISECONDS, NANOSECONDS

__all__ = ["bounds", "checked_text", "holds", "is_text", "literal_of", "number_of"]

_DIGITS: Final = re.compile(r"-?([0-9]{1,76})(?:\.([0-9]{1,76}))?", re.ASCII)
_MOST_DIGITS: Final = 76
"""Digits of a decimal."""


def literal_of(name: str, data_type: pa.DataType, value: Any) -> tuple[pa.DataType, Any]:
    """The type to compare a column in, and the literal as a value of it.

    Args:
        name: the column.
        data_type: its type.
        value: the literal.

    Returns:
        The type, and a Fraction where that is one of integers, a Decimal for decimals, else a bool, float or str.

    Raises:
        InvalidRequestError: values of the column cannot be compared with it, or it makes no sense.
        LimitError: it is too long.

    """
    if isinstance(value, bool):
        if pat.is_boolean(data_type):
            return data_type, value
    elif isinstance(value, str):
        if is_text(data_type):
            return pa.large_string(), checked_text(value)
    elif isinstance(value, Instant):
        if pat.is_timestamp(data_type):
            return pa.int64(), Fraction(_nanoseconds(value), NANOSECONDS[data_type.unit])
    elif isinstance(value, LocalDate):
        if pat.is_date32(data_type):
            return pa.int32(), Fraction(_whole(value.days, "A date", "days"))
        if pat.is_date64(data_type):
            return pa.int64(), Fraction(_whole(value.days, "A date", "days") * DAY_MILLISECONDS)
    elif isinstance(value, BigDecimal):
        if pat.is_decimal(data_type):
            return _decimal(data_type, value)
    elif isinstance(value, int | float):
        if pat.is_floating(data_type):
            return pa.float64(), _as_float(value)
        if pat.is_integer(data_type):
            if isinstance(value, float) and not math.isfinite(value):
                return pa.float64(), value
            return data_type, Fraction(value)
        if pat.is_decimal(data_type):
            return pa.float64(), _as_float(value)
    raise InvalidRequestError(f"Column {name!r} has the type {data_type}, and {shown(value)} is no such value.")


def number_of(text: str, data_type: pa.DataType) -> float | None:
    """The number that a text is, if a column of the type may have it."""
    try:
        if pat.is_integer(data_type):
            return int(text) if len(text) < 30 else None
        found = float(text) if pat.is_floating(data_type) and len(text) < 400 else None
        return found if found is not None and math.isfinite(found) else None
    except ValueError:
        return None


def checked_text(value: Any) -> str:
    """Check a text of a condition, and return it.

    Raises:
        InvalidRequestError: it is none, or cannot be written as UTF-8.
        LimitError: it is too long.

    """
    if not isinstance(value, str):
        raise InvalidRequestError(f"A condition on strings needs a string, not {shown(value)}.")
    if len(value) > CONDITION_TEXT_CHARACTERS.most:
        raise LimitError(
            f"A text of a condition has {len(value):,} characters, and {CONDITION_TEXT_CHARACTERS.most:,} is the most "
            f"({CONDITION_TEXT_CHARACTERS.name})."
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError("A text of a condition has half a surrogate pair.") from None
    return value


def holds(data_type: pa.DataType, number: Fraction) -> bool:
    """Whether a number is a value of an integer type."""
    low, high = bounds(data_type)
    return number.denominator == 1 and low <= number <= high


def bounds(data_type: pa.DataType) -> tuple[int, int]:
    """The least and the greatest value of an integer type."""
    info = np.iinfo(data_type.to_pandas_dtype())
    return int(info.min), int(info.max)


def is_text(data_type: pa.DataType) -> bool:
    """Whether values of the type are strings."""
    return bool(pat.is_string(data_type) or pat.is_large_string(data_type) or pat.is_string_view(data_type))


def _decimal(data_type: pa.DataType, value: BigDecimal) -> tuple[pa.DataType, Decimal]:
    """A decimal type that holds the column's values and the literal, both exactly."""
    found = _DIGITS.fullmatch(value.digits) if isinstance(value.digits, str) else None
    if found is None:
        raise InvalidRequestError(f"A decimal is written as digits, maybe with a point, not as {shown(value.digits)}.")
    whole, fraction = found.groups(default="")
    fraction = fraction.rstrip("0")
    scale = max(data_type.scale, len(fraction))
    if max(data_type.precision - data_type.scale, len(whole)) + scale > _MOST_DIGITS:
        raise InvalidRequestError(
            f"{shown(value.digits)} and {data_type} have more than {_MOST_DIGITS} digits together."
        )
    return pa.decimal256(_MOST_DIGITS, scale), Decimal(value.digits)


def _nanoseconds(value: Instant) -> int:
    return _whole(value.nanoseconds, "An instant", "nanoseconds")


def _whole(value: object, what: str, unit: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidRequestError(f"{what} is a number of {unit}, not {shown(value)}.")
    return value


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
