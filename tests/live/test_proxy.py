"""The proxy passes everything on, cuts, stalls, and leaves neither threads nor sockets."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import pytest

from tests.live.process import Figures
from tests.live.proxy import Proxy
from tests.waiting import until


@pytest.fixture
def echo() -> Iterator[int]:
    """A port that sends back what comes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with connection:
            try:
                while piece := connection.recv(1 << 16):
                    connection.sendall(piece)
            except OSError:
                return

    threading.Thread(target=serve, daemon=True).start()
    yield int(listener.getsockname()[1])
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=20)


def test_it_passes_on_and_cuts(echo: int) -> None:
    with Proxy(echo) as proxy, connect(proxy) as client:
        client.sendall(b"hello")
        assert client.recv(5, socket.MSG_WAITALL) == b"hello"
        assert proxy.cut() == 1
        assert client.recv(1) == b""
        until(lambda: proxy.connections == 0, what="the connection is forgotten")


def test_what_it_holds_up_comes_later(echo: int) -> None:
    with Proxy(echo) as proxy, connect(proxy) as client:
        proxy.stall()
        client.sendall(b"hello")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        proxy.resume()
        client.settimeout(20)
        assert client.recv(5, socket.MSG_WAITALL) == b"hello"


def test_what_it_holds_up_is_counted_wherever_it_stands(echo: int) -> None:
    """A thread may be about to read, and take a piece, or have seen the stall already, and leave all in the socket."""
    with Proxy(echo) as proxy, connect(proxy) as client, client.makefile("rb") as answer:
        client.sendall(b"x")
        assert answer.read(1) == b"x"
        proxy.stall()
        client.sendall(b"yyy")
        until(lambda: proxy.held == 3, what="the first piece is held")
        client.sendall(b"yyyy")
        until(lambda: proxy.held == 7, what="the second does, in the socket")
        proxy.resume()
        assert answer.read(7) == b"y" * 7
        assert proxy.held == 0


def test_connections_to_a_target_that_is_away_end(echo: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nothing:
        port = int(nothing.getsockname()[1])
    with Proxy(port) as proxy, connect(proxy) as client:
        assert client.recv(1) == b""


def test_it_leaves_nothing_behind(echo: int) -> None:
    before = Figures.of(os.getpid())
    for _ in range(5):
        with Proxy(echo) as proxy, connect(proxy) as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"

    def is_back() -> bool:
        now = Figures.of(os.getpid())
        return now.threads <= before.threads and now.descriptors <= before.descriptors

    until(is_back, what="threads and descriptors are back")
