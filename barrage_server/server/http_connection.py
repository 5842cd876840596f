"""One connection of the HTTP port: one request and one answer, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import h11

__all__ = ["Answer", "HttpConnection"]

_METHODS: Final = (b"GET", b"HEAD")
_TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: a status, a body, and the body's content type."""

    status: HTTPStatus
    body: bytes
    content_type: str = _TEXT

    @classmethod
    def text(cls, status: HTTPStatus, text: str) -> Answer:
        """An answer with one line of text."""
        return cls(status, f"{text}\n".encode())


class HttpConnection(asyncio.Protocol):
    """Reads the head of one request, answers it, and closes.

    The body of a request is not read.

    Args:
        serve: returns the answer to a path; must end within bounded time.
        opened: called with this connection when it is made; may abort others to make room.
        closed: called with this connection when it is lost.
        head_bytes: most bytes of the request line and the headers.
        seconds: seconds after which the connection is aborted.

    """

    def __init__(
        self,
        serve: Callable[[str], Awaitable[Answer]],
        opened: Callable[[HttpConnection], object],
        closed: Callable[[HttpConnection], object],
        head_bytes: int,
        seconds: float,
    ) -> None:
        self._serve = serve
        self._opened = opened
        self._closed = closed
        self._seconds = seconds
        self._parser = h11.Connection(h11.SERVER, max_incomplete_event_size=head_bytes)
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_answered = False
        self._is_half_closed = False

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the timer of the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._deadline = asyncio.get_running_loop().call_later(self._seconds, self.abort)
        self._opened(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (as asyncio calls it)
        """Cancel the timer and the answer."""
        if self._deadline is not None:
            self._deadline.cancel()
        if self._task is not None:
            self._task.cancel()
        self._closed(self)

    def data_received(self, data: bytes) -> None:
        """Parse the head of the request; bytes after it are dropped."""
        if self._is_answered or self._task is not None:
            return
        try:
            self._parser.receive_data(data)
            event = self._parser.next_event()
        except h11.RemoteProtocolError as error:
            self._refuse(HTTPStatus(error.error_status_hint))
            return
        if isinstance(event, h11.Request):
            self._task = asyncio.get_running_loop().create_task(self._answer(event))
        elif event is not h11.NEED_DATA:
            self.abort()

    def eof_received(self) -> bool:
        """Keep the connection for its answer when a client half-closes after its request."""
        self._is_half_closed = True
        return self._task is not None and not self._is_answered

    # The answer.

    async def _answer(self, request: h11.Request) -> None:
        if request.method not in _METHODS:
            self._refuse(HTTPStatus.METHOD_NOT_ALLOWED)
            return
        path = request.target.partition(b"?")[0].decode("latin-1")
        self._send(await self._serve(path), with_body=request.method == b"GET")

    def _refuse(self, status: HTTPStatus) -> None:
        self._send(Answer.text(status, status.phrase), with_body=True)

    def _send(self, answer: Answer, *, with_body: bool) -> None:
        transport = self._transport
        if transport is None or transport.is_closing() or self._is_answered:
            return
        self._is_answered = True
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
        ]
        if answer.status is HTTPStatus.METHOD_NOT_ALLOWED:
            headers.append(("Allow", "GET, HEAD"))
        parser = self._parser
        if parser.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            transport.abort()
            return
        head = parser.send(
            h11.Response(status_code=answer.status, reason=answer.status.phrase.encode(), headers=headers)
        )
        transport.write((head or b"") + (answer.body if with_body else b""))
        # Closing with unread bytes of the client would reset the connection, and the client might lose the answer. So
        # only this direction is closed; the client closes the other one, or the timer aborts it.
        if self._is_half_closed:
            transport.close()
        else:
            transport.write_eof()
