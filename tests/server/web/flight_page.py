"""A page over a stock Flight client: the socket of :class:`Page` on one exchange."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from barrage_server.wire.page_messages import PAGE_COMMAND, ExchangeKind
from tests.server.web.page_client import Page

__all__ = ["FlightSocket", "PageEndedError", "greeted_over", "page_over"]


class PageEndedError(Exception):
    """The server has ended the exchange."""


class FlightSocket:
    """Frames of a page as messages of an exchange."""

    def __init__(self, client: fl.FlightClient, token: str | None = None, timeout: float = 60.0) -> None:
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        options = fl.FlightCallOptions(headers=headers, timeout=timeout)
        try:
            self.writer, self.reader = client.do_exchange(fl.FlightDescriptor.for_command(PAGE_COMMAND), options)
        except (pa.ArrowException, OSError) as error:
            raise PageEndedError(str(error)) from None

    def send(self, message: str | bytes) -> None:
        data = message.encode() if isinstance(message, str) else message
        try:
            self.writer.write_metadata(data)
        except (pa.ArrowException, OSError) as error:
            raise PageEndedError(str(error)) from None

    def recv(self, timeout: float | None = None) -> str | bytes:
        try:
            chunk = self.reader.read_chunk()
        except (StopIteration, pa.ArrowException, OSError) as error:
            raise PageEndedError(str(error)) from None
        data: bytes = chunk.app_metadata.to_pybytes()
        if data[0] == ExchangeKind.END:
            raise PageEndedError(data[1:].decode())
        return data[1:] if data[0] == ExchangeKind.BINARY else data[1:].decode()

    def close(self) -> None:
        self.reader.cancel()
        with suppress(pa.ArrowException, OSError):
            self.writer.close()


@contextmanager
def page_over(client: fl.FlightClient, token: str | None = None) -> Iterator[Page]:
    """A page that has said nothing."""
    socket = FlightSocket(client, token)
    try:
        yield Page(socket)
    finally:
        socket.close()


@contextmanager
def greeted_over(client: fl.FlightClient, token: str | None = None) -> Iterator[Page]:
    """A page that was let in."""
    with page_over(client, token) as made:
        answer: dict[str, Any] = made.greet()
        assert answer["type"] == "welcome", answer
        yield made
