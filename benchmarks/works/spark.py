"""Structured Streaming writes Parquet files in micro-batches to a table.

The table has a subscriber.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow.parquet as pq

from benchmarks import data, systems
from benchmarks.bench import Bench
from benchmarks.names import OURS, SPARK_NOOP, SPARK_PARQUET, SPARK_TO_ARROW

WORK: Final = "Spark, micro-batches to a subscriber"
_FILES_PER_BATCH: Final = 4  # tasks of a micro-batch, so that both cores have work
_CALLS: Final = 4
"""Micro-batches per batch size and turn in the comparison of the two ways. The first one is not counted."""


def run(bench: Bench) -> None:
    """The same query with different sinks, in one warm Spark session."""
    folder = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    try:
        with _session(folder) as spark, systems.ours() as ours:
            _rates(bench, spark, ours, folder)
            _ways(bench, spark, ours, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    bench.outcome.versions["pyspark"] = version("pyspark")


@contextmanager
def _session(folder: Path) -> Iterator[Any]:
    from barrage_server.spark import register, spark_session

    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "3g",
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.streaming.fileSource.cleaner.numThreads": "0",
        "spark.driver.maxResultSize": "0",
    }
    spark = spark_session("benchmarks", master="local[2]", **settings)
    spark.sparkContext.setLogLevel("ERROR")
    register(spark)
    try:
        yield spark
    finally:
        spark.stop()


def _files(folder: Path, rows: int, per_file: int) -> Path:
    folder.mkdir(parents=True)
    for number, batch in enumerate(data.batches(rows, per_file)):
        with pq.ParquetWriter(folder / f"{number:05d}.parquet", batch.schema, compression="none") as writer:
            writer.write_batch(batch)
    return folder


class Query:
    """A source of micro-batches, and sinks for it."""

    def __init__(self, spark: Any, files: Path, scratch: Path) -> None:
        self._spark, self._files, self._scratch = spark, files, scratch
        self._count = 0

    def run(self, sink: Callable[[Any], Any]) -> tuple[float, list[float]]:
        """Run to the end of the files; returns the seconds of all and of each batch."""
        self._count += 1
        checkpoint = self._scratch / f"checkpoint-{self._files.name}-{self._count}"
        stream = (
            self._spark.readStream.schema("id long, price double, quantity int, symbol string")
            .option("maxFilesPerTrigger", _FILES_PER_BATCH)
            .parquet(str(self._files))
        )
        begin = time.perf_counter()
        query = (
            sink(stream.writeStream).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        )
        query.awaitTermination()
        took = time.perf_counter() - begin
        durations = [progress["batchDuration"] / 1000 for progress in query.recentProgress if progress["numInputRows"]]
        return took, durations


def _rates(bench: Bench, spark: Any, ours: systems.System, folder: Path) -> None:
    rows = bench.sizes.spark_rows
    bench.step("Spark: writing files")
    query = Query(
        spark, _files(folder / "rows", rows, max(1, rows // (bench.sizes.micro_batches * _FILES_PER_BATCH))), folder
    )
    uri = f"grpc://127.0.0.1:{ours.port}"
    count = 0

    def to_ours() -> float:
        nonlocal count
        count += 1
        name = f"spark{count}"
        ours.make(name, "append", 0)
        with ours.receiving(name, 50, stamps=False) as receiver:
            took, _ = query.run(_sink(uri, name, "auto"))
            begin = time.perf_counter()
            while sum(receiver.received.rows) < rows and time.perf_counter() - begin < 30:
                time.sleep(0.002)
            took += time.perf_counter() - begin
        ours.drop(name)
        return took

    def to_noop() -> float:
        return query.run(lambda writer: writer.format("noop"))[0]

    def to_parquet() -> float:
        target = folder / "written"
        took = query.run(lambda writer: writer.format("parquet").option("path", str(target)))[0]
        shutil.rmtree(target)
        return took

    def to_arrow() -> float:
        def take(frame: Any, _number: int) -> None:
            frame.toArrow()

        return query.run(lambda writer: writer.foreachBatch(take))[0]

    ways = {SPARK_NOOP: to_noop, SPARK_TO_ARROW: to_arrow, OURS: to_ours, SPARK_PARQUET: to_parquet}
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(bench.sizes.spark_rounds):
        for name, run_one in ways.items():
            bench.step(f"{rows:,} rows to {name}")
            took = run_one()
            if number:  # the first one warms up
                seconds[name].append(took)
    for name, took_all in seconds.items():
        bench.add(WORK, "rate", name, [rows / took for took in took_all], "rows/s", "more")


def _sink(uri: str, name: str, ship: str) -> Callable[[Any], Any]:
    from barrage_server.spark import BarrageSink

    return lambda writer: writer.foreachBatch(BarrageSink(uri, table=name, ship=ship))


def _ways(bench: Bench, spark: Any, ours: systems.System, folder: Path) -> None:
    """For each batch size, the seconds of a micro-batch on either way.

    The way that ``auto`` picks is measured as well.
    """
    uri = f"grpc://127.0.0.1:{ours.port}"
    best: list[tuple[float, dict[str, float]]] = []
    for size in bench.sizes.spark_batches:
        query = Query(spark, _files(folder / f"batches{size}", _CALLS * size, max(1, size // _FILES_PER_BATCH)), folder)
        seconds: dict[str, list[float]] = {"driver": [], "executors": [], "auto": []}
        for turn in range(bench.sizes.spark_rounds):
            for ship, taken in seconds.items():
                bench.step(f"{size:,} rows per batch by {ship}")
                name = f"{ship}{size}-{turn}"
                ours.make(name, "append", 0)
                with ours.receiving(name, 50, stamps=False):
                    _, durations = query.run(_sink(uri, name, ship))
                ours.drop(name)
                if turn:  # the first one warms up
                    taken += durations[1:] or durations
        for ship, taken in seconds.items():
            bench.add(f"Spark, a micro-batch of {size:,} rows", f"by {ship}", OURS, taken, "s", "")
        middle = {ship: median(taken) for ship, taken in seconds.items()}
        best.append((size, middle))
    largest = best[-1][1]
    bench.add(
        "Spark, executors beside driver",
        "largest batches",
        OURS,
        [largest["driver"] / largest["executors"]],
        "times as fast",
        "",
    )
    auto = min(min(times["driver"], times["executors"]) / times["auto"] for _, times in best)
    bench.add("Spark, auto beside the better way", "worst of all batch sizes", OURS, [auto], "times as fast", "")
