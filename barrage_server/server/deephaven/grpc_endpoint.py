"""The gRPC port: every call of any service as bytes, plus health and reflection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

import grpc
from barrage_proto import pool as own_pool
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from barrage_server.errors import UnavailableError
from barrage_server.flight.sockets import peer_name
from barrage_server.server.deephaven.call import Call, Service, Status
from barrage_server.server.deephaven.grpc_services import GrpcServices
from barrage_server.server.deephaven.tls import tls_context
from barrage_server.server.stall import StallWatch
from barrage_server.wire.families import ClientFamily

__all__ = ["GrpcEndpoint"]

_OPTIONS: Final = (
    # downloads are cut to what clients take
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    # close silent connections
    ("grpc.server_handshake_timeout_ms", 10_000),
    # detect vanished clients, and tolerate frequent keep-alive pings
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.http2.max_ping_strikes", 0),
)
_OURS: Final = ("/io.deephaven.", "/arrow.flight.")
_VIEWPORT_HEADER: Final = "barrage-viewport"
# Seconds within which gRPC cancels a call whose connection broke.
_CANCELLED_SECONDS: Final = 10.0


class GrpcCall(Call):
    """A call that came over gRPC.

    Attributes:
        is_broken: whether its connection broke within an operation: gRPC is about to cancel the call.

    """

    def __init__(
        self, method: str, context: grpc.aio.ServicerContext[Any, Any], slow_client_seconds: float = 30.0
    ) -> None:
        self.method = method
        self.metadata = _headers(context.invocation_metadata() or ())
        self.peer = peer_name(str(context.peer()))
        self.family = _family(self.metadata)
        self.stall = StallWatch(time.monotonic)
        self.is_broken = False
        self._context = context
        self._slow_client_seconds = slow_client_seconds

    @property
    def identity(self) -> str:
        """The identity of the client's certificate, which TLS has checked; empty without one."""
        identities = self._context.peer_identities() or ()
        return next((identity.decode("utf-8", "replace") for identity in identities), "")

    async def read(self) -> bytes | None:
        """The next request message; ``None`` when the caller sends no more."""
        with self._connected():
            message = await self._context.read()
        return None if message is grpc.aio.EOF else message

    async def send_headers(self, headers: Sequence[tuple[str, str]]) -> None:
        """Send the response's headers."""
        with self._connected():
            await self._context.send_initial_metadata(tuple(headers))

    async def write(self, message: bytes) -> None:
        """Send a message."""
        with self._connected(), self.stall.taking(self._slow_client_seconds):
            await self._context.write(message)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Translate the errors that gRPC raises when the connection breaks within an operation.

        Raises:
            UnavailableError: instead of gRPC's own errors.

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
        message_bytes: most bytes of one request message.
        slow_client_seconds: seconds without taking a message after which a stream is overdue.

    """

    def __init__(
        self,
        service: Service,
        names: Sequence[str],
        message_bytes: int = 100 << 20,
        slow_client_seconds: float = 30.0,
    ) -> None:
        self._message_bytes = message_bytes
        self._slow_client_seconds = slow_client_seconds
        self._service = service
        self._names = names
        self._server: grpc.aio.Server | None = None
        self._certificate: Any = None
        self._client_roots: bytes | None = None
        self._health = health.aio.HealthServicer()
        self._own = GrpcServices()

    async def start(
        self, host: str, port: int, tls: tuple[bytes, bytes] | None, client_roots: bytes | None = None
    ) -> int:
        """Listen, on a free port for 0; the port. With ``client_roots`` clients must present a certificate by these.

        Raises:
            UnavailableError: the address cannot be listened on.

        """
        server = grpc.aio.server(options=(*_OPTIONS, ("grpc.max_receive_message_length", self._message_bytes)))
        server.add_generic_rpc_handlers((self,))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._own)
        for name in ("", *self._names):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        names = [*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME]
        described = reflection.aio.ReflectionServicer(names, pool=_described())
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(described, self._own)
        address = f"{host}:{port}"
        try:
            if tls is None:
                bound = server.add_insecure_port(address)
            else:
                tls_context(*tls, client_roots)  # gRPC would only log that chain and key do not fit
                self._client_roots = client_roots
                self._certificate = _certificate(tls, client_roots)
                # gRPC asks at each handshake, on its own thread
                credentials = grpc.dynamic_ssl_server_credentials(
                    self._certificate, lambda: self._certificate, client_roots is not None
                )
                bound = server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise UnavailableError(f"Cannot listen on {address}; is the port in use?") from error
        if not bound:
            raise UnavailableError(f"Cannot listen on {address}; is the port in use?")
        await server.start()
        self._server = server
        return int(bound)

    def replace_tls(self, tls: tuple[bytes, bytes]) -> None:
        """Present another certificate (chain and key, PEM) to new connections."""
        self._certificate = _certificate(tls, self._client_roots)

    async def stop(self, grace: float) -> None:
        """Take no more calls; cut off those that do not end within ``grace`` seconds."""
        if self._server is not None:
            await self._health.enter_graceful_shutdown()
            await self._server.stop(grace)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        """The handler of a call; gRPC asks for it."""
        method = str(details.method)
        if not method.startswith(_OURS):
            return self._own.find(method)
        handler: Callable[..., Awaitable[None]] = call_handler(method, self._service, self._slow_client_seconds)
        return grpc.stream_stream_rpc_method_handler(handler)


def _certificate(tls: tuple[bytes, bytes], client_roots: bytes | None) -> Any:
    chain, key = tls
    return grpc.ssl_server_certificate_configuration([(key, chain)], client_roots)


def call_handler(method: str, service: Service, slow_client_seconds: float = 30.0) -> Callable[..., Awaitable[None]]:
    """What gRPC calls for a call of ``method``; ``slow_client_seconds`` bounds each write."""

    async def handle(_requests: object, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        call = GrpcCall(method, context, slow_client_seconds)
        status = await service(call)
        if call.is_broken:  # a status that gRPC fails to send it would log, with a traceback
            await asyncio.sleep(_CANCELLED_SECONDS)
        if status != Status.OK:
            context.set_code(_CODES[status.code])
            context.set_details(status.text)

    return handle


_CODES: Final[Mapping[int, grpc.StatusCode]] = {code.value[0]: code for code in grpc.StatusCode}


def _headers(metadata: Any) -> dict[str, str]:
    """The first value of each header."""
    headers: dict[str, str] = {}
    for name, value in metadata:
        headers.setdefault(name, value.decode("latin-1") if isinstance(value, bytes) else value)
    return headers


def _family(headers: Mapping[str, str]) -> ClientFamily:
    """The client family: this project's client sends a dialect, and a Java client its user agent."""
    if _VIEWPORT_HEADER in headers:
        return ClientFamily.ARROW
    return ClientFamily.JAVA if headers.get("user-agent", "").startswith("grpc-java") else ClientFamily.TICKING


def _described() -> Any:
    """The pool that reflection answers from: our own messages, and those of health and reflection."""
    pool = own_pool.Default()
    for module in (health_pb2, reflection_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    return pool
