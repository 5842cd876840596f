"""Encoding of row sets and shift data in the *external compressed delta* form.

A row set is a stream of commands that ends with ``END``. Commands have signed values. A running key starts at 0, and
each value adds its magnitude to the key. After a value that is not negative, the key is the first key of a range; after
a negative value, it is the last key of that range. ``OFFSET`` has one value; the two array commands have a count and
that number of values::

    command byte = command | type of its value or count
    commands: OFFSET 0x08, SHORT_ARRAY 0x10, BYTE_ARRAY 0x18, END 0x20
    types, little endian: int16 1, int32 2, int64 3, int8 4

    {} = 20    {3} = 0c 03 20    {0-4} = 1c 02 00 fc 20    {0-299999} = 0c 00 0a 21 6c fb ff 20

Shift data is three consecutive row sets: all first keys, all last keys, and all destinations of the first keys.

The encoder writes the same bytes as Deephaven; golden vectors were captured there. A value of magnitude 32767 or more
is an ``OFFSET``, and ends the arrays before it. Of smaller values, those that fit into a byte form a ``BYTE_ARRAY``
when they are four or more in a row, or when only such values follow; the others form a ``SHORT_ARRAY``. An array of
one value is an ``OFFSET``. Numbers take the narrowest type that holds them.
"""

from __future__ import annotations

import re
import struct
from typing import Final

import numpy as np

from barrage_server.errors import RowSetError, WireFormatError
from barrage_server.rowset import _ranges, _writer
from barrage_server.rowset._ranges import MAX_KEY, NO_KEYS, NO_RANGES, Keys, RangeList
from barrage_server.rowset._writer import BYTE_ARRAY, END, OFFSET, SHORT_ARRAY, TYPES, WIDTHS
from barrage_server.rowset.row_set import RowSet
from barrage_server.rowset.shift_data import RowSetShiftData

__all__ = ["decode_row_set", "decode_shift_data", "encode_keys", "encode_range", "encode_row_set", "encode_shift_data"]

DEFAULT_SHIFT_LIMIT: Final = 1 << 22
"""The default of the most shifts in one message: few bytes can encode very many."""

Buffer = bytes | bytearray | memoryview


# -- writing ----------------------------------------------------------------------------------------------------------


def encode_row_set(rows: RowSet) -> bytes:
    """Encode a row set, with the bytes that Deephaven writes."""
    held = rows._held
    if not held.size:
        return b"\x20"
    if held.last - held.first + 1 == held.size:  # by far the most frequent case, for which arrays would be slow
        return _writer.write_range(held.first, held.last)
    if rows.is_scattered:
        return _write(_writer.values_of_keys(rows.keys()))
    return _write(_writer.values_of(*rows.ranges()))


def encode_range(first: int, last: int) -> bytes:
    """Encode the row set of the keys first..last, both included."""
    return _writer.write_range(first, last)


def encode_keys(keys: Keys) -> bytes:
    """Encode the row set of keys (int64, strictly increasing, not checked)."""
    if keys.size == 1:
        return _writer.write_range(int(keys[0]), int(keys[0]))
    if keys.size > _writer.BY_HAND:
        return _write(_writer.values_of_keys(keys))
    return _writer.write_by_hand(_writer.list_values(keys.tolist()))


def encode_shift_data(shifts: RowSetShiftData) -> bytes:
    """Encode shift data, with the bytes that Deephaven writes."""
    if shifts.is_empty:
        return b"\x20\x20\x20"
    columns = (shifts.starts, shifts.ends, shifts.starts + shifts.deltas)
    return b"".join(_write(_writer.values_of_keys(keys)) for keys in columns)


def _write(values: Keys) -> bytes:
    return _writer.write_by_hand(values.tolist()) if values.size <= _writer.BY_HAND else _writer.write(values)


# -- reading ----------------------------------------------------------------------------------------------------------


def decode_row_set(data: Buffer, *, limit: int | None = None) -> RowSet:
    """Decode the row set in ``data``, which must have no other bytes.

    Any legal stream of commands is read, from any encoder.

    Args:
        data: the bytes.
        limit: the most ranges that are accepted; None leaves the number of bytes as the only bound.

    Raises:
        WireFormatError: the bytes are not a row set, or exceed the limit.

    """
    content = bytes(data)
    if content == b"\x20":
        return RowSet.EMPTY
    if limit is None and (content[:1], len(content)) in _TWO_OFFSETS:  # as most viewports
        then, layout = _TWO_OFFSETS[content[:1], len(content)]
        first, command, close, end = layout.unpack(content)
        if command == then and end == END and first >= 0 > close and first - close <= MAX_KEY:
            return RowSet.from_range(first, first - close)
    values, stop = _read_values(content, 0, limit)
    _check_end(content, stop)
    if values.size <= 2 and limit != 0:  # one range is the most frequent case, for which arrays would be slow
        first, *rest = values.tolist() or [-1]
        last = first - rest[0] if rest and rest[0] < 0 else -1 if rest else first
        if 0 <= first <= last <= MAX_KEY:
            return RowSet.from_range(first, last)
    keys = _keys_of(values, limit)
    closes = np.flatnonzero(values < -1)
    between = -1 - values[closes]  # keys of a range that are neither its first nor its last
    most = values.size // _FEW_BETWEEN
    if closes.size <= most and int(between.max(initial=0)) <= most and int(between.sum()) <= values.size:
        if closes.size:
            more = _ranges.expand(keys[closes - 1] + 1, keys[closes] - 1)
            keys = np.insert(keys, np.repeat(closes, between), more)
        return RowSet.from_sorted_keys(keys)
    return RowSet._of_ranges(*_ranges.join_adjacent(*_ranges_of(values, keys)))


