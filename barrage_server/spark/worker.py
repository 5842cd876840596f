"""Two optimisations of Spark's Python worker, for small batches.

Spark writes to a worker over TCP without ``TCP_NODELAY``: the last, partly filled packet waits until the worker has
acknowledged the previous packets, which Linux delays by 40 ms, once per task or more. The receiver cannot change the
sender, but it can acknowledge at once.

After every task a reused worker runs a garbage collection over all of its objects: some 20 ms, mostly for imported
modules. :func:`gc.freeze` once makes later collections skip them.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
from typing import Final

from barrage_server.flight.sockets import tcp_sockets

__all__ = ["QuickAckSockets", "keep_what_is_loaded"]

_OPTION: Final[int | None] = getattr(socket, "TCP_QUICKACK", None)


def keep_what_is_loaded() -> None:
    """Let later garbage collections skip all present objects. Once per process."""
    if gc.get_freeze_count() == 0:
        gc.collect()
        gc.freeze()


class QuickAckSockets:
    """The open TCP sockets of this process, to acknowledge received bytes at once.

    Spark does not say which of them is its own; the others are not harmed. Without ``TCP_QUICKACK``, on some systems,
    nothing is done. A context manager: it opens duplicates of file descriptors, and closes them at its end.
    """

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        if _OPTION is not None:
            for each in tcp_sockets():
                with contextlib.suppress(OSError):  # closed by another thread meanwhile
                    # Not each.dup(): that makes the connection a blocking one for its owner, too.
                    self._sockets.append(socket.socket(fileno=os.dup(each.fileno())))

    def acknowledge(self) -> None:
        """Acknowledge all received bytes.

        Linux returns to delayed acknowledgements after a while, so once is not enough.
        """
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

    def __enter__(self) -> QuickAckSockets:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
