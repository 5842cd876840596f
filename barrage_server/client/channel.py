"""One connection to a server: address, credentials, options; safe across forks."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from typing import Final

import pyarrow.flight as flight

from barrage_server.client.failures import translated
from barrage_server.errors import InvalidRequestError, UnavailableError

__all__ = ["Channel"]

# pyarrow's client reads gRPC's string keys only. A server that restarts should be found again within a moment (gRPC's
# own back-off grows to two minutes), and not by way of another channel's bad luck.
_OPTIONS: Final = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 2000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_retries", 0),
)
_SCHEMES: Final = ("grpc", "grpc+tcp", "grpc+tls", "grpc+unix")

# Connections made before a fork: their threads do not live in the child, so not even their destructors may run there.
_LEFT_BEHIND: Final[list[flight.FlightClient]] = []


class Channel:
    """Makes Flight clients and call options.

    A Flight client is made on first use, one per process: after a fork the child makes its own.

    Args:
        uri: ``grpc://host:port``, ``grpc+tls://host:port`` or ``host:port``.
        token: bearer token; None for servers that ask for none.
        timeout: seconds that a short call may take, and that a longer one may stand still.
        headers: further headers of every call, such as a proxy wants.
        tls_root_certs: PEM certificates to trust instead of the system's.
    """

    def __init__(
        self,
        uri: str,
        *,
        token: str | None,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        tls_root_certs: bytes | None = None,
    ) -> None:
        self.address = _checked(uri)
        if timeout <= 0:
            raise InvalidRequestError(f"timeout must be a positive number of seconds, got {timeout}")
        self.timeout = timeout
        self._headers = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        if token is not None:
            self._headers.append((b"authorization", f"Bearer {token}".encode()))
        self._certificates = tls_root_certs
        self._lock = threading.Lock()
        self._client: flight.FlightClient | None = None
        self._pid = os.getpid()
        self._closed = False

    def client(self) -> flight.FlightClient:
        """The Flight client of this process.

        Raises:
            UnavailableError: the channel is closed.
        """
        with self._lock:
            if self._closed:
                raise UnavailableError(f"this client of {self.address} is closed; connect again")
            if self._client is not None and self._pid != os.getpid():
                _LEFT_BEHIND.append(self._client)
                self._client = None
            if self._client is None:
                with translated(self.address):
                    self._client = flight.FlightClient(
                        self.address, tls_root_certs=self._certificates, generic_options=list(_OPTIONS)
                    )
                self._pid = os.getpid()
            return self._client

    def options(
        self, *, timeout: float | None = None, headers: Mapping[str, str] | None = None
    ) -> flight.FlightCallOptions:
        """Call options with the credentials.

        Args:
            timeout: seconds until the whole call fails; None for none, as long streams want it.
            headers: headers of this call only.
        """
        extra = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        return flight.FlightCallOptions(timeout=timeout, headers=self._headers + extra)

    def short(self) -> flight.FlightCallOptions:
        """Options of a call that ends within the timeout."""
        return self.options(timeout=self.timeout)

    def close(self) -> None:
        """Close the connection. Streams must have been cancelled before: Flight waits for them."""
        with self._lock:
            client, self._client, self._closed = self._client, None, True
        if client is None:
            return
        if self._pid == os.getpid():
            client.close()
        else:
            _LEFT_BEHIND.append(client)


def _checked(uri: str) -> str:
    scheme, separator, rest = uri.partition("://")
    if not separator:
        scheme, rest = "grpc", uri
    if scheme not in _SCHEMES or not rest.strip("/"):
        raise InvalidRequestError(
            f"{uri!r} is no address of a server; write grpc://host:port, or grpc+tls://host:port for TLS"
        )
    return f"{scheme}://{rest.rstrip('/')}"
