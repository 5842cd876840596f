"""The tables in a data directory: their numbers there, and the records of what happens to them."""

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
    """The tables in a data directory by their numbers. The notes of the last cycle can be taken back.

    Args:
        recovered: what the directory had.

    Attributes:
        next_id: the number of the next table.
        records: what the journal and the checkpoints say of tables, by number; of some that are gone, too.

    """

    def __init__(self, recovered: Recovered) -> None:
        self.next_id = recovered.next_id
        self.records = dict(recovered.records)
        self._ids: dict[Table, int] = {table: number for number, table in recovered.tables.items()}
        self._undo: dict[CycleNote, Callable[[], object]] = {}
        self._numbers: dict[CycleNote, list[int]] = {}  # of its entries

    def __contains__(self, table: Table) -> bool:
        return table in self._ids

    def id_of(self, table: Table) -> int | None:
        """The number of ``table``; ``None`` for one that is not in the directory."""
        return self._ids.get(table)

    def ids_of(self, tables: Iterable[Table]) -> frozenset[int]:
        """The numbers of those of ``tables`` that are in the directory."""
        return frozenset(self._ids[table] for table in tables if table in self._ids)

    def numbers_of(self, notes: Iterable[CycleNote]) -> frozenset[int]:
        """The numbers of the entries that ``notes`` have in the record of the last cycle."""
        return frozenset(number for note in notes for number in self._numbers.get(note, ()))

    def has_record(self, note: CycleNote) -> bool:
        """Whether ``note`` is written down."""
        if isinstance(note, TableMade):
            return note.is_durable
        if isinstance(note, TableExchanged):
            return note.is_durable or note.before in self._ids
        return isinstance(note, TableDropped | BatchCommitted) and note.table in self._ids

    def record(self, step: int, staged: Mapping[Table, Sequence[Any]], notes: Sequence[CycleNote]) -> CycleRecord:
        """What the cycle ``step`` is about to do with the tables here. Its notes are those that can be taken back."""
        self._undo.clear()
        self._numbers.clear()
        record = CycleRecord(step)
        if notes:
            self._take_notes(record, notes)
        for table, operations in staged.items():
            number = self._ids.get(table)
            if number is not None:
                record.rows.extend((number, operation) for operation in operations)
        return record

    def take_back(self, notes: Collection[CycleNote] | None = None) -> None:
        """Be as before these notes of the last cycle; ``None``: all of them."""
        for note in tuple(self._undo) if notes is None else notes:
            undo = self._undo.pop(note, None)
            if undo is not None:
                undo()

    def unsaved(self) -> list[Unsaved]:
        """All tables with their content now, for a checkpoint."""
        return [_unsaved(table, self.records[number]) for table, number in self._ids.items()]

    def ledger(self, entries: Iterable[tuple[Table, Mapping[str, Any]]]) -> tuple[LedgerRecord, ...]:
        """The records of those entries of the ledger whose tables are here."""
        return tuple(LedgerRecord(self._ids[table], entry) for table, entry in entries if table in self._ids)

    def forget_others(self, saved: Iterable[Unsaved]) -> None:
        """Forget the records of tables that are neither here nor in the checkpoint of ``saved``."""
        for number in set(self.records) - {one.table.id for one in saved} - set(self._ids.values()):
            self.records.pop(number, None)

    def _take_notes(self, record: CycleRecord, notes: Sequence[CycleNote]) -> None:
        """Put ``notes`` into ``record``, and remember how to take each back."""
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
            self._numbers.setdefault(note, []).append(number)  # a table in the place of another one has two entries

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
        number = self._ids.pop(table)
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
    # What decides about row keys may be half changed. Keys above those that are used were never seen.
    return Unsaved(record, version, version.row_set.last_key + 1 if version.row_set else 0)
