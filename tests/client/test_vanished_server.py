"""A server that vanishes, with its machine or the way to it, is noticed: nothing closes the connection then."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.client import channel
from barrage_server.client.server_kind import ServerKind
from tests.live.proxy import Proxy
from tests.waiting import until

QUICK = {
    "grpc.keepalive_time_ms": 300,
    "grpc.keepalive_timeout_ms": 1000,
    "grpc.http2.ping_timeout_ms": 1000,
    "grpc.http2.max_pings_without_data": 0,  # more questions than calls are asked in this time
}
"""Otherwise each test takes half a minute."""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "OPTIONS", tuple((dict(channel.OPTIONS) | QUICK).items()))


@pytest.fixture(params=["pyarrow", "grpc"])
def server(request: pytest.FixtureRequest) -> Iterator[bs.Server]:
    with bs.Server(front=request.param) as running:
        yield running


@pytest.mark.usefixtures("quick")
def test_a_subscription_whose_server_has_vanished_connects_again(server: bs.Server) -> None:
    table = server.append_table("t", {"v": "int64"})
    with (
        Proxy(server.port) as proxy,
        bs.connect(f"grpc://127.0.0.1:{proxy.port}") as client,
        client.subscribe("t") as live,
    ):
        states: list[bs.LiveState] = []
        live.on_state(states.append)
        assert proxy.vanish() > 0
        table.append({"v": [1]})
        until(lambda: live.size == 1, what="the subscription is back")
        assert bs.LiveState.RECONNECTING in states


@pytest.mark.usefixtures("quick")
def test_a_publication_whose_server_has_vanished_ends_with_an_error(server: bs.Server) -> None:
    table = bs.AppendTable(bs.UpdateGraph(), "mine", pa.schema({"v": pa.int64()}))
    with Proxy(server.port) as proxy, bs.connect(f"grpc://127.0.0.1:{proxy.port}") as client:
        publication = client.publish_live("t", table)
        assert proxy.vanish() > 0
        until(lambda: not publication.is_open, what="the publication notices")
        assert isinstance(publication.error, bs.UnavailableError)


def test_a_connection_that_works_is_never_silent_while_something_is_open(
    server: bs.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Servers of gRPC end the connection of a client that asks often whether they are there."""
    monkeypatch.setattr(channel, "PROBE_PAUSE", 0.01)
    calls = threading.Semaphore(0)
    greet = channel.Channel.greet

    def counted(self: channel.Channel) -> ServerKind:
        calls.release()
        return greet(self)

    monkeypatch.setattr(channel.Channel, "greet", counted)
    server.append_table("t", {"v": "int64"})
    with bs.connect(server.uri) as client:
        with client.subscribe("t"):
            for _ in range(10):
                assert calls.acquire(timeout=30)
        until(lambda: not any(thread.name.startswith("barrage-probe") for thread in threading.enumerate()))
