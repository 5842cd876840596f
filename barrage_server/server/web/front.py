"""A port for websockets and plain HTTP, with bounds for unknown clients.

The library reads requests and frames. Connections are cut here that do not become websockets in time, that send half a
message, or that are too many. A subclass serves the rest.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from socket import SOCK_STREAM
from typing import ClassVar, Final, Protocol

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.http11 import Request, Response
from websockets.typing import Subprotocol

from barrage_server.flight.sockets import peer_name
from barrage_server.log import encodable
from barrage_server.pem import load_identity
from barrage_server.server.event_loop import EventLoop
from barrage_server.server.listening import cannot_listen
from barrage_server.server.web.tls import tls_context

__all__ = ["Companion", "FrontSocket", "SocketLimits", "WebFront", "close_reason", "peer_of"]

logger = logging.getLogger("barrage_server.server")
# The library logs every connection, also connections of other protocols.
_library_logger = logging.getLogger("barrage_server.server.websockets")
_library_logger.setLevel(logging.ERROR)

_PING_SECONDS: Final = 20.0
_CLOSE_SECONDS: Final = 1.0
_HALF_COUNTED: Final = 1 << 20
"""Bytes of an unfinished message above which the sum over all connections is checked."""
_HEARD_BYTES: Final = 64 << 10
"""Most bytes that are read from a client that takes nothing."""
_REASON_BYTES: Final = 120
"""Most bytes of a reason. A websocket's close frame has room for 123."""


@dataclass(frozen=True, slots=True)
class SocketLimits:
    """Bounds of one websocket.

    Attributes:
        message_bytes: most bytes of one request message.
        unread_bytes: bytes of requests that no call has read, at which reading from the socket stops.
        streams: most calls at a time.
        connections: most connections to the port, websockets or not; further ones are closed at once.
        connections_per_address: most connections from one address.
        slow_client_seconds: seconds without taking a byte of a pending message, or without an answer to a ping, after
            which a client loses its connection.
        stranger_bytes: most bytes of one request message before a call has shown credentials; ``None``: as
            ``message_bytes``.
        stranger_seconds: seconds that a websocket may be open without a call with credentials.
        opening_seconds: seconds that a connection may take to become a websocket.
        half_message_bytes: most bytes of unfinished messages of all websockets; beyond it the websocket with most of
            them is cut.
        half_message_seconds: seconds that a message may take to arrive, unless it arrives at ``half_message_rate``.
        half_message_rate: bytes per second that a long message must arrive at.
    """

    message_bytes: int = 100 << 20
    unread_bytes: int = 4 << 20
    streams: int = 1000
    connections: int = 10_000
    connections_per_address: int = 10_000
    slow_client_seconds: float = 30.0
    stranger_bytes: int | None = None
    stranger_seconds: float = 300.0
    opening_seconds: float = 10.0
    half_message_bytes: int = 256 << 20
    half_message_seconds: float = 60.0
    half_message_rate: float = 64 << 10


class FrontSocket(Protocol):
    """The object that serves one websocket."""

    @property
    def streams(self) -> int:
        """The number of running calls or streams."""

    @property
    def is_known(self) -> bool:
        """Whether the client has shown valid credentials."""

    @property
    def half_bytes(self) -> int:
        """Bytes kept of incomplete messages, besides those that the library keeps."""

    async def run(self) -> None:
        """Serve the websocket until it is closed and all its work has ended."""

    async def say_goodbye(self) -> None:
        """Tell the client to leave, and return when it has disconnected."""

    async def cut(self) -> None:
        """End all work and the connection, and tell the client."""


