"""One DoExchange stream of the Deephaven endpoint."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from typing import Final

from barrage_server.engine import Table
from barrage_server.errors import BarrageError
from barrage_server.server.access import Right
from barrage_server.server.bundled_exchange import BundledExchange
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState
from barrage_server.server.exchange_state import MessageFormat, dialect_of, is_light
from barrage_server.server.translate import safe_error
from barrage_server.subscription import Dialect
from barrage_server.subscription.feed import Message
from barrage_server.wire.arrow_message import RECORD_BATCH, BatchHeader, header_type
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.families import ClientFamily
from barrage_server.wire.page_messages import PAGE_COMMAND
from barrage_server.wire.raw import PATH_DESCRIPTOR, Descriptor, decode_flight_data, schema_flight_data
from barrage_server.wire.resume import RESUME_HEADER, ResumePoint
from barrage_server.wire.tickets import parse_computed

__all__ = ["RawExchange"]

logger = logging.getLogger("barrage_server.server")

_LIGHT_BYTES: Final = 1 << 10
"""Most bytes of a request that the event loop decodes and serves itself."""


class RawExchange(BundledExchange[bytes]):
    """A stream of subscription or snapshot requests over plain gRPC.

    Args:
        state: the endpoint's state.
        call: the call.
        session: the caller's session.

    Attributes:
        page_message: the app_metadata of the first message of a page's call; ``None`` for a subscription's call.

    """

    def __init__(self, state: EndpointState, call: Call, session: Session) -> None:
        # Java and JavaScript read columns of different lengths, which Arrow's C++ core cannot
        lengths = (
            LengthMode.RAGGED if call.family in (ClientFamily.JAVA, ClientFamily.JAVASCRIPT) else LengthMode.PADDED
        )
        default = Dialect.KEY_SPACE if call.family is ClientFamily.ARROW else Dialect.FLATTENED
        dialect = dialect_of(call.metadata.get("barrage-viewport"), default)
        resume = ResumePoint.decode(call.metadata.get(RESUME_HEADER))
        message_format = MessageFormat(dialect, lengths, call.family, resume)
        super().__init__(state.server_state, session.principal, call.peer, message_format, call.stall)
        self._state = state
        self._call = call
        self._session = session
        self.page_message: bytes | None = None
        self._descriptor: Descriptor | None = None
        self._done: asyncio.Future[None] = self.loop.create_future()
        self._outgoing: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._given_out = asyncio.Event()  # answers were put into a bundle
        self._half_closed = False

    # On the event loop.

    async def run(self) -> None:
        """Serve the stream to its end. Raises the error for the client."""
        self.server_state.streams.admit(self)
        reader, writer = self.loop.create_task(self._read()), self.loop.create_task(self._write())
        reason: BarrageError | None = None
        try:
            try:
                await self._done
            except BarrageError as error:
                reason = error
            # a message is sent completely: gRPC takes no status meanwhile
            self._outgoing.clear()
            self._arrived.set()
            await writer
        finally:
            reader.cancel()
            writer.cancel()
            if self.server_state.dispatcher.dismiss(self.scheduled):
                self.leave()
            else:  # a thread is in its turn, which may take long
                try:
                    self._state.heavy.submit(self.leave)
                except BarrageError:  # the endpoint is closed, and nothing else runs on its loop
                    self.leave()
            # last, because it may be cut off: a disconnect and the end of a session both cancel this call
            await asyncio.gather(reader, writer, return_exceptions=True)
        if reason is not None:
            raise reason

    async def _read(self) -> None:
        try:
            while (message := await self._call.read()) is not None:
                await self._serve(message)
                if self.page_message is not None:
                    return
                while self.exchange_state.is_full:
                    self._given_out.clear()
                    if self.exchange_state.is_full:
                        await self._given_out.wait()
            self._half_closed = True
            if self.exchange_state.is_subscription:
                if self._call.family is ClientFamily.JAVASCRIPT:
                    self.settle(None)  # the client's way to cancel
            else:
                self._end_if_answered()
        except BarrageError as error:
            self.settle(error)
        except Exception as error:  # the boundary: the client gets a safe text
            self.settle(safe_error(error, "a stream", self.peer))

    async def _serve(self, message: bytes) -> None:
        parts = decode_flight_data(message)
        if parts.descriptor is not None:
            if parts.descriptor.command == PAGE_COMMAND and self._descriptor is None:
                self.page_message = parts.app_metadata or b""
                self.settle(None)
                return
            self._descriptor = parts.descriptor
        header = parts.data_header
        if header and header_type(header) == RECORD_BATCH and BatchHeader.decode(header).length:
            self.refuse_rows()
        if not parts.app_metadata:
            return  # some clients open the stream with the descriptor alone
        self.check_size(len(parts.app_metadata))
        if self.reported(parts.app_metadata):
            self.server_state.dispatcher.wake(self.scheduled)
            return
        # The time of a request grows with its bytes and with its rows, and other clients need the event loop.
        if len(parts.app_metadata) <= _LIGHT_BYTES:
            request = self.exchange_state.read(parts.app_metadata)
        else:
            request = await self._state.heavy.run(self.exchange_state.read, parts.app_metadata)
        was_subscription = self.exchange_state.is_subscription
        table = self.known_table(request)
        if table is None:
            table = await self._table(request.ticket)
        light = len(parts.app_metadata) <= _LIGHT_BYTES and is_light(request, table) and self._state.is_light(table)
        light = light and not self.exchange_state.may_resume
        if light:
            self.exchange_state.serve(request, table)
        else:
            await self._state.heavy.run(self.exchange_state.serve, request, table)
        self.served(request, table, was_subscription)
        if light:
            self.server_state.dispatcher.run(self.scheduled)
        else:
            self.server_state.dispatcher.wake(self.scheduled)

    async def _table(self, ticket: bytes) -> Table:
        descriptor = self._descriptor
        if not ticket and descriptor is not None and descriptor.type == PATH_DESCRIPTOR:
            return await self._state.resolve_path(self._session, descriptor.path, Right.READ)
        if not ticket and descriptor is not None and parse_computed(descriptor.command) is not None:
            ticket = descriptor.command
        return await self._state.resolve(self._session, ticket, Right.READ)

    async def _write(self) -> None:
        try:
            while not self._done.done():
                await self._arrived.wait()
                self._arrived.clear()
                while self._outgoing:
                    await self._call.write(self._outgoing.popleft())
                if not self.took():
                    self._end_if_answered()
        except BarrageError as error:
            self.settle(error)
        except Exception as error:  # the boundary, as above; a disconnected client cancels the call instead
            self.settle(safe_error(error, "a stream", self.peer))

    def take(self, bundle: list[bytes]) -> None:
        """Pass a bundle to the writer."""
        self._outgoing.extend(bundle)
        self._arrived.set()
        self._given_out.set()

    def _end_if_answered(self) -> None:
        """End the stream, unless it is a subscription, when all answers are taken."""
        if not self._half_closed or self.exchange_state.is_subscription:
            return
        if self.is_answered:
            self.settle(None)

    def settle(self, error: BarrageError | None) -> None:
        """End the stream, with that reason."""
        self.make_no_more()
        if self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)

    # On a thread of the dispatcher.

    def opening(self) -> list[bytes]:
        """The schema, as the first message."""
        return [schema_flight_data(self.exchange_state.schema)]

    def pieces_of(self, message: Message) -> Iterator[bytes]:
        """The messages of an update."""
        return message.flight_data()

    def after_turn(self) -> None:
        """End the stream if the event loop could not do so during the turn."""
        if self._half_closed:
            self.on_loop(self._end_if_answered)
