"""The last committed batch of each publisher, to recognise repeated batches."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from barrage_server.engine import Table
from barrage_server.errors import FencedError, LimitError
from barrage_server.wire.commit_messages import is_single_write

__all__ = ["LEDGER_SECONDS", "Identity", "Ledger", "LedgerEntry"]

LEDGER_SECONDS: Final = 30 * 86_400.0
"""Seconds after its last commit for which a publisher is remembered."""
_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"))
"""Units of time in texts, in seconds."""
_SINGLE_SECONDS: Final = 3_600.0
_RETRY_SECONDS: Final = 900.0
"""Seconds for which a single write may repeat its commit: three times a sink's wait for its server."""
_EARLIER: Final = 100
"""Earlier epochs of one publisher that are remembered."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The sender of a commit.

    Attributes:
        publisher: the name under which batches are remembered.
        epoch: the run of the publisher to which its batch numbers belong; ``None`` for a publisher without epochs.
        principal: the user of the call. A publisher name belongs to the user who commits under it first; on a server
            without users it is empty, and the name belongs to no user.
    """

    publisher: str
    epoch: str | None = None
    principal: str = ""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The record of a publisher's last commit to one table.

    Attributes:
        publisher: the name under which the batch was committed.
        epoch: the epoch of the publisher.
        table: the table's name.
        batch: the last batch.
        when: time of the commit, in seconds of the wall clock.
        principal: the user to whom the publisher's name belongs.
        earlier: earlier epochs, which are refused.
        released: whether the name had been taken from the user before, whose commits count on.
    """

    publisher: str
    epoch: str | None
    table: str
    batch: int
    when: float
    principal: str
    earlier: tuple[str | None, ...] = ()
    released: bool = False

    def to_fields(self) -> dict[str, Any]:
        """The JSON form of the entry, without its table."""
        return {
            "publisher": self.publisher,
            "epoch": self.epoch,
            "batch": self.batch,
            "when": self.when,
            "principal": self.principal,
            "earlier": list(self.earlier),
            "released": self.released,
        }

    @classmethod
    def of_fields(cls, table: str, fields: Mapping[str, Any]) -> LedgerEntry:
        """The entry of a JSON form, for the table ``table``."""
        return cls(
            publisher=str(fields["publisher"]),
            epoch=fields.get("epoch"),
            table=table,
            batch=int(fields["batch"]),
            when=float(fields.get("when", 0.0)),
            principal=str(fields.get("principal", "")),
            earlier=tuple(fields.get("earlier", ())),
            released=bool(fields.get("released", False)),
        )


class _Key(NamedTuple):
    publisher: str
    table: str


class _Held(NamedTuple):
    entry: LedgerEntry
    table: object  # the table itself: a later table may have the same name


@dataclass(slots=True)
class _Name:
    """The owner of a publisher's name, its epochs, and tables of the present epoch.

    Attributes:
        principal: the user to whom the name belongs.
        epoch: the present epoch.
        earlier: earlier epochs.
        tables: the names of the tables that the present epoch has written.
        released: whether it was taken from its user, and no other one has it yet.
    """

    principal: str
    epoch: str | None
    earlier: tuple[str | None, ...] = ()
    tables: set[str] = field(default_factory=set)
    released: bool = False


@dataclass(slots=True)
class _Shelf:
    """Entries with the same lifetime, in the order of their last commit.

    Attributes:
        seconds: the lifetime after a commit.
        capacity: the most entries.
        spare_seconds: the age from which entries make room for others.
        entries: the entries.
        of_principals: the number of entries of each user.
    """

    seconds: float
    capacity: int
    spare_seconds: float
    entries: OrderedDict[_Key, _Held] = field(default_factory=OrderedDict)
    of_principals: Counter[str] = field(default_factory=Counter)

    def put(self, key: _Key, held: _Held) -> None:
        """Add an entry at the end, or replace it and move it there."""
        self.pop(key)
        self.entries[key] = held
        self.of_principals[held.entry.principal] += 1

    def pop(self, key: _Key) -> bool:
        """Remove an entry; returns whether there was one."""
        held = self.entries.pop(key, None)
        if held is None:
            return False
        self.of_principals[held.entry.principal] -= 1
        if not self.of_principals[held.entry.principal]:
            del self.of_principals[held.entry.principal]
        return True


class Ledger:
    """The last committed batch per publisher, epoch and table.

    Batch numbers of one epoch only grow (Spark counts its micro-batches), so one number decides for every batch whether
    it is committed. A publisher has one epoch at a time; earlier epochs are refused.

    Entries belong to a table, not to its name: after :meth:`watch` was called, commits to a dropped table do not count
    for a later table of that name. A publisher without a table is forgotten, and its name is free.

    A publisher does not announce its end: entries are forgotten by age. Publishers of a single write or of one
    connection, whose names no later process uses, are kept apart and for a shorter time, so that they take no room from
    a streaming query. Beyond either capacity a commit of a further publisher is refused: an entry that may still be
    needed is never evicted. Entries of single writes make room once they are too old for a repetition of their commit.

    Times are seconds of the wall clock, passed in by the caller. Methods may be called from any thread.

    Args:
        seconds: the time for which a publisher is remembered after its last commit to a table.
        capacity: entries of publishers that may commit again.
        single_seconds: the time for which a single write is remembered.
        single_capacity: entries of single writes.
        per_principal: entries of either kind of one user; no bound on a server without users.
    """

    def __init__(
        self,
        seconds: float = LEDGER_SECONDS,
        capacity: int = 100_000,
        *,
        single_seconds: float = _SINGLE_SECONDS,
        single_capacity: int = 100_000,
        per_principal: int = 50_000,
    ) -> None:
        self._per_principal = per_principal
        self._lock = threading.Lock()
        self._lasting = _Shelf(seconds, capacity, seconds)
        self._single = _Shelf(min(seconds, single_seconds), single_capacity, min(seconds, _RETRY_SECONDS))
        self._names: dict[str, _Name] = {}
        self._find: Callable[[str], object] | None = None

    def watch(self, find: Callable[[str], object]) -> None:
        """Tie entries to the tables of ``find(name)``, which must not call the ledger."""
        self._find = find

    def last(self, publisher: str, table: str) -> int | None:
        """The last batch of the publisher's present epoch in ``table``, if any."""
        with self._lock:
            name = self._names.get(publisher)
            return None if name is None else self._last(_Key(publisher, table))

    def last_of(self, identity: Identity, table: str) -> int | None:
        """The last batch of the epoch of ``identity`` in ``table``, if any."""
        with self._lock:
            name = self._names.get(identity.publisher)
            if name is None or name.epoch != identity.epoch:
                return None
            return self._last(_Key(identity.publisher, table))

    def is_earlier(self, publisher: str, epoch: str | None) -> bool:
        """Whether ``epoch`` is refused, because a later one has the publisher's name."""
        with self._lock:
            name = self._names.get(publisher)
            return name is not None and epoch in name.earlier

    def check(self, identity: Identity, *, takeover: bool = False) -> None:
        """Raise FencedError unless ``identity`` may commit, or ``takeover`` allows it."""
        with self._lock:
            self._check(identity, takeover=takeover)

    def check_owner(self, publisher: str, principal: str) -> None:
        """Raise FencedError if the name belongs to another user than ``principal``."""
        with self._lock:
            self._check_owner(publisher, principal)

    def admit(self, identity: Identity, tables: Collection[str], now: float, *, takeover: bool = False) -> None:
        """Check that a commit of ``identity`` to ``tables`` can be recorded.

        Raises:
            FencedError: the name belongs to another user, or another epoch has it.
            LimitError: there is no room for another publisher.
        """
        with self._lock:
            self._expire(now)
            self._check(identity, takeover=takeover)
            shelf = self._shelf_of(identity.publisher)
            added = sum(_Key(identity.publisher, table) not in shelf.entries for table in tables)
            self._forget_until(shelf, now - shelf.spare_seconds, shelf.capacity - added)
            own = identity.principal
            if own and shelf.of_principals[own] + added > self._per_principal:
                self._make_room_of(shelf, own, now - shelf.spare_seconds, self._per_principal - added)
                if added and shelf.of_principals[own] + added > self._per_principal:
                    raise LimitError(
                        f"This server remembers {self._per_principal:,} publishers and tables of one caller "
                        f"(ledger_per_caller), and forgets one {_period(shelf.spare_seconds)} after its last commit. "
                        f"Use fewer publisher names, or try later."
                    )
            if added and len(shelf.entries) + added > shelf.capacity:
                raise LimitError(
                    f"This server remembers the batches of {shelf.capacity:,} publishers and tables "
                    f"(ledger_entries), and forgets one {_period(shelf.spare_seconds)} after its last "
                    "commit. Use fewer publisher names, or try later."
                )

    def entry(self, identity: Identity, table: str, batch: int, when: float) -> LedgerEntry:
        """Make the entry of an admitted commit."""
        with self._lock:
            name = self._names.get(identity.publisher)
            earlier = () if name is None else name.earlier
            if name is not None and name.epoch != identity.epoch:
                earlier = (*earlier, name.epoch)[-_EARLIER:]
            released = name is not None and name.released
        return LedgerEntry(
            identity.publisher, identity.epoch, table, batch, when, identity.principal, earlier, released
        )

    def advance(self, entry: LedgerEntry, committed_to: object = None) -> None:
        """Record a commit.

        The number of an epoch never decreases. Earlier epochs of the publisher are refused from then on.

        Args:
            entry: the entry of the commit.
            committed_to: the table that has the rows; nothing is recorded if it was dropped meanwhile. ``None``: the
                table of that name.
        """
        with self._lock:
            present = self._present(entry.table)
            if committed_to is not None and committed_to is not present:
                return
            self._put(entry, present)

    def pass_on(self, before: object, after: object, exchange: Callable[[], None]) -> None:
        """Make commits to the table ``before`` count for ``after``.

        Calls ``exchange()``, which puts ``after`` in its place. Both happen atomically for callers of the ledger.
        Commits to a table that was dropped before count no longer.
        """
        with self._lock:
            moved = [
                (shelf, key)
                for shelf in (self._lasting, self._single)
                for key, held in shelf.entries.items()
                if held.table is before and before is self._present(key.table)
            ]
            exchange()
            for shelf, key in moved:
                shelf.entries[key] = shelf.entries[key]._replace(table=after)

    def release(self, is_wanted: Callable[[str], object]) -> list[str]:
        """Take the names for which ``is_wanted(name)`` is true from their users.

        The next user that commits under one gets it, and goes on behind its last batches.

        Returns:
            The names that belonged to a user.
        """
        with self._lock:
            found = {key: name for key, name in self._names.items() if name.principal and is_wanted(key)}
            for name in found.values():
                name.principal, name.released = "", True
            return sorted(found)

    def forget_table(self, table: str, dropped: object = None) -> None:
        """Forget a dropped ``table``: a later table of that name starts without commits.

        Args:
            table: its name.
            dropped: the table itself; entries of another table of that name are kept. ``None``: any table of that name.
        """
        with self._lock:
            for shelf in (self._lasting, self._single):
                for key in [key for key in shelf.entries if key.table == table]:
                    if dropped is None or shelf.entries[key].table is dropped:
                        self._remove(shelf, key)

    def expire(self, now: float) -> None:
        """Forget entries that are too old. O(1) if there are none."""
        with self._lock:
            self._expire(now)

    def entries(self) -> dict[tuple[str, str], int]:
        """The last batches of the present epochs, by publisher and table."""
        with self._lock:
            return {(key.publisher, key.table): held.entry.batch for key, held in self._present_entries()}

    def export(self) -> list[tuple[Table, dict[str, Any]]]:
        """All entries, each with its table, for a checkpoint and :meth:`restore`.

        Each has the user to whom its publisher's name belongs by now.
        """
        with self._lock:
            return [
                (held.table, {**held.entry.to_fields(), "principal": self._names[key.publisher].principal})
                for key, held in self._present_entries()
                if isinstance(held.table, Table)
            ]

    def restore(self, entries: Iterable[tuple[Table, Mapping[str, Any]]]) -> None:
        """Add entries of :meth:`export`, or of later commits.

        Later entries replace earlier ones of the same table. Entries of ended epochs are left out, in any order.
        """
        found = [(table, LedgerEntry.of_fields(table.name, fields)) for table, fields in entries]
        ended = {(entry.publisher, epoch) for _, entry in found for epoch in entry.earlier}
        with self._lock:
            for table, entry in sorted(found, key=lambda pair: pair[1].when):
                if (entry.publisher, entry.epoch) not in ended:
                    self._put(entry, table)

    # The lock is held.

    def _last(self, key: _Key) -> int | None:
        held = self._shelf_of(key.publisher).entries.get(key)
        return held.entry.batch if held is not None and held.table is self._present(key.table) else None

    def _check_owner(self, publisher: str, principal: str) -> _Name | None:
        name = self._names.get(publisher)
        if name is not None and name.principal not in ("", principal):
            raise FencedError(
                f"The publisher name {publisher!r} belongs to another user of this server. Use another name, or have "
                f"the server's operator release this one (release_publishers)."
            )
        return name

    def _check(self, identity: Identity, *, takeover: bool) -> None:
        name = self._check_owner(identity.publisher, identity.principal)
        if name is None or identity.epoch == name.epoch:
            return
        called = repr(identity.publisher)
        wanted, present = _words(identity.epoch), _words(name.epoch)
        if identity.epoch in name.earlier:
            raise FencedError(
                f"Publisher {called} was taken over by {present}; {wanted} came before it, and commits no more. Stop "
                "it, or begin a new epoch that takes the name over."
            )
        if not takeover:
            raise FencedError(
                f"Publisher {called} has {present} at present, and this is {wanted} (a Spark query with a new "
                "checkpoint is a new epoch). Use another publisher name, or take this one over with takeover=True "
                "(--takeover): batches then count from 0 again, and the epoch before is refused."
            )

    def _put(self, entry: LedgerEntry, table: object) -> None:
        shelf, key = self._shelf_of(entry.publisher), _Key(entry.publisher, entry.table)
        name = self._names.get(entry.publisher)
        if name is not None and name.epoch != entry.epoch:  # the name is taken over
            for ended in name.tables:
                shelf.pop(_Key(entry.publisher, ended))
            name = None
        if name is None:
            name = self._names[entry.publisher] = _Name(entry.principal, entry.epoch)
        if entry.principal and not name.principal:
            name.principal, name.released = entry.principal, False
        if len(entry.earlier) >= len(name.earlier):
            name.earlier = entry.earlier
        before = shelf.entries.get(key)
        if before is not None and before.table is table and before.entry.batch > entry.batch:
            entry = replace(entry, batch=before.entry.batch)
        shelf.put(key, _Held(entry, table))
        name.tables.add(entry.table)

    def _present_entries(self) -> list[tuple[_Key, _Held]]:
        return [
            (key, held)
            for shelf in (self._lasting, self._single)
            for key, held in shelf.entries.items()
            if held.table is self._present(key.table)
        ]

    def _expire(self, now: float) -> None:
        for shelf in (self._lasting, self._single):
            self._forget_until(shelf, now - shelf.seconds, 0)
            oldest = next(iter(shelf.entries.values()), None)
            if oldest is not None and oldest.entry.when > now:
                # The clock was set back. Commits of the future would keep all later entries from being forgotten.
                for key, held in shelf.entries.items():
                    if held.entry.when > now:
                        shelf.entries[key] = held._replace(entry=replace(held.entry, when=now))

    def _forget_until(self, shelf: _Shelf, when: float, size: int) -> None:
        """Forget the oldest entries, down to ``size``, but none after ``when``."""
        while len(shelf.entries) > size:
            key, held = next(iter(shelf.entries.items()))
            if held.entry.when > when:
                return
            self._remove(shelf, key)

    def _make_room_of(self, shelf: _Shelf, principal: str, when: float, size: int) -> None:
        """Forget one user's oldest entries, down to ``size``, but none after ``when``."""
        own, late = shelf.of_principals[principal], list[_Key]()
        for key, held in shelf.entries.items():
            if held.entry.when > when or own - len(late) <= size:
                break
            if held.entry.principal == principal:
                late.append(key)
        for key in late:
            self._remove(shelf, key)

    def _remove(self, shelf: _Shelf, key: _Key) -> None:
        if not shelf.pop(key):
            return
        name = self._names[key.publisher]
        name.tables.discard(key.table)
        if not name.tables:
            del self._names[key.publisher]

    def _present(self, table: str) -> object:
        return None if self._find is None else self._find(table)

    def _shelf_of(self, publisher: str) -> _Shelf:
        return self._single if is_single_write(publisher) else self._lasting


def _words(epoch: str | None) -> str:
    return "no epoch" if epoch is None else f"epoch {epoch!r}"


def _period(seconds: float) -> str:
    """``seconds`` in the largest unit of which they have one, such as ``30 days``."""
    size, unit = next((one for one in _UNITS if seconds >= one[0]), (1, "second"))
    number = f"{seconds / size:,.3g}"
    return f"{number} {unit}{'' if number == '1' else 's'}"
