"""A page over a Flight exchange at any endpoint: how it begins and ends."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from barrage_server.engine import Table
from barrage_server.errors import BarrageError
from barrage_server.server.open_stream import OpenStream
from barrage_server.server.principal import Principal
from barrage_server.server.private_tables import Need
from barrage_server.server.server_state import ServerState
from barrage_server.server.stall import StallWatch
from barrage_server.server.web.exchange_channel import ExchangeChannel
from barrage_server.server.web.page import Page
from barrage_server.server.web.service import PageService

__all__ = ["ExchangePage"]


class ExchangePage(OpenStream):
    """One page over an exchange.

    An endpoint opens the page on the event loop of the pages, passes the client's messages to its channel, and closes
    it when the client has disconnected.

    Args:
        server_state: the server's state.
        principal: the caller.
        peer: the client's address, as ``127.0.0.1:50000``.
        stall: the watch over the client's progress.
        service: the state that all pages share.

    """

    kind = "page"

    def __init__(
        self, server_state: ServerState, principal: Principal, peer: str, stall: StallWatch, service: PageService
    ) -> None:
        super().__init__(server_state, principal, peer, stall)
        self._service = service
        self._page: Page | None = None
        self._serving: asyncio.Task[None] | None = None
        self._ending: BarrageError | None = None

    # On the event loop of the pages.

    async def _open(self, table: Callable[[bytes], Awaitable[Table | None]] | None = None) -> ExchangeChannel:
        """Begin to serve the page.

        Args:
            table: finds the tables of tickets that the exchange knows.

        Returns:
            The channel to the page.

        """
        channel = ExchangeChannel(
            self.principal,
            self.peer,
            self.stall,
            self._write,
            self._finish,
            self.server_state.limits.idle_stream_seconds,
            table,
        )
        self._page = page = Page(channel, self._service)
        self._serving = asyncio.get_running_loop().create_task(page.run())
        self._serving.add_done_callback(lambda _: channel.stop())  # the page may end by itself, and then reads no more
        if self._ending is not None:
            page.end(self._ending)
        return channel

    async def _close(self, channel: ExchangeChannel) -> None:
        """End the channel, and wait until the page has ended."""
        channel.stop()
        if self._serving is not None:
            await asyncio.wait([self._serving])

    @abstractmethod
    async def _write(self, messages: Sequence[bytes]) -> None:
        """Write messages; return when there is room for more.

        Raises:
            ChannelClosedError: the client has disconnected.

        """

    @abstractmethod
    def _finish(self) -> None:
        """End the call: the page has ended."""

    def _end(self, error: BarrageError) -> None:
        self._ending = error
        if self._page is not None:
            self._page.end(error)

    # On any thread.

    def needs(self) -> Sequence[Need]:
        """Nothing: each stream of the page has its own needs."""
        return ()

    def cut(self) -> bool:
        """False: neither Flight nor gRPC can end a call whose client reads nothing."""
        return False

    def end(self, error: BarrageError) -> None:
        """End the page with ``error``, which it shows."""
        with suppress(RuntimeError):  # the event loop is closed
            self._service.loop.call_soon_threadsafe(self._end, error)
