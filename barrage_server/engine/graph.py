"""The update graph: cycles, the logical clock, and the order of the tables.

Follows the incremental update model: each table yields at most one update per cycle, a table runs after all of its
parents, and the results become visible for all tables at once. Source tables stage operations; a cycle applies them.

Publishers that wait for a cycle share the next one: one of them runs it with the operations of all, and the others
return when theirs are visible.

A fault stays local. A failing source table is closed for writing and keeps its last version; a failing derived table
stops following, and so do its descendants. All other tables of the same cycle continue: their changes become visible,
and later updates treat the failed table as unchanged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from barrage_server.engine.cycle import Commit, Operations, failure_below, log_failure, new_error_id
from barrage_server.engine.cycle_log import CycleLog, CycleNote
from barrage_server.engine.cycle_runner import CycleRunner
from barrage_server.errors import InternalError, InvalidRequestError, UnavailableError, UnsupportedOperationError
from barrage_server.formula.functions import Functions

if TYPE_CHECKING:
    from barrage_server.engine.derived import DerivedTable
    from barrage_server.engine.table import SourceTable, Table
    from barrage_server.engine.version import TableVersion

from barrage_server.public import public

__all__ = ["UpdateGraph"]

# A new table catches up beside running cycles until this few rows are missing, or this often.
_FEW_ROWS: Final = 10_000
_MOST_ROUNDS: Final = 10


def _timeless() -> float:
    return 0.0


class _Thread(threading.local):
    """State of the calling thread.

    Attributes:
        staged: its staged operations: a list per open cycle, innermost last.
        notes: the notes of its outermost open cycle.
        identity: identifies the thread.
    """

    def __init__(self) -> None:
        self.staged: list[Operations] = []
        self.notes: list[CycleNote] = []
        self.identity = object()


@public
class UpdateGraph:
    """Runs cycles over a set of tables, one at a time.

    Operations on source tables are staged by the calling thread and applied when its outermost :meth:`cycle` ends.
    Staging takes no lock, so a slow ``with`` body delays no other thread. Readers never wait for a cycle: they hold
    versions.
    """

    functions: Functions
    """The functions that formulas of its tables may name."""
    clock: Callable[[], float]
    """A clock, in seconds, that times the cycles of derived tables. The default is always 0: nothing is timed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turn = threading.Condition(self._lock)
        self._sleepers = 0  # threads that wait for their turn
        self._holder: object = None  # the identity of the thread that runs a cycle, or attaches a table
        self._adopts_at: int | None = None  # the step from which tables made in this turn follow
        self._halted = False  # whether only the main thread may have a turn
        self._waiting: list[Commit] = []
        self._running: list[Commit] = []
        self._thread = _Thread()
        self._attached = 0
        self._closed: str | None = None
        self._runner = CycleRunner()
        self.functions = Functions()
        self.clock = _timeless
        # the last cycle with tables that have a bound of time: its step, and the seconds that these took
        self.bounded_step = -1
        self.bounded_seconds = 0.0

    @property
    def step(self) -> int:
        """The logical clock: the number of the last visible cycle, 0 before the first."""
        return self._runner.step

    def keep_log(self, log: CycleLog, step: int) -> None:
        """Write every later cycle into ``log``; the next one is ``step + 1``.

        Call it before any table is written to.
        """
        with self._alone():
            self._runner.step = max(self._runner.step, step)
            self._runner.log = log

    def wait_until_durable(self) -> None:
        """Wait until all cycles so far are as durable as the log promises publishers.

        Raises:
            ReadOnlyError: they will never be.
        """
        if self._runner.log is not None:
            self._runner.log.wait_for_all()

    def rewind_to(self, step: int) -> None:
        """Let the next cycle be ``step + 1``. For repeating cycles from a log."""
        with self._alone():
            self._runner.step = step

    @contextmanager
    def between_cycles(self) -> Iterator[None]:
        """Let no cycle run during the ``with`` body, which must be quick."""
        with self._alone():
            yield

    def halt(self, seconds: float) -> None:
        """Block all later writers but the main thread, for the end of the process.

        Waits up to ``seconds`` for a running cycle to end. The interpreter kills a thread that returns from Arrow after
        the interpreter's end, which can abort the process; a blocked thread does not return.
        """
        with self._lock:
            self._halted = True
            if self._holder is not None:
                self._sleep(seconds)

    @property
    def waiting(self) -> int:
        """The number of publishers that wait for the running cycle and share the next."""
        return len(self._waiting)

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed is not None

    def close(self, reason: str = "its update graph is closed") -> None:
        """Refuse all further writes to the tables of this graph.

        A running cycle completes, and reading still works. Does not wait, and may be called repeatedly, from any
        thread, listeners included. The first reason is kept.

        Args:
            reason: why, as the end of the sentence "Table 't' cannot be written: ...".
        """
        if self._closed is None:
            self._closed = reason

    @contextmanager
    def cycle(self) -> Iterator[None]:
        """Let all operations of the ``with`` body become visible together, in one cycle.

        Nests: only the outermost one runs the graph. When the body raises, nothing of it is applied.
        """
        thread = self._thread
        stack = thread.staged
        operations: Operations = []
        stack.append(operations)
        noted = len(thread.notes)
        is_whole = False
        try:
            yield
            is_whole = True
        finally:
            stack.pop()
            if not is_whole:
                del thread.notes[noted:]
        if stack:
            stack[-1].extend(operations)
            return
        notes, thread.notes = thread.notes, []
        if operations or notes:
            self._run(operations, notes)

    def note(self, note: CycleNote) -> None:
        """Let ``note`` happen with the open cycle of this thread, unless that fails."""
        self._thread.notes.append(note)

    def note_now(self, note: CycleNote) -> None:
        """Let ``note`` happen in a cycle of its own, before an open one of this thread."""
        self._run([], [note])

    def stage(self, table: SourceTable, *operations: Any) -> None:
        """Apply ``operations`` to ``table``, in order, in the open cycle of this thread.

        Without an open cycle they have a cycle of their own, now.

        Raises:
            UnavailableError: the graph is closed.
            TableFailedError: the table failed in an earlier cycle, or it fails in this one.
        """
        staged = [(table, operation) for operation in operations]
        stack = self._thread.staged
        if stack:
            self.check_open(table.name)
            stack[-1].extend(staged)
        else:
            self._run(staged)

    def attach(self, table: DerivedTable) -> None:
        """Make ``table`` follow its parents in every later cycle.

        Changes of the parents since its construction are applied beside running cycles; publishers wait for the rest
        only. The graph holds the table weakly: it follows while it is referenced, for example by a server.

        Raises:
            TableFailedError: a derived parent failed in an earlier cycle.
            InvalidRequestError: it was attached before.
        """
        adopts = self._adopts()
        if not adopts:
            self._check_not_computing()
        if table.number:
            raise InvalidRequestError(f"Table '{table.name}' was attached before. Make another one.")
        for _ in range(0 if adopts else _MOST_ROUNDS):
            if table.catch_up() <= _FEW_ROWS:
                break
        with self._alone():
            table.check_parents()
            step = self.step
            if adopts and self._adopts_at is not None:
                step = self._adopts_at
            else:
                table.catch_up()
            self._attached += 1
            table.enter(step, self._attached)
            for parent in dict.fromkeys(table.parents):
                parent.children.add(table)

    @contextmanager
    def adopting(self, step: int) -> Iterator[None]:
        """Attach tables made in the ``with`` body at once, in this thread's turn.

        They begin with the versions that the turn has led to so far, which within a cycle are not visible yet. Each
        parent must be a table that the cycle has computed already or does not change.

        Args:
            step: the step of these versions.
        """
        before, self._adopts_at = self._adopts_at, step
        try:
            yield
        finally:
            self._adopts_at = before

    @contextmanager
    def in_one_turn(self) -> Iterator[None]:
        """Attach tables made in the ``with`` body at once, with no cycle in between.

        Within a turn of this thread they join that turn. The body must be quick.
        """
        if self._adopts():
            yield
            return
        with self._alone(), self.adopting(self.step):
            yield

    def _adopts(self) -> bool:
        """Whether the calling thread attaches tables within its turn."""
        return self._adopts_at is not None and self._holder is self._thread.identity

    def join(self, table: Table, step: int) -> None:
        """Take ``table`` from another graph.

        Args:
            table: the table. The other graph runs no cycle meanwhile.
            step: the last step of the other graph; this graph's clock continues from there.

        Raises:
            UnavailableError: this graph is closed.
        """
        with self._alone():
            self.check_open(table.name)
            self._runner.advance(step)
            table.graph = self

    def detach(self, table: Table) -> None:
        """Stop updating ``table`` in cycles."""
        with self._alone():
            for parent in table.parents:
                parent.children.discard(table)
            self._runner.forget(table)

    def retire(self, table: Table, reason: str) -> None:
        """Keep ``table`` out of later cycles.

        Its publishers get an UnavailableError with ``reason``.
        """
        with self._alone():
            table.retire(reason)

    def fail(self, table: DerivedTable, error: BaseException) -> None:
        """Fail ``table`` with ``error``, and its descendants because of it."""
        with self._alone():
            failed: dict[DerivedTable, None] = {}
            error_id = new_error_id()
            below = [table]
            while below:
                one = below.pop()
                if one.failure is None:
                    one.fail(error if one is table else failure_below(one, table), error_id)
                    failed[one] = None
                below.extend(one.children)
                for source in one.owned:
                    source.fail(error, error_id)
                for parent in one.parents:
                    parent.children.discard(one)
            self._runner.listeners.failed(list(failed))
        if table in failed:
            log_failure(table, self.step)
        self._runner.listeners.tell()

    def add_failure_listener(self, listener: Callable[[Table], object]) -> Callable[[], None]:
        """Call ``listener(table)`` after a cycle for each table that failed in it.

        ``table.failure`` is the error. The listener runs on a publishing thread and must be quick.

        Returns:
            A function that removes the listener.
        """
        return self._runner.listeners.failures.add(listener)

    def versions(self, tables: Sequence[Table]) -> tuple[TableVersion, ...]:
        """The current versions of several tables, all as of one cycle."""
        if self._adopts():
            return tuple(table.peek() for table in tables)
        return self._runner.versions(tables)

    def check_open(self, name: str, cannot: str = "cannot be written") -> None:
        """Raise UnavailableError for table ``name`` if :meth:`close` was called."""
        if self._closed is not None:
            raise UnavailableError(f"Table '{name}' {cannot}: {self._closed}.")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Exclude cycles and other holders during the ``with`` body."""
        if self._adopts():  # it has its turn already
            yield
            return
        self._check_not_computing()
        try:
            with self._lock:
                while self._must_wait():
                    self._sleep()
                self._holder = self._thread.identity
            yield
        finally:
            if self._holder is self._thread.identity:
                self._end_turn()

    def _must_wait(self) -> bool:
        """Whether this thread cannot have the turn now. With the lock."""
        if self._halted and threading.current_thread() is not threading.main_thread():
            return True
        return self._holder is not None

    def _sleep(self, seconds: float | None = None) -> None:
        """Wait until the turn or a commit may have changed. Releases the lock meanwhile."""
        self._sleepers += 1
        try:
            self._turn.wait(seconds)
        finally:
            self._sleepers -= 1

    def _end_turn(self) -> None:
        """Give up the turn of this thread."""
        self._holder = None  # first, and without the lock: an interrupt must not leave the turn taken
        with self._lock:
            if self._sleepers:
                self._turn.notify_all()

    def _check_not_computing(self) -> None:
        if self._holder is self._thread.identity:
            raise UnsupportedOperationError(
                "A table cannot write to other tables, or attach one, while a cycle is computed. Use a listener."
            )

    def _run(self, operations: Operations, notes: Sequence[CycleNote] = ()) -> None:
        """Apply operations in a cycle, call listeners, and raise this publisher's error."""
        identity = self._thread.identity
        if self._holder is identity:
            self._check_not_computing()
        commit = Commit(operations, notes)
        interrupt: BaseException | None = None
        try:
            if self._leads(commit, identity):
                interrupt = self._run_cycle(self._running)
        finally:
            if self._holder is identity:
                try:
                    for entry in self._running:
                        if not entry.is_done:  # because this thread was interrupted
                            entry.finish(InternalError("The cycle that these rows were for was interrupted."))
                    self._running = []
                finally:
                    self._end_turn()
        runner = self._runner
        runner.listeners.tell()
        if commit.position and runner.log is not None:
            runner.log.wait(commit.position)
        error = interrupt or commit.error
        if error is not None:
            raise error

    def _leads(self, commit: Commit, identity: object) -> bool:
        """Whether this thread must run the cycle with ``commit`` itself.

        Waits until another thread has run that cycle, or this thread has the turn and ``self._running`` the commits to
        run.
        """
        with self._lock:
            self._waiting.append(commit)
            try:
                while self._must_wait() and not commit.is_done:
                    self._sleep()
            except BaseException:  # Ctrl-C: rows that no cycle has yet are not applied
                if commit in self._waiting:
                    self._waiting.remove(commit)
                raise
            if commit.is_done:
                return False
            self._holder = identity
            if threading.current_thread() is threading.main_thread():
                self._waiting.remove(commit)  # Ctrl-C interrupts this thread: it must not break off others' operations
                self._running = [commit]
            else:
                self._running, self._waiting = self._waiting, []
            return True

    def _run_cycle(self, commits: Sequence[Commit]) -> BaseException | None:
        """Run one cycle with ``commits``; returns an interrupt of the program in it."""
        return self._runner.run(commits)
