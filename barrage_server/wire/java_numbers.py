"""``java.math.BigDecimal`` and ``BigInteger`` as Deephaven puts them into binary columns, and back to text.

A BigInteger is its big-endian two's complement. A BigDecimal is its scale as a little-endian int32, then its unscaled
value as a BigInteger. Leading bytes that repeat the sign are allowed, and that is what makes it possible to write whole
columns at a time: all values of one batch have the same number of bytes.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa

from barrage_server.wire.variable import Bools, Numbers, bits, byte_runs, cells, rows_of_bytes

__all__ = ["big_decimal_text", "big_decimals", "big_integer_text", "big_integers"]

_SCALE_BYTES: Final = 4
_WIDEST: Final = 32
_DIGITS: Final = 76
"""Bytes and decimal digits of Arrow's widest decimal."""


def big_decimals(array: pa.Array) -> pa.Array:
    """A decimal column as binary BigDecimals of the column's scale."""
    width, count = array.type.bit_width // 8, len(array)
    numbers = _shortest(cells(array, f"V{width}").view(np.uint8).reshape(count, width)[:, ::-1])
    rows = np.empty((count, _SCALE_BYTES + numbers.shape[1]), np.uint8)
    rows[:, :_SCALE_BYTES] = np.frombuffer(struct.pack("<i", array.type.scale), np.uint8)
    rows[:, _SCALE_BYTES:] = numbers
    return rows_of_bytes(array, rows)


def big_integers(array: pa.Array) -> pa.Array:
    """A uint64 column as binary BigIntegers."""
    rows = np.zeros((len(array), 9), np.uint8)  # the ninth byte is the sign
    rows[:, 1:] = cells(array, "<u8").view(np.uint8).reshape(len(array), 8)[:, ::-1]
    return rows_of_bytes(array, _shortest(rows))


def big_decimal_text(array: pa.Array) -> pa.Array:
    """Binary BigDecimals as text, the way ``BigDecimal.toString`` writes it; null where a value is too short for one.

    Of each scale all values are written at once; those beyond 32 bytes, or of scales beyond 76, one by one.
    """
    return _text(array, _SCALE_BYTES)


def big_integer_text(array: pa.Array) -> pa.Array:
    """Binary BigIntegers as decimal text; null where there are no bytes."""
    return _text(array, 0)


def _shortest(rows: Numbers) -> Numbers:
    """Big-endian numbers without leading bytes that none of them needs; a view."""
    while rows.shape[1] > 1:
        dropped = (rows.shape[1]) // 2
        # the sign must still be told by the first byte that stays
        sign = (rows[:, dropped : dropped + 1].astype(np.int8) >> 7).view(np.uint8)
        if (rows[:, :dropped] != sign).any():
            return rows
        rows = rows[:, dropped:]
    return rows


def _text(array: pa.Array, header: int) -> pa.Array:
    offsets, data = byte_runs(array)
    starts, lengths = offsets[:-1] + header, np.diff(offsets) - header
    usable: Bools = lengths > 0
    valid = bits(array)
    if valid is not None:
        usable &= valid
    places = np.flatnonzero(usable)
    starts, lengths = starts[places], lengths[places]
    scales = np.zeros(len(places), np.int32)
    if header:
        scales = data[(starts - header)[:, None] + np.arange(header)].view("<i4")[:, 0]
    short = (lengths <= _WIDEST) & (np.abs(scales.astype(np.int64)) <= _DIGITS)  # what Arrow can write
    texts: list[pa.Array] = []
    order: list[Numbers] = []
    for scale in np.unique(scales[short]):
        chosen = np.flatnonzero(short & (scales == scale))
        texts.append(_decimals(data, starts[chosen], lengths[chosen], int(scale)).cast(pa.string()))
        order.append(places[chosen])
    long = np.flatnonzero(~short)
    if len(long):
        texts.append(pa.array([_one(data, starts[k], lengths[k], int(scales[k])) for k in long], pa.string()))
        order.append(places[long])
    texts.append(pa.nulls(1, pa.string()))  # what stands for all others
    indices = np.full(len(array), len(places), np.int64)
    if order:
        indices[np.concatenate(order)] = np.arange(len(places))
    return pa.concat_arrays(texts).take(pa.array(indices))


def _decimals(data: Numbers, starts: Numbers, lengths: Numbers, scale: int) -> pa.Array:
    """Numbers of at most 32 bytes, as an Arrow decimal array of one scale."""
    place = np.arange(_WIDEST)  # from the last, least significant byte on
    source = np.maximum((starts + lengths - 1)[:, None] - place, starts[:, None])
    sign = (data[starts].astype(np.int8) >> 7).view(np.uint8)
    little = np.where(place < lengths[:, None], data[source], sign[:, None])
    kind = pa.decimal256(_DIGITS, scale)
    return pa.Array.from_buffers(kind, len(starts), [None, pa.py_buffer(np.ascontiguousarray(little))], null_count=0)


def _one(data: Numbers, start: int, length: int, scale: int) -> str:
    number = Decimal(int.from_bytes(data[start : start + length].tobytes(), "big", signed=True))
    sign, digits, _ = number.as_tuple()
    return str(Decimal((sign, digits, -scale)))
