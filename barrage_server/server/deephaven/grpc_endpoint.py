"""The gRPC port: every call of any service as bytes, plus health and reflection."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import grpc
from barrage_proto import pool as own_pool
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from barrage_server.errors import UnavailableError
from barrage_server.flight.authorization import AUTHORIZATION
from barrage_server.flight.sockets import peer_name
from barrage_server.process import most_connections
from barrage_server.server.deephaven.call import CODES, Call, Service, Status
from barrage_server.server.deephaven.grpc_batches import free_all_batches
from barrage_server.server.deephaven.grpc_services import GrpcServices
from barrage_server.server.limits import Limits
from barrage_server.server.listening import cannot_listen
from barrage_server.server.stall import StallWatch
from barrage_server.server.stranger_calls import StrangerCalls
from barrage_server.wire.families import ClientFamily

__all__ = ["GrpcEndpoint"]

_OPTIONS: Final = (
    # downloads are cut to sizes that clients take
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    # calls that wait for the event loop: gRPC refuses some of them beyond the first number, and all beyond the second
    ("grpc.server.max_pending_requests", 4_000),
    ("grpc.server.max_pending_requests_hard_limit", 8_000),
    # tolerate frequent keep-alive pings
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
)
_REFUSALS: Final = (CODES["UNAUTHENTICATED"], CODES["RESOURCE_EXHAUSTED"])
"""Status codes of a call whose credentials are wrong, or were not checked."""
_OURS: Final = ("/io.deephaven.", "/arrow.flight.")
_VIEWPORT_HEADER: Final = "barrage-viewport"
_NEWS_SECONDS: Final = 0.05
"""Seconds within which a broken connection shows after the client's last message."""
_CANCELLED_SECONDS: Final = 10.0
"""Seconds within which gRPC cancels a call whose connection broke."""


def _is_worth_logging(record: logging.LogRecord) -> bool:
    """Whether a record of gRPC's logger should be logged.

    gRPC logs a traceback for a client that resets its call within an operation, when the news of the reset comes after
    the operation has failed. A client could fill the log that way, so such records are not logged.
    """
    kind = record.exc_info[0] if record.exc_info else None
    return kind is None or not issubclass(kind, (grpc.aio.InternalError, asyncio.CancelledError))


