"""Limits for handshakes at the Flight endpoint without credentials.

A handshake occupies a thread of Flight until the caller sends a message. Flight neither limits nor ends it, and does
not tell its peer. So handshakes without credentials are counted; when one takes too long, all connections of that age
without a call with valid credentials are shut.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from barrage_server.errors import LimitError

__all__ = ["Strangers"]


class Strangers:
    """Counts handshakes of callers without credentials.

    Methods may be called from any thread.

    Args:
        handshakes: most handshakes without credentials at a time.
        seconds: most seconds of one handshake.
        shut_older: shuts strangers by the age of their connections, in seconds, and the time.

    """

    def __init__(self, handshakes: int, seconds: float, shut_older: Callable[[float, float], object]) -> None:
        self._most = handshakes
        self._seconds = seconds
        self._shut_older = shut_older
        self._lock = threading.Lock()
        self._open = 0

    @property
    def handshakes(self) -> int:
        """Number of open handshakes without credentials."""
        return self._open

    def check_room(self) -> None:
        """Raise LimitError when the server has the most handshakes that it allows."""
        if self._open >= self._most:
            raise LimitError(
                f"This server has {self._most} handshakes open (handshakes) and takes no more. Try again later, or "
                f"send the token in the header 'authorization: Bearer <token>'."
            )

    @contextmanager
    def handshake(self) -> Iterator[None]:
        """Count a handshake while the ``with`` body runs, after :meth:`check_room`."""
        with self._lock:
            self.check_room()
            self._open += 1
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1

    def tidy(self, now: float) -> None:
        """End handshakes that take too long. Called about once a second, with the time."""
        if self._open:
            self._shut_older(self._seconds, now)
