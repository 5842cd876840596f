"""Where the numbers of a flatbuffer are, found without its schema."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MAX_SPOTS = 2000
_MAX_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Spot:
    """Bytes of a flatbuffer that hold a number, an offset or a length."""

    position: int
    size: int


def spots(data: bytes) -> list[Spot]:
    """The places of all numbers that can be reached from the root: slots of tables, lengths and items of vectors, and
    the vtables' entries.
    """
    found: dict[int, Spot] = {0: Spot(0, 4)}
    if len(data) >= 8:
        root = struct.unpack_from("<I", data)[0]
        for spot in _table(data, root, 0, set()):
            found.setdefault(spot.position, spot)
            if len(found) >= _MAX_SPOTS:
                break
    return list(found.values())


def _table(data: bytes, at: int, depth: int, seen: set[int]) -> Iterator[Spot]:
    if at in seen or depth > _MAX_DEPTH or not 4 <= at <= len(data) - 4:
        return
    vtable = at - struct.unpack_from("<i", data, at)[0]
    if not 0 <= vtable <= len(data) - 4:
        return
    size, inline = struct.unpack_from("<HH", data, vtable)
    if size < 4 or size % 2 or size > 200 or vtable + size > len(data) or inline < 4:
        return
    seen.add(at)
    yield Spot(at, 4)
    yield Spot(vtable, 2)
    slots = sorted({struct.unpack_from("<H", data, vtable + entry)[0] for entry in range(4, size, 2)} - {0})
    for entry in range(4, size, 2):
        yield Spot(vtable + entry, 2)
    for slot, following in zip(slots, [*slots[1:], inline][: len(slots)], strict=True):
        width = max((step for step in (1, 2, 4, 8) if step <= following - slot), default=1)
        if at + slot + width > len(data):
            continue
        yield Spot(at + slot, width)
        if width >= 4:
            target = at + slot + struct.unpack_from("<I", data, at + slot)[0]
            yield from _table(data, target, depth + 1, seen)
            yield from _vector(data, target, depth + 1, seen)


def _vector(data: bytes, at: int, depth: int, seen: set[int]) -> Iterator[Spot]:
    if at in seen or not 4 <= at <= len(data) - 4:
        return
    count = struct.unpack_from("<I", data, at)[0]
    if not 0 < count <= len(data) - at - 4:
        return
    yield Spot(at, 4)
    if at + 4 + 4 * count > len(data):
        return
    seen.add(at)
    for item in range(at + 4, at + 4 + 4 * count, 4):
        target = item + struct.unpack_from("<I", data, item)[0]
        yield from _table(data, target, depth + 1, seen)
    # structs of Arrow are pairs of int64: nodes and buffers
    for item in range(at + 4, min(at + 4 + 16 * count, len(data) - 8), 8):
        yield Spot(item, 8)
