"""Limits for connections of the Flight endpoint without credentials.

A handshake occupies a thread of Flight until the caller sends a message. Flight neither limits nor ends that, and does
not give the peer. So handshakes without credentials are counted, and when one takes too long, all connections that are
as old and have made no call with valid credentials are shut.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from typing import Final

from barrage_server.errors import LimitError

__all__ = ["Strangers"]

_MOST_KNOWN: Final = 10_000
"""Peers from which those are dropped that are not connected any more."""


class Strangers:
    """Distinguishes callers with valid credentials from others. Methods may be called from any thread.

    Args:
        handshakes: handshakes without credentials at a time.
        seconds: most seconds of one.
        connected: returns the connected peers, as :func:`~barrage_server.flight.sockets.peer_name` calls them.
        shut: ends the connection to a peer.

    """

    def __init__(
        self, handshakes: int, seconds: float, connected: Callable[[], Set[str]], shut: Callable[[str], object]
    ) -> None:
        self._most = handshakes
        self._seconds = seconds
        self._connected = connected
        self._shut = shut
        self._lock = threading.Lock()
        self._open = 0
        self._known: set[str] = set()
        self._seen: dict[str, float] = {}

    @property
    def handshakes(self) -> int:
        """Handshakes without credentials that are open."""
        return self._open

    def check_room(self) -> None:
        """Raise LimitError when there are as many handshakes as the server allows."""
        if self._open >= self._most:
            raise LimitError(
                f"This server has {self._most} handshakes open and takes no more. Try again later, or send the token "
                f"in the header 'authorization: Bearer <token>'."
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

    def let_in(self, peer: str) -> None:
        """CycleNote that a call of ``peer`` has shown good credentials."""
        if peer not in self._known:
            with self._lock:
                self._known.add(peer)

    def tidy(self, now: float) -> None:
        """End handshakes that take too long; called about once a second, with the time."""
        if not self._open and len(self._known) <= _MOST_KNOWN:
            self._seen.clear()
            return
        connected = self._connected()
        with self._lock:
            if len(self._known) > _MOST_KNOWN:
                self._known &= connected
            strangers = connected - self._known
        self._seen = {peer: self._seen.get(peer, now) for peer in strangers}
        if self._open:
            for peer, since in self._seen.items():
                if now - since >= self._seconds:
                    self._shut(peer)
