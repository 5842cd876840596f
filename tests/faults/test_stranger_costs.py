"""What callers without credentials cost a server behind the gRPC front: counts of threads, descriptors and bytes.

The server is a process of its own. Each test is one attack, which is repeated; a client with the token is served
meanwhile. When the attack is over threads and descriptors are as before, and the repetition leaves no bytes in use.
Resident memory stays higher, up to a bound: allocators keep some of what was used.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

import grpc
import pytest

from tests.faults import raw_http2 as http2
from tests.faults.guarded import Figures, Guarded, guarded
from tests.live.proxy import Proxy
from tests.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

FLIGHT = "/arrow.flight.protocol.FlightService"
STRANGER = "127.0.0.2"
"""The address of those whose calls are many: it may not connect for a while then."""
MOST_THREADS = 10
MOST_BYTES = 64 << 20
"""Bytes in use of the C heap during an attack."""
MOST_RESIDENT = 128 << 20
"""Resident bytes during an attack. Free bytes between used ones, in several arenas, come to some 80 MiB."""
MOST_LEFT = 200 << 10
"""Bytes in use that the repetition of an attack may leave. An attack has 1,500 calls: 300 bytes each are more."""
LEFT = 2
"""Threads, and descriptors, by which a server may differ from before: gRPC starts and ends some as it sees fit."""
BACK_SECONDS = 10.0


@pytest.fixture
def server() -> Iterator[Guarded]:
    with guarded() as running:
        yield running


class Highest:
    """The highest figures while the ``with`` body runs."""

    def __init__(self, server: Guarded) -> None:
        self._server = server
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self.peak = server.figures()

    def _look(self) -> None:
        while not self._over.wait(0.01):
            now = self._server.figures()
            self.peak = Figures(
                max(self.peak.threads, now.threads),
                max(self.peak.descriptors, now.descriptors),
                max(self.peak.resident, now.resident),
            )

    def __enter__(self) -> Highest:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def rapid_reset(server: Guarded, held: ExitStack) -> None:
    """Calls that are opened and reset at once, 20,000 on one connection."""
    connection = held.enter_context(http2.connect(server.port, STRANGER))
    block = http2.headers(f"{FLIGHT}/DoAction")
    discard(connection, held)
    with suppress(OSError):
        for hundred in range(200):
            numbers = range(1 + 200 * hundred, 201 + 200 * hundred, 2)
            connection.sendall(
                b"".join(
                    http2.frame(http2.HEADERS, http2.END_HEADERS, number, block)
                    + http2.frame(http2.RST_STREAM, 0, number, b"\0\0\0\x08")
                    for number in numbers
                )
            )


def silent_connections(server: Guarded, held: ExitStack) -> None:
    """Connections that say nothing at all."""
    for _ in range(500):
        held.enter_context(
            socket.create_connection(("127.0.0.1", server.port), timeout=20, source_address=(STRANGER, 0))
        )


def idle_connections(server: Guarded, held: ExitStack) -> None:
    """Connections that say hello, and make no call."""
    for _ in range(500):
        held.enter_context(http2.connect(server.port, STRANGER))


def empty_handshakes(server: Guarded, held: ExitStack) -> None:
    """Handshakes that never say who calls, on few connections."""
    opened(server, held, f"{FLIGHT}/Handshake")


def open_calls(server: Guarded, held: ExitStack) -> None:
    """Calls of services that need no credentials, and that ask for nothing."""
    opened(server, held, "/grpc.health.v1.Health/Watch")


def uploads_without_credentials(server: Guarded, held: ExitStack) -> None:
    """Calls whose messages would be long."""
    opened(server, held, f"{FLIGHT}/DoPut", http2.frame(http2.DATA, 0, 0, b"\0\4\0\0\0" + bytes(1 << 13)))


def endless_headers(server: Guarded, held: ExitStack) -> None:
    """Headers of a call that do not end."""
    for _ in range(20):
        connection = held.enter_context(http2.connect(server.port, STRANGER))
        discard(connection, held)
        block = http2.headers(f"{FLIGHT}/DoGet", *((f"x-{number}", "y" * 8000) for number in range(2)))
        with suppress(OSError):
            connection.sendall(http2.frame(http2.HEADERS, 0, 1, block[: 1 << 14]))
            for _ in range(500):
                connection.sendall(http2.frame(http2.CONTINUATION, 0, 1, http2.headers("/x", ("z", "y" * 8000))))


def large_messages(server: Guarded, held: ExitStack) -> None:
    """Messages of 128 MiB each without a token."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    large = bytes(128 << 20)
    for _ in range(3):
        channel: Any = held.enter_context(grpc.insecure_channel(f"127.0.0.1:{server.port}", options=options))
        with pytest.raises(grpc.RpcError) as refused:
            list(channel.stream_stream(f"{FLIGHT}/DoPut")(iter([large]), timeout=60))
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def wrong_tokens(server: Guarded, held: ExitStack) -> None:
    """A thousand guesses: after sixty they are not looked at any more, and connections end that make too many."""
    proxy = held.enter_context(Proxy(server.port, STRANGER))  # gRPC cannot choose the address that it calls from
    channel: Any = held.enter_context(grpc.insecure_channel(f"127.0.0.1:{proxy.port}"))
    call = channel.unary_stream(f"{FLIGHT}/ListFlights")
    codes: list[grpc.StatusCode] = []
    for number in range(1000):
        with pytest.raises(grpc.RpcError) as refused:
            list(call(b"", metadata=[("authorization", f"Bearer guess{number}")], timeout=60))
        codes.append(refused.value.code())
    # Refused by the calls' status, or because the connection has ended, or does not come about.
    refusals = {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE}
    looked_at = next(number for number, code in enumerate(codes) if code in refusals)
    assert looked_at >= 60 or looked_at < 30, "few, when there were as many within the same minute"
    assert sum(code in refusals for code in codes) > 800


