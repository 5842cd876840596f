"""Tickets and descriptor paths of tables.

Tables belong to Deephaven's *scope*: ticket ``s/<name>``, path ``["scope", name]``. A path of one element is a table's
name, as plain Arrow Flight clients write it, and so is a ticket without a known prefix. The result of a plan has the
ticket ``r/<32 characters>``. The JSON of a plan is also a ticket of its result, so a bare name cannot begin with ``{``.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from barrage_server.arguments import shown
from barrage_server.errors import InvalidRequestError

__all__ = [
    "DPHN",
    "RESULT_FORM",
    "ApplicationTicket",
    "ExportTicket",
    "PlanTicket",
    "ResultTicket",
    "SessionTicket",
    "SharedTicket",
    "begins_as_result",
    "export_ticket",
    "name_of_path",
    "name_of_ticket",
    "parse_computed",
    "parse_path",
    "parse_ticket",
    "path_of_name",
    "result_ticket",
    "scope_ticket",
]

DPHN: Final = b"dphn"
"""``FlightDescriptor.cmd`` of every Barrage DoExchange."""
_SCOPE_PREFIX: Final = b"s/"
_SCOPE: Final = "scope"
_EXPORT: Final = struct.Struct("<ci")
_APPLICATION_PREFIX: Final = b"a/"
_RESULT_PREFIX: Final = "r/"
_RESULT: Final = re.compile(rb"r/[A-Za-z0-9_-]{32}")
RESULT_FORM: Final = "'r/' and 32 characters, as barrage.operate has given it"
"""The form of the ticket of a result, as part of a sentence."""
_PLAN: Final = b"{"
MAX_NAME_BYTES: Final = 4096


def scope_ticket(name: str) -> bytes:
    """Return the ticket of the table ``name``."""
    return _SCOPE_PREFIX + _checked(name).encode()


def path_of_name(name: str) -> tuple[str, str]:
    """Return the descriptor path of the table ``name``."""
    return (_SCOPE, _checked(name))


def name_of_ticket(ticket: bytes) -> str:
    """Return the table that a ticket names: ``s/<name>``, or the bare name.

    Raises:
        InvalidRequestError: the ticket is empty, not UTF-8, or no name of a table.

    """
    data = ticket[len(_SCOPE_PREFIX) :] if ticket.startswith(_SCOPE_PREFIX) else ticket
    if not data:
        raise InvalidRequestError("the ticket names no table; use s/<table name>")
    return _checked(_text(data))


def name_of_path(path: Sequence[bytes | str]) -> str:
    """Return the table that a path names: ``["scope", name]`` or ``[name]``.

    Raises:
        InvalidRequestError: it is another path.

    """
    parts = [part if isinstance(part, str) else _text(part) for part in path]
    if len(parts) == 2 and parts[0] == _SCOPE:
        return _checked(parts[1])
    if len(parts) == 1:
        return _checked(parts[0])
    raise InvalidRequestError(f'a descriptor path must be ["scope", name] or [name]; got {len(parts)} elements')


@dataclass(frozen=True, slots=True)
class ExportTicket:
    """An export of a session: ``e`` and an int32, or ``["export", "<number>"]``."""

    number: int


@dataclass(frozen=True, slots=True)
class SharedTicket:
    """A shared object of a session: ``h`` and any bytes, or ``["shared", "<hex>"]``."""

    identifier: bytes


@dataclass(frozen=True, slots=True)
class ApplicationTicket:
    """A field of a Deephaven application: ``a/<application>/f/<field>``."""

    text: str


@dataclass(frozen=True, slots=True)
class ResultTicket:
    """The result of a plan that the server keeps for its caller: ``r/`` and a secret."""

    text: str


@dataclass(frozen=True, slots=True)
class PlanTicket:
    """The result of a plan that is computed for a call: the JSON of the plan."""

    json: bytes


def result_ticket(secret: str) -> str:
    """Return the ticket of a result; ``secret`` has 32 characters that suit URLs."""
    return _RESULT_PREFIX + secret


def parse_computed(ticket: bytes) -> ResultTicket | PlanTicket | None:
    """Parse the ticket, or the command, of a computed table; None for others."""
    if ticket.startswith(_PLAN):
        return PlanTicket(ticket)
    if _RESULT.fullmatch(ticket):
        return ResultTicket(ticket.decode("ascii"))
    return None


def begins_as_result(name: str) -> bool:
    """Whether a text begins as tickets of results do, whatever follows."""
    return name.startswith(_RESULT_PREFIX)


SessionTicket = ExportTicket | SharedTicket | ApplicationTicket | str
"""A ticket of Deephaven's clients; a str is a table's name."""


def export_ticket(number: int) -> bytes:
    """Return the ticket of an export."""
    return _EXPORT.pack(b"e", number)


def parse_ticket(ticket: bytes) -> SessionTicket:
    """Parse a ticket of a Deephaven client (deephaven-core's ticket resolvers).

    Raises:
        InvalidRequestError: it is empty, or neither of a known kind nor a table's name.

    """
    if ticket.startswith(_SCOPE_PREFIX):
        return name_of_ticket(ticket)
    if ticket[:1] == b"e" and len(ticket) == _EXPORT.size:
        return ExportTicket(_EXPORT.unpack(ticket)[1])
    if ticket[:1] == b"h" and len(ticket) > 1:
        return SharedTicket(ticket[1:])
    if ticket.startswith(_APPLICATION_PREFIX):
        return ApplicationTicket(_text(ticket))
    return name_of_ticket(ticket)


def parse_path(path: Sequence[bytes | str]) -> SessionTicket:
    """Parse a descriptor path of a Deephaven client.

    Raises:
        InvalidRequestError: the kind of path is unknown.

    """
    parts = [part if isinstance(part, str) else _text(part) for part in path]
    if len(parts) == 2 and parts[0] == "export":
        try:
            return parse_ticket(export_ticket(int(parts[1])))
        except (ValueError, struct.error) as error:
            raise InvalidRequestError(f"{parts[1][:20]!r} is not the number of an export") from error
    if len(parts) == 2 and parts[0] == "shared":
        try:
            return SharedTicket(bytes.fromhex(parts[1]))
        except ValueError as error:
            raise InvalidRequestError(f"{parts[1][:20]!r} is not a shared ticket in hex") from error
    if len(parts) == 4 and parts[0] == "app":
        return ApplicationTicket("/".join(parts))
    return name_of_path(parts)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequestError("the ticket or path is not UTF-8 text; use s/<table name>") from error


def _checked(name: str) -> str:
    if not isinstance(name, str):
        raise InvalidRequestError(f"A table's name must be a string, not {shown(name)}.")
    if not name.strip():
        raise InvalidRequestError("A table's name must not be empty.")
    if len(name) > MAX_NAME_BYTES or not name.isprintable():
        raise InvalidRequestError(
            f"{shown(name)} is no table's name: that has 1 to {MAX_NAME_BYTES:,} printable characters. "
            "As a ticket, use s/<name>."
        )
    return name
