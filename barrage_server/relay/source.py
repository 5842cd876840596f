"""The upstream of a followed table, and the connection to it."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from barrage_server.address import TableAddress
from barrage_server.arguments import integer, optional_names, seconds
from barrage_server.client import Client, RetryPolicy, connect
from barrage_server.client.access import Access
from barrage_server.engine import UpdateGraph
from barrage_server.errors import InvalidRequestError
from barrage_server.pem import Pem
from barrage_server.wire.tickets import path_of_name

__all__ = ["Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """An upstream table, and the settings to follow it with.

    Attributes:
        uri: as given; it appears in logs and statistics.
        address: the parsed URI.
        access: the credentials.
        columns: columns to follow; ``None`` for all.
        interval_ms: least time between two updates, in milliseconds.
        timeout: most seconds of a short call, and most seconds without progress of a longer one.

    """

    uri: str
    address: TableAddress
    access: Access
    columns: tuple[str, ...] | None
    interval_ms: int
    timeout: float

    @classmethod
    def parse(
        cls,
        uri: str,
        *,
        token: str | None = None,
        user: str | None = None,
        password: str | None = None,
        headers: Mapping[str, str] | None = None,
        tls_root_certs: Pem | None = None,
        tls_certificate: Pem | None = None,
        tls_key: Pem | None = None,
        columns: Sequence[str] | None = None,
        interval_ms: int = 10,
        timeout: float = 30.0,
    ) -> Source:
        """Check and parse the arguments of a user, which ``Server.follow`` documents.

        Raises:
            InvalidRequestError: the URI is not that of a table, or an argument is wrong.

        """
        access = Access(token, user, password, headers, tls_root_certs, tls_certificate, tls_key)
        address = TableAddress.parse(uri)
        if "?" in uri or "#" in uri:
            raise InvalidRequestError(f"{uri!r} has a '?' or '#'; in a table's name write them as %3F and %23.")
        path_of_name(address.name)  # checks the name
        access.check(address.server)
        return cls(
            uri,
            address,
            access,
            optional_names(columns, "columns"),
            integer(interval_ms, "interval_ms", most=(1 << 31) - 1),
            seconds(timeout, "timeout", positive=True),
        )

    def connect(self, graph: UpdateGraph | None) -> Client:
        """A connection without automatic resubscription, with replicas in ``graph``.

        Raises:
            UnavailableError: the upstream does not answer.
            AuthenticationError: the credentials are missing or wrong.

        """
        access = self.access
        return connect(
            self.address.server.uri,
            token=access.token,
            user=access.user,
            password=access.password,
            headers=access.headers,
            tls_root_certs=access.tls_root_certs,
            tls_certificate=access.tls_certificate,
            tls_key=access.tls_key,
            timeout=self.timeout,
            retry=RetryPolicy.never(),
            graph=graph,
        )

    def is_at(self, host: str, ports: Collection[int]) -> bool:
        """Whether the upstream is the server on ``host`` at one of ``ports``."""
        there = urlsplit(self.address.server.location)
        if _port(there) not in ports or there.hostname is None:
            return False
        mine = _addresses(host)
        everywhere = any(address.is_unspecified for address in mine)
        return any(
            address in mine or address.is_unspecified or (everywhere and _is_local(address))
            for address in _addresses(there.hostname)
        )


def _port(place: SplitResult) -> int | None:
    try:
        return place.port
    except ValueError:  # not a number, or too large
        return None


_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _addresses(host: str) -> set[_Address]:
    """The addresses of a host name; none for an unknown name."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found}


def _is_local(address: _Address) -> bool:
    """Whether it is an address of this machine: only such addresses can be bound."""
    if address.is_loopback:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True
