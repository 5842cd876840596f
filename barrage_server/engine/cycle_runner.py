"""Cycles of an update graph: commits are admitted, logged, run and made visible."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barrage_server.engine.collector import without_collection
from barrage_server.engine.cycle import Commit, Cycle
from barrage_server.engine.cycle_log import CycleLog, CycleNote
from barrage_server.engine.listener_queue import ListenerQueue, TableChange
from barrage_server.errors import InternalError, UnavailableError

if TYPE_CHECKING:
    from barrage_server.engine.table import SourceTable, Table
    from barrage_server.engine.version import TableVersion

__all__ = ["CycleRunner"]


class CycleRunner:
    """Runs cycles of commits, logs them, and makes their versions visible.

    The update graph lets one thread at a time call all methods but :meth:`versions`.

    Attributes:
        step: the number of the last visible cycle.
        log: the log of the cycles; ``None`` for none.
        listeners: the calls of listeners that the cycles have led to.
    """

    def __init__(self) -> None:
        self.step = 0
        self.log: CycleLog | None = None
        self.listeners = ListenerQueue()
        self._visible_lock = threading.Lock()
        # Tables that the next cycle changes even without staged operations. Weak: an unused table need not take part.
        self._always: list[weakref.ref[SourceTable]] = []

    def versions(self, tables: Sequence[Table]) -> tuple[TableVersion, ...]:
        """The visible versions of several tables, all as of one cycle."""
        with self._visible_lock:
            return tuple(table.version for table in tables)

    def advance(self, step: int) -> None:
        """Advance the clock to ``step``, unless it is there already."""
        with self._visible_lock:
            self.step = max(self.step, step)

    def forget(self, table: Table) -> None:
        """Change ``table`` only in cycles with operations on it."""
        self._always = [entry for entry in self._always if entry() is not table]

    def run(self, commits: Sequence[Commit]) -> BaseException | None:
        """Run one cycle with ``commits``, and finish each of them.

        Returns:
            An interrupt of the program during the cycle, if there was one.
        """
        try:
            cycle, admitted = self._admit(commits)
            try:
                self._write(cycle, admitted)
            except Exception as error:
                cycle, admitted = self._admit(self._unlogged(admitted, error))
            if not admitted:
                return None
            work = [(cycle, admitted)]
            del cycle, admitted  # so that the former versions, which they reference, are freed within the call
            return without_collection(lambda: self._compute(*work.pop()))
        except BaseException:
            if self.log is not None:
                self.log.take_back()
            raise

    def _compute(self, cycle: Cycle, admitted: Sequence[Commit]) -> BaseException | None:
        """Run the cycle, show its versions, and finish its commits."""
        try:
            if self.log is not None:
                self.log.ran()
            if cycle.sources:  # otherwise there are notes alone, and no table changes
                for entry in self._always:
                    table = entry()
                    if table is not None:
                        cycle.include(table)
                cycle.run()
                self._show(cycle)
        except BaseException:
            cycle.abandon_hidden()
            for commit in admitted:
                if not cycle.has_applied(commit.operations):
                    commit.finish(InternalError("The cycle that these rows were for was interrupted."))
            raise
        finally:
            try:
                cycle.log_failures()
            finally:
                self.listeners.failed(cycle.failed)
                self._finish(cycle, admitted)
        return cycle.interrupt

    def _admit(self, commits: Sequence[Commit]) -> tuple[Cycle, list[Commit]]:
        """A new cycle, and the commits that take part; finishes others with an error."""
        cycle = Cycle(self.step + 1)
        admitted: list[Commit] = []
        retired: set[Table] = set()
        for commit in commits:
            try:
                for table, _ in commit.operations:
                    if table in retired:
                        raise UnavailableError(f"Table '{table.name}' was overwritten by another one. Publish again.")
                    if self.log is not None:
                        self.log.check(table)
                cycle.admit(commit.operations)
            except Exception as error:  # is for this publisher alone
                commit.finish(error)
            else:
                admitted.append(commit)
                retired.update(note.retires for note in commit.notes if note.retires is not None)
        return cycle, admitted

    def _write(self, cycle: Cycle, commits: Sequence[Commit]) -> None:
        """Write the cycle into the log before it runs."""
        if self.log is None or not commits:
            return
        notes = [note for commit in commits for note in commit.notes]
        log = self.log
        logged = [entry for entry in commits if log.concerns([table for table, _ in entry.operations], entry.notes)]
        position = log.write(cycle.step, cycle.staged, notes)
        for commit in logged:
            commit.position = position

    def _unlogged(self, commits: Sequence[Commit], error: Exception) -> list[Commit]:
        """The commits without logged changes; finishes all others with ``error``."""
        rest: list[Commit] = []
        for commit in commits:
            tables = [table for table, _ in commit.operations]
            if self.log is None or self.log.concerns(tables, commit.notes):
                commit.finish(error)
            else:
                rest.append(commit)
        return rest

    def _finish(self, cycle: Cycle, commits: Sequence[Commit]) -> None:
        """Let the notes of a cycle happen, then tell its publishers how it ended."""
        void: list[CycleNote] = []
        errors: list[BaseException | None] = []
        for commit in commits:
            error = cycle.error_for(commit.operations) if cycle.failed else None
            errors.append(error)
            if error is not None or commit.is_done:  # done already: it was interrupted
                void.extend(commit.notes)
                continue
            for note in commit.notes:
                note.apply()
                self.listeners.happened(note)
        written = max(commit.position for commit in commits)
        if self.log is not None and written:
            lost = cycle.unchanged
            if lost or void:
                position = self.log.void(written, lost, void)
                for commit in commits:
                    commit.position = position if commit.position else 0
        for commit, error in zip(commits, errors, strict=True):
            commit.finish(error)

    def _show(self, cycle: Cycle) -> None:
        """Make all versions of the cycle visible at once."""
        self._always = [weakref.ref(table) for table in cycle.sources if table.changes_by_itself]
        if not cycle.updates:
            return
        before = [table.version for table in cycle.updates]
        with self._visible_lock:
            self.step = cycle.step
            for table in cycle.updates:
                table.show_version()
            for table in cycle.repointed:
                table.show_version()
        self.listeners.changed(
            TableChange(table, update, previous, table.version)
            for (table, update), previous in zip(cycle.updates.items(), before, strict=True)
            if table.has_listeners
        )
