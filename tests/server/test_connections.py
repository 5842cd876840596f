"""Connections are counted by address and in all, and need credentials in time; those of strangers go first."""

from __future__ import annotations

import socket
from collections.abc import Callable, Collection, Set
from contextlib import ExitStack
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.errors import AuthenticationError, LimitError
from barrage_server.flight.sockets import PortScan, peer_name
from barrage_server.server.authentication import Credentials
from barrage_server.server.connections import Connections
from barrage_server.server.limits import Limits
from barrage_server.server.log_ins import LogIns
from barrage_server.server.strangers import Strangers
from tests.waiting import until


class Wires:
    """Connections that a test makes and ends."""

    def __init__(self) -> None:
        self.peers_now: set[str] = set()
        self.ended: set[str] = set()
        self.looks = 0

    def peers(self, ports: Collection[int], found: Callable[[socket.socket], object]) -> set[str]:
        assert set(ports) == {1}
        self.looks += 1
        return set(self.peers_now)

    def shut(self, peers: Set[str], *, discard: bool = False) -> int:
        self.ended |= peers
        self.peers_now -= peers
        return len(peers)


def connections(wires: Wires, **limits: float) -> Connections:
    return Connections(Limits(**limits), lambda: [1], wires, timer=lambda: 0.0)  # type: ignore[arg-type]


def test_a_connection_without_credentials_ends_after_its_time_and_no_other() -> None:
    wires = Wires()
    table = connections(wires, credential_seconds=5)
    wires.peers_now = {"10.0.0.1:1", "10.0.0.1:2"}
    table.let_in("10.0.0.1:1")
    table.tidy(0.0)
    wires.peers_now.add("10.0.0.1:3")
    table.tidy(4.0)
    assert not wires.ended
    table.tidy(5.0)
    assert wires.ended == {"10.0.0.1:2"}
    table.tidy(9.0)
    assert wires.ended == {"10.0.0.1:2", "10.0.0.1:3"}
    table.tidy(1000.0)
    assert wires.peers_now == {"10.0.0.1:1"}


def test_a_port_that_is_used_again_is_another_connection() -> None:
    wires = Wires()
    table = connections(wires, credential_seconds=5)
    wires.peers_now = {"10.0.0.1:1"}
    table.let_in("10.0.0.1:1")
    table.tidy(0.0)
    wires.peers_now = set()
    table.tidy(1.0)
    wires.peers_now = {"10.0.0.1:1"}
    table.tidy(2.0)
    table.tidy(7.0)
    assert wires.ended == {"10.0.0.1:1"}


@given(
    peers=st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=30),
    most=st.integers(1, 12),
    per_address=st.integers(1, 12),
)
def test_as_many_stay_as_may_and_strangers_go_first(peers: list[tuple[int, bool]], most: int, per_address: int) -> None:
    """No more than needed end, and none with credentials while a stranger of its address stays."""
    wires = Wires()
    table = connections(wires, connections=most, connections_per_address=per_address)
    known: set[str] = set()
    for number, (host, is_known) in enumerate(peers):
        peer = f"10.0.0.{host}:{number + 1}"
        wires.peers_now.add(peer)
        if is_known:
            known.add(peer)
            table.let_in(peer)
    before = set(wires.peers_now)
    table.tidy(0.0)
    left = wires.peers_now
    allowed = 0
    for address in {peer.rpartition(":")[0] for peer in before}:
        of_host = {peer for peer in before if peer.startswith(f"{address}:")}
        allowed += min(len(of_host), per_address)
        gone, stay = of_host - left, of_host & left
        assert len(stay) <= per_address
        if gone & known:
            assert not stay - known
    assert len(left) == min(most, allowed)


def test_a_scan_that_takes_long_is_made_seldom() -> None:
    wires = Wires()
    ticks = count()
    table = Connections(Limits(), lambda: [1], wires, timer=lambda: float(next(ticks)))
    for second in range(60):
        table.tidy(float(second))
    assert wires.looks == 2


def test_handshakes_are_few_and_their_connections_end() -> None:
    wires = Wires()
    wires.peers_now = {"10.0.0.1:1", "10.0.0.1:2"}
    table = connections(wires, credential_seconds=1000)
    strangers = Strangers(2, 5.0, table.shut_strangers)
    table.let_in("10.0.0.1:1")
    with strangers.handshake():
        for now in (0.0, 5.0):
            table.tidy(now)
            strangers.tidy(now)
        assert wires.ended == {"10.0.0.1:2"}
        with strangers.handshake(), pytest.raises(LimitError, match="2 handshakes"):
            strangers.check_room()


def test_the_sockets_of_a_port_are_found_once_and_shut() -> None:
    found: list[str] = []
    with ExitStack() as held:
        listening = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        port = listening.getsockname()[1]
        clients = [held.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(3)]
        accepted = [held.enter_context(listening.accept()[0]) for _ in clients]
        peers = {peer_name(f"127.0.0.1:{client.getsockname()[1]}") for client in clients}
        scan = PortScan()

        def note(connection: socket.socket) -> None:
            found.append(peer_name(":".join(map(str, connection.getpeername()))))

        assert scan.peers([port], note) == peers
        assert scan.peers([port], note) == peers
        assert sorted(found) == sorted(peers)
        one = peer_name(f"127.0.0.1:{clients[0].getsockname()[1]}")
        assert scan.shut({one}) == 1
        clients[0].settimeout(20)
        assert clients[0].recv(1) == b""
        accepted[1].close()
        until(lambda: len(scan.peers([port], note)) <= 2)


def secret(text: str) -> Credentials:
    return Credentials("bearer", "", text)


def authenticate(credentials: Credentials) -> str:
    if credentials.secret not in ("good", "better"):
        raise AuthenticationError("wrong")
    return "ann"


def log_in(log_ins: LogIns, credentials: Credentials, peer: str) -> str:
    with log_ins.attempt(credentials, peer):
        return authenticate(credentials)


def test_log_ins_that_fail_too_often_are_refused_unseen() -> None:
    """By address; what was accepted before stays accepted, and time makes up for failures."""
    now = [0.0]
    log_ins = LogIns(3, lambda: now[0])
    assert log_in(log_ins, secret("good"), "10.0.0.1:1") == "ann"
    for port in range(3):
        with pytest.raises(AuthenticationError):
            log_in(log_ins, secret(f"guess {port}"), f"10.0.0.1:{port}")
    for guess in ("better", "guess"):
        with pytest.raises(LimitError, match=r"3 log-ins .* from 10\.0\.0\.1 "):
            log_in(log_ins, secret(guess), "10.0.0.1:9")
    assert log_in(log_ins, secret("good"), "10.0.0.1:9") == "ann"
    assert log_in(log_ins, secret("better"), "10.0.0.2:9") == "ann"
    now[0] = 20.0
    with pytest.raises(AuthenticationError):
        log_in(log_ins, secret("guess"), "10.0.0.1:9")
    with pytest.raises(LimitError):
        log_in(log_ins, secret("guess"), "10.0.0.1:9")


def test_all_addresses_of_one_network_of_ipv6_count_as_one() -> None:
    log_ins = LogIns(1, lambda: 0.0)
    with pytest.raises(AuthenticationError):
        log_in(log_ins, secret("guess"), "[2001:db8::1]:1")
    with pytest.raises(LimitError):
        log_in(log_ins, secret("guess"), "[2001:db8::2]:1")
    with pytest.raises(AuthenticationError):
        log_in(log_ins, secret("guess"), "[2001:db8:0:1::2]:1")
