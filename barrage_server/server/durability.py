"""The data directory of a server: journal and checkpoints of its update graph."""

from __future__ import annotations

import errno
import logging
import struct
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from barrage_server.arguments import shown
from barrage_server.engine import Table, UpdateGraph
from barrage_server.engine.cycle_log import CycleLog, CycleNote
from barrage_server.errors import InvalidRequestError, JournalError, ReadOnlyError
from barrage_server.journal.checkpoint import Checkpoint, save_checkpoint
from barrage_server.journal.content import (
    CycleRecord,
    VoidRecord,
    encode_cycle,
    encode_void,
)
from barrage_server.journal.files import MOST_AHEAD, Directory, DirectoryLock, OsDirectory, reason_of
from barrage_server.journal.lineage import read_lineage, write_lineage
from barrage_server.journal.record import RecordType
from barrage_server.journal.recovery import Recovered, naming, read_identity, recover, write_identity
from barrage_server.journal.segments import Journal, reserve_segment
from barrage_server.log import count
from barrage_server.process import start_thread
from barrage_server.server.durable_tables import DurableTables
from barrage_server.server.fsync import Fsync
from barrage_server.server.read_ahead import read_ahead
from barrage_server.server.resumption import new_era

__all__ = ["Durability"]

logger = logging.getLogger("barrage_server.server")

_INTERVAL_SECONDS: Final = 0.01
_LEAST_JOURNAL_BYTES: Final = 64 << 20
"""Bytes of the journal up to which no checkpoint is written."""
_UNUSABLE: Final = (
    errno.EACCES,
    errno.EPERM,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EROFS,
    errno.ELOOP,
    errno.ENAMETOOLONG,
)
"""Errors of a folder that last until the path or its permissions are changed."""
_TURN_SECONDS: Final = 0.5
"""Seconds between two looks at the length of the journal and at the file ``lock``."""
_RETRY_SECONDS: Final = 60.0
"""Seconds before the next attempt after a checkpoint could not be written."""
_MOST_JOURNAL: Final = 2
"""Bytes of the journal, as a multiple of the tables' bytes, beyond which publishers wait for a checkpoint."""
_MEASURED_BYTES: Final = 16 << 20
"""Bytes of the journal after which the tables are measured again: they may have shrunk, or were dropped."""
_ROOM_SECONDS: Final = 20.0
"""Longest wait of a publisher for a checkpoint. Clients wait 30 s for an answer, unless they are told otherwise."""
_NO_CHECKPOINT: Final = "no checkpoint could be written; the journal grows: %s"

Entries = Callable[[], Sequence[tuple[Table, Mapping[str, Any]]]]


