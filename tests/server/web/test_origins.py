"""Web pages that may connect to a server that asks for no credentials."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Origin, Subprotocol

from barrage_server.server import Server
from barrage_server.server.web.origins import is_welcome

HOST = "127.0.0.1:10001"


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "http://localhost",
        "http://localhost:3000",
        "https://app.localhost:3000",
        "http://127.0.0.1:8080",
        "http://127.1.2.3",
        "http://[::1]:3000",
    ],
)
def test_programs_and_pages_of_this_machine(origin: str | None) -> None:
    assert is_welcome(origin, HOST, ())


@pytest.mark.parametrize(
    "origin",
    [
        "https://example.com",
        "https://localhost.example.com",
        "http://notlocalhost",
        "http://127.0.0.1.example.com",
        "http://192.168.1.5",
        "null",
        "",
        "file://",
        "http://[::1",
        "localhost",
    ],
)
def test_pages_of_others_may_not(origin: str) -> None:
    assert not is_welcome(origin, HOST, ("https://dashboards.example.com",))


@pytest.mark.parametrize(
    ("origin", "host", "welcome"),
    [
        ("http://192.168.1.5:8000", "192.168.1.5:10001", True),
        ("http://[fe80::1]:8000", "[fe80::1]:10001", True),
        ("http://192.168.1.6:8000", "192.168.1.5:10001", False),
        # the owner of the name can make it resolve to this machine
        ("http://rebound.example.com", "rebound.example.com", False),
    ],
)
def test_a_page_from_the_address_that_it_connects_to(origin: str, host: str, welcome: bool) -> None:
    assert is_welcome(origin, host, ()) == welcome


@pytest.mark.parametrize(
    ("allowed", "welcome"),
    [
        (("https://dashboards.example.com",), True),
        (("https://Dashboards.example.com/",), True),
        (("*",), True),
        (("http://dashboards.example.com",), False),
        (("https://dashboards.example.com:8443",), False),
    ],
)
def test_pages_that_are_allowed(allowed: tuple[str, ...], welcome: bool) -> None:
    assert is_welcome("https://dashboards.example.com", HOST, allowed) == welcome


@pytest.mark.parametrize(
    ("options", "welcome"),
    [
        ({}, False),
        ({"token": "secret"}, True),
        ({"deephaven_web_origins": ["https://dashboards.example.com"]}, True),
        ({"deephaven_web_origins": ["https://other.example.com"]}, False),
    ],
)
def test_a_server_without_a_token_takes_the_pages_that_it_is_told(options: dict[str, Any], welcome: bool) -> None:
    with Server(deephaven_web_port=0, **options) as server:
        assert server.deephaven_web_uri is not None
        url = server.deephaven_web_uri.replace("http:", "ws:")

        async def visit() -> None:
            origin, subprotocols = Origin("https://dashboards.example.com"), [Subprotocol("grpc-websockets-multiplex")]
            async with connect(url, origin=origin, subprotocols=subprotocols, proxy=None):
                pass

        if welcome:
            asyncio.run(visit())
        else:
            with pytest.raises(InvalidStatus, match="403"):
                asyncio.run(visit())
