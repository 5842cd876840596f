"""The update graph: cycles, the logical clock, and the order in which tables follow each other.

Follows the incremental update model: each table yields at most one update per cycle, a table runs after all of its
parents, and the
results become visible for all tables at once. Source tables stage operations; a cycle applies them.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from barrage_server.engine.update import TableUpdate
from barrage_server.errors import InternalError

if TYPE_CHECKING:
    from barrage_server.engine.table import DerivedTable, SourceTable, Table
    from barrage_server.engine.version import TableVersion

__all__ = ["UpdateGraph"]

logger = logging.getLogger("barrage_server.engine")

Change = tuple["Table", TableUpdate, "TableVersion", "TableVersion"]


class _Staging(threading.local):
    """What this thread has staged: a list per open cycle, innermost last."""

    def __init__(self) -> None:
        self.open: list[list[tuple[SourceTable, Any]]] = []


class UpdateGraph:
    """Runs cycles over a set of tables, one at a time.

    Operations on source tables are staged by the calling thread and applied when its outermost :meth:`cycle` ends.
    Staging takes no
    lock, so a slow ``with`` body holds nobody up. Readers never wait for a cycle: they hold versions.
    """

    def __init__(self) -> None:
        self._cycle_lock = threading.RLock()
        self._visible_lock = threading.Lock()
        self._staging = _Staging()
        self._step = 0
        self._derived: list[DerivedTable] = []
        self._always: list[SourceTable] = []
        self._pending: deque[Change] = deque()
        self._dispatching = False

    @property
    def step(self) -> int:
        """The logical clock: the number of the last cycle that became visible. 0 before the first."""
        return self._step

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
        """Have ``operation`` applied to ``table`` when the cycle of this thread ends, or at once outside of one."""
        stack = self._staging.open
        if stack:
            stack[-1].append((table, operation))
        else:
            self._run([(table, operation)])

    def run_always(self, table: SourceTable) -> None:
        """Have ``table`` take part in every cycle, also in those that bring it no operation."""
        with self._cycle_lock:
            self._always.append(table)

    def attach(self, table: DerivedTable) -> None:
        """Have ``table`` follow its parents in every later cycle. Runs ``table.start()`` between two cycles."""
        with self._cycle_lock:
            table.start(self._step)
            self._derived.append(table)
            self._derived.sort(key=lambda entry: entry.height)

    def detach(self, table: Table) -> None:
        """Stop updating ``table`` from inside the graph: it is dropped, or was derived and is not needed any more."""
        with self._cycle_lock:
            self._derived = [entry for entry in self._derived if entry is not table]
            self._always = [entry for entry in self._always if entry is not table]

    def versions(self, tables: Sequence[Table]) -> tuple[TableVersion, ...]:
        """The current versions of several tables, all as of one cycle."""
        with self._visible_lock:
            return tuple(table.version for table in tables)

    def _run(self, operations: list[tuple[SourceTable, Any]]) -> None:
        by_table: dict[SourceTable, list[Any]] = {}
        for table, operation in operations:
            by_table.setdefault(table, []).append(operation)
        with self._cycle_lock:
            for always in self._always:
                by_table.setdefault(always, [])
            for table in by_table:
                table.check_usable()
            for table, staged in by_table.items():
                table.check_operations(staged)
            step = self._step + 1
            updates: dict[Table, TableUpdate] = {}
            touched: list[Table] = []
            try:
                for table, staged in by_table.items():
                    touched.append(table)
                    updates.update(_settle(table, table.apply_operations(staged), step))
                for derived in self._derived:
                    inputs = {parent: updates[parent] for parent in derived.parents if parent in updates}
                    if inputs:
                        touched.append(derived)
                        updates.update(_settle(derived, derived.follow(inputs), step))
            except Exception as error:
                # Cells may be half written: no reader sees them (versions patch from the undo records), and no writer
                # may go on.
                for broken in touched:
                    broken.fail(error)
                raise InternalError(
                    f"A cycle failed, and the tables {[table.name for table in touched]} cannot be written any more: "
                    f"{type(error).__name__}. Drop and create them again."
                ) from error
            if not updates:
                return
            before = {changed: changed.version for changed in updates}
            with self._visible_lock:
                self._step = step
                for changed in updates:
                    changed.show_version()
            self._pending.extend(
                (changed, update, before[changed], changed.version) for changed, update in updates.items()
            )
            self._dispatch()

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


def _settle(table: Table, update: TableUpdate, step: int) -> dict[Table, TableUpdate]:
    """Prepare the version that ``update`` led to; nothing when the table did not change."""
    if update.is_empty:
        return {}
    table.prepare_version(step, update)
    return {table: update}


def _call(listener: Callable[..., None], update: TableUpdate, previous: TableVersion, current: TableVersion) -> None:
    try:
        listener(update, previous, current)
    except Exception:  # one listener's fault must not stop the others, nor the publisher
        logger.exception("a listener of a table failed; it stays attached")
