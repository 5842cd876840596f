"""One page: reads its messages and acts on them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from barrage_server.errors import BarrageError, UnavailableError, WireFormatError
from barrage_server.log import Throttle
from barrage_server.server.authentication import Credentials
from barrage_server.server.principal import UNAUTHENTICATED, Principal
from barrage_server.server.translate import safe_error
from barrage_server.server.web.channel import ChannelClosedError, PageChannel
from barrage_server.server.web.page_streams import PageStreams
from barrage_server.server.web.page_writer import PageWriter
from barrage_server.server.web.query import OPERATIONS
from barrage_server.server.web.session import PageSession
from barrage_server.wire.page_messages import PAGE_VERSION, Health, Hello, Open, PageMessage, Ping

if TYPE_CHECKING:
    from barrage_server.server.web.service import PageService

__all__ = ["Page"]

logger = logging.getLogger("barrage_server.server")

_REFUSALS: Final = Throttle(20, 0.2)
_AT_ONCE: Final = 8
"""Messages of a page that are handled before another page has its turn."""


class Page:
    """Serves one page. Made and used on the event loop of the pages.

    Args:
        channel: carries its frames.
        service: the state that all pages share.

    Attributes:
        principal: the caller.
    """

    def __init__(self, channel: PageChannel, service: PageService) -> None:
        self.principal: Principal = UNAUTHENTICATED
        self._channel = channel
        self._service = service
        self._session = PageSession(service.page_limits)
        self._writer = PageWriter(channel)
        self._streams = PageStreams(self, channel, service, self._session, self._writer)
        self._edition = 0
        self._wants_health = False
        self._is_known = False
        self._gone = asyncio.Event()

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return len(self._streams)

    @property
    def is_known(self) -> bool:
        """Whether the page has said hello with valid credentials."""
        return self._is_known

    async def run(self) -> None:
        """Serve the page until it has disconnected and its streams have ended."""
        self._service.enter(self)
        try:
            taken = 0
            async for text in self._channel.texts():
                taken += 1
                if not taken % _AT_ONCE:  # one read may hold thousands of messages, and other pages share the loop
                    await asyncio.sleep(0)
                message = self._session.receive(text)
                if message is not None:
                    await self._handle(message)
                await self._writer.wait_for_room()
        except ChannelClosedError:
            pass  # nothing to answer
        except BarrageError as error:
            await self._writer.refuse(error)
        except Exception as error:  # the boundary: other pages go on
            await self._writer.refuse(safe_error(error, "a page", self._channel.peer))
        finally:
            self._streams.leave()
            await self._writer.stop()
            self._service.leave(self)
            self._gone.set()

    async def wait_gone(self) -> None:
        """Return when :meth:`run` has ended."""
        await self._gone.wait()

    def end(self, error: BarrageError) -> None:
        """End the page and its streams.

        It may reconnect only when the server is unavailable.
        """
        self._streams.end(error)
        is_final = not isinstance(error, UnavailableError)
        self._writer.start(self._writer.refuse(error) if is_final else self._writer.close(error))

    def start_beat(self) -> None:
        """Tell the page the news about tables, and that the server is alive.

        A page that has not taken the last news is skipped. Called once a second.
        """
        if self._is_known and not self._writer.is_busy:
            self._writer.start(self._beat())

    async def _beat(self) -> None:
        with contextlib.suppress(ChannelClosedError):
            await self._tell_news()

    async def _tell_news(self) -> None:
        try:
            self._service.server_state.authentication.check(self.principal)
        except BarrageError as error:
            await self._writer.refuse(error)
            return
        tables = self._service.tables
        if tables.is_large(self.principal):
            self._edition, news = await self._service.workers.run(tables.news, self.principal, self._edition)
        else:
            self._edition, news = tables.news(self.principal, self._edition)
        if news:
            await self._writer.send(news)
        if self._wants_health:
            await self._tell_health()
        await self._writer.tell({"type": "beat"})

    async def _tell_health(self) -> None:
        try:
            await self._writer.send(await self._service.health(self.principal))
        except BarrageError as error:
            self._wants_health = False
            await self._writer.tell({"type": "health", "error": type(error).__name__, "text": str(error)})

    async def _handle(self, message: PageMessage) -> None:
        match message:
            case Hello():
                await self._greet(message)
            case Open():
                self._streams.begin(message)
            case Ping(number):
                await self._writer.tell({"type": "pong", "n": number})
            case Health(is_on):
                self._wants_health = is_on
                if is_on:
                    await self._tell_health()
            case _:
                await self._streams.handle(message)

    async def _greet(self, message: Hello) -> None:
        self.principal = await self._principal(message)
        self._is_known = True
        logger.info("a page of %s at %s", self.principal.name, self._channel.peer)
        await self._writer.tell(
            {
                "type": "welcome",
                "version": PAGE_VERSION,
                "server": self._service.server_name,
                "limits": asdict(self._session.limits),
                "operations": OPERATIONS,
            }
        )
        await self._service.refresh_tables()
        await self._tell_news()

    async def _principal(self, message: Hello) -> Principal:
        known = self._channel.principal
        if known is not None:
            if message.token is not None or message.user is not None:
                raise WireFormatError("The credentials are those of the call; 'hello' has none here.")
            return known
        if message.token is None:
            credentials = Credentials("anonymous", "", "")
        elif message.user is None:
            credentials = Credentials("bearer", "", message.token)
        else:
            credentials = Credentials("basic", message.user, message.token)
        try:
            return await self._service.principal(credentials, self._channel.peer)
        except BarrageError as error:
            peer, reason = self._channel.peer, type(error).__name__
            _REFUSALS.log(logger, logging.WARNING, "a page at %s was not let in: %s", peer, reason)
            raise
