"""Keeping a session alive: a call now and then, while anything of the client is open."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from barrage_server.errors import BarrageError

__all__ = ["KeepAlive", "next_pause"]

logger = logging.getLogger("barrage_server.client")

FIRST_PAUSE: Final = 0.2
LONGEST_PAUSE: Final = 5.0


class KeepAlive:
    """Calls ``ping`` on a thread of its own, for as long as somebody is inside :meth:`held`.

    A Deephaven server forgets a session for which no call has come for its time, and ends its streams; an open stream
    does not count as a call. That time is not told over Flight. But the server gives a new token when a fifth of it has
    passed, so the pauses between calls grow until tokens come with them.

    Args:
        ping: a cheap call; what it raises is left to those who use the connection.
        tokens: how many tokens the server has given so far.
        name: of the thread.
    """

    def __init__(self, ping: Callable[[], object], tokens: Callable[[], int], name: str) -> None:
        self._ping = ping
        self._tokens = tokens
        self._name = name
        self._changed = threading.Condition()
        self._holders = 0
        self._thread: threading.Thread | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """The session stays alive while the ``with`` body runs."""
        with self._changed:
            self._holders += 1
            if self._thread is None or not self._thread.is_alive():  # it does not survive a fork
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
        try:
            yield
        finally:
            with self._changed:
                self._holders -= 1
                self._changed.notify_all()

    @property
    def is_running(self) -> bool:
        """Whether there is a thread."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._holders == 0, pause):
                    self._thread = None
                    return
            before = self._tokens()
            try:
                self._ping()
            except BarrageError as error:
                logger.debug("%s: %s", self._name, error)  # whatever is open finds out by itself
                pause = FIRST_PAUSE
            else:
                pause = next_pause(pause, gave_token=self._tokens() != before)


def next_pause(pause: float, *, gave_token: bool) -> float:
    """Seconds to the next call, after a pause at whose end the server did or did not give a new token."""
    return max(FIRST_PAUSE, pause / 2) if gave_token else min(LONGEST_PAUSE, pause * 2)