def decode_shift_data(data: Buffer, *, limit: int | None = None) -> RowSetShiftData:
    """Decode the shift data in ``data``, which must have no other bytes.

    Shifts by 0 are left out.

    Args:
        data: the bytes.
        limit: the most shifts that are accepted; None for 4 Mi.

    Raises:
        WireFormatError: the bytes are not shift data, break its rules, or exceed the limit.

    """
    content = bytes(data)
    if content == b"\x20\x20\x20":
        return RowSetShiftData.EMPTY
    limit = DEFAULT_SHIFT_LIMIT if limit is None else limit
    columns: list[Keys] = []
    stop = 0
    for _ in range(3):
        values, stop = _read_values(content, stop, limit)
        columns.append(_listed(_ranges_of(values, _keys_of(values, limit)), limit))
    _check_end(content, stop)
    starts, ends, destinations = columns
    if not starts.size == ends.size == destinations.size:
        raise WireFormatError(
            f"shift data has {starts.size} first keys, {ends.size} last keys and {destinations.size} destinations"
        )
    deltas = destinations - starts
    moves = deltas != 0
    try:
        return RowSetShiftData.from_arrays(starts[moves], ends[moves], deltas[moves])
    except RowSetError as error:
        raise WireFormatError(f"shift data breaks its rules: {error}") from error


def _check_end(content: bytes, stop: int) -> None:
    if stop != len(content):
        raise WireFormatError(f"{len(content) - stop} bytes follow the end of a row set or shift data")


def _listed(ranges: RangeList, limit: int) -> Keys:
    starts, ends = ranges
    # Lengths go up to 2**63, so that their sum may overflow: the longest one is checked first.
    if starts.size and (int((ends - starts).max()) >= limit or int((ends - starts).sum()) + starts.size > limit):
        raise WireFormatError(f"there are more than {limit} shifts in one message")
    return _ranges.expand(starts, ends)


def _keys_of(values: Keys, limit: int | None) -> Keys:
    """Return the keys of signed values: first and last keys of ranges."""
    if not values.size:
        return NO_KEYS
    closes = values < 0
    if closes[0] or (closes[1:] & closes[:-1]).any():
        raise WireFormatError("a row set ends a range that it did not start")
    if np.count_nonzero(values) < values.size - (values[0] == 0):
        raise WireFormatError("the keys of a row set must increase, but one is given twice")
    keys = np.cumsum(np.abs(values))
    if int(keys.min()) < 0 or int(values.min()) == np.iinfo(np.int64).min:
        raise WireFormatError("a row set holds a key beyond 2**63 - 1")
    if limit is not None and values.size - np.count_nonzero(closes) > limit:
        raise WireFormatError(f"a row set of more than {limit} ranges is not accepted here")
    return keys


def _ranges_of(values: Keys, keys: Keys) -> RangeList:
    """Return the ranges of signed values and their keys; neighbours may touch."""
    if not values.size:
        return NO_RANGES
    begins = np.flatnonzero(values >= 0)
    # Each start is followed by its end, if it has one, and by the next start otherwise.
    followed = np.zeros(begins.size, np.int64)
    followed[:-1] = np.diff(begins) - 1
    followed[-1] = values.size - 1 - int(begins[-1])
    return keys[begins], keys[begins + followed]


_INTEGERS: Final = {1: "b", 2: "h", 4: "i", 8: "q"}  # struct's letters, by width in bytes


# A regular expression cuts long stretches of short commands into commands, at the speed of C.
def _array_pattern(command: int, element: int) -> bytes:
    counts = (re.escape(bytes([count])) + b".{%d}" % (count * element) for count in range(128))
    return re.escape(bytes([command | TYPES[1]])) + b"(?:" + b"|".join(counts) + b")"


