"""BarrageMessageWrapper, the outermost layer of every Barrage message."""

from __future__ import annotations

import struct
from typing import Final

from barrage_server.errors import WireFormatError
from barrage_server.wire.flat import FlatTable

__all__ = ["HEAD_BYTES", "MAGIC", "PAYLOAD_SLOT", "is_barrage", "unwrap", "wrap", "wrapped_payload"]

MAGIC: Final = 0x6E687064
""""dphn" in little-endian ASCII."""
PAYLOAD_SLOT: Final = 2
"""The slot of the payload in the wrapper."""

# The wrapper has a fixed layout, so it is packed here instead of built: root offset, padding, vtable (10 bytes long;
# the table has 16; magic at 12, type at 11, payload at 4), then the table (offsets to the vtable and to the payload,
# padding, type, magic), then the payload's length. The payload follows.
_LAYOUT: Final = struct.Struct("<I 2x 5H i I 3x b I I")
HEAD_BYTES: Final = _LAYOUT.size
"""Bytes before the payload."""
_LENGTH: Final = struct.Struct("<I")
_FIXED: Final = (16, 10, 16, 12, 11, 4, 10, 12)


def wrap(message_type: int, payload: bytes) -> bytes:
    """Wrap a finished flatbuffer as app_metadata."""
    padding = b"\0" * (-len(payload) % 4)
    return _LAYOUT.pack(*_FIXED, message_type, MAGIC, len(payload)) + payload + padding


def wrapped_payload(data: bytes) -> bytes:
    """Return the payload of what :func:`wrap` has made."""
    return data[HEAD_BYTES : HEAD_BYTES + _LENGTH.unpack_from(data, HEAD_BYTES - _LENGTH.size)[0]]


def is_barrage(data: bytes | memoryview) -> bool:
    """Whether app_metadata has the magic number of a Barrage message."""
    try:
        return FlatTable.root(data).uint32(0) == MAGIC
    except WireFormatError:
        return False


def unwrap(data: bytes | memoryview) -> tuple[int, memoryview]:
    """Return the message type and the payload, which is empty when absent.

    Raises:
        WireFormatError: the magic number is wrong, or the bytes are damaged.

    """
    table = FlatTable.root(data)
    magic = table.uint32(0)
    if magic != MAGIC:
        raise WireFormatError(
            f"not a Barrage message: its magic is 0x{magic:08x} instead of 0x{MAGIC:08x}; "
            "send a BarrageMessageWrapper as app_metadata"
        )
    payload = table.bytes_vector(PAYLOAD_SLOT)
    return table.int8(1), memoryview(b"") if payload is None else payload
