"""Under which names the page is served, and to whose pages its websocket opens."""

from __future__ import annotations

import pytest

from barrage_server.server.web.hosts import is_known_host, is_own_page


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8816", "LOCALHOST", "a.localhost:1", "127.0.0.1:8816", "[::1]:8816", "10.1.2.3:80"]
)
def test_addresses_and_this_machine_are_known(host: str) -> None:
    assert is_known_host(host, ())


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example:8816",
        "[",
        "a@b:c",
        "2130706433x",
        "a@127.0.0.1",
        "127.0.0.1/x",
        "127.0.0.1?x",
        "127.0.0.1#x",
        "127.0.0.1 ",
        "127.0.0.1:",
        "127.0.0.1:99999999",
        "::1",
        "[127.0.0.1]",
        "localhost\n",
    ],
)
def test_other_names_are_not(host: str) -> None:
    assert not is_known_host(host, ("tables.example.com",))


def test_names_of_the_server_are_known_in_any_case() -> None:
    assert is_known_host("Tables.Example.com:8816", ("tables.example.COM",))
    assert is_known_host("table_server:8816", ("table_server",))


@pytest.mark.parametrize(
    ("origin", "host", "encrypted", "is_own"),
    [
        ("http://127.0.0.1:8816", "127.0.0.1:8816", False, True),
        ("http://localhost", "localhost", False, True),
        ("http://localhost", "localhost:80", False, True),
        ("https://localhost", "localhost:443", True, True),
        ("http://127.0.0.1:8816", "127.0.0.1:8816", True, False),
        ("http://localhost:8816", "127.0.0.1:8816", False, False),
        ("http://127.0.0.1:8817", "127.0.0.1:8816", False, False),
        ("https://evil.example", "127.0.0.1:8816", False, False),
        ("null", "127.0.0.1:8816", False, False),
    ],
)
def test_a_page_is_ones_own_by_scheme_host_and_port(origin: str, host: str, encrypted: bool, is_own: bool) -> None:
    assert is_own_page(origin, host, is_encrypted=encrypted) is is_own
