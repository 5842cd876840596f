"""A running job keeps what its tasks have staged from expiring."""

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
"""Calls within the time for which one of them keeps what is staged."""
_RETRY_SECONDS: Final = 5.0
"""Seconds after which a call that failed is repeated."""
_JOIN_SECONDS: Final = 1.0


@contextmanager
def kept_alive(keep: Callable[[], float]) -> Iterator[None]:
    """Call ``keep()`` from a thread during the body: at its start, and well before the end of each time it returns.

    A call that fails is repeated; it does not fail the body.

    Args:
        keep: keeps what is staged, and returns for how many seconds.
    """
    ended = threading.Event()

    def run() -> None:
        while True:
            try:
                pause = keep() / _PER_EXPIRY
            except BarrageError as error:
                _log.debug("what is staged could not be kept: %s", error)
                pause = _RETRY_SECONDS
            if ended.wait(pause):
                return

    thread = threading.Thread(target=run, name="barrage-keep", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_JOIN_SECONDS)  # one that is within a call ends after it
