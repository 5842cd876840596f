"""A server with a token in a process of its own, whose threads, descriptors and bytes can be looked at."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import barrage_server as bs

_SERVER = """
import ctypes, gc, sys, threading
import barrage_server as bs
from barrage_server.process import raise_descriptor_limit

class Heap(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "_0 _1 _2 _3 mapped _5 _6 used _8 _9".split()]

look = ctypes.CDLL(None).mallinfo2
look.restype = Heap
highest = 0

def used():
    heap = look()
    return heap.used + heap.mapped

def watch():
    global highest
    while not threading.Event().wait(0.01):
        highest = max(highest, used())

threading.Thread(target=watch, daemon=True).start()
raise_descriptor_limit()
limits = bs.Limits(
    credential_seconds=float(sys.argv[1]), handshake_seconds=2.0, handshakes=50, refused_address_seconds=1.0
)
with bs.Server(token="good", front="grpc", limits=limits) as server:
    server.append_table("t", {"n": "int64"}).append({"n": [1]})
    server.append_table("large", {"n": "int64"}).append({"n": range(100_000)})
    print(server.port, flush=True)
    for _ in sys.stdin:
        gc.collect()
        print(highest, used(), flush=True)
        highest = 0
"""


@dataclass
class Figures:
    """Figures of a process."""

    threads: int
    descriptors: int
    resident: int


class Guarded:
    """A server with a token, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.port = int(process.stdout.readline())

    def figures(self) -> Figures:
        """What it has now."""
        folder = Path(f"/proc/{self.process.pid}")
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
        return Figures(
            int(status["Threads"]), len([*(folder / "fd").iterdir()]), int(status["VmRSS"].removesuffix("kB")) << 10
        )

    def heap(self) -> tuple[int, int]:
        """The bytes of the C heap in use: the most since the last call, and those in use now."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("?\n")
        self.process.stdin.flush()
        highest, now = self.process.stdout.readline().split()
        return int(highest), int(now)

    def serves(self) -> None:
        """A client with the token is served."""
        with bs.connect(f"grpc://127.0.0.1:{self.port}", token="good", timeout=30) as client:
            assert client.snapshot("t").num_rows == 1


@contextmanager
def guarded(credential_seconds: float = 2.0) -> Iterator[Guarded]:
    """A running server with that limit; it is still there when the ``with`` body ends."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", _SERVER, str(credential_seconds)], **pipes) as process:
        try:
            server = Guarded(process)
            for _ in range(3):
                server.serves()
            yield server
            assert process.poll() is None
        finally:
            process.kill()
