"""How tables are addressed in calls: by name here, by path and ticket on the wire."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import pyarrow.flight as flight

from barrage_server.client.server_kind import ServerKind
from barrage_server.errors import InvalidRequestError
from barrage_server.wire.tickets import ApplicationTicket, name_of_path, parse_path, path_of_name, scope_ticket

__all__ = ["NamedAddress", "TableAddress", "checked_name", "descriptor_of", "listed_name", "ticket_of"]

_APPLICATION: Final = ("app", "field")


class TableAddress(ABC):
    """What calls name a table of the server by.

    Attributes:
        name: what it is called here, in errors and logs.
        losses: how often a ticket was forgotten.
    """

    name: str
    losses: int = 0

    @abstractmethod
    def ticket(self, server_kind: ServerKind) -> bytes:
        """Its ticket. May call the server."""

    @abstractmethod
    def descriptor(self, server_kind: ServerKind) -> flight.FlightDescriptor:
        """Its Flight descriptor. May call the server."""

    def lost(self) -> bool:
        """Forget a ticket that the server may not know any more; whether there is a new one then."""
        return False

    def use(self) -> None:  # noqa: B027  (a name keeps nothing)
        """Keep what it names, until :meth:`leave` was called as often."""

    def leave(self) -> None:  # noqa: B027
        """Undo one :meth:`use`."""


class NamedAddress(TableAddress):
    """The name of a table."""

    def __init__(self, name: str) -> None:
        self.name = checked_name(name)

    def ticket(self, server_kind: ServerKind) -> bytes:
        """The ticket of the name."""
        return ticket_of(self.name, server_kind)

    def descriptor(self, server_kind: ServerKind) -> flight.FlightDescriptor:
        """The path of the name."""
        return descriptor_of(self.name, server_kind)


def checked_name(name: str) -> str:
    """``name``; InvalidRequestError when no table can be called that."""
    path_of_name(name)
    return name


def ticket_of(name: str, server_kind: ServerKind) -> bytes:
    """The ticket of a table.

    A Deephaven server has tables in applications too: those are called ``app/<application>/field/<field>``, as in its
    URIs.
    """
    parts = _application(name, server_kind)
    return scope_ticket(name) if parts is None else f"a/{parts[1]}/f/{parts[3]}".encode()


def descriptor_of(name: str, server_kind: ServerKind) -> flight.FlightDescriptor:
    """The Flight descriptor of a table."""
    return flight.FlightDescriptor.for_path(*(_application(name, server_kind) or path_of_name(name)))


def listed_name(path: Sequence[bytes | str]) -> str | None:
    """The name of a table in a listing; None when it has no name here, because it belongs to another client."""
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
