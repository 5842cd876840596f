"""The files that a journal needs: a seam, so that tests can lose what was not synced."""

from __future__ import annotations

import fcntl
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from barrage_server.errors import AlreadyExistsError

__all__ = ["Buffer", "Directory", "JournalFile", "OsDirectory"]

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes, or what has the buffer protocol."""

_MOST_PARTS = 512  # of one system call
_LOCK = "lock"


class JournalFile(ABC):
    """A file that is written at its end."""

    @abstractmethod
    def write(self, parts: Sequence[Buffer]) -> None:
        """Add the parts at the end. OSError when not all of them could be written."""

    @abstractmethod
    def sync(self) -> None:
        """Return when everything that was written survives a loss of power. OSError when it may not."""

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""

    @abstractmethod
    def close(self) -> None:
        """Close it."""


class Directory(ABC):
    """A folder. Names of files have no separators."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names in it, sorted."""

    @abstractmethod
    def folder(self, name: str) -> Directory:
        """A folder in it, which is made if there is none."""

    @abstractmethod
    def create(self, name: str) -> JournalFile:
        """A new file. OSError when there is one of that name."""

    @abstractmethod
    def open(self, name: str) -> JournalFile:
        """An existing file, to be written at its end."""

    @abstractmethod
    def read(self, name: str) -> memoryview:
        """The content of a file; it may be mapped. OSError when there is none."""

    @abstractmethod
    def link(self, source: Directory, name: str) -> None:
        """Give a file of ``source`` the same name here. OSError when that cannot be."""

    @abstractmethod
    def rename(self, before: str, after: str) -> None:
        """Give a file or a folder another name."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, or a folder with its files; nothing happens when there is none."""

    @abstractmethod
    def sync(self) -> None:
        """Return when the names in it survive a loss of power."""


class _OsFile(JournalFile):
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, parts: Sequence[Buffer]) -> None:
        rest = [memoryview(part).cast("B") for part in parts if len(memoryview(part).cast("B"))]
        while rest:
            written = os.writev(self._descriptor, rest[:_MOST_PARTS])
            done = 0
            while done < len(rest) and written >= len(rest[done]):
                written -= len(rest[done])
                done += 1
            del rest[:done]
            if written:
                rest[0] = rest[0][written:]

    def sync(self) -> None:
        getattr(os, "fdatasync", os.fsync)(self._descriptor)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def close(self) -> None:
        os.close(self._descriptor)


class OsDirectory(Directory):
    """A folder of the operating system, which is made if there is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def names(self) -> list[str]:
        """The names in it, sorted."""
        return sorted(entry.name for entry in self.path.iterdir())

    def folder(self, name: str) -> OsDirectory:
        """A folder in it, which is made if there is none."""
        return OsDirectory(self.path / name)

    def create(self, name: str) -> JournalFile:
        """A new file."""
        return _OsFile(os.open(self.path / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600))

    def open(self, name: str) -> JournalFile:
        """An existing file, to be written at its end."""
        return _OsFile(os.open(self.path / name, os.O_WRONLY | os.O_APPEND))

    def read(self, name: str) -> memoryview:
        """The content of a file, mapped."""
        with (self.path / name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b"")

    def link(self, source: Directory, name: str) -> None:
        """Give a file of ``source`` the same name here."""
        assert isinstance(source, OsDirectory)
        os.link(source.path / name, self.path / name)

    def rename(self, before: str, after: str) -> None:
        """Give a file or a folder another name."""
        (self.path / before).rename(self.path / after)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with its files."""
        path = self.path / name
        if path.is_dir() and not path.is_symlink():
            for entry in path.iterdir():
                entry.unlink()
            path.rmdir()
        else:
            path.unlink(missing_ok=True)

    def sync(self) -> None:
        """Return when the names in it survive a loss of power."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self) -> DirectoryLock:
        """Be its one user, until the lock is closed or the process ends.

        Raises:
            AlreadyExistsError: another process has it.

        """
        return DirectoryLock(self.path / _LOCK)


class DirectoryLock:
    """A file that one process has locked."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise AlreadyExistsError(
                "Another server uses this data directory. Stop it, or give this one a directory of its own."
            ) from None

    def close(self) -> None:
        """Let others have it."""
        with suppress(OSError):
            os.close(self._descriptor)
