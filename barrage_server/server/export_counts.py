"""How many tables clients may hold."""

from __future__ import annotations

import math
import threading

from barrage_server.errors import LimitError
from barrage_server.publish.caller_counts import CallerCounts

__all__ = ["ExportCounts"]


class ExportCounts:
    """Tables that clients hold, in number, and those of each caller. Methods may be called from any thread.

    They are the exports of Deephaven's sessions, and the results of plans that are kept for clients of Arrow Flight.

    Args:
        total: most of all callers.
        per_caller: most of one caller.

    """

    def __init__(self, total: float = math.inf, per_caller: float = math.inf) -> None:
        self._most = total
        self._per_caller = per_caller
        self._of_callers = CallerCounts()
        self._lock = threading.Lock()
        self.total = 0

    def add(self, owner: str, count: int = 1) -> None:
        """Count ``count`` more of a caller; the empty ``owner`` is counted with all only.

        Raises:
            LimitError: there would be more than there may be; nothing is counted then.

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
        """Count one less."""
        with self._lock:
            self.total -= 1
            self._of_callers.remove(owner)
