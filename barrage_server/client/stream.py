"""The DoExchange stream of a subscription: requests out, messages in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import NoReturn

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.client.channel import Channel
from barrage_server.client.failures import release, translated, typed_error
from barrage_server.errors import AuthenticationError, BarrageError, UnavailableError
from barrage_server.flight.errors import decode_end
from barrage_server.subscription import Dialect
from barrage_server.wire.metadata import SubscriptionRequest
from barrage_server.wire.reader import IncomingMessage, MessageReader
from barrage_server.wire.resume import RESUME_HEADER, ResumePoint
from barrage_server.wire.tickets import DPHN

__all__ = ["SubscriptionStream", "completed"]


def completed(chunk: flight.FlightStreamChunk, reader: MessageReader) -> IncomingMessage | None:
    """Return the message that a chunk of a stream completes, if any.

    Raises:
        BarrageError: the chunk tells why the stream ends, or does not fit its message.
    """
    metadata = None if chunk.app_metadata is None else chunk.app_metadata.to_pybytes()
    if chunk.data is not None:
        return reader.feed(chunk.data, metadata)
    # A chunk without a batch is a heartbeat, or the error that ends the stream.
    reason = None if metadata is None else decode_end(metadata)
    if reason is not None:
        raise reason
    return None


class SubscriptionStream:
    """An open stream. One thread reads; any thread may send or cancel.

    Args:
        channel: the connection.
        request: the first request.
        dialect: the dialect of viewport messages.
        resume: the point to resume from, which may be empty; None for a server that cannot resume.

    Raises:
        BarrageError: the stream could not be opened.
    """

    def __init__(
        self, channel: Channel, request: SubscriptionRequest, dialect: Dialect, resume: ResumePoint | None = None
    ) -> None:
        self._channel = channel
        self._address = channel.address
        self.session = channel.login.sessions_lost
        self._shown = channel.login.header
        self._lock = threading.Lock()
        self._cancelled = False
        headers = {"barrage-viewport": dialect.value}
        if resume is not None:
            headers[RESUME_HEADER] = resume.encode()
        options = channel.options(headers=headers)
        with translated(self._address):
            descriptor = flight.FlightDescriptor.for_command(DPHN)
            self._writer, self._reader = channel.client().do_exchange(descriptor, options)
        channel.opened(self)
        try:
            self.send(request)
        except BaseException:
            self.cancel()
            raise

    def send(self, request: SubscriptionRequest) -> None:
        """Send a further request.

        Raises:
            BarrageError: the stream has ended; :meth:`messages` raises the reason.
        """
        with self._lock, translated(self._address):
            if self._cancelled:
                raise UnavailableError("The stream has been cancelled.")
            self._writer.write_metadata(request.encode())

    def schema(self) -> pa.Schema:
        """Wait for the schema on the wire."""
        with translated(self._address):
            return self._reader.schema

    def messages(self, reader: MessageReader) -> Iterator[IncomingMessage]:
        """Yield the messages as they come, until an error ends the stream.

        Args:
            reader: assembles the messages from record batches.

        Raises:
            BarrageError: why the stream ended.
        """
        while True:
            try:
                chunk = self._reader.read_chunk()
            except StopIteration:
                raise UnavailableError(f"{self._address} ended the stream.") from None
            except (flight.FlightError, pa.ArrowException, OSError) as error:
                self._end(typed_error(error, self._address))
            try:
                message = completed(chunk, reader)
            except AuthenticationError as error:
                self._end(error)
            if message is not None:
                yield message

    def cancel(self) -> None:
        """End the stream from this side; a blocked reader returns.

        May be called repeatedly.
        """
        with self._lock:
            if self._cancelled:
                return
            self._cancelled = True
            self._reader.cancel()

    def close(self) -> None:
        """Cancel, and release the writing side."""
        self.cancel()
        release(self._writer)

    def _end(self, found: BarrageError) -> NoReturn:
        """Raise ``found``, or that the session has ended because of it."""
        try:
            refused = isinstance(found, AuthenticationError) and self._channel.refused(self._shown)
            if refused or self.session < self._channel.login.sessions_lost:
                raise UnavailableError(f"The session at {self._address} has ended: {found}") from found
            raise found from None
        finally:
            del found  # its traceback has this frame: the two would keep each other and the replica
