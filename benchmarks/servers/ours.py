"""This project's server.

Tables are written to within its process, as in an application that embeds it.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import barrage_server as bs
from barrage_server.engine import KeyedTable
from barrage_server.process import choose_allocators, collect_new_objects_only
from barrage_server.subscription import SubscriptionLimits
from benchmarks import data
from benchmarks.loop import Loop
from benchmarks.servers.writer import Writer, appended, one_per_view, upserted


class OurTables:
    """The functions of the server's process.

    Attributes:
        server: the server.
        seconds: seconds until it was open.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        interval = settings.get("interval_ms")
        make = bs.Server  # imports it: that is part of another benchmark, of starts
        begin = time.perf_counter()
        self.server = make(
            port=settings.get("port", 0),
            front=settings.get("front", "pyarrow"),
            data_dir=settings.get("data_dir"),
            fsync=settings.get("fsync", "interval"),
            token=settings.get("token"),
            web_port=settings.get("web_port"),
            roles={name: bs.Role(**role) for name, role in settings.get("roles", {}).items()} or None,
            default_roles=settings.get("default_roles", ()),
            subscriptions=SubscriptionLimits()
            if interval is None
            else SubscriptionLimits(default_interval_ms=interval),
        )
        self.seconds = time.perf_counter() - begin
        self._writers: dict[str, Writer] = {}

    def make(
        self, name: str, kind: str, rows: int, rate: float = 0, batch_ms: float = 10, writes: str = "", width: int = 0
    ) -> None:
        """A table of ``rows`` rows.

        Args:
            name: what it is called.
            kind: ``append``, ``ring`` (that is full) or ``keyed``.
            rows: that it has from the start.
            rate: rows that are written to it per second from then on.
            batch_ms: the time from one batch to the next.
            writes: which rows: ``views`` changes one row of each stretch of 100; otherwise new ones at the end, or
                existing ones at random.
            width: capacity of a ring, if it is not ``rows``.
        """
        table: Any
        if kind == "keyed":
            table = self.server.keyed_table(name, data.SCHEMA, key=["id"])
        elif kind == "ring":
            table = self.server.ring_table(name, data.SCHEMA, capacity=width or rows)
        else:
            table = self.server.append_table(name, data.SCHEMA)
        write = table.upsert if kind == "keyed" else table.append
        for batch in data.batches(rows):
            write(batch)
        if rate:
            self.tick(name, rate, batch_ms, writes)

    def tick(self, name: str, rate: float, batch_ms: float, writes: str = "") -> None:
        """Begin to write to a table; see :meth:`make`."""
        table: Any = self.server.table(name)
        keyed = isinstance(table, KeyedTable)
        count = max(1, round(rate * batch_ms / 1000))
        if writes == "views":
            batches = one_per_view(table.size)
        else:
            batches = upserted(table.size, count) if keyed else appended(table.size, count)
        self._writers[name] = Writer(table.upsert if keyed else table.append, batches, batch_ms / 1000)

    def still(self, name: str) -> None:
        """Let a table tick no more."""
        self._writers.pop(name).stop()

    def follow(self, port: int, name: str, interval_ms: int) -> None:
        """Serve a table of another server of this project on."""
        self.server.follow(f"grpc://127.0.0.1:{port}/{name}", interval_ms=interval_ms)

    def drop(self, name: str) -> None:
        """Take a table away."""
        if name in self._writers:
            self.still(name)
        self.server.drop(name)

    def write(self, name: str, count: int, pause_ms: float) -> None:
        """Append ``count`` single rows, each stamped just before its call."""
        table: Any = self.server.table(name)
        row = data.batch(0, 1)
        for _ in range(count):
            table.append(data.stamped(row, time.time()))
            time.sleep(pause_ms / 1000)

    def burst(self, name: str, rows: int, batch: int, pause_ms: float = 0.0) -> list[float]:
        """Write rows as fast as they go, ``batch`` at a time; the seconds of each call.

        Args:
            name: a table. Keyed ones get upserts of existing rows at random, others appends.
            rows: altogether.
            batch: rows per call.
            pause_ms: time between two calls.
        """
        table: Any = self.server.table(name)
        keyed = isinstance(table, KeyedTable)
        write = table.upsert if keyed else table.append
        batches = upserted(table.size, batch) if keyed else appended(table.size, batch)
        took = []
        for _ in range(max(1, rows // batch)):
            stamped = data.stamped(next(batches), time.time())
            begin = time.perf_counter()
            write(stamped)
            took.append(time.perf_counter() - begin)
            if pause_ms:
                time.sleep(pause_ms / 1000)
        return took

    def replace(self, name: str, share: float, times: int) -> list[float]:
        """Replace a keyed table by itself with ``share`` of its rows changed.

        Returns the seconds of each call.
        """
        table: Any = self.server.table(name)
        took = []
        random = np.random.default_rng(2)
        for number in range(times):
            content = table.version.to_table()
            price = content["price"].to_numpy().copy()
            rows = random.choice(len(price), max(1, round(len(price) * share)), replace=False)
            price[rows] = time.time() + number
            changed = content.set_column(data.PRICE, data.SCHEMA.field(data.PRICE), pa.array(price))
            begin = time.perf_counter()
            table.replace(changed)
            took.append(time.perf_counter() - begin)
        return took

    def change(self, name: str, share: float, seed: int) -> int:
        """Write ``share`` of a keyed table's rows anew, in one cycle.

        All columns are written. Returns the number of rows.
        """
        table: Any = self.server.table(name)
        random = np.random.default_rng(seed)
        ids = random.choice(table.size, max(1, round(table.size * share)), replace=False)
        table.upsert(data.stamped(data.rows(np.sort(ids).astype(np.int64), seed), time.time()))
        return len(ids)

    def read_checkpoint(self, folder: str) -> float:
        """Seconds to read the files of a checkpoint with pyarrow alone."""
        files = sorted(Path(folder, "state").rglob("*.parquet"))
        begin = time.perf_counter()
        tables = [pq.read_table(file) for file in files]
        took = time.perf_counter() - begin
        assert tables
        return took

    def close(self) -> None:
        """End."""
        for writer in self._writers.values():
            writer.stop()
        self.server.close()


def main() -> None:
    """Serve until standard input ends."""
    choose_allocators()  # as serve does
    collect_new_objects_only()
    loop = Loop()
    tables = OurTables(loop.settings)
    for function in (
        tables.make,
        tables.tick,
        tables.still,
        tables.drop,
        tables.follow,
        tables.write,
        tables.burst,
        tables.replace,
        tables.change,
        tables.read_checkpoint,
    ):
        loop.function(function)
    loop.run(port=tables.server.port, seconds=tables.seconds, web=tables.server.web_uri)
    tables.close()


if __name__ == "__main__":
    main()
