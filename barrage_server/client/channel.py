"""One connection to a server: address, credentials, options; safe across forks."""

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
from barrage_server.client.names import TableAddress
from barrage_server.client.server_kind import ServerKind
from barrage_server.errors import (
    AuthenticationError,
    InvalidRequestError,
    NotFoundError,
    UnavailableError,
    UnsupportedOperationError,
)
from barrage_server.process import Ending, end_with_process, leave_to_parent
from barrage_server.wire.protocol import HEALTH_ACTION
from barrage_server.wire.soundness import check_schema

__all__ = ["Channel", "SessionStream"]

T = TypeVar("T")

# pyarrow's client reads gRPC's string keys only. A server that restarts should be found again within a moment (gRPC's
# own back-off grows to two minutes), and not by way of another channel's bad luck. A connection whose other end has
# vanished ends after 30 s: gRPC asks after 20 s of silence. Servers of gRPC refuse a client that asks often, so no
# connection that works is silent for that long: see ``Channel.kept_alive``.
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
_AUTHORIZATION: Final = "authorization"
_TLS: Final = "grpc+tls"


class SessionStream(Protocol):
    """The part of a stream that a channel uses.

    Attributes:
        session: ``login.sessions_lost`` at its opening.
    """

    session: int

    def cancel(self) -> None:
        """End it from this side."""


class Channel:
    """Makes Flight clients and call options, and logs in.

    A Flight client is made on first use, one per process: after a fork the child makes its own.

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
        self.address = self._place.uri
        self.timeout = seconds(timeout, "timeout", positive=True)
        self.login = access.login(is_deephaven=self._place.is_deephaven)
        self._headers = access.other_headers()
        self._certificates = access.tls_root_certs
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
                self._client = None  # it is the parent's, and stays in memory
            if self._client is None:
                with translated(self.address):
                    self._client = flight.FlightClient(
                        self._place.location,
                        tls_root_certs=self._certificates,
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
        own = {_AUTHORIZATION: self.login.header, **(headers or {})}
        extra = [(name.encode(), value.encode()) for name, value in own.items()]
        return flight.FlightCallOptions(timeout=timeout, headers=self._headers + extra)

    def metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        """The same headers, for calls of gRPC beside those of Flight.

        Raises:
            AuthenticationError: there is no session, which only calls of Flight begin.

        """
        session = self.login.session
        if session is None:
            raise AuthenticationError(f"The session at {self.address} has ended.")
        own = [(name.decode("ascii"), value.decode()) for name, value in self._headers]
        return (_AUTHORIZATION, session), *own

    @property
    def grpc_target(self) -> tuple[str, bytes | None]:
        """The address for calls of gRPC, and the certificates to trust; None without TLS.

        Empty certificates are the system's.
        """
        scheme, _, target = self._place.location.partition("://")
        certificates = self._certificates
        assert certificates is None or isinstance(certificates, bytes)  # they were read at the beginning
        return target, (certificates or b"") if scheme == _TLS else None

    def short(self) -> flight.FlightCallOptions:
        """Options of a call that ends within the timeout."""
        return self.options(timeout=self.timeout)

    # Who answers.

    def greet(self) -> ServerKind:
        """Make a cheap call, which logs in where needed; returns the kind of the server.

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

    @property
    def server_kind(self) -> ServerKind:
        """The kind of the server; makes a call if it is not known yet."""
        if self._server_kind is None:
            with self._log_in_lock:
                return self._server_kind or self.greet()
        return self._server_kind

    def check_address(self) -> None:
        """InvalidRequestError when the address is written in Deephaven's way, and another Flight server answers."""
        if self._place.is_deephaven and self.server_kind is ServerKind.FLIGHT:
            raise InvalidRequestError(
                f"An Arrow Flight server answers at {self.address}, but not a Deephaven server: write "
                f"{self._place.location} for it, or the port of Deephaven's, 10000 mostly."
            )

    def schema(self, address: TableAddress) -> pa.Schema:
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
        """Whether columns of a batch may differ in length unless they are sent as lists; pyarrow refuses that."""
        return self._place.is_deephaven or self.server_kind is ServerKind.DEEPHAVEN

    def need(self, doing: str) -> None:
        """Raise UnsupportedOperationError when the server is Deephaven's, which does not offer ``doing``."""
        if self.server_kind is ServerKind.DEEPHAVEN:
            raise UnsupportedOperationError(
                f"{self.address} is a Deephaven server, which does not offer {doing}. To feed it, publish to a "
                f"barrage-server and subscribe to that from there."
            )

    def logged_in(self, call: Callable[[], T]) -> T:
        """``call()``; once more when the session that it used was refused, which then is a new one."""
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
        """The server did not accept ``shown``; returns whether trying again makes sense.

        When that was the session, the streams that were opened in it are cancelled: a Deephaven server does not end
        them, but sends nothing on them any more.
        """
        is_worth_it = self.login.refused(shown)
        lost = self.login.sessions_lost
        with self._lock:
            stale = [stream for stream in self._streams if stream.session < lost]
        for stream in stale:
            stream.cancel()
        return is_worth_it

    def opened(self, stream: SessionStream) -> None:
        """``stream`` ends with the session that it was opened in."""
        with self._lock:
            self._streams.add(stream)

    def _begin_session(self) -> None:
        """Log in where the server has sessions, one call at a time: calls that come together would begin one each."""
        if self._server_kind is ServerKind.DEEPHAVEN and not self.login.has_session:
            with self._log_in_lock:
                if not self.login.has_session:
                    self._asks_health()

    def kept_alive(self) -> AbstractContextManager[None]:
        """While the ``with`` body runs, the session does not run out, and the connection is not silent if it works."""
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
        # Its own ``close`` frees what calls of other threads use, which ends the process: who lets go last closes it.
        del client

    def end_with_process(self, _timeout: float) -> None:
        """Close the connection, because the interpreter ends."""
        self.close()

    def _asks_health(self) -> bool:
        """Make a cheap call; returns whether the server has an action that only servers of this project have.

        Not ``list_actions``: when a server cancels that, pyarrow interrupts the main thread, from any calling thread.
        """
        try:
            with translated(self.address):
                return bool(list(self.client().do_action(flight.Action(HEALTH_ACTION, b""), self.short())))
        except (UnsupportedOperationError, NotFoundError, InvalidRequestError):
            return False  # it answers, which is all that was asked

    def _other_ways(self) -> bool:
        """Try to log in with the same credentials in another way."""
        while True:
            try:
                return self._asks_health()
            except AuthenticationError:
                if not self.login.next_way():
                    raise
