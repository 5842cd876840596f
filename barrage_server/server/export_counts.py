"""Bounds of the tables that clients hold."""

from __future__ import annotations

import math
import threading

from barrage_server.errors import LimitError
from barrage_server.publish.caller_counts import CallerCounts

__all__ = ["ExportCounts"]


class ExportCounts:
    """Number of tables that clients hold: in total, and of each caller.

    These are exports of Deephaven's sessions, and results of plans kept for clients of Arrow Flight. Methods may be
    called from any thread.

    Args:
        total: most tables of all callers.
        per_caller: most tables of one caller.

    Attributes:
        total: number of tables of all callers.

    """

    def __init__(self, total: float = math.inf, per_caller: float = math.inf) -> None:
        self._most = total
        self._per_caller = per_caller
        self._of_callers = CallerCounts()
        self._lock = threading.Lock()
        self.total = 0

    def add(self, owner: str, count: int = 1) -> None:
        """Count further tables of a caller; of an empty ``owner``, only in the total.

        Raises:
            LimitError: a bound would be exceeded; nothing is counted then.

        """
        with self._lock:
            if owner and self._of_callers[owner] + count > self._per_caller:
                raise LimitError(
                    f"A caller may hold {self._per_caller:,} exports (exports_per_caller), the results of its plans "
                    f"included, and you would hold more. Release those that are not used: close their tables."
                )
            if self.total + count > self._most:
                raise LimitError(
                    f"All callers may hold {self._most:,} exports (total_exports), and would hold more; try later."
                )
            self.total += count
            self._of_callers.add(owner, count)

    def remove(self, owner: str) -> None:
        """Count one table less."""
        with self._lock:
            self.total -= 1
            self._of_callers.remove(owner)
