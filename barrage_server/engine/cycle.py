"""One cycle of an update graph, and the staged operations of its publishers."""

from __future__ import annotations

import heapq
import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from barrage_server.engine.cycle_log import CycleNote
from barrage_server.engine.update import TableUpdate
from barrage_server.errors import BarrageError, InternalError, ParentFailedError, TableFailedError

if TYPE_CHECKING:
    from barrage_server.engine.derived import DerivedTable
    from barrage_server.engine.table import SourceTable, Table

__all__ = ["Commit", "Cycle", "Operations", "failure_below", "told"]

logger = logging.getLogger("barrage_server.engine")

Operations: TypeAlias = list[tuple["SourceTable", Any]]


class Commit:
    """The operations of one publisher for one cycle, and their outcome.

    Attributes:
        operations: the operations, in order.
        notes: the events that happen with them.
        error: the error for the publisher; ``None`` on success.
        is_done: whether it was applied, or refused.
        position: the position of its last record in the graph's log; 0 for none.
    """

    __slots__ = ("error", "is_done", "notes", "operations", "position")

    def __init__(self, operations: Operations, notes: Sequence[CycleNote] = ()) -> None:
        self.operations = operations
        self.notes = notes
        self.position = 0
        self.error: BaseException | None = None
        self.is_done = False

    def finish(self, error: BaseException | None) -> None:
        """Record the outcome; the first call counts."""
        if not self.is_done:
            self.error, self.is_done = error, True


class Cycle:
    """Computes the next version of every table that changes.

    Attributes:
        step: its number.
        updates: the updates of changed tables.
        repointed: the unchanged tables with other views of the same rows.
        failed: the tables that failed.
        interrupt: an interrupt of the program during the cycle.
    """

    def __init__(self, step: int) -> None:
        self.step = step
        self.updates: dict[Table, TableUpdate] = {}
        self.repointed: list[Table] = []
        self.failed: list[Table] = []
        self.interrupt: BaseException | None = None
        self._staged: dict[SourceTable, list[Any]] = {}
        self._touched: list[Table] = []
        self._unlogged: list[Table] = []  # failed for reasons of their own

    def admit(self, operations: Operations) -> None:
        """Stage all operations of one publisher, after those staged before.

        Raises what :meth:`SourceTable.check_writable` and :meth:`SourceTable.check_operations` do; nothing is staged
        then.
        """
        staged: dict[SourceTable, list[Any]] = {}
        for table, operation in operations:
            together = staged.get(table)
            if together is None:
                table.check_writable()
                staged[table] = [*self._staged.get(table, ()), operation]
            else:
                together.append(operation)
        for table, together in staged.items():
            table.check_operations(together)
        self._staged.update(staged)

    def include(self, table: SourceTable) -> None:
        """Include a table without staged operations."""
        if table.failure is None:
            self._staged.setdefault(table, [])

    @property
    def sources(self) -> Collection[SourceTable]:
        """The source tables that take part."""
        return self._staged.keys()

    @property
    def unchanged(self) -> list[SourceTable]:
        """The source tables whose operations the cycle did not apply."""
        touched = frozenset(self._touched)
        return [table for table in self._staged if table in self.failed or table not in touched]

    @property
    def staged(self) -> Mapping[Table, Sequence[Any]]:
        """The operations on each source table, in order."""
        return dict["Table", Sequence[Any]](self._staged.items())

    def run(self) -> None:
        """Apply the staged operations, then update each table below, after its parents."""
        for table, staged in self._staged.items():
            self._advance(table, table.apply_operations, staged)
        below = [child for table in self.updates if len(table.children) for child in table.children]
        if below:
            self._follow_down(below)

    def _follow_down(self, tables: Iterable[DerivedTable]) -> None:
        """Update ``tables`` and all tables below them that this changes."""
        known = set(tables)
        waiting = [(table.height, table.number, table) for table in known]
        heapq.heapify(waiting)
        while waiting:
            table = heapq.heappop(waiting)[-1]
            if table.failure is not None:
                continue
            self._follow(table)
            if table.peek() is not table.version or table.failure is not None:
                for child in table.affected_children():
                    if child not in known:
                        known.add(child)
                        heapq.heappush(waiting, (child.height, child.number, child))

    def _follow(self, table: DerivedTable) -> None:
        inputs: dict[Table, TableUpdate] = {}
        for parent in table.parents:
            # a source that has failed keeps its last version, which is whole, and its other rows
            if parent.failure is not None and parent.height:
                self._fail(table, failure_below(table, parent), parent.failure_id)
                return
            if parent.peek() is not parent.version:
                inputs[parent] = self.updates.get(parent) or TableUpdate.empty(len(parent.schema))
        self._advance(table, table.follow, inputs)

    def abandon_hidden(self) -> None:
        """After an interrupt, fail the changed tables whose version is not visible."""
        for table in self._touched:
            if table.failure is None and table.peek() is not table.version:
                self._fail(table, InternalError("The cycle was interrupted."))

    def has_applied(self, operations: Operations) -> bool:
        """Whether an interrupted cycle had reached all tables of ``operations``."""
        touched = set(self._touched)
        return all(table in touched for table, _ in operations)

    def error_for(self, operations: Operations) -> BaseException | None:
        """The error for the publisher of ``operations``, if a table of theirs failed."""
        written = dict.fromkeys(table for table, _ in operations)
        lost = [table for table in written if table in self.failed]
        if not lost:
            return None
        names = " and ".join(f"'{table.name}'" for table in lost)
        error = TableFailedError(
            f"A cycle failed in table {names}, which is closed for writing ({told(lost[0].failure)}). Drop and "
            f"create it again. Other tables that were written in the same cycle have their rows.",
            lost[0].failure_id,
        )
        error.__cause__ = lost[0].failure
        return error

    def _advance(self, table: Table, compute: Callable[[Any], TableUpdate], inputs: Any) -> None:
        """Let ``table`` compute its update, and prepare its version."""
        self._touched.append(table)
        try:
            update = compute(inputs)
            if not update.is_empty:
                table.prepare_version(self.step, update)
                self.updates[table] = update
            elif table.repoint():
                self.repointed.append(table)
        except Exception as error:  # a fault of one table must not affect another
            self._fail(table, error)
        except BaseException as error:  # an interrupt of the program: it is raised again after the cycle
            self.interrupt = error
            self._fail(table, error)

    def _fail(self, table: Table, error: BaseException, error_id: str = "") -> None:
        # Cells may be half written. Readers do not see them, because of the undo records; later writes must not happen.
        for one in (table, *table.owned):
            if one.failure is None:
                one.fail(error, error_id or new_error_id())
                self.updates.pop(one, None)
        self.failed.append(table)
        if not error_id:
            self._unlogged.append(table)

    def log_failures(self) -> None:
        """Log why tables failed. Those that only follow a failed table are left out."""
        for table in self._unlogged:
            log_failure(table, self.step)


