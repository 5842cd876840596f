"""One DoExchange stream: requests come in on the handler's thread, updates go out from the pump.

Flight wants exactly this split. A handler must not return while another thread reads (the process aborts), and
reading cannot be interrupted; so the handler reads, others write, and the handler waits for them before it returns.
Writers take turns through the stream's slot in the pump, so two of them never meet.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.flight as fl

from barrage_server.engine import Table
from barrage_server.errors import BarrageError, InvalidRequestError, LimitError, WireFormatError
from barrage_server.flight.errors import encode_end
from barrage_server.flight.sockets import peer_name
from barrage_server.log import count
from barrage_server.server.auth import Call
from barrage_server.server.conversation import Conversation, Manner, StreamRequest, dialect_of
from barrage_server.server.hub import Hub
from barrage_server.server.pump import Topic
from barrage_server.server.statistics import SubscriptionGauges
from barrage_server.server.translate import safe_error
from barrage_server.subscription import Dialect
from barrage_server.subscription.feed import Message
from barrage_server.wire.batches import Uneven
from barrage_server.wire.reading import ReadingReport
from barrage_server.wire.tickets import name_of_path, name_of_ticket

__all__ = ["Exchange"]

logger = logging.getLogger("barrage_server.server")

# How often a stream whose client sends no more requests looks whether the client is still there, in seconds.
_LOOK_SECONDS = 0.25


class Exchange:
    """A stream of subscription or snapshot requests, and of their answers.

    Args:
        hub: the server's state.
        call: who calls, and with which headers.
        context: Flight's view of the call.
        descriptor: the stream's descriptor; a path names the table for requests without a ticket.
        reader: where requests come from.
        writer: where answers go.

    """

    kind = "subscription"

    def __init__(
        self,
        hub: Hub,
        call: Call,
        context: fl.ServerCallContext,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.MetadataRecordBatchWriter,
    ) -> None:
        self.peer = peer_name(context.peer())
        self._hub = hub
        self._call = call
        self._context = context
        self._descriptor = descriptor
        self._reader = reader
        self._writer = writer
        manner = Manner(dialect_of(call.viewport, Dialect.KEY_SPACE), Uneven.EVEN)
        self._slot = hub.pump.add(self, Topic())
        self._conversation = Conversation(hub, self._slot, manner)
        self._begun = False
        self._ending: BarrageError | None = None
        self._ended = threading.Event()
        self._ended_at: float | None = None
        self._writing_since: float | None = None
        self._batches = 0
        self._nbytes = 0

    # On the handler's thread.

    def run(self) -> None:
        """Serve the stream to its end. Raises what the client is to be told."""
        self._hub.streams.admit(self)
        try:
            for app_metadata in self._requests():
                report = ReadingReport.decode(app_metadata)
                if report is None:
                    self._serve(self._conversation.read(app_metadata))
                else:
                    self._conversation.report(report)
                    self._hub.pump.run(self._slot)
            if self._conversation.is_subscription:
                self._linger()
        finally:
            self._ended.set()
            self._hub.pump.remove(self._slot)
            self._log_end()
            self._conversation.close()
            self._hub.streams.release(self)
        if self._ending is not None:
            raise self._ending

    def _requests(self) -> Iterator[bytes]:
        """app_metadata of each message until the client sends no more (it half-closed, hung up, or is gone)."""
        while not self._ended.is_set():
            try:
                chunk = self._reader.read_chunk()
            except StopIteration:
                return
            except (pa.ArrowException, OSError) as error:
                if self._context.is_cancelled() or self._ended.is_set():
                    return
                raise WireFormatError("What came is not a Flight message with a Barrage request.") from error
            if chunk.data is not None and chunk.data.num_rows:
                raise InvalidRequestError("DoExchange takes requests in app_metadata, and no rows. Publish with DoPut.")
            if chunk.app_metadata is None or not chunk.app_metadata.size:
                continue  # some clients open the stream with nothing but its descriptor
            if chunk.app_metadata.size > self._hub.limits.request_bytes:
                raise LimitError(
                    f"A request has more than the {self._hub.limits.request_bytes:,} bytes that are allowed."
                )
            yield chunk.app_metadata.to_pybytes()
            while not (self._conversation.wait_for_room(_LOOK_SECONDS) or self._ended.is_set()):
                if self._context.is_cancelled():
                    return

    def _serve(self, request: StreamRequest) -> None:
        conversation = self._conversation
        is_first = not conversation.is_subscription
        table = conversation.table if not request.ticket else None
        if table is None:
            table = self._hub.catalog.get(self._name(request.ticket))
        conversation.serve(request, table)
        if is_first and conversation.is_subscription:
            conversation.check_served(table)
            window = "" if request.viewport is None else f" {request.viewport}"
            logger.info("%s subscribes to %s%s", self.peer, table.name, window)
        self._hub.pump.run(self._slot)

    def _name(self, ticket: bytes) -> str:
        if not ticket and self._descriptor.descriptor_type == fl.DescriptorType.PATH:
            return name_of_path(self._descriptor.path)
        return name_of_ticket(ticket)

    def _linger(self) -> None:
        """The client has half-closed: it sends no more, and still reads."""
        while not self._ended.is_set() and not self._context.is_cancelled():
            self._ended.wait(_LOOK_SECONDS)

    def _log_end(self) -> None:
        gauges = self.gauges()
        if gauges is not None:
            sent = f"{count(gauges.messages, 'messages')}, {count(gauges.rows, 'rows')}"
            logger.info("%s left %s after %s", self.peer, gauges.table, sent)

    # On whatever thread has the turn.

    def step(self, now: float) -> float | None:
        """Write what is due; when more will be."""
        if self._ended.is_set():
            return None
        try:
            if self._ending is None:
                return self._write_due(now)
        except BarrageError as error:
            self._ending = safe_error(error, "a stream", self.peer)
        except Exception as error:  # the boundary: the client is gone, or this is a fault of ours, which it is told of
            if self._ended.is_set() or self._context.is_cancelled() or isinstance(error, fl.FlightError | OSError):
                logger.debug("writing to %s failed: %s", self.peer, error)
                self._finish()
                return None
            self._ending = safe_error(error, "a stream", self.peer)
        self._say_goodbye(self._ending)
        return None

    def _write_due(self, now: float) -> float | None:
        due = self._conversation.due(now)
        for message in due.messages:
            self._write(message)
        return due.wake_at

    def _write(self, message: Message) -> None:
        self._begin()
        for batch, app_metadata in message.batches():
            if self._ended.is_set() or self._ending is not None:
                return
            self._batches += 1
            self._nbytes += pa.ipc.get_record_batch_size(batch)
            self._writing_since = self._hub.clock()
            try:
                if app_metadata is None:
                    self._writer.write_batch(batch)
                else:
                    self._writer.write_with_metadata(batch, app_metadata)
            finally:
                self._writing_since = None

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._writer.begin(self._conversation.schema)

    def _say_goodbye(self, error: BarrageError) -> None:
        self._writing_since = self._hub.clock()
        try:
            self._writer.write_metadata(pa.py_buffer(encode_end(error)))
        except (pa.ArrowException, OSError):
            logger.debug("%s was gone before it could be told why its stream ends", self.peer)
        finally:
            self._writing_since = None
            self._finish()

    def _finish(self) -> None:
        self._ended_at = self._hub.clock()
        self._ended.set()

    # On any thread.

    def end(self, error: BarrageError) -> None:
        """Have the client told why its stream ends. The watchdog cuts off one that does not hang up then."""
        if self._ending is None:
            self._ending = error
        self._hub.pump.wake(self._slot)

    def follows(self, table: Table) -> bool:
        """Whether this stream is about ``table``."""
        return self._conversation.table is table

    def overdue(self, now: float) -> str | None:
        """Why the connection should be ended now."""
        since, ended_at, limits = self._writing_since, self._ended_at, self._hub.limits
        if ended_at is not None and now - ended_at >= limits.goodbye_seconds:
            return "the client did not hang up when it was told that its stream ends"
        if since is None:
            return None
        if now - since >= limits.slow_client_seconds:
            return f"the client did not take a message for {now - since:.1f} s"
        return None

    def tidy(self, now: float) -> None:
        """Fold the history that the subscription keeps alive. To be called about once a second."""
        self._conversation.tidy(now)

    def gauges(self) -> SubscriptionGauges | None:
        """Figures of the subscription; ``None`` while there is none."""
        return self._conversation.gauges(
            peer=self.peer,
            user=self._call.user,
            nbytes=self._nbytes,
            batches=self._batches,
            writing_since=self._writing_since,
        )
