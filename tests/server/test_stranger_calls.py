"""Calls without credentials are counted by address; the connections of those beyond a bound end."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Iterator, Set
from contextlib import suppress
from itertools import count
from queue import SimpleQueue

import grpc
import pyarrow.flight as flight
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

import barrage_server as bs
from barrage_server.server.stranger_calls import StrangerCalls
from tests.faults import raw_http2 as http2
from tests.waiting import until

FLIGHT = "/arrow.flight.protocol.FlightService"
HEADERS = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer good")])
MOST = 20


class Ends:
    """Connections that a test makes, and what has ended them."""

    def __init__(self, most: int = 3) -> None:
        self.now = 0.0
        self.known: set[str] = set()
        self.ended: SimpleQueue[set[str]] = SimpleQueue()
        self.refused: set[str] = set()
        self.calls = StrangerCalls(most, self.known.__contains__, self._end, lambda: self.now, refused_seconds=5.0)

    def _end(self, peers: Set[str], addresses: Set[str]) -> None:
        self.refused = set(addresses)
        self.ended.put(set(peers))


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.calls.close()


def test_an_address_has_as_many_calls_as_it_may_and_as_many_more_each_second(ends: Ends) -> None:
    assert [ends.calls.admit(f"10.0.0.1:{port}") for port in range(5)] == [True, True, True, False, False]
    ends.now = 1.0
    assert [ends.calls.admit("10.0.0.1:9") for _ in range(4)] == [True, True, True, False]
    ends.now = 1.4  # a whole call has not come back, or just one
    assert [ends.calls.admit("10.0.0.1:9") for _ in range(2)] == [True, False]
    assert ends.calls.refused == 4


def test_the_connection_of_a_call_too_many_ends_and_others_do_not(ends: Ends) -> None:
    for _ in range(3):
        ends.calls.admit("10.0.0.1:1")
    assert not ends.calls.admit("10.0.0.1:2")
    assert ends.ended.get(timeout=30) == {"10.0.0.1:2"}
    assert ends.calls.admit("10.0.0.2:2")
    assert ends.ended.empty()


def test_a_connection_that_has_shown_credentials_is_not_counted(ends: Ends) -> None:
    ends.known.add("10.0.0.1:1")
    assert all(ends.calls.admit("10.0.0.1:1") for _ in range(50))
    assert ends.calls.admit("10.0.0.1:2")
    assert ends.calls.refused == 0


def test_what_came_before_the_end_of_a_connection_is_refused_without_a_look(ends: Ends) -> None:
    for _ in range(4):
        ends.calls.admit("10.0.0.1:1")
    assert ends.calls.has_ended("10.0.0.1:1")
    assert not ends.calls.has_ended("10.0.0.1:2")
    assert ends.calls.refused == 2
    ends.now = 2.0  # another connection may have the port by then
    assert not ends.calls.has_ended("10.0.0.1:1")
    assert ends.calls.admit("10.0.0.1:1")


def test_a_network_of_ipv6_counts_as_one_address(ends: Ends) -> None:
    assert [ends.calls.admit(f"[2001:db8::{host}]:1") for host in range(1, 5)] == [True, True, True, False]
    assert ends.calls.admit("[2001:db8:0:1::1]:1")


def test_an_address_is_refused_as_long_as_its_last_call_too_many_says(ends: Ends) -> None:
    for _ in range(4):
        ends.calls.admit("10.0.0.1:1")
    ends.ended.get(timeout=30)
    assert ends.refused == {"10.0.0.1"}
    ends.now = 4.0
    for _ in range(4):
        ends.calls.admit("10.0.0.1:1")
    ends.ended.get(timeout=30)
    ends.now = 8.9
    ends.calls.tidy()
    assert ends.refused == {"10.0.0.1"}
    ends.now = 9.0
    ends.calls.tidy()
    assert ends.refused == set()


def test_connections_end_also_after_one_could_not_be_ended(caplog: pytest.LogCaptureFixture) -> None:
    failed = threading.Event()
    ended: SimpleQueue[set[str]] = SimpleQueue()

    def end(peers: Set[str], _addresses: Set[str]) -> None:
        if not failed.is_set():
            failed.set()
            raise OSError("no descriptors")
        ended.put(set(peers))

    calls = StrangerCalls(1, lambda _: False, end, lambda: 0.0)
    calls.admit("10.0.0.1:1")
    calls.admit("10.0.0.1:2")
    until(lambda: "could not be ended" in caplog.text)
    ports = count(3)

    def ends_another() -> bool:
        calls.admit(f"10.0.0.1:{next(ports)}")
        return not ended.empty()

    until(ends_another)
    calls.close()


@pytest.fixture
def server() -> Iterator[bs.Server]:
    limits = bs.Limits(stranger_calls_per_second=MOST)
    with bs.Server(token="good", front="grpc", limits=limits) as made:
        made.append_table("t", {"n": "int64"}).append({"n": [1]})
        yield made


def connects(port: int, source: str) -> bool:
    """Whether an address may connect."""
    try:
        with http2.connect(port, source, timeout=0.5):
            return True
    except TimeoutError:
        return False


def opened(port: int, method: str, count: int, *more: tuple[str, str], source: str = "127.0.0.1") -> socket.socket:
    """A connection that opens and resets ``count`` calls, and does not read their answers."""
    connection = http2.connect(port, source)
    block = http2.headers(method, *more)
    with suppress(OSError):  # ended meanwhile
        for number in range(count):
            connection.sendall(http2.frame(http2.HEADERS, http2.END_HEADERS, 2 * number + 1, block))
            connection.sendall(http2.frame(http2.RST_STREAM, 0, 2 * number + 1, b"\0\0\0\x08"))
    return connection


def has_ended(connection: socket.socket) -> bool:
    """Read what the server sends; whether it ends the connection."""
    try:
        while connection.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


@pytest.mark.parametrize(
    ("method", "more"),
    [
        (f"{FLIGHT}/DoAction", ()),
        (f"{FLIGHT}/DoGet", (("authorization", "Bearer wrong"),)),
        ("/grpc.health.v1.Health/Check", ()),
        ("/no.such.Service/Call", ()),
    ],
    ids=["no credentials", "wrong ones", "a call that needs none", "no such call"],
)
def test_a_stranger_that_opens_and_resets_calls_loses_its_connection_and_nobody_else(
    server: bs.Server, method: str, more: tuple[tuple[str, str], ...]
) -> None:
    with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
        read = [client.do_get(flight.Ticket(b"s/t"), HEADERS).read_all().num_rows]
        with opened(server.port, method, 50 * MOST, *more) as connection:
            read += [client.do_get(flight.Ticket(b"s/t"), HEADERS).read_all().num_rows for _ in range(2 * MOST)]
            assert has_ended(connection)
        read.append(client.do_get(flight.Ticket(b"s/t"), HEADERS).read_all().num_rows)
    assert read == [1] * (2 * MOST + 2)


def test_an_address_from_which_a_token_was_shown_may_connect_again(server: bs.Server) -> None:
    """As that of a proxy, behind which there are strangers as well as others."""
    with flight.FlightClient(f"grpc://127.0.0.1:{server.port}") as client:
        client.do_get(flight.Ticket(b"s/t"), HEADERS).read_all()
        with opened(server.port, f"{FLIGHT}/DoAction", 50 * MOST) as stranger:
            assert has_ended(stranger)
            with bs.connect(server.uri, token="good", timeout=30) as another:
                assert another.snapshot("t").num_rows == 1


@pytest.mark.skipif(sys.platform != "linux", reason="sockets have filters on Linux")
def test_an_address_with_too_many_calls_may_not_connect_for_a_while_and_others_may() -> None:
    limits = bs.Limits(stranger_calls_per_second=MOST, refused_address_seconds=3.0)
    with bs.Server(token="good", front="grpc", limits=limits) as server:
        server.append_table("t", {"n": "int64"}).append({"n": [1]})
        silent = http2.connect(server.port, "127.0.0.2")
        with opened(server.port, f"{FLIGHT}/DoAction", 50 * MOST, source="127.0.0.2") as stranger, silent:
            assert has_ended(stranger)
            assert has_ended(silent)
        with pytest.raises(TimeoutError):
            http2.connect(server.port, "127.0.0.2", timeout=0.5)
        with bs.connect(server.uri, token="good", timeout=30) as client:
            assert client.snapshot("t").num_rows == 1
        until(lambda: connects(server.port, "127.0.0.2"))


def test_a_server_that_accepts_every_caller_counts_no_calls() -> None:
    limits = bs.Limits(stranger_calls_per_second=1)
    with bs.Server(front="grpc", limits=limits) as server:
        server.append_table("t", {"n": "int64"}).append({"n": [1]})
        with bs.connect(server.uri, timeout=30) as client:
            assert [client.snapshot("t").num_rows for _ in range(10)] == [1] * 10
        with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            for _ in range(10):
                stub.Check(health_pb2.HealthCheckRequest(), timeout=30)


def test_health_is_told_to_those_that_ask_now_and_then(server: bs.Server) -> None:
    with grpc.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for _ in range(MOST // 2):
            assert stub.Check(health_pb2.HealthCheckRequest(), timeout=30).status
