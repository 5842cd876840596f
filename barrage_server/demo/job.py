"""The Spark side of the demo, a process of its own.

It runs as ``python -m barrage_server.demo.job``. Its orders are one JSON object on the command line, and the line
``finish`` on standard input; standard input ends when the demo is gone. It reports JSON objects, one a line, to the
file descriptor in the orders. Spark's own output goes to standard output and error, which the demo sends to a file.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from barrage_server.demo.queries import QUERIES, destinations, trigger_options
from barrage_server.demo.tables import DESTINATIONS
from barrage_server.errors import BarrageError
from barrage_server.spark import register, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["main"]

_POLL_SECONDS: Final = 0.2
# The second compiler and a concurrent collector pay off after minutes, and take half of a short run.
_JAVA_OPTIONS: Final = "-XX:+IgnoreUnrecognizedVMOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"


class _Job:
    def __init__(self, orders: dict[str, Any]) -> None:
        self._orders = orders
        self._reports = os.fdopen(orders["reports"], "w", buffering=1)

    def report(self, event: str, **fields: object) -> None:
        """Send a report to the demo."""
        print(json.dumps({"event": event, **fields}), file=self._reports, flush=True)

    def run(self) -> None:
        """Run the queries until told to finish, then compute the tables as a batch."""
        spark = self._session()
        register(spark)
        queries = self._start(spark)
        self.report("ready")
        self._follow(queries)
        for query in queries:
            query.processAllAvailable()
            self._progress(queries)
            query.stop()
        self.report("drained")
        self._recompute(spark)
        self.report("recomputed")

    def _session(self) -> SparkSession:
        cores = self._orders["cores"]
        conf = {
            "spark.driver.memory": self._orders["memory"],
            "spark.driver.extraJavaOptions": f'{_JAVA_OPTIONS} "-Djava.io.tmpdir={tempfile.gettempdir()}"',
            "spark.local.dir": tempfile.gettempdir(),
            "spark.sql.shuffle.partitions": str(cores),
            "spark.sql.streaming.checkpointLocation": self._orders["checkpoints"],
            "spark.sql.streaming.minBatchesToRetain": "2",
            "spark.sql.adaptive.enabled": "false",
            "spark.log.level": "WARN",
        }
        return spark_session("barrage-server demo", master=f"local[{cores}]", **conf)

    def _start(self, spark: SparkSession) -> list[StreamingQuery]:
        schema = spark.read.parquet(self._orders["sample"]).schema
        started = []
        for query in QUERIES:
            flights = spark.readStream.schema(schema).options(**trigger_options()).parquet(self._orders["input"])
            started.append(query.publish(flights, self._orders["uri"]).queryName(query.table).start())
        return started

    def _follow(self, queries: list[StreamingQuery]) -> None:
        """Report progress until the line ``finish`` comes."""
        with selectors.DefaultSelector() as selector:
            selector.register(sys.stdin, selectors.EVENT_READ)
            while True:
                if selector.select(_POLL_SECONDS):
                    line = sys.stdin.readline()
                    if line.strip() == "finish":
                        return
                    if not line:
                        # The demo is gone; an orderly stop would take seconds.
                        os._exit(1)
                self._progress(queries)

    def _progress(self, queries: list[StreamingQuery]) -> None:
        for query in queries:
            failure = query.exception()
            if failure is not None:
                raise failure
            progress = query.lastProgress
            if progress is not None:
                # The offset counts files. Rows are not summed, because reports can be missed.
                offset = json.loads(progress.json)["sources"][0]["endOffset"]
                self.report("progress", table=query.name, files=offset["logOffset"] + 1 if offset else 0)

    def _recompute(self, spark: SparkSession) -> None:
        flights = spark.read.parquet(self._orders["input"])
        for query in QUERIES:
            self._expect(query.table, query.compute(flights))
        airports = spark.read.csv(self._orders["airports"], header=True)
        self._expect(DESTINATIONS.name, destinations(flights, airports))

    def _expect(self, table: str, frame: DataFrame) -> None:
        rows = frame.toArrow()
        path = Path(self._orders["expected"]) / f"{table}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)


def main() -> int:
    """Execute the orders; returns 0 on success."""
    job = _Job(json.loads(sys.argv[1]))
    try:
        job.run()
    except BarrageError as error:
        job.report("failed", text=str(error))
        return 1
    except Exception as error:  # reported to the demo; the details go to Spark's log
        job.report("failed", text=_reason(error))
        raise
    return 0


def _reason(error: Exception) -> str:
    """The line of Spark's text with the cause: this package's error, or the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    own = next((line for line in lines if re.match(r"barrage_server\.\w+Error: ", line)), None)
    return own.split(": ", 1)[-1] if own else (lines[0][:300] if lines else type(error).__name__)


if __name__ == "__main__":
    sys.exit(main())
