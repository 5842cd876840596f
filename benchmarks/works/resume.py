"""A subscriber that returns after one row in a hundred has changed.

It runs beside a new one, which gets a snapshot.

No peer sends a difference to one that comes back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Final

import pyarrow.flight as flight

import barrage_server as bs
from barrage_server.engine import ReplicaTable
from benchmarks import systems
from benchmarks.bench import Bench
from benchmarks.exchange import Exchange, connect
from benchmarks.names import OURS

WORK: Final = "coming back after 1 % changed"
SHARE: Final = 0.01


def run(bench: Bench) -> None:
    """Snapshots and resumed streams alternate, on one connection.

    The ratios compare a return with a snapshot, in time and bytes.
    """
    rows = bench.sizes.rows
    with systems.ours() as ours, ExitStack() as stack:
        bench.step("loading")
        ours.make("t", "keyed", rows)
        bench.step("receiving")
        raw = _rounds(bench, _Raw(ours, rows, stack.enter_context(connect(ours.port))))
        bench.step("applying")
        applied = _rounds(bench, _Applied(ours, rows, stack.enter_context(bs.connect(f"grpc://127.0.0.1:{ours.port}"))))
    bench.add(WORK, "bytes, raw", OURS, [back / whole for (whole, _), (back, _) in raw], "of a snapshot")
    for what, found in (("raw", raw), ("applied", applied)):
        bench.add(WORK, f"time, {what}", OURS, [back / whole for (_, whole), (_, back) in found], "of a snapshot")
        bench.add(WORK, f"time of a snapshot, {what}", OURS, [whole for (_, whole), _ in found], "s")
        bench.add(WORK, f"time of coming back, {what}", OURS, [back for _, (_, back) in found], "s")


_Taken = tuple[float, float]
"""Bytes and seconds."""


def _rounds(bench: Bench, client: _Raw | _Applied) -> list[tuple[_Taken, _Taken]]:
    """The costs of a snapshot and of a return, in each round.

    The first round warms up.
    """
    taken = []
    for number in range(bench.sizes.repeats + 1):
        whole = _timed(client.snapshot)
        client.cut_off()
        changed = client.system.process.call("change", name="t", share=SHARE, seed=number + 1)
        taken.append((whole, _timed(partial(client.come_back, changed))))
        client.settle()
    return taken[1:]


def _timed(work: Callable[[], int]) -> _Taken:
    begin = time.perf_counter()
    nbytes = work()
    return nbytes, time.perf_counter() - begin


class _Raw:
    """Receives, and applies to nothing."""

    def __init__(self, system: systems.System, rows: int, client: flight.FlightClient) -> None:
        self.system = system
        self._rows = rows
        self._client = client
        self._point = "?"
        self._exchange: Exchange

    def snapshot(self) -> int:
        """Receive a first content; its bytes."""
        exchange = self._subscribed("?")
        received = exchange.first_content(self._rows)
        self._exchange = exchange
        return received

    def cut_off(self) -> None:
        """Remember the point, and end the stream."""
        self._point = self._exchange.point
        self._exchange.close()

    def come_back(self, changed: int) -> int:
        """Receive what has changed since the last content; its bytes."""
        exchange = self._subscribed(self._point)
        received = exchange.first_content(changed)
        self._exchange = exchange
        return received

    def settle(self) -> None:
        """Check and end the last stream, which does not count."""
        assert not self._exchange.last.is_snapshot
        self._exchange.close()

    def _subscribed(self, resume: str) -> Exchange:
        return Exchange(self._client, "t", 50, deephaven=False, resume=resume)


class _Applied:
    """The client, with a replica."""

    def __init__(self, system: systems.System, rows: int, client: bs.Client) -> None:
        self.system = system
        self._rows = rows
        self._client = client
        self._table: ReplicaTable | None = None

    def snapshot(self) -> int:
        """Subscribe anew."""
        self._table = self._subscribe(None).table
        return 0

    def cut_off(self) -> None:
        """The live table is closed already."""

    def come_back(self, _changed: int) -> int:
        """Subscribe with the replica of the last one."""
        assert self._subscribe(self._table).resumed == 1
        return 0

    def settle(self) -> None:
        """There is nothing left over."""

    def _subscribe(self, onto: ReplicaTable | None) -> bs.LiveTable:
        with self._client.subscribe("t", interval_ms=50, onto=onto) as live:
            assert live.size == self._rows
            return live