def failure_below(table: DerivedTable, parent: Table) -> ParentFailedError:
    """The failure of ``table`` because of its failed ``parent``.

    It says which table failed first, and why.
    """
    above = parent.failure
    reason = f"Table '{parent.name}', which it follows, failed"
    if table.hides_rows:  # the text may have values of hidden rows
        return ParentFailedError(f"{reason}.")
    if isinstance(above, ParentFailedError):
        error = ParentFailedError(above.text)
        error.__cause__ = above.__cause__
    else:
        error = ParentFailedError(f"{reason} ({told(above)}).")
        error.__cause__ = above
    return error


def new_error_id() -> str:
    """An id for the log record of a failure. Public errors about the table name it."""
    return secrets.token_hex(8)


def log_failure(table: Table, step: int) -> None:
    """Log why ``table`` failed in the cycle ``step``.

    A fault is logged with its traceback, another error as a text. To be called when all tables that fail have failed:
    an interrupt may end the logging.
    """
    error, error_id = table.failure, table.failure_id
    about = {"table": table.name, "step": step}
    text = "table %s failed in cycle %d, error id %s"
    if isinstance(error, BarrageError) and not isinstance(error, InternalError):
        logger.warning(f"{text}: %s", table.name, step, error_id, error, extra=about)
    else:
        logger.error(text, table.name, step, error_id, exc_info=error, extra=about)


def told(error: BaseException | None) -> str:
    """The public text of ``error``, without an id of the log.

    Foreign texts may hold private data.
    """
    name = type(error).__name__
    if not isinstance(error, BarrageError):
        return name
    return f"{name}: {error.text if isinstance(error, InternalError) else error}".rstrip(".")
