"""The files of a journal, behind an interface that tests can replace."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import stat
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from barrage_server.arguments import shown
from barrage_server.errors import AlreadyExistsError

__all__ = ["MOST_AHEAD", "NEW", "Buffer", "Directory", "JournalFile", "OsDirectory", "reason_of"]

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes, in any type with the buffer protocol."""

NEW: Final = ".new"
"""The ending of a file that will replace another one."""
MOST_AHEAD: Final = 1 << 18
"""Zeros that can be written ahead."""
_ZEROS: Final = bytes(MOST_AHEAD)
_MOST_PARTS = 512  # of one system call
_LOCK = "lock"
_READ_ONLY: Final = {errno.EACCES, errno.EPERM, errno.EROFS}
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY


def reason_of(error: OSError) -> str:
    """What the operating system says, with the name of the file in the folder."""
    reason = error.strerror or type(error).__name__
    name = error.filename2 or error.filename  # of a file that replaces another, that one
    return f"{reason}: {shown(name)}" if isinstance(name, str) and os.sep not in name else reason


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
    """A folder of the operating system, created if it does not exist.

    It stays this folder when it is moved: another folder at its former path is not touched.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._hold(os.open(path, _FOLDER))

    def _hold(self, descriptor: int) -> None:
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def names(self) -> list[str]:
        """The names in it, sorted."""
        own = os.open(".", _FOLDER, dir_fd=self._descriptor)  # with a place of its own, beside other threads
        try:
            with os.scandir(own) as entries:
                return sorted(entry.name for entry in entries)
        finally:
            os.close(own)

    def folder(self, name: str) -> OsDirectory:
        """The folder ``name`` in this one, created if it does not exist."""
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=self._descriptor)
        made = OsDirectory.__new__(OsDirectory)
        made._hold(os.open(name, _FOLDER, dir_fd=self._descriptor))
        return made

    def create(self, name: str) -> JournalFile:
        """A new file."""
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
        return _OsFile(os.open(name, flags, 0o600, dir_fd=self._descriptor))

    def open(self, name: str) -> JournalFile:
        """An existing file, to be written at its end."""
        descriptor = os.open(name, os.O_WRONLY, dir_fd=self._descriptor)
        return _OsFile(descriptor, os.fstat(descriptor).st_size)

    def read(self, name: str) -> memoryview:
        """The content of a file, mapped."""
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NONBLOCK, dir_fd=self._descriptor)  # a pipe does not block
        except FileNotFoundError:
            if name in self.names():
                raise OSError(errno.ENOENT, "A link to what is not there", name) from None
            raise
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EISDIR, "Not a file", name)
            size = status.st_size
            return memoryview(mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) if size else b"")
        finally:
            os.close(descriptor)

    def link(self, source: Directory, name: str) -> None:
        """Add a file of ``source`` to this folder, under the same name."""
        assert isinstance(source, OsDirectory)
        os.link(name, name, src_dir_fd=source._descriptor, dst_dir_fd=self._descriptor)

    def rename(self, before: str, after: str) -> None:
        """Rename a file or a folder."""
        os.rename(before, after, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with its files, if it exists."""
        try:
            kind = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return
        if stat.S_ISDIR(kind):
            folder = self.folder(name)
            for entry in folder.names():
                os.unlink(entry, dir_fd=folder._descriptor)
            os.rmdir(name, dir_fd=self._descriptor)
        else:
            os.unlink(name, dir_fd=self._descriptor)

    def sync(self) -> None:
        """Wait until the names in this folder survive a loss of power."""
        os.fsync(self._descriptor)

    def lock(self) -> DirectoryLock:
        """Lock the folder for this process, until the lock is closed.

        The end of the process releases it, too.

        Raises:
            AlreadyExistsError: another process has it.
        """
        return DirectoryLock(self, os.open(_LOCK, os.O_CREAT | os.O_RDWR, 0o600, dir_fd=self._descriptor))

    def lock_for_reading(self) -> DirectoryLock | None:
        """Lock the folder, which may be read-only, until the lock is closed.

        ``None`` if it has no lock file and none can be made: a process that uses the folder has made one.

        Raises:
            AlreadyExistsError: another process has it.
        """
        try:
            return self.lock()
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
        try:
            return DirectoryLock(self, os.open(_LOCK, os.O_RDONLY, dir_fd=self._descriptor), fcntl.LOCK_SH)
        except FileNotFoundError:
            return None

    def has(self, name: str, descriptor: int) -> bool:
        """Whether the file ``name`` is the open one."""
        try:
            return os.path.samestat(os.stat(name, dir_fd=self._descriptor), os.fstat(descriptor))
        except FileNotFoundError:
            return False
        except OSError:  # it may be there
            return True


class DirectoryLock:
    """A lock file that this process has locked.

    Args:
        directory: its folder.
        descriptor: the open file, which the lock closes.
        kind: ``LOCK_EX``, or ``LOCK_SH`` for a file that is open for reading only.

    Raises:
        AlreadyExistsError: another process has it.
    """

    def __init__(self, directory: OsDirectory, descriptor: int, kind: int = fcntl.LOCK_EX) -> None:
        self._directory = directory
        self._descriptor = descriptor
        self._process = os.getpid()
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise AlreadyExistsError(
                "Another server uses this data directory. Stop it, or give this one a directory of its own."
            ) from None

    @property
    def is_in_place(self) -> bool:
        """Whether the locked file is still the one of the folder.

        Without it, another process may lock and use the folder.
        """
        return self._directory.has(_LOCK, self._descriptor)

    def close(self) -> None:
        """Release the lock.

        Children that the process has forked have the file open as well, and do not release it.
        """
        with suppress(OSError):
            if os.getpid() == self._process:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        with suppress(OSError):
            os.close(self._descriptor)
