"""Bounds of the calls a second, of each principal and in total."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from barrage_server.errors import LimitError
from barrage_server.server.principal import Principal
from barrage_server.server.recent import RecentMap

__all__ = ["RequestRate"]

_MOST_PRINCIPALS: Final = 10_000


class _Bucket:
    """A token bucket: ``per_second`` calls a second, as many at once."""

    __slots__ = ("_per_second", "_when", "left")

    def __init__(self, per_second: int, now: float) -> None:
        self._per_second = float(per_second)
        self._when = now
        self.left = self._per_second

    def refill(self, now: float) -> None:
        """Add the calls of the time since the last refill."""
        self.left = min(self._per_second, self.left + (now - self._when) * self._per_second)
        self._when = now


class RequestRate:
    """A token bucket for all calls, and one for the calls of each principal.

    On a server that accepts every caller, principals have no buckets, because names distinguish nothing. Methods may be
    called from any thread.

    Args:
        per_second: calls of one principal a second; at least one.
        total_per_second: calls of all principals a second; at least one.
        clock: a monotonic clock, in seconds.

    """

    def __init__(self, per_second: int, total_per_second: int, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._total_per_second = total_per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: RecentMap[str, _Bucket] = RecentMap(_MOST_PRINCIPALS)  # by principal
        self._total = _Bucket(total_per_second, clock())

    def admit(self, principal: Principal) -> None:
        """Count a call; LimitError when there were too many."""
        owner = principal.owner
        with self._lock:
            now = self._clock()
            bucket = self._bucket(owner, now) if owner else None
            self._total.refill(now)
            is_eager = bucket is not None and bucket.left < 1.0
            is_admitted = not is_eager and self._total.left >= 1.0
            if is_admitted:
                self._total.left -= 1.0
                if bucket is not None:
                    bucket.left -= 1.0
        if is_eager:
            raise LimitError(
                f"'{principal.name}' makes more than {self._per_second:,} calls a second (requests_per_second), and "
                f"may make no more now; try again later."
            )
        if not is_admitted:
            raise LimitError(
                f"This server takes {self._total_per_second:,} calls a second (total_requests_per_second), and no more "
                f"now; try again later."
            )

    def _bucket(self, owner: str, now: float) -> _Bucket:
        bucket = self._buckets.get(owner)
        if bucket is None:
            bucket = _Bucket(self._per_second, now)
        else:
            bucket.refill(now)
        self._buckets.put(owner, bucket)
        return bucket
