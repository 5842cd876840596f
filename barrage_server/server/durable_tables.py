"""The tables in a data directory: their numbers, and records of their changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from barrage_server.engine import Table
from barrage_server.engine.append import BlinkTable
from barrage_server.engine.cycle_log import CycleNote
from barrage_server.engine.restorable import RestorableTable
from barrage_server.journal.checkpoint import Unsaved
from barrage_server.journal.content import CycleRecord, LedgerRecord, TableRecord
from barrage_server.journal.recovery import Recovered
from barrage_server.publish.notes import BatchCommitted, TableDropped, TableExchanged, TableMade

__all__ = ["DurableTables", "is_durable"]


def is_durable(table: Table) -> bool:
    """Whether a table is of a kind that can be durable."""
    return isinstance(table, RestorableTable) and not isinstance(table, BlinkTable)


class DurableTables:
    """The tables in a data directory, by number.

    The notes of the last cycle can be taken back.

    Args:
        recovered: the recovered content of the directory.

    Attributes:
        next_id: the number of the next table.
        records: the records of tables in the journal and the checkpoints, by number; some tables are gone.

    """

    def __init__(self, recovered: Recovered) -> None:
        self.next_id = recovered.next_id
        self.records = dict(recovered.records)
        self._ids: dict[Table, int] = {table: number for number, table in recovered.tables.items()}
        self._undo: dict[CycleNote, Callable[[], object]] = {}
        self._numbers: dict[CycleNote, list[int]] = {}  # the numbers of its entries in the record
        self._removed: dict[Table, int] = {}  # by the last cycle

    def __contains__(self, table: Table) -> bool:
        return table in self._ids

    @property
    def nbytes(self) -> int:
        """Bytes of the tables."""
        return sum(table.nbytes for table in tuple(self._ids))

    def id_of(self, table: Table) -> int | None:
        """The number of ``table``; ``None`` if it is not in the directory."""
        return self._ids.get(table)

    def ids_of(self, tables: Iterable[Table]) -> frozenset[int]:
        """The numbers of all ``tables`` that are in the directory.

        Those that the last cycle has removed are included.
        """
        known = self._removed | self._ids if self._removed else self._ids
        return frozenset(known[table] for table in tables if table in known)

    def numbers_of(self, notes: Iterable[CycleNote]) -> frozenset[int]:
        """The numbers of the entries that ``notes`` have in the record of the last cycle."""
        return frozenset(number for note in notes for number in self._numbers.get(note, ()))

    def has_record(self, note: CycleNote) -> bool:
        """Whether the journal gets an entry for ``note``."""
        if isinstance(note, TableMade):
            return note.is_durable
        if isinstance(note, TableExchanged):
            return note.is_durable or note.before in self._ids
        return isinstance(note, TableDropped | BatchCommitted) and note.table in self._ids

    def record(self, step: int, staged: Mapping[Table, Sequence[Any]], notes: Sequence[CycleNote]) -> CycleRecord:
        """The record of the cycle ``step``; from now on its notes can be taken back.

        Args:
            step: the step of the cycle.
            staged: staged operations by table; tables that are not in the directory are ignored.
            notes: the notes of the cycle.

        """
        self._undo.clear()
        self._numbers.clear()
        self._removed.clear()
        record = CycleRecord(step)
        if notes:
            self._take_notes(record, notes)
        for table, operations in staged.items():
            # rows of a table that this cycle removes: it stays if the removal fails
            number = self._ids.get(table, self._removed.get(table))
            if number is not None:
                record.rows.extend((number, operation) for operation in operations)
        return record

    def take_back(self, notes: Collection[CycleNote] | None = None) -> None:
        """Undo these notes of the last cycle; ``None``: all of them."""
        for note in tuple(self._undo) if notes is None else notes:
            undo = self._undo.pop(note, None)
            if undo is not None:
                undo()

    def unsaved(self) -> list[Unsaved]:
        """All tables with their present content, for a checkpoint."""
        return [_unsaved(table, self.records[number]) for table, number in self._ids.items()]

    def ledger(self, entries: Iterable[tuple[Table, Mapping[str, Any]]]) -> tuple[LedgerRecord, ...]:
        """The records of the ledger's entries whose tables are in the directory."""
        return tuple(LedgerRecord(self._ids[table], entry) for table, entry in entries if table in self._ids)

    def forget_others(self, saved: Iterable[Unsaved]) -> None:
        """Forget records of tables that are neither here nor in ``saved``."""
        for number in set(self.records) - {one.table.id for one in saved} - set(self._ids.values()):
            self.records.pop(number, None)

    def _take_notes(self, record: CycleRecord, notes: Sequence[CycleNote]) -> None:
        """Add ``notes`` to ``record``, and keep how to undo each."""
        made: list[CycleNote] = []
        dropped: list[CycleNote] = []
        exchanged: list[CycleNote] = []
        ledger: list[CycleNote] = []
        for note in notes:
            if not self.has_record(note):
                continue
            if isinstance(note, TableMade):
                record.made.append(self._add(note.table, note))
                made.append(note)
            elif isinstance(note, TableDropped):
                record.dropped.append(self._remove(note.table, note))
                dropped.append(note)
            elif isinstance(note, TableExchanged):
                before = self._ids.get(note.before)
                record.made.append(self._add(note.table, note))
                made.append(note)
                if before is not None:
                    record.exchanged.append((before, self._ids[note.table]))
                    self._remove(note.before, note)
                    exchanged.append(note)
            elif isinstance(note, BatchCommitted):
                record.ledger.append(LedgerRecord(self._ids[note.table], note.entry))
                ledger.append(note)
        for number, note in enumerate([*made, *dropped, *exchanged, *ledger]):
            self._numbers.setdefault(note, []).append(number)  # an exchange has two entries

    def _add(self, table: Table, note: TableMade | TableExchanged) -> TableRecord:
        record = TableRecord(self.next_id, table.name, table.schema, note.spec)
        self.next_id += 1
        self.records[record.id] = record
        self._ids[table] = record.id

        def undo() -> None:
            self._ids.pop(table, None)
            self.records.pop(record.id, None)

        self._undo[note] = undo
        return record

    def _remove(self, table: Table, note: CycleNote) -> int:
        number = self._removed[table] = self._ids.pop(table)
        earlier = self._undo.get(note)

        def undo() -> None:
            self._ids[table] = number
            if earlier is not None:
                earlier()

        self._undo[note] = undo
        return number


def _unsaved(table: Table, record: TableRecord) -> Unsaved:
    assert isinstance(table, RestorableTable)
    version = table.version
    if table.failure is None:
        return Unsaved(record, version, table.next_key)
    # A failed table may have a half-changed ``next_key``. Keys above the last one in use were never published.
    return Unsaved(record, version, version.row_set.last_key + 1 if version.row_set else 0)
