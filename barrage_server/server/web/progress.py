"""The end of a websocket whose client takes nothing."""

from __future__ import annotations

import asyncio

from websockets.asyncio.server import ServerConnection

from barrage_server.server.stall import Awaited, StallWatch

__all__ = ["ProgressWatch"]


class ProgressWatch:
    """Ends a connection whose client stalls while something is sent to it.

    Each byte that the client takes is progress.

    Args:
        connection: the websocket.
        stall: the watch over the client.
        seconds: seconds without progress after which the connection ends.
    """

    def __init__(self, connection: ServerConnection, stall: StallWatch, seconds: float) -> None:
        self._connection = connection
        self._stall = stall
        self._seconds = seconds
        self._left = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None

    def __enter__(self) -> None:
        # runs only when sending waits, because the frame did not fit into the buffer
        self._timer = self._loop.call_soon(self._begin)

    def __exit__(self, *_: object) -> None:
        self._stall.rest()
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        self._left = self._connection.transport.get_write_buffer_size()
        self._stall.expect(Awaited.TAKE, self._seconds)
        self._look_later()

    def _look_later(self) -> None:
        # twice within the time, so that progress is recorded before the client counts as overdue
        self._timer = self._loop.call_later(self._seconds / 2, self._look)

    def _look(self) -> None:
        if self._connection.transport.get_write_buffer_size() < self._left:
            self._begin()
        elif not self._stall.is_overdue:
            self._look_later()
        else:
            self._connection.transport.abort()
