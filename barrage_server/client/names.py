"""How tables are named in calls: by name here, by path and ticket on the wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow.flight as flight

from barrage_server.client.server_kind import ServerKind
from barrage_server.errors import InvalidRequestError
from barrage_server.wire.tickets import ApplicationTicket, name_of_path, parse_path, path_of_name, scope_ticket

__all__ = ["checked_name", "descriptor_of", "listed_name", "ticket_of"]

_APPLICATION: Final = ("app", "field")


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
