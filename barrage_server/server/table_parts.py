"""The parts of tables that roles show, each made once and shared by its readers."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from barrage_server.engine import Table
from barrage_server.engine.restricted import RestrictedTable, Restriction, restrict

__all__ = ["TableParts"]

_KEPT_SECONDS: Final = 10.0
"""Seconds for which a part is kept after its last request: making it reads the whole table."""


class TableParts:
    """Parts of tables, kept while they have readers and for a short time afterwards.

    Methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: WeakKeyDictionary[Table, WeakValueDictionary[Restriction, RestrictedTable]] = WeakKeyDictionary()
        self._making: dict[tuple[Table, Restriction], Future[RestrictedTable]] = {}
        self._asked_for: set[RestrictedTable] = set()
        self._kept: dict[RestrictedTable, float] = {}  # with the time until which they are kept

    def find(self, table: Table, restriction: Restriction) -> RestrictedTable | None:
        """The part of ``table`` if it has been made; it is then kept for a while."""
        with self._lock:
            return self._find(table, restriction)

    def get(self, table: Table, restriction: Restriction) -> RestrictedTable:
        """The part of ``table``, made if there is none, which reads the table.

        Raises:
            InvalidRequestError: the restriction cannot be applied to the table.
            Exception: any error of a condition that is a function.

        """
        key = table, restriction
        with self._lock:
            found = self._find(table, restriction)
            if found is not None:
                return found
            future = self._making.get(key)
            is_first = future is None
            if future is None:
                future = self._making[key] = Future()
        if not is_first:
            return future.result()
        try:
            made = restrict(table, restriction)
        except BaseException as error:
            with self._lock:
                del self._making[key]
            future.set_exception(error)
            raise
        with self._lock:
            del self._making[key]
            self._parts.setdefault(table, WeakValueDictionary())[restriction] = made
            self._asked_for.add(made)
        future.set_result(made)
        return made

    def tidy(self, now: float) -> None:
        """Forget parts that were not requested lately.

        To be called about once a second with the time of a clock.
        """
        with self._lock:
            self._kept.update(dict.fromkeys(self._asked_for, now + _KEPT_SECONDS))
            self._asked_for.clear()
            self._kept = {part: until for part, until in self._kept.items() if now < until and not part.failure}

    def __len__(self) -> int:
        with self._lock:
            return sum(len(parts) for parts in self._parts.values())

    def _find(self, table: Table, restriction: Restriction) -> RestrictedTable | None:
        parts = self._parts.get(table)
        found = None if parts is None else parts.get(restriction)
        if found is None or found.failure is not None:
            return None
        self._asked_for.add(found)
        return found
