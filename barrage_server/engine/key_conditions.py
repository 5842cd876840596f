"""Conditions that hold for the rows of one key."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.errors import UnsupportedOperationError
from barrage_server.plan.aggregation import Filter
from barrage_server.plan.condition import All, Column, Compare, Comparison, Instant, IsNan, IsNull, Not
from barrage_server.plan.expression import Expression, col

__all__ = ["key_conditions"]

_INSTANT: Final = pa.timestamp("ns", "UTC")
_COMPARED: Final = (pat.is_boolean, pat.is_integer, pat.is_floating, pat.is_string, pat.is_large_string)


def key_conditions(columns: Sequence[str], key: Sequence[pa.Scalar]) -> list[Filter]:
    """The conditions that columns equal the values of a key.

    Null equals null, and NaN equals NaN.

    Raises:
        UnsupportedOperationError: a column has a type that conditions do not compare.
    """
    return [_equal(name, value) for name, value in zip(columns, key, strict=True)]


def _equal(name: str, value: pa.Scalar) -> Filter:
    """The condition that a column equals ``value``."""
    column, kind = Column(name), value.type
    if not value.is_valid:
        return IsNull(column)
    if pat.is_temporal(kind):
        try:
            return _equal_time(name, value)
        except (pa.ArrowInvalid, OverflowError, ValueError):
            raise _uncompared(name, f"a value of the type {kind} that no literal has") from None
    if not any(is_compared(kind) for is_compared in _COMPARED):
        raise _uncompared(name, f"the type {kind}")
    given = value.as_py()
    if isinstance(given, float) and math.isnan(given):
        return IsNan(column)
    if given == math.inf:  # JSON has no infinities
        return Compare(Comparison.GREATER, column, sys.float_info.max)
    if given == -math.inf:  # null is lower
        return All((Compare(Comparison.LESS, column, -sys.float_info.max), Not(IsNull(column))))
    return Compare(Comparison.EQUAL, column, given)


def _equal_time(name: str, value: pa.Scalar) -> Filter:
    """The condition that a column equals a time of any kind.

    Raises:
        pa.ArrowInvalid, OverflowError, ValueError: no literal has this value.
    """
    kind = value.type
    if pat.is_timestamp(kind):
        return Compare(Comparison.EQUAL, Column(name), Instant(value.cast(_INSTANT).value))
    same: Expression
    if pat.is_duration(kind):
        same = col(name) == np.timedelta64(value.cast(pa.duration("ns")).value, "ns")
    elif pat.is_time(kind):
        seconds, nanoseconds = divmod(value.cast(pa.time64("ns")).value, 1_000_000_000)
        hours, minutes = divmod(seconds // 60, 60)
        return f"{col(name).text} == '{hours:02}:{minutes:02}:{seconds % 60:02}.{nanoseconds:09}'"
    else:
        same = col(name) == value.as_py()
    return same


def _uncompared(name: str, what: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"The key column '{name}' has {what}, of which a server cannot be asked. Use where_in with a table of the key."
    )