def opened(server: Guarded, held: ExitStack, method: str, then: bytes = b"") -> None:
    """1,500 calls on 15 connections that are not ended."""
    block = http2.headers(method)
    for _ in range(15):
        connection = held.enter_context(http2.connect(server.port, STRANGER))
        discard(connection, held)
        with suppress(OSError):
            for number in range(1, 201, 2):
                connection.sendall(http2.frame(http2.HEADERS, http2.END_HEADERS, number, block))
                if then:
                    connection.sendall(then[:5] + number.to_bytes(4, "big") + then[9:])


def discard(connection: socket.socket, held: ExitStack) -> None:
    """Read what comes, as a client would."""

    def read() -> None:
        with suppress(OSError):
            while connection.recv(1 << 16):
                pass

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    held.callback(reader.join, 20)
    held.callback(_shut, connection)


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


ATTACKS: list[Callable[[Guarded, ExitStack], None]] = [
    rapid_reset,
    silent_connections,
    idle_connections,
    empty_handshakes,
    open_calls,
    uploads_without_credentials,
    endless_headers,
    large_messages,
    wrong_tokens,
]


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_strangers_cost_little_and_leave_nothing(
    server: Guarded, attack: Callable[[Guarded, ExitStack], None], record_property: Callable[[str, object], None]
) -> None:
    before = server.figures()

    def is_back() -> bool:
        now = server.figures()
        return now.threads <= before.threads + LEFT and now.descriptors <= before.descriptors + LEFT

    _, used_before = server.heap()
    left = [used_before]
    for round_ in ("first", "again", "a third time"):
        with ExitStack() as held, Highest(server) as highest:
            attack(server, held)
            server.serves()
        peak = highest.peak
        server.serves()
        until(is_back, BACK_SECONDS)
        most_used, used = server.heap()
        left.append(used)
        record_property(f"threads, {round_}", peak.threads - before.threads)
        record_property(f"mebibytes, {round_}", (most_used - used_before) >> 20)
        print(f"{attack.__name__}, {round_}: {before} -> {peak}; {used_before:,} in use -> {most_used:,} -> {used:,}")
        assert peak.threads - before.threads <= MOST_THREADS
        assert most_used - used_before <= MOST_BYTES
        assert peak.resident - before.resident <= MOST_RESIDENT
        if round_ != "first" and left[-1] - left[-2] <= MOST_LEFT:
            return
    pytest.fail(f"bytes in use before, and after each repetition: {left}")


@pytest.mark.parametrize("attack", [silent_connections, idle_connections], ids=lambda attack: attack.__name__)
def test_connections_without_credentials_are_ended_by_the_server(
    server: Guarded, attack: Callable[[Guarded, ExitStack], None]
) -> None:
    """Their clients hold them, and the descriptors are free all the same."""
    before = server.figures()
    with ExitStack() as held:
        attack(server, held)
        until(lambda: server.figures().descriptors <= before.descriptors + LEFT, 30.0)
        server.serves()
