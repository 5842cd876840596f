"""Files that are read again: stamps that show changes, and which may be."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from barrage_server.errors import InvalidRequestError

__all__ = ["FileStamp", "check_regular", "file_stamp", "is_special"]

FileStamp: TypeAlias = tuple[int, int, int] | None
"""Time of the last change in nanoseconds, size in bytes, and inode; ``None`` for a file that cannot be found."""


def file_stamp(path: Path) -> FileStamp:
    """The present stamp of a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def is_special(path: Path) -> bool:
    """Whether something other than a regular file is there.

    A pipe, for example, can be read only once.
    """
    return path.exists() and not path.is_file()


def check_regular(path: Path) -> None:
    """Check that a file can be read again without waiting for a writer.

    A pipe may be read when a server starts. To wait for one later would hold up other work.

    Raises:
        InvalidRequestError: it is a pipe, a device or a folder, and no link to a regular file.

    """
    if is_special(path):
        raise InvalidRequestError(f"{str(path)!r} is no regular file, and is not read again.")
