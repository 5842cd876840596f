"""Damages to the messages of a call, drawn from a seeded generator: pure functions of bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from tests.fuzz import protobuf
from tests.fuzz.flatbuffer import spots

TELLING = [b"\0", b"\xff", b"\x7f", b"\x80", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\xff" * 8, b"\0" * 8, b"dphn"]
"""What bytes are likely to mean something in: sizes, offsets, ends."""
HEADER, METADATA, BODY = 2, 3, 1000
_MAX_GROWTH = 1 << 16


def telling_number(chance: random.Random, size: int, value: int) -> bytes:
    """A number of ``size`` bytes that is wrong in a way that matters, where ``value`` was."""
    bits = 8 * size
    chosen = chance.choice(
        [
            0, 1, -1, 2, 7, 8, 127, 255, 1 << (bits - 1), (1 << (bits - 1)) - 1, 1 << (bits - 2), 1 << 20, 1 << 31,
            (1 << 31) - 1, 1 << 32, 1 << 40, 1 << 62, value + 1, value - 1, value * 2, value + 8, value - 8, -value,
            value + 64, value // 2, chance.getrandbits(bits), chance.randrange(64),
        ]
    )  # fmt: skip
    return (chosen & ((1 << bits) - 1)).to_bytes(size, "little")


def damaged_bytes(data: bytes, chance: random.Random) -> bytes:
    """Bytes flipped, replaced, put in, taken out, or cut off: one to six times."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        position = chance.randrange(len(changed) + 1)
        kind = chance.randrange(7)
        if kind == 0 and changed:
            changed[position % len(changed)] ^= 1 << chance.randrange(8)
        elif kind == 1 and changed:
            changed[position % len(changed)] = chance.randrange(256)
        elif kind == 2:
            telling = chance.choice(TELLING)
            changed[position : position + len(telling)] = telling
        elif kind == 3:
            changed[position:position] = chance.randbytes(chance.randint(1, 8))
        elif kind == 4:
            del changed[position : position + chance.randint(1, 8)]
        elif kind == 5 and len(changed) < _MAX_GROWTH:
            end = min(len(changed), position + chance.randint(1, 256))
            changed[position:position] = changed[position:end]
        elif chance.random() < 0.3:
            del changed[position:]
    return bytes(changed)


def damaged_flatbuffer(data: bytes, chance: random.Random) -> bytes:
    """Numbers of a flatbuffer replaced: values, lengths, offsets, entries of vtables."""
    found = spots(data)
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 4])):
        spot = chance.choice(found)
        if spot.position + spot.size <= len(changed):
            value = int.from_bytes(changed[spot.position : spot.position + spot.size], "little")
            changed[spot.position : spot.position + spot.size] = telling_number(chance, spot.size, value)
    return bytes(changed)


