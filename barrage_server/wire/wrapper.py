"""The outermost layer of every Barrage message: BarrageMessageWrapper."""

from __future__ import annotations

import struct
from typing import Final

from barrage_server.errors import WireFormatError
from barrage_server.wire.flat import FlatTable

__all__ = ["HEAD_BYTES", "MAGIC", "PAYLOAD_SLOT", "is_barrage", "unwrap", "wrap"]

MAGIC: Final = 0x6E687064
"""Little-endian it reads "dphn"."""
PAYLOAD_SLOT: Final = 2
"""Of the field with the payload, in the wrapper."""

# The wrapper has a fixed shape, so it is laid out here instead of built: root offset, padding, field list (10 bytes
# long; the table has 16; magic at 12, type at 11, payload at 4), then the table (way back to the field list, way to
# the payload, padding, type, magic), then the payload's length. The payload follows.
_LAYOUT: Final = struct.Struct("<I 2x 5H i I 3x b I I")
HEAD_BYTES: Final = _LAYOUT.size
"""Bytes before the payload, as :func:`wrap` lays them out."""
_FIXED: Final = (16, 10, 16, 12, 11, 4, 10, 12)


def wrap(message_type: int, payload: bytes) -> bytes:
    """The finished app_metadata around a finished flatbuffer."""
    padding = b"\0" * (-len(payload) % 4)
    return _LAYOUT.pack(*_FIXED, message_type, MAGIC, len(payload)) + payload + padding


def is_barrage(data: bytes | memoryview) -> bool:
    """Whether app_metadata claims by its magic to be a Barrage message; False otherwise."""
    try:
        return FlatTable.root(data).uint32(0) == MAGIC
    except WireFormatError:
        return False


def unwrap(data: bytes | memoryview) -> tuple[int, memoryview]:
    """Message type and payload (empty when it is absent); WireFormatError on a wrong magic or damaged bytes."""
    table = FlatTable.root(data)
    magic = table.uint32(0)
    if magic != MAGIC:
        raise WireFormatError(
            f"not a Barrage message: its magic is 0x{magic:08x} instead of 0x{MAGIC:08x}; "
            "send a BarrageMessageWrapper as app_metadata"
        )
    payload = table.bytes_vector(PAYLOAD_SLOT)
    return table.int8(1), memoryview(b"") if payload is None else payload
