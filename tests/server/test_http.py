"""The HTTP port: what it says, and that strangers cannot use up more than it gives."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import prometheus_client
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barrage_server.errors import UnavailableError
from barrage_server.server import Server
from barrage_server.server.http_endpoint import HttpEndpoint, HttpLimits
from barrage_server.server.readiness import Readiness
from tests.waiting import until

SOON = 30.0
"""Seconds; far more than needed on a shared machine."""


def get(port: int, path: str, method: str = "GET", body: bytes | None = None) -> tuple[int, str, dict[str, str]]:
    """Status, body and headers of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SOON)
    try:
        connection.request(method, path, body=body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


def port_of(server: Server) -> int:
    assert server.http_uri is not None
    return int(urlsplit(server.http_uri).port or 0)


@contextmanager
def endpoint(
    metrics: Callable[[], tuple[bytes, str]] = lambda: (b"figures 1\n", "text/plain"), **limits: float
) -> Iterator[HttpEndpoint]:
    readiness = Readiness()
    readiness.serve()
    made = HttpEndpoint("127.0.0.1", 0, readiness, metrics, HttpLimits(**limits))  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()


def is_cut(connection: socket.socket) -> bool:
    """Wait until the server has ended the connection; whether it did."""
    connection.settimeout(SOON)
    try:
        while connection.recv(65536):
            pass
    except ConnectionError:
        return True
    except TimeoutError:
        return False
    return True


# What it says.


def test_a_server_has_no_http_port_unless_it_is_asked_for() -> None:
    with Server() as server:
        assert server.http_uri is None
        assert not [thread for thread in threading.enumerate() if thread.name == "barrage-http"]


def test_a_server_is_alive_and_ready_and_has_metrics() -> None:
    with Server(http_port=0) as server:
        port = port_of(server)
        assert server.http_uri == f"http://127.0.0.1:{port}"
        assert get(port, "/health")[:2] == (200, "alive\n")
        assert get(port, "/ready")[:2] == (200, "ready\n")
        status, body, headers = get(port, "/metrics?x=1")
        assert status == 200
        assert headers["content-type"] == prometheus_client.CONTENT_TYPE_LATEST
        assert "\nbarrage_ready 1.0\n" in body
        assert get(port, "/nothing")[0] == 404
    with pytest.raises(ConnectionRefusedError):
        get(port, "/health")


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics", "/nothing"])
def test_only_get_and_head_are_served(path: str) -> None:
    with endpoint() as served:
        whole = get(served.port, path)
        status, body, headers = get(served.port, path, "HEAD")
        assert (status, body) == (whole[0], "")
        assert headers["content-length"] == str(len(whole[1]))
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"):
            status, _, headers = get(served.port, path, method, body=b"x" * 100)
            assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_ready_says_why_it_is_not() -> None:
    readiness = Readiness()
    served = HttpEndpoint("127.0.0.1", 0, readiness, lambda: (b"", ""))
    try:
        assert get(served.port, "/ready")[:2] == (503, "not ready: starting\n")
        with readiness.holding("recovering"):
            assert get(served.port, "/ready")[:2] == (503, "not ready: recovering\n")
            assert get(served.port, "/health")[0] == 200
            readiness.serve()
            assert get(served.port, "/ready")[:2] == (503, "not ready: recovering\n")
        assert get(served.port, "/ready")[:2] == (200, "ready\n")
        with readiness.holding("first"), readiness.holding("second"):
            readiness.stop()
            assert get(served.port, "/ready")[:2] == (503, "not ready: stopping\n")
        readiness.serve()
        assert get(served.port, "/ready")[:2] == (503, "not ready: stopping\n")
    finally:
        served.close()


def test_a_program_holds_its_server_back() -> None:
    with Server(http_port=0) as server:
        with pytest.raises(ValueError, match="of the program"), server.not_ready("loading"):
            assert get(port_of(server), "/ready")[:2] == (503, "not ready: loading\n")
            raise ValueError("of the program")
        assert get(port_of(server), "/ready")[0] == 200


def test_it_says_that_it_stops_while_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, str]] = []
    with Server(http_port=0) as server:
        port, graph_close = port_of(server), server.graph.close

        def close(reason: str) -> None:
            seen.append(get(port, "/ready")[:2])
            graph_close(reason)

        monkeypatch.setattr(server.graph, "close", close)
    assert seen == [(503, "not ready: stopping\n")]


def test_a_wrong_address_is_refused_and_leaves_nothing() -> None:
    with Server(http_port=0) as first, pytest.raises(UnavailableError, match=r"with http_port= \(--http-port on"):
        Server(http_port=port_of(first))
    with Server() as first, pytest.raises(UnavailableError, match="Cannot listen on"):
        Server(port=first.port, http_port=0)
    with pytest.raises(UnavailableError, match=r"name 'nowhere\.invalid\.' cannot be resolved"):
        Server(http_port=0, http_host="nowhere.invalid.")
    until(lambda: not [thread for thread in threading.enumerate() if thread.name == "barrage-http"])


