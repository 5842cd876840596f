"""Tables that the server computes for clients: made, bounded, and measured."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from barrage_server.byte_sizes import shown_apart
from barrage_server.clock import bytes_at_start, make_time_table
from barrage_server.engine import Table, UpdateGraph
from barrage_server.engine.derived import DerivedTable
from barrage_server.engine.interrupts import interruptible
from barrage_server.errors import LimitError, UnavailableError
from barrage_server.fixed_limits import TIME_TABLES
from barrage_server.log import count
from barrage_server.plan.derivation import Allowance, derive
from barrage_server.plan.operation import EmptyTable, Operation, TimeTable
from barrage_server.publish.caller_counts import CallerCounts, share_of_one
from barrage_server.server.access import Right
from barrage_server.server.limits import Limits
from barrage_server.server.principal import Principal
from barrage_server.server.private_tables import PrivateTables
from barrage_server.server.statistics import ResultStatistics

__all__ = ["Results"]

_LEAST_PERIOD: Final = 100_000
"""Least period of a client's time table, in nanoseconds."""
_REST_SHARE: Final = 50
"""Pause between two measurements of all results, as a multiple of the time that the last one took."""


@dataclass(frozen=True, slots=True)
class _Origin:
    """The first caller that asked for a result, and the operation."""

    owner: str
    user: str
    verb: str


@dataclass(frozen=True, slots=True, eq=False)
class _Start:
    """A result that is being computed."""

    owner: str
    nbytes: int


class _Usage:
    """Number and bytes of results, of each caller and in total."""

    def __init__(self) -> None:
        self.tables = CallerCounts()
        self.nbytes = CallerCounts()
        self.total_tables = 0
        self.total_bytes = 0

    def add(self, owner: str, nbytes: int, tables: int = 1) -> None:
        """Count one more result."""
        self.tables.add(owner, tables)
        self.nbytes.add(owner, nbytes)
        self.total_tables += tables
        self.total_bytes += nbytes

    def remove(self, owner: str, nbytes: int) -> None:
        """Count one result less."""
        self.add(owner, -nbytes, -1)


