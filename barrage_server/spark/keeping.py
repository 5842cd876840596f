"""Keeping the staged rows of a running job from expiring."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from barrage_server.errors import BarrageError

__all__ = ["kept_alive"]

_log: Final = logging.getLogger("barrage_server.spark")

_PER_EXPIRY: Final = 3
"""Calls within the time for which one call keeps the rows."""
_RETRY_SECONDS: Final = 5.0
"""Seconds after which a failed call is repeated."""
_JOIN_SECONDS: Final = 1.0


@contextmanager
def kept_alive(keep: Callable[[], float]) -> Iterator[None]:
    """Keep staged rows alive during the body, by calls of ``keep()`` on a thread.

    The first call is at the start, and each further one well before the end of the returned time. A call that fails is
    repeated, and does not fail the body.

    Args:
        keep: keeps the rows, and returns the seconds for which they are safe.
    """
    ended = threading.Event()

    def run() -> None:
        while True:
            try:
                pause = keep() / _PER_EXPIRY
            except BarrageError as error:
                _log.debug("staged rows could not be kept: %s", error)
                pause = _RETRY_SECONDS
            if ended.wait(pause):
                return

    thread = threading.Thread(target=run, name="barrage-keep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_JOIN_SECONDS)  # a thread within a call ends after the call
