"""A client of the websocket front that does what Deephaven's JavaScript API does, one frame at a time."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin, Subprotocol

from barrage_server.server.deephaven.call import Call, Service, Status
from barrage_server.server.deephaven.web_endpoint import WebEndpoint
from barrage_server.server.web.front import SocketLimits

MULTIPLEX = Subprotocol("grpc-websockets-multiplex")
END = 0x8000_0000
PATIENCE = 20.0
"""Seconds that a whole test may take."""


def bounded(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run the body of a test on an event loop of its own, in bounded time."""

    async def body() -> None:
        async with asyncio.timeout(PATIENCE):
            await test()

    asyncio.run(body())


async def standstill(state: Callable[[], object], turns: int = 1000) -> None:
    """Return when ``state()`` was the same for ``turns`` turns of the event loop.

    Both ends of a connection run on it, and each turn takes all that has arrived: when nothing changes, both wait.
    """
    last, same = state(), 0
    while same < turns:
        await asyncio.sleep(0)
        now = state()
        last, same = now, same + 1 if now == last else 0


@asynccontextmanager
async def serving(service: Service, **options: Any) -> AsyncIterator[tuple[WebEndpoint, str]]:
    """A front on a free port, and its address; options are its own, and those of its limits."""
    own = {name: options.pop(name) for name in ("connections", "origins") if name in options}
    front = WebEndpoint(service, SocketLimits(**options), **own)
    port = await front.start("127.0.0.1", 0)
    try:
        yield front, f"ws://127.0.0.1:{port}"
    finally:
        await front.stop(0)


@dataclass
class Answer:
    """What came on one stream."""

    headers: dict[str, str] | None = None
    messages: list[bytes] = field(default_factory=list)
    trailers: dict[str, str] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def status(self) -> int | None:
        return None if self.trailers is None else int(self.trailers["grpc-status"])

    async def until(self, condition: Callable[[Answer], bool]) -> Answer:
        while not condition(self):
            self.changed.clear()
            await self.changed.wait()
        return self

    async def end(self) -> Answer:
        return await self.until(lambda answer: answer.trailers is not None)


class WebClient:
    """Streams over one websocket."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.answers: defaultdict[int, Answer] = defaultdict(Answer)
        self.went_away = asyncio.Event()
        self._next = 0

    @classmethod
    @asynccontextmanager
    async def at(
        cls, url: str, *, origin: str | None = None, tls: ssl.SSLContext | None = None, reading: bool = True
    ) -> AsyncIterator[WebClient]:
        async with connect(
            url + "/pkg.Service/First",
            subprotocols=[MULTIPLEX, Subprotocol("grpc-websockets")],
            origin=None if origin is None else Origin(origin),
            ssl=tls,
            max_size=None,
            max_queue=1,
            proxy=None,
            close_timeout=0.2,
        ) as socket:
            assert socket.subprotocol == MULTIPLEX
            client = cls(socket)
            reader = asyncio.create_task(client.read()) if reading else None
            try:
                yield client
            finally:
                if reader is not None:
                    reader.cancel()

    async def read(self) -> None:
        """Take what comes, until the socket is closed."""
        try:
            async for frame in self.socket:
                assert isinstance(frame, bytes)
                self.take(frame)
        except ConnectionClosed:
            pass

    def take(self, frame: bytes) -> None:
        number = struct.unpack_from(">I", frame)[0]
        if number == 0x7FFF_FFFF:
            self.went_away.set()
            return
        answer = self.answers[number & ~END]
        flags, length = struct.unpack_from(">BI", frame, 4)
        data = frame[9:]
        assert len(data) == length
        assert answer.trailers is None, "nothing may come after the trailers"
        if answer.headers is None:
            assert flags == 0x80
            answer.headers = _lines(data)
            assert not number & END, "headers do not end a stream"
        elif flags == 0x80:
            assert number & END
            answer.trailers = _lines(data)
        else:
            assert not number & END
            answer.messages.append(data)
        answer.changed.set()

    async def open(self, method: str, **headers: str) -> int:
        stream, self._next = self._next, self._next + 1
        lines = {**headers, "grpc-websockets-path": method}
        text = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        await self.socket.send(struct.pack(">I", stream) + text.encode())
        return stream

    async def send(self, stream: int, message: bytes) -> None:
        await self.socket.send(struct.pack(">IBBI", stream, 0, 0, len(message)) + message)

    async def finish(self, stream: int) -> None:
        await self.socket.send(struct.pack(">IB", stream | END, 1))

    async def acknowledge(self) -> None:
        """Say that no more streams will be opened, as the API does when the server goes away."""
        await self.finish(0x7FFF_FFFF)

    async def call(self, method: str, message: bytes = b"", **headers: str) -> Answer:
        """A call with one request, and its whole answer."""
        stream = await self.open(method, **headers)
        await self.send(stream, message)
        await self.finish(stream)
        return await self.answers[stream].end()


def _lines(data: bytes) -> dict[str, str]:
    lines = data.decode("ascii").split("\r\n")
    assert lines.pop() == ""
    return dict(line.split(": ", 1) for line in lines)


async def echo(call: Call) -> Status:
    """Answers every message with itself."""
    while (message := await call.read()) is not None:
        await call.write(message)
    return Status.OK


class Waiting:
    """A service whose calls report their begin, and then wait without end."""

    def __init__(self) -> None:
        self.begun = asyncio.Semaphore(0)
        self.cancelled = 0
        self.tasks: list[asyncio.Task[object]] = []

    async def __call__(self, call: Call) -> Status:
        task = asyncio.current_task()
        assert task is not None
        self.tasks.append(task)
        self.begun.release()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Status.OK
