"""HTTP/2 by hand, for clients that no library would be."""

from __future__ import annotations

import socket
import struct

__all__ = [
    "CONTINUATION",
    "DATA",
    "END_HEADERS",
    "END_STREAM",
    "HEADERS",
    "PREFACE",
    "RST_STREAM",
    "SETTINGS",
    "connect",
    "frame",
    "headers",
]

DATA, HEADERS, RST_STREAM, SETTINGS, CONTINUATION = 0, 1, 3, 4, 9
END_STREAM, END_HEADERS = 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """One frame."""
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def headers(method: str, *more: tuple[str, str]) -> bytes:
    """The header block of a call, without an index."""
    fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", method),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *more,
    ]
    return b"".join(b"\0" + _string(name) + _string(value) for name, value in fields)


def connect(port: int, source: str = "127.0.0.1", timeout: float = 20) -> socket.socket:
    """A connection from the address ``source`` that has said hello."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=timeout, source_address=(source, 0))
    connection.sendall(PREFACE + frame(SETTINGS, 0, 0))
    return connection


def _string(text: str) -> bytes:
    data = text.encode()
    size, encoded = len(data), bytearray()
    if size < 127:
        encoded.append(size)
    else:
        encoded.append(127)
        size -= 127
        while size > 127:
            encoded.append(size & 127 | 128)
            size >>= 7
        encoded.append(size)
    return bytes(encoded) + data
