"""The pages of a server, over any transport, and the service that they share."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from barrage_server.errors import UnavailableError

if TYPE_CHECKING:
    from barrage_server.server.event_loop import EventLoop
    from barrage_server.server.server_state import ServerState
    from barrage_server.server.web.service import PageService

__all__ = ["Pages"]


class Pages:
    """Starts the service that pages share when the first page connects.

    A server without pages has no thread for them. Methods may be called from any thread.

    Args:
        server_state: the server's state.

    """

    def __init__(self, server_state: ServerState) -> None:
        self._server_state = server_state
        self._lock = threading.Lock()
        self._service: PageService | None = None
        self._loop: EventLoop | None = None
        self._is_open = False
        self._is_closed = False

    def open(self, loop: EventLoop | None = None) -> None:
        """Allow pages to connect.

        Args:
            loop: an event loop to run them on, which the caller stops; ``None``: pages get their own.

        """
        with self._lock:
            self._loop = loop
            self._is_open = True

    def service(self) -> PageService:
        """The running service that pages share.

        Raises:
            UnavailableError: the server is closed, or not open yet.
            LimitError: the process can start no further thread.

        """
        with self._lock:
            if self._is_closed:
                raise UnavailableError("The server is shutting down; connect again later.")
            if not self._is_open:
                raise UnavailableError("The server is starting; connect again later.")
            if self._service is None:
                from barrage_server.server.web.service import PageService  # a server may never need it

                self._service = PageService(self._server_state, self._loop)
            return self._service

    def close(self) -> None:
        """End the service; pages that are still open are cut off. May be called again."""
        with self._lock:
            self._is_closed = True
            service = self._service
        if service is not None:
            service.close()
