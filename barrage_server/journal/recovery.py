"""Recovery of the tables of a data directory from checkpoint and journal."""

from __future__ import annotations

import json
import logging
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa

from barrage_server.engine import UpdateGraph
from barrage_server.engine.kinds import make_table
from barrage_server.engine.restorable import RestorableTable
from barrage_server.errors import JournalError, TableFailedError
from barrage_server.journal.checkpoint import Checkpoint, load_checkpoint, restored_rows
from barrage_server.journal.content import (
    CycleRecord,
    LedgerRecord,
    NameHolder,
    TableRecord,
    VoidRecord,
    decode_cycle,
    decode_void,
)
from barrage_server.journal.files import NEW, Directory
from barrage_server.journal.json_form import MALFORMED, whole_number
from barrage_server.journal.lineage import LINEAGE, last_segment
from barrage_server.journal.record import Record, RecordType
from barrage_server.journal.segments import REPAIR, era_of, read_journal

__all__ = ["IDENTITY", "Recovered", "naming", "read_identity", "recover", "write_identity"]

logger = logging.getLogger("barrage_server.journal")

IDENTITY: Final = "barrage.json"
"""The file with the identity of the directory."""

FORMAT_VERSION: Final = 1

Parts: TypeAlias = Iterator[list[pa.Array]]
"""Rows of a table, in parts: an array for each column."""


@dataclass(slots=True)
class Recovered:
    """The content of a data directory.

    Attributes:
        step: its last cycle.
        number: the number of the next record.
        next_id: the id of the next new table.
        tables: the tables by id.
        records: the record of each table, by id.
        ledger: the last batch of each publisher and table.
        checkpoint: the checkpoint from which recovery began.
        cycles: the number of repeated cycles.
        nbytes: bytes of the journal since the checkpoint.
        left_out: the changes that repeated cycles have failed to make. They must be recorded: the next start may repeat
            these cycles without a failure.
        torn: a sentence about the journal's torn end; empty if it has none.
        era: the id of the era of the last segment; empty if it is unknown.
    """

    step: int = 0
    number: int = 0
    next_id: int = 1
    tables: dict[int, RestorableTable] = field(default_factory=dict)
    records: dict[int, TableRecord] = field(default_factory=dict)
    ledger: dict[tuple[int, str], LedgerRecord] = field(default_factory=dict)
    checkpoint: Checkpoint | None = None
    cycles: int = 0
    nbytes: int = 0
    left_out: list[VoidRecord] = field(default_factory=list)
    torn: str = ""
    era: str = ""


class _FailedCycle(Exception):  # noqa: N818
    """A repeated cycle failed, as it did when it first ran."""

    def __init__(self, number: int, table: int) -> None:
        super().__init__()
        self.number, self.table = number, table


def write_identity(root: Directory, identity: str) -> None:
    """Make ``root`` the data directory ``identity``."""
    root.replace(IDENTITY, [json.dumps({"version": FORMAT_VERSION, "directory": identity}).encode()])


