"""Time-outs for the actions of clients, for streams at any endpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum

__all__ = ["Awaited", "StallWatch"]


class Awaited(Enum):
    """The awaited action of a client; the value is the log's text after a time-out."""

    TAKE = "the client did not take a message for {:.1f} s"
    SEND = "nothing was sent for {:.1f} s"
    HANG_UP = "the client did not hang up when it was told that its stream ends"


class StallWatch:
    """The awaited action of a client, with its start and its time-out.

    A client that reads slowly only falls behind. A client that does not act within the time of
    :class:`~barrage_server.server.limits.Limits` loses its connection. Methods may be called from any thread.

    Args:
        clock: a monotonic clock, in seconds.

    """

    __slots__ = ("_awaited", "_clock")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._awaited: tuple[Awaited, float, float] | None = None  # replaced as a whole: others read it meanwhile

    @property
    def taking_since(self) -> float | None:
        """The time since which a message waits to be taken; ``None`` if none does."""
        awaited = self._awaited
        return awaited[1] if awaited is not None and awaited[0] is Awaited.TAKE else None

    @property
    def awaited(self) -> tuple[Awaited, float] | None:
        """The awaited action and the time since when; ``None`` without one."""
        awaited = self._awaited
        return None if awaited is None else awaited[:2]

    def expect(self, what: Awaited, seconds: float) -> None:
        """Await ``what`` of the client within ``seconds`` from now."""
        self._awaited = (what, self._clock(), seconds)

    def rest(self) -> None:
        """Await nothing."""
        self._awaited = None

    @contextmanager
    def taking(self, seconds: float) -> Iterator[None]:
        """Await that the client takes, within ``seconds``, what the ``with`` body sends."""
        self.expect(Awaited.TAKE, seconds)
        try:
            yield
        finally:
            self._awaited = None

    @property
    def is_overdue(self) -> bool:
        """Whether the connection should end now."""
        return self.overdue(self._clock()) is not None

    def overdue(self, now: float) -> str | None:
        """The reason to end the connection at ``now``, for the log; ``None`` without one."""
        awaited = self._awaited
        if awaited is None:
            return None
        what, since, seconds = awaited
        return what.value.format(now - since) if now - since >= seconds else None
