"""The update graph: cycles, the logical clock, and the order in which tables follow each other.

Follows the incremental update model: each table yields at most one update per cycle, a table runs after all of its
parents, and the results become visible for all tables at once. Source tables stage operations; a cycle applies them.

A fault stays where it happened. A source table that fails is closed for writing and keeps its last version; a derived
table that fails stops following, and so do its descendants. All other tables of the same cycle go on: their changes
become visible, and what they are told later is as if the failed table had not changed.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from barrage_server.engine.callbacks import Callbacks
from barrage_server.engine.update import TableUpdate
from barrage_server.errors import BarrageError, InternalError, UnavailableError, UnsupportedOperationError

if TYPE_CHECKING:
    from barrage_server.engine.table import DerivedTable, SourceTable, Table
    from barrage_server.engine.version import TableVersion

from barrage_server.public import public

__all__ = ["UpdateGraph"]

logger = logging.getLogger("barrage_server.engine")

Change = tuple["Table", TableUpdate, "TableVersion", "TableVersion"]


class _Staging(threading.local):
    """What this thread has staged: a list per open cycle, innermost last."""

    def __init__(self) -> None:
        self.open: list[list[tuple[SourceTable, Any]]] = []


@public
class UpdateGraph:
    """Runs cycles over a set of tables, one at a time.

    Operations on source tables are staged by the calling thread and applied when its outermost :meth:`cycle` ends.
    Staging takes no lock, so a slow ``with`` body delays no other thread. Readers never wait for a cycle: they hold
    versions.
    """

    def __init__(self) -> None:
        self._cycle_lock = threading.RLock()
        self._visible_lock = threading.Lock()
        self._staging = _Staging()
        self._step = 0
        self._derived: list[DerivedTable] = []
        # Weak: a table that is used nowhere need not take part. A list, which collecting one table shortens at once; a
        # cycle goes through a copy.
        self._always: list[weakref.ref[SourceTable]] = []
        self._pending: deque[Change] = deque()
        self._dispatching = False
        self._applying = False
        self._closed: str | None = None
        self._failure_listeners = Callbacks[Callable[["Table"], object]]()

    @property
    def step(self) -> int:
        """The logical clock: the number of the last cycle that became visible. 0 before the first."""
        return self._step

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed is not None

    def close(self, reason: str = "its update graph is closed") -> None:
        """Refuse all further writes to the tables of this graph. A cycle that runs ends; readers go on.

        Does not wait, and may be called repeatedly, from any thread, listeners included. The first reason stays.

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
        stack = self._staging.open
        operations: list[tuple[SourceTable, Any]] = []
        stack.append(operations)
        try:
            yield
        finally:
            stack.pop()
        if stack:
            stack[-1].extend(operations)
        elif operations:
            self._run(operations)

    def stage(self, table: SourceTable, operation: Any) -> None:
        """Have ``operation`` applied to ``table`` when the cycle of this thread ends, or at once outside of one.

        Raises:
            UnavailableError: the graph is closed.
            InternalError: the table failed in an earlier cycle, or it fails in this one.

        """
        stack = self._staging.open
        if stack:
            self.check_open(table.name)
            stack[-1].append((table, operation))
        else:
            self._run([(table, operation)])

    def run_always(self, table: SourceTable) -> None:
        """Have ``table`` take part in every cycle, also in those that bring it no operation, as long as it is used."""
        with self._cycle_lock:
            entries = [entry for entry in self._always if entry() is not None]
            self._always = [*entries, weakref.ref(table, self._forget)]

    def attach(self, table: DerivedTable) -> None:
        """Have ``table`` follow its parents in every later cycle. Runs ``table.start()`` between two cycles.

        Raises:
            InternalError: a derived parent failed in an earlier cycle, so that there is nothing to follow.

        """
        with self._cycle_lock:
            self._check_not_applying()
            for parent in table.parents:
                if parent.height:
                    parent.check_usable()
            table.start(self._step)
            self._derived = sorted([*self._derived, table], key=lambda entry: entry.height)

    def join(self, table: Table, step: int) -> None:
        """Take ``table``, whose own steps have reached ``step``, from another graph, which runs no cycle meanwhile.

        Raises:
            UnavailableError: this graph is closed.

        """
        with self._cycle_lock:
            self._check_not_applying()
            self.check_open(table.name)
            with self._visible_lock:
                self._step = max(self._step, step)
            table.graph = self

    def detach(self, table: Table) -> None:
        """Stop updating ``table`` from inside the graph: it is dropped, or was derived and is not needed any more."""
        with self._cycle_lock:
            self._derived = [entry for entry in self._derived if entry is not table]
            self._always = [entry for entry in self._always if entry() is not table]

    def _forget(self, entry: weakref.ref[SourceTable]) -> None:
        """A table that took part in every cycle was collected: on any thread, at any time."""
        with suppress(ValueError):  # it was left out by now
            self._always.remove(entry)

    def retire(self, table: Table, reason: str) -> None:
        """Let ``table`` take part in no further cycle; UnavailableError tells publishers ``reason``."""
        with self._cycle_lock:
            table.retire(reason)

    def add_failure_listener(self, listener: Callable[[Table], object]) -> Callable[[], None]:
        """Have ``listener(table)`` called with each table that fails, after its cycle; returns the remover.

        ``table.failure`` says why. The listener runs on the publishing thread and must be quick.
        """
        return self._failure_listeners.add(listener)

    def versions(self, tables: Sequence[Table]) -> tuple[TableVersion, ...]:
        """The current versions of several tables, all as of one cycle."""
        with self._visible_lock:
            return tuple(table.version for table in tables)

    def check_open(self, name: str, cannot: str = "cannot be written") -> None:
        """Raise UnavailableError, which says what table ``name`` cannot be, if :meth:`close` was called."""
        if self._closed is not None:
            raise UnavailableError(f"Table '{name}' {cannot}: {self._closed}.")

    def _check_not_applying(self) -> None:
        if self._applying:  # by this very thread: others wait for the lock
            raise UnsupportedOperationError(
                "A table cannot write to other tables, or attach one, while a cycle is computed. Use a listener."
            )

    def _run(self, operations: list[tuple[SourceTable, Any]]) -> None:
        by_table: dict[SourceTable, list[Any]] = {}
        for table, operation in operations:
            by_table.setdefault(table, []).append(operation)
        with self._cycle_lock:
            self._check_not_applying()
            for table in by_table:
                self.check_open(table.name)
                table.check_usable()
            for table, staged in by_table.items():
                table.check_operations(staged)
            for entry in tuple(self._always):
                always = entry()
                if always is not None and always.failure is None and always.changes_by_itself:
                    by_table.setdefault(always, [])
            cycle = _Cycle(self._step + 1)
            self._applying = True
            try:
                cycle.apply(by_table)
                cycle.follow(self._derived)
                self._show(cycle)
            finally:
                self._applying = False
                cycle.abandon_hidden()
            self._dispatch()
            for failed in cycle.failed:
                for listener in self._failure_listeners:
                    _call(listener, failed)
            cycle.raise_failure()

    def _show(self, cycle: _Cycle) -> None:
        """Make the versions that the cycle has led to visible, all at once."""
        if not cycle.updates:
            return
        before = {table: table.version for table in cycle.updates}
        with self._visible_lock:
            self._step = cycle.step
            for table in cycle.updates:
                table.show_version()
        self._pending.extend((table, update, before[table], table.version) for table, update in cycle.updates.items())

    def _dispatch(self) -> None:
        """Tell listeners, in the order of the cycles.

        A listener may publish: its cycle is told after the current one.
        """
        if self._dispatching:
            return
        self._dispatching = True
        try:
            while self._pending:
                table, update, previous, current = self._pending.popleft()
                for listener in table.listeners:
                    _call(listener, update, previous, current)
        finally:
            self._dispatching = False


