"""When a client holds things up: one policy for the streams of all endpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum

__all__ = ["Awaited", "StallWatch"]


class Awaited(Enum):
    """The awaited action of a client. The value is the log's text after a time-out, with the seconds."""

    TAKE = "the client did not take a message for {:.1f} s"
    SEND = "nothing was sent for {:.1f} s"
    HANG_UP = "the client did not hang up when it was told that its stream ends"


class StallWatch:
    """The awaited action of a client, since when, and its time-out. Thread-safe.

    A client that reads slowly only falls behind. One that does not act within the time of
    :class:`~barrage_server.server.limits.Limits` loses its connection.

    Args:
        clock: a monotonic clock, in seconds.

    """

    __slots__ = ("_awaited", "_clock")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._awaited: tuple[Awaited, float, float] | None = None  # replaced as a whole: others read it meanwhile

    @property
    def taking_since(self) -> float | None:
        """Since when a message waits to be taken; ``None`` when none does."""
        awaited = self._awaited
        return awaited[1] if awaited is not None and awaited[0] is Awaited.TAKE else None

    @property
    def awaited(self) -> tuple[Awaited, float] | None:
        """The awaited action, and since when; ``None`` when nothing is waited for."""
        awaited = self._awaited
        return None if awaited is None else awaited[:2]

    def expect(self, what: Awaited, seconds: float) -> None:
        """The client is to do ``what`` within ``seconds`` from now."""
        self._awaited = (what, self._clock(), seconds)

    def rest(self) -> None:
        """Nothing is waited for."""
        self._awaited = None

    @contextmanager
    def taking(self, seconds: float) -> Iterator[None]:
        """The client is to take, within ``seconds``, what the ``with`` body sends."""
        self.expect(Awaited.TAKE, seconds)
        try:
            yield
        finally:
            self._awaited = None

    def overdue(self, now: float) -> str | None:
        """Why the connection should be ended at ``now``, for the log; ``None`` when all is well. Changes nothing."""
        awaited = self._awaited
        if awaited is None:
            return None
        what, since, seconds = awaited
        return what.value.format(now - since) if now - since >= seconds else None
