"""Protobuf messages as lists of fields, without their schema."""

from __future__ import annotations

from dataclasses import dataclass

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Field:
    """One field: a varint as its number, everything else as bytes."""

    number: int
    kind: int
    value: int | bytes


def varint(value: int) -> bytes:
    encoded = bytearray()
    value &= (1 << 64) - 1
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def field(number: int, data: bytes) -> bytes:
    return varint(number << 3 | BYTES) + varint(len(data)) + data


def encode(fields: list[Field]) -> bytes:
    parts = []
    for entry in fields:
        parts.append(varint(entry.number << 3 | entry.kind))
        if isinstance(entry.value, int):
            parts.append(varint(entry.value))
        else:
            parts.append(varint(len(entry.value)) + entry.value if entry.kind == BYTES else entry.value)
    return b"".join(parts)


def decode(data: bytes) -> list[Field] | None:
    """The fields; None for bytes that are no message."""
    fields, at = [], 0
    while at < len(data):
        tag, at = _read(data, at)
        number, kind = tag >> 3, tag & 7
        size = {FIXED64: 8, FIXED32: 4}.get(kind)
        if kind == VARINT:
            number_value, at = _read(data, at)
            if at < 0 or number == 0:
                return None
            fields.append(Field(number, kind, number_value))
            continue
        if kind == BYTES:
            size, at = _read(data, at)
        if size is None or at < 0 or number == 0 or at + size > len(data):
            return None
        fields.append(Field(number, kind, data[at : at + size]))
        at += size
    return fields


def _read(data: bytes, at: int) -> tuple[int, int]:
    """A varint and the place after it, which is far below 0 if there is none."""
    value = 0
    for shift in range(0, 70, 7):
        if not 0 <= at < len(data):
            break
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    return 0, -(1 << 62)
