"""Values as text, in the form of Java's ``String.valueOf``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.formula.kinds import (
    BOOLEAN,
    CHAR,
    DOUBLE,
    DURATION,
    FLOAT,
    INSTANT,
    INTEGERS,
    LOCAL_DATE,
    LOCAL_TIME,
    NULL,
    STRING,
    Kind,
)
from barrage_server.formula.text_size import check_text_bytes, text_bytes
from barrage_server.formula.vectors import Arrow, Cells, Vector, to_arrow

__all__ = ["concatenation", "has_text", "to_text", "with_t", "writer"]

_PLAIN_FLOATS: Final = (1e-3, 1e7)
"""Between these Java writes floats without an exponent."""

_UNITS: Final = (("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1))
"""Units of time and their nanoseconds."""


def has_text(kind: Kind) -> bool:
    """Whether values of the kind can be written."""
    known = (BOOLEAN, *INTEGERS, FLOAT, DOUBLE, INSTANT, LOCAL_DATE, LOCAL_TIME, DURATION, STRING, NULL)
    return kind in known or kind.is_decimal


def to_text(vector: Vector, kind: Kind) -> Arrow:
    """The texts of values; null is null."""
    if kind is STRING:
        return vector
    if kind is NULL:
        return pa.scalar(None, pa.string())
    is_constant = isinstance(vector, pa.Scalar) or (isinstance(vector, Cells) and vector.values.ndim == 0)
    array = to_arrow(vector, kind, 1 if is_constant else len(vector[0] if isinstance(vector, Cells) else vector))
    texts = _texts(array, kind)
    return texts[0] if is_constant else texts


def writer(kinds: tuple[Kind, ...]) -> Callable[[Vector], Arrow]:
    """The kernel of :func:`to_text` for values of the only kind."""
    return lambda vector: to_text(vector, kinds[0])


def concatenation(kinds: tuple[Kind, ...]) -> Callable[..., Arrow]:
    """The kernel of ``+`` with a string on one side: a null is written as ``null``."""

    def run(*vectors: Vector) -> Arrow:
        parts = [_filled(to_text(vector, kind)) for vector, kind in zip(vectors, kinds, strict=True)]
        rows = max((len(part) for part in parts if not isinstance(part, pa.Scalar)), default=1)
        check_text_bytes(sum(text_bytes(part, rows) for part in parts))
        return pc.binary_join_element_wise(*parts, "")

    return run


def _filled(text: Arrow) -> Arrow:
    if isinstance(text, pa.Scalar):
        return text if text.is_valid else pa.scalar("null")
    return pc.fill_null(text, "null") if text.null_count else text


def _texts(array: pa.Array, kind: Kind) -> pa.Array:
    if kind in (FLOAT, DOUBLE):
        return _floats(array)
    if kind is CHAR:
        return _each(array, _character)
    if kind is DURATION:
        return _each(array, _duration)
    if kind is INSTANT:
        shown = _by_unit(array, lambda counts, unit: with_t(counts.cast(pa.timestamp(unit))))
        return pc.binary_join_element_wise(shown, "Z", "")
    if kind is LOCAL_TIME:
        return _by_unit(array, _time_of_day)
    return array.cast(pa.string())


def with_t(moments: pa.Array) -> pa.Array:
    """Timestamps as ``2024-06-15T06:00:00``, with the digits of their unit.

    Years have four digits.
    """
    return pc.binary_replace_slice(moments.cast(pa.string()), start=10, stop=11, replacement="T")


def _time_of_day(counts: pa.Array, unit: str) -> pa.Array:
    """Times of one unit; without the seconds if these are zero."""
    if unit in ("us", "ns"):
        return counts.cast(pa.time64(unit)).cast(pa.string())
    shown = counts.cast(pa.int32()).cast(pa.time32(unit)).cast(pa.string())
    if unit == "ms":
        return shown
    return pc.if_else(pc.ends_with(shown, ":00"), pc.utf8_slice_codeunits(shown, 0, 5), shown)


def _by_unit(array: pa.Array, write: Callable[[pa.Array, str], pa.Array]) -> pa.Array:
    """Write nanoseconds in the coarsest exact unit, as Java does.

    That is, with no, three, six or nine digits.

    Args:
        array: timestamps, or times of the day.
        write: makes the texts of counts of a unit, ``s``, ``ms``, ``us`` or ``ns``.

    """
    counts = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    digits = sum((counts % size != 0).astype(np.int8) for _, size in _UNITS[:-1])
    parts, places = [pa.array([], pa.string())], [np.empty(0, np.int64)]
    for number, (unit, size) in enumerate(_UNITS):
        rows = np.flatnonzero(digits == number)
        if len(rows):
            parts.append(write(pa.array(counts[rows] // size), unit))
            places.append(rows)
    shown = pa.concat_arrays(parts)
    if len(parts) > 2:
        shown = shown.take(pa.array(np.argsort(np.concatenate(places))))
    return pc.if_else(array.is_valid(), shown, pa.scalar(None, pa.string())) if array.null_count else shown


def _floats(array: pa.Array) -> pa.Array:
    """Shortest digits; numbers that Java writes with an exponent one by one."""
    shown = pc.replace_substring_regex(array.cast(pa.string()), r"^(-?\d+)$", r"\1.0")
    size = np.abs(array.to_numpy(zero_copy_only=False).astype(np.float64))
    least, most = _PLAIN_FLOATS
    is_plain = (size >= least) & (size < most) | (size == 0)
    if is_plain.all():
        return shown
    others = np.flatnonzero(~is_plain & np.asarray(array.is_valid()))
    rendered = _each(array.take(pa.array(others)), _exponent)
    return pc.replace_with_mask(shown, pa.array(np.isin(np.arange(len(array)), others)), rendered)


def _each(array: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    """Write each different value once."""
    encoded = array.dictionary_encode()
    values: list[Any] = encoded.dictionary.to_pylist()
    if pa.types.is_duration(array.type):
        values = encoded.dictionary.cast(pa.int64()).to_pylist()
    elif array.type == pa.float32():
        values = [np.float32(value) for value in values]
    return pa.array([write(value) for value in values], pa.string()).take(encoded.indices)


def _character(code: int) -> str:
    """A char as text; ``?`` for half a surrogate pair, as in Java's UTF-8."""
    return "?" if 0xD800 <= code < 0xE000 else chr(code)


def _exponent(value: Any) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    digits, _, power = np.format_float_scientific(value, unique=True, trim="0", exp_digits=1).partition("e")
    return f"{digits}E{int(power)}"


def _duration(nanoseconds: int) -> str:
    """Java's form, such as ``PT1H30M5.5S``: the sign is with each part."""
    if nanoseconds == 0:
        return "PT0S"
    sign, size = ("-" if nanoseconds < 0 else ""), abs(nanoseconds)
    seconds, part = divmod(size, 1_000_000_000)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    fraction = f".{part:09d}".rstrip("0") if part else ""
    found = "PT" + (f"{sign}{hours}H" if hours else "") + (f"{sign}{minutes}M" if minutes else "")
    return found + (f"{sign}{seconds}{fraction}S" if seconds or part else "")
