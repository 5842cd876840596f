"""The costs of a data directory.

They are rates of durable puts, the commit that waits for the disk, memory, and the restart.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.flight as flight

from barrage_server.engine import UpdateGraph
from barrage_server.server.durability import Durability
from barrage_server.server.fsync import Fsync
from benchmarks import data, systems
from benchmarks.bench import Bench
from benchmarks.exchange import connect
from benchmarks.machine import MIB
from benchmarks.names import DURABLE, OURS

PUTS: Final = "puts of {0:,} rows, in memory or durable"
COMMIT: Final = "a put of 100 rows that waits for the disk"
MEMORY: Final = "memory of a durable table"
RESTART: Final = "restart of a durable table"
RATE: Final = "rate when durable, turn by turn"
_MOST: Final = 4_000_000
"""Rows that are put in one turn: the journal is then large enough for a checkpoint."""
_SMALL_PUTS: Final = 400
_COMMITS: Final = 300
_SETTLED: Final = 60.0
"""Seconds within which a checkpoint is complete."""


def run(bench: Bench) -> None:
    """Both servers take turns, so that whatever else the machine does falls on both."""
    _rates(bench)
    bench.keep()
    _commits(bench)
    bench.keep()
    _memory(bench)
    bench.keep()
    _restart(bench)


@contextmanager
def _folder() -> Iterator[Path]:
    """A data directory, beside the results.

    The folder for temporary files may be in memory.
    """
    place = Path.cwd() / ".bench" / "data"
    place.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=place))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _rates(bench: Bench) -> None:
    """A put is a stream of its own, and so a cycle and a record of the journal."""
    rows = min(bench.sizes.rows, _MOST)
    with _folder() as folder, systems.ours() as plain, systems.ours(data_dir=str(folder), fsync="interval") as durable:
        for size, count in ((50_000, max(1, rows // 50_000)), (100, min(_SMALL_PUTS, max(1, rows // 100)))):
            bench.step(f"puts of {size:,} rows")
            batch = data.batch(0, size)
            rates: tuple[list[float], list[float]] = ([], [])
            for turn in range(bench.sizes.repeats + 1):
                for system, found in zip((plain, durable), rates, strict=True):
                    with connect(system.port) as client:
                        took = sum(_puts(client, batch, count))
                    system.drop("put")
                    _settle(folder)
                    if turn:  # the first one warms up
                        found.append(size * count / took)
            work = PUTS.format(size)
            bench.add(work, "rate", OURS, rates[0], "rows/s", "more")
            bench.add(work, "rate", DURABLE, rates[1], "rows/s", "more")
            ratios = [kept / held for held, kept in zip(*rates, strict=True)]
            bench.add(work, RATE, OURS, ratios, "of that in memory", "")


def _commits(bench: Bench) -> None:
    """Single puts, in turns with the same bytes written and synced to a file.

    The file is on the same disk.
    """
    count = min(_COMMITS, bench.sizes.moves)
    batch = data.batch(0, 100)
    with (
        _folder() as folder,
        _folder() as other,
        systems.ours() as plain,
        systems.ours(data_dir=str(folder), fsync="always") as durable,
        connect(plain.port) as to_memory,
        connect(durable.port) as to_disk,
        (other / "file").open("wb", buffering=0) as file,
    ):
        bench.step("puts that wait for the disk")
        held, kept, synced = list[float](), list[float](), list[float]()
        content = bytes(batch.nbytes)
        for _ in range(count + count // 10):
            held += _puts(to_memory, batch, 1)
            kept += _puts(to_disk, batch, 1)
            file.write(content)
            begin = time.perf_counter()
            os.fdatasync(file.fileno())
            synced.append(time.perf_counter() - begin)
    warm = count // 10
    bench.timed(COMMIT, "in memory", OURS, held[warm:])
    bench.timed(COMMIT, "waiting", OURS, kept[warm:])
    bench.timed(COMMIT, "fdatasync of the same bytes", OURS, synced[warm:])
    beyond = statistics.median(kept[warm:]) - statistics.median(held[warm:])
    sync = statistics.median(synced[warm:])
    bench.add(COMMIT, "median beyond memory", OURS, [max(0.0, beyond) / sync], "fdatasyncs")


def _memory(bench: Bench) -> None:
    """Memory of the process with all rows, after the checkpoint.

    It is not asked to return memory before.
    """
    ratios = []
    for kind in ("append", "keyed"):
        with _folder() as folder, systems.ours() as plain, systems.ours(data_dir=str(folder)) as durable:
            bench.step(f"memory, {kind} table")
            for system in (plain, durable):
                system.make("t", kind, bench.sizes.rows)
            _settle(folder)
            held, kept = plain.resident_bytes(), durable.resident_bytes()
        bench.add(MEMORY, f"process, {kind} table", OURS, [held / MIB], "MiB")
        bench.add(MEMORY, f"process, {kind} table", DURABLE, [kept / MIB], "MiB")
        ratios.append(kept / held)
    bench.add(MEMORY, "of that in memory", OURS, [max(ratios)], "times")


def _restart(bench: Bench) -> None:
    """A restart with all rows, beside reading the same files with pyarrow.

    It lasts from the checkpoint until the server is open.
    """
    for kind in ("append", "keyed"):
        with _folder() as folder:
            bench.step(f"restart, {kind} table")
            with systems.ours(data_dir=str(folder), fsync="os") as system:
                system.make("t", kind, bench.sizes.rows)
            _save(folder)
            started, read = [], []
            for _ in range(bench.sizes.repeats):
                with systems.ours(data_dir=str(folder)) as system:
                    started.append(system.process.hello["seconds"])
                with systems.ours() as system:
                    read.append(system.process.call("read_checkpoint", folder=str(folder)))
        bench.add(RESTART, f"until it serves, {kind} table", OURS, started, "s")
        bench.add(RESTART, f"pq.read_table of the checkpoint, {kind} table", OURS, read, "s", "")
        ratios = [mine / other for mine, other in zip(started, read, strict=True)]
        bench.add(RESTART, f"of the time of pq.read_table, {kind} table", OURS, ratios, "times")


def _puts(client: flight.FlightClient, batch: pa.RecordBatch, count: int) -> list[float]:
    """The seconds of each put."""
    took = []
    for _ in range(count):
        begin = time.perf_counter()
        writer, answers = client.do_put(flight.FlightDescriptor.for_path("put"), data.SCHEMA)
        with writer:
            writer.write_batch(batch)
            writer.done_writing()
            answers.read()
        took.append(time.perf_counter() - begin)
    return took


def _save(folder: Path) -> None:
    """Write a checkpoint of a directory that no server uses."""
    durability = Durability.of_folder(folder, UpdateGraph(), Fsync.OS)
    try:
        durability.attach(tuple)
        durability.save()
    finally:
        durability.close()


def _settle(folder: Path) -> None:
    """Wait until no checkpoint is being written, and none is due."""
    end = time.monotonic() + _SETTLED
    quiet = 0
    while quiet < 2 and time.monotonic() < end:
        time.sleep(0.1)
        writing = any((folder / "state").glob("partial-*"))
        journal = sum(file.stat().st_size for file in _files(folder / "journal"))
        quiet = 0 if writing or journal > 2 * _checkpoint_bytes(folder) + 64 * MIB else quiet + 1


def _checkpoint_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in _files(folder / "state"))


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())