def damaged_body(header: bytes, body: bytes, chance: random.Random) -> bytes:
    """Numbers in the buffers of an Arrow body replaced: offsets, run ends, indices, views, claims of compressed sizes.

    Where buffers begin is taken from what the header says of them; begins of buffers are hit more often.
    """
    if len(body) < 8:
        return damaged_bytes(body, chance)
    pairs = [
        struct.unpack_from("<qq", header, spot.position)
        for spot in spots(header)
        if spot.size == 8 and spot.position + 16 <= len(header)
    ]
    buffers = [(offset, size) for offset, size in pairs if offset >= 0 and size >= 4 and offset + size <= len(body)]
    changed = bytearray(body)
    for _ in range(chance.choice([1, 1, 2, 3])):
        offset, size = chance.choice(buffers) if buffers and chance.random() < 0.9 else (0, len(body))
        width = chance.choice([1, 2, 4, 4, 4, 8, 8])
        if size < width:
            continue
        place = 0 if chance.random() < 0.3 else chance.randrange(size // width)
        at = offset + place * width
        value = int.from_bytes(changed[at : at + width], "little")
        changed[at : at + width] = telling_number(chance, width, value)
    return bytes(changed)


def damaged_text(data: bytes, chance: random.Random) -> bytes:
    """A word of a text, such as JSON, replaced by another of its words, or by what words may not be."""
    words = data.replace(b'"', b'\0"\0').replace(b",", b"\0,\0").replace(b":", b"\0:\0").split(b"\0")
    odd = [
        b"null",
        b"-1",
        b"1e999",
        b"[]",
        b"{}",
        b'"' + b"x" * 5000 + b'"',
        b"true",
        b"\xff\xfe",
        b"9" * 400,
        b"\\u0000",
    ]
    place = chance.randrange(len(words))
    words[place] = chance.choice([*words, *odd])
    return b"".join(words)


def damaged_message(data: bytes, chance: random.Random, depth: int = 0) -> bytes:
    """One message with something wrong: in its bytes, in its fields, or inside one of them."""
    fields = protobuf.decode(data) if chance.random() < 0.85 else None
    if not fields:
        return damaged_bytes(data, chance)
    kind = chance.randrange(12)
    place = chance.randrange(len(fields))
    chosen = fields[place]
    if kind == 0:
        del fields[place]
    elif kind == 1:
        fields.insert(chance.randrange(len(fields) + 1), chosen)
    elif kind == 2:
        chance.shuffle(fields)
    elif kind == 3:
        number = chance.choice([1, 2, 3, 4, 5, 28, 30, 31, 1000, (1 << 29) - 1])
        fields[place] = protobuf.Field(number, chosen.kind, chosen.value)
    elif kind == 4 and isinstance(chosen.value, bytes):
        # a length that does not hold
        before, after = protobuf.encode(fields[:place]), protobuf.encode(fields[place + 1 :])
        length = protobuf.varint(int.from_bytes(telling_number(chance, 4, len(chosen.value)), "little"))
        tag = protobuf.varint(chosen.number << 3 | chosen.kind)
        return before + tag + length + chosen.value + after
    elif isinstance(chosen.value, int):
        value = int.from_bytes(telling_number(chance, 8, chosen.value), "little")
        fields[place] = protobuf.Field(chosen.number, chosen.kind, value)
    else:
        if any(entry.number in (HEADER, BODY) for entry in fields) and chance.random() < 0.8:
            place = _arrow_field(fields, chance)
            chosen = fields[place]
        value_bytes = chosen.value if isinstance(chosen.value, bytes) else b""
        fields[place] = protobuf.Field(chosen.number, chosen.kind, _inside(fields, chosen, value_bytes, chance, depth))
    return protobuf.encode(fields)


def _arrow_field(fields: list[protobuf.Field], chance: random.Random) -> int:
    places = [place for place, entry in enumerate(fields) if entry.number in (HEADER, METADATA, BODY)]
    bodies = [place for place in places if fields[place].number == BODY and fields[place].value]
    return chance.choice(bodies) if bodies and chance.random() < 0.6 else chance.choice(places)


def _inside(
    fields: list[protobuf.Field], chosen: protobuf.Field, value: bytes, chance: random.Random, depth: int
) -> bytes:
    """The value of a field, damaged as what it is taken for."""
    if chosen.number == BODY:
        header = next((entry.value for entry in fields if entry.number == HEADER), b"")
        return damaged_body(header if isinstance(header, bytes) else b"", value, chance)
    ways: list[Callable[[bytes, random.Random], bytes]] = [damaged_bytes]
    if value[:1] in (b"{", b"["):
        ways += [damaged_text] * 4
    elif len(value) >= 16:
        ways += [damaged_flatbuffer] * 4
    if depth < 3 and chosen.number != HEADER:
        ways.append(lambda inner, chance: damaged_message(inner, chance, depth + 1))
    return chance.choice(ways)(value, chance)


def damaged_sequence(messages: list[bytes], others: list[bytes], chance: random.Random) -> list[bytes]:
    """Messages in a wrong order: lost, repeated, swapped, or with one of another call among them."""
    changed = list(messages)
    for _ in range(chance.randint(1, 2)):
        kind = chance.randrange(5)
        if kind == 0 and changed:
            del changed[chance.randrange(len(changed))]
        elif kind == 1 and changed:
            changed.insert(chance.randrange(len(changed) + 1), chance.choice(changed))
        elif kind == 2:
            chance.shuffle(changed)
        elif kind == 3:
            changed.insert(chance.randrange(len(changed) + 1), chance.choice(others))
        else:
            changed = changed[: chance.randrange(len(changed) + 1)]
    return changed


def spliced(first: bytes, second: bytes, chance: random.Random) -> bytes:
    """The beginning of one message and the end of another."""
    return first[: chance.randrange(len(first) + 1)] + second[chance.randrange(len(second) + 1) :]
