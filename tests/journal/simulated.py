"""Folders in memory that lose what was not synced, and that can be looked at in the middle of any operation."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from barrage_server.journal.files import Buffer, Directory, JournalFile

SECTOR = 512


@dataclass
class Machine:
    """What all folders of one machine share.

    Attributes:
        count: operations so far.
        watch: called in the middle of every operation: what is on the disk then is what a crash leaves there.
        full: bytes that still fit on the disk; None: any number.
        error: raised by every write and every sync from now on.
    """

    count: int = 0
    watch: Callable[[], object] | None = None
    full: int | None = None
    error: OSError | None = None

    def operate(self) -> None:
        """Count an operation, before it has any effect."""
        self.count += 1
        if self.watch is not None:
            self.watch()


@dataclass
class Content:
    """A file's bytes, and how many of them survive.

    Attributes:
        data: what was written.
        synced: bytes of it that survive.
        zeros: bytes of the file, with zeros behind ``data``.
        synced_zeros: the same of what survives.
    """

    data: bytearray = field(default_factory=bytearray)
    synced: int = 0
    zeros: int = 0
    synced_zeros: int = 0

    @property
    def content(self) -> bytes:
        """All bytes of the file."""
        return bytes(self.data).ljust(self.zeros, b"\0")

    def after_crash(self, rng: random.Random) -> Content:
        """What is left: what was synced, and of the rest some sectors."""
        rest = bytearray(self.data[self.synced :])
        rest = rest[: rng.randint(0, len(rest))]
        if rest and rng.random() < 0.5:  # sectors reach the disk in any order
            place = rng.randrange(len(rest))
            rest[place : place + SECTOR] = bytes(len(rest[place : place + SECTOR]))
        kept = self.data[: self.synced] + rest
        zeros = rng.randint(self.synced_zeros, max(self.synced_zeros, self.zeros))
        kept += bytes(max(0, zeros - len(kept)))
        return Content(kept, len(kept))


class SimulatedFile(JournalFile):
    def __init__(self, machine: Machine, content: Content) -> None:
        self._machine = machine
        self._content = content

    def write(self, parts: Sequence[Buffer]) -> None:
        data = b"".join(bytes(part) for part in parts)
        half = len(data) // 2
        self._content.data += data[:half]
        self._machine.operate()
        if self._machine.error is not None:
            raise self._machine.error
        self._content.data += data[half:]

    def fill(self, count: int) -> None:
        self._machine.operate()
        if self._machine.error is not None:
            raise self._machine.error
        self._content.zeros = len(self._content.data) + count

    def sync(self) -> None:
        self._machine.operate()
        if self._machine.error is not None:
            raise self._machine.error
        self._content.synced = len(self._content.data)
        self._content.synced_zeros = self._content.zeros

    def truncate(self, size: int) -> None:
        self._machine.operate()
        del self._content.data[size:]
        self._content.synced = min(self._content.synced, size)
        self._content.zeros = self._content.synced_zeros = 0

    def close(self) -> None:
        pass


class SimulatedFolder(Directory):
    """``entries`` is what a running process sees, ``durable`` what is there after a crash."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.entries: dict[str, Content | SimulatedFolder] = {}
        self.durable: dict[str, Content | SimulatedFolder] = {}

    def names(self) -> list[str]:
        return sorted(self.entries)

    def folder(self, name: str) -> SimulatedFolder:
        found = self.entries.get(name)
        if found is None:
            self.machine.operate()
            found = self.entries[name] = SimulatedFolder(self.machine)
            if not name.startswith("partial-"):
                self.durable[name] = found  # made once, when the directory is made
        assert isinstance(found, SimulatedFolder)
        return found

    def create(self, name: str) -> JournalFile:
        self.machine.operate()
        if name in self.entries:
            raise FileExistsError(name)
        content = self.entries[name] = Content()
        return SimulatedFile(self.machine, content)

    def open(self, name: str) -> JournalFile:
        return SimulatedFile(self.machine, self._content(name))

    def read(self, name: str) -> memoryview:
        return memoryview(self._content(name).content)

    def link(self, source: Directory, name: str) -> None:
        self.machine.operate()
        assert isinstance(source, SimulatedFolder)
        self.entries[name] = source.entries[name]

    def rename(self, before: str, after: str) -> None:
        self.machine.operate()
        self.entries[after] = self.entries.pop(before)

    def remove(self, name: str) -> None:
        self.machine.operate()
        self.entries.pop(name, None)

    def sync(self) -> None:
        self.machine.operate()
        self.durable = dict(self.entries)

    def after_crash(self, rng: random.Random, machine: Machine) -> SimulatedFolder:
        """The folder of the machine that has its power again."""
        left = SimulatedFolder(machine)
        for name in sorted({*self.entries, *self.durable}):
            now, then = self.entries.get(name), self.durable.get(name)
            entry = now if now is then else rng.choice([now, then])
            if isinstance(entry, SimulatedFolder):
                left.entries[name] = entry.after_crash(rng, machine)
            elif entry is not None:
                left.entries[name] = entry.after_crash(rng)
        left.durable = dict(left.entries)
        return left

    def digest(self) -> bytes:
        """Of all names and bytes."""
        digest = hashlib.sha256()
        for name, entry in sorted(self.entries.items()):
            data = entry.digest() if isinstance(entry, SimulatedFolder) else hashlib.sha256(entry.content).digest()
            digest.update(f"{name}/".encode() + data)
        return digest.digest()

    def _content(self, name: str) -> Content:
        found = self.entries.get(name)
        if not isinstance(found, Content):
            raise FileNotFoundError(name)
        return found
