"""A connection is found by its peer and ended, and no other."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from barrage_server.flight.sockets import parse_peer, shut_all, shut_peer, tcp_sockets
from barrage_server.spark.worker import QuickAckSockets


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        yield listener


def connected(listener: socket.socket) -> tuple[socket.socket, socket.socket]:
    client = socket.create_connection(listener.getsockname(), timeout=10)
    accepted, _ = listener.accept()
    accepted.settimeout(10)
    return client, accepted


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:127.0.0.1:50000", ("127.0.0.1", 50000)),
        ("ipv6:[::1]:50000", ("::1", 50000)),
        ("ipv6:%5B::1%5D:50000", ("::1", 50000)),
        ("ipv6:[::ffff:127.0.0.1]:50000", ("127.0.0.1", 50000)),
        ("unix:/run/x", None),
        ("ipv4:nonsense", None),
        ("", None),
    ],
)
def test_peers_are_read_as_flight_writes_them(peer: str, address: tuple[str, int] | None) -> None:
    assert parse_peer(peer) == address


def test_only_the_connection_of_that_peer_is_shut(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    first, first_accepted = connected(listener)
    second, second_accepted = connected(listener)
    with first, first_accepted, second, second_accepted:
        assert shut_peer(f"ipv4:127.0.0.1:{first.getsockname()[1]}", port)
        assert first.recv(1) == b""
        second_accepted.sendall(b"x")
        assert second.recv(1) == b"x"
        assert not shut_peer("ipv4:127.0.0.1:1", port)
        assert not shut_peer("unix:/x", port)


def test_all_connections_of_a_port_are_shut_and_the_listener_lives(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    pairs = [connected(listener) for _ in range(3)]
    assert shut_all(port) == 3
    for client, accepted in pairs:
        with client, accepted:
            assert client.recv(1) == b""
    client, accepted = connected(listener)
    with client, accepted:
        accepted.sendall(b"x")
        assert client.recv(1) == b"x"


@pytest.fixture
def no_more_files() -> Iterator[Callable[[], None]]:
    """Uses up the descriptors that the process may have, when it is called."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used: list[int] = []

    def use_up() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
        with suppress(OSError):
            while True:
                used.append(os.open(os.devnull, os.O_RDONLY))

    try:
        yield use_up
    finally:
        for number in used:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_connection_is_shut_when_no_file_can_be_opened(
    listener: socket.socket, no_more_files: Callable[[], None]
) -> None:
    port = listener.getsockname()[1]
    first, first_accepted = connected(listener)
    second, second_accepted = connected(listener)
    with first, first_accepted, second, second_accepted:
        no_more_files()
        with pytest.raises(OSError, match="Too many open files"):
            os.open(os.devnull, os.O_RDONLY)
        assert shut_peer(f"ipv4:127.0.0.1:{first.getsockname()[1]}", port)
        assert first.recv(1) == b""
        second_accepted.sendall(b"x")
        assert second.recv(1) == b"x"
        assert shut_all(port) >= 1
        assert second.recv(1) == b""


def test_a_borrowed_socket_stays_as_its_owner_has_set_it(listener: socket.socket) -> None:
    """gRPC waits for events on its sockets, and reads them without blocking: setting an option must not change that."""
    client, accepted = connected(listener)
    with client, accepted:
        for timeout in (0.0, None):
            accepted.settimeout(timeout)
            assert accepted.getpeername() in [_peer(each) for each in tcp_sockets()]
            with QuickAckSockets() as sockets:
                sockets.acknowledge()
                assert os.get_blocking(accepted.fileno()) is (timeout is None)
            shut_peer("127.0.0.1:1", listener.getsockname()[1])
            assert os.get_blocking(accepted.fileno()) is (timeout is None)


def _peer(connection: socket.socket) -> object:
    with suppress(OSError):
        return connection.getpeername()
    return None
