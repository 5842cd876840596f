"""One DoExchange stream over ``pyarrow.flight``.

The thread of the handler reads requests, and threads of the dispatcher write updates. Flight requires this split:
reading cannot be interrupted, and the process aborts when a handler returns while another thread reads. The handler
therefore reads itself, and waits for the writers before it returns. The stream's task in the dispatcher admits one
writer at a time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.flight as fl

from barrage_server.engine import Table
from barrage_server.errors import BarrageError
from barrage_server.flight.errors import encode_end
from barrage_server.flight.sockets import peer_name
from barrage_server.log import about
from barrage_server.server.access import Right
from barrage_server.server.auth import AuthMiddleware
from barrage_server.server.exchange_state import MessageFormat, StreamRequest, dialect_of
from barrage_server.server.exchange_stream import ExchangeStream
from barrage_server.server.flight_messages import flight_messages
from barrage_server.server.plans import computed_table
from barrage_server.server.server_state import ServerState
from barrage_server.server.stall import Awaited, StallWatch
from barrage_server.server.translate import safe_error
from barrage_server.subscription import Dialect
from barrage_server.subscription.feed import Message
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.resume import ResumePoint
from barrage_server.wire.tickets import name_of_path, name_of_ticket

__all__ = ["Exchange"]

logger = logging.getLogger("barrage_server.server")

# Seconds between two checks whether a client that has half-closed is still connected.
_LOOK_SECONDS = 0.25


class Exchange(ExchangeStream):
    """A stream of subscription or snapshot requests over ``pyarrow.flight``.

    Args:
        server_state: the server's state.
        call: the caller and the headers.
        context: Flight's context of the call.
        descriptor: the stream's descriptor; a path names the table for requests without a ticket.
        reader: the source of requests.
        writer: the sink of messages.

    """

    def __init__(
        self,
        server_state: ServerState,
        call: AuthMiddleware,
        context: fl.ServerCallContext,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.MetadataRecordBatchWriter,
    ) -> None:
        message_format = MessageFormat(
            dialect_of(call.viewport, Dialect.KEY_SPACE), LengthMode.PADDED, resume=ResumePoint.decode(call.resume)
        )
        super().__init__(
            server_state, call.principal, peer_name(context.peer()), message_format, StallWatch(server_state.clock)
        )
        self._context = context
        self._descriptor = descriptor
        self._reader = reader
        self._writer = writer
        self._begun = False
        self._named: tuple[bytes | None, str] = (None, "")  # the ticket of the last request for a table, and the table
        self._ending: BarrageError | None = None
        self._ended = threading.Event()

    # On the handler's thread.

    def run(self) -> None:
        """Serve the stream to its end. Raises the error for the client."""
        self.server_state.streams.admit(self)
        try:
            for app_metadata in self._requests():
                if not self.reported(app_metadata):
                    self._serve(self.exchange_state.read(app_metadata))
                self.server_state.dispatcher.run(self.scheduled)
            if self.exchange_state.is_subscription:
                self._linger()
        finally:
            self._ended.set()
            self.leave()
        if self._ending is not None:
            raise self._ending

    def _requests(self) -> Iterator[bytes]:
        """The app_metadata of each message until the client half-closes or cancels."""
        for chunk in flight_messages(self._reader, "a Flight message with a Barrage request", self._is_over):
            if chunk.data is not None and chunk.data.num_rows:
                self.refuse_rows()
            if chunk.app_metadata is None or not chunk.app_metadata.size:
                continue  # some clients open the stream with only its descriptor
            self.check_size(chunk.app_metadata.size)
            yield chunk.app_metadata.to_pybytes()
            while not (self.exchange_state.wait_for_room(_LOOK_SECONDS) or self._ended.is_set()):
                if self._context.is_cancelled():
                    return

    def _serve(self, request: StreamRequest) -> None:
        was_subscription = self.exchange_state.is_subscription
        table = self.known_table(request)
        if table is None:
            table = self._table(request.ticket)
        self.exchange_state.serve(request, table)
        self.served(request, table, was_subscription)

    def _table(self, ticket: bytes) -> Table:
        access = self.server_state.access
        if not ticket and self._descriptor.descriptor_type == fl.DescriptorType.PATH:
            return access.get(self.principal, name_of_path(self._descriptor.path), Right.READ)
        computed = self.computed_of(ticket or self._descriptor.command or b"")
        if computed is not None:
            return computed_table(self.server_state, self.principal, computed, self._context.is_cancelled)
        if ticket is not self._named[0]:
            self._named = (ticket, name_of_ticket(ticket))
        return access.get(self.principal, self._named[1], Right.READ)

    def _is_over(self) -> bool:
        return self._ended.is_set() or bool(self._context.is_cancelled())

    def _linger(self) -> None:
        """Wait while a client that has half-closed still reads."""
        while not self._is_over():
            self._ended.wait(_LOOK_SECONDS)

    # On a thread of the dispatcher.

    def run_turn(self, now: float) -> float | None:
        """Write the messages due; return the time of the next."""
        if self._ended.is_set():
            return None
        try:
            if self._ending is None:
                due = self.exchange_state.due(now)
                for message in due.messages:
                    self._write(message)
                return due.wake_at
        except BarrageError as error:
            self._ending = self._safe(error)
        except Exception as error:  # the boundary: the client is gone, or this is an internal error
            if self._ended.is_set() or self._context.is_cancelled() or isinstance(error, fl.FlightError | OSError):
                logger.debug("writing to %s failed: %s", self.peer, error)
                self._finish()
                return None
            self._ending = self._safe(error)
        self._say_goodbye(self._ending)
        return None

    def _safe(self, error: Exception) -> BarrageError:
        with about(self.facts):
            return safe_error(error, "a stream", self.peer)

    def _write(self, message: Message) -> None:
        if not self._begun:
            self._begun = True
            self._writer.begin(self.exchange_state.schema)
        for batch, app_metadata in message.batches():
            if self._ended.is_set() or self._ending is not None:
                return
            self.count(1, pa.ipc.get_record_batch_size(batch))
            self.stall.expect(Awaited.TAKE, self.server_state.limits.slow_client_seconds)
            try:
                if app_metadata is None:
                    self._writer.write_batch(batch)
                else:
                    self._writer.write_with_metadata(batch, app_metadata)
            finally:
                self.stall.rest()

    def _say_goodbye(self, error: BarrageError) -> None:
        try:
            with self.stall.taking(self.server_state.limits.slow_client_seconds):
                self._writer.write_metadata(pa.py_buffer(encode_end(error)))
        except (pa.ArrowException, OSError):
            logger.debug("%s disconnected before it got the reason of the end of its stream", self.peer)
        finally:
            self._finish()

    def _finish(self) -> None:
        self.stall.expect(Awaited.HANG_UP, self.server_state.limits.goodbye_seconds)
        self._ended.set()

    # On any thread.

    def end(self, error: BarrageError) -> None:
        """Send the client the reason of the end of its stream.

        The watchdog cuts the connection of a client that does not hang up then.
        """
        if self._ending is None:
            self._ending = error
        self.server_state.dispatcher.wake(self.scheduled)