def read_identity(root: Directory, path: Path | None = None) -> str | None:
    """The identity of a data directory; ``None`` for an empty folder.

    Args:
        root: the data directory.
        path: where it is, for errors.

    Raises:
        JournalError: the folder has other files, or a format of another version.
    """
    names = root.names()
    if IDENTITY not in names:
        others = [name for name in names if name not in ("lock", "lost+found", IDENTITY + NEW)]
        if others:
            raise JournalError(
                f"The data directory has no {IDENTITY}, and it is not empty: there is {others[0]}. Name an empty "
                f"folder, or the data directory of a server."
            )
        return None
    try:
        found = json.loads(bytes(root.read(IDENTITY)))
        version, identity = whole_number(found["version"]), str(found["directory"])
    except OSError:
        raise
    except MALFORMED as error:
        where = IDENTITY if path is None else str(path / IDENTITY)
        raise JournalError(
            f"The file {where!r} is damaged: it has no version and identity of a data directory. Restore this file, or "
            f"the data directory, from a backup."
        ) from error
    if version != FORMAT_VERSION:
        raise JournalError(f"The data directory has the format {version}; this server reads {FORMAT_VERSION}.")
    return identity


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the data directory ``path`` in a JournalError of the ``with`` body."""
    try:
        yield
    except JournalError as error:
        told = str(error)
        text = told.replace(f"'{REPAIR}'", f"'{REPAIR} {shlex.quote(str(path))}'")
        if text == told and f"{path}/" not in told:
            text = f"Data directory {path}: {told}"
        raise JournalError(text, error.segment, error.offset) from error


def recover(
    root: Directory,
    identity: str,
    graph: UpdateGraph,
    *,
    repair: bool = True,
    watch: Callable[[RestorableTable], object] = lambda _table: None,
    ahead: Callable[[Parts], Parts] = iter,
) -> Recovered:
    """Restore the tables of a data directory in an empty graph, row keys included.

    Args:
        root: the data directory.
        identity: its identity.
        graph: the graph of the tables.
        repair: whether to cut a torn end off the journal, and to remove the remains of checkpoints.
        watch: called with each table as it was in the checkpoint, or when it was made, before cycles change it.
        ahead: returns the same parts of a checkpoint, and may read the next one ahead.

    Raises:
        JournalError: checkpoint or journal are damaged; the text names file and place.
    """
    failed: set[tuple[int, int]] = set()
    while True:
        try:
            return _Recovery(root, identity, graph, failed, watch, ahead).run(repair=repair)
        except _FailedCycle as fault:
            if (fault.number, fault.table) in failed:
                raise JournalError(f"Record {fault.number} of the journal cannot be repeated.") from fault
            failed.add((fault.number, fault.table))


class _Recovery:
    """One attempt at a recovery."""

    def __init__(
        self,
        root: Directory,
        identity: str,
        graph: UpdateGraph,
        failed: Iterable[tuple[int, int]],
        watch: Callable[[RestorableTable], object],
        ahead: Callable[[Parts], Parts],
    ) -> None:
        self._root = root
        self._identity = identity
        self._graph = graph
        self._failed = frozenset(failed)
        self._watch = watch
        self._ahead = ahead
        self._found = Recovered()
        self._dropped: dict[int, TableRecord] = {}
        self._holders: dict[str, NameHolder] = {}  # of the name of each publisher

    def run(self, *, repair: bool) -> Recovered:
        """Load the checkpoint, and repeat the cycles of the journal."""
        found = self._found
        state = self._root.folder("state")
        found.checkpoint = load_checkpoint(state, self._identity, repair=repair)
        if found.checkpoint is not None:
            self._load(state.folder(found.checkpoint.name), found.checkpoint)
        folder, torn = self._root.folder("journal"), list[str]()
        is_new = LINEAGE not in self._root.names()  # written once a segment is there
        last = last_segment(self._root, self._identity)
        reading = read_journal(
            folder, self._identity, found.number, last=last, is_new=is_new, repair=repair, torn=torn.append
        )
        records = list(reading)
        found.torn = " ".join(torn)
        voids = {void.cycle: void for void in (decode_void(one.body) for one in records if one.type == RecordType.VOID)}
        for record in records:
            found.number = record.number + 1
            found.nbytes += record.end - record.offset
            if record.type == RecordType.CYCLE:
                void = voids.get(record.number) or VoidRecord(record.number, frozenset(), frozenset())
                lost = frozenset(table for number, table in self._failed if number == record.number)
                try:
                    self._repeat(record, void, lost)
                except JournalError:
                    raise
                except MALFORMED as error:
                    raise JournalError(
                        f"Record {record.number} of the journal cannot be repeated: {type(error).__name__}: {error}"
                    ) from error
            elif record.type == RecordType.SEGMENT:
                found.era = era_of(record)
            elif record.type != RecordType.VOID:
                raise JournalError(f"Record {record.number} of the journal is of an unknown type, {record.type}.")
        if any(one.table not in found.tables for one in found.ledger.values()):
            raise JournalError("The data directory has a committed batch of a table that it does not have.")
        return found

    def _load(self, folder: Directory, checkpoint: Checkpoint) -> None:
        found = self._found
        found.step, found.number, found.next_id = checkpoint.step, checkpoint.number, checkpoint.next_id
        try:
            for one in checkpoint.ledger:
                self._commit(one)
        except MALFORMED as error:
            raise JournalError(
                f"A committed batch of checkpoint {checkpoint.number} cannot be read: {type(error).__name__}: {error}. "
                f"Restore the data directory from a backup."
            ) from error
        for saved in checkpoint.tables:
            try:
                table = self._make(saved.table)
                parts = self._ahead(restored_rows(folder, saved))
                table.restore(parts, saved.row_set, saved.next_key, saved.step)
            except JournalError:
                raise
            except MALFORMED as error:
                raise JournalError(f"Table '{saved.table.name}' does not fit its checkpoint: {error}") from error
            self._watch(table)

    def _make(self, record: TableRecord) -> RestorableTable:
        table = make_table(self._graph, record.name, record.schema, record.spec)
        assert isinstance(table, RestorableTable)
        self._found.tables[record.id], self._found.records[record.id] = table, record
        return table

    def _repeat(self, record: Record, void: VoidRecord, lost: frozenset[int]) -> None:
        """Repeat one cycle.

        Args:
            record: the record of the cycle.
            void: the changes that the cycle had failed to make.
            lost: the ids of tables in which the cycle fails now, and which are left out.
        """
        found = self._found
        cycle = decode_cycle(record.body, self._record_of)
        if lost:
            void = VoidRecord(record.number, void.tables | lost, void.notes | _notes_with(cycle, lost))
            found.left_out.append(void)
        changes = _Notes(cycle, void.notes)
        for made in cycle.made:  # also those that were not served in the end, for their operations
            self._watch(self._make(made))
            found.next_id = max(found.next_id, made.id + 1)
        self._graph.rewind_to(cycle.step - 1)
        try:
            with self._graph.cycle():
                for number, operation in cycle.rows:
                    table = found.tables.get(number)
                    if table is not None and number not in void.tables:
                        self._graph.stage(table, operation)
        except TableFailedError as error:
            failed = next((number for number, table in found.tables.items() if table.failure is not None), None)
            if failed is None:
                raise
            logger.warning("table %s: record %d fails again and is left out: %s", failed, record.number, error)
            raise _FailedCycle(record.number, failed) from error
        found.step = max(found.step, self._graph.step)
        found.cycles += 1
        # The lists of the record have no common order, and need none: a commit names its table by id, so it came before
        # the drop of this table, or before the table was replaced.
        passed: dict[int, int] = {}
        for before, after in reversed(changes.exchanged):
            passed[before] = passed.get(after, after)
        if passed:
            moved = [LedgerRecord(passed.get(one.table, one.table), one.entry) for one in found.ledger.values()]
            found.ledger = {entry.key: entry for entry in moved}
        for one in changes.ledger:
            self._commit(LedgerRecord(passed.get(one.table, one.table), one.entry))
        self._forget({*changes.dropped, *passed, *changes.unmade})

    def _commit(self, one: LedgerRecord) -> None:
        """Record a commit.

        A new holder of a publisher's name removes all commits of the holders before, also to tables without a commit of
        the new one. It is a new epoch, or has got the name after the server had forgotten the holder before by age,
        which the journal does not say: it is another user then, or refuses other epochs. One that got a name which was
        released goes on behind the commits before.
        """
        ledger, holder = self._found.ledger, one.holder
        before = self._holders.get(one.publisher, holder)
        if before != holder:
            user = before.principal if one.is_released else ""  # no user: the name had none so far
            is_same = before == holder._replace(principal=user)
            for key in [key for key, other in ledger.items() if other.publisher == one.publisher]:
                if is_same:
                    ledger[key] = ledger[key].held_by(holder.principal)
                else:
                    del ledger[key]
        self._holders[one.publisher] = holder
        ledger[one.key] = one

    def _forget(self, gone: set[int]) -> None:
        if not gone:
            return
        found = self._found
        for number in gone:
            found.tables.pop(number, None)
            record = found.records.pop(number, None)
            if record is not None:
                self._dropped[number] = record
        found.ledger = {key: entry for key, entry in found.ledger.items() if entry.table not in gone}

    def _record_of(self, number: int) -> TableRecord:
        record = self._found.records.get(number) or self._dropped.get(number)
        if record is None:
            raise JournalError(f"The journal names a table, {number}, that was never made.")
        return record


def _notes_with(cycle: CycleRecord, lost: frozenset[int]) -> frozenset[int]:
    """The numbers of the notes that a cycle does not do when ``lost`` tables fail.

    These are the notes of all commits that write to one of these tables.
    """
    tables_of: dict[tuple[str, str | None, int], set[int]] = {}
    for one in cycle.ledger:
        tables_of.setdefault(one.commit, set()).add(one.table)
    commits = {commit for commit, tables in tables_of.items() if not lost.isdisjoint(tables)}
    tables = lost.union(*(tables_of[commit] for commit in commits))
    is_void = [
        *(one.id in tables for one in cycle.made),
        *(False for _ in cycle.dropped),
        *(after in tables for _, after in cycle.exchanged),
        *(one.commit in commits for one in cycle.ledger),
    ]
    return frozenset(number for number, void in enumerate(is_void) if void)


class _Notes:
    """The notes of a cycle that have happened, and tables that were never served."""

    def __init__(self, cycle: CycleRecord, void: frozenset[int]) -> None:
        counted = [*cycle.made, *cycle.dropped, *cycle.exchanged, *cycle.ledger]
        held = [number not in void for number in range(len(counted))]
        first = len(cycle.made)
        second = first + len(cycle.dropped)
        third = second + len(cycle.exchanged)
        self.unmade = [table.id for table, is_held in zip(cycle.made, held, strict=False) if not is_held]
        # a table in the place of another one has two entries, and earlier servers took back the second one alone
        exchanged = zip(cycle.exchanged, held[second:third], strict=True)
        self.unmade += [after for (_, after), is_held in exchanged if not is_held]
        self.dropped = [one for one, is_held in zip(cycle.dropped, held[first:], strict=False) if is_held]
        self.exchanged = [one for one, is_held in zip(cycle.exchanged, held[second:], strict=False) if is_held]
        self.ledger = [one for one, is_held in zip(cycle.ledger, held[third:], strict=False) if is_held]
