"""Addresses of servers and tables, as users write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from barrage_server.arguments import shown, unbroken
from barrage_server.errors import InvalidRequestError

__all__ = ["DEFAULT_PORT", "DEFAULT_WEB_PORT", "ServerAddress", "TableAddress"]

DEFAULT_PORT: Final = 8815
"""TCP port of a server when its address names none."""
DEFAULT_WEB_PORT: Final = 8816
"""TCP port of the page for browsers of ``barrage-server serve``."""

_UNIX: Final = "grpc+unix"
_TLS: Final = "grpc+tls"
_FLIGHT: Final = ("grpc", "grpc+tcp", _TLS, _UNIX)
# Deephaven's own schemes; both mean gRPC.
_DEEPHAVEN: Final = {"dh": "grpc+tls", "dh+plain": "grpc"}
_WEB: Final = {"http": "grpc", "https": "grpc+tls", "ws": "grpc", "wss": "grpc+tls"}
_HELP: Final = (
    "write grpc://host:port, or grpc+tls://host:port for TLS; for a Deephaven server dh+plain://host:port, or "
    "dh://host:port for TLS."
)
# A host name or IPv4 address, or an IPv6 address in brackets, and a port.
_AUTHORITY: Final = re.compile(r"(?P<host>\[[^\[\]@/]+\]|[^\[\]:@/]+)(?::(?P<port>\d{1,5}))?")
_LARGEST_PORT: Final = 65_535


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a server.

    Attributes:
        uri: as given, with a scheme and a port, without a path.
        location: the form that Arrow Flight takes.
        is_deephaven: whether the scheme is Deephaven's: the server follows Deephaven's conventions, whatever its make.
    """

    uri: str
    location: str
    is_deephaven: bool

    @property
    def is_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.location.startswith(f"{_TLS}://")

    def need_tls(self, what: str) -> None:
        """Check that it is an address with TLS.

        Args:
            what: what needs TLS, as the beginning of a sentence in the plural.

        Raises:
            InvalidRequestError: it is an address without TLS.
        """
        if not self.is_tls:
            scheme, _, place = self.uri.partition("://")
            other = "dh" if self.is_deephaven else _TLS
            advice = "which this address cannot have" if scheme == _UNIX else f"as in {other}://{place}"
            raise InvalidRequestError(f"{what} are for connections with TLS, {advice}; {self.uri} has none.")

    @classmethod
    def parse(cls, uri: str) -> ServerAddress:
        """Parse the address of ``connect``.

        ``host:port`` alone means ``grpc://host:port``, and a missing port 8815. Deephaven's addresses must name their
        port.

        Raises:
            InvalidRequestError: it is not an address, or has a path.
        """
        scheme, rest = _split(uri)
        host, _, path = rest.partition("/") if scheme != _UNIX else (rest, "", "")
        if path.strip("/"):
            raise InvalidRequestError(
                f"{_shown(uri)} names more than a server; connect to {scheme}://{host}, and name the table when "
                "subscribing."
            )
        return cls._of(scheme, host)

    @classmethod
    def _of(cls, scheme: str, host: str) -> ServerAddress:
        if scheme == _UNIX:
            return cls(f"{scheme}://{host}", f"{scheme}://{host}", is_deephaven=False)
        if scheme in _DEEPHAVEN:
            place = _with_port(scheme, host, None)
            return cls(f"{scheme}://{place}", f"{_DEEPHAVEN[scheme]}://{place}", is_deephaven=True)
        place = _with_port(scheme, host, DEFAULT_PORT)
        return cls(f"{scheme}://{place}", f"{scheme}://{place}", is_deephaven=False)


@dataclass(frozen=True, slots=True)
class TableAddress:
    """The address of a table: ``dh+plain://host:port/scope/name`` and the like.

    Attributes:
        server: the address of the server.
        name: the table's name, as for ``subscribe``.
    """

    server: ServerAddress
    name: str

    @classmethod
    def parse(cls, uri: str) -> TableAddress:
        """Parse the address of a table.

        ``grpc://host:port/name`` and ``dh+plain://host:port/scope/name`` name tables. Characters of a name that a URI
        does not allow are percent-encoded.

        Raises:
            InvalidRequestError: it is not the address of a table.
        """
        scheme, rest = _split(uri)
        host, _, path = rest.partition("/")
        parts = [unquote(part) for part in path.split("/") if part]
        if scheme == _UNIX or not host:
            raise InvalidRequestError(f"{_shown(uri)} names no server and table; write grpc://host:port/table.")
        if len(parts) == 2 and parts[0] == "scope":
            parts = parts[1:]
        application = scheme in _DEEPHAVEN and len(parts) == 4 and (parts[0], parts[2]) == ("app", "field")
        if len(parts) != 1 and not application:
            raise InvalidRequestError(
                f"{_shown(uri)} names no table; write grpc://host:port/table, or dh+plain://host:port/scope/table."
            )
        return cls(ServerAddress._of(scheme, host), "/".join(parts))


def _split(uri: str) -> tuple[str, str]:
    if not isinstance(uri, str):
        raise InvalidRequestError(f"{shown(uri)} is no address of a server; {_HELP}")
    scheme, separator, rest = unbroken(uri, f"The address {_shown(uri)}").strip().partition("://")
    if not separator:
        scheme, rest = "grpc", uri.strip()
    if scheme in _WEB:
        raise InvalidRequestError(
            f"{_shown(uri)} is the address of a web server; for Arrow Flight write "
            f"{_WEB[scheme]}://host:port, with the port that the server's log names, {DEFAULT_PORT} by default."
        )
    if scheme not in (*_FLIGHT, *_DEEPHAVEN) or not rest.strip("/"):
        raise InvalidRequestError(f"{_shown(uri)} is no address of a server; {_HELP}")
    if scheme != _UNIX and "@" in rest.partition("/")[0]:
        raise InvalidRequestError(
            "An address is logged and shown, so credentials do not belong there: pass token=, or user= and password=."
        )
    return scheme, rest if scheme == _UNIX else rest.rstrip("/")


def _shown(uri: str) -> str:
    """``uri`` in quotes, without credentials."""
    scheme, separator, rest = uri.partition("://")
    secret, at, place = (rest if separator else uri).rpartition("@")
    return repr(f"{scheme}{separator}" * bool(separator) + "***" * bool(secret) + at + place)


def _with_port(scheme: str, host: str, default: int | None) -> str:
    """``host``, checked, with a port."""
    found = _AUTHORITY.fullmatch(host)
    if found is None:
        advice = f"; write an IPv6 address in brackets: {scheme}://[{host}]." if host.count(":") > 1 else f"; {_HELP}"
        raise InvalidRequestError(f"{scheme}://{host} is no address of a server{advice}")
    if found["port"] is None:
        if default is None:
            raise InvalidRequestError(f"{scheme}://{host} lacks a port; Deephaven servers mostly listen on 10000.")
        return f"{host}:{default}"
    if not 0 < int(found["port"]) <= _LARGEST_PORT:
        raise InvalidRequestError(f"{scheme}://{host} has an invalid port; ports are 1 to {_LARGEST_PORT}.")
    return host
