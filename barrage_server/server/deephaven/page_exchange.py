"""A page over plain gRPC.

The endpoint's event loop reads and writes; the event loop of the pages does the rest.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from barrage_server.engine import Table
from barrage_server.errors import BarrageError
from barrage_server.server.access import Right
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState
from barrage_server.server.web.channel import ChannelClosedError
from barrage_server.server.web.exchange_channel import ExchangeChannel, received
from barrage_server.server.web.exchange_page import ExchangePage
from barrage_server.server.web.service import PageService
from barrage_server.wire.raw import decode_flight_data, encode_flight_data

__all__ = ["RawPageExchange"]

logger = logging.getLogger("barrage_server.server")

Result = TypeVar("Result")


class RawPageExchange(ExchangePage):
    """One page. Made on the event loop of the endpoint.

    Args:
        state: the endpoint's state.
        call: the call.
        session: the caller's session.
        service: the state that all pages share.
        first: the app_metadata of the message that opened the page; empty for none.
    """

    def __init__(self, state: EndpointState, call: Call, session: Session, service: PageService, first: bytes) -> None:
        super().__init__(state.server_state, session.principal, call.peer, call.stall, service)
        self._state = state
        self._call = call
        self._session = session
        self._first = first
        self._loop = asyncio.get_running_loop()
        self._writing = asyncio.Lock()
        self._over = asyncio.Event()
        self._is_gone = False
        self._running: dict[concurrent.futures.Future[Any], asyncio.Task[Any]] = {}
        self._lookups: set[concurrent.futures.Future[Any]] = set()  # of tables; cancelled with their streams

    # On the endpoint's event loop.

    async def run(self) -> None:
        """Serve the page to its end."""
        self.server_state.streams.admit(self)
        try:
            channel = await self._there(self._open(None if self._session.is_plain else self._table))
            reading = self._loop.create_task(self._read(channel))
            over = self._loop.create_task(self._over.wait())
            try:
                await asyncio.wait((reading, over), return_when=asyncio.FIRST_COMPLETED)
            finally:
                reading.cancel()
                over.cancel()
                # a cancelled call does not wait for it: the streams of the page leave by themselves
                leaving = self._service.call(self._close(channel))
            await asyncio.wrap_future(leaving)
            async with self._writing:  # a message is sent completely: gRPC takes no status meanwhile
                pass
        finally:
            self._is_gone = True
            for outcome in tuple(self._lookups):
                self._cancel(outcome)
            self.server_state.streams.release(self)

    async def _read(self, channel: ExchangeChannel) -> None:
        await self._put(channel, self._first)
        try:
            while (message := await self._call.read()) is not None:
                parts = decode_flight_data(message)
                await self._put(channel, parts.app_metadata, has_rows=bool(parts.data_header))
        except BarrageError as error:  # the connection broke, or the message is invalid
            await self._there(channel.put(error))
            await self._over.wait()

    async def _put(self, channel: ExchangeChannel, app_metadata: bytes | None, *, has_rows: bool = False) -> None:
        message = received(app_metadata or b"", has_rows=has_rows)
        if message is not None:
            await self._there(channel.put(message))

    async def _there(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run ``work`` on the event loop of the pages, and return its result."""
        return await asyncio.wrap_future(self._service.call(work))

    async def _send(self, messages: Sequence[bytes]) -> None:
        async with self._writing:
            for message in messages:
                if self._over.is_set():
                    raise ChannelClosedError
                await self._call.write(encode_flight_data(b"", message, None))

    def _start(
        self, make: Callable[[], Coroutine[Any, Any, Result]], outcome: concurrent.futures.Future[Result]
    ) -> None:
        if not outcome.set_running_or_notify_cancel():
            return
        if self._is_gone:  # nothing would cancel the new task
            outcome.set_exception(ChannelClosedError())
            return
        task = self._loop.create_task(make())
        self._running[outcome] = task

        def pass_on(done: asyncio.Task[Result]) -> None:
            del self._running[outcome]
            _pass_on(done, outcome)

        task.add_done_callback(pass_on)

    def _cancel(self, outcome: concurrent.futures.Future[Any]) -> None:
        if outcome in self._running:
            self._running[outcome].cancel()

    # On the event loop of the pages.

    async def _write(self, messages: Sequence[bytes]) -> None:
        outcome: concurrent.futures.Future[None] = concurrent.futures.Future()
        try:  # a task that is cancelled leaves the message to be sent completely
            await self._at_endpoint(lambda: self._send(messages), outcome)
        except BarrageError as error:
            raise ChannelClosedError from error

    async def _table(self, ticket: bytes) -> Table | None:
        outcome: concurrent.futures.Future[Table] = concurrent.futures.Future()
        self._lookups.add(outcome)
        try:
            return await self._at_endpoint(lambda: self._state.resolve(self._session, ticket, Right.READ), outcome)
        except asyncio.CancelledError:
            with suppress(RuntimeError):  # the endpoint is closed
                self._loop.call_soon_threadsafe(self._cancel, outcome)
            raise
        finally:
            self._lookups.discard(outcome)

    async def _at_endpoint(
        self, make: Callable[[], Coroutine[Any, Any, Result]], outcome: concurrent.futures.Future[Result]
    ) -> Result:
        """Run ``make()`` on the endpoint's event loop, and return its result.

        ``outcome`` gets the result as well.

        Raises:
            ChannelClosedError: the call has ended.
        """
        try:
            self._loop.call_soon_threadsafe(self._start, make, outcome)
        except RuntimeError:  # the endpoint is closed
            raise ChannelClosedError from None
        return await asyncio.wrap_future(outcome)

    def _finish(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._over.set)
        except RuntimeError:
            logger.debug("the endpoint was closed before the page of %s ended", self.peer)


def _pass_on(done: asyncio.Task[Result], outcome: concurrent.futures.Future[Result]) -> None:
    error = ChannelClosedError() if done.cancelled() else done.exception()
    if error is None:
        outcome.set_result(done.result())
    else:
        outcome.set_exception(error)