class _Cycle:
    """One cycle while it is computed.

    Attributes:
        step: the number that it gets.
        updates: the tables that changed, and how.
        failed: the tables that failed.

    """

    def __init__(self, step: int) -> None:
        self.step = step
        self.updates: dict[Table, TableUpdate] = {}
        self.failed: list[Table] = []
        self._touched: list[Table] = []
        self._refused: list[tuple[Table, Exception]] = []  # source tables, which publishers write to
        self._interrupt: BaseException | None = None

    def apply(self, operations: Mapping[SourceTable, Sequence[Any]]) -> None:
        """Apply operations to source tables."""
        for table, staged in operations.items():
            error = self._advance(table, table.apply_operations, staged)
            if error is not None and staged:
                self._refused.append((table, error))

    def follow(self, tables: Sequence[DerivedTable]) -> None:
        """Bring derived tables, sorted by height, up to date."""
        for table in tables:
            if table.failure is not None:
                continue
            lost = next((parent for parent in table.parents if parent.height and parent.failure is not None), None)
            if lost is not None:
                reason = InternalError(f"Table '{lost.name}', which it follows, failed in a cycle.")
                self._fail(table, reason)
                continue
            inputs = {parent: self.updates[parent] for parent in table.parents if parent in self.updates}
            if inputs:
                self._advance(table, table.follow, inputs)

    def abandon_hidden(self) -> None:
        """Fail the tables that changed in storage and not visibly, because the cycle was interrupted in between."""
        for table in self._touched:
            if table.failure is None and table.peek() is not table.version:
                self._fail(table, InternalError("The cycle was interrupted."))

    def raise_failure(self) -> None:
        """Raise what the publisher is to be told: that a table which it wrote to has failed."""
        if self._interrupt is not None:
            raise self._interrupt
        if self._refused:
            _, error = self._refused[0]
            names = " and ".join(f"'{refused.name}'" for refused, _ in self._refused)
            detail = f"{type(error).__name__}: {error}" if isinstance(error, BarrageError) else type(error).__name__
            raise InternalError(
                f"A cycle failed in table {names}, which cannot be written any more ({detail}). Drop and create it "
                f"again. Other tables that were written in the same cycle have their rows."
            ) from error

    def _advance(self, table: Table, compute: Callable[[Any], TableUpdate], inputs: Any) -> Exception | None:
        """Let ``table`` compute its update, and prepare its version; the error when that failed."""
        self._touched.append(table)
        try:
            update = compute(inputs)
            if not update.is_empty:
                table.prepare_version(self.step, update)
                self.updates[table] = update
        except Exception as error:  # any fault of one table; it must not reach another
            logger.exception("table %s failed in cycle %d", table.name, self.step)
            self._fail(table, error)
            return error
        except BaseException as error:  # the program is being interrupted: the cycle ends, then the interrupt goes on
            self._interrupt = error
            self._fail(table, error)
        return None

    def _fail(self, table: Table, error: BaseException) -> None:
        # Cells may be half written: no reader sees them (versions patch from the undo records), and no writer may go
        # on.
        table.fail(error)
        self.updates.pop(table, None)
        self.failed.append(table)


def _call(listener: Callable[..., object], *arguments: object) -> None:
    try:
        listener(*arguments)
    except Exception:  # one listener's fault must not stop the others, nor the publisher
        logger.exception("a listener of a table failed; it stays attached")
