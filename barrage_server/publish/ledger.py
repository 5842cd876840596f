"""Which batch each publisher has committed last, so that a replayed one is recognised."""

from __future__ import annotations

import threading
from collections import OrderedDict

__all__ = ["Ledger"]


class Ledger:
    """The last committed batch per publisher and table.

    Batch numbers of one publisher only grow (Spark counts its micro-batches), so one number says about every batch
    whether it is in.

    Publishers come and go, and none says that it will not return: beyond ``capacity`` entries, those that have not
    committed for longest are forgotten.
    """

    def __init__(self, capacity: int = 100_000) -> None:
        self._lock = threading.Lock()
        self._capacity = capacity
        self._last: OrderedDict[tuple[str, str], int] = OrderedDict()

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
            self._last.move_to_end(key)
            while len(self._last) > self._capacity:
                self._last.popitem(last=False)

    def forget_table(self, table: str) -> None:
        """Forget ``table``, which is gone: a table of that name made later starts with nothing committed."""
        with self._lock:
            for key in [key for key in self._last if key[1] == table]:
                del self._last[key]

    def entries(self) -> dict[tuple[str, str], int]:
        """A copy of everything: (publisher, table) -> last batch."""
        with self._lock:
            return dict(self._last)
