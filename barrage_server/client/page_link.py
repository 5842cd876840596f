"""A page session of the server over Flight, for widgets in notebooks."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.client.channel import Channel
from barrage_server.client.failures import release, translated, typed_error
from barrage_server.errors import UnavailableError
from barrage_server.process import Ending, end_with_process
from barrage_server.wire.page_messages import PAGE_COMMAND, ExchangeKind

__all__ = ["PageLink"]


class PageLink:
    """One open exchange. One thread reads; any thread may send or close.

    Args:
        channel: the connection.

    Raises:
        UnavailableError: the server is unreachable.
        AuthenticationError: the server refuses the credentials.
        UnsupportedOperationError: it is a Deephaven server.

    """

    def __init__(self, channel: Channel) -> None:
        channel.need("pages in notebooks")
        self._channel = channel
        self.session = channel.login.sessions_lost
        self._lock = threading.Lock()  # held to send
        self._is_closed = False
        with translated(channel.address):
            descriptor = flight.FlightDescriptor.for_command(PAGE_COMMAND)
            self._writer, self._reader = channel.client().do_exchange(descriptor, channel.options())
        channel.opened(self)
        end_with_process(self, Ending.SUBSCRIPTION)

    def send(self, text: str) -> None:
        """Send a message of a page; blocks while the server does not read.

        Raises:
            BarrageError: the exchange has ended; :meth:`frames` raises the reason.

        """
        if self._is_closed:
            raise UnavailableError("The page is closed.")
        with self._lock, translated(self._channel.address):
            self._writer.write_metadata(text.encode("utf-8", "surrogatepass"))

    def frames(self) -> Iterator[str | bytes]:
        """Yield text and binary frames as they come, until an error ends the exchange.

        Raises:
            UnavailableError: the server has ended the page, or is gone.
            BarrageError: the reason of another end.

        """
        while True:
            try:
                chunk = self._reader.read_chunk()
            except StopIteration:
                raise UnavailableError(f"{self._channel.address} ended the page.") from None
            except (flight.FlightError, pa.ArrowException, OSError) as error:
                raise typed_error(error, self._channel.address) from None
            if chunk.app_metadata is None:
                continue
            kind, frame = chunk.app_metadata[:1].to_pybytes(), chunk.app_metadata[1:]
            if kind == bytes([ExchangeKind.BINARY]):
                yield frame.to_pybytes()
            elif kind == bytes([ExchangeKind.TEXT]):
                yield frame.to_pybytes().decode("utf-8", "replace")
            elif kind == bytes([ExchangeKind.END]):
                raise UnavailableError(frame.to_pybytes().decode("utf-8", "replace"))

    def cancel(self) -> None:
        """End the exchange from this side; threads that read or send return.

        Does not block. May be called repeatedly, and by finalizers.
        """
        if not self._is_closed:
            self._is_closed = True
            self._reader.cancel()

    def close(self) -> None:
        """Cancel, and release the writing side."""
        self.cancel()
        release(self._writer)

    def end_with_process(self, _timeout: float) -> None:
        """Close, because the interpreter ends."""
        self.cancel()
