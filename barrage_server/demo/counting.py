"""Subscribers of the demo's tables, which count rows and changes."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import Final, Self

from barrage_server.client import Client, LiveTable, Update, connect
from barrage_server.demo.tables import TABLES, DemoTable

__all__ = ["CountedTable", "CountingClient", "Counts"]

_INTERVAL_MS: Final = 100
_RATE_SECONDS: Final = 5.0


@dataclass(slots=True)
class Counts:
    """The number of updates, and of rows that they added, modified and removed."""

    updates: int = 0
    added: int = 0
    modified: int = 0
    removed: int = 0

    @property
    def changes(self) -> int:
        """The number of changed rows."""
        return self.added + self.modified + self.removed


class CountedTable:
    """One table with its subscription. ``live`` is None until the table exists."""

    def __init__(self, table: DemoTable) -> None:
        self.table = table
        self.live: LiveTable | None = None
        self._lock = threading.Lock()
        self._counts = Counts()
        self._recent: deque[tuple[float, int]] = deque()

    def begin(self, live: LiveTable) -> None:
        """Count from here on. The rows of the first snapshot count as added."""
        live.on_update(self._note)
        with self._lock:
            self._counts.added += live.size
        self.live = live

    @property
    def size(self) -> int:
        """The number of rows received."""
        return self.live.size if self.live else 0

    @property
    def counts(self) -> Counts:
        """A copy of the counts."""
        with self._lock:
            counts = self._counts
            return Counts(counts.updates, counts.added, counts.modified, counts.removed)

    @property
    def rate(self) -> float:
        """Rows changed per second, over the last five seconds."""
        now = time.monotonic()
        with self._lock:
            while self._recent and self._recent[0][0] < now - _RATE_SECONDS:
                self._recent.popleft()
            return sum(rows for _, rows in self._recent) / _RATE_SECONDS

    def _note(self, update: Update) -> None:
        added, removed, modified = update.added.size, update.removed.size, update.modified_rows.size
        with self._lock:
            self._counts.updates += 1
            self._counts.added += added
            self._counts.removed += removed
            self._counts.modified += modified
            self._recent.append((time.monotonic(), added + removed + modified))


class CountingClient:
    """One client, with a full subscription per table as soon as it exists."""

    def __init__(self, uri: str) -> None:
        self._client: Client = connect(uri)
        self.all = tuple(CountedTable(table) for table in TABLES)

    def follow_new(self) -> None:
        """Subscribe to tables that have appeared since the last call."""
        waiting = [counted for counted in self.all if counted.live is None]
        if not waiting:
            return
        there = {info.name for info in self._client.tables()}
        for counted in waiting:
            if counted.table.name in there:
                counted.begin(self._client.subscribe(counted.table.name, interval_ms=_INTERVAL_MS))

    def wait_for(self, steps: dict[str, int], timeout: float) -> None:
        """Wait until every subscription has come to its table's entry in ``steps``.

        Args:
            steps: steps of the server, by table name.
            timeout: seconds for each table.

        Raises:
            DeadlineError: a subscription takes longer.
        """
        for counted in self.all:
            step = steps.get(counted.table.name)
            if counted.live is not None and step is not None:
                counted.live.wait_until(partial(_has_come_to, step), timeout)

    def close(self) -> None:
        """End the subscriptions and the connection."""
        for counted in self.all:
            if counted.live is not None:
                counted.live.close()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _has_come_to(step: int, live: LiveTable) -> bool:
    return live.step >= step
