"""The websocket port of the Deephaven endpoint, for Deephaven's JavaScript API.

One websocket carries all calls of one page, in frames of :mod:`~barrage_server.server.deephaven.multiplex`. Each call
is a task of its own, on the event loop of the gRPC front.

The ``authorization`` header inside each stream authenticates the call. Browsers do not add it by themselves, so pages
of any origin may connect where credentials are required. Elsewhere see :mod:`~barrage_server.server.web.origins`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from http import HTTPStatus
from typing import Final

from websockets.asyncio.server import ServerConnection
from websockets.http11 import Request, Response

from barrage_server.server.deephaven.call import Service
from barrage_server.server.deephaven.multiplex import SUBPROTOCOL
from barrage_server.server.deephaven.web_socket import ENVELOPE_BYTES, Socket
from barrage_server.server.web.front import SocketLimits, WebFront
from barrage_server.server.web.origins import is_welcome

__all__ = ["WebEndpoint"]

logger = logging.getLogger("barrage_server.server")

_API_PATH: Final = "/jsapi/"


class WebEndpoint(WebFront):
    """Serves a service over websockets.

    Args:
        service: runs the calls.
        limits: bounds of one connection.
        connections: connections at a time; further ones are told to retry later.
        origins: origins of web pages that may connect, besides this machine; ``None``: all may, because credentials
            are required.
        clock: a monotonic clock, in seconds.

    """

    port_setting = "deephaven_web_port"

    def __init__(
        self,
        service: Service,
        limits: SocketLimits | None = None,
        *,
        connections: int = 2000,
        origins: Collection[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = limits or SocketLimits()
        super().__init__(limits, most=connections, subprotocols=[SUBPROTOCOL], envelope_bytes=ENVELOPE_BYTES)
        self._service = service
        self._bounds = limits
        self._clock = clock
        self._origins = (origins,) if isinstance(origins, str) else origins

    def socket(self, connection: ServerConnection) -> Socket:
        """Make the object that runs the calls of a page."""
        # the port may be the page's, with another limit of messages
        most = self._bounds.message_bytes if self._bounds.stranger_bytes is None else self._bounds.stranger_bytes
        connection.protocol.max_message_size = most + ENVELOPE_BYTES
        return Socket(connection, self._service, self._bounds, self._clock)

    def page(self, connection: ServerConnection, request: Request) -> Response:
        """Answer a request that is no websocket by a text about this port."""
        path = request.path.partition("?")[0]
        if path == "/":
            return connection.respond(
                HTTPStatus.OK,
                "This is barrage-server: live tables for Deephaven's JavaScript API, over websockets.\n"
                "Connect with new dh.CoreClient(<this address>); where the address begins with https,\n"
                "with the option {useWebsockets: true}.\n",
            )
        if path.startswith(_API_PATH):
            return connection.respond(
                HTTPStatus.NOT_FOUND,
                "The JavaScript API is Deephaven's, and not shipped here. Load dh-core.js from a Deephaven server of "
                "yours,\nor from a copy of its folder jsapi, and have it connect to this address.\n",
            )
        return connection.respond(
            HTTPStatus.NOT_FOUND, "There is nothing here but websockets for Deephaven's JavaScript API.\n"
        )

    def refusal(self, connection: ServerConnection, request: Request) -> Response | None:
        """Refuse pages of other machines where the server requires no credentials."""
        allowed, origins = self._origins, request.headers.get_all("Origin")
        host = next(iter(request.headers.get_all("Host")), "")
        if allowed is None or all(is_welcome(origin, host, allowed) for origin in origins):
            return None
        logger.warning("a page of %s was refused: without a token, pages of other machines must be allowed", origins)
        return connection.respond(
            HTTPStatus.FORBIDDEN,
            "This server asks for no credentials, and so takes no pages of other machines. Set a token, or allow this "
            "page's\norigin: deephaven_web_origins.\n",
        )
