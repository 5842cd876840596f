"""Which batch each publisher has committed last, so that a replayed one is recognised."""

from __future__ import annotations

import threading

__all__ = ["Ledger"]


class Ledger:
    """The last committed batch per publisher and table.

    Batch numbers of one publisher only grow (Spark counts its micro-batches), so one number says about every batch
    whether it is in.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[tuple[str, str], int] = {}

    def last(self, publisher: str, table: str) -> int | None:
        """The last batch that ``publisher`` committed to ``table``; ``None`` when there is none."""
        with self._lock:
            return self._last.get((publisher, table))

    def has(self, publisher: str, table: str, batch: int) -> bool:
        """Whether ``batch`` was committed before."""
        last = self.last(publisher, table)
        return last is not None and batch <= last

    def advance(self, publisher: str, table: str, batch: int) -> None:
        """Note that ``batch`` is committed. Never goes back."""
        with self._lock:
            key = (publisher, table)
            self._last[key] = max(batch, self._last.get(key, batch))

    def forget_table(self, table: str) -> None:
        """Forget ``table``, which is gone: a table of that name made later starts with nothing committed."""
        with self._lock:
            self._last = {key: batch for key, batch in self._last.items() if key[1] != table}

    def entries(self) -> dict[tuple[str, str], int]:
        """A copy of everything: (publisher, table) -> last batch."""
        with self._lock:
            return dict(self._last)
