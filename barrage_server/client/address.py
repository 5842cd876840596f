"""Addresses of servers, and of tables, as users write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from barrage_server.errors import InvalidRequestError

__all__ = ["ServerAddress", "TableAddress"]

_FLIGHT: Final = ("grpc", "grpc+tcp", "grpc+tls", "grpc+unix")
# Deephaven's own way to write where a server is; both speak gRPC.
_DEEPHAVEN: Final = {"dh": "grpc+tls", "dh+plain": "grpc"}
_HELP: Final = (
    "write grpc://host:port, or grpc+tls://host:port for TLS; for a Deephaven server dh+plain://host:port, or "
    "dh://host:port for TLS"
)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server is.

    Attributes:
        uri: as the user wrote it, with a scheme and without a path.
        location: as Arrow Flight wants it.
        is_deephaven: whether it was written in Deephaven's way: what answers there speaks as a Deephaven server does,
            whatever it is.
    """

    uri: str
    location: str
    is_deephaven: bool

    @classmethod
    def parse(cls, uri: str) -> ServerAddress:
        """Read what a user gave to ``connect``: ``host:port`` alone is taken for ``grpc://host:port``.

        Raises:
            InvalidRequestError: it is no address, or has a path.
        """
        scheme, rest = _split(uri)
        host, _, path = rest.partition("/") if scheme != "grpc+unix" else (rest, "", "")
        if path.strip("/"):
            raise InvalidRequestError(
                f"{uri!r} names more than a server; connect to {scheme}://{host}, and name the table when subscribing"
            )
        return cls._of(scheme, host)

    @classmethod
    def _of(cls, scheme: str, host: str) -> ServerAddress:
        if scheme in _DEEPHAVEN:
            if not host.rpartition("]")[2].rpartition(":")[2].isdigit() or ":" not in host:
                raise InvalidRequestError(f"{scheme}://{host} lacks a port; Deephaven servers listen at 10000 mostly")
            return cls(f"{scheme}://{host}", f"{_DEEPHAVEN[scheme]}://{host}", is_deephaven=True)
        return cls(f"{scheme}://{host}", f"{scheme}://{host}", is_deephaven=False)


@dataclass(frozen=True, slots=True)
class TableAddress:
    """A table of a server, in one line: ``dh+plain://host:port/scope/name`` or ``grpc://host:port/name``.

    Attributes:
        server: where the server is.
        name: the table, as ``subscribe`` takes it.
    """

    server: ServerAddress
    name: str

    @classmethod
    def parse(cls, uri: str) -> TableAddress:
        """Read such a line. Names are percent-encoded in it where they hold what a URI cannot.

        Raises:
            InvalidRequestError: it is none.
        """
        scheme, rest = _split(uri)
        host, _, path = rest.partition("/")
        parts = [unquote(part) for part in path.split("/") if part]
        if scheme == "grpc+unix" or not host:
            raise InvalidRequestError(f"{uri!r} names no server and table; write grpc://host:port/table")
        if len(parts) == 2 and parts[0] == "scope":
            parts = parts[1:]
        application = scheme in _DEEPHAVEN and len(parts) == 4 and (parts[0], parts[2]) == ("app", "field")
        if len(parts) != 1 and not application:
            raise InvalidRequestError(
                f"{uri!r} names no table; write grpc://host:port/table, or dh+plain://host:port/scope/table"
            )
        return cls(ServerAddress._of(scheme, host), "/".join(parts))


def _split(uri: str) -> tuple[str, str]:
    scheme, separator, rest = uri.partition("://")
    if not separator:
        scheme, rest = "grpc", uri
    if scheme not in (*_FLIGHT, *_DEEPHAVEN) or not rest.strip("/"):
        raise InvalidRequestError(f"{uri!r} is no address of a server; {_HELP}")
    return scheme, rest if scheme == "grpc+unix" else rest.rstrip("/")
