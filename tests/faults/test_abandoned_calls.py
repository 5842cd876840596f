"""Calls of clients that vanish leave nothing in a server behind the gRPC front.

gRPC itself would leave some 300 bytes of each: see ``barrage_server.server.deephaven.grpc_batches``.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack

import pytest

from tests.faults import raw_http2 as http2
from tests.faults.guarded import Guarded, guarded
from tests.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks glibc")

CONNECTIONS, CALLS = 10, 100
WARM, MEASURED = 3, 3
"""Repetitions. The first ones leave what later ones use again; a leak is in each of them."""
MOST_LEFT = 80
"""Bytes that a call may leave in use on average, for what comes and goes besides: a batch of gRPC's has 80 to 240."""
TICKET = b"\x0a\x05large"


@pytest.mark.parametrize(
    ("method", "message"),
    [("DoPut", None), ("DoExchange", None), ("DoGet", TICKET)],
    ids=["an upload that sends nothing", "an exchange that sends nothing", "a download that is not read"],
)
def test_calls_of_clients_that_vanish_leave_nothing(method: str, message: bytes | None) -> None:
    with guarded(credential_seconds=60.0) as server:
        for _ in range(WARM):
            vanish(server, method, message)
        most = settled(server) + MEASURED * CONNECTIONS * CALLS * MOST_LEFT
        for _ in range(MEASURED):
            vanish(server, method, message)
        until(lambda: server.heap()[1] <= most, 30.0, f"at most {most:,} bytes in use")


def vanish(server: Guarded, method: str, message: bytes | None) -> None:
    """Open calls with credentials on several connections, and end the connections while the server waits."""
    block = http2.headers(f"/arrow.flight.protocol.FlightService/{method}", ("authorization", "Bearer good"))
    with ExitStack() as held:
        for _ in range(CONNECTIONS):
            connection = held.enter_context(http2.connect(server.port, "127.0.0.1"))
            for number in range(1, 2 * CALLS, 2):
                connection.sendall(http2.frame(http2.HEADERS, http2.END_HEADERS, number, block))
                if message is not None:
                    framed = b"\0" + len(message).to_bytes(4, "big") + message
                    connection.sendall(http2.frame(http2.DATA, http2.END_STREAM, number, framed))
        server.serves()  # so that it has seen them


def settled(server: Guarded) -> int:
    """The bytes in use, when ended calls have been cleared up."""
    lowest, since = server.heap()[1], time.monotonic()
    while time.monotonic() < since + 1:
        now = server.heap()[1]
        if now < lowest:
            lowest, since = now, time.monotonic()
    return lowest
