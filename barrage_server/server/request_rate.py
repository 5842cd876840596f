"""How many calls a principal may make in a second."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from barrage_server.errors import LimitError
from barrage_server.server.principal import Principal

__all__ = ["RequestRate"]

_MOST_PRINCIPALS: Final = 10_000


class RequestRate:
    """A token bucket for each principal: ``per_second`` calls a second, as many at once. Thread-safe.

    Callers of a server that accepts every caller have none: their names distinguish nothing.

    Args:
        per_second: calls of one principal a second; at least one.
        clock: a monotonic clock, in seconds.

    """

    def __init__(self, per_second: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # by principal: calls left, and when

    def admit(self, principal: Principal) -> None:
        """Count a call; LimitError when there were too many."""
        owner = principal.owner
        if not owner:
            return
        with self._lock:
            now = self._clock()
            left, when = self._buckets.get(owner, (float(self._per_second), now))
            left = min(float(self._per_second), left + (now - when) * self._per_second)
            is_admitted = left >= 1.0
            self._buckets[owner] = (left - 1.0 if is_admitted else left, now)
            self._buckets.move_to_end(owner)
            if len(self._buckets) > _MOST_PRINCIPALS:
                self._buckets.popitem(last=False)
        if not is_admitted:
            raise LimitError(
                f"'{principal.name}' makes more than {self._per_second:,} calls a second (requests_per_second), and "
                f"may make no more now; try again later."
            )
