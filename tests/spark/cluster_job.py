"""A Spark application of its own, run as a script: publishes one batch, and says how it went in one line of JSON.

Arguments: the master, the server, the table, the way (``auto``, ``executors`` or ``format``), and perhaps ``add``, to
ship the package, and ``once``, to have no task tried again.
"""

from __future__ import annotations

import json
import logging
import sys

from barrage_server.errors import BarrageError
from barrage_server.spark import BarrageSink, add_package, register, spark_session


def main(master: str, uri: str, table: str, way: str, *more: str) -> None:
    spark = spark_session(
        "barrage-server cluster test",
        master=master,
        **{
            "spark.driver.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "1",
            "spark.log.level": "OFF",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            # Both workers take part.
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
            "spark.locality.wait": "0s",
            "spark.task.maxFailures": "1" if "once" in more else "4",
        },
    )
    said: list[str] = []

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logging.getLogger("barrage_server.spark").addHandler(Heard(logging.WARNING))
    if "add" in more:
        add_package(spark)
    rows = spark.range(0, 1000, 1, 8)
    error = ""
    try:
        if way == "format":
            register(spark)
            rows.write.format("barrage").options(uri=uri, table=table).mode("append").save()
        else:
            BarrageSink(uri, table=table, ship=way, ship_threshold=0)(rows, 0)
    except BarrageError as failure:
        error = f"{type(failure).__name__}: {failure}"
    hosts = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    print(json.dumps({"error": error, "said": said, "executors": hosts}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
