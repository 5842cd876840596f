"""Counts of publishes since the server started."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping

__all__ = ["Counters"]


class Counters:
    """Counts of publishes and their rows, by kind.

    Methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._publishes: Counter[str] = Counter()
        self._rows: Counter[str] = Counter()

    def published(self, kind: str, rows: int) -> None:
        """Count one publish.

        Args:
            kind: ``put``, ``commit`` of staged batches, or ``update`` of a table that ticks at its publisher.
            rows: number of its rows.

        """
        with self._lock:
            self._publishes[kind] += 1
            self._rows[kind] += rows

    def publishes(self) -> Mapping[str, tuple[int, int]]:
        """Number of publishes and of rows, by kind."""
        with self._lock:
            return {kind: (number, self._rows[kind]) for kind, number in self._publishes.items()}
