"""The gRPC endpoint: an event loop on its own thread, and its ports.

Ports exist for Deephaven's clients, over gRPC and websockets, and for plain Flight clients.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from barrage_server.process import most_connections
from barrage_server.server.auth import TokenSigner
from barrage_server.server.deephaven.application_service import ApplicationService
from barrage_server.server.deephaven.console_service import ConsoleService
from barrage_server.server.deephaven.flight_service import FlightService
from barrage_server.server.deephaven.grpc_endpoint import GrpcEndpoint
from barrage_server.server.deephaven.input_tables import InputTableService
from barrage_server.server.deephaven.partitioned_service import PartitionedTableService
from barrage_server.server.deephaven.plain_service import PlainService
from barrage_server.server.deephaven.service import DeephavenService
from barrage_server.server.deephaven.session_service import ConfigService, SessionService
from barrage_server.server.deephaven.state import EndpointState
from barrage_server.server.deephaven.table_service import TableService
from barrage_server.server.event_loop import EventLoop, end_other_tasks
from barrage_server.server.server_state import ServerState
from barrage_server.server.stranger_calls import StrangerCalls

if TYPE_CHECKING:
    from barrage_server.server.deephaven.web_endpoint import WebEndpoint
    from barrage_server.server.web.front import Companion

__all__ = ["DeephavenEndpoint"]

logger = logging.getLogger("barrage_server.server")

_HOUSEKEEPING_SECONDS: Final = 0.5
_STRANGER_BYTES: Final = 64 << 10
"""Most bytes of one message on a websocket before a call has shown credentials."""


class DeephavenEndpoint:
    """Serves Deephaven's clients, and plain Flight clients over gRPC.

    Args:
        server_state: the server's state.
        host: address to listen on.
        tls: certificate chain and key, PEM.
        client_roots: certificates to trust for clients, PEM; each client must present one. ``None``: none need to.
        let_in: called with the peer of each call over gRPC with valid credentials.
        strangers: counts the other calls; ``None``: they are not counted.

    Attributes:
        flight_port: the port for plain Flight clients; ``None`` without.
        port: the port for Deephaven's clients over gRPC; ``None`` without.
        web_port: the port for websockets; ``None`` without.

    Raises:
        LimitError: the process cannot start a thread.
    """

    def __init__(
        self,
        server_state: ServerState,
        host: str,
        tls: tuple[bytes, bytes] | None,
        client_roots: bytes | None = None,
        let_in: Callable[[str], object] = lambda _: None,
        strangers: StrangerCalls | None = None,
    ) -> None:
        self.flight_port: int | None = None
        self.port: int | None = None
        self.web_port: int | None = None
        self._host = host
        self._tls = tls
        self._client_roots = client_roots
        self._let_in = let_in
        self._strangers = strangers
        self._web_origins: Collection[str] = ()
        self._plain: PlainService | None = None
        self._state = EndpointState(server_state)
        self._flight = FlightService(self._state, self._location)
        self._service = DeephavenService(
            self._state,
            ConfigService(self._state),
            SessionService(self._state),
            ApplicationService(self._state),
            ConsoleService(self._state),
            TableService(self._state),
            PartitionedTableService(self._state),
            InputTableService(self._state),
            self._flight,
        )
        self._fronts: list[Any] = []
        self._tidy: Callable[[float], object] = lambda _now: None
        self._resolver = ThreadPoolExecutor(1, "barrage-resolver")  # for asyncio to look names up
        self._runner = EventLoop("barrage-deephaven")
        self._loop = self._runner.loop
        self._runner.call(self._begin()).result()

    def open_flight(self, port: int, signer: TokenSigner, location: Callable[[], str]) -> int:
        """Listen for plain Flight clients, and return the port.

        Args:
            port: TCP port; 0 takes a free one.
            signer: makes and checks bearer tokens.
            location: returns the URI in listings.

        Raises:
            UnavailableError: the address cannot be listened on.
        """
        self._runner.call(self._open_flight(port, signer, location)).result()
        assert self.flight_port is not None
        return self.flight_port

    def open(self, port: int | None, web_port: int | None, web_origins: Collection[str] = ()) -> None:
        """Listen for Deephaven's clients.

        Args:
            port: TCP port for gRPC; 0 takes a free one, ``None`` none.
            web_port: TCP port for websockets; likewise.
            web_origins: origins of further web pages that may connect when every caller is accepted.

        Raises:
            UnavailableError: an address cannot be listened on.
        """
        self._web_origins = web_origins
        self._runner.call(self._open(port, web_port)).result()

    def companion(self) -> Companion | None:
        """The means for another port to serve Deephaven's websockets as well.

        ``None`` without a port for Deephaven's clients, and where pages could run scripts without credentials.
        """
        from barrage_server.server.web.front import Companion

        if self.port is None and self.web_port is None:
            return None
        if self._state.console is not None and self._state.authentication.is_open:
            return None
        return Companion(self._web_endpoint(), self._runner, self._end_sessions)

    @property
    def session_count(self) -> int:
        """The number of open sessions."""
        return len(self._state.sessions)

    @property
    def export_count(self) -> int:
        """The number of exports of all sessions."""
        return self._state.sessions.export_count

    def close(self, grace: float) -> None:
        """End all calls and threads; calls are cut after ``grace`` seconds."""
        if self._runner.is_stopped:
            return
        if self._state.console is not None:
            self._state.console.close()
        try:
            self._runner.call(self._close(grace)).result(grace + 5.0)
        except concurrent.futures.TimeoutError:
            logger.error("a call of the Deephaven endpoint does not end")
        self._flight.close()
        if self._plain is not None:
            self._plain.close()
        self._state.workers.shutdown()
        self._state.writers.shutdown()
        self._state.heavy.shutdown()
        self._state.plans.shutdown()
        self._resolver.shutdown(wait=False)
        self._runner.stop()

    def replace_tls(self, tls: tuple[bytes, bytes]) -> None:
        """Present another certificate, whose chain and key fit, to new connections."""

        async def replace() -> None:
            for front in self._fronts:
                front.replace_tls(tls)

        self._runner.call(replace()).result()

    async def _begin(self) -> None:
        self._loop.set_default_executor(self._resolver)
        self._housekeeping = self._loop.create_task(self._keep_house())

    async def _open_flight(self, port: int, signer: TokenSigner, location: Callable[[], str]) -> None:
        self._plain = PlainService(self._state, signer, location)
        self.flight_port = await self._listen(self._plain, port, is_plain=True)

    async def _listen(self, service: DeephavenService, port: int, *, is_plain: bool) -> int:
        limits = self._state.server_state.limits
        grpc_endpoint = GrpcEndpoint(
            service,
            service.names,
            limits,
            is_plain=is_plain,
            let_in=self._let_in,
            strangers=self._counted_strangers,
            clock=self._state.server_state.clock,
        )
        bound = await grpc_endpoint.start(_bracketed(self._host), port, self._tls, self._client_roots)
        self._fronts.append(grpc_endpoint)
        return bound

    def _counted_strangers(self) -> StrangerCalls | None:
        """The counter of calls without credentials; ``None`` while no call needs any."""
        return None if self._state.authentication.is_open else self._strangers

    async def _open(self, port: int | None, web_port: int | None) -> None:
        if port is not None:
            self.port = await self._listen(self._service, port, is_plain=False)
        if web_port is not None:
            web_endpoint = self._web_endpoint()
            self.web_port = await web_endpoint.start(self._host, web_port, self._tls, self._client_roots)
            self._fronts.append(web_endpoint)
            self._tidy = web_endpoint.tidy

    def _web_endpoint(self) -> WebEndpoint:
        from barrage_server.server.deephaven.web_endpoint import WebEndpoint
        from barrage_server.server.web.front import SocketLimits

        limits = self._state.server_state.limits
        return WebEndpoint(
            self._service,
            SocketLimits(
                message_bytes=limits.message_bytes,
                slow_client_seconds=limits.slow_client_seconds,
                stranger_bytes=_STRANGER_BYTES,
                stranger_seconds=limits.session_seconds,
                opening_seconds=limits.handshake_seconds,
                half_message_bytes=limits.half_message_bytes,
                streams=limits.calls_per_connection,
                connections=most_connections(limits.connections),
                connections_per_address=limits.connections_per_address,
            ),
            connections=limits.sessions,
            origins=self._web_origins if self._state.authentication.is_open else None,
            clock=self._state.server_state.clock,
        )

    async def _end_sessions(self) -> None:
        self._state.stopping.set()
        await asyncio.sleep(0)  # calls that wait for ``stopping`` answer before their sessions end
        self._state.sessions.close_all()

    async def _close(self, grace: float) -> None:
        await self._end_sessions()
        for front in self._fronts:
            await front.stop(grace)
        await end_other_tasks()

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(_HOUSEKEEPING_SECONDS)
            self._state.sessions.expire()
            self._state.sessions.end_invalid()
            if self._state.console is not None:
                self._state.console.tidy()
            self._tidy(self._loop.time())

    def _location(self) -> str:
        if self.port is None or self._host in ("0.0.0.0", "::", "[::]"):
            return "arrow-flight-reuse-connection://?"
        scheme = "grpc" if self._tls is None else "grpc+tls"
        return f"{scheme}://{_bracketed(self._host)}:{self.port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