_SHORT_COMMANDS: Final = b"|".join(
    [rb"\x0c.", rb"\x0a.{4}", rb"\x09..", _array_pattern(BYTE_ARRAY, 1), _array_pattern(SHORT_ARRAY, 2), rb"\x0b.{8}"]
)
_COMMAND: Final = re.compile(rb"(?s)(?=(..))(?:" + _SHORT_COMMANDS + b")")
_STRETCH: Final = re.compile(rb"(?s)(?:" + _SHORT_COMMANDS + b"){0,65535}+")
# Two OFFSETs and END, by the first command and the number of bytes: the second command, and the layout.
_TWO_OFFSETS: Final = {
    (bytes((OFFSET | TYPES[one],)), 3 + one + two): (
        OFFSET | TYPES[two],
        struct.Struct(f"<x{_INTEGERS[one]}B{_INTEGERS[two]}B"),
    )
    for one in TYPES
    for two in TYPES
}
_FEW_BETWEEN: Final = 8  # a set is read by keys if at most one in 8 ranges has more than two keys
_STRETCH_BYTES: Final = 512  # shorter stretches are read by plain Python
# By command: the bytes of each value, and whether the command is an array.
_ELEMENT: Final = np.zeros(256, np.uint8)
_IS_ARRAY: Final = np.zeros(256, np.bool_)
for _code, _width in WIDTHS.items():
    _ELEMENT[[OFFSET | _code, SHORT_ARRAY | _code, BYTE_ARRAY | _code]] = _width, 2, 1
    _IS_ARRAY[[SHORT_ARRAY | _code, BYTE_ARRAY | _code]] = True


def _read_values(content: bytes, place: int, limit: int | None) -> tuple[Keys, int]:
    """Return the signed values of the row set at ``place``, and where it ends."""
    most = len(content) if limit is None else 2 * limit
    chunks: list[Keys] = []
    pending: list[int] = []
    known = place  # no stretch that is worth an array begins before this place
    total = 0
    size = len(content)
    while True:
        if place >= size:
            raise WireFormatError("a row set is cut short: its END is missing")
        if place >= known and size - place >= _STRETCH_BYTES:
            stretch = _STRETCH.match(content, place)
            known = place + 1 if stretch is None else max(stretch.end(), place + 1)
            if known - place >= _STRETCH_BYTES:
                chunks.append(np.array(pending, np.int64))
                pending = []
                chunks.append(_read_stretch(content, place, known))
                total += chunks[-1].size
                place = known
                continue
        command = content[place]
        place += 1
        if command == END:
            break
        width = WIDTHS.get(command & 0x07)
        kind = command & 0xF8
        if width is None or kind not in (OFFSET, SHORT_ARRAY, BYTE_ARRAY):
            raise WireFormatError(f"0x{command:02x} is not a command of a row set")
        if place + width > size:
            raise WireFormatError("a row set is cut short within a command")
        value = int.from_bytes(content[place : place + width], "little", signed=True)
        place += width
        if kind == OFFSET:
            pending.append(value)
            total += 1
        else:
            element = 2 if kind == SHORT_ARRAY else 1
            if value < 0 or value * element > size - place:
                raise WireFormatError(f"an array in a row set counts {value} values, but {size - place} bytes follow")
            listed = np.frombuffer(content, "<i2" if element == 2 else np.int8, value, place)
            place += value * element
            total += value
            if value <= 16:
                pending.extend(listed.tolist())
            else:
                chunks.append(np.array(pending, np.int64))
                pending = []
                chunks.append(listed.astype(np.int64))
        if total > most:
            raise WireFormatError(f"a row set of more than {limit} ranges is not accepted here")
    if not chunks:
        return np.array(pending, np.int64) if pending else NO_KEYS, place
    chunks.append(np.array(pending, np.int64))
    return np.concatenate(chunks), place


def _read_stretch(content: bytes, begin: int, stop: int) -> Keys:
    """Return the signed values of a stretch of short commands."""
    heads = np.frombuffer(b"".join(_COMMAND.findall(content, begin, stop)), np.uint8)
    command, second = heads[0::2], heads[1::2]
    elements = _ELEMENT[command]
    is_array = _IS_ARRAY[command]
    counts = np.where(is_array, second, np.uint8(1))
    # Distance in bytes between the ends of successive values: a value, and any command before it.
    widths = np.repeat(elements, counts)
    ends = widths.astype(np.int64)
    firsts = np.cumsum(counts, dtype=np.int64)
    firsts -= counts
    if not counts.all():  # the heads of empty arrays come before the first value that follows, if any
        heads_before = np.zeros(ends.size + 1, np.int64)
        np.add.at(heads_before, firsts, 1 + is_array.view(np.int8))
        ends += heads_before[:-1]
    else:
        ends[firsts] += 1 + is_array.view(np.int8)
    np.cumsum(ends, out=ends)
    ends += begin
    raw = np.frombuffer(content, np.uint8)
    # All values are read with two bytes; for values of one byte the lower one is ignored.
    high = raw.view(np.int8).take(ends - 1).astype(np.int16)
    pairs = (high << 8) | raw.take(ends - 2)
    values = np.where(widths == 1, high, pairs).astype(np.int64)
    for width in (4, 8):
        chosen = np.flatnonzero(widths == width)
        if chosen.size:
            parts = np.empty((chosen.size, width), np.uint8)
            for index in range(width):
                parts[:, index] = raw.take(ends[chosen] - width + index)
            values[chosen] = parts.view(f"<i{width}").ravel()
    return values