def test_it_listens_on_other_addresses_when_asked() -> None:
    with Server(http_port=0, http_host="0.0.0.0") as server:
        assert str(server.http_uri).startswith("http://127.0.0.1:")
        assert get(port_of(server), "/health")[0] == 200


# What strangers can do.


def test_silent_and_slow_connections_are_cut() -> None:
    with endpoint(connection_seconds=0.2) as served, ExitStack() as held:
        for beginning in (b"", b"GET /health HTTP/1.1\r\n", b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"):
            connection = held.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            connection.sendall(beginning)
            assert is_cut(connection)
        until(lambda: served.connections == 0)


def test_connections_are_bounded_and_good_callers_find_room() -> None:
    with endpoint(connections=4, connection_seconds=600) as served, ExitStack() as held:
        silent = [held.enter_context(socket.create_connection(("127.0.0.1", served.port))) for _ in range(50)]
        assert get(served.port, "/health")[0] == 200
        assert served.connections <= 4
        assert all(is_cut(connection) for connection in silent[:46])


def test_connections_need_no_threads() -> None:
    with endpoint() as served, ExitStack() as held:
        get(served.port, "/metrics")
        before = threading.active_count()
        for _ in range(50):
            held.enter_context(socket.create_connection(("127.0.0.1", served.port)))
        get(served.port, "/metrics")
        assert threading.active_count() <= before


@pytest.mark.parametrize("line", [b"GET /%b HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nX: %b", b"%b"])
def test_long_heads_are_refused(line: bytes) -> None:
    with endpoint(head_bytes=1000) as served:
        with socket.create_connection(("127.0.0.1", served.port), timeout=SOON) as connection:
            connection.sendall(line % (b"x" * 100_000))
            answer = connection.recv(100)
            assert answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
        assert get(served.port, "/health")[0] == 200


@pytest.fixture(scope="module")
def fuzzed() -> Iterator[HttpEndpoint]:
    with endpoint() as served:
        yield served


REQUESTS = st.one_of(
    st.binary(max_size=300),
    st.text(st.characters(codec="latin-1"), max_size=50).map(
        lambda text: f"GET /{text} HTTP/1.1\r\n{text}: {text}\r\n\r\n".encode("latin-1")
    ),
    st.sampled_from(
        [
            b"GET /health HTTP/1.1\r\n\r\n",
            b"GET /health HTTP/0.9\r\nHost: x\r\n\r\n",
            b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
            b"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            b"GET /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"GET /health HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
            b"GET /health HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\n",
            b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        ]
    ),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(REQUESTS)
def test_no_request_harms_it(fuzzed: HttpEndpoint, request: bytes) -> None:
    with socket.create_connection(("127.0.0.1", fuzzed.port), timeout=SOON) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while piece := connection.recv(65536):
                answer += piece
        except ConnectionError:
            pass
        assert not answer or answer.startswith(b"HTTP/1.1 ")
    assert get(fuzzed.port, "/health")[0] == 200


def test_figures_are_made_once_for_all_who_ask() -> None:
    made: list[int] = []

    def metrics() -> tuple[bytes, str]:
        made.append(1)
        return b"figures 1\n", "text/plain"

    with endpoint(metrics, fresh_seconds=600) as served:
        assert {get(served.port, "/metrics")[:2] for _ in range(20)} == {(200, "figures 1\n")}
    assert len(made) == 1
    with endpoint(metrics, fresh_seconds=0) as served:
        until(lambda: get(served.port, "/metrics")[0] == 200 and len(made) > 3)


def test_figures_that_do_not_come_hold_up_nothing_else() -> None:
    asked, released = threading.Event(), threading.Event()

    def metrics() -> tuple[bytes, str]:
        asked.set()
        released.wait(SOON)
        return b"late 1\n", "text/plain"

    with endpoint(metrics, connection_seconds=1.0) as served:
        try:
            assert get(served.port, "/metrics")[:2] == (503, "The metrics take too long; try again later.\n")
            assert asked.is_set()
            assert get(served.port, "/health")[0] == 200
            released.set()
            until(lambda: get(served.port, "/metrics")[:2] == (200, "late 1\n"), SOON)
        finally:
            released.set()


def test_a_fault_of_the_figures_is_told_and_passes(caplog: pytest.LogCaptureFixture) -> None:
    faults = [True]

    def metrics() -> tuple[bytes, str]:
        if faults:
            faults.clear()
            raise RuntimeError("a fault with a secret")
        return b"figures 1\n", "text/plain"

    with endpoint(metrics, fresh_seconds=0) as served:
        status, body, _ = get(served.port, "/metrics")
        assert status == 500
        assert "secret" not in body
        until(lambda: get(served.port, "/metrics")[:2] == (200, "figures 1\n"))
    assert "the metrics could not be made" in caplog.text


def test_closing_is_bounded_and_may_be_repeated() -> None:
    with endpoint() as served, ExitStack() as held:
        connections = [held.enter_context(socket.create_connection(("127.0.0.1", served.port))) for _ in range(5)]
        until(lambda: served.connections == 5)
        served.close()
        served.close()
        assert all(is_cut(connection) for connection in connections)
