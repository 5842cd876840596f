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

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import xxhash

from barrage_server.journal.files import Buffer

__all__ = ["HEADER_BYTES", "Record", "RecordType", "encode_record", "find_records", "read_records"]

_MAGIC: Final = b"BJR1"
_HEADER: Final = struct.Struct("<4sIQQQ")
_CHECKSUM: Final = struct.Struct("<Q")
HEADER_BYTES: Final = _HEADER.size + _CHECKSUM.size
"""Bytes of a record without its body."""
ALIGNMENT: Final = 8


class RecordType(IntEnum):
    """The types of records."""

    SEGMENT = 1
    """The first record of a segment: the identity of the data directory."""
    CYCLE = 2
    """The changes that a cycle is about to make."""
    VOID = 3
    """The changes that a cycle has failed to make."""


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


def find_records(data: memoryview, offset: int) -> Iterator[Record]:
    """All complete records from ``offset`` on, with any bytes between them."""
    content = data.obj if isinstance(data.obj, bytes) else bytes(data)
    while (offset := content.find(_MAGIC, offset)) >= 0:
        record = _record_at(data, offset)
        if record is None:
            offset += 1
        else:
            yield record
            offset = record.end


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
