"""Tickets and descriptor paths."""

from __future__ import annotations

import pytest

from barrage_server.errors import InvalidRequestError
from barrage_server.wire.tickets import DPHN, name_of_path, name_of_ticket, path_of_name, scope_ticket


@pytest.mark.parametrize("name", ["trades", "a b", "tablé", "s/x", "scope"])
def test_there_and_back(name: str) -> None:
    assert name_of_ticket(scope_ticket(name)) == name
    assert name_of_path(path_of_name(name)) == name
    assert name_of_path([part.encode() for part in path_of_name(name)]) == name
    assert name_of_path([name.encode()]) == name


def test_a_bare_name_is_a_ticket() -> None:
    assert name_of_ticket(b"trades") == "trades"


@pytest.mark.parametrize("ticket", [b"", b"s/", b"e\x01\x00\x00\x00", b"h\xff\xfe", b"a\nb", b"x" * 5000])
def test_other_tickets_are_refused(ticket: bytes) -> None:
    with pytest.raises(InvalidRequestError, match="use"):
        name_of_ticket(ticket)


@pytest.mark.parametrize("path", [[], [b"a", b"b"], [b"scope", b"a", b"b"], [b""], [b"\xff"]])
def test_other_paths_are_refused(path: list[bytes | str]) -> None:
    with pytest.raises(InvalidRequestError):
        name_of_path(path)


def test_the_command_of_barrage_streams() -> None:
    assert DPHN == b"dphn"
