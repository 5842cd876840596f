"""Addresses: of servers in Flight's and in Deephaven's way, and of tables."""

from __future__ import annotations

import pytest

from barrage_server.address import ServerAddress, TableAddress
from barrage_server.errors import InvalidRequestError


@pytest.mark.parametrize(
    ("written", "uri", "location", "is_deephaven"),
    [
        ("here:80", "grpc://here:80", "grpc://here:80", False),
        ("here", "grpc://here:8815", "grpc://here:8815", False),
        ("grpc://here", "grpc://here:8815", "grpc://here:8815", False),
        (" grpc://here/ ", "grpc://here:8815", "grpc://here:8815", False),
        ("grpc+tls://10.0.0.7", "grpc+tls://10.0.0.7:8815", "grpc+tls://10.0.0.7:8815", False),
        ("grpc+tcp://[::1]", "grpc+tcp://[::1]:8815", "grpc+tcp://[::1]:8815", False),
        ("grpc://here:80/", "grpc://here:80", "grpc://here:80", False),
        ("grpc+tls://here:80", "grpc+tls://here:80", "grpc+tls://here:80", False),
        ("grpc+tcp://[::1]:80", "grpc+tcp://[::1]:80", "grpc+tcp://[::1]:80", False),
        ("grpc+unix:///run/barrage.sock", "grpc+unix:///run/barrage.sock", "grpc+unix:///run/barrage.sock", False),
        ("dh+plain://here:10000", "dh+plain://here:10000", "grpc://here:10000", True),
        ("dh://here:443/", "dh://here:443", "grpc+tls://here:443", True),
        ("dh://[::1]:443", "dh://[::1]:443", "grpc+tls://[::1]:443", True),
    ],
)
def test_addresses_of_servers(written: str, uri: str, location: str, is_deephaven: bool) -> None:
    assert ServerAddress.parse(written) == ServerAddress(uri, location, is_deephaven)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("", "no address of a server; write grpc://host:port"),
        ("dh://", "for a Deephaven server dh\\+plain://host:port"),
        ("http://here:80", "address of a web server.*write grpc://host:port"),
        ("https://here:80", "address of a web server.*write grpc\\+tls://host:port"),
        ("ftp://here:80", "no address"),
        ("grpc://::1", "IPv6 address in brackets"),
        ("grpc://here:port", "no address"),
        ("grpc://here:", "no address"),
        ("grpc://here:70000", "ports are 1 to 65535"),
        ("grpc://here:0", "ports are 1 to 65535"),
        ("grpc://me:secret@here:80", "credentials do not belong there"),
        ("dh+plain://here", "lacks a port"),
        ("dh://[::1]", "lacks a port"),
        ("dh+plain://here:1/scope/t", "connect to dh\\+plain://here:1, and name the table when subscribing"),
    ],
)
def test_what_is_no_address_of_a_server(written: str, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words):
        ServerAddress.parse(written)


@pytest.mark.parametrize(
    ("written", "server", "name"),
    [
        ("grpc://here:80/trades", "grpc://here:80", "trades"),
        ("grpc://here/trades", "grpc://here:8815", "trades"),
        ("here:80/scope/trades", "grpc://here:80", "trades"),
        ("grpc+tls://here:80/my%20trades%2Fa", "grpc+tls://here:80", "my trades/a"),
        ("dh+plain://here:10000/scope/trades", "dh+plain://here:10000", "trades"),
        ("dh://here:443/app/books/field/orders", "dh://here:443", "app/books/field/orders"),
    ],
)
def test_addresses_of_tables(written: str, server: str, name: str) -> None:
    assert TableAddress.parse(written) == TableAddress(ServerAddress.parse(server), name)


@pytest.mark.parametrize(
    "written",
    [
        "grpc://here:80",
        "grpc:///t",
        "grpc://here:80/a/b",
        "grpc://here:80/app/a/field/f",
        "dh://here:443/app/a/f/f",
        "grpc+unix:///run/barrage.sock",
        "x://here/t",
    ],
)
def test_what_is_no_address_of_a_table(written: str) -> None:
    with pytest.raises(InvalidRequestError):
        TableAddress.parse(written)


@pytest.mark.parametrize("scheme", ["", "grpc://", "grpc+unix://", "dh://", "http://", "x://"])
@pytest.mark.parametrize("rest", ["me:secret@here:80", "me:secret@here:80/a/b/c", "me:secret@", "secret@/t"])
def test_no_error_shows_credentials(scheme: str, rest: str) -> None:
    for parse in (ServerAddress.parse, TableAddress.parse):
        try:
            parse(scheme + rest)
        except InvalidRequestError as error:
            assert "secret" not in str(error)