class WebFront(ABC):
    """Serves websockets, and answers plain requests.

    Args:
        limits: bounds of one connection.
        most: websockets at a time; further ones are told to retry later.
        subprotocols: the subprotocols that are served.
        envelope_bytes: bytes of a frame besides its message.
    """

    port_setting: ClassVar[str]
    """The argument of the server that names the port, for texts of errors."""

    def __init__(
        self, limits: SocketLimits, *, most: int, subprotocols: Sequence[str], envelope_bytes: int = 0
    ) -> None:
        self._limits = limits
        self._most = most
        self._subprotocols = [Subprotocol(name) for name in subprotocols]
        self._envelope_bytes = envelope_bytes
        self._sockets: dict[ServerConnection, FrontSocket] = {}
        self._visitors: dict[ServerConnection, float] = {}  # all connections, also silent ones, and their beginnings
        self._addresses: Counter[str] = Counter()
        self._halves: dict[ServerConnection, float] = {}  # connections with an unfinished message, and since when
        self._server: Server | None = None
        self._tls: ssl.SSLContext | None = None

    @property
    def subprotocols(self) -> list[Subprotocol]:
        """The subprotocols that are served."""
        return list(self._subprotocols)

    @property
    def connections(self) -> int:
        """The number of open websockets. May be read from any thread."""
        return len(self._sockets)

    @property
    def streams(self) -> int:
        """The number of running calls. May be read from any thread."""
        return sum(socket.streams for socket in tuple(self._sockets.values()))

    async def start(
        self, host: str, port: int, tls: tuple[bytes, bytes] | None = None, client_roots: bytes | None = None
    ) -> int:
        """Listen, and return the port.

        Args:
            host: address to listen on.
            port: TCP port; 0 takes a free one.
            tls: certificate chain and private key (PEM), to serve ``wss``.
            client_roots: certificates to trust for clients (PEM); each client must present one.

        Raises:
            UnavailableError: the address cannot be listened on.
            InvalidRequestError: the certificate or its key cannot be used.
        """
        front = self
        self._tls = None if tls is None else tls_context(*tls, client_roots)

        class Visitor(ServerConnection):
            _heard = 0  # bytes received while the client took none

            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                front._visitors[self] = asyncio.get_running_loop().time()
                front._bound_visitors(self)

            def resume_writing(self) -> None:
                super().resume_writing()
                self._heard = 0
                if not self.recv_messages.paused:
                    self.transport.resume_reading()

            def connection_lost(self, exc: Exception | None) -> None:
                super().connection_lost(exc)
                front._visitors.pop(self, None)
                front._halves.pop(self, None)
                front._count_visitor(self, -1)

            def data_received(self, data: bytes) -> None:
                super().data_received(data)
                if self.paused:  # the client takes nothing, and the library would queue answers to its pings
                    self._heard += len(data)
                    if self._heard > _HEARD_BYTES:
                        self.transport.pause_reading()
                if _half_bytes(self) > _HALF_COUNTED:
                    front._bound_halves()

        first = self._limits.message_bytes if self._limits.stranger_bytes is None else self._limits.stranger_bytes
        try:
            self._server = await serve(
                self._serve,
                await _one_address(host.strip("[]"), port),
                port,
                ssl=self._tls,
                subprotocols=self._subprotocols,
                compression=None,  # batches take more time to deflate than to send
                process_request=self._answer,
                server_header=None,
                ping_interval=_PING_SECONDS,
                ping_timeout=self._limits.slow_client_seconds,
                close_timeout=_CLOSE_SECONDS,
                open_timeout=self._limits.opening_seconds,
                max_size=first + self._envelope_bytes,
                logger=_library_logger,
                create_connection=Visitor,
            )
        except OSError as error:
            raise cannot_listen(host, port, self.port_setting) from error
        return int(self._server.sockets[0].getsockname()[1])

    def replace_tls(self, tls: tuple[bytes, bytes]) -> None:
        """Present another certificate (chain and key, PEM) to new connections."""
        assert self._tls is not None
        load_identity(self._tls, *tls)

    async def stop(self, grace: float) -> None:
        """Stop serving. Clients are notified at once.

        Calls that have not ended after ``grace`` seconds are cut. Returns about a second after that at the latest.
        """
        server = self._server
        if server is None:
            return
        server.close(close_connections=False)
        if self._sockets:
            goodbyes = [asyncio.create_task(socket.say_goodbye()) for socket in self._sockets.values()]
            await asyncio.wait(goodbyes, timeout=grace)
            ends = [asyncio.create_task(socket.cut()) for socket in self._sockets.values()]
            if ends:
                await asyncio.wait(ends, timeout=_CLOSE_SECONDS)
            for task in (*goodbyes, *ends):
                task.cancel()
        for visitor in tuple(self._visitors):
            visitor.transport.abort()
        closed = asyncio.create_task(server.wait_closed())
        await asyncio.wait([closed], timeout=_CLOSE_SECONDS)
        closed.cancel()
        self._server = None

    def tidy(self, now: float) -> None:
        """Cut connections without progress at the time ``now`` of the event loop."""
        limits = self._limits
        for connection, since in tuple(self._visitors.items()):
            socket = self._sockets.get(connection)
            half = _half_bytes(connection) + (0 if socket is None else socket.half_bytes)
            if not half:
                self._halves.pop(connection, None)
            elif socket is not None:
                begun = now - self._halves.setdefault(connection, now)
                if begun > limits.half_message_seconds and half < begun * limits.half_message_rate:
                    connection.transport.abort()
            timeout = 2 * limits.opening_seconds if socket is None else self.stranger_seconds(socket)
            if (socket is None or not socket.is_known) and now - since > timeout:
                connection.transport.abort()

    def _bound_visitors(self, connection: ServerConnection) -> None:
        """Close a connection beyond the limits."""
        most = self._limits.connections_per_address
        if self._count_visitor(connection, 1) > most or len(self._visitors) > self._limits.connections:
            connection.transport.abort()

    def _count_visitor(self, connection: ServerConnection, change: int) -> int:
        """Add ``change`` to the connections of an address; returns their number."""
        address = str((connection.transport.get_extra_info("peername") or ("",))[0])
        count = self._addresses[address] = self._addresses[address] + change
        if count <= 0:
            del self._addresses[address]
        return count

    def _bound_halves(self) -> None:
        """Cut the connections with the largest unfinished messages, if all are too large."""
        held = {
            connection: _half_bytes(connection)
            + (socket.half_bytes if (socket := self._sockets.get(connection)) else 0)
            for connection in self._visitors
            if not connection.transport.is_closing()
        }
        total = sum(held.values())
        while held and total > self._limits.half_message_bytes:
            largest = max(held, key=held.__getitem__)
            total -= held.pop(largest)
            logger.warning("%s was cut off: it holds half a message, and the server has too many", peer_of(largest))
            largest.transport.abort()

    def _make_room(self) -> bool:
        """Cut the oldest websocket that has shown no credentials in time.

        Returns:
            Whether there was one.
        """
        latest = asyncio.get_running_loop().time() - self._limits.opening_seconds
        for connection, socket in self._sockets.items():
            if not socket.is_known and self._visitors.get(connection, latest) < latest:
                connection.transport.abort()
                return True
        return False

    async def _serve(self, connection: ServerConnection) -> None:
        socket = self.socket(connection)
        self._sockets[connection] = socket
        try:
            await socket.run()
        finally:
            self._sockets.pop(connection, None)

    def _answer(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer plain HTTP requests; ``None`` for websocket requests."""
        if any("websocket" in value.lower() for value in request.headers.get_all("Upgrade")):
            if len(self._sockets) >= self._most and not self._make_room():
                return connection.respond(
                    HTTPStatus.SERVICE_UNAVAILABLE,
                    f"This server has {self._most} websockets open and takes no more; try again later.\n",
                )
            return self.refusal(connection, request)
        return self.page(connection, request)

    def stranger_seconds(self, socket: FrontSocket) -> float:
        """Seconds that a websocket may be open without credentials."""
        del socket
        return self._limits.stranger_seconds

    @abstractmethod
    def socket(self, connection: ServerConnection) -> FrontSocket:
        """Make the object that serves an opened websocket."""

    @abstractmethod
    def refusal(self, connection: ServerConnection, request: Request) -> Response | None:
        """The refusal of a websocket; ``None`` to open it."""

    @abstractmethod
    def page(self, connection: ServerConnection, request: Request) -> Response:
        """The answer to a plain request."""


@dataclass(frozen=True, slots=True)
class Companion:
    """Another front, whose websockets a port serves besides its own.

    Attributes:
        front: serves the websockets; it need not listen itself.
        loop: the event loop of ``front``, on which the port must run.
        end: ends the work of the front's clients, and tells them. Called on ``loop`` before the port closes.
    """

    front: WebFront
    loop: EventLoop
    end: Callable[[], Awaitable[None]]


def close_reason(text: str) -> str:
    """Cut a text to the length that fits into a websocket's close frame."""
    return encodable(text).encode()[:_REASON_BYTES].decode(errors="ignore")


def _half_bytes(connection: ServerConnection) -> int:
    """Bytes that the library keeps of an incomplete frame or message."""
    protocol = connection.protocol
    return len(protocol.reader.buffer) + (protocol.current_size or 0)


def peer_of(connection: ServerConnection) -> str:
    """The client's address, as ``127.0.0.1:50000``."""
    host, port = connection.remote_address[:2]
    return peer_name(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


async def _one_address(host: str, port: int) -> str:
    """The address to listen on: for port 0, one of the host's addresses."""
    if port:
        return host
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=SOCK_STREAM)
    return str(found[0][4][0])
