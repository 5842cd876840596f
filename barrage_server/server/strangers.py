"""Limits for handshakes at the Flight endpoint without credentials.

A handshake occupies a thread of Flight until the caller sends a message. Flight neither limits nor ends that, and does
not give the peer. So handshakes without credentials are counted, and when one takes too long, all connections that are
as old and have made no call with valid credentials are shut.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from barrage_server.errors import LimitError

__all__ = ["Strangers"]


class Strangers:
    """Counts handshakes of callers without credentials. Methods may be called from any thread.

    Args:
        handshakes: handshakes without credentials at a time.
        seconds: most seconds of one.
        shut_older: ends the connections without credentials that are as old as the given seconds, at the given time.

    """

    def __init__(self, handshakes: int, seconds: float, shut_older: Callable[[float, float], object]) -> None:
        self._most = handshakes
        self._seconds = seconds
        self._shut_older = shut_older
        self._lock = threading.Lock()
        self._open = 0

    @property
    def handshakes(self) -> int:
        """Handshakes without credentials that are open."""
        return self._open

    def check_room(self) -> None:
        """Raise LimitError when there are as many handshakes as the server allows."""
        if self._open >= self._most:
            raise LimitError(
                f"This server has {self._most} handshakes open (handshakes) and takes no more. Try again later, or "
                f"send the token in the header 'authorization: Bearer <token>'."
            )

    @contextmanager
    def handshake(self) -> Iterator[None]:
        """Count a handshake while the ``with`` body runs. Raises what :meth:`check_room` does."""
        with self._lock:
            self.check_room()
            self._open += 1
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1

    def tidy(self, now: float) -> None:
        """End handshakes that take too long; called about once a second, with the time."""
        if self._open:
            self._shut_older(self._seconds, now)
