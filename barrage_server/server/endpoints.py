"""The ports of a server, and the watchdog over their connections."""

from __future__ import annotations

import ipaddress
import logging
import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

import pyarrow as pa

from barrage_server.errors import InvalidRequestError
from barrage_server.extras import missing_extra
from barrage_server.flight.sockets import connection_counts, shut_all, shut_peer
from barrage_server.process import leave_to_parent, most_connections
from barrage_server.server.auth import AuthMiddlewareFactory, HandshakeHandler, TokenSigner
from barrage_server.server.connections import Connections
from barrage_server.server.flight_endpoint import SAME_CONNECTION, FlightEndpoint, TlsIdentity
from barrage_server.server.front import Front
from barrage_server.server.listening import cannot_listen
from barrage_server.server.server_state import ServerState
from barrage_server.server.stranger_calls import StrangerCalls
from barrage_server.server.strangers import Strangers
from barrage_server.server.streams import Watchdog
from barrage_server.server.web.tls import tls_context

if TYPE_CHECKING:
    from barrage_server.server.deephaven.endpoint import DeephavenEndpoint
    from barrage_server.server.web.endpoint import PageEndpoint

__all__ = ["Endpoints", "authority", "listening_uri"]

logger = logging.getLogger("barrage_server.server")

_TRIES = 20


