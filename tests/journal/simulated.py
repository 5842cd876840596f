"""Folders in memory that lose what was not synced, and that break off at any operation."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from barrage_server.journal.files import Buffer, Directory, JournalFile

SECTOR = 512


class Crash(BaseException):
    """The machine has lost its power."""


@dataclass
class Machine:
    """What all folders of one machine share.

    Attributes:
        left: operations until it crashes; None: it does not.
        count: operations so far.
        full: bytes that still fit on the disk; None: any number.
        error: raised by every write and every sync from now on.
    """

    left: int | None = None
    count: int = 0
    full: int | None = None
    error: OSError | None = None

    def operate(self) -> None:
        """Count an operation."""
        if self.left is not None and self.count >= self.left:
            raise Crash
        self.count += 1


@dataclass
class Content:
    """A file's bytes, and how many of them survive."""

    data: bytearray = field(default_factory=bytearray)
    synced: int = 0

    def after_crash(self, rng: random.Random) -> Content:
        """What is left: what was synced, and of the rest some sectors."""
        rest = bytearray(self.data[self.synced :])
        rest = rest[: rng.randint(0, len(rest))]
        if rest and rng.random() < 0.5:  # sectors reach the disk in any order
            place = rng.randrange(len(rest))
            rest[place : place + SECTOR] = bytes(len(rest[place : place + SECTOR]))
        kept = self.data[: self.synced] + rest
        return Content(kept, len(kept))


class SimulatedFile(JournalFile):
    def __init__(self, machine: Machine, content: Content) -> None:
        self._machine = machine
        self._content = content

    def write(self, parts: Sequence[Buffer]) -> None:
        data = b"".join(bytes(part) for part in parts)
        try:
            self._machine.operate()
        except Crash:
            self._content.data += data[: len(data) // 2]
            raise
        if self._machine.error is not None:
            self._content.data += data[: len(data) // 2]
            raise self._machine.error
        self._content.data += data

    def sync(self) -> None:
        self._machine.operate()
        if self._machine.error is not None:
            raise self._machine.error
        self._content.synced = len(self._content.data)

    def truncate(self, size: int) -> None:
        self._machine.operate()
        del self._content.data[size:]
        self._content.synced = min(self._content.synced, size)

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
        return memoryview(bytes(self._content(name).data))

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

    def _content(self, name: str) -> Content:
        found = self.entries.get(name)
        if not isinstance(found, Content):
            raise FileNotFoundError(name)
        return found
