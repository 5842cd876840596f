"""A page over a Flight exchange: its frames are app_metadata without rows."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from barrage_server.engine import Table
from barrage_server.errors import BarrageError, DeadlineError, InvalidRequestError, LimitError, WireFormatError
from barrage_server.server.principal import Principal
from barrage_server.server.stall import StallWatch
from barrage_server.server.web.channel import ChannelClosedError, PageChannel
from barrage_server.wire.page_messages import MOST_TEXT_BYTES, ExchangeKind

__all__ = ["ExchangeChannel", "received"]

_MOST_WAITING: Final = 16
"""Unhandled messages at which reading stops."""
_REASON: Final = 1_000
"""Most characters of the reason of the end."""

Write = Callable[[Sequence[bytes]], Awaitable[None]]
"""Writes messages; returns when there is room for more. ChannelClosedError: the client has disconnected."""


def received(app_metadata: bytes | memoryview, *, has_rows: bool) -> str | BarrageError | None:
    """The text in a message from a page, or the error of an invalid one.

    Args:
        app_metadata: the message's app_metadata.
        has_rows: whether the message has anything else.

    Returns:
        The text; InvalidRequestError for rows, LimitError for a text that is too long, and WireFormatError for bytes
        that are not UTF-8; ``None`` for an empty message.
    """
    if has_rows:
        return InvalidRequestError("A page sends its messages in app_metadata, and no rows.")
    if not app_metadata:
        return None
    if len(app_metadata) > MOST_TEXT_BYTES:
        return LimitError(f"A message of a page has {MOST_TEXT_BYTES:,} bytes at most.")
    try:
        return str(app_metadata, "utf-8")
    except UnicodeDecodeError:
        return WireFormatError("A message of a page is UTF-8 text.")


class ExchangeChannel(PageChannel):
    """Carries the frames of a page for an exchange. Made on the pages' event loop.

    The exchange passes the client's messages to :meth:`put`, and ``write`` sends messages over it.

    Args:
        principal: the caller.
        peer: the client's address.
        stall: the watch over the client's progress in taking frames.
        write: writes messages.
        over: called when the page has ended, and the client must disconnect.
        first_seconds: seconds that the client may take for its first message.
        table: finds the tables of tickets that the exchange knows.
    """

    def __init__(
        self,
        principal: Principal,
        peer: str,
        stall: StallWatch,
        write: Write,
        over: Callable[[], object],
        first_seconds: float,
        table: Callable[[bytes], Awaitable[Table | None]] | None = None,
    ) -> None:
        self.principal = principal
        self.peer = peer
        self.stall = stall
        self._write = write
        self._tell_over = over
        self._first_seconds = first_seconds
        self._find_table = table
        self._waiting: deque[str | BarrageError] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._is_over = False

    # For the exchange.

    async def put(self, text: str | BarrageError) -> None:
        """Pass a message to the page, or the error of an invalid one.

        Returns when there is room for more, or the page has ended.
        """
        self._waiting.append(text)
        self._arrived.set()
        while len(self._waiting) >= _MOST_WAITING and not self._is_over:
            self._room.clear()
            await self._room.wait()

    def stop(self) -> None:
        """End the channel: the client has disconnected."""
        if not self._is_over:
            self._is_over = True
            self._arrived.set()
            self._room.set()
            self._tell_over()

    # For the page.

    @property
    def is_open(self) -> bool:
        """Whether neither side has ended the channel."""
        return not self._is_over

    async def texts(self) -> AsyncIterator[str]:
        """The messages of the page.

        Raises:
            WireFormatError, InvalidRequestError, LimitError: a message is invalid.
            DeadlineError: nothing came for too long.
        """
        try:
            async with asyncio.timeout(self._first_seconds):
                await self._arrived.wait()
        except TimeoutError:
            raise DeadlineError(
                f"This stream has asked for nothing within {self._first_seconds:g} s (idle_stream_seconds)."
            ) from None
        while not self._is_over:
            if not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            text = self._waiting.popleft()
            self._room.set()
            if isinstance(text, BarrageError):
                raise text
            yield text

    async def send(self, *frames: str | bytes) -> None:
        """Send frames.

        Raises:
            ChannelClosedError: the client has disconnected.
        """
        if self._is_over:
            raise ChannelClosedError
        await self._write([_message(frame) for frame in frames])

    async def close(self, reason: BarrageError) -> None:
        """End the channel, and tell the client the reason."""
        if self._is_over:
            return
        try:
            await self._write([bytes([ExchangeKind.END]) + str(reason)[:_REASON].encode("utf-8", "replace")])
        except ChannelClosedError:
            pass
        finally:
            self.stop()

    async def table(self, ticket: bytes) -> Table | None:
        """The table of a ticket that the exchange knows; ``None`` for other tickets."""
        return None if self._find_table is None else await self._find_table(ticket)


def _message(frame: str | bytes) -> bytes:
    if isinstance(frame, str):
        return bytes([ExchangeKind.TEXT]) + frame.encode()
    return bytes([ExchangeKind.BINARY]) + frame
