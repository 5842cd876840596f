"""Row sets and shift data as bytes: the *external compressed delta* form of the Barrage protocol.

A row set is a stream of commands that ends with ``END``. Each command carries signed values; a running key, which
starts at 0, is moved by the magnitude of each. A value that is not negative gives a key, which may start a range; a
negative one gives the last key of the range that the value before it started. ``OFFSET`` carries one value, the two
array commands a count and that many values::

    command byte = command | type of its value or count
    commands: OFFSET 0x08, SHORT_ARRAY 0x10, BYTE_ARRAY 0x18, END 0x20
    types, little endian: int16 1, int32 2, int64 3, int8 4

    {} = 20    {3} = 0c 03 20    {0-4} = 1c 02 00 fc 20    {0-299999} = 0c 00 0a 21 6c fb ff 20

Shift data is three row sets in a row: all first keys, all last keys, and all destinations of the first keys.

Deephaven's choices are kept to the byte; golden vectors check those that were captured. A value of magnitude 32767 or
more is an ``OFFSET`` and ends what was collected before it; of the smaller ones, those that fit into a byte form a
``BYTE_ARRAY`` when there are four or more of them, or when nothing but them follows; the rest form a ``SHORT_ARRAY``;
and an array of one value is an ``OFFSET``. Numbers take the narrowest type that holds them.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from barrage_server.errors import RowSetError, WireFormatError
from barrage_server.rowset import _ranges
from barrage_server.rowset._ranges import MAX_KEY, NO_KEYS, NO_RANGES, Keys, RangeList
from barrage_server.rowset.row_set import RowSet
from barrage_server.rowset.shift_data import RowSetShiftData

__all__ = ["decode_row_set", "decode_shift_data", "encode_keys", "encode_row_set", "encode_shift_data"]

_OFFSET: Final = 0x08
_SHORT_ARRAY: Final = 0x10
_BYTE_ARRAY: Final = 0x18
_END: Final = 0x20
_WIDTHS: Final = {4: 1, 1: 2, 2: 4, 3: 8}  # bytes of a value, by the low three bits of the command
_TYPES: Final = {width: code for code, width in _WIDTHS.items()}
_TYPE_OF_WIDTH: Final = np.array([0, 4, 1, 0, 2, 0, 0, 0, 3], np.uint8)

_OFFSETS: Final = {width: bytes((_OFFSET | code,)) for width, code in _TYPES.items()}
_END_BYTE: Final = bytes((_END,))
_LARGE: Final = 32767  # the magnitude from which a value is an OFFSET of its own
_BYTES_APART: Final = 4  # so many bytes in a row are worth interrupting an array of shorts
_BY_HAND: Final = 48  # up to this many values, plain Python is faster than arrays
DEFAULT_SHIFT_LIMIT: Final = 1 << 22
"""How many shifts one message may bring unless the caller says otherwise: few bytes can stand for very many."""

Buffer = bytes | bytearray | memoryview


# -- writing ----------------------------------------------------------------------------------------------------------


def encode_row_set(rows: RowSet) -> bytes:
    """Give the bytes of a row set, the same that Deephaven writes for it."""
    if rows.is_empty:
        return b"\x20"
    if rows.is_contiguous:  # the most frequent by far, and arrays would be slow for it
        return _encode_range(rows.first_key, rows.last_key)
    return _encode_ranges(rows.ranges())


def encode_keys(keys: Keys) -> bytes:
    """Give the bytes of the row set of some keys: int64, strictly increasing, which is not checked."""
    if keys.size > _BY_HAND:
        return _encode_ranges(_ranges.compress(keys))
    if keys.size == 1:
        return _offset(int(keys[0])) + _END_BYTE
    values: list[int] = []
    last = first = 0  # of the range that is open
    for key in keys.tolist():
        if key != last + 1 or not values:
            if last > first:
                values.append(first - last)
            values.append(key - last)
            first = key
        last = key
    if last > first:
        values.append(first - last)
    return _write_by_hand(values)


def encode_shift_data(shifts: RowSetShiftData) -> bytes:
    """Give the bytes of shift data, the same that Deephaven writes for it."""
    if shifts.is_empty:
        return b"\x20\x20\x20"
    columns = (shifts.starts, shifts.ends, shifts.starts + shifts.deltas)
    return b"".join(_encode_ranges(_ranges.compress(keys)) for keys in columns)


def _encode_range(first: int, last: int) -> bytes:
    if first == last:
        return _offset(first) + _END_BYTE
    close = first - last
    if first < _LARGE and close > -_LARGE:
        width = _width(close)
        if width == 2 or first < 0x80:  # otherwise a short, and bytes up to the end
            head = bytes(((_SHORT_ARRAY if width == 2 else _BYTE_ARRAY) | _TYPES[1], 2))
            return head + first.to_bytes(width, "little") + close.to_bytes(width, "little", signed=True) + _END_BYTE
    return _offset(first) + _offset(close) + _END_BYTE


def _offset(value: int) -> bytes:
    width = _width(value)
    return _OFFSETS[width] + value.to_bytes(width, "little", signed=True)


def _encode_ranges(ranges: RangeList) -> bytes:
    if ranges[0].size == 1:
        return _encode_range(int(ranges[0][0]), int(ranges[1][0]))
    values = _values_of(*ranges)
    return _write_by_hand(values.tolist()) if values.size <= _BY_HAND else _write(values)


def _values_of(starts: Keys, ends: Keys) -> Keys:
    """Give the signed steps of ranges: to each first key, and negated from there to a last key that differs."""
    closed = ends > starts
    at = np.arange(starts.size) + np.cumsum(closed) - closed
    values = np.empty(int(at[-1]) + 1 + int(closed[-1]), np.int64)
    steps = starts.copy()
    steps[1:] -= ends[:-1]
    values[at] = steps
    values[at[closed] + 1] = starts[closed] - ends[closed]
    return values


def _width(value: int) -> int:
    return 1 if -0x80 <= value < 0x80 else 2 if -0x8000 <= value < 0x8000 else 4 if -(1 << 31) <= value < 1 << 31 else 8


def _write_by_hand(values: list[int]) -> bytes:
    out = bytearray()
    small: list[int] = []
    for value in values:
        if -_LARGE < value < _LARGE:
            small.append(value)
        else:
            _flush(out, small)
            small.clear()
            _put(out, _OFFSET, value)
    _flush(out, small)
    out.append(_END)
    return bytes(out)


def _put(out: bytearray, command: int, value: int) -> None:
    width = _width(value)
    out.append(command | _TYPES[width])
    out += value.to_bytes(width, "little", signed=True)


def _flush(out: bytearray, small: list[int]) -> None:
    """Write what was collected: arrays of bytes where they are long or last, arrays of shorts for the rest."""
    begin = 0  # of the shorts that are not written yet
    index = 0
    while index < len(small):
        stop = index
        while stop < len(small) and _width(small[stop]) == 1:
            stop += 1
        if stop == len(small) or stop - index >= _BYTES_APART:
            _put_array(out, _SHORT_ARRAY, small[begin:index], 2)
            _put_array(out, _BYTE_ARRAY, small[index:stop], 1)
            begin = stop
        index = stop + 1  # the value at stop is a short, and so far the first or the next of its array
    _put_array(out, _SHORT_ARRAY, small[begin:], 2)


def _put_array(out: bytearray, command: int, values: list[int], width: int) -> None:
    if len(values) == 1:
        _put(out, _OFFSET, values[0])
    elif values:
        _put(out, command, len(values))
        for value in values:
            out += value.to_bytes(width, "little", signed=True)


def _write(values: Keys) -> bytes:
    """Do what ``_write_by_hand`` does, for many values at once."""
    large = (values >= _LARGE) | (values <= -_LARGE)
    is_byte = (values >= -0x80) & (values < 0x80)
    # Runs of bytes; those that are short, and followed by a short, join it.
    edges = np.flatnonzero(np.diff(is_byte)) + 1
    begins = np.concatenate(([0], edges))
    stops = np.concatenate((edges, [values.size]))
    joins = is_byte[begins] & (stops - begins < _BYTES_APART) & (stops < values.size)
    joins[joins] = ~large[stops[joins]]
    is_byte &= ~np.repeat(joins, stops - begins)
    # Groups: what one command carries.
    new = large.copy()
    new[0] = True
    new[1:] |= large[:-1] | (is_byte[1:] != is_byte[:-1])
    begins = np.flatnonzero(new)
    counts = np.diff(begins, append=values.size)
    single = counts == 1
    element = np.where(is_byte[begins], 1, 2)
    head = _widths(np.where(single, values[begins], counts))
    sizes = 1 + head + np.where(single, 0, counts * element)
    places = np.cumsum(sizes) - sizes
    out = np.empty(int(sizes.sum()) + 1, np.uint8)
    out[-1] = _END
    command = np.where(single, _OFFSET, np.where(is_byte[begins], _BYTE_ARRAY, _SHORT_ARRAY)).astype(np.uint8)
    out[places] = command | _TYPE_OF_WIDTH[head]
    numbers = np.where(single, values[begins], counts)
    for width in (1, 2, 4, 8):
        chosen = head == width
        _scatter(out, places[chosen] + 1, numbers[chosen], width)
    for width in (1, 2):
        chosen = ~single & (element == width)
        lengths = counts[chosen]
        if lengths.size:
            within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            carried = values[np.repeat(begins[chosen], lengths) + within]
            target = np.repeat(places[chosen] + 1 + head[chosen], lengths) + within * width
            _scatter(out, target, carried, width)
    return out.tobytes()


def _widths(values: Keys) -> Keys:
    """Give the number of bytes that each value needs."""
    magnitude = np.where(values < 0, ~values, values)
    wide = (magnitude >= 0x80).astype(np.int64)
    wide += magnitude >= 0x8000
    wide += magnitude >= 1 << 31
    return np.left_shift(1, wide)


def _scatter(out: np.ndarray[tuple[int], np.dtype[np.uint8]], places: Keys, values: Keys, width: int) -> None:
    """Write each value, little endian, at its place."""
    if values.size:
        parts = values.astype(f"<i{width}").view(np.uint8).reshape(-1, width)
        for index in range(width):
            out[places + index] = parts[:, index]


# -- reading ----------------------------------------------------------------------------------------------------------


def decode_row_set(data: Buffer, *, limit: int | None = None) -> RowSet:
    """Give the row set that ``data`` holds, and nothing but it.

    Any legal stream of commands is read, whoever wrote it. ``limit`` is the largest number of ranges that is
    accepted; without it the number of bytes is the only bound. WireFormatError when the bytes are not a row set, or
    above the limit.
    """
    content = bytes(data)
    if content == b"\x20":
        return RowSet.EMPTY
    values, stop = _read_values(content, 0, limit)
    _check_end(content, stop)
    if values.size <= 2 and limit != 0:  # most row sets are one range, and arrays would be slow for it
        first, *rest = values.tolist() or [-1]
        last = first - rest[0] if rest and rest[0] < 0 else -1 if rest else first
        if 0 <= first <= last <= MAX_KEY:
            return RowSet.from_range(first, last)
    starts, ends = _ranges_of(values, limit)
    return RowSet._of_ranges(*_ranges.join_adjacent(starts, ends))


def decode_shift_data(data: Buffer, *, limit: int | None = None) -> RowSetShiftData:
    """Give the shift data that ``data`` holds, and nothing but it; shifts by 0 are left out.

    ``limit`` is the largest number of shifts that is accepted (4 Mi unless given). WireFormatError when the bytes are
    not shift data, break its rules, or are above the limit.
    """
    content = bytes(data)
    if content == b"\x20\x20\x20":
        return RowSetShiftData.EMPTY
    limit = DEFAULT_SHIFT_LIMIT if limit is None else limit
    columns: list[Keys] = []
    stop = 0
    for _ in range(3):
        values, stop = _read_values(content, stop, limit)
        columns.append(_listed(_ranges_of(values, limit), limit))
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
    # The lengths may be anything up to 2**63, so that their sum may not fit: look at the longest one first.
    if starts.size and (int((ends - starts).max()) >= limit or int((ends - starts).sum()) + starts.size > limit):
        raise WireFormatError(f"there are more than {limit} shifts in one message")
    return _ranges.expand(starts, ends)


def _ranges_of(values: Keys, limit: int | None) -> RangeList:
    """Give the ranges that the signed values of a row set stand for; neighbours may touch."""
    if not values.size:
        return NO_RANGES
    closes = values < 0
    if closes[0] or (closes[1:] & closes[:-1]).any():
        raise WireFormatError("a row set ends a range that it did not start")
    if (values[1:] == 0).any():
        raise WireFormatError("the keys of a row set must increase, but one is given twice")
    keys = np.cumsum(np.abs(values))
    if (keys < 0).any() or (values == np.iinfo(np.int64).min).any():
        raise WireFormatError("a row set holds a key beyond 2**63 - 1")
    begins = np.flatnonzero(~closes)
    if limit is not None and begins.size > limit:
        raise WireFormatError(f"a row set of more than {limit} ranges is not accepted here")
    # Each start is followed by its end, if it has one, and by the next start otherwise.
    followed = np.zeros(begins.size, np.int64)
    followed[:-1] = np.diff(begins) - 1
    followed[-1] = values.size - 1 - int(begins[-1])
    return keys[begins], keys[begins + followed]


# Long stretches of short commands are cut into commands by a regular expression, the only thing here that does so at
# the speed of C.
def _array_pattern(command: int, element: int) -> bytes:
    counts = (re.escape(bytes([count])) + b".{%d}" % (count * element) for count in range(128))
    return re.escape(bytes([command | _TYPES[1]])) + b"(?:" + b"|".join(counts) + b")"


_SHORT_COMMANDS: Final = b"|".join(
    [rb"\x0c.", rb"\x0a.{4}", rb"\x09..", _array_pattern(_BYTE_ARRAY, 1), _array_pattern(_SHORT_ARRAY, 2), rb"\x0b.{8}"]
)
_COMMAND: Final = re.compile(rb"(?s)(?=(..))(?:" + _SHORT_COMMANDS + b")")
_STRETCH: Final = re.compile(rb"(?s)(?:" + _SHORT_COMMANDS + b"){0,65535}+")
_STRETCH_BYTES: Final = 512  # fewer are read by hand


def _read_values(content: bytes, place: int, limit: int | None) -> tuple[Keys, int]:
    """Give the signed values of the row set that starts at ``place``, and the place after its END."""
    most = len(content) if limit is None else 2 * limit
    chunks: list[Keys] = []
    pending: list[int] = []
    known = place  # up to here, there are too few short commands in a row to be worth an array
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
        if command == _END:
            break
        width = _WIDTHS.get(command & 0x07)
        kind = command & 0xF8
        if width is None or kind not in (_OFFSET, _SHORT_ARRAY, _BYTE_ARRAY):
            raise WireFormatError(f"0x{command:02x} is not a command of a row set")
        if place + width > size:
            raise WireFormatError("a row set is cut short within a command")
        value = int.from_bytes(content[place : place + width], "little", signed=True)
        place += width
        if kind == _OFFSET:
            pending.append(value)
            total += 1
        else:
            element = 2 if kind == _SHORT_ARRAY else 1
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
    """Give the values of a stretch of short commands."""
    heads = np.frombuffer(b"".join(_COMMAND.findall(content, begin, stop)), np.uint8).reshape(-1, 2)
    command, second = heads[:, 0], heads[:, 1].astype(np.int64)
    kind = command & 0xF8
    is_array = kind != _OFFSET
    type_width = np.array([0, 2, 4, 8, 1, 0, 0, 0], np.int64)[command & 0x07]
    element = np.where(is_array, np.where(kind == _SHORT_ARRAY, 2, 1), type_width)
    counts = np.where(is_array, second, 1)
    head = np.where(is_array, 2, 1)
    sizes = head + counts * element
    places = np.cumsum(sizes) - sizes + begin + head
    before = np.cumsum(counts) - counts
    values = np.empty(int(counts.sum()), np.int64)
    raw = np.frombuffer(content, np.uint8)
    for width in (1, 2, 4, 8):
        chosen = element == width
        lengths = counts[chosen]
        if lengths.size:
            within = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            source = np.repeat(places[chosen], lengths) + within * width
            parts = np.empty((source.size, width), np.uint8)
            for index in range(width):
                parts[:, index] = raw[source + index]
            values[np.repeat(before[chosen], lengths) + within] = parts.view(f"<i{width}").ravel()
    return values
