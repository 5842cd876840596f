"""Sessions of a server: begun once, kept with the newest token, begun anew when the server knows them no more."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import barrage_server as bs
from tests.ports import free_port

from .session_server import SCHEMA, SessionServer

QUICK = bs.RetryPolicy(first_delay=0.02, max_delay=0.2, deadline=60)


@pytest.fixture
def there() -> Iterator[SessionServer]:
    with SessionServer() as server:
        yield server


def test_what_answers_with_sessions_and_without_our_actions_is_a_deephaven_server(there: SessionServer) -> None:
    with bs.connect(there.uri) as client:
        assert client.is_deephaven
        assert [info.name for info in client.tables()] == ["app/books/field/orders", "t"]
        assert client.snapshot("t").to_pydict() == {"x": [1, 2, 3]}
        with pytest.raises(bs.UnsupportedOperationError, match="Deephaven server, which does not offer"):
            client.append("t", {"x": [4]})
        with pytest.raises(bs.UnsupportedOperationError, match="does not offer a list of functions"):
            client.functions()
    with bs.Server() as ours, bs.connect(ours.uri) as client:
        assert not client.is_deephaven


def test_a_session_is_begun_once_and_its_newest_token_shown(there: SessionServer) -> None:
    with bs.connect(there.uri) as client:
        for _ in range(9):
            client.tables()
    assert there.sessions.begun == 1
    assert there.sessions.shown == ["Anonymous", *(f"Bearer 1-{call // 3}" for call in range(1, 10))]


def test_a_session_that_has_ended_is_begun_anew_without_a_word(there: SessionServer) -> None:
    with bs.connect(there.uri) as client:
        for call in (client.tables, client.ping, lambda: client.snapshot("t")):
            there.sessions.end_all()
            call()
    assert there.sessions.begun == 4


def test_calls_that_come_together_begin_one_session(there: SessionServer) -> None:
    """A second one would have no calls that keep it and its streams alive."""
    count = 8
    with bs.connect(there.uri) as client, ThreadPoolExecutor(count) as pool:
        there.sessions.end_all()
        together = threading.Barrier(count)

        def ask() -> int:
            together.wait(20)
            return len(client.tables())

        assert [found.result(20) for found in [pool.submit(ask) for _ in range(count)]] == [2] * count
    assert there.sessions.begun == 2


def test_credentials_that_are_refused_are_told_with_what_to_do() -> None:
    with SessionServer("Basic YW5uOmE=") as server:
        with bs.connect(server.uri, user="ann", password="a") as client:
            assert len(client.tables()) == 2
        for credentials in ({}, {"token": "a"}, {"user": "ann"}):
            with pytest.raises(bs.AuthenticationError, match="Pass token= for a pre-shared key"):
                bs.connect(server.uri, **credentials)  # type: ignore[arg-type]


@pytest.mark.parametrize("scheme", ["grpc", "dh+plain"])
def test_a_token_is_a_pre_shared_key_where_one_is_asked_for(scheme: str) -> None:
    with SessionServer("io.deephaven.authentication.psk.PskAuthenticationHandler secret") as server:
        with bs.connect(f"{scheme}://127.0.0.1:{server.port}", token="secret") as client:
            assert client.is_deephaven
        first = "Bearer secret" if scheme == "grpc" else server.sessions.credentials
        assert server.sessions.shown[0] == first


def test_a_header_of_the_users_own_begins_the_session() -> None:
    with SessionServer("some.company.Handler x") as server:
        with bs.connect(server.uri, headers={"Authorization": "some.company.Handler x", "Proxy": "y"}) as client:
            client.tables()
        assert [header.split()[0] for header in server.sessions.shown] == ["some.company.Handler", "Bearer"]


class Plain(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """Answers nothing."""


def test_a_server_without_actions_answers_all_the_same() -> None:
    with Plain("grpc://127.0.0.1:0") as server, bs.connect(f"127.0.0.1:{server.port}") as client:
        assert not client.is_deephaven
        assert client.ping() > 0
        with pytest.raises(bs.UnsupportedOperationError):
            client.tables()


def test_a_user_of_ours_is_known_again_after_a_restart() -> None:
    """The token that a server of ours gives for user and password is good until it restarts."""
    port = free_port()
    login = {"user": "ann", "password": "secret"}
    with bs.Server(port=port, token="secret") as first:
        first.append_table("t", SCHEMA).append({"x": [1]})
        client = bs.connect(first.uri, retry=QUICK, **login)  # type: ignore[arg-type]
        live = client.subscribe("t", interval_ms=1)
        assert not client.is_deephaven
    with client, bs.Server(port=port, token="secret") as second:
        second.append_table("t", SCHEMA).append({"x": [1, 2]})
        live.wait_until(lambda view: view.size == 2, timeout=30)
        assert client.append("t", pa.table({"x": [3]})) == 1
        live.wait_until(lambda view: view.size == 3)
        assert client.snapshot("t", viewport=range(1, 3)).to_pydict() == {"x": [2, 3]}


def test_an_upload_finds_a_session_that_is_alive() -> None:
    """Rows may come from where they can be read once only."""
    port = free_port()
    with bs.Server(port=port, token="secret") as first:
        client = bs.connect(first.uri, user="ann", password="secret")
    rows = pa.table({"x": [1, 2]}, schema=SCHEMA)
    with client, bs.Server(port=port, token="secret") as second:
        second.append_table("t", SCHEMA)
        reader = pa.RecordBatchReader.from_batches(SCHEMA, rows.to_batches())
        assert client.publish("t", reader) == 2
        assert second.table("t").size == 2
