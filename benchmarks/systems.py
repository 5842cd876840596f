"""The compared systems, from the benchmark's side.

All are started, told what to do and connected to in the same way.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow.flight as flight

from benchmarks.environments import python_of
from benchmarks.exchange import Exchange, Receiver, connect, options_for
from benchmarks.machine import cpu_seconds, resident_bytes
from benchmarks.names import BARE, DEEPHAVEN, OURS
from benchmarks.process import Process

__all__ = ["System", "bare", "deephaven", "deephaven_process", "ours"]


class System:
    """A server that runs, and connections to it.

    Attributes:
        name: of the system.
        process: the server's.
    """

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self.port: int = process.hello["port"]

    @property
    def is_deephaven(self) -> bool:
        """Whether Deephaven's rules of log-in and nulls hold."""
        return self.name == DEEPHAVEN

    def make(self, name: str, kind: str, rows: int, **more: Any) -> None:
        """A table; see :meth:`benchmarks.servers.ours.OurTables.make`."""
        self.process.call("make", name=name, kind=kind, rows=rows, **more)

    def drop(self, name: str) -> None:
        """Take a table away."""
        self.process.call("drop", name=name)

    @contextmanager
    def ticking(self, name: str, rate: float, batch_ms: float) -> Iterator[None]:
        """Write rows at a rate while the body runs.

        Deephaven's tables tick from their creation instead.
        """
        self.process.call("tick", name=name, rate=rate, batch_ms=batch_ms)
        try:
            yield
        finally:
            self.process.call("still", name=name)

    def get(self, name: str) -> int:
        """Read a table by DoGet; its rows."""
        with connect(self.port) as client:
            ticket = flight.Ticket(f"s/{name}".encode())
            return sum(chunk.data.num_rows for chunk in client.do_get(ticket, options_for(deephaven=self.is_deephaven)))

    @contextmanager
    def subscribed(self, name: str, interval_ms: int, viewport: tuple[int, int] | None = None) -> Iterator[Exchange]:
        """A subscription over a connection of its own, by the raw client."""
        with connect(self.port) as client:
            exchange = Exchange(client, name, interval_ms, deephaven=self.is_deephaven, viewport=viewport)
            try:
                yield exchange
            finally:
                exchange.cancel()

    @contextmanager
    def receiving(
        self, name: str, interval_ms: int, viewport: tuple[int, int] | None = None, *, stamps: bool = True
    ) -> Iterator[Receiver]:
        """A subscription whose messages a thread receives."""
        with self.subscribed(name, interval_ms, viewport) as exchange:
            receiver = Receiver(exchange, stamps=stamps)
            try:
                yield receiver
            finally:
                receiver.stop()

    def cpu_seconds(self) -> float:
        """Processor time that the server has used so far."""
        return cpu_seconds(self.process.pid)

    def resident_bytes(self) -> int:
        """Memory of the server's process that is in RAM."""
        return resident_bytes(self.process.pid)


@contextmanager
def ours(**settings: Any) -> Iterator[System]:
    """This project's server."""
    with Process("benchmarks.servers.ours", settings) as process:
        yield System(OURS, process)


@contextmanager
def bare() -> Iterator[System]:
    """A Flight server that does nothing but send what it has."""
    with Process("benchmarks.servers.bare") as process:
        yield System(BARE, process)


@contextmanager
def deephaven(*, cycle_ms: int, interval_ms: int, heap: str = "6g") -> Iterator[System]:
    """Deephaven's server.

    It is slow at first: warm it up with the work to measure.

    Raises:
        MissingPeerError: it is not installed.
    """
    with deephaven_process("deephaven", cycle_ms=cycle_ms, interval_ms=interval_ms, heap=heap) as process:
        yield System(DEEPHAVEN, process)


@contextmanager
def deephaven_process(module: str, *, cycle_ms: int, interval_ms: int, heap: str) -> Iterator[Process]:
    """A module of :mod:`benchmarks.servers` that runs Deephaven's server.

    Raises:
        MissingPeerError: it is not installed.
    """
    state = tempfile.mkdtemp(prefix="bench-deephaven-")
    settings = {"cycle_ms": cycle_ms, "interval_ms": interval_ms, "heap": heap, "state": state}
    try:
        python = python_of("deephaven")
        environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
        with Process(f"benchmarks.servers.{module}", settings, python=python, environment=environment) as process:
            yield process
    finally:
        shutil.rmtree(state, ignore_errors=True)
