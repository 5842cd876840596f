"""Decimals beside other numbers.

They are exact with each other and with integers, and beside floats the nearest doubles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.formula.kinds import INTEGERS, Kind
from barrage_server.formula.vectors import Arrow, Cells, Vector
from barrage_server.wire.buffers import cells_of, valid_of

__all__ = ["are_exact", "as_decimal", "as_doubles", "as_longs", "exact_types", "integers_within"]

_INTEGER: Final = pa.decimal128(19, 0)
_WHOLE: Final = pa.decimal256(76, 0)
_EXACT_DOUBLE: Final = 2**53
"""Integers up to this one are doubles."""
_EXACT_POWER: Final = 22
"""So are powers of ten up to this one."""


def exact_types(function: Callable[..., Any], left: Kind, right: Kind) -> tuple[pa.DataType, pa.DataType] | None:
    """The types in which a function of Arrow takes decimals and integers.

    Args:
        function: of two arrays of decimals.
        left: the kind of the first values, a decimal or an integer.
        right: the kind of the second ones.

    Returns:
        Both types, or ``None`` if 76 digits may be too few.

    """
    types = [kind.arrow if kind.is_decimal else _INTEGER for kind in (left, right)]
    for first, second in (types, [pa.decimal256(each.precision, each.scale) for each in types]):
        try:
            function(pa.array([], first), pa.array([], second))
        except pa.ArrowInvalid:
            continue
        return first, second
    return None


def are_exact(*kinds: Kind) -> bool:
    """Whether one of ``kinds`` is a decimal, and the others are decimals or integers."""
    return any(kind.is_decimal for kind in kinds) and all(kind.is_decimal or kind in INTEGERS for kind in kinds)


def as_decimal(vector: Vector, arrow: pa.DataType) -> Arrow:
    """Decimals or integers as decimals of a type with room for them."""
    if not isinstance(vector, Cells):
        return vector if vector.type == arrow else vector.cast(arrow)
    if vector.values.ndim == 0:
        is_null = vector.valid is not None and not vector.valid
        return pa.scalar(None if is_null else int(vector.values), arrow)
    mask = None if vector.valid is None else np.broadcast_to(~vector.valid, vector.values.shape)
    return pa.array(vector.values.astype(np.int64), mask=mask).cast(arrow)


def as_doubles(vector: Arrow) -> Cells:
    """Decimals as the nearest doubles.

    Arrow's own cast gives 2.5500000000000003 for 2.55.
    """
    if isinstance(vector, pa.Scalar):
        value = vector.as_py()
        return Cells(np.asarray(float(value or 0)), None if value is not None else np.zeros((), np.bool_))
    valid = valid_of(vector)
    words = _words(vector)
    low, scale = words[:, 0], vector.type.scale
    is_small = (low <= _EXACT_DOUBLE) & (low >= -_EXACT_DOUBLE) & (words[:, 1:] == (low >> 63)[:, None]).all(axis=1)
    if scale <= _EXACT_POWER and (is_small if valid is None else is_small | ~valid).all():
        return Cells(low / 10.0**scale, valid)  # of two exact doubles, the nearest one
    read = vector.cast(pa.string()).cast(pa.float64())
    return Cells(read.fill_null(0.0).to_numpy(zero_copy_only=False), valid)


def as_longs(vector: Arrow) -> Cells:
    """Decimals cut to integers, and to the bounds of 64 bits."""
    if isinstance(vector, pa.Scalar):
        value = vector.as_py()
        whole = min(max(int(value or 0), -(2**63)), 2**63 - 1)
        return Cells(np.asarray(whole, np.int64), None if value is not None else np.zeros((), np.bool_))
    valid = valid_of(vector)
    if vector.type.precision == vector.type.scale:  # none reaches 1, and Arrow has no digit for it
        return Cells(np.zeros(len(vector), np.int64), valid)
    whole = pc.trunc(vector).cast(_WHOLE)
    least, most = _bounds()
    bounded = pc.max_element_wise(pc.min_element_wise(whole, most, skip_nulls=False), least, skip_nulls=False)
    return Cells(bounded.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), valid)


def integers_within(integers: Sequence[int], kind: Kind) -> list[Decimal]:
    """The integers that a kind of decimals can have; it equals no others."""
    most = 10 ** (kind.arrow.precision - kind.arrow.scale)
    return [Decimal(each) for each in integers if -most < each < most]


@cache
def _bounds() -> tuple[pa.Scalar, pa.Scalar]:
    """The least and the greatest integer of 64 bits.

    They are made when they are needed: Arrow imports pandas for the first such scalar.
    """
    return pa.scalar(Decimal(-(2**63)), _WHOLE), pa.scalar(Decimal(2**63 - 1), _WHOLE)


def _words(array: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The digits of decimals: rows of 64-bit words, the lowest first."""
    return cells_of(array, np.dtype(("<i8", array.type.bit_width // 64)))