class Endpoints:
    """The ports of a server: Flight's, opened here, and those for other clients.

    Args:
        server_state: the server's state.
        host: address to listen on.
        port: the port for Flight; 0 takes a free one.
        tls: certificate chain and key, PEM.
        client_roots: certificates to trust for clients, PEM; every client must then present a certificate. ``None``:
            clients need none.
        tidy: housekeeping, called about once a second with the time.
        front: the implementation that serves the port for Flight.

    Attributes:
        host: the address.
        port: the port for Flight.
        front: the implementation that serves it.
        strangers: bounds handshakes without credentials, where ``pyarrow`` serves it.
        stranger_calls: bounds calls without credentials, where gRPC serves them.

    Raises:
        UnavailableError: the address cannot be listened on.
        LimitError: this process can start no further thread.
        DependencyError: the packages for the front are not installed.

    """

    def __init__(
        self,
        server_state: ServerState,
        host: str,
        port: int,
        tls: TlsIdentity | None,
        client_roots: bytes | None,
        tidy: Callable[[float], object],
        front: Front = Front.PYARROW,
    ) -> None:
        self.host = host
        self.port = port
        self.front = front.on(host)
        self._server_state = server_state
        self._tls = tls
        self._client_roots = client_roots
        self._tidy_server = tidy
        self._deephaven: DeephavenEndpoint | None = None
        self._page: PageEndpoint | None = None
        self._pyarrow: FlightEndpoint | None = None
        self._may_shut = threading.Event()
        limits = server_state.limits
        ports: list[int] = []  # of gRPC; the functions that read it do not hold self: Flight may keep them
        self._grpc_ports = ports
        self._connected = Connections(limits, lambda: ports)
        if (most := most_connections(limits.connections)) < limits.connections:
            text = (
                "a port takes about %d connections, and not %d: this process may open no more descriptors (ulimit -n)"
            )
            logger.info(text, most, limits.connections)
        self.strangers = Strangers(limits.handshakes, limits.handshake_seconds, self._connected.shut_strangers)
        self.stranger_calls = StrangerCalls(
            limits.stranger_calls_per_second,
            self._connected.is_known,
            self._connected.end,
            server_state.clock,
            limits.refused_address_seconds,
        )
        if self.front is Front.GRPC:
            self.port = self._open_grpc(port)
        else:
            self._pyarrow = self._open_pyarrow(port)
            self.port = int(self._pyarrow.port)
        ports.append(self.port)
        self._watchdog = Watchdog(
            server_state.streams,
            self._kick,
            self._tidy,
            self._shut_pyarrow,
        )
        try:
            self._watchdog.start()
        except BaseException:
            self._shut_ports()
            raise

    def _shut_ports(self) -> None:
        if self._deephaven is not None:
            self._deephaven.close(0.0)
        if self._pyarrow is not None:
            self._pyarrow.shutdown()

    def _open_pyarrow(self, port: int) -> FlightEndpoint:
        scheme, signer = "grpc+tls" if self._tls is not None else "grpc", TokenSigner()
        authentication = self._server_state.authentication
        try:
            # Flight serves from its constructor on: all other state must be complete before
            endpoint = FlightEndpoint(
                f"{scheme}://{_bracketed(self.host)}:{port}",
                self._server_state,
                AuthMiddlewareFactory(
                    authentication, signer, self.strangers, certificates=self._client_roots is not None
                ),
                HandshakeHandler(authentication, signer, self.strangers),
                self._connected.let_in,
                self._advertised,
                self._tls,
                self._client_roots,
            )
        except (pa.ArrowException, OSError):
            raise cannot_listen(self.host, port, "port") from None
        leave_to_parent(endpoint)
        return endpoint

    def _open_grpc(self, port: int) -> int:
        self._deephaven = endpoint = self._grpc_endpoint("The gRPC endpoint for Flight clients needs")
        try:
            return endpoint.open_flight(port, TokenSigner(), lambda: self._advertised() or SAME_CONNECTION)
        except BaseException:
            endpoint.close(0.0)
            raise

    def _grpc_endpoint(self, doing: str) -> DeephavenEndpoint:
        """The endpoint of gRPC and websockets, whose packages are an extra."""
        try:
            from barrage_server.server.deephaven.endpoint import DeephavenEndpoint
        except ImportError as error:
            if (error.name or "").startswith("barrage_server"):
                raise
            raise missing_extra(doing, "deephaven", error) from error
        return DeephavenEndpoint(
            self._server_state,
            self.host,
            self._tls,
            self._client_roots,
            self._connected.let_in,
            self.stranger_calls,
        )

    def open_deephaven(self, port: int | None, web_port: int | None, web_origins: Collection[str]) -> None:
        """Listen for Deephaven's clients too.

        Args:
            port: the port for gRPC; 0 takes a free one; ``None``: none.
            web_port: the port for websockets, likewise.
            web_origins: origins of web pages that may connect there without a token.

        Raises:
            UnavailableError: an address cannot be listened on.
            LimitError: this process can start no further thread.
            DependencyError: the packages for these ports are not installed.

        """
        if port is None and web_port is None:
            return
        if self._deephaven is None:
            self._deephaven = self._grpc_endpoint("A port for Deephaven's clients needs")
        self._deephaven.open(port, web_port, web_origins)
        if self._deephaven.port is not None:
            self._grpc_ports.append(self._deephaven.port)

    def open_pages(self, port: int | None, names: Collection[str]) -> None:
        """Serve the pages of notebooks, and of browsers if they have a port.

        The port for browsers serves Deephaven's JavaScript API too, if the server has a port for Deephaven's clients.

        Args:
            port: the port for browsers; 0 takes a free one; ``None``: none.
            names: host names that browsers may use for the page, besides addresses.

        Raises:
            UnavailableError: the address cannot be listened on.
            LimitError: this process can start no further thread.

        """
        companion = None if port is None or self._deephaven is None else self._deephaven.companion()
        self._server_state.pages.open(None if companion is None else companion.loop)
        if port is None:
            return
        from barrage_server.server.web.endpoint import PageEndpoint  # which loads the library of websockets

        self._page = PageEndpoint(self._server_state, self.host, port, self._tls, self._client_roots, names, companion)

    def replace_tls(self, tls: TlsIdentity) -> None:
        """Present another certificate to new connections, except on a port of pyarrow.

        Raises:
            InvalidRequestError: there is no TLS here, or chain and key do not fit.

        """
        if self._tls is None:
            raise InvalidRequestError("This server has no TLS; start it anew with a certificate.")
        if tls == self._tls:
            return
        tls_context(*tls)  # raises before anything has changed: a context with half of a new pair cannot serve
        if self._deephaven is not None:
            self._deephaven.replace_tls(tls)
        if self._page is not None:
            self._page.replace_tls(tls)
        self._tls = tls
        if self._pyarrow is not None:
            logger.warning("%s keeps its certificate until the server is started anew", self.uri)

    @property
    def ports(self) -> list[int]:
        """The open ports."""
        second = self._deephaven
        others = () if second is None else (second.port, second.web_port)
        page = None if self._page is None else self._page.port
        return [self.port, *(port for port in (*others, page) if port is not None)]

    def connections(self) -> dict[str, int]:
        """Number of open connections, by endpoint."""
        deephaven = self._deephaven
        names = {self.port: "flight"}
        if deephaven is not None and deephaven.port is not None:
            names[deephaven.port] = "deephaven"
        if deephaven is not None and deephaven.web_port is not None:
            names[deephaven.web_port] = "web"
        if self._page is not None:
            names[self._page.port] = "page"
        counts = connection_counts(names)
        return {name: counts[port] for port, name in names.items()}

    @property
    def uri(self) -> str:
        """The URI for clients, such as ``grpc://127.0.0.1:40000``."""
        scheme = "grpc+tls" if self._tls is not None else "grpc"
        return f"{scheme}://{authority(self.host, self.port)}"

    @property
    def deephaven_uri(self) -> str | None:
        """The URI for Deephaven's clients; ``None`` without that port."""
        scheme = "dh+plain" if self._tls is None else "dh"
        return self._second_uri(scheme, None if self._deephaven is None else self._deephaven.port)

    @property
    def deephaven_web_uri(self) -> str | None:
        """The URI for Deephaven's JavaScript client; ``None`` without that port."""
        scheme = "http" if self._tls is None else "https"
        return self._second_uri(scheme, None if self._deephaven is None else self._deephaven.web_port)

    @property
    def web_uri(self) -> str | None:
        """The address of the page; ``None`` without it."""
        scheme = "http" if self._tls is None else "https"
        return self._second_uri(scheme, None if self._page is None else self._page.port)

    @property
    def sessions(self) -> int:
        """Number of sessions of Deephaven's clients."""
        return 0 if self._deephaven is None else self._deephaven.session_count

    @property
    def evicted(self) -> int:
        """Number of connections that were cut because their clients stalled."""
        return self._watchdog.evicted

    def cut(self) -> None:
        """End all streams; those that cannot be ended otherwise, with their connections."""
        for stream in self._server_state.streams.open():
            if not stream.cut():
                self._kick(stream.peer)
        if self._pyarrow is not None:
            shut_all(self.port)

    def close(self, grace: float) -> None:
        """Stop listening; cut the calls that do not end within ``grace`` seconds.

        Returns in bounded time.
        """
        self.stranger_calls.close()
        if self._page is not None:
            self._page.close(grace / 4)
        if self._deephaven is not None:
            self._deephaven.close(grace / 2)
        # Flight's shutdown waits for its handlers without a limit: it runs on the watchdog's thread, while this
        # one cuts the connections that delay it
        self._may_shut.set()
        for _ in range(_TRIES):
            if self._watchdog.join(max(0.05, grace / 10)):
                if self._pyarrow is not None:
                    self._pyarrow.let_go()
                break
            shut_all(self.port)
        else:
            logger.error("a call on %s does not end; the process may have to be killed", self.uri)

    def _kick(self, peer: str) -> bool:
        """End the connection to a peer; return whether there was one."""
        return self._connected.shut(peer) or any(shut_peer(peer, port) for port in self.ports)

    def _tidy(self, now: float) -> None:
        self._tidy_server(now)
        self._connected.tidy(now)
        self.stranger_calls.tidy()
        self.strangers.tidy(now)

    def _shut_pyarrow(self) -> None:
        """Shut Flight's server down, during :meth:`close`, on the watchdog's thread."""
        self._may_shut.wait()
        if self._pyarrow is not None:
            self._pyarrow.shutdown()

    def _second_uri(self, scheme: str, port: int | None) -> str | None:
        return None if port is None else f"{scheme}://{authority(self.host, port)}"

    def _advertised(self) -> str | None:
        return self.uri if _reachable(self.host) == self.host else None


def authority(host: str, port: int) -> str:
    """Host and port of a URI that reaches what listens there."""
    return f"{_bracketed(_reachable(host))}:{port}"


def listening_uri(uri: str, host: str) -> str:
    """``uri`` with the address that is listened on, for the log.

    For a wildcard address, as ``grpc://0.0.0.0:8815 (all addresses)``: ``uri`` has the loopback address then.
    """
    if _reachable(host) == host:
        return uri
    scheme, _, place = uri.partition("://")
    return f"{scheme}://{_bracketed(host)}:{place.rpartition(':')[2]} (all addresses)"


def _reachable(host: str) -> str:
    """An address to connect to: the loopback address for a wildcard address."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:  # a name
        return host
    if not address.is_unspecified:
        return host
    return "127.0.0.1" if address.version == 4 else "::1"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
