"""A count of the bytes that a browser receives.

All requests count, headers and frames of websockets included.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

__all__ = ["Counter"]

_PIECE: Final = 1 << 16


class Counter:
    """Passes connections on to a port of this machine.

    Args:
        target: the port.

    Attributes:
        port: its own.
        received: bytes that came back from the target so far.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.received = 0
        threading.Thread(target=self._accept, name="counter", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for end in (self._listener, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                self._ends += [near, far]
                for source, sink, counts in ((near, far, False), (far, near, True)):
                    threading.Thread(target=self._pass_on, args=(source, sink, counts), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE):
                if counts:
                    with self._lock:
                        self.received += len(piece)
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
