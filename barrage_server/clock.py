"""Time tables, and the thread that advances them while there are any.

The rooms with tables have no clock; this module tells them the time.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable
from typing import Final

from barrage_server.arguments import (
    Duration,
    Moment,
    duration_nanoseconds,
    flag,
    instance,
    integer,
    moment_nanoseconds,
    shown,
)
from barrage_server.engine import Table, UpdateGraph
from barrage_server.engine.alias import own
from barrage_server.engine.time_table import BlinkTimeTable, Ticking, TimeTable
from barrage_server.errors import BarrageError, InvalidRequestError, LimitError
from barrage_server.fixed_limits import TIME_TABLE_ROWS
from barrage_server.formula.literals import parse_duration, parse_instant
from barrage_server.process import start_thread

__all__ = ["Clock", "bytes_at_start", "make_time_table", "time_table"]

logger = logging.getLogger("barrage_server.engine")

LEAST_PERIOD: Final = 1_000
_MOST: Final = (1 << 62) - 1
_ROW_BYTES: Final = 8
_ROUND_SECONDS: Final = 0.01
"""Least seconds between two cycles: a shorter period gives several rows in one."""
_IDLE_SECONDS: Final = 1.0
"""Most seconds between two checks for tables that are not referenced any more."""


def time_table(
    period: Duration,
    start_time: Moment | None = None,
    blink_table: bool = False,
    graph: UpdateGraph | None = None,
) -> Table:
    """A table with a row for each ``period`` that has passed.

    Its column ``Timestamp`` has the moments.

    >>> bs.time_table("PT1S").update("x = ii % 10")

    Args:
        period: nanoseconds, at least 1,000, a text such as ``"PT0.1S"``, or a duration of Python, pandas or numpy,
            such as ``timedelta(seconds=1)``. Cycles are at least 10 ms apart: a shorter period gives several rows in
            one.
        start_time: moment of the first row: nanoseconds since 1970 UTC, a text such as ``"2024-06-15T10:00:00Z"``,
            a datetime with a zone, or one of numpy. By default now, rounded down to a whole period.
        blink_table: whether rows live for one cycle.
        graph: the update graph of the tables that it is used with, such as ``server.graph``; by default its own.

    Raises:
        InvalidRequestError: an argument makes no sense.
        LimitError: there would be more than 16,777,216 rows right away.
    """
    instance(graph, UpdateGraph, "graph")
    return make_time_table(period, start_time, blink_table, UpdateGraph() if graph is None else graph)


def make_time_table(
    period: Duration, start_time: Moment | None, blink_table: bool, graph: UpdateGraph, least: int = LEAST_PERIOD
) -> Table:
    """Make a time table as :func:`time_table` does, with a least period."""
    now = time.time_ns()
    start, every, rows = _beginning(period, start_time, blink_table, least, now)
    kind = BlinkTimeTable if blink_table else TimeTable
    if blink_table and rows > 0:
        start += every * (rows - 1)  # no subscriber would see the earlier rows
    table = kind(graph, "time_table", start, every)
    while table.next_at <= now:
        table.advance(now)
    made = own(table)
    CLOCK.add(table)
    return made


def bytes_at_start(period: int | str, start_time: int | str | None, blink_table: bool, least: int) -> int:
    """The bytes of a time table's first rows, with errors as :func:`time_table`."""
    _, _, rows = _beginning(period, start_time, blink_table, least, time.time_ns())
    return 0 if blink_table else _ROW_BYTES * max(rows, 0)


def _beginning(
    period: Duration, start_time: Moment | None, blink_table: bool, least: int, now: int
) -> tuple[int, int, int]:
    """The first moment and the period, in nanoseconds, and the rows due at ``now``."""
    flag(blink_table, "blink_table")
    given = duration_nanoseconds(period)
    every = integer(_nanoseconds(given, "period", parse_duration, "PT1S"), "period", least=least, most=_MOST, unit="ns")
    if start_time is None:
        start = now - now % every
    else:
        moment = moment_nanoseconds(start_time, "start_time")
        found = _nanoseconds(moment, "start_time", parse_instant, "2024-06-15T10:00:00Z")
        start = integer(found, "start_time", least=-_MOST, most=_MOST, unit="ns")
    rows = (now - start) // every + 1
    if rows > TIME_TABLE_ROWS.most and not blink_table:
        raise LimitError(
            f"The table would have {rows:,} rows right away, and {TIME_TABLE_ROWS.most:,} is the most "
            f"({TIME_TABLE_ROWS.name}). Start it later, or let the period be longer."
        )
    return start, every, rows


def _nanoseconds(value: int | str, what: str, parse: Callable[[str], int | None], example: str) -> int:
    if not isinstance(value, str):
        return value
    text = value.strip().strip("'")
    found = parse(text) if len(text) <= 100 else None
    if found is None:
        raise InvalidRequestError(f"{what} must be nanoseconds or a text such as '{example}', not {shown(value)}.")
    return found


class Clock:
    """Tells tables the time, on a thread of its own. Holds them weakly."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tables: list[weakref.ref[Ticking]] = []
        self._runs = False

    def add(self, table: Ticking) -> None:
        """Advance ``table`` from now on, until it fails or is not referenced any more.

        Raises:
            LimitError: the process can start no further thread.
        """
        with self._changed:
            self._tables.append(weakref.ref(table))
            if self._runs:
                self._changed.notify()
                return
            self._runs = True
            try:
                start_thread(threading.Thread(target=self._run, name="barrage-clock", daemon=True))
            except BaseException:
                self._runs = False
                self._tables.pop()
                raise

    def __len__(self) -> int:
        with self._changed:
            return sum(entry() is not None for entry in self._tables)

    def _run(self) -> None:
        while True:
            self._advance(time.time_ns())
            with self._changed:
                seconds = self._wait_seconds(time.time_ns())
                if seconds is None:
                    self._runs = False
                    return
                self._changed.wait(seconds)

    def _wait_seconds(self, now: int) -> float | None:
        """How long to wait for the next row; None when there are no tables any more."""
        self._tables = [entry for entry in self._tables if entry() is not None]
        times = [table.next_at for entry in self._tables if (table := entry()) is not None]
        if not times:
            return None
        return min(_IDLE_SECONDS, max(_ROUND_SECONDS, (min(times) - now) / 1e9))

    def _advance(self, now: int) -> None:
        """Run a cycle in each graph with a table that has a row due."""
        with self._changed:
            due = [table for entry in self._tables if (table := entry()) is not None and table.next_at <= now]
        graphs: dict[UpdateGraph, list[Ticking]] = {}
        for table in due:
            graphs.setdefault(table.graph, []).append(table)
        for graph, tables in graphs.items():
            failed: dict[Ticking, Exception] = {}
            try:
                with graph.cycle():
                    for table in tables:
                        try:
                            table.advance(now)
                        except Exception as error:  # of one table: the others go on
                            failed[table] = error
            except Exception as error:  # the graph is closed
                failed = dict.fromkeys(tables, error)
            for table, reason in failed.items():
                self._stop(table, reason)

    def _stop(self, table: Ticking, error: Exception) -> None:
        """Stop advancing ``table``; the tables derived from it fail."""
        if not isinstance(error, BarrageError):
            logger.error("a time table failed", exc_info=error)
        with self._changed:
            self._tables = [entry for entry in self._tables if entry() is not table]
        for child in tuple(table.children):
            table.graph.fail(child, error)


CLOCK: Final = Clock()
