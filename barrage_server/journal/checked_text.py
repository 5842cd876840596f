"""Small files that begin with a line that has the checksum of the rest."""

from __future__ import annotations

import xxhash

from barrage_server.journal.files import Buffer

__all__ = ["with_checksum", "without_checksum"]


def with_checksum(text: bytes) -> list[bytes]:
    """The content of a file, in parts: the line of the checksum, and ``text``."""
    return [_line(text), text]


def without_checksum(content: Buffer) -> bytes | None:
    """The text in the content of a file; ``None`` if the checksum differs."""
    line, end, text = bytes(content).partition(b"\n")
    return text if line + end == _line(text) else None


def _line(text: bytes) -> bytes:
    return f"{xxhash.xxh3_64_hexdigest(text)}\n".encode()
