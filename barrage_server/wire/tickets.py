"""Tickets and descriptor paths: which table is meant.

Tables are globals of the server, in Deephaven's words the *scope*: ticket ``s/<name>``, path ``["scope", name]``. A
path of one element is taken as a table's name, as plain Arrow Flight clients write it, and a ticket without a known
prefix as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barrage_server.errors import InvalidRequestError

__all__ = ["DPHN", "name_of_path", "name_of_ticket", "path_of_name", "scope_ticket"]

DPHN: Final = b"dphn"
"""``FlightDescriptor.cmd`` of every Barrage DoExchange."""
_SCOPE_PREFIX: Final = b"s/"
_SCOPE: Final = "scope"
MAX_NAME_BYTES: Final = 4096


def scope_ticket(name: str) -> bytes:
    """The ticket of the table ``name``."""
    return _SCOPE_PREFIX + _checked(name).encode()


def path_of_name(name: str) -> tuple[str, str]:
    """The descriptor path of the table ``name``."""
    return (_SCOPE, _checked(name))


def name_of_ticket(ticket: bytes) -> str:
    """The table that a ticket names: ``s/<name>``, or the bare name.

    InvalidRequestError when it is empty, not UTF-8, or of another kind (an export or shared ticket belongs to a
    Deephaven session).
    """
    data = ticket[len(_SCOPE_PREFIX) :] if ticket.startswith(_SCOPE_PREFIX) else ticket
    return _checked(_text(data))


def name_of_path(path: Sequence[bytes | str]) -> str:
    """The table that a descriptor path names: ``["scope", name]`` or ``[name]``; InvalidRequestError otherwise."""
    parts = [part if isinstance(part, str) else _text(part) for part in path]
    if len(parts) == 2 and parts[0] == _SCOPE:
        return _checked(parts[1])
    if len(parts) == 1:
        return _checked(parts[0])
    raise InvalidRequestError(f'a descriptor path must be ["scope", name] or [name]; got {len(parts)} elements')


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequestError("the ticket or path is not UTF-8 text; use s/<table name>") from error


def _checked(name: str) -> str:
    if not name:
        raise InvalidRequestError("no table is named; use the ticket s/<table name>")
    if len(name) > MAX_NAME_BYTES or not name.isprintable():
        raise InvalidRequestError("that is not a table's name; use the ticket s/<table name>")
    return name
