"""Encoding of row sets; :mod:`barrage_server.rowset.codec` describes the format.

Keys become signed values, and these become commands. A few values are written by plain Python, many by arrays, with the
same bytes.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from barrage_server.rowset._ranges import Keys, Mask

OFFSET: Final = 0x08
SHORT_ARRAY: Final = 0x10
BYTE_ARRAY: Final = 0x18
END: Final = 0x20
WIDTHS: Final = {4: 1, 1: 2, 2: 4, 3: 8}  # bytes of a value, by the low three bits of the command
TYPES: Final = {width: code for code, width in WIDTHS.items()}

BY_HAND: Final = 48
"""The most values for which plain Python is faster than arrays."""

_OFFSETS: Final = {width: bytes((OFFSET | code,)) for width, code in TYPES.items()}
_END_BYTE: Final = bytes((END,))
_LARGE: Final = 32767  # least magnitude of a value that is a separate OFFSET
_BYTES_APART: Final = 4  # least successive bytes that interrupt an array of shorts
_LONG_GROUP: Final = 256  # least mean of values per group for which groups are written one by one
_BLOCK: Final = 1 << 15  # values laid out at a time, so that temporary arrays stay in the processor's caches

_TYPE_OF_WIDTH: Final = np.array([0, 4, 1, 0, 2, 0, 0, 0, 3], np.uint8)
# The commands of groups: of shorts, of bytes, of one short, of one byte; in the second table also of one large value.
# The type is that of the count, or of the only value. Counts take a byte in the first table; in the second the type is
# added later.
_COMMANDS: Final = np.array([SHORT_ARRAY | 4, BYTE_ARRAY | 4, OFFSET | 1, OFFSET | 4], np.uint8)
_COMMAND_KINDS: Final = np.array([SHORT_ARRAY, BYTE_ARRAY, OFFSET | 1, OFFSET | 4] + 4 * [OFFSET], np.uint8)

Buffer: TypeAlias = bytes | memoryview


# -- from keys to values ----------------------------------------------------------------------------------------------


def values_of(starts: Keys, ends: Keys) -> Keys:
    """Return the signed values of ranges.

    They are the step to each first key, and, negated, the step to a different last key.
    """
    closed = ends > starts
    at = np.arange(starts.size) + np.cumsum(closed) - closed
    values = np.empty(int(at[-1]) + 1 + int(closed[-1]), np.int64)
    steps = starts.copy()
    steps[1:] -= ends[:-1]
    values[at] = steps
    values[at[closed] + 1] = starts[closed] - ends[closed]
    return values


def values_of_keys(keys: Keys) -> Keys:
    """Return the signed values of strictly increasing keys, most of them single."""
    values = np.empty(keys.size, np.int64)
    values[0] = keys[0]
    np.subtract(keys[1:], keys[:-1], out=values[1:])
    next_to = values == 1  # the key before
    next_to[0] = False
    at = np.flatnonzero(next_to)
    if not at.size:
        return values
    # The first of consecutive steps of 1 represents all of them.
    first = np.empty(at.size, np.bool_)
    first[0] = True
    np.not_equal(at[1:] - at[:-1], 1, out=first[1:])
    begins = np.flatnonzero(first)
    values[at[begins]] = begins - np.append(begins[1:], at.size)
    if begins.size == at.size:
        return values
    next_to[at[begins]] = False
    np.logical_not(next_to, out=next_to)
    return values.take(np.flatnonzero(next_to))


def list_values(keys: list[int]) -> list[int]:
    """Return the signed values of few strictly increasing keys."""
    values: list[int] = []
    last = first = 0  # of the range that is open
    for key in keys:
        if key != last + 1 or not values:
            if last > first:
                values.append(first - last)
            values.append(key - last)
            first = key
        last = key
    if last > first:
        values.append(first - last)
    return values


# -- a few values -----------------------------------------------------------------------------------------------------


def write_range(first: int, last: int) -> bytes:
    """Encode one range."""
    if first == last:
        return _offset(first) + _END_BYTE
    close = first - last
    if first < _LARGE and close > -_LARGE:
        width = _width(close)
        if width == 2 or first < 0x80:  # otherwise a short, then bytes up to the end
            head = bytes(((SHORT_ARRAY if width == 2 else BYTE_ARRAY) | TYPES[1], 2))
            return head + first.to_bytes(width, "little") + close.to_bytes(width, "little", signed=True) + _END_BYTE
    return _offset(first) + _offset(close) + _END_BYTE


def write_by_hand(values: list[int]) -> bytes:
    """Encode a few values."""
    out = bytearray()
    small: list[int] = []
    for value in values:
        if -_LARGE < value < _LARGE:
            small.append(value)
        else:
            _flush(out, small)
            small.clear()
            _put(out, OFFSET, value)
    _flush(out, small)
    out.append(END)
    return bytes(out)


def _offset(value: int) -> bytes:
    width = _width(value)
    return _OFFSETS[width] + value.to_bytes(width, "little", signed=True)


def _width(value: int) -> int:
    return 1 if -0x80 <= value < 0x80 else 2 if -0x8000 <= value < 0x8000 else 4 if -(1 << 31) <= value < 1 << 31 else 8


def _put(out: bytearray, command: int, value: int) -> None:
    width = _width(value)
    out.append(command | TYPES[width])
    out += value.to_bytes(width, "little", signed=True)


def _flush(out: bytearray, small: list[int]) -> None:
    """Write small values: long or last runs of bytes as such, others as shorts."""
    begin = 0  # of the shorts that are not written yet
    index = 0
    while index < len(small):
        stop = index
        while stop < len(small) and _width(small[stop]) == 1:
            stop += 1
        if stop == len(small) or stop - index >= _BYTES_APART:
            _put_array(out, SHORT_ARRAY, small[begin:index], 2)
            _put_array(out, BYTE_ARRAY, small[index:stop], 1)
            begin = stop
        index = stop + 1  # the value at stop is a short, and so far the first or the next of its array
    _put_array(out, SHORT_ARRAY, small[begin:], 2)


def _put_array(out: bytearray, command: int, values: list[int], width: int) -> None:
    if len(values) == 1:
        _put(out, OFFSET, values[0])
    elif values:
        _put(out, command, len(values))
        for value in values:
            out += value.to_bytes(width, "little", signed=True)


# -- many values ------------------------------------------------------------------------------------------------------


def write(values: Keys) -> bytes:
    """Encode many values, with the bytes of :func:`write_by_hand`."""
    small = values.astype(np.int16)  # wrong for large values, and not used for them
    is_byte = (small + np.int16(0x80)).view(np.uint16) < 0x100
    large = None
    if int(values.max()) >= _LARGE or int(values.min()) <= -_LARGE:
        large = (values >= _LARGE) | (values <= -_LARGE)
        is_byte &= ~large
    as_byte = _worth_a_byte(is_byte, large)
    # A group is the values of one command.
    begins = np.empty(values.size, np.bool_)
    begins[0] = True
    np.not_equal(as_byte[1:], as_byte[:-1], out=begins[1:])
    if large is not None:
        begins |= large
        begins[1:] |= large[:-1]
    firsts = np.flatnonzero(begins)
    counts = np.empty(firsts.size, np.int64)
    np.subtract(firsts[1:], firsts[:-1], out=counts[:-1])
    counts[-1] = values.size - firsts[-1]
    if firsts.size * _LONG_GROUP <= values.size:
        return _join_groups(values, small, as_byte, firsts.tolist(), counts.tolist())
    bounds = range(0, values.size, _BLOCK)
    edges = [*firsts.searchsorted(bounds).tolist(), firsts.size]
    parts: list[Buffer] = []
    for start, low, high in zip(bounds, edges[:-1], edges[1:], strict=True):
        block = slice(start, start + _BLOCK)
        there, numbers = firsts[low:high], counts[low:high]
        alone = None if large is None else large[block]
        if alone is not None and not alone.any():
            alone = None
        if alone is not None:
            numbers = np.where(alone[there - start], values[there], numbers)
        single = counts[low:high] == 1
        parts.append(_lay_out(small[block], as_byte[block], alone, begins[block], there - start, single, numbers))
    parts.append(_END_BYTE)
    return b"".join(parts)


def _worth_a_byte(is_byte: Mask, large: Mask | None) -> Mask:
    """Return which values are written as bytes: those of long runs, or of last runs."""
    size = is_byte.size
    # Values in a run of four. At the end of the values, a run of any length counts.
    runs = np.empty(size + 6, np.bool_)
    runs[:3] = False
    runs[3:-3] = is_byte
    runs[-3:] = True
    runs = runs[1:] & runs[:-1]
    runs = runs[2:] & runs[:-2]  # the four from here on
    runs = runs[1:] | runs[:-1]
    worth: Mask = runs[2:] | runs[:-2]
    if large is not None:
        before = np.flatnonzero(large) - 1
        for _ in range(_BYTES_APART - 1):
            before = before[before >= 0]
            before = before[is_byte[before]]
            worth[before] = True
            before -= 1
    return worth


def _join_groups(
    values: Keys, small: npt.NDArray[np.int16], as_byte: Mask, firsts: list[int], counts: list[int]
) -> bytes:
    """Encode long groups one by one."""
    parts = []
    for first, count in zip(firsts, counts, strict=True):
        if count == 1:
            parts.append(_offset(int(values[first])))
            continue
        width = _width(count)
        parts.append(bytes(((BYTE_ARRAY if as_byte[first] else SHORT_ARRAY) | TYPES[width],)))
        parts.append(count.to_bytes(width, "little"))
        parts.append(small[first : first + count].astype(np.int8 if as_byte[first] else "<i2").tobytes())
    parts.append(_END_BYTE)
    return b"".join(parts)


def _lay_out(
    small: npt.NDArray[np.int16],
    as_byte: Mask,
    large: Mask | None,
    begins: Mask,
    firsts: Keys,
    single: Mask,
    numbers: Keys,
) -> memoryview:
    """Encode a block of values.

    Each value gets a record of the greatest size: a command, its count or large value, and a value of two bytes. Then
    unused bytes are left out.

    Args:
        small: the values.
        as_byte: which values take one byte.
        large: which values are in ``numbers`` and not in ``small``; ``None`` for none.
        begins: which values begin a group.
        firsts: the indices of these values.
        single: which groups have one value.
        numbers: the number of values of each group, or its large value.
    """
    chosen = as_byte[firsts].view(np.uint8) | (single.view(np.uint8) << 1)
    widths = None  # bytes of the numbers; None when all take one
    most = 1
    if large is not None or (firsts.size and int(numbers.max()) >= 0x80):
        widths = _widths(numbers)
        if large is None:
            widths[single] = 0
        else:
            alone = large[firsts]
            chosen |= alone.view(np.uint8) << 2
            widths *= ~single | alone
        most = max(1, int(widths.max()))
    records = np.empty((small.size, 3 + most), np.uint8)
    used = np.empty((small.size, 3 + most), np.bool_)

    used[:, 0] = begins
    if widths is None:
        records[firsts, 0] = _COMMANDS[chosen]
        records[firsts, 1] = numbers
        used[:, 1] = False
        used[firsts, 1] = ~single
    else:
        records[firsts, 0] = _COMMAND_KINDS[chosen] | _TYPE_OF_WIDTH[widths]
        for index in range(most):
            records[firsts, 1 + index] = numbers >> (8 * index)
            used[:, 1 + index] = False
            used[firsts, 1 + index] = widths > index
    low, high = 1 + most, 2 + most
    records[:, low] = small
    records[:, high] = small >> 8
    np.logical_not(as_byte, out=used[:, high])
    used[:, low] = True
    if large is not None:
        np.logical_not(large, out=used[:, low])
        used[:, high] &= used[:, low]
    return records.ravel().take(np.flatnonzero(used)).data


def _widths(values: Keys) -> Keys:
    """Return the bytes that each value needs."""
    magnitude = np.where(values < 0, ~values, values)
    wide = (magnitude >= 0x80).astype(np.int64)
    wide += magnitude >= 0x8000
    wide += magnitude >= 1 << 31
    return np.left_shift(1, wide)
