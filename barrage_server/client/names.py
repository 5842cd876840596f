"""Addresses of tables: names here, paths and tickets on the wire."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import pyarrow.flight as flight

from barrage_server.client.server_kind import ServerKind
from barrage_server.errors import InvalidRequestError
from barrage_server.wire.tickets import ApplicationTicket, name_of_path, parse_path, path_of_name, scope_ticket

__all__ = ["FlightAddress", "NamedAddress", "checked_name", "descriptor_of", "listed_name", "ticket_of"]

_APPLICATION: Final = ("app", "field")


class FlightAddress(ABC):
    """The address of a table in calls.

    Attributes:
        name: its name in errors and logs.
        losses: the number of tickets that were forgotten.
    """

    name: str
    losses: int = 0

    @abstractmethod
    def ticket(self, server_kind: ServerKind) -> bytes:
        """Return the table's ticket. May call the server."""

    @abstractmethod
    def descriptor(self, server_kind: ServerKind) -> flight.FlightDescriptor:
        """Return the table's Flight descriptor. May call the server."""

    def lost(self) -> bool:
        """Forget a ticket that the server may have dropped; whether another can be got."""
        return False

    def use(self) -> None:  # noqa: B027  (a name keeps nothing)
        """Count a user of the table, until :meth:`leave`."""

    def leave(self) -> None:  # noqa: B027
        """End one :meth:`use`."""


class NamedAddress(FlightAddress):
    """The name of a table."""

    def __init__(self, name: str) -> None:
        self.name = checked_name(name)

    def ticket(self, server_kind: ServerKind) -> bytes:
        """Return the ticket of the name."""
        return ticket_of(self.name, server_kind)

    def descriptor(self, server_kind: ServerKind) -> flight.FlightDescriptor:
        """Return the path of the name."""
        return descriptor_of(self.name, server_kind)


def checked_name(name: str) -> str:
    """Return ``name``; InvalidRequestError when it is no name of a table."""
    path_of_name(name)
    return name


def ticket_of(name: str, server_kind: ServerKind) -> bytes:
    """Return the ticket of a table.

    Tables in applications of a Deephaven server are named ``app/<application>/field/<field>``, as in its URIs.
    """
    parts = _application(name, server_kind)
    return scope_ticket(name) if parts is None else f"a/{parts[1]}/f/{parts[3]}".encode()


def descriptor_of(name: str, server_kind: ServerKind) -> flight.FlightDescriptor:
    """Return the Flight descriptor of a table."""
    return flight.FlightDescriptor.for_path(*(_application(name, server_kind) or path_of_name(name)))


def listed_name(path: Sequence[bytes | str]) -> str | None:
    """Return the name of a listed table; None for a result of another client."""
    try:
        ticket = parse_path(path)
        if isinstance(ticket, ApplicationTicket):
            return "/".join(part if isinstance(part, str) else part.decode() for part in path)
        return name_of_path(path)
    except InvalidRequestError:
        return None


def _application(name: str, server_kind: ServerKind) -> list[str] | None:
    parts = checked_name(name).split("/")
    if server_kind is ServerKind.DEEPHAVEN and len(parts) == 4 and (parts[0], parts[2]) == _APPLICATION:
        return parts
    return None
