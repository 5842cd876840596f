"""One DoExchange stream of the Deephaven endpoint: the event loop reads requests, the dispatcher makes messages.

A turn of the dispatcher makes the messages of a bundle and passes them to the event loop, which writes them one by
one as the client takes them. Meanwhile the subscription makes no more messages, so a slow client costs one bundle,
and staleness.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Final, TypeVar, TypeVarTuple

from barrage_server.engine import Table
from barrage_server.errors import BarrageError
from barrage_server.log import about
from barrage_server.server.access import Right
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState
from barrage_server.server.exchange_state import MessageFormat, dialect_of, is_light
from barrage_server.server.exchange_stream import ExchangeStream
from barrage_server.server.translate import safe_error
from barrage_server.subscription import Dialect
from barrage_server.wire.arrow_message import RECORD_BATCH, BatchHeader, header_type
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.families import ClientFamily
from barrage_server.wire.raw import PATH_DESCRIPTOR, Descriptor, decode_flight_data, schema_flight_data
from barrage_server.wire.resume import RESUME_HEADER, ResumePoint
from barrage_server.wire.tickets import parse_computed

__all__ = ["RawExchange"]

logger = logging.getLogger("barrage_server.server")

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

_BUNDLE_BYTES: Final = 1 << 20
"""A turn of the dispatcher makes no more messages once it has this many bytes."""
_LIGHT_BYTES: Final = 1 << 10
"""A request of more bytes is decoded and served on another thread than the event loop's."""


