"""A Spark driver with three streaming queries over a folder of files, told what to do by its parent."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from barrage_server.spark import BarrageSink, SinkTable, register, spark_session
from tests.faults.child import PATIENCE, serve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

# What no disturbance may cause: the rest is an executor or a server that went away.
_FORBIDDEN = (
    "LostBatchesError", "FencedError", "InternalError", "WireFormatError", "SchemaMismatchError", "KeyMismatchError",
    "UnsupportedTypeError", "AuthenticationError", "ForbiddenError", "LimitError", "Traceback of the server",
)  # fmt: skip


class Queries:
    """The streaming queries, which are started again as often as they fail."""

    def __init__(self, spark: SparkSession, uri: str, source: str, checkpoints: str) -> None:
        from pyspark.sql import functions

        self._checkpoints = checkpoints
        schema = "id long, k long, v long, text string"
        rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", "2").parquet(source)
        both = {
            "spark_log": SinkTable(),
            "spark_last": SinkTable(
                lambda batch: batch.groupBy("k").agg(functions.max("id").alias("id")).select("id", "k"),
                key="k",
                mode="upsert",
            ),
        }
        sums = rows.groupBy("k").agg(functions.sum("v").alias("v"), functions.count("v").alias("n"))
        sum_sink = BarrageSink(uri, table="spark_sums", key="k", ship="driver", retry_seconds=PATIENCE)
        self._writers: dict[str, DataStreamWriter] = {
            "both": rows.writeStream.foreachBatch(
                BarrageSink(uri, tables=both, ship="executors", retry_seconds=PATIENCE)
            ),
            "sums": sums.writeStream.outputMode("update").foreachBatch(sum_sink),
            "format": rows.writeStream.format("barrage").options(
                uri=uri, table="spark_format", retry_seconds=str(PATIENCE)
            ),
        }
        self._queries: dict[str, StreamingQuery] = {}
        self._failures: list[str] = []

    def start(self) -> None:
        """Start those that do not run."""
        for name, writer in self._writers.items():
            query = self._queries.get(name)
            if query is not None and query.isActive:
                continue
            if query is not None:
                self._note(name, str(query.exception()))
            writer = writer.option("checkpointLocation", f"{self._checkpoints}/{name}")
            self._queries[name] = writer.queryName(name).trigger(processingTime="100 milliseconds").start()

    def drain(self, seconds: float) -> dict[str, Any]:
        """Return when all files are worked off, with the failures on the way."""
        deadline = time.monotonic() + seconds
        while True:
            self.start()
            waiting = [threading.Thread(target=self._wait_for, args=(name,), daemon=True) for name in self._queries]
            for thread in waiting:
                thread.start()
            for thread in waiting:
                thread.join(max(0.0, deadline - time.monotonic()))
            if any(thread.is_alive() for thread in waiting):
                states = {name: query.status for name, query in self._queries.items()}
                raise TimeoutError(f"queries are not done: {states}")
            if all(query.isActive for query in self._queries.values()):
                failures, self._failures = self._failures, []
                return {"failures": failures}

    def _wait_for(self, name: str) -> None:
        try:
            self._queries[name].processAllAvailable()
        except Exception as error:
            # The query has ended with it; ``start`` notes why.
            print(f"{name}: {str(error)[:2000]}", file=sys.stderr, flush=True)
            self._queries[name].stop()

    def _note(self, name: str, text: str) -> None:
        wrong = [word for word in _FORBIDDEN if word in text]
        if wrong:
            raise AssertionError(f"query {name} has failed with {wrong[0]}: {text[:3000]}")
        self._failures.append(f"{name}: {text[:300]}")


def main(master: str, uri: str, source: str, checkpoints: str, path: str) -> None:
    quiet = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    spark = spark_session(
        "barrage-server faults",
        master=master,
        **{
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.executorEnv.PYTHONPATH": path,
            "spark.executor.extraJavaOptions": quiet,
            "spark.driver.extraJavaOptions": quiet,
            "spark.locality.wait": "0s",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "2",
            # Executors are killed on purpose.
            "spark.task.maxFailures": "8",
            "spark.deploy.maxExecutorRetries": "-1",
        },
    )
    register(spark)
    queries = Queries(spark, uri, source, checkpoints)
    serve({"start": lambda: queries.start(), "drain": queries.drain})


if __name__ == "__main__":
    main(*sys.argv[1:])
