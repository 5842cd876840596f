"""The stamp of a file, by which a change of its content is noticed."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

__all__ = ["FileStamp", "file_stamp"]

FileStamp: TypeAlias = tuple[int, int, int] | None
"""Time of the last change in nanoseconds, size in bytes, and inode; ``None`` for a file that cannot be found."""


def file_stamp(path: Path) -> FileStamp:
    """The present stamp of a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
