"""The endpoint of the page: its files, and the websockets of its viewers."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Collection
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from barrage_server.log import Throttle
from barrage_server.process import most_connections
from barrage_server.server.server_state import ServerState
from barrage_server.server.web.files import page_file, response, text_response
from barrage_server.server.web.front import Companion, FrontSocket, SocketLimits, WebFront
from barrage_server.server.web.hosts import is_known_host, is_own_page
from barrage_server.server.web.service import PageService
from barrage_server.wire.page_messages import MOST_TEXT_BYTES, SUBPROTOCOL

if TYPE_CHECKING:
    from barrage_server.server.web.websocket import PageSocket

__all__ = ["PageEndpoint"]

logger = logging.getLogger("barrage_server.server")

_REFUSALS: Final = Throttle(20, 0.2)
"""Log of refusals, which strangers may cause as often as they like."""
_LIVE_PATH: Final = "/live"
_TIDY_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 5.0


class PageEndpoint:
    """Serves the page on the event loop of the pages, until :meth:`close`.

    Args:
        server_state: the server's state.
        host: address to listen on.
        port: TCP port; 0 takes a free one.
        tls: certificate chain and private key, PEM.
        client_roots: certificates to trust for clients, PEM; each client must present one. ``None``: none need to.
        names: names under which browsers may ask for the page, besides addresses and ``localhost``.
        companion: another front whose websockets the port serves as well; pages run on its event loop.

    Attributes:
        port: the port.

    Raises:
        UnavailableError: the address cannot be listened on.
        LimitError: the process can start no further thread.
    """

    def __init__(
        self,
        server_state: ServerState,
        host: str,
        port: int,
        tls: tuple[bytes, bytes] | None,
        client_roots: bytes | None,
        names: Collection[str] = (),
        companion: Companion | None = None,
    ) -> None:
        self._service = server_state.pages.service()
        self._companion = companion
        other = None if companion is None else companion.front
        self._front = _PageFront(self._service, names, other, is_encrypted=tls is not None)
        self.port = self._service.call(self._begin(host, port, tls, client_roots)).result()

    @property
    def connections(self) -> int:
        """The number of open websockets."""
        return self._front.connections

    def replace_tls(self, tls: tuple[bytes, bytes]) -> None:
        """Present another certificate to new connections."""

        async def replace() -> None:
            self._front.replace_tls(tls)

        self._service.call(replace()).result()

    def close(self, grace: float) -> None:
        """Stop listening; pages are cut after ``grace`` seconds."""
        try:
            self._service.call(self._close(grace)).result(grace + _CLOSE_SECONDS)
        except concurrent.futures.TimeoutError:
            logger.error("the web port does not close")

    async def _begin(self, host: str, port: int, tls: tuple[bytes, bytes] | None, client_roots: bytes | None) -> int:
        bound = await self._front.start(host, port, tls, client_roots)
        self._tidying = asyncio.get_running_loop().create_task(self._tidy())
        return bound

    async def _tidy(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_TIDY_SECONDS)
            self._front.tidy(loop.time())

    async def _close(self, grace: float) -> None:
        self._tidying.cancel()
        if self._companion is not None:
            await self._companion.end()
        await self._front.stop(grace)


class _PageFront(WebFront):
    """The websockets and the files of the endpoint.

    Args:
        service: the state that all pages share.
        names: names under which browsers may ask for the page.
        other: serves the websockets that ask for its subprotocols and not for the page's.
        is_encrypted: whether the port has TLS.
    """

    port_setting = "web_port"

    def __init__(
        self, service: PageService, names: Collection[str], other: WebFront | None, *, is_encrypted: bool
    ) -> None:
        limits = service.server_state.limits
        super().__init__(
            SocketLimits(
                message_bytes=MOST_TEXT_BYTES,
                slow_client_seconds=limits.slow_client_seconds,
                stranger_seconds=limits.handshake_seconds,
                opening_seconds=limits.handshake_seconds,
                half_message_bytes=limits.half_message_bytes,
                connections=most_connections(limits.connections),
                connections_per_address=limits.connections_per_address,
            ),
            most=limits.sessions,
            subprotocols=[SUBPROTOCOL, *([] if other is None else other.subprotocols)],
        )
        self._service = service
        self._other = other
        self._names = names
        self._is_encrypted = is_encrypted

    def socket(self, connection: ServerConnection) -> FrontSocket:
        """Make the object that serves a page, or a client of the other front."""
        if self._other is not None and connection.subprotocol in self._other.subprotocols:
            return self._other.socket(connection)
        return _page_socket()(connection, self._service)

    def stranger_seconds(self, socket: FrontSocket) -> float:
        """Seconds without credentials, as at the port of the websocket's own front."""
        if self._other is not None and not isinstance(socket, _page_socket()):
            return self._other.stranger_seconds(socket)
        return super().stranger_seconds(socket)

    def refusal(self, connection: ServerConnection, request: Request) -> Response | None:
        """Refuse websockets of other pages, or at another path."""
        refused = self._misdirected(request)
        if refused is not None:
            return refused
        host, origins = _header(request, "Host"), request.headers.get_all("Origin")
        foreign = [origin for origin in origins if not is_own_page(origin, host, is_encrypted=self._is_encrypted)]
        if self._other is not None and _is_for(self._other, request):
            return self._other.refusal(connection, request) if foreign else None
        if request.path != _LIVE_PATH:
            return text_response(HTTPStatus.NOT_FOUND, f"The websocket of the page is at {_LIVE_PATH}.")
        if foreign:
            _REFUSALS.log(logger, logging.WARNING, "a page of another origin was refused: %r", foreign[0][:100])
            return text_response(HTTPStatus.FORBIDDEN, "Only this server's own page may connect here.")
        return None

    def page(self, connection: ServerConnection, request: Request) -> Response:
        """A file of the page."""
        del connection
        refused = self._misdirected(request)
        if refused is not None:
            return refused
        file = page_file(request.path)
        if file is None:
            return text_response(HTTPStatus.NOT_FOUND, "There is nothing here. The page is at / of this address.")
        return response(request, file)

    def _misdirected(self, request: Request) -> Response | None:
        """Refuse a foreign host name, and a query, whose secrets would stay in logs."""
        host = _header(request, "Host")
        if len(request.headers.get_all("Host")) != 1 or not is_known_host(host, self._names):
            _REFUSALS.log(logger, logging.WARNING, "a request for the page under the name %r was refused", host[:100])
            return text_response(
                HTTPStatus.MISDIRECTED_REQUEST,
                "This server does not know itself under this name. Use its address, or name it in web_hosts.",
            )
        if "?" in request.path:
            # Without the query: a token in it must get into no log.
            _REFUSALS.log(logger, logging.WARNING, "a request for the page with a query was refused")
            return text_response(HTTPStatus.BAD_REQUEST, "The page takes no query. A token is entered in the page.")
        return None


def _page_socket() -> type[PageSocket]:
    """The class that serves a page, imported with the first page."""
    from barrage_server.server.web.websocket import PageSocket

    return PageSocket


def _is_for(front: WebFront, request: Request) -> bool:
    """Whether a websocket asks for a subprotocol of ``front``, not for the page's."""
    lines = ",".join(request.headers.get_all("Sec-WebSocket-Protocol"))
    asked = {name.strip() for name in lines.split(",")}
    return SUBPROTOCOL not in asked and not asked.isdisjoint(front.subprotocols)


def _header(request: Request, name: str) -> str:
    return next(iter(request.headers.get_all(name)), "")
