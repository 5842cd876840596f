"""Sums and products of 64-bit integers, which are null where they need more bits.

Times are computed with these: a wrapped number would be a wrong moment.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from barrage_server.formula.vectors import AnyArray, Cells, Flags, both

__all__ = ["minus", "narrowed", "plus", "times"]

_LEAST: Final = np.iinfo(np.int64).min


def plus(a: Cells, b: Cells) -> Cells:
    """``a + b``."""
    left, right = _whole(a), _whole(b)
    found = np.add(left, right)
    return _result(found, ((left ^ found) & (right ^ found)) >= 0, a, b)


def minus(a: Cells, b: Cells) -> Cells:
    """``a - b``."""
    left, right = _whole(a), _whole(b)
    found = np.subtract(left, right)
    return _result(found, ((left ^ right) & (left ^ found)) >= 0, a, b)


def times(a: Cells, b: Cells) -> Cells:
    """``a * b``."""
    left, right = _whole(a), _whole(b)
    found = np.multiply(left, right)
    divisor = np.where((right == 0) | (right == -1), 1, right)  # what -1 gives is seen by the signs
    is_divided = np.floor_divide(found, divisor) == np.where(divisor == right, left, found)
    return _result(found, is_divided & ~((right == -1) & (left == _LEAST)), a, b)


def narrowed(a: Cells) -> Cells:
    """The values as 32-bit integers."""
    found = a.values.astype(np.int32)
    return _result(found, found == a.values, a)


def _whole(a: Cells) -> AnyArray:
    return np.asarray(a.values).astype(np.int64, copy=False)


def _result(found: AnyArray, fits: Flags, *inputs: Cells) -> Cells:
    valid = None if np.all(fits) else np.asarray(fits)
    for each in inputs:
        valid = both(valid, each.valid)
    return Cells(found, valid)