class GrpcCall(Call):
    """A call that came over gRPC.

    Attributes:
        is_broken: whether the connection broke within an operation: gRPC is about to cancel the call.
        is_let_in: whether the call has shown valid credentials.
    """

    def __init__(
        self,
        method: str,
        context: grpc.aio.ServicerContext[Any, Any],
        slow_client_seconds: float = 30.0,
        *,
        first_seconds: float = 10.0,
        is_plain: bool = False,
        let_in: Callable[[str], object] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.method = method
        self.metadata = _headers(context.invocation_metadata() or ())
        self.peer = peer_name(str(context.peer()))
        self.family = ClientFamily.ARROW if is_plain else _family(self.metadata)
        self.first_seconds = first_seconds
        self._has_sent = False
        self._let_in = let_in
        self.stall = StallWatch(clock)
        self.is_broken = False
        self.is_let_in = False
        self._context = context
        self._slow_client_seconds = slow_client_seconds

    @property
    def identity(self) -> str:
        """The identity of the client's verified certificate; empty without one."""
        identities = self._context.peer_identities() or ()
        return next((identity.decode("utf-8", "replace") for identity in identities), "")

    def let_in(self) -> None:
        """Note that the call has shown valid credentials."""
        self.is_let_in = True
        self._let_in(self.peer)

    @property
    def shows_credentials(self) -> bool:
        """Whether the call has credentials, valid or not."""
        return AUTHORIZATION in self.metadata or bool(self.identity)

    async def read(self) -> bytes | None:
        """The next request message; ``None`` when the caller sends no more."""
        with self._connected():
            message = await self._context.read()
        return None if message is grpc.aio.EOF else message

    async def confirm_end(self) -> None:
        """Return when the caller has half-closed, not merely disconnected.

        Sending fails on a broken stream, and the headers are to be sent anyway. If they are sent already, the news that
        the call is cancelled follows at once.
        """
        if self._has_sent:
            await asyncio.sleep(_NEWS_SECONDS)
        else:
            await self.send_headers(())

    async def send_headers(self, headers: Sequence[tuple[str, str]]) -> None:
        """Send the response's headers."""
        self._has_sent = True
        with self._connected():
            await self._context.send_initial_metadata(tuple(headers))

    async def write(self, message: bytes) -> None:
        """Send a message."""
        self._has_sent = True
        with self._connected(), self.stall.taking(self._slow_client_seconds):
            await self._context.write(message)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Translate gRPC's errors about a connection that breaks within an operation.

        Raises:
            UnavailableError: in place of gRPC's own errors.
        """
        try:
            yield
        except grpc.aio.BaseError as error:
            self.is_broken = True
            raise UnavailableError("The client's connection broke.") from error


class GrpcEndpoint(grpc.GenericRpcHandler):
    """A gRPC server on the running event loop.

    Args:
        service: runs the calls.
        names: its services, for reflection and health.
        limits: those of the server.
        is_plain: whether all clients are plain Flight clients, rather than Deephaven's.
        let_in: called with the peer of each call with valid credentials.
        strangers: returns the counter of calls without credentials; ``None`` while no call needs any.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        service: Service,
        names: Sequence[str],
        limits: Limits,
        *,
        is_plain: bool = False,
        let_in: Callable[[str], object] = lambda _: None,
        strangers: Callable[[], StrangerCalls | None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._service = service
        self._names = names
        self._is_plain = is_plain
        self._let_in = let_in
        self._strangers = strangers
        self._clock = clock
        self._server: grpc.aio.Server | None = None
        self._certificate: Any = None
        self._client_roots: bytes | None = None
        self._health = health.aio.HealthServicer()
        self._own = GrpcServices(limits.handshakes, limits.handshake_seconds, strangers)

    async def start(
        self, host: str, port: int, tls: tuple[bytes, bytes] | None, client_roots: bytes | None = None
    ) -> int:
        """Listen, and return the port.

        Args:
            host: address to listen on.
            port: TCP port; 0 takes a free one.
            tls: certificate chain and key, PEM; ``None`` for no TLS.
            client_roots: certificates to trust for clients, PEM; each client must present one. ``None``: none need to.

        Raises:
            UnavailableError: the address cannot be listened on.
        """
        free_all_batches()
        logging.getLogger("grpc._cython.cygrpc").addFilter(_is_worth_logging)
        server = grpc.aio.server(options=(*_OPTIONS, *_bounds(self._limits)))
        server.add_generic_rpc_handlers((self,))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._own)
        for name in ("", *self._names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        names = [*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME]
        described = reflection.aio.ReflectionServicer(names, pool=_described())
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(described, self._own)
        address, setting = f"{host}:{port}", "port" if self._is_plain else "deephaven_port"
        try:
            if tls is None:
                bound = server.add_insecure_port(address)
            else:
                self._client_roots = client_roots
                self._certificate = _certificate(tls, client_roots)
                # gRPC asks at each handshake, on its own thread
                credentials = grpc.dynamic_ssl_server_credentials(
                    self._certificate, lambda: self._certificate, client_roots is not None
                )
                bound = server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise cannot_listen(host, port, setting) from error
        if not bound:
            raise cannot_listen(host, port, setting)
        await server.start()
        self._server = server
        return int(bound)

    def replace_tls(self, tls: tuple[bytes, bytes]) -> None:
        """Present another certificate (chain and key, PEM) to new connections."""
        self._certificate = _certificate(tls, self._client_roots)

    async def stop(self, grace: float) -> None:
        """Take no more calls, and cut those that do not end within ``grace`` seconds."""
        if self._server is not None:
            await self._health.enter_graceful_shutdown()
            await self._server.stop(grace)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        """The handler of a call, for gRPC."""
        method = str(details.method)
        if not method.startswith(_OURS):
            return self._own.find(method)
        handler = call_handler(
            method,
            self._service,
            self._limits.slow_client_seconds,
            first_seconds=self._limits.idle_stream_seconds,
            is_plain=self._is_plain,
            let_in=self._let_in,
            clock=self._clock,
            strangers=self._strangers(),
        )
        return grpc.stream_stream_rpc_method_handler(handler)


def _certificate(tls: tuple[bytes, bytes], client_roots: bytes | None) -> Any:
    chain, key = tls
    return grpc.ssl_server_certificate_configuration([(key, chain)], client_roots)


def _bounds(limits: Limits) -> tuple[tuple[str, int], ...]:
    """The limits as gRPC's options."""
    return (
        ("grpc.max_receive_message_length", limits.message_bytes),
        ("grpc.max_metadata_size", limits.header_bytes),
        ("grpc.absolute_max_metadata_size", limits.header_bytes),
        ("grpc.max_concurrent_streams", limits.calls_per_connection),
        ("grpc.max_allowed_incoming_connections", most_connections(limits.connections)),
        # connections that do not speak HTTP/2, or do not finish the handshake of TLS
        ("grpc.server_handshake_timeout_ms", _milliseconds(limits.handshake_seconds)),
        # clients that have vanished
        ("grpc.keepalive_time_ms", _milliseconds(limits.keepalive_seconds)),
    )


def _milliseconds(seconds: float) -> int:
    return min((1 << 31) - 1, max(1, math.ceil(1000 * seconds)))


def call_handler(
    method: str,
    service: Service,
    slow_client_seconds: float = 30.0,
    *,
    strangers: StrangerCalls | None = None,
    **about: Any,
) -> Callable[..., Awaitable[None]]:
    """The function that gRPC runs for each call of ``method``."""

    async def handle(_requests: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        if strangers is not None and strangers.has_ended(peer_name(str(context.peer()))):
            _refuse(context, strangers)
            return
        call = GrpcCall(method, context, slow_client_seconds, **about)
        if strangers is not None and not call.shows_credentials and not strangers.admit(call.peer):
            _refuse(context, strangers)
            return
        status = None
        try:
            status = await service(call)
        finally:
            is_refused = status is None or status.code in _REFUSALS
            if strangers is not None and call.shows_credentials and is_refused and not call.is_let_in:
                strangers.admit(call.peer)  # wrong credentials, or a reset before they were checked
        if call.is_broken:  # gRPC would log a traceback about a status that it cannot send
            await asyncio.sleep(_CANCELLED_SECONDS)
        if status != Status.OK:
            context.set_code(_CODES[status.code])
            context.set_details(status.text)

    return handle


def _refuse(context: grpc.aio.ServicerContext[Any, Any], strangers: StrangerCalls) -> None:
    context.set_code(grpc.StatusCode.RESOURCE_EXHAUSTED)
    context.set_details(strangers.refusal)


_CODES: Final[Mapping[int, grpc.StatusCode]] = {code.value[0]: code for code in grpc.StatusCode}


def _headers(metadata: Any) -> dict[str, str]:
    """The first value of each header."""
    headers: dict[str, str] = {}
    for name, value in metadata:
        headers.setdefault(name, value.decode("latin-1") if isinstance(value, bytes) else value)
    return headers


def _family(headers: Mapping[str, str]) -> ClientFamily:
    """The client family by headers.

    This project's client sends a dialect, and a Java client its user agent.
    """
    if _VIEWPORT_HEADER in headers:
        return ClientFamily.ARROW
    return ClientFamily.JAVA if headers.get("user-agent", "").startswith("grpc-java") else ClientFamily.TICKING


def _described() -> Any:
    """The pool that reflection answers from, with all message types served."""
    pool = own_pool.Default()
    for module in (health_pb2, reflection_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    return pool
