"""Time tables: one row per period of time."""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from barrage_server.engine.append import AppendTable, BlinkTable
from barrage_server.engine.derived import DerivedTable
from barrage_server.engine.graph import UpdateGraph
from barrage_server.engine.weak_list import WeakList

__all__ = ["BlinkTimeTable", "Ticking", "TimeTable"]

TIMESTAMP: Final = "Timestamp"
_SCHEMA: Final = pa.schema([(TIMESTAMP, pa.timestamp("ns", tz="UTC"))])
_AT_ONCE: Final = 1 << 20
"""The most rows that one cycle adds."""


class Ticking(Protocol):
    """A table whose rows depend on the time, which its owner passes in."""

    graph: UpdateGraph
    children: WeakList[DerivedTable]

    @property
    def next_at(self) -> int:
        """The time of the next row, in nanoseconds since 1970 UTC."""

    def advance(self, now: int) -> None:
        """Add the rows that are due at ``now``, in nanoseconds since 1970 UTC."""


class _Timed(AppendTable):
    """A table with a row per period.

    The table has no clock: its owner calls :meth:`advance`.

    Attributes:
        next_at: the time of the next row, in nanoseconds since 1970 UTC.
    """

    def __init__(self, graph: UpdateGraph, name: str, start: int, period: int) -> None:
        super().__init__(graph, name, _SCHEMA)
        self.next_at = start
        self._period = period

    def advance(self, now: int) -> None:
        """Add the rows that are due at ``now``, in nanoseconds since 1970 UTC.

        Adds about a million rows at most; the next call adds the rest.
        """
        if now < self.next_at:
            return
        count = min(_AT_ONCE, (now - self.next_at) // self._period + 1)
        moments = self.next_at + self._period * np.arange(count, dtype=np.int64)
        self.next_at += self._period * count
        self.append(pa.record_batch([pa.array(moments).cast(_SCHEMA.field(0).type)], schema=_SCHEMA))


class TimeTable(_Timed):
    """A table with a row per period since ``start``, in the column ``Timestamp``.

    Args:
        graph: the update graph whose cycles move it.
        name: its name in messages and logs.
        start: the moment of the first row, in nanoseconds since 1970 UTC.
        period: nanoseconds from one row to the next, at least 1.
    """


class BlinkTimeTable(_Timed, BlinkTable):
    """A time table whose rows live for one cycle."""
