"""Spark's Python worker, as a task finds it, costs more than the task's work when a batch is small. Two remedies.

Spark writes to a worker over TCP without ``TCP_NODELAY``: the last, partly filled packet of what it has written waits
until the worker has acknowledged the packets before, and Linux takes 40 ms for that, once per task or more. The
receiver cannot change how the sender sends, but it can acknowledge at once.

After every task a worker that is kept looks for garbage among all the objects that it has: some 20 ms, nearly all of
them for what was imported and stays.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
from typing import Final

from barrage_server.flight.sockets import tcp_sockets

__all__ = ["PromptSockets", "keep_what_is_loaded"]

_OPTION: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)


def keep_what_is_loaded() -> None:
    """Take what is loaded by now out of the search for garbage, once per process."""
    if gc.get_freeze_count() == 0:
        gc.collect()
        gc.freeze()


class PromptSockets:
    """The TCP sockets that this process has open, to acknowledge at once what has come over them.

    Spark does not say which of them is its own; for the others it does no harm. Does nothing on systems without
    ``TCP_QUICKACK``. A context manager: what it opens, duplicates of file descriptors, is closed at its end.
    """

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        if _OPTION is not None:
            for each in tcp_sockets():
                with contextlib.suppress(OSError):  # closed by another thread meanwhile
                    # Not each.dup(): that makes the connection a blocking one for its owner, too.
                    self._sockets.append(socket.socket(fileno=os.dup(each.fileno())))

    def acknowledge(self) -> None:
        """Acknowledge now. Linux goes back to waiting after a while, so once is not enough."""
        if _OPTION is None:
            return
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.setsockopt(socket.IPPROTO_TCP, _OPTION, 1)

    def close(self) -> None:
        """Close the duplicates; the connections themselves stay open."""
        for each in self._sockets:
            each.close()
        self._sockets = []

    def __enter__(self) -> PromptSockets:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
