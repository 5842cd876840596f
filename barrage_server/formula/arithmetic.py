"""Arithmetic, bits and casts: kinds of results, and kernels.

The kind of a result is the one of Deephaven's functions for the same operator. Integers wrap, and times that need more
than 64 bits are null. Null spreads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.formula import bounded
from barrage_server.formula.decimals import are_exact, as_decimal, as_doubles, as_longs, exact_types
from barrage_server.formula.kinds import (
    BOOLEAN,
    BYTE,
    CHAR,
    DOUBLE,
    DURATION,
    FLOAT,
    INSTANT,
    INT,
    INTEGERS,
    LOCAL_DATE,
    LONG,
    PERIOD,
    SHORT,
    Kind,
    kind_of,
)
from barrage_server.formula.vectors import AnyArray, Arrow, Cells, Flags, Vector, both

__all__ = ["Kernel", "Resolved", "arithmetic", "bits", "cast", "convert", "negative", "promoted", "whole"]

Kernel: TypeAlias = Callable[..., Vector]
Resolved: TypeAlias = tuple[Kind, Kernel]

_UFUNCS: Final[dict[str, Callable[..., Any]]] = {"+": np.add, "-": np.subtract, "*": np.multiply, "%": np.fmod}
_BOUNDED: Final[dict[str, Callable[[Cells, Cells], Cells]]] = {
    "+": bounded.plus,
    "-": bounded.minus,
    "*": bounded.times,
}
_DECIMAL: Final[dict[str, Callable[..., Any]]] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}


_ZERO: Final = Cells(np.zeros((), np.int64))
_DAY: Final = Cells(np.asarray(86_400_000_000_000, np.int64))


def promoted(left: Kind, right: Kind) -> Kind:
    """The kind of a sum: the widest of double, float, long; else int."""
    return next((kind for kind in (DOUBLE, FLOAT, LONG) if kind in (left, right)), INT)


def arithmetic(operator: str, left: Kind, right: Kind) -> Resolved | None:
    """Resolve ``+ - * / %``; ``None`` for kinds that the operator does not take."""
    if left.is_number and right.is_number:
        return _division(left, right) if operator == "/" else _numbers(operator, left, right)
    if left.is_decimal or right.is_decimal:
        return _decimals(operator, left, right)
    return _times(operator, left, right)


def _numbers(operator: str, left: Kind, right: Kind) -> Resolved:
    kind = promoted(left, right)
    ufunc = _UFUNCS[operator]
    dtype = kind.dtype
    assert dtype is not None

    def run(a: Cells, b: Cells) -> Cells:
        return Cells(ufunc(_as(a.values, dtype), _as(b.values, dtype)), both(a.valid, b.valid))

    def remainder(a: Cells, b: Cells) -> Cells:
        by = _as(b.values, dtype)
        is_sound = by != 0
        found = np.fmod(_as(a.values, dtype), np.where(is_sound, by, by.dtype.type(1)))
        return Cells(found, both(both(a.valid, b.valid), None if is_sound.all() else is_sound))

    return kind, remainder if operator == "%" and kind in INTEGERS else run


def _division(left: Kind, right: Kind) -> Resolved:
    is_float = right is FLOAT and left is not DOUBLE
    kind = FLOAT if is_float else DOUBLE
    dtype = kind.dtype
    assert dtype is not None

    def run(a: Cells, b: Cells) -> Cells:
        return Cells(np.divide(_as(a.values, dtype), _as(b.values, dtype)), both(a.valid, b.valid))

    return kind, run


def _decimals(operator: str, left: Kind, right: Kind) -> Resolved | None:
    """Resolve an operator with a decimal: exact with decimals and integers.

    With floats, and for quotients, the result is a double.
    """
    if not all(kind.is_decimal or kind.is_number for kind in (left, right)):
        return None
    if operator not in _DECIMAL or not are_exact(left, right):
        to_left, to_right = cast(left, DOUBLE), cast(right, DOUBLE)
        resolved = arithmetic(operator, DOUBLE, DOUBLE)
        assert to_left is not None
        assert to_right is not None
        assert resolved is not None
        return DOUBLE, lambda a, b: resolved[1](to_left(a), to_right(b))
    function = _DECIMAL[operator]
    types = exact_types(function, left, right)
    if types is None:
        return None
    first, second = types
    arrow = function(pa.array([], first), pa.array([], second)).type
    return kind_of(arrow), lambda a, b: function(as_decimal(a, first), as_decimal(b, second))


def _times(operator: str, left: Kind, right: Kind) -> Resolved | None:
    """Resolve an operator on instants, durations and periods, in nanoseconds."""
    whole = (*INTEGERS,)
    kinds = {
        "+": [(INSTANT, DURATION, INSTANT), (DURATION, INSTANT, INSTANT), (DURATION, DURATION, DURATION)]
        + [pair for kind in whole for pair in ((INSTANT, kind, INSTANT), (kind, INSTANT, INSTANT))],
        "-": [(INSTANT, DURATION, INSTANT), (INSTANT, INSTANT, LONG), (DURATION, DURATION, DURATION)]
        + [(INSTANT, kind, INSTANT) for kind in whole],
        "*": [pair for kind in whole for pair in ((DURATION, kind, DURATION), (kind, DURATION, DURATION))],
    }.get(operator, [])
    for first, second, result in kinds:
        if (left, right) == (first, second):
            return result, _BOUNDED[operator]
    if operator == "/" and left is DURATION and right in whole:
        return DURATION, _whole_division
    if operator in "+-" and right is PERIOD and left in (INSTANT, LOCAL_DATE):
        move = _BOUNDED[operator]
        if left is LOCAL_DATE:
            return left, lambda a, b: bounded.narrowed(move(a, b))
        return left, lambda a, b: move(a, bounded.times(b, _DAY))
    return _periods(operator, left, right) if PERIOD in (left, right) else None


def _periods(operator: str, left: Kind, right: Kind) -> Resolved | None:
    """Resolve an operator on periods, in days; null where an int overflows."""
    is_sum = operator in "+-" and left is right
    if not is_sum and not (operator == "*" and {left, right} <= {PERIOD, BYTE, SHORT, INT} and left is not right):
        return None
    run = _BOUNDED[operator]
    return PERIOD, lambda a, b: bounded.narrowed(run(a, b))


def _whole_division(a: Cells, b: Cells) -> Cells:
    """Division toward zero; null by zero, and where 64 bits overflow."""
    by = _as(b.values, np.dtype(np.int64))
    is_sound = (by != 0) & ~((by == -1) & (a.values == np.iinfo(np.int64).min))
    by = np.where(is_sound, by, 1)
    quotient = (a.values - np.fmod(a.values, by)) // by
    return Cells(quotient, both(both(a.valid, b.valid), None if is_sound.all() else is_sound))


def negative(kind: Kind) -> Resolved | None:
    """Resolve the unary minus."""
    if kind is DURATION:
        return DURATION, lambda a: bounded.minus(_ZERO, a)
    if kind.is_decimal:
        return kind, lambda a: pc.negate(a)
    if not kind.is_number:
        return None
    result = kind if kind in (LONG, FLOAT, DOUBLE) else INT
    return result, lambda a: Cells(np.negative(_as(a.values, result.dtype)), a.valid)


_BITS: Final[dict[str, Callable[..., Any]]] = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}


def bits(operator: str, left: Kind, right: Kind) -> Resolved | None:
    """Resolve ``& | ^`` of integers or booleans, ``<< >> >>>`` of integers."""
    if left not in INTEGERS or right not in INTEGERS:
        if left is BOOLEAN and right is BOOLEAN and operator in _BITS:
            ufunc = _BITS[operator]
            return BOOLEAN, lambda a, b: Cells(ufunc(a.values, b.values), both(a.valid, b.valid))
        return None
    if operator in _BITS:
        kind, ufunc = promoted(left, right), _BITS[operator]
        dtype = kind.dtype
        return kind, lambda a, b: Cells(ufunc(_as(a.values, dtype), _as(b.values, dtype)), both(a.valid, b.valid))
    kind = LONG if left is LONG else INT
    dtype = kind.dtype
    assert dtype is not None
    width = dtype.itemsize * 8
    unsigned = np.dtype(f"u{dtype.itemsize}")

    def shift(a: Cells, b: Cells) -> Cells:
        """Java's shifts, which use the lowest five or six bits of the distance."""
        by = b.values.astype(np.int64) & (width - 1)
        values = _as(a.values, dtype)
        if operator == ">>>":
            found = np.right_shift(np.asarray(values).view(unsigned), by.astype(unsigned)).view(dtype)
        else:
            found = (np.left_shift if operator == "<<" else np.right_shift)(values, by.astype(dtype))
        return Cells(found, both(a.valid, b.valid))

    return kind, shift


