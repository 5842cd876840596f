"""Conditions that hold for the rows of one key."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Final

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
    if pat.is_timestamp(kind):
        return Compare(Comparison.EQUAL, column, Instant(value.cast(_INSTANT).value))
    if pat.is_date(kind) or pat.is_time(kind) or pat.is_duration(kind):
        same: Expression = col(name) == value.as_py()
        return same
    if not any(is_compared(kind) for is_compared in _COMPARED):
        raise UnsupportedOperationError(
            f"The key column '{name}' has the type {kind}, of which a server cannot be asked for one value. Use "
            f"where_in with a table of the key."
        )
    given = value.as_py()
    if isinstance(given, float) and math.isnan(given):
        return IsNan(column)
    if given == math.inf:  # JSON has no infinities
        return Compare(Comparison.GREATER, column, sys.float_info.max)
    if given == -math.inf:  # null is lower
        return All((Compare(Comparison.LESS, column, -sys.float_info.max), Not(IsNull(column))))
    return Compare(Comparison.EQUAL, column, given)
