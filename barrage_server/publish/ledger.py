"""The last committed batch of each publisher, by which a replayed batch is recognised."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from barrage_server.engine import Table
from barrage_server.wire.protocol import is_single_write

__all__ = ["Ledger"]


class _Entry(NamedTuple):
    batch: int
    table: object  # the table itself, not its name: a later table of that name is another one


_Entries = OrderedDict[tuple[str, str], _Entry]


class Ledger:
    """The last committed batch per publisher and table.

    Batch numbers of one publisher only grow (Spark counts its micro-batches), so one number decides for every batch
    whether it is committed.

    Entries belong to a table, not to its name: after :meth:`watch` was called, commits to a dropped table do not count
    for a later table of that name.

    A publisher does not announce its end: beyond ``capacity`` entries, the least recently committed are evicted.
    Publishers that write once, under a name of their own, are counted apart, so that they never evict a streaming
    query.

    Args:
        capacity: entries of publishers that may commit again.
        single_capacity: entries of publishers that write once; enough for those that still repeat their commit.

    """

    def __init__(self, capacity: int = 100_000, single_capacity: int = 10_000) -> None:
        self._lock = threading.Lock()
        self._lasting: _Entries = OrderedDict()
        self._single: _Entries = OrderedDict()
        self._capacities = (capacity, single_capacity)
        self._find: Callable[[str], object] = lambda _: None

    def watch(self, find: Callable[[str], object]) -> None:
        """Tie entries to the tables that ``find`` returns by name; it must not call the ledger."""
        self._find = find

    def last(self, publisher: str, table: str) -> int | None:
        """The last batch that ``publisher`` committed to ``table``; ``None`` when there is none."""
        with self._lock:
            entry = self._entries_of(publisher).get((publisher, table))
            return entry.batch if entry is not None and entry.table is self._find(table) else None

    def has(self, publisher: str, table: str, batch: int) -> bool:
        """Whether ``batch`` was committed before."""
        last = self.last(publisher, table)
        return last is not None and batch <= last

    def advance(self, publisher: str, table: str, batch: int, committed_to: object = None) -> None:
        """Record that ``batch`` is committed. The number of a publisher never decreases.

        Args:
            publisher: the publisher that committed it.
            table: the name of the table.
            batch: its number.
            committed_to: the table that has the rows; nothing is recorded if it was dropped meanwhile. ``None``: the
                table of that name.

        """
        with self._lock:
            present = self._find(table)
            if committed_to is not None and committed_to is not present:
                return
            entries, key = self._entries_of(publisher), (publisher, table)
            before = entries.get(key)
            if before is not None and before.table is present:
                batch = max(batch, before.batch)
            entries[key] = _Entry(batch, present)
            entries.move_to_end(key)
            while len(entries) > self._capacities[entries is self._single]:
                entries.popitem(last=False)

    def pass_on(self, before: object, after: object, exchange: Callable[[], None]) -> None:
        """Make commits to the table ``before`` count for ``after``, which ``exchange()`` puts in its place.

        Both happen atomically for callers of the ledger.
        """
        with self._lock:
            exchange()
            for entries in (self._lasting, self._single):
                for key, entry in entries.items():
                    if entry.table is before:
                        entries[key] = _Entry(entry.batch, after)

    def forget_table(self, table: str, dropped: object = None) -> None:
        """Forget a dropped ``table``: a later table of that name starts without commits.

        Args:
            table: its name.
            dropped: the table itself; entries of another table of that name are kept. ``None``: any.

        """
        with self._lock:
            for entries in (self._lasting, self._single):
                for key in [key for key in entries if key[1] == table]:
                    if dropped is None or entries[key].table is dropped:
                        del entries[key]

    def entries(self) -> dict[tuple[str, str], int]:
        """A copy of all entries: (publisher, table) -> last batch."""
        with self._lock:
            both = [*self._lasting.items(), *self._single.items()]
            return {key: entry.batch for key, entry in both if entry.table is self._find(key[1])}

    def export(self) -> list[tuple[Table, dict[str, Any]]]:
        """All entries, each with its table, as :meth:`restore` takes them; for a checkpoint."""
        with self._lock:
            both = [*self._lasting.items(), *self._single.items()]
            return [
                (entry.table, {"publisher": key[0], "batch": entry.batch})
                for key, entry in both
                if isinstance(entry.table, Table) and entry.table is self._find(key[1])
            ]

    def restore(self, entries: Iterable[tuple[Table, Mapping[str, Any]]]) -> None:
        """Take over entries of :meth:`export`, or of commits, in their order."""
        for table, entry in entries:
            self.advance(str(entry["publisher"]), table.name, int(entry["batch"]), table)

    def _entries_of(self, publisher: str) -> _Entries:
        return self._single if is_single_write(publisher) else self._lasting
