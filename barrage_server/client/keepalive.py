"""Periodic calls that keep a session and its connection alive."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from barrage_server.errors import BarrageError
from barrage_server.process import start_thread

__all__ = ["KeepAlive"]

logger = logging.getLogger("barrage_server.client")

PAUSE: Final = 3.0
"""Seconds between two calls to a Deephaven server.

It drops a session that is idle for a time which Flight does not report: five minutes by default, ten seconds at least.
"""
PROBE_PAUSE: Final = 10.0
"""Seconds between two calls to a server without sessions: less than the silence after which gRPC pings."""


class KeepAlive:
    """Calls ``ping`` on a thread of its own while any caller is inside :meth:`held`.

    An open stream does not count as a call: without other calls the session expires, and the server ends the stream.

    Args:
        ping: a cheap call; its errors are ignored.
        name: name of the thread.
        pause: seconds between two calls.
    """

    def __init__(self, ping: Callable[[], object], name: str, pause: float = PAUSE) -> None:
        self._ping = ping
        self._name = name
        self._pause = pause
        self._changed = threading.Condition()
        self._holders = 0
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether the thread runs."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the session alive while the ``with`` body runs.

        Raises:
            LimitError: this process can start no further thread.
        """
        with self._changed:
            self._holders += 1
            if not self.is_running:  # a forked process has no thread either
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                try:
                    start_thread(self._thread)
                except BaseException:
                    self._holders -= 1
                    raise
        try:
            yield
        finally:
            with self._changed:
                self._holders -= 1
                self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: self._holders == 0, self._pause):
                    self._thread = None
                    return
            try:
                self._ping()
            except BarrageError as error:
                logger.debug("%s: %s", self._name, error)  # open streams raise the error themselves