class Durability(CycleLog):
    """The data directory of a server.

    Args:
        root: the data directory; an empty folder becomes one.
        graph: the update graph of the server, which has no tables yet.
        fsync: when changes reach the disk.
        watch: called with each recovered table, before the cycles of the journal are repeated.

    Attributes:
        recovered: the tables and the ledger that the directory had.
        identity: the identity of the directory.
        lineage: the starts of servers with the directory, this one last.

    Raises:
        JournalError: the directory is damaged, or is not a data directory.
        OSError: the directory cannot be read or written.

    """

    def __init__(
        self,
        root: Directory,
        graph: UpdateGraph,
        fsync: Fsync = Fsync.INTERVAL,
        watch: Callable[[Table], object] = lambda _table: None,
    ) -> None:
        self._root = root
        self._graph = graph
        self._fsync = fsync
        self._lock: DirectoryLock | None = None
        began = time.monotonic()
        self._open(graph, watch)
        self._log_recovery(time.monotonic() - began)
        self._entries: Entries = tuple
        self._failure: str | None = None
        self._changed = threading.Condition()
        self._files = threading.Lock()  # held while a segment is synced, completed, or closed
        self._synced = self._journal.number  # the first record that may not be on disk
        self._is_syncing = False  # a thread that waits for a record syncs, for the other waiting threads too
        self._closed = False
        self._is_shut = False  # the files are closed
        self._expects_checkpoint = False  # the thread that writes them runs, and its last attempt has not failed
        self._room = 0  # bytes of the journal that no publisher waits for, when the tables were measured last
        self._is_awaited = False  # a publisher waits for the next checkpoint
        self._lets_all_go = False  # publishers wait no more
        self._is_idle = False  # the syncing thread waits for a record
        self._pending: tuple[int, CycleRecord] | None = None  # the record whose cycle does not run yet
        works: list[Callable[[], None]] = [self._checkpoint_on]
        if fsync is Fsync.INTERVAL:
            works.append(self._sync_on)
        self._threads = [threading.Thread(target=work, name="barrage-journal", daemon=True) for work in works]

    @classmethod
    def of_folder(
        cls, path: Path, graph: UpdateGraph, fsync: Fsync, watch: Callable[[Table], object] = lambda _table: None
    ) -> Durability:
        """Open the data directory in the folder ``path`` for this process alone.

        A missing folder is made.

        Raises:
            InvalidRequestError: ``path`` is a file, or this process has no permission to use or make it.
            JournalError: the directory is damaged, or is not a data directory.
            AlreadyExistsError: another server uses it.
            ReadOnlyError: it cannot be written.

        """
        if path.exists() and not path.is_dir():
            raise InvalidRequestError(f"The data directory must be a folder, and {shown(str(path))} is a file.")
        try:
            root = OsDirectory(path)
            with naming(path):
                read_identity(root, path)  # a folder of something else gets no file
                lock = root.lock()
                try:
                    made = cls(root, graph, fsync, watch)
                except BaseException:
                    lock.close()
                    raise
        except OSError as error:
            text = f"The data directory {shown(str(path))} cannot be used: {reason_of(error)}."
            raise (InvalidRequestError if error.errno in _UNUSABLE else ReadOnlyError)(text) from error
        made._lock = lock
        return made

    def attach(self, entries: Entries) -> None:
        """Write every later cycle of the graph to the journal.

        Args:
            entries: returns the entries of the ledger in JSON, each with its table.

        """
        self._entries = entries
        self._graph.keep_log(self, self.recovered.step)

    def start(self) -> None:
        """Start to sync and to write checkpoints in the background.

        Raises:
            LimitError: this process can start no further thread.

        """
        for thread in self._threads:
            start_thread(thread)
        self._expects_checkpoint = True

    def keeps(self, table: Table) -> bool:
        """Whether ``table`` is in the data directory."""
        return table in self._tables

    def id_of(self, table: Table) -> int | None:
        """The number of ``table`` in the data directory; ``None`` if it is not in it."""
        return self._tables.id_of(table)

    @property
    def failure(self) -> str | None:
        """The reason why the journal cannot be written any more; ``None`` while it can."""
        return self._failure

    @property
    def nbytes(self) -> int:
        """Bytes of the journal since the last checkpoint, which a start repeats."""
        return self._journal.nbytes - self._saved_bytes

    @property
    def is_due(self) -> bool:
        """Whether the journal is long enough for a checkpoint."""
        before = 0 if self._checkpoint is None else self._checkpoint.nbytes
        return self.nbytes >= max(_LEAST_JOURNAL_BYTES, before)

    def close(self) -> None:
        """Sync the journal, and write no more."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        try:
            with self._files:
                self._is_shut = True
                if self._failure is None:
                    self._synced = self._journal.close()  # for threads that still wait for a record
        except OSError as error:
            logger.error("the journal could not be synced at the end: %s", reason_of(error))
        if self._lock is not None:
            self._lock.close()

    # CycleLog: called by the update graph.

    def check(self, table: Table) -> None:
        """Raise ReadOnlyError if ``table`` is durable and the journal cannot be written."""
        if self._failure is not None and table in self._tables:
            raise ReadOnlyError(f"Table '{table.name}' can be read only: {self._failure}")

    def concerns(self, tables: Collection[Table], notes: Sequence[CycleNote]) -> bool:
        """Whether the journal gets a record of any of these tables or notes."""
        return any(table in self._tables for table in tables) or any(map(self._tables.has_record, notes))

    def write(self, step: int, staged: Mapping[Table, Sequence[Any]], notes: Sequence[CycleNote]) -> int:
        """Append the record of the cycle ``step``, before it runs; return its position."""
        self._pending = None
        record = self._tables.record(step, staged, notes)
        if record.is_empty:
            return 0
        try:
            if self._failure is not None or self._closed:
                raise ReadOnlyError(f"Nothing durable can be changed: {self._obstacle}")
            body = encode_cycle(record, self._tables.records)
            self._pending = self._journal.number, record
            position = self._journal.append(RecordType.CYCLE, body)
        except OSError as error:
            self._tables.take_back(notes)
            self._fail(error)
            raise ReadOnlyError(f"Nothing durable can be changed: {self._obstacle}") from error
        except (pa.ArrowException, struct.error) as error:  # of the encoding: nothing was written
            self._tables.take_back(notes)
            raise InvalidRequestError(
                f"The journal cannot have these rows: {error}. Publish them in smaller batches."
            ) from error
        except BaseException:
            self._tables.take_back(notes)
            raise
        if self._is_idle:
            with self._changed:
                self._changed.notify_all()
        return position

    def ran(self) -> None:
        """Note that the cycle of the last record runs."""
        self._pending = None

    def take_back(self) -> None:
        """Append a void for the last record, if its cycle does not run."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        number, record = pending
        self._tables.take_back()
        if self._journal.number == number:
            return
        notes = len(record.made) + len(record.dropped) + len(record.exchanged) + len(record.ledger)
        tables = frozenset(table for table, _ in record.rows)
        self._append_void(VoidRecord(number, tables, frozenset(range(notes))))

    def void(self, position: int, tables: Collection[Table], notes: Collection[CycleNote]) -> int:
        """Append a void: tables and notes for which the cycle at ``position`` failed."""
        ids, numbers = self._tables.ids_of(tables), self._tables.numbers_of(notes)
        self._tables.take_back(notes)
        if not ids and not numbers:
            return position
        return self._append_void(VoidRecord(position, ids, numbers))

    def _append_void(self, record: VoidRecord) -> int:
        try:
            return self._journal.append(RecordType.VOID, encode_void(record))
        except OSError as error:
            self._fail(error)
            return record.cycle

    def wait(self, position: int) -> None:
        """Return when the record at ``position`` is as durable as ``fsync`` promises.

        The journal then has no more than twice the bytes of the tables, unless checkpoints fail or take long: a
        publisher waits 20 seconds for the next one.
        """
        self._wait_for_sync(position)
        if self.nbytes > self._room and not self._has_room():
            with self._changed:
                self._is_awaited = True
                self._changed.notify_all()
                self._changed.wait_for(self._has_room, _ROOM_SECONDS)

    def _has_room(self) -> bool:
        """Whether publishers may go on.

        They may when the journal is short, or when no checkpoint is to be expected.
        """
        if self._closed or self._lets_all_go or self._failure is not None or not self._expects_checkpoint:
            return True
        nbytes, most = self.nbytes, _MOST_JOURNAL * max(_LEAST_JOURNAL_BYTES, self._tables.nbytes)
        self._room = min(most, nbytes + _MEASURED_BYTES)
        return nbytes <= most

    def let_publishers_go(self) -> None:
        """Let publishers wait for no further checkpoint: the server is about to close."""
        with self._changed:
            self._lets_all_go = True
            self._changed.notify_all()

    def _wait_for_sync(self, position: int) -> None:
        """Return when the record at ``position`` is as durable as ``fsync`` promises.

        The first waiting thread syncs itself, which saves a wake-up. Threads that come meanwhile wait for it; then one
        of them syncs their records.
        """
        if self._fsync is not Fsync.ALWAYS:
            return
        while self._synced <= position:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._synced > position or not self._is_syncing or self._failure is not None or self._closed
                )
                if self._synced > position:
                    return
                if self._failure is not None or self._closed:
                    raise ReadOnlyError(f"It is not known whether these rows are on disk: {self._obstacle}")
                self._is_syncing = True
            try:
                self.sync()
            finally:
                with self._changed:
                    self._is_syncing = False
                    self._changed.notify_all()

    def wait_for_all(self) -> None:
        """Return when the last record is as durable as ``fsync`` promises."""
        self._wait_for_sync(self._journal.number - 1)

    def _open(self, graph: UpdateGraph, watch: Callable[[Table], object]) -> None:
        identity = read_identity(self._root)
        if identity is None:
            identity = str(uuid.uuid4())
            write_identity(self._root, identity)
        self.identity = identity
        self.recovered = recover(self._root, identity, graph, watch=watch, ahead=read_ahead)
        folder = self._root.folder("journal")
        reserve_segment(folder, self.recovered.number)
        self._root.sync()
        # The lineage reaches the disk after the segment, which may not be missing from then on, and before any
        # subscriber sees a step of this start.
        self.lineage = read_lineage(self._root, self.recovered.era).followed_by(new_era(self.recovered.step))
        write_lineage(self._root, self.lineage, identity, self.recovered.number)
        self._state = self._root.folder("state")
        self._checkpoint = self.recovered.checkpoint
        self._saved_bytes = -self.recovered.nbytes  # bytes before the checkpoint; below 0: recovered ones after it
        self._tables = DurableTables(self.recovered)
        ahead = MOST_AHEAD if self._fsync is Fsync.ALWAYS else 0
        self._journal = Journal(folder, identity, self.recovered.number, self.lineage.present.id, ahead=ahead)
        for void in self.recovered.left_out:
            self._journal.append(RecordType.VOID, encode_void(void))
        if self.recovered.left_out:
            self._journal.sync()

    def _log_recovery(self, seconds: float) -> None:
        recovered: Recovered = self.recovered
        if recovered.torn:
            logger.warning("the journal's end is cut off: %s", recovered.torn)
        if recovered.tables or recovered.cycles:
            rows = sum(table.size for table in recovered.tables.values())
            saved = recovered.checkpoint
            logger.info(
                "recovered %s with %s at step %d, from %s and %s, in %.1f s",
                count(len(recovered.tables), "tables"),
                count(rows, "rows"),
                recovered.step,
                "no checkpoint" if saved is None else f"the checkpoint of step {saved.step}",
                count(recovered.cycles, "cycles"),
                seconds,
            )

    @property
    def _obstacle(self) -> str:
        """Why nothing is written any more."""
        return self._failure or "the server is closed."

    def _fail(self, error: OSError) -> None:
        with self._changed:
            if self._failure is None and not self._is_shut:  # a thread may write beside the end of the process
                self._failure = (
                    f"the data directory cannot be written ({reason_of(error)}). Mend that, and start the server again."
                )
                logger.error("durable tables can be read only from now on: %s", self._failure)
            self._changed.notify_all()

    # The threads.

    def _sync_on(self) -> None:
        while True:
            with self._changed:
                self._is_idle = True
                self._changed.wait_for(lambda: self._is_dirty or self._closed)
                self._is_idle = False
                self._changed.wait_for(lambda: self._closed, _INTERVAL_SECONDS)
                if self._closed or self._failure is not None:
                    return
            self.sync()

    def sync(self) -> None:
        """Sync the journal; an error makes durable tables read-only."""
        try:
            with self._files:
                if self._is_shut:
                    return
                number = self._journal.sync()
        except OSError as error:
            self._fail(error)
            return
        with self._changed:
            self._synced = max(self._synced, number)
            self._changed.notify_all()

    @property
    def _is_dirty(self) -> bool:
        return self._journal.number > self._synced

    def _checkpoint_on(self) -> None:
        not_before, has_failed = 0.0, False
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._is_awaited, _TURN_SECONDS)
                is_awaited, self._is_awaited = self._is_awaited, False
                if self._closed or self._failure is not None:
                    return
            if self._lock is not None and not self._lock.is_in_place:
                reason = "its file 'lock' was moved or removed, so that another server may use it"
                self._fail(OSError(errno.ENOENT, reason))
                return
            if time.monotonic() < not_before:
                continue
            try:
                # Publishers may wait for one that is not due: the last one was of larger tables.
                if self.is_due or has_failed or (is_awaited and not self._has_room()):
                    self.save()
                    has_failed = False
            except InterruptedError:
                return  # the server is closing: the journal has everything
            except Exception as error:  # the thread must go on to watch the file 'lock'
                is_known = isinstance(error, OSError | JournalError)
                text = str(error) if is_known else f"{type(error).__name__}: {error}"
                logger.error(_NO_CHECKPOINT, text, exc_info=None if is_known else error)
                not_before, has_failed = time.monotonic() + _RETRY_SECONDS, True
                with self._changed:
                    self._expects_checkpoint = False
                    self._changed.notify_all()

    def save(self) -> Checkpoint:
        """Write a checkpoint, and remove the journal before it.

        Raises:
            OSError: the checkpoint cannot be written.
            JournalError: what was written cannot be read again.
            InterruptedError: the server is closing.

        """
        self.sync()  # before the cycles stop, so that publishers wait only for the sync of the rest
        with self._graph.between_cycles():
            self.sync()
            if self._failure is not None:
                raise OSError(self._failure)
            with self._files:
                number = self._journal.rotate()
            nbytes = self._journal.nbytes
            tables, ledger = self._tables.unsaved(), self._tables.ledger(self._entries())
            goal = Checkpoint(self.identity, number, self._graph.step, self._tables.next_id, (), ledger)
        with self._changed:
            self._synced = max(self._synced, number)
            self._changed.notify_all()
        write_lineage(self._root, self.lineage, self.identity, number)  # no checkpoint names the segment yet
        self._checkpoint = save_checkpoint(self._state, self._checkpoint, goal, tables, lambda: self._closed)
        with self._changed:
            self._room = 0
            self._saved_bytes = nbytes  # not before the checkpoint is complete: until then a start repeats these bytes
            self._expects_checkpoint = True
            self._changed.notify_all()
        self._journal.remove_before(number)
        self._tables.forget_others(tables)
        pa.default_memory_pool().release_unused()  # this thread's buffers, unused until the next checkpoint
        return self._checkpoint
