"""A queue of changes and events for listeners, in the order of the cycles."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from barrage_server.engine.callbacks import Callbacks
from barrage_server.engine.cycle_log import CycleNote

if TYPE_CHECKING:
    from barrage_server.engine.table import Table
    from barrage_server.engine.update import TableUpdate
    from barrage_server.engine.version import TableVersion

__all__ = ["ListenerQueue", "TableChange"]

logger = logging.getLogger("barrage_server.engine")


class TableChange(NamedTuple):
    """The change of one table in a cycle, with the versions before and after it."""

    table: Table
    update: TableUpdate
    previous: TableVersion
    current: TableVersion


class _Thread(threading.local):
    """Whether the calling thread calls listeners."""

    tells = False


class ListenerQueue:
    """Changes, failed tables and notes of cycles, until their listeners are called.

    A cycle appends; the thread that has run it calls :meth:`tell` afterwards, outside of the graph's lock.

    A cycle appends; the thread that has run it calls :meth:`tell` afterwards, outside of the graph's lock.

    Attributes:
        failures: the listeners of failed tables.
    """

    def __init__(self) -> None:
        self.failures = Callbacks[Callable[["Table"], object]]()
        self._untold: deque[TableChange | Table | CycleNote] = deque()
        self._telling = threading.Lock()
        self._thread = _Thread()

    def changed(self, changes: Iterable[TableChange]) -> None:
        """Queue a call of the listeners of each changed table."""
        self._untold.extend(changes)

    def failed(self, tables: Iterable[Table]) -> None:
        """Queue a call of the failure listeners for each table."""
        self._untold.extend(tables)

    def happened(self, note: CycleNote) -> None:
        """Queue a call of ``note.tell()``."""
        self._untold.append(note)

    def tell(self) -> None:
        """Call the queued listeners in order, one thread at a time.

        Returns when all are called. Called by a listener, it returns at once: the outer call continues with the changes
        that the listener has made.
        """
        thread = self._thread
        if thread.tells:
            return
        with self._telling:
            thread.tells = True
            try:
                while self._untold:
                    told = self._untold.popleft()
                    if isinstance(told, TableChange):
                        for listener in told.table.listeners:
                            _call(listener, told.update, told.previous, told.current)
                    elif isinstance(told, CycleNote):
                        _call(told.tell)
                    else:
                        for failure_listener in self.failures:
                            _call(failure_listener, told)
            finally:
                thread.tells = False


def _call(listener: Callable[..., object], *arguments: object) -> None:
    try:
        listener(*arguments)
    except Exception:  # one listener's fault must not stop the others, nor the publisher
        logger.exception("a listener of a table failed; it stays attached")