def cast(source: Kind, target: Kind) -> Kernel | None:
    """The kernel of ``(target) source``; ``None`` if there is no such cast."""
    if source == target:
        return lambda a: a
    if target.dtype is None or target is BOOLEAN:
        return None
    if source.is_decimal and target.is_number:
        return _of_decimals(target)
    if not source.is_number or not target.is_number:
        return None
    dtype = target.dtype
    if source in (FLOAT, DOUBLE) and target in INTEGERS:
        return lambda a: Cells(whole(a.values, target), a.valid)
    return lambda a: Cells(_as(a.values, dtype), a.valid)


def convert(source: Kind, target: Kind) -> Kernel | None:
    """The kernel of an implicit conversion to a wider kind, or ``None``."""
    order = (BYTE, SHORT, INT, LONG, FLOAT, DOUBLE)
    if source == target:
        return lambda a: a
    if source.is_decimal and target is DOUBLE:
        return cast(source, target)
    if target not in order or not (source in order or source is CHAR):
        return None
    is_wider = order.index(target) > (order.index(SHORT) if source is CHAR else order.index(source))
    return cast(source, target) if is_wider else None


def _of_decimals(target: Kind) -> Kernel:
    """The kernel of the cast of decimals to a number."""
    dtype = target.dtype
    assert dtype is not None
    if target not in INTEGERS:
        return lambda a: _recast(as_doubles(a), dtype)
    wide = np.iinfo(np.int64 if target is LONG else np.int32)  # small kinds go through int, as floats do

    def run(a: Arrow) -> Cells:
        cut = as_longs(a)
        return _recast(Cells(np.clip(cut.values, wide.min, wide.max), cut.valid), dtype)

    return run


def _recast(cells: Cells, dtype: Any) -> Cells:
    return Cells(_as(cells.values, dtype), cells.valid)


def whole(values: AnyArray, target: Kind) -> AnyArray:
    """Cut floats to integers as Java does.

    NaN becomes 0, and too large values the largest. Small kinds go through int.
    """
    wide = np.dtype(np.int64 if target is LONG else np.int32)
    bits = wide.itemsize * 8 - 1
    least, most = -(2**bits), 2**bits - 1
    doubles = values.astype(np.float64, copy=False)
    is_high: Flags = doubles >= float(most)
    is_low: Flags = doubles <= float(least)
    inside = np.where(is_high | is_low | np.isnan(doubles), 0.0, doubles).astype(wide)
    found = np.where(is_high, wide.type(most), np.where(is_low, wide.type(least), inside))
    return found.astype(target.dtype)


def _as(values: AnyArray, dtype: Any) -> AnyArray:
    """Cast to a dtype; integers wrap."""
    return values if values.dtype == dtype else np.asarray(values).astype(dtype)
