"""A page over a websocket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from websockets.asyncio.server import ServerConnection, broadcast
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.protocol import State

from barrage_server.errors import BarrageError, UnavailableError, WireFormatError
from barrage_server.server.stall import StallWatch
from barrage_server.server.web.channel import ChannelClosedError, PageChannel
from barrage_server.server.web.front import close_reason, peer_of
from barrage_server.server.web.page import Page
from barrage_server.server.web.progress import ProgressWatch
from barrage_server.server.web.service import PageService

__all__ = ["PageSocket"]

_SMALL_BYTES: Final = 16 << 10
"""Most bytes of frames for an empty buffer of a connection: half of the library's ``write_limit``."""
_STOPPING: Final = UnavailableError("The server is shutting down.")


class WebsocketChannel(PageChannel):
    """Carries the frames of a page as those of a websocket.

    Args:
        connection: the websocket, open.
        seconds: seconds without taking a byte after which the page loses its connection.
        clock: the server's clock.
    """

    def __init__(self, connection: ServerConnection, seconds: float, clock: Callable[[], float]) -> None:
        self.peer = peer_of(connection)
        self.stall = StallWatch(clock)
        self._connection = connection
        self._seconds = seconds

    @property
    def is_open(self) -> bool:
        """Whether the websocket is open."""
        return self._connection.state is State.OPEN

    async def texts(self) -> AsyncIterator[str]:
        """The text frames of the page.

        Raises:
            WireFormatError: a frame is binary.
        """
        try:
            async for text in self._connection:
                if not isinstance(text, str):
                    raise WireFormatError("A page sends text frames only.")
                yield text
        except ConnectionClosed:
            return

    async def send(self, *frames: str | bytes) -> None:
        """Send frames.

        Raises:
            ChannelClosedError: the websocket is closed.
        """
        try:
            for frame in frames:
                with ProgressWatch(self._connection, self.stall, self._seconds):
                    await self._connection.send(frame)
        except ConnectionClosed:
            raise ChannelClosedError from None

    def send_at_once(self, frames: Sequence[str | bytes]) -> bool:
        """Send small frames if the client has taken all before them.

        Returns:
            Whether they were sent.
        """
        connection = self._connection
        if not self.is_open or connection.transport.get_write_buffer_size():
            return False
        if sum(map(len, frames)) > _SMALL_BYTES:
            return False
        for frame in frames:
            broadcast((connection,), frame)
        return True

    async def close(self, reason: BarrageError) -> None:
        """Close the websocket, with a code that fits the reason."""
        code = CloseCode.POLICY_VIOLATION
        if isinstance(reason, WireFormatError):
            code = CloseCode.PROTOCOL_ERROR
        elif isinstance(reason, UnavailableError):
            code = CloseCode.GOING_AWAY
        await self._connection.close(code, close_reason(str(reason)))


class PageSocket:
    """Serves a page over a websocket; a :class:`FrontSocket`.

    Args:
        connection: the websocket, open.
        service: the state that all pages share.
    """

    def __init__(self, connection: ServerConnection, service: PageService) -> None:
        state = service.server_state
        self._channel = WebsocketChannel(connection, state.limits.slow_client_seconds, state.clock)
        self._page = Page(self._channel, service)

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return self._page.streams

    @property
    def is_known(self) -> bool:
        """Whether the page has shown valid credentials."""
        return self._page.is_known

    @property
    def half_bytes(self) -> int:
        """None: messages are not assembled here."""
        return 0

    async def run(self) -> None:
        """Serve the websocket until it is closed and its streams have ended."""
        await self._page.run()

    async def say_goodbye(self) -> None:
        """Return when the page has disconnected. The end of its streams tells it to."""
        await self._channel.close(_STOPPING)
        await self._page.wait_gone()

    async def cut(self) -> None:
        """End the websocket and all its streams."""
        await self.say_goodbye()
