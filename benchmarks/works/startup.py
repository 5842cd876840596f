"""From the start of a process to the first byte that it serves."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import pyarrow.flight as flight

from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.exchange import connect
from benchmarks.names import DEEPHAVEN, OURS, PERSPECTIVE
from benchmarks.perspective import perspective

WORK: Final = "start-up"
WHAT: Final = "to first byte"
CONFIG: Final = """
[[tables]]
name = "t"
columns = { id = "int64" }
"""
_LIMIT_SECONDS: Final = 30.0


def run(bench: Bench) -> None:
    """For this project, the command line with a declared table."""
    bench.add(WORK, WHAT, OURS, [_ours(bench) for _ in range(bench.sizes.repeats)], "s")
    bench.peer(DEEPHAVEN, lambda: _deephaven(bench))
    bench.peer(PERSPECTIVE, lambda: _perspective(bench))


def _ours(bench: Bench) -> float:
    bench.step("starting")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    begin = time.perf_counter()
    serve = [str(Path(sys.executable).parent / "barrage-server"), "serve", "--allow-anonymous"]
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        config.write(CONFIG)
        config.flush()
        process = subprocess.Popen(
            [*serve, "--port", str(port), "--config", config.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        return _first_byte(process, port, begin)


def _first_byte(process: subprocess.Popen[bytes], port: int, begin: float) -> float:
    try:
        while not _accepts(port):
            if process.poll() is not None or time.perf_counter() - begin > _LIMIT_SECONDS:
                raise OSError("the server did not start")
            time.sleep(0.002)
        with connect(port) as client:
            while not _has_table(client):
                time.sleep(0.002)
            return time.perf_counter() - begin
    finally:
        process.terminate()
        process.wait(15)


def _has_table(client: flight.FlightClient) -> bool:
    """Whether the table can be read: it is declared a moment after the port is open."""
    try:
        return bool(client.do_get(flight.Ticket(b"s/t")).schema)
    except KeyError:
        return False


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _deephaven(bench: Bench) -> None:
    begin = time.perf_counter()
    with systems.deephaven(cycle_ms=100, interval_ms=100, heap=bench.sizes.heap) as system:
        system.make("t", "append", 1)
        system.get("t")
        bench.add(WORK, WHAT, DEEPHAVEN, [time.perf_counter() - begin], "s")


def _perspective(bench: Bench) -> None:
    begin = time.perf_counter()
    with perspective(with_client=False) as system:
        system.make("t", "append", 1)
        bench.add(WORK, WHAT, PERSPECTIVE, [time.perf_counter() - begin], "s")
