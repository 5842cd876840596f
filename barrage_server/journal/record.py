"""Records of a journal: a header of 40 bytes, and a body, under one checksum.

======  =====  =========================================================================
offset  bytes  content, little-endian
======  =====  =========================================================================
0       4      ``BJR1``
4       4      type: :class:`RecordType`
8       8      length of the body, in bytes; the next record begins at the next multiple of 8
16      8      number of the record: one more than the previous record has
24      8      bytes of this segment that had been synced when the record was written
32      8      XXH3-64 of the header up to here and of the body
======  =====  =========================================================================
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import xxhash

from barrage_server.journal.files import Buffer

__all__ = [
    "HEADER_BYTES",
    "Record",
    "RecordType",
    "UnclearEndError",
    "encode_record",
    "find_records",
    "read_records",
]

_MAGIC: Final = b"BJR1"
_HEADER: Final = struct.Struct("<4sIQQQ")
_CHECKSUM: Final = struct.Struct("<Q")
HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size
"""Bytes of a record without its body."""
ALIGNMENT: Final = 8
_LATER_HEAD: Final = re.compile(rb"BJR1[\x02\x03]\0\0\0")
"""The beginning of a record that is not the first of its segment."""
_HASHED_TIMES: Final = 4
"""Bytes that a search hashes without finding a record there, for each byte that it searches."""


class RecordType(IntEnum):
    """The types of records."""

    SEGMENT = 1
    """The first record of a segment: the identity of the data directory."""
    CYCLE = 2
    """The changes that a cycle is about to make."""
    VOID = 3
    """The changes that a cycle has failed to make."""


_TYPES: Final = frozenset(RecordType)


@dataclass(frozen=True, slots=True)
class Record:
    """One record.

    Attributes:
        type: its type.
        number: its number.
        body: its body.
        synced: bytes of the segment that were synced when it was written.
        offset: its first byte in the segment.
        end: the first byte of the next record.
    """

    type: int
    number: int
    body: memoryview
    synced: int
    offset: int
    end: int


def encode_record(kind: RecordType, number: int, body: Sequence[Buffer], synced: int) -> tuple[list[Buffer], int]:
    """The parts of a record, to be written one after the other, and their bytes."""
    length = sum(memoryview(part).nbytes for part in body)
    header = _HEADER.pack(_MAGIC, kind, length, number, synced)
    checksum = xxhash.xxh3_64(header)
    for part in body:
        checksum.update(part)
    padding = -length % ALIGNMENT
    parts: list[Buffer] = [header + _CHECKSUM.pack(checksum.intdigest()), *body]
    if padding:
        parts.append(bytes(padding))
    return parts, HEADER_BYTES + length + padding


def read_records(data: memoryview, offset: int = 0) -> Iterator[Record]:
    """The records from ``offset`` on, up to the first incomplete or damaged one.

    The ``end`` of the last one is the offset of that place.
    """
    while (record := _record_at(data, offset)) is not None:
        yield record
        offset = record.end


class UnclearEndError(Exception):
    """There are too many places at which a record may begin."""


def find_records(
    data: memoryview,
    offset: int,
    number: int = 0,
    length_in: Callable[[int, memoryview], int | None] = lambda _kind, _body: None,
) -> Iterator[Record]:
    """All complete records from ``offset`` on, at which a record is missing.

    Bodies have any bytes, also those of records. So the bytes that belong to a torn or damaged record according to its
    header are not searched. The header counts if its number is right and the body does not disagree with the length.
    Other bytes are searched for records with possible numbers. At most ``4 * (len(data) - offset)`` bytes are hashed or
    read in vain.

    Args:
        data: the segment.
        offset: the end of the records before, a multiple of 8.
        number: the number of the missing record.
        length_in: takes a type, and the bytes from the beginning of a body on. Returns the length that the body tells
            of itself; ``None`` if it cannot be read, and -1 if the length in the header is not to be trusted.

    Raises:
        UnclearEndError: too many bytes were hashed in vain.
    """
    budget = _HASHED_TIMES * (len(data) - offset)
    place, is_begin = offset, True  # whether a record begins at ``place``
    while True:
        header = _header_at(data, place, offset, number)
        if header is not None:
            kind, length, found = header
            start = place + HEADER_BYTES
            end = start + length + -length % ALIGNMENT
            if end <= len(data):
                record = _record_at(data, place)
                if record is not None:
                    yield record
                    place = offset = record.end
                    number, is_begin = record.number + 1, True
                    continue
            if is_begin or end <= len(data):
                budget -= min(length, len(data) - start)
            if budget < 0:
                raise UnclearEndError
            if is_begin and found == number and length_in(kind, data[start:]) in (None, length):
                if end >= len(data):
                    return
                place = offset = end
                number += 1
                continue
        match = _LATER_HEAD.search(data, place + ALIGNMENT)
        while match is not None and match.start() % ALIGNMENT:
            match = _LATER_HEAD.search(data, match.end())
        if match is None:
            return
        place, is_begin = match.start(), False


def _header_at(data: memoryview, place: int, offset: int, number: int) -> tuple[int, int, int] | None:
    """Type, length and number in the header of a record that may begin at ``place``.

    Args:
        data: the segment.
        place: the place.
        offset: the end of the records before.
        number: the number of the record that began there.
    """
    if len(data) - place < HEADER_BYTES:
        return None
    magic, kind, length, found, synced = _HEADER.unpack_from(data, place)
    is_possible = (
        magic == _MAGIC
        and kind in _TYPES
        and number <= found <= number + (place - offset) // HEADER_BYTES
        and synced <= place
        and not synced % ALIGNMENT
    )
    return (kind, length, found) if is_possible else None


def _record_at(data: memoryview, offset: int) -> Record | None:
    if len(data) - offset < HEADER_BYTES:
        return None
    magic, kind, length, number, synced = _HEADER.unpack_from(data, offset)
    start = offset + HEADER_BYTES
    end = start + length + -length % ALIGNMENT
    if magic != _MAGIC or end > len(data):
        return None
    checksum = xxhash.xxh3_64(data[offset : offset + _HEADER.size])
    body = data[start : start + length]
    checksum.update(body)
    if checksum.intdigest() != _CHECKSUM.unpack_from(data, offset + _HEADER.size)[0]:
        return None
    return Record(kind, number, body, synced, offset, end)
