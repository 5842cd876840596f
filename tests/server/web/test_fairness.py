"""One page cannot hold up the others: what it does not take is not made, what takes long is done beside the loop."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.server.plans import compute_from
from barrage_server.wire.nested_text import nested_text
from barrage_server.wire.page_messages import SUBPROTOCOL
from tests.server.web.page_client import greeted
from tests.waiting import until

MOST_FRAMES = 2_000_000
"""Far more than any buffer between the two holds."""


@pytest.fixture
def server() -> Iterator[bs.Server]:
    with bs.Server(web_port=0) as made:
        made.append_table("t", {"k": "int64", "text": "string"}).append(
            {"k": list(range(2000)), "text": ["x" * 500] * 2000}
        )
        yield made


def deaf(server: bs.Server) -> socket.socket:
    """A page that has said hello, opened sixteen streams, and reads nothing."""
    address = urlsplit(server.web_uri or "")
    connection = socket.create_connection((address.hostname, address.port or 0), timeout=20)
    key = base64.b64encode(os.urandom(16)).decode()
    connection.sendall(
        f"GET /live HTTP/1.1\r\nHost: {address.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n".encode()
    )
    assert b"101" in connection.recv(64)
    connection.sendall(frame(0x81, b'{"type":"hello","version":1}'))
    for number in range(1, 17):
        opening = {"type": "open", "stream": number, "table": "t", "first": 0, "count": 2000}
        connection.sendall(frame(0x81, json.dumps(opening).encode()))
    return connection


def frame(head: int, payload: bytes) -> bytes:
    """A masked frame of a client; the mask is zero."""
    size = len(payload)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack(">H", size)
    return bytes([head]) + length + b"\0\0\0\0" + payload


def send_until_blocked(connection: socket.socket, frames: Iterator[bytes]) -> None:
    """Send until the server reads no more; fails when it reads on and on."""
    connection.settimeout(1.0)
    for _ in range(MOST_FRAMES // 1000):
        chunk = b"".join(next(frames) for _ in range(1000))
        try:
            connection.sendall(chunk)
        except TimeoutError:
            return
    pytest.fail("the server reads on")


def opens() -> Iterator[bytes]:
    for number in range(17, MOST_FRAMES * 2):
        yield frame(0x81, b'{"type":"open","stream":%d,"table":"t","first":0,"count":1}' % number)


def pings() -> Iterator[bytes]:
    while True:
        yield frame(0x89, b"x" * 125)


@pytest.mark.parametrize("frames", [opens, pings])
def test_a_page_that_takes_no_answers_is_read_no_further(
    server: bs.Server, frames: Callable[[], Iterator[bytes]]
) -> None:
    with greeted(server) as other, deaf(server) as connection:
        send_until_blocked(connection, frames())
        other.settle(other.open(1, "t", count=5), lambda it: it.updates)
        connection.close()
        other.send(type="ping", n=1)
        other.until("pong")
    until(lambda: not server.statistics().streams)


def test_nested_cells_are_written_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()

    def noted(cell: pa.Scalar, most: int) -> str:
        threads.add(threading.current_thread().name)
        return nested_text(cell, most)

    monkeypatch.setattr("barrage_server.wire.browser_types.nested_text", noted)
    with bs.Server(web_port=0) as server:
        server.append_table("t", pa.schema([("l", pa.list_(pa.int64()))])).append({"l": [[1, 2]] * 100})
        with greeted(server) as client:
            view = client.open(1, "t", count=50)
            client.settle(view, lambda it: it.updates)
            client.send(type="move", stream=1, first=50, count=50)
            client.settle(view, lambda it: it.first == 50)
    assert threads
    assert "barrage-pages" not in threads


def test_a_page_computes_one_table_at_a_time(server: bs.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def counted(*arguments: Any) -> Any:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        try:
            return compute_from(*arguments)
        finally:
            with lock:
                running -= 1

    monkeypatch.setattr("barrage_server.server.web.service.compute_from", counted)
    with greeted(server) as client:
        views = [client.open(number, "t", count=1, where=[f"k > {number}"]) for number in range(1, 9)]
        for view in views:
            client.settle(view, lambda it: it.updates)
            assert view.ended is None
    assert most == 1
