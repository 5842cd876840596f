"""One websocket of the JavaScript API, and the calls that it carries."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode

from barrage_server.errors import InternalError, LimitError, UnavailableError, WireFormatError
from barrage_server.server.deephaven.call import Call, Service, Status
from barrage_server.server.deephaven.multiplex import (
    GO_AWAY,
    Demultiplexer,
    Event,
    HalfClosed,
    MessageReceived,
    StreamBroken,
    StreamOpened,
    headers_frame,
    message_frame,
    trailers_frame,
)
from barrage_server.server.stall import StallWatch
from barrage_server.server.translate import safe_error
from barrage_server.server.web.front import SocketLimits, close_reason, peer_of
from barrage_server.server.web.progress import ProgressWatch
from barrage_server.wire.families import ClientFamily

__all__ = ["ENVELOPE_BYTES", "Socket"]

_OVERHEAD: Final = 200
"""Bytes that a message counts for besides its own, so that empty messages are bounded, too."""
ENVELOPE_BYTES: Final = 64
"""Most bytes of a frame besides its message."""


class Socket:
    """One websocket: reads requests, runs their calls, and writes the answers.

    Args:
        connection: the websocket, open.
        service: runs the calls.
        limits: bounds of this connection.
        clock: the server's clock.
    """

    def __init__(
        self, connection: ServerConnection, service: Service, limits: SocketLimits, clock: Callable[[], float]
    ) -> None:
        self.peer: Final = peer_of(connection)
        self.stall: Final = StallWatch(clock)
        self._connection = connection
        self._service = service
        self._limits = limits
        self._is_known = limits.stranger_bytes is None
        first = limits.message_bytes if limits.stranger_bytes is None else limits.stranger_bytes
        self._frames = Demultiplexer(message_bytes=first, streams=limits.streams)
        self._calls: dict[int, _WebCall] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._unread = 0
        self._has_room = asyncio.Event()
        self._turn = asyncio.Lock()
        self._is_gone = False
        self._gone = asyncio.Event()

    @property
    def streams(self) -> int:
        """Calls that are running."""
        return len(self._tasks)

    @property
    def is_known(self) -> bool:
        """Whether a call has shown valid credentials."""
        return self._is_known

    @property
    def half_bytes(self) -> int:
        """Bytes kept of incomplete messages."""
        return self._frames.pending_bytes

    def let_in(self) -> None:
        """Allow larger messages: a call has shown valid credentials."""
        if not self._is_known:
            self._is_known = True
            self._frames.message_bytes = self._limits.message_bytes
            self._connection.protocol.max_message_size = self._limits.message_bytes + ENVELOPE_BYTES

    async def run(self) -> None:
        """Serve the websocket until it is closed and its calls have ended."""
        loop = asyncio.get_running_loop()
        # Reading stops without room, and only reading detects a disconnect.
        watch = loop.create_task(self._connection.wait_closed())
        watch.add_done_callback(lambda _: self._has_room.set())
        try:
            async for frame in self._connection:
                if isinstance(frame, str):
                    raise WireFormatError("Frames must be binary.")
                for event in self._frames.receive(frame):
                    self._handle(event)
                await self._wait_for_room(watch)
        except ConnectionClosed:
            pass  # nothing to answer
        except WireFormatError as error:
            self._is_gone = True
            await self._connection.close(CloseCode.PROTOCOL_ERROR, close_reason(str(error)))
        finally:
            self._is_gone = True
            for task in self._tasks:
                task.cancel()
            if self._tasks:
                await asyncio.wait(self._tasks)
            watch.cancel()
            self._gone.set()

    async def say_goodbye(self) -> None:
        """Tell the client to open no more calls, and return when it has disconnected."""
        with contextlib.suppress(UnavailableError):
            await self.send(GO_AWAY)
        await self._gone.wait()

    async def cut(self) -> None:
        """End all calls with a status, and the connection."""
        for call in tuple(self._calls.values()):
            call.end(Status.of(UnavailableError.code, "The server is shutting down."))
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._connection.close(CloseCode.GOING_AWAY, "The server is shutting down.")
        await self._gone.wait()

    async def send(self, *frames: bytes, call: _WebCall | None = None) -> None:
        """Send frames in order; returns when the client has taken them.

        One buffer may still be on its way. The headers of a ``call`` are sent before its first frames.

        Raises:
            UnavailableError: the client has disconnected.
        """
        # The transport's buffer holds one message at a time, for any number of calls.
        async with self._turn:
            if call is not None:
                # taken here: a call that is cut while it waits for its turn sends its headers before its trailers
                frames = (*call.take_headers(), *frames)
            try:
                for frame in frames:
                    with ProgressWatch(self._connection, self.stall, self._limits.slow_client_seconds):
                        await self._connection.send(frame)
            except ConnectionClosed:
                raise UnavailableError("The client has disconnected.") from None

    def took(self, size: int) -> None:
        """Count ``size`` bytes as read, or as never to be read."""
        self._unread -= size
        if self._unread <= self._limits.unread_bytes:
            self._has_room.set()

    async def _wait_for_room(self, watch: asyncio.Task[None]) -> None:
        while self._unread > self._limits.unread_bytes and not watch.done():
            self._has_room.clear()
            await self._has_room.wait()

    def _handle(self, event: Event) -> None:
        match event:
            case StreamOpened(stream, method, headers):
                if stream in self._calls:
                    raise WireFormatError(f"Stream {stream} is opened again while its answer is on its way.")
                service = self._service if len(self._calls) < self._limits.streams else self._too_many
                call = _WebCall(self, stream, method, dict(headers))
                self._calls[stream] = call
                self._start(call, service)
            case MessageReceived(stream, payload):
                call_of = self._calls.get(stream)
                if call_of is not None:
                    self._unread += call_of.take(payload)
            case HalfClosed(stream):
                if stream in self._calls:
                    self._calls[stream].half_close()
            case StreamBroken(stream, error):
                status = Status.of(error.code, str(error))
                if stream in self._calls:
                    self._calls[stream].end(status)
                else:
                    self._start(_WebCall(self, stream, "", {}), _refusal(status))

    def _start(self, call: _WebCall, service: Service) -> None:
        task = asyncio.get_running_loop().create_task(self._run(call, service))
        call.task = task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _too_many(self, _: Call) -> Status:
        return Status.of(
            LimitError.code, f"One connection may have {self._limits.streams} calls at a time (calls_per_connection)."
        )

    async def _run(self, call: _WebCall, service: Service) -> None:
        call.has_begun = True
        try:
            status = call.fate or await service(call)
        except asyncio.CancelledError:
            if self._is_gone:
                raise
            status = call.fate or Status.of("CANCELLED", "The server has ended this call.")
        except Exception as error:  # the boundary: a fault of the service must not end the client's other calls
            safe = safe_error(error, call.method.rpartition("/")[2], self.peer)
            status = Status.of(safe.code, str(safe))
        finally:
            self._frames.forget(call.stream)
            if self._calls.get(call.stream) is call:
                del self._calls[call.stream]
            call.drop_unread()
        with contextlib.suppress(UnavailableError):
            await call.finish(status)


class _WebCall(Call):
    """One stream of a websocket."""

    def __init__(self, socket: Socket, stream: int, method: str, headers: dict[str, str]) -> None:
        self.method = method
        self.metadata = headers
        self.peer = socket.peer
        self.stall = socket.stall
        self.family = ClientFamily.JAVASCRIPT
        self.stream: Final = stream
        self.fate: Status | None = None
        self.task: asyncio.Task[None] | None = None
        self.has_begun = False
        self._socket = socket
        self._inbox: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self._is_half_closed = False
        self._headers: list[bytes] = [headers_frame(stream, [])]
        self._has_headers = False

    def let_in(self) -> None:
        self._socket.let_in()

    async def read(self) -> bytes | None:
        while not self._inbox:
            if self._is_half_closed:
                return None
            self._arrived.clear()
            await self._arrived.wait()
        message = self._inbox.popleft()
        self._socket.took(len(message) + _OVERHEAD)
        return message

    async def confirm_end(self) -> None:
        """Nothing to wait for: a frame ends a stream, and a disconnect cancels the call."""

    async def send_headers(self, headers: Sequence[tuple[str, str]]) -> None:
        if self._has_headers or not self._headers:
            raise InternalError(f"The headers of the answer to {self.method} were sent before.")
        self._has_headers = True
        self._headers = [headers_frame(self.stream, headers)]
        await self._socket.send(call=self)

    async def write(self, message: bytes) -> None:
        await self._socket.send(message_frame(self.stream, message), call=self)

    async def finish(self, status: Status) -> None:
        """Send the trailers."""
        await self._socket.send(trailers_frame(self.stream, status), call=self)

    def take_headers(self) -> list[bytes]:
        """The frame with the headers, unless it was taken before."""
        headers, self._headers = self._headers, []
        return headers

    def take(self, payload: bytes) -> int:
        """Receive a message; returns the bytes that it counts for until it is read."""
        self._inbox.append(payload)
        self._arrived.set()
        return len(payload) + _OVERHEAD

    def half_close(self) -> None:
        """Note that the client sends no more."""
        self._is_half_closed = True
        self._arrived.set()

    def end(self, status: Status) -> None:
        """End the call with that status, in any state."""
        self.fate = status
        if self.task is not None and self.has_begun:
            self.task.cancel()

    def drop_unread(self) -> None:
        """Count the messages that will not be read as read."""
        self._socket.took(sum(len(message) + _OVERHEAD for message in self._inbox))
        self._inbox.clear()


def _refusal(status: Status) -> Service:
    async def refuse(_: Call) -> Status:
        return status

    return refuse
