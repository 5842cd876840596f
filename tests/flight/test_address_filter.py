"""The operating system refuses connections from some addresses to listening sockets."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest

from barrage_server.flight.address_filter import MOST_ADDRESSES, AddressFilter

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="sockets have filters on Linux")


@pytest.fixture(params=["127.0.0.1", "::"], ids=["IPv4", "both"])
def listening(request: pytest.FixtureRequest) -> Iterator[socket.socket]:
    if request.param == "::" and not socket.has_dualstack_ipv6():
        pytest.skip("there is no IPv6 here")
    family = socket.AF_INET6 if request.param == "::" else socket.AF_INET
    with socket.create_server((request.param, 0), family=family, dualstack_ipv6=request.param == "::") as made:
        yield made


def connects(listening: socket.socket, source: str) -> bool:
    """Whether a connection from an address is taken."""
    target = "::1" if ":" in source else "127.0.0.1"
    try:
        with socket.create_connection((target, listening.getsockname()[1]), 0.3, source_address=(source, 0)):
            return True
    except TimeoutError:
        return False


def test_refused_addresses_cannot_connect_and_others_can(listening: socket.socket) -> None:
    """Also beside as many others as a filter takes."""
    port, addresses = listening.getsockname()[1], AddressFilter()
    many = [f"10.0.{number >> 8}.{number & 255}" for number in range(MOST_ADDRESSES - 1)]
    for refused in (["127.0.0.2"], [*many, "127.0.0.2"]):
        addresses.refuse([port], refused)
        assert not connects(listening, "127.0.0.2")
        assert connects(listening, "127.0.0.3")
    addresses.refuse([port], ["127.0.0.3"])
    assert connects(listening, "127.0.0.2")
    assert not connects(listening, "127.0.0.3")
    addresses.refuse([port], [])
    assert connects(listening, "127.0.0.3")
    assert addresses.refused == frozenset()


def test_a_list_that_the_system_does_not_take_leaves_the_one_before(listening: socket.socket) -> None:
    port, addresses = listening.getsockname()[1], AddressFilter()
    addresses.refuse([port], ["127.0.0.2"])
    too_many = [f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}" for number in range(5_000)]
    addresses.refuse([port], [*too_many, "127.0.0.3"])
    assert addresses.refused == {"127.0.0.2"}
    assert not connects(listening, "127.0.0.2")
    assert connects(listening, "127.0.0.3")
    addresses.refuse([port], [])
    assert addresses.refused == frozenset()


def test_a_connection_that_is_open_stays(listening: socket.socket) -> None:
    port, addresses = listening.getsockname()[1], AddressFilter()
    with socket.create_connection(("127.0.0.1", port), 10, source_address=("127.0.0.2", 0)) as opened:
        accepted, _ = listening.accept()
        with accepted:
            addresses.refuse([port], ["127.0.0.2"])
            opened.sendall(b"here")
            assert accepted.recv(10) == b"here"
            assert not connects(listening, "127.0.0.2")


def test_another_port_takes_all(listening: socket.socket) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        AddressFilter().refuse([other.getsockname()[1]], ["127.0.0.2"])
        assert connects(listening, "127.0.0.2")
        assert not connects(other, "127.0.0.2")


def test_a_network_of_ipv6_cannot_connect() -> None:
    """Of an address, its first 64 bits count."""
    if not socket.has_dualstack_ipv6():
        pytest.skip("there is no IPv6 here")
    many = [f"2001:db8:{number:x}::/64" for number in range(MOST_ADDRESSES - 1)]
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listening:
        port, addresses = listening.getsockname()[1], AddressFilter()
        addresses.refuse([port], ["127.0.0.1", "::1:0:0:0:0/64", *many[:-1]])
        assert connects(listening, "::1")
        addresses.refuse([port], ["127.0.0.1", "::/64", *many[:-1]])
        assert not connects(listening, "::1")
