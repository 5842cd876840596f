"""Deephaven's binary columns of ``java.math.BigDecimal`` and ``BigInteger``.

A BigInteger is its big-endian two's complement. A BigDecimal is its scale as a little-endian int32, then its unscaled
value as a BigInteger. Both have as few bytes as the number needs, as in Java.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa

from barrage_server.wire.buffers import Bools, Numbers, cells_of, valid_of, validity_of
from barrage_server.wire.variable import byte_runs, offsets_buffer

__all__ = ["big_decimal_text", "big_decimals", "big_integer_text", "big_integers"]

_SCALE_BYTES: Final = 4
_WIDEST: Final = 32
_DIGITS: Final = 76
"""Bytes and decimal digits of Arrow's widest decimal."""


def big_decimals(array: pa.Array) -> pa.Array:
    """Convert a decimal column to binary BigDecimals of the column's scale."""
    width, count = array.type.bit_width // 8, len(array)
    numbers = cells_of(array, f"V{width}").view(np.uint8).reshape(count, width)[:, ::-1]
    return _binary(array, struct.pack("<i", array.type.scale), numbers)


def big_integers(array: pa.Array) -> pa.Array:
    """Convert a uint64 column to binary BigIntegers."""
    numbers = np.zeros((len(array), 9), np.uint8)  # the ninth byte is the sign
    numbers[:, 1:] = cells_of(array, "<u8").view(np.uint8).reshape(len(array), 8)[:, ::-1]
    return _binary(array, b"", numbers)


def big_decimal_text(array: pa.Array) -> pa.Array:
    """Write binary BigDecimals as ``BigDecimal.toString`` does.

    Values that are too short become null. Values of one scale are written at once; values beyond 32 bytes or of scales
    beyond 76 one by one.
    """
    return _text(array, _SCALE_BYTES)


def big_integer_text(array: pa.Array) -> pa.Array:
    """Write binary BigIntegers as decimal text; values without bytes become null."""
    return _text(array, 0)


def _binary(array: pa.Array, header: bytes, numbers: Numbers) -> pa.Array:
    """Make a binary column of ``header`` and the needed bytes of big-endian numbers.

    Null where ``array`` is null.
    """
    numbers = _narrowed(numbers)
    count, width = numbers.shape
    sign = _signs(numbers[:, 0])
    spare, leading = np.ones(count, np.bool_), np.zeros(count, np.int64)
    for place in range(width - 1):  # a byte is spare if it repeats the sign, as does the first bit of the next byte
        spare &= (numbers[:, place] == sign) & ((numbers[:, place + 1] ^ sign) < 0x80)
        leading += spare
    rows, kept = np.empty((count, len(header) + width), np.uint8), np.ones((count, len(header) + width), np.bool_)
    rows[:, : len(header)] = np.frombuffer(header, np.uint8)
    rows[:, len(header) :] = numbers
    kept[:, len(header) :] = np.arange(width) >= leading[:, None]
    valid = valid_of(array)
    lengths = len(header) + width - leading
    if valid is not None:
        kept &= valid[:, None]
        lengths[~valid] = 0
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [validity_of(array), offsets_buffer(offsets), pa.py_buffer(rows[kept])]
    return pa.Array.from_buffers(pa.binary(), count, buffers, null_count=array.null_count)


def _narrowed(numbers: Numbers) -> Numbers:
    """Drop leading bytes that none of the big-endian numbers needs; a view."""
    while numbers.shape[1] > 1:
        half = numbers.shape[1] // 2
        if (numbers[:, :half] != _signs(numbers[:, half])[:, None]).any():
            return numbers
        numbers = numbers[:, half:]
    return numbers


def _signs(first: Numbers) -> Numbers:
    """Return the sign-extension byte, 0 or 255, of each number, by its first byte."""
    filled: Numbers = (first.view(np.int8) >> 7).view(np.uint8)
    return filled


def _text(array: pa.Array, header: int) -> pa.Array:
    offsets, data = byte_runs(array)
    starts, lengths = offsets[:-1] + header, np.diff(offsets) - header
    usable: Bools = lengths > 0
    valid = valid_of(array)
    if valid is not None:
        usable &= valid
    places = np.flatnonzero(usable)
    starts, lengths = starts[places], lengths[places]
    scales = np.zeros(len(places), np.int32)
    if header:
        scales = data[(starts - header)[:, None] + np.arange(header)].view("<i4")[:, 0]
    short = (lengths <= _WIDEST) & (np.abs(scales.astype(np.int64)) <= _DIGITS)  # those that Arrow can write
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
    texts.append(pa.nulls(1, pa.string()))  # the null of all other values
    indices = np.full(len(array), len(places), np.int64)
    if order:
        indices[np.concatenate(order)] = np.arange(len(places))
    return pa.concat_arrays(texts).take(pa.array(indices))


def _decimals(data: Numbers, starts: Numbers, lengths: Numbers, scale: int) -> pa.Array:
    """Convert numbers of at most 32 bytes to an Arrow decimal array of one scale."""
    place = np.arange(_WIDEST)  # from the last, least significant byte on
    source = np.maximum((starts + lengths - 1)[:, None] - place, starts[:, None])
    little = np.where(place < lengths[:, None], data[source], _signs(data[starts])[:, None])
    kind = pa.decimal256(_DIGITS, scale)
    return pa.Array.from_buffers(kind, len(starts), [None, pa.py_buffer(np.ascontiguousarray(little))], null_count=0)


def _one(data: Numbers, start: int, length: int, scale: int) -> str:
    number = Decimal(int.from_bytes(data[start : start + length].tobytes(), "big", signed=True))
    sign, digits, _ = number.as_tuple()
    return str(Decimal((sign, digits, -scale)))
