"""A page over ``pyarrow.flight``.

The handler's thread reads, threads of the dispatcher write, and the event loop of the pages does the rest. See
:mod:`barrage_server.server.exchange` for the reason of this split.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections import deque
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.flight as fl

from barrage_server.errors import BarrageError, UnavailableError, WireFormatError
from barrage_server.flight.sockets import peer_name
from barrage_server.server.auth import AuthMiddleware
from barrage_server.server.dispatcher import ChangeSignal
from barrage_server.server.flight_messages import flight_messages
from barrage_server.server.server_state import ServerState
from barrage_server.server.stall import Awaited, StallWatch
from barrage_server.server.web.channel import ChannelClosedError
from barrage_server.server.web.exchange_channel import received
from barrage_server.server.web.exchange_page import ExchangePage

__all__ = ["PageExchange"]

logger = logging.getLogger("barrage_server.server")

_LEAVE_SECONDS: Final = 10.0
"""Seconds for the streams of a page to end after its client has left."""


class PageExchange(ExchangePage):
    """One page.

    Args:
        server_state: the server's state.
        call: the caller.
        context: Flight's context of the call.
        reader: the source of messages.
        writer: the sink of messages.

    """

    def __init__(
        self,
        server_state: ServerState,
        call: AuthMiddleware,
        context: fl.ServerCallContext,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.MetadataRecordBatchWriter,
    ) -> None:
        super().__init__(
            server_state,
            call.principal,
            peer_name(context.peer()),
            StallWatch(server_state.clock),
            server_state.pages.service(),
        )
        self._context = context
        self._reader = reader
        self._writer = writer
        self._scheduled = server_state.dispatcher.add(self, ChangeSignal())
        self._lock = threading.Lock()
        self._due: deque[tuple[Sequence[bytes], concurrent.futures.Future[None]]] = deque()
        self._is_closed = False
        self._is_over = threading.Event()

    # On the handler's thread.

    def run(self) -> None:
        """Serve the page to its end."""
        self.server_state.streams.admit(self)
        try:
            try:
                channel = self._service.call(self._open()).result()
            except concurrent.futures.CancelledError:
                raise UnavailableError("The server is shutting down.") from None
            try:
                for message in self._messages():
                    self._wait(channel.put(message))
            finally:
                self._is_over.set()
                self._wait(self._close(channel))
        finally:
            self.server_state.dispatcher.remove(self._scheduled)
            self._drop_due()
            self.server_state.streams.release(self)

    def _messages(self) -> Iterator[str | BarrageError]:
        """The messages until the client half-closes or cancels, or errors for wrong ones."""
        try:
            for chunk in flight_messages(self._reader, "a Flight message", self._has_ended):
                message = received(memoryview(chunk.app_metadata or b""), has_rows=chunk.data is not None)
                if message is not None:
                    yield message
        except WireFormatError as error:
            logger.debug("%s: %s", self.peer, error)

    def _has_ended(self) -> bool:
        return self._is_over.is_set() or bool(self._context.is_cancelled())

    def _wait(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` on the event loop, to its end or to the end of the loop."""
        try:
            self._service.call(work).result(_LEAVE_SECONDS if self._is_over.is_set() else None)
        except concurrent.futures.CancelledError:
            logger.debug("the pages have ended before %s", self.peer)
        except concurrent.futures.TimeoutError:
            logger.error("the page of %s does not end", self.peer)

    # On the event loop of the pages.

    async def _write(self, messages: Sequence[bytes]) -> None:
        written: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._lock:
            if self._is_closed:
                raise ChannelClosedError
            self._due.append((messages, written))
        self.server_state.dispatcher.wake(self._scheduled)
        await asyncio.wrap_future(written)

    def _finish(self) -> None:
        """End the call: the watchdog cuts the connection if the client does not hang up."""
        if not self._is_over.is_set():
            self._is_over.set()
            self._expect_end()

    def _expect_end(self) -> None:
        self.stall.expect(Awaited.HANG_UP, self.server_state.limits.goodbye_seconds)

    # On a thread of the dispatcher.

    def run_turn(self, now: float) -> float | None:  # noqa: ARG002  (nothing is due at a time)
        """Write the messages due."""
        while True:
            with self._lock:
                if not self._due:
                    if self._is_over.is_set():  # all messages were taken
                        self._expect_end()
                    return None
                messages, written = self._due.popleft()
            if not written.set_running_or_notify_cancel():
                continue
            try:
                for message in messages:
                    with self.stall.taking(self.server_state.limits.slow_client_seconds):
                        self._writer.write_metadata(pa.py_buffer(message))
            except Exception as error:  # the boundary: the client is gone
                logger.debug("writing to %s failed: %s", self.peer, error)
                written.set_exception(ChannelClosedError())
            else:
                written.set_result(None)

    def _drop_due(self) -> None:
        with self._lock:
            self._is_closed = True
            dropped, self._due = self._due, deque()
        for _, written in dropped:
            if written.set_running_or_notify_cancel():
                written.set_exception(ChannelClosedError())
