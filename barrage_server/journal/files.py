"""The files of a journal, behind an interface that tests can replace."""

from __future__ import annotations

import fcntl
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from barrage_server.errors import AlreadyExistsError

__all__ = ["MOST_AHEAD", "NEW", "Buffer", "Directory", "JournalFile", "OsDirectory"]

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes, in any type with the buffer protocol."""

NEW: Final = ".new"
"""The ending of a file that will replace another one."""
MOST_AHEAD: Final = 1 << 18
"""Zeros that can be written ahead."""
_ZEROS: Final = bytes(MOST_AHEAD)
_MOST_PARTS = 512  # of one system call
_LOCK = "lock"


class JournalFile(ABC):
    """A file that is written at its end, or over zeros written ahead."""

    @abstractmethod
    def write(self, parts: Sequence[Buffer]) -> None:
        """Write ``parts`` behind the parts before.

        Raises:
            OSError: not all parts could be written.
        """

    @abstractmethod
    def fill(self, count: int) -> None:
        """Write zeros behind the parts, over which the next parts are written.

        These parts leave the size of the file as it is, and are synced with one write of the disk instead of two.

        Args:
            count: the number of zeros, at most :data:`MOST_AHEAD`.

        Raises:
            OSError: not all zeros could be written.
        """

    @abstractmethod
    def sync(self) -> None:
        """Wait until all written bytes survive a loss of power.

        Raises:
            OSError: they may not survive it.
        """

    @abstractmethod
    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes, behind which the next parts are written."""

    @abstractmethod
    def close(self) -> None:
        """Close the file."""


class Directory(ABC):
    """A folder. Names of its files have no separators."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names in it, sorted."""

    @abstractmethod
    def folder(self, name: str) -> Directory:
        """The folder ``name`` in this one, created if it does not exist."""

    @abstractmethod
    def create(self, name: str) -> JournalFile:
        """A new file.

        Raises:
            OSError: the name exists.
        """

    @abstractmethod
    def open(self, name: str) -> JournalFile:
        """An existing file, to be written at its end."""

    @abstractmethod
    def read(self, name: str) -> memoryview:
        """The content of a file, which may be mapped.

        Raises:
            OSError: there is no such file.
        """

    @abstractmethod
    def link(self, source: Directory, name: str) -> None:
        """Add a file of ``source`` to this folder, under the same name.

        Raises:
            OSError: the file cannot be linked.
        """

    @abstractmethod
    def rename(self, before: str, after: str) -> None:
        """Rename a file or a folder."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, or a folder with its files, if it exists."""

    @abstractmethod
    def sync(self) -> None:
        """Wait until the names in this folder survive a loss of power."""

    def write(self, name: str, parts: Sequence[Buffer]) -> None:
        """Create a file with the content ``parts``, and sync the file.

        Raises:
            OSError: the name exists, or the file cannot be written.
        """
        file = self.create(name)
        try:
            file.write(parts)
            file.sync()
        finally:
            file.close()

    def replace(self, name: str, parts: Sequence[Buffer]) -> None:
        """Atomically replace a file, by way of ``name`` with the ending :data:`NEW`."""
        self.remove(name + NEW)
        self.write(name + NEW, parts)
        self.rename(name + NEW, name)
        self.sync()


class _OsFile(JournalFile):
    def __init__(self, descriptor: int, size: int = 0) -> None:
        self._descriptor = descriptor
        self._end = size  # of the parts

    def write(self, parts: Sequence[Buffer]) -> None:
        self._end = self._write(parts, self._end)

    def fill(self, count: int) -> None:
        self._write([memoryview(_ZEROS)[:count]], self._end)

    def _write(self, parts: Sequence[Buffer], place: int) -> int:
        """Write ``parts`` from the byte ``place`` on; returns the byte behind them."""
        rest = [memoryview(part).cast("B") for part in parts if memoryview(part).nbytes]
        while rest:
            written = os.pwritev(self._descriptor, rest[:_MOST_PARTS], place)
            place += written
            done = 0
            while done < len(rest) and written >= len(rest[done]):
                written -= len(rest[done])
                done += 1
            del rest[:done]
            if written:
                rest[0] = rest[0][written:]
        return place

    def sync(self) -> None:
        getattr(os, "fdatasync", os.fsync)(self._descriptor)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)
        self._end = size

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1  # another file may get its number
        os.close(descriptor)


class OsDirectory(Directory):
    """A folder of the operating system, created if it does not exist."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def names(self) -> list[str]:
        """The names in it, sorted."""
        return sorted(entry.name for entry in self.path.iterdir())

    def folder(self, name: str) -> OsDirectory:
        """The folder ``name`` in this one, created if it does not exist."""
        return OsDirectory(self.path / name)

    def create(self, name: str) -> JournalFile:
        """A new file."""
        return _OsFile(os.open(self.path / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))

    def open(self, name: str) -> JournalFile:
        """An existing file, to be written at its end."""
        descriptor = os.open(self.path / name, os.O_WRONLY)
        return _OsFile(descriptor, os.fstat(descriptor).st_size)

    def read(self, name: str) -> memoryview:
        """The content of a file, mapped."""
        with (self.path / name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return memoryview(mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b"")

    def link(self, source: Directory, name: str) -> None:
        """Add a file of ``source`` to this folder, under the same name."""
        assert isinstance(source, OsDirectory)
        os.link(source.path / name, self.path / name)

    def rename(self, before: str, after: str) -> None:
        """Rename a file or a folder."""
        (self.path / before).rename(self.path / after)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with its files, if it exists."""
        path = self.path / name
        if path.is_dir() and not path.is_symlink():
            for entry in path.iterdir():
                entry.unlink()
            path.rmdir()
        else:
            path.unlink(missing_ok=True)

    def sync(self) -> None:
        """Wait until the names in this folder survive a loss of power."""
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self) -> DirectoryLock:
        """Lock the folder for this process, until the lock is closed.

        The end of the process releases it, too.

        Raises:
            AlreadyExistsError: another process has it.
        """
        return DirectoryLock(self.path / _LOCK)


class DirectoryLock:
    """A file that this process has locked."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise AlreadyExistsError(
                "Another server uses this data directory. Stop it, or give this one a directory of its own."
            ) from None

    @property
    def is_in_place(self) -> bool:
        """Whether the locked file still has its name.

        Without it, another process may lock and use the folder.
        """
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # it may be there
            return True

    def close(self) -> None:
        """Release the lock."""
        with suppress(OSError):
            os.close(self._descriptor)