class Results:
    """Computes operations for clients, within limits.

    A result lives as long as it is used: by an export, a lease, a stream, a name of the catalog, or another result.
    Methods may be called from any thread.

    Args:
        graph: the graph of all tables.
        private: records the results and their inputs.
        limits: the limits of the server.

    """

    def __init__(self, graph: UpdateGraph, private: PrivateTables, limits: Limits) -> None:
        self._graph = graph
        self._private = private
        self._limits = limits
        self._allowance = Allowance(limits.result_seconds, limits.result_bytes)
        self._lock = threading.Lock()
        self._made: WeakKeyDictionary[Table, _Origin] = WeakKeyDictionary()
        self._starts: set[_Start] = set()
        self._usage = _Usage()
        self._rests_until = -math.inf

    def compute(
        self,
        principal: Principal,
        operation: Operation,
        inputs: Sequence[Table],
        is_gone: Callable[[], bool] = lambda: False,
    ) -> Table:
        """The result of an operation on tables that ``principal`` holds.

        Reads the tables.

        Args:
            principal: the caller.
            operation: the operation.
            inputs: the tables.
            is_gone: returns whether the caller has gone, which stops the computation.

        Raises:
            UnknownTableError, ForbiddenError, UnavailableError: the caller may not read an input, or not any more.
            InvalidRequestError, UnknownColumnError: the operation does not fit its inputs.
            LimitError: there are too many results, or this one would be too large.
            TableFailedError: an input has failed.
            UnavailableError: the caller has gone.

        """
        for table in inputs:
            self._private.check(principal, table, Right.READ)
        if not inputs:
            self._private.access.check_any(principal, Right.READ)
        from barrage_server.operations.estimate import state_bytes  # many modules, which a server may never need

        end = time.thread_time() + self._limits.start_seconds

        def check() -> None:
            if is_gone():
                raise UnavailableError("The caller has gone.")
            if time.thread_time() > end:
                raise LimitError(
                    f"The result takes more than the {self._limits.start_seconds:g} s of processor time that it may "
                    f"take to be computed (start_seconds). Compute from fewer rows."
                )

        match operation:
            case TimeTable(period, start, blink):
                nbytes = bytes_at_start(period, start, blink, _LEAST_PERIOD)
            case _:
                nbytes = state_bytes(operation, inputs)
        with self._admitted(principal, nbytes), interruptible(check):
            result = self._derived(operation, inputs)
            if result in inputs:
                return result
            self._check_state(result)
            with self._lock:
                if result not in self._made:  # equal operations return the same table
                    self._private.add(result, inputs)
                    self._made[result] = _Origin(principal.owner, principal.name, operation.verb)
                    self._usage.add(principal.owner, result.state_bytes)
        return result

    def _derived(self, operation: Operation, inputs: Sequence[Table]) -> Table:
        match operation:
            case EmptyTable(rows):
                from barrage_server.operations import empty_table

                return empty_table(rows, self._graph)
            case TimeTable(period, start, blink):
                self._check_time_tables()
                return make_time_table(period, start, blink, self._graph, _LEAST_PERIOD)
        derived: Table = derive(operation, inputs, self._allowance)
        return derived

    def _check_time_tables(self) -> None:
        """Raise LimitError at the most time tables: each of them costs every cycle."""
        with self._lock:
            there = sum(origin.verb == TimeTable.verb for origin in self._made.values())
        if there >= TIME_TABLES.most:
            raise LimitError(
                f"This server has {count(TIME_TABLES.most, 'time tables')} of clients, and no more "
                f"({TIME_TABLES.name}). Use one that is there, or try again later."
            )

    def _check_state(self, table: Table) -> None:
        if (nbytes := table.state_bytes) > self._limits.result_bytes:
            taken, most = shown_apart(nbytes, self._limits.result_bytes)
            raise LimitError(
                f"The result takes {taken}, and one table that is computed for a client may take {most} "
                f"(result_bytes). Compute from fewer rows."
            )

    @contextmanager
    def _admitted(self, principal: Principal, nbytes: int) -> Iterator[None]:
        """Count a result of about ``nbytes`` during the ``with`` body, or LimitError."""
        if nbytes > self._limits.result_bytes:
            taken, most = shown_apart(nbytes, self._limits.result_bytes)
            raise LimitError(
                f"The result would take about {taken}, and one table that is computed for a client may take {most} "
                f"(result_bytes). Compute from fewer rows."
            )
        start = _Start(principal.owner, nbytes)
        with self._lock:
            if self._refusal(principal, nbytes):  # some results may have been released since the last measurement
                self._measure()
            refusal = self._refusal(principal, nbytes)
            if refusal:
                raise LimitError(refusal)
            self._starts.add(start)
            self._usage.add(principal.owner, nbytes)
        try:
            yield
        finally:
            with self._lock:
                self._starts.remove(start)
                self._usage.remove(principal.owner, nbytes)

    def _refusal(self, principal: Principal, nbytes: int) -> str:
        """The reason to refuse a further result of that size; empty without one."""
        owner, limits, usage = principal.owner, self._limits, self._usage
        if owner and usage.tables[owner] >= limits.results_per_caller:
            return (
                f"There are {count(limits.results_per_caller, 'tables')} computed for '{principal.name}' "
                f"(results_per_caller), and there may be no more. Close those that are not used."
            )
        if usage.total_tables >= limits.total_results:
            return (
                f"This server computes {count(limits.total_results, 'tables')} for its clients (total_results), and no "
                f"more; try again later."
            )
        if usage.total_bytes + nbytes > limits.total_result_bytes:
            taken, most = shown_apart(usage.total_bytes + nbytes, limits.total_result_bytes)
            return (
                f"The tables that this server computes for its clients would take {taken}, and {most} is the most "
                f"(total_result_bytes). Try again later."
            )
        share = share_of_one(limits.total_result_bytes)
        if owner and usage.nbytes[owner] + nbytes > share:
            taken, most = shown_apart(usage.nbytes[owner] + nbytes, share)
            return (
                f"The tables that are computed for '{principal.name}' would take {taken}, "
                f"and {most} is the most of one caller (total_result_bytes). Close those that are not used."
            )
        return ""

    def _measure(self) -> dict[Table, int]:
        """Recount the usage of all results; return the bytes of each."""
        sizes = {table: table.state_bytes for table in self._made}
        self._usage = usage = _Usage()
        for table, nbytes in sizes.items():
            usage.add(self._made[table].owner, nbytes)
        for start in self._starts:
            usage.add(start.owner, start.nbytes)
        return sizes

    def tidy(self, now: float) -> None:
        """Fail the results that have outgrown their limits.

        To be called about once a second with the time of a clock, in seconds. Many results are measured less often.
        """
        if now < self._rests_until:
            return
        limits, began = self._limits, time.thread_time()
        with self._lock:
            sizes = {table: nbytes for table, nbytes in self._measure().items() if table.failure is None}
        total = sum(sizes.values())
        for table, nbytes in sorted(sizes.items(), key=lambda item: -item[1]):
            if nbytes > limits.result_bytes:
                most, name, of = limits.result_bytes, "result_bytes", ""
            elif total > limits.total_result_bytes:
                most, name, of = limits.total_result_bytes, "total_result_bytes", "all together "
            else:
                break
            if isinstance(table, DerivedTable):
                taken, bound = shown_apart(nbytes, most)
                refusal = f"It took {taken} of memory, and tables computed for clients may take {of}{bound} ({name})."
                table.graph.fail(table, LimitError(refusal))
                total -= nbytes
        self._rests_until = now + _REST_SHARE * (time.thread_time() - began)

    def __contains__(self, table: Table) -> bool:
        return table in self._made

    def __len__(self) -> int:
        with self._lock:
            return len(self._made)

    def statistics(self) -> tuple[ResultStatistics, ...]:
        """The figures of each result, in descending order of processor time."""
        with self._lock:
            made = list(self._made.items())
        found = [_figures(table, origin, self._private) for table, origin in made]
        return tuple(sorted(found, key=lambda entry: -entry.seconds))


def _figures(table: Table, origin: _Origin, private: PrivateTables) -> ResultStatistics:
    derived = table if isinstance(table, DerivedTable) else None
    return ResultStatistics(
        name=table.name,
        operation=origin.verb,
        user=origin.user,
        tables=tuple(one.name for one in private.origins(table)),
        rows=table.size,
        state_bytes=table.state_bytes,
        cycles=0 if derived is None else derived.cycles,
        changed_rows=0 if derived is None else derived.changed_rows,
        seconds=0.0 if derived is None else derived.all_seconds,
        failed=table.failure is not None,
    )
