"""A server in a process of its own, told what to do by JSON lines: ``python -m benchmarks.host ours|bare``."""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight

from benchmarks import data

LOAD_STEP = 1 << 20


class BareServer(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """The limit: a Flight server that only hands out record batches that it has in memory."""

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        super().__init__("grpc://127.0.0.1:0")

    def do_get(self, _context: flight.ServerCallContext, _ticket: flight.Ticket) -> flight.RecordBatchStream:
        reader = pa.RecordBatchReader.from_batches(data.SCHEMA, iter(self.batches))
        return flight.RecordBatchStream(reader)


class BareHost:
    """Commands of the bare server."""

    def __init__(self) -> None:
        self.server = BareServer()
        self.uri = f"grpc://127.0.0.1:{self.server.port}"

    def load(self, rows: int, **_: Any) -> None:
        batches = [data.batch(first, min(65536, rows - first), first) for first in range(0, rows, 65536)]
        self.server.batches = batches

    def close(self) -> None:
        self.server.shutdown()


class OurHost:
    """Commands of this project's server."""

    def __init__(self) -> None:
        import barrage_server as bs

        self.server = bs.Server(host="127.0.0.1", port=0)
        self.server.__enter__()
        self.uri = self.server.uri
        self.tables: dict[str, Any] = {}

    def load(self, rows: int, table: str = "t", kind: str = "append") -> None:
        """Fill a table with ``rows`` rows."""
        made: Any
        if kind == "keyed":
            made = self.server.keyed_table(table, data.SCHEMA, key=["id"])
        elif kind == "ring":
            made = self.server.ring_table(table, data.SCHEMA, capacity=rows)
        else:
            made = self.server.append_table(table, data.SCHEMA)
        add = made.upsert if kind == "keyed" else made.append
        self.tables[table] = made
        for first in range(0, rows, LOAD_STEP):
            add(data.batch(first, min(LOAD_STEP, rows - first), first))

    def publish(
        self, table: str, rows: int, cycles: int, pause_ms: float = 0.0, within: int = 0, first: int = 0
    ) -> dict[str, Any]:
        """Publish ``cycles`` batches of ``rows`` rows; the seconds that each call took.

        Args:
            table: which one.
            rows: rows per batch.
            cycles: how many batches.
            pause_ms: time from the start of one batch to the start of the next; 0: as fast as they go.
            within: for keyed tables, ids are drawn from 0 to this.
            first: for append tables, the first id.
        """
        target = self.tables[table]
        random = np.random.default_rng(1)
        batches = []
        for cycle in range(min(cycles, 64)):
            if within:
                ids = np.sort(random.choice(within, rows, replace=False)) if rows * 4 < within else np.arange(rows)
                batches.append(data.rows(ids, cycle))
            else:
                batches.append(data.batch(first + cycle * rows, rows, cycle))
        took = []
        start = time.perf_counter()
        for cycle in range(cycles):
            begin = time.perf_counter()
            if within:
                target.upsert(batches[cycle % len(batches)])
            else:
                target.append(batches[cycle % len(batches)])
            took.append(time.perf_counter() - begin)
            if pause_ms:
                time.sleep(max(0.0, start + (cycle + 1) * pause_ms / 1000 - time.perf_counter()))
        return {"seconds": time.perf_counter() - start, "took": took}

    def stamp(self, table: str, cycles: int, pause_ms: float) -> None:
        """Append rows whose id is the time of writing, in nanoseconds of the system's monotonic clock."""
        target = self.tables[table]
        template = data.batch(0, 1)
        for _ in range(cycles):
            stamped = template.set_column(0, data.SCHEMA.field(0), pa.array([time.monotonic_ns()]))
            target.append(stamped)
            time.sleep(pause_ms / 1000)

    def close(self) -> None:
        self.server.close()


def memory() -> dict[str, int]:
    """Resident bytes now."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"resident": pages * resource.getpagesize()}


def cpu() -> dict[str, float]:
    """Seconds of processor time used so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {"seconds": used.ru_utime + used.ru_stime}


def main(kind: str) -> None:
    """Serve until standard input ends."""
    host = OurHost() if kind == "ours" else BareHost()
    print(json.dumps({"uri": host.uri}), flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        name = command.pop("do")
        result = {"memory": memory, "cpu": cpu}[name]() if name in ("memory", "cpu") else getattr(host, name)(**command)
        print(json.dumps(result), flush=True)
    host.close()


if __name__ == "__main__":
    main(sys.argv[1])
