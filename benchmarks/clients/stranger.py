"""Callers without credentials.

They make calls that are reset at once, handshakes that send nothing, and silent connections.
"""

from __future__ import annotations

import itertools
import socket
import sys
import threading
import time
from contextlib import ExitStack, suppress

from benchmarks.loop import Loop
from tests.faults import raw_http2 as http2

_FLIGHT = "/arrow.flight.protocol.FlightService"
_ADDRESSES = (f"127.0.0.{number if sys.platform == 'linux' else 1}" for number in itertools.count(2))
"""Where each attack comes from: Linux has all addresses of this network, other systems have the one of others, too."""
_PATIENCE = 0.5
"""Seconds that a connection may take to be made."""
_SILENT = 200
_OPEN = 10
loop = Loop()


_held = ExitStack()
_address = "127.0.0.1"


@loop.function
def gather(port: int) -> None:
    """Take another address, and open its silent connections and handshakes."""
    global _address
    _address = next(_ADDRESSES)
    for _ in range(_SILENT):
        _held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(_address, 0)))
    handshake = http2.headers(f"{_FLIGHT}/Handshake")
    for _ in range(_OPEN):
        with suppress(OSError):  # the address may be refused by now
            connection = _held.enter_context(http2.connect(port, _address))
            calls = (http2.frame(http2.HEADERS, http2.END_HEADERS, number, handshake) for number in range(1, 201, 2))
            connection.sendall(b"".join(calls))


@loop.function
def attack(port: int, seconds: float) -> int:
    """Make calls that are reset, for that long; their number."""
    end = time.monotonic() + seconds
    made = 0
    while True:
        with suppress(OSError), http2.connect(port, _address, timeout=_PATIENCE) as connection:
            made += _resets(connection, end)
        if time.monotonic() > end:
            return made


@loop.function
def leave() -> None:
    """Close the connections that were opened at first."""
    _held.close()


def _resets(connection: socket.socket, end: float) -> int:
    """Calls on one connection until the server closes it, or the time is over."""
    block = http2.headers(f"{_FLIGHT}/DoAction")
    reset = b"\0\0\0\x08"

    def discard() -> None:
        with suppress(OSError):
            while connection.recv(1 << 16):
                pass

    threading.Thread(target=discard, daemon=True).start()
    made = 0
    with suppress(OSError):
        for first in range(1, 20_001, 200):
            connection.sendall(
                b"".join(
                    http2.frame(http2.HEADERS, http2.END_HEADERS, number, block)
                    + http2.frame(http2.RST_STREAM, 0, number, reset)
                    for number in range(first, first + 200, 2)
                )
            )
            made += 100
            if time.monotonic() > end:
                break
    return made


if __name__ == "__main__":
    loop.run()
