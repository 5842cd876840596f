"""The port of the page serves Deephaven's websockets too, by their subprotocol and under its rules for names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from socket import create_connection
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

import barrage_server as bs
from barrage_server.server import Limits
from barrage_server.server.deephaven.multiplex import GO_AWAY
from tests.server.deephaven.web_client import MULTIPLEX, WebClient, bounded
from tests.server.web.page_client import greeted, page

OTHER_PAGE = "https://dashboards.example.com"


def address(server: bs.Server) -> str:
    assert server.web_uri is not None
    return server.web_uri.replace("http", "ws", 1)


@contextmanager
def visit(server: bs.Server, origin: str | None = None, name: str = "127.0.0.1") -> Iterator[ClientConnection]:
    """A websocket as Deephaven's API opens it, to the server under a name."""
    port = urlsplit(address(server)).port or 0
    with connect(
        f"ws://{name}:{port}/",
        sock=create_connection(("127.0.0.1", port)),
        subprotocols=[MULTIPLEX, Subprotocol("grpc-websockets")],
        origin=None if origin is None else Origin(origin.replace("PORT", str(port))),
        open_timeout=20,
    ) as made:
        yield made


def refusal(server: bs.Server, **asked: Any) -> int:
    with pytest.raises(InvalidStatus) as refused, visit(server, **asked):
        pass
    return refused.value.response.status_code


@pytest.mark.parametrize("ports", [{"deephaven_port": 0}, {"deephaven_web_port": 0}], ids=["gRPC", "websockets"])
def test_one_port_serves_the_page_and_deephavens_calls(ports: dict[str, int]) -> None:
    with bs.Server(web_port=0, **ports) as server:  # type: ignore[arg-type]
        server.append_table("t", {"x": "int64"}).append({"x": [1, 2, 3]})

        async def body() -> None:
            async with WebClient.at(address(server)) as client:
                answer = await client.call("io.deephaven.proto.backplane.grpc.ConfigService/GetAuthenticationConstants")
                assert answer.status == 0
                assert b"AnonymousAuthenticationHandler" in b"".join(answer.messages)

        bounded(body)
        with greeted(server) as client:
            client.settle(view := client.open(1, "t"), lambda it: it.updates)
            assert view.rows() == [(1,), (2,), (3,)]


def test_a_server_without_a_port_for_deephavens_clients_serves_the_page_only() -> None:
    with bs.Server(web_port=0) as server:
        assert refusal(server) == 404


def test_pages_could_run_scripts_where_nobody_shows_credentials_so_they_are_not_served() -> None:
    with bs.Server(web_port=0, deephaven_port=0, console=True) as server:
        assert refusal(server) == 404
    with bs.Server(web_port=0, deephaven_port=0, console=True, token="secret") as server, visit(server):
        pass


@pytest.mark.parametrize(
    ("options", "origin", "status"),
    [
        ({}, OTHER_PAGE, 403),
        ({}, "null", 403),
        ({}, "http://localhost:3000", None),
        ({"token": "secret"}, OTHER_PAGE, None),
        ({"deephaven_web_origins": [OTHER_PAGE]}, OTHER_PAGE, None),
    ],
)
def test_the_pages_that_may_connect_are_those_of_deephavens_own_port(
    options: dict[str, Any], origin: str, status: int | None
) -> None:
    with bs.Server(web_port=0, deephaven_port=0, **options) as server:
        if status is None:
            with visit(server, origin):
                pass
        else:
            assert refusal(server, origin=origin) == status
        # what Deephaven's API may does not open the websocket of the page
        with pytest.raises(InvalidStatus, match="403"), page(server, origin=origin):
            pass


def test_a_name_that_is_not_this_servers_is_refused_whatever_the_page() -> None:
    with bs.Server(web_port=0, deephaven_port=0, token="secret", web_hosts=["tables.example.com"]) as server:
        assert refusal(server, name="rebound.example.com") == 421
        with visit(server, OTHER_PAGE, "tables.example.com"):
            pass
    with bs.Server(web_port=0, deephaven_port=0, web_hosts=["tables.example.com"]) as server:
        # without credentials, under that name, the server's own page alone
        with visit(server, "http://tables.example.com:PORT", "tables.example.com"):
            pass
        assert refusal(server, name="tables.example.com", origin="http://other.example.com:PORT") == 403


def test_a_stranger_has_the_time_of_deephavens_own_port_and_its_length_of_messages() -> None:
    limits = Limits(handshake_seconds=0.2, session_seconds=60.0)
    with bs.Server(web_port=0, deephaven_port=0, limits=limits) as server, visit(server) as deephavens:
        with page(server) as stranger, pytest.raises(ConnectionClosed):
            stranger.receive()
        assert deephavens.ping().wait(20)
        deephavens.send(bytes(1 << 20))  # 64 KiB before a call has shown credentials
        with pytest.raises(ConnectionClosed) as cut:
            deephavens.recv(timeout=20)
        assert cut.value.rcvd is not None
        assert cut.value.rcvd.code == 1009


def test_websockets_of_both_kinds_count_together() -> None:
    limits = Limits(sessions=2)
    with bs.Server(web_port=0, deephaven_port=0, limits=limits) as server, greeted(server), visit(server):
        assert refusal(server) == 503


def test_a_server_that_closes_takes_leave_of_both_and_ends_in_time() -> None:
    server = bs.Server(web_port=0, deephaven_port=0)
    with visit(server) as deephavens, greeted(server) as client:
        server.close(grace=2.0)
        with pytest.raises(ConnectionClosed):
            while True:
                client.receive()
        assert deephavens.recv(timeout=20) == GO_AWAY
        with pytest.raises(ConnectionClosed):
            deephavens.recv(timeout=20)
