"""One connection to a server: address, credentials and options."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol, TypeVar

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.address import ServerAddress
from barrage_server.arguments import seconds
from barrage_server.client.access import Access
from barrage_server.client.failures import translated
from barrage_server.client.keepalive import PROBE_PAUSE, KeepAlive
from barrage_server.client.login import HeaderReader
from barrage_server.client.names import FlightAddress
from barrage_server.client.server_kind import ServerKind
from barrage_server.errors import (
    AuthenticationError,
    InvalidRequestError,
    NotFoundError,
    UnavailableError,
    UnsupportedOperationError,
)
from barrage_server.flight.authorization import AUTHORIZATION
from barrage_server.process import Ending, end_with_process, leave_to_parent
from barrage_server.wire.protocol import HEALTH_ACTION
from barrage_server.wire.soundness import check_schema

__all__ = ["Channel", "SessionStream"]

T = TypeVar("T")

# gRPC's string keys, the only ones that pyarrow reads. A restarted server is found within about a second: gRPC's
# default back-off grows to two minutes, and its shared subchannels pass the back-off of one channel on to others. A
# connection to a host that has vanished ends after 30 s: gRPC pings after 20 s of silence, and waits 10 s. Servers of
# gRPC refuse clients that ping often; ``Channel.kept_alive`` makes calls more often, so that no ping is sent.
OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_retries", 0),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
)


class SessionStream(Protocol):
    """The part of a stream that a channel uses.

    Attributes:
        session: ``login.sessions_lost`` at its opening.
    """

    session: int

    def cancel(self) -> None:
        """End the stream from this side."""


class Channel:
    """Makes Flight clients and call options, and logs in.

    The Flight client is made on first use, one per process: after a fork the child makes its own.

    Args:
        uri: ``grpc://host:port``, ``grpc+tls://host:port`` or ``host:port``; the default port is 8815. For a Deephaven
            server ``dh+plain://host:port``, or ``dh://host:port`` with TLS.
        access: the credentials.
        timeout: most seconds of a short call, and most seconds without progress of a longer one.

    Attributes:
        address: the server's address, as given.
        login: the credentials.
    """

    def __init__(self, uri: str, access: Access, *, timeout: float) -> None:
        self._place = ServerAddress.parse(uri)
        access.check(self._place)
        self.address = self._place.uri
        self.timeout = seconds(timeout, "timeout", positive=True)
        self.login = access.login(is_deephaven=self._place.is_deephaven)
        self._headers = access.other_headers()
        self._access = access
        self._lock = threading.Lock()
        self._client: flight.FlightClient | None = None
        self._pid = os.getpid()
        self._closed = False
        self._server_kind: ServerKind | None = None
        self._log_in_lock = threading.Lock()
        self._streams: weakref.WeakSet[SessionStream] = weakref.WeakSet()
        self._keep_alive = KeepAlive(self.greet, f"barrage-session {self.address}")
        self._probe = KeepAlive(self.greet, f"barrage-probe {self.address}", PROBE_PAUSE)

    @property
    def is_closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._closed

    def client(self) -> flight.FlightClient:
        """The Flight client of this process.

        Raises:
            UnavailableError: the channel is closed.
        """
        with self._lock:
            if self._closed:
                raise UnavailableError(f"This client of {self.address} is closed; connect again.")
            if self._client is not None and self._pid != os.getpid():
                self._client = None  # the parent's, which stays in memory (see leave_to_parent)
            if self._client is None:
                roots, key, certificate = self._access.pem()
                with translated(self.address):
                    self._client = flight.FlightClient(
                        self._place.location,
                        tls_root_certs=roots,
                        cert_chain=certificate,
                        private_key=key,
                        middleware=[HeaderReader(self.login)],
                        generic_options=list(OPTIONS),
                    )
                leave_to_parent(self._client)
                self._pid = os.getpid()
                end_with_process(self, Ending.CHANNEL)
            return self._client

    def options(
        self, *, timeout: float | None = None, headers: Mapping[str, str] | None = None
    ) -> flight.FlightCallOptions:
        """Call options with the credentials.

        Args:
            timeout: seconds until the whole call fails; None for no limit, for long streams.
            headers: headers of this call only.
        """
        own = {AUTHORIZATION: self.login.header, **(headers or {})}
        extra = [(name.encode(), value.encode()) for name, value in own.items() if value]
        return flight.FlightCallOptions(timeout=timeout, headers=self._headers + extra)

    def metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        """The headers of :meth:`options`, for calls of gRPC beside Flight.

        Raises:
            AuthenticationError: there is no session; only calls of Flight begin one.
        """
        session = self.login.session
        if session is None:
            raise AuthenticationError(f"The session at {self.address} has ended.")
        own = [(name.decode("ascii"), value.decode()) for name, value in self._headers]
        return (AUTHORIZATION, session), *own

    @property
    def grpc_target(self) -> tuple[str, Access | None]:
        """The address for calls of gRPC, and the credentials.

        The credentials are None without TLS.
        """
        return self._place.location.partition("://")[2], self._access if self._place.is_tls else None

    def short(self) -> flight.FlightCallOptions:
        """Options of a call that ends within the timeout."""
        return self.options(timeout=self.timeout)

    # The server.

    def greet(self) -> ServerKind:
        """Make a cheap call, log in where needed, and return the kind of the server.

        Raises:
            AuthenticationError: the server refuses the credentials.
            UnavailableError: the server does not answer.
        """
        try:
            found = self.logged_in(self._asks_health)
        except AuthenticationError as error:
            if error.is_final or not self.login.next_way():
                raise
            found = self._other_ways()
        self._server_kind = ServerKind.of(knows_health=found, has_session=self.login.has_session)
        return self._server_kind

    def check_credentials(self, timeout: float) -> None:
        """Make a cheap call, of at most ``timeout`` seconds.

        Raises:
            AuthenticationError: the server refuses the credentials.
            BarrageError: the server does not answer in time.
        """
        self.logged_in(lambda: self._asks_health(timeout))

    @property
    def server_kind(self) -> ServerKind:
        """The kind of the server; makes a call if it is not known yet."""
        if self._server_kind is None:
            with self._log_in_lock:
                return self._server_kind or self.greet()
        return self._server_kind

    def check_address(self) -> None:
        """Check that a Deephaven server answers at a Deephaven address.

        Raises:
            InvalidRequestError: another Flight server answers there.
        """
        if self._place.is_deephaven and self.server_kind is ServerKind.FLIGHT:
            raise InvalidRequestError(
                f"An Arrow Flight server answers at {self.address}, but not a Deephaven server: write "
                f"{self._place.location} for it, or the port of Deephaven's, 10000 mostly."
            )

    def schema(self, address: FlightAddress) -> pa.Schema:
        """The schema of a table, as the server states it.

        Raises:
            UnknownTableError: there is no such table.
        """

        def ask() -> pa.Schema:
            descriptor = address.descriptor(self.server_kind)
            with translated(self.address):
                schema = self.client().get_schema(descriptor, self.short()).schema
            check_schema(schema)
            return schema

        return self.logged_in(ask)

    @property
    def sends_ragged_batches(self) -> bool:
        """Whether the server sends batches whose columns differ in length.

        pyarrow cannot read them; a subscription can ask for columns as lists instead.
        """
        return self._place.is_deephaven or self.server_kind is ServerKind.DEEPHAVEN

    def need(self, doing: str) -> None:
        """Check that the server offers ``doing``, which a Deephaven server does not.

        Raises:
            UnsupportedOperationError: the server is Deephaven's.
        """
        if self.server_kind is ServerKind.DEEPHAVEN:
            raise UnsupportedOperationError(
                f"{self.address} is a Deephaven server, which does not offer {doing}. To feed it, publish to a "
                f"barrage-server and subscribe to that from there."
            )

    def logged_in(self, call: Callable[[], T]) -> T:
        """Return ``call()``; repeat it once if the server refuses the session."""
        self._begin_session()
        shown = self.login.header
        try:
            return call()
        except AuthenticationError:
            if not self.refused(shown):
                raise
            self._begin_session()
            return call()

    def refused(self, shown: str) -> bool:
        """Record that the server refused the header ``shown``.

        If it was the token of a session, the streams of that session are cancelled: a Deephaven server sends nothing
        more on them, and does not end them.

        Returns:
            Whether another header is worth trying.
        """
        is_worth_it = self.login.refused(shown)
        lost = self.login.sessions_lost
        with self._lock:
            stale = [stream for stream in self._streams if stream.session < lost]
        for stream in stale:
            stream.cancel()
        return is_worth_it

    def opened(self, stream: SessionStream) -> None:
        """Register a stream, which ends with its session."""
        with self._lock:
            self._streams.add(stream)

    def _begin_session(self) -> None:
        """Log in where the server has sessions.

        Under a lock: concurrent calls would begin a session each.
        """
        if self._server_kind is ServerKind.DEEPHAVEN and not self.login.has_session:
            with self._log_in_lock:
                if not self.login.has_session:
                    self._asks_health()

    def kept_alive(self) -> AbstractContextManager[None]:
        """Keep the session and the connection alive while the ``with`` body runs."""
        return self._keep_alive.held() if self.login.has_session else self._probe.held()

    def close(self) -> None:
        """Close the connection, and cancel its streams: Flight waits for them.

        A call that another thread makes meanwhile goes on; the connection closes when it ends.
        """
        with self._lock:
            client, self._client, self._closed = self._client, None, True
            streams = list(self._streams)
        if self._pid == os.getpid():
            for stream in streams:
                stream.cancel()
        # FlightClient.close() frees memory that calls of other threads still use; the last reference closes it safely.
        del client

    def end_with_process(self, _timeout: float) -> None:
        """Close the connection, because the interpreter ends."""
        self.close()

    def _asks_health(self, timeout: float | None = None) -> bool:
        """Make a cheap call; return whether it is a server of this project.

        The call is an action that no other server has. ``list_actions`` would not do: when a server cancels it, pyarrow
        interrupts the main thread, from any calling thread.
        """
        options = self.short() if timeout is None else self.options(timeout=timeout)
        try:
            with translated(self.address):
                return bool(list(self.client().do_action(flight.Action(HEALTH_ACTION, b""), options)))
        except (UnsupportedOperationError, NotFoundError, InvalidRequestError):
            return False  # the server answers, without that action

    def _other_ways(self) -> bool:
        """Log in with the same credentials in the other ways, until one is accepted."""
        while True:
            try:
                return self._asks_health()
            except AuthenticationError:
                if not self.login.next_way():
                    raise