class RawExchange(ExchangeStream):
    """A stream of subscription or snapshot requests over plain gRPC.

    Args:
        state: the endpoint's state.
        call: the call.
        session: the caller's session.

    """

    def __init__(self, state: EndpointState, call: Call, session: Session) -> None:
        # Java and JavaScript read columns of different lengths; a reader on Arrow's C++ core can not
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
        self._loop = asyncio.get_running_loop()
        self._descriptor: Descriptor | None = None
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._lock = threading.Lock()  # guards the next four, which the dispatcher and the event loop share
        self._is_making = False  # a turn of the dispatcher makes a bundle
        self._is_handed = False  # a bundle is under way
        self._is_missed = False  # a turn came meanwhile, or the last one left something
        self._ended = False
        self._pieces: Iterator[bytes] | None = None
        self._begun = False
        self._outgoing: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._given_out = asyncio.Event()  # answers were made into a bundle
        self._half_closed = False

    # On the event loop.

    async def run(self) -> None:
        """Serve the stream to its end. Raises the error for the client."""
        self.server_state.streams.admit(self)
        reader, writer = self._loop.create_task(self._read()), self._loop.create_task(self._write())
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
            # last, for it may be cut off: a client that hangs up and a session that ends both cancel this call
            await asyncio.gather(reader, writer, return_exceptions=True)
        if reason is not None:
            raise reason

    async def _read(self) -> None:
        try:
            while (message := await self._call.read()) is not None:
                await self._serve(message)
                while self.exchange_state.is_full:
                    self._given_out.clear()
                    if self.exchange_state.is_full:
                        await self._given_out.wait()
            self._half_closed = True
            if self.exchange_state.is_subscription:
                if self._call.family is ClientFamily.JAVASCRIPT:
                    self._settle(None)  # the client's way to cancel
            else:
                self._end_if_answered()
        except BarrageError as error:
            self._settle(error)
        except Exception as error:  # the boundary: a foreign exception must not stop the stream without a word
            self._settle(safe_error(error, "a stream", self.peer))

    async def _serve(self, message: bytes) -> None:
        parts = decode_flight_data(message)
        if parts.descriptor is not None:
            self._descriptor = parts.descriptor
        header = parts.data_header
        if header and header_type(header) == RECORD_BATCH and BatchHeader.decode(header).length:
            self.refuse_rows()
        if not parts.app_metadata:
            return  # some clients open the stream with nothing but its descriptor
        self.check_size(len(parts.app_metadata))
        if self.reported(parts.app_metadata):
            self.server_state.dispatcher.wake(self.scheduled)
            return
        # What a request takes grows with its bytes and with the rows that it asks for: other clients need the loop.
        if len(parts.app_metadata) <= _LIGHT_BYTES:
            request = self.exchange_state.read(parts.app_metadata)
        else:
            request = await self._aside(partial(self.exchange_state.read, parts.app_metadata))
        was_subscription = self.exchange_state.is_subscription
        table = self.known_table(request)
        if table is None:
            table = await self._table(request.ticket)
        light = len(parts.app_metadata) <= _LIGHT_BYTES and is_light(request, table) and self._state.is_light(table)
        light = light and not self.exchange_state.may_resume
        if light:
            self.exchange_state.serve(request, table)
        else:
            await self._aside(partial(self.exchange_state.serve, request, table))
        self.served(request, table, was_subscription)
        if light:
            self.server_state.dispatcher.run(self.scheduled)
        else:
            self.server_state.dispatcher.wake(self.scheduled)

    async def _aside(self, work: Callable[[], Result]) -> Result:
        """``work()``, on a thread that is kept for what takes long."""
        return await asyncio.wrap_future(self._state.heavy.submit(work))

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
                self._took()
        except BarrageError as error:
            self._settle(error)
        except Exception as error:  # the boundary, as above; a disconnected client cancels the call instead
            self._settle(safe_error(error, "a stream", self.peer))

    def _took(self) -> None:
        """The client has taken the bundle: there may be another one."""
        with self._lock:
            self._is_handed = False
            again, self._is_missed = self._is_missed, False
        if again:
            self.server_state.dispatcher.wake(self.scheduled)
        else:
            self._end_if_answered()

    def _take(self, bundle: list[bytes]) -> None:
        self._outgoing.extend(bundle)
        self._arrived.set()
        self._given_out.set()

    def _end_if_answered(self) -> None:
        """End the stream if its client asks for no more and has taken each answer. A subscription goes on."""
        if not self._half_closed or self.exchange_state.is_subscription:
            return
        with self._lock:
            in_turn = self._is_making or self._is_handed or self._is_missed
            is_answered = not in_turn and self._pieces is None and not self.exchange_state.has_answers
        if is_answered:
            self._settle(None)

    def _settle(self, error: BarrageError | None) -> None:
        """End the stream, with that reason."""
        with self._lock:
            self._ended = True
        if self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(error)

    # On a thread of the dispatcher.

    def run_turn(self, now: float) -> float | None:
        """Make a bundle of the messages due; returns the time of the next."""
        with self._lock:
            if self._ended:
                return None
            if self._is_handed:
                self._is_missed = True
                return None
            self._is_making = True
        try:
            return self._make_bundle(now)
        except Exception as error:  # the boundary: possibly an internal error
            with about(self.facts):
                self.end(safe_error(error, "a stream", self.peer))
        finally:
            with self._lock:
                self._is_making = False
            if self._half_closed:  # meanwhile, perhaps: the event loop may have found the stream busy
                self._on_loop(self._end_if_answered)
        return None

    def _make_bundle(self, now: float) -> float | None:
        bundle: list[bytes] = []
        size, batches, wake_at = 0, 0, None
        while size < _BUNDLE_BYTES:
            if self._pieces is None:
                due = self.exchange_state.due(now)
                wake_at = due.wake_at
                if not due.messages:
                    break
                self._pieces = chain.from_iterable(message.flight_data() for message in due.messages)
                if not self._begun:
                    self._begun = True
                    bundle.append(schema_flight_data(self.exchange_state.schema))
            piece = next(self._pieces, None)
            if piece is None:
                self._pieces = None  # more may be due: the next part, or what happened while these were sent
            else:
                bundle.append(piece)
                batches += 1
                size += len(piece)
        if bundle:
            self.count(batches, size)
            with self._lock:
                self._is_handed = True
                self._is_missed = self._pieces is not None
            self._on_loop(self._take, bundle)
        return None if self._pieces is not None else wake_at

    # On any thread.

    def end(self, error: BarrageError) -> None:
        """Send the client the reason of the end of its stream."""
        self._on_loop(self._settle, error)

    def _on_loop(self, function: Callable[[*Arguments], None], *arguments: *Arguments) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            logger.debug("the endpoint was closed before %s got the reason", self.peer)
