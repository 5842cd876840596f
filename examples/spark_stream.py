"""A Spark stream becomes two live tables, one that grows and one that is updated by key, and a client follows them.

python examples/spark_stream.py                          # starts a server of its own
python examples/spark_stream.py grpc://localhost:8815    # publishes to yours
"""

from __future__ import annotations

import sys
import tempfile
import time
from contextlib import ExitStack

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

import barrage_server as bs
from barrage_server.spark import BarrageSink, register, spark_session

UPDATES = 5


def main() -> None:
    with ExitStack() as stack:
        uri = sys.argv[1] if len(sys.argv) > 1 else stack.enter_context(bs.Server(port=0)).uri
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        spark = spark_session("spark_stream", master="local[2]", **{"spark.sql.shuffle.partitions": "2"})
        stack.callback(spark.stop)
        register(spark)

        # Spark's own source of numbered rows stands for your Kafka topic or folder of files.
        numbers = spark.readStream.format("rate").option("rowsPerSecond", 100).load()
        symbol = F.element_at(F.array(*map(F.lit, ("AAA", "BBB", "CCC", "DDD"))), (F.col("value") % 4 + 1).cast("int"))
        trades = numbers.select("timestamp", symbol.alias("sym"), (100 + F.col("value") % 7).alias("price"))

        # Every row: the data source, in append mode.
        every = trades.writeStream.format("barrage").option("uri", uri).option("table", "trades")
        queries = [every.option("checkpointLocation", f"{folder}/trades").start()]
        # One row per symbol: update mode, through foreachBatch, with the columns of the groupBy as the key.
        totals = trades.groupBy("sym").agg(F.count("*").alias("trades"), F.avg("price").alias("mean_price"))
        sink = BarrageSink(uri, table="totals", key=["sym"])
        updated = totals.writeStream.outputMode("update").foreachBatch(sink)
        queries.append(updated.option("checkpointLocation", f"{folder}/totals").start())
        for query in queries:
            stack.callback(query.stop)

        client = stack.enter_context(bs.connect(uri))
        _wait_for(client, "totals", queries)
        live = stack.enter_context(client.subscribe("totals"))
        for number, update in enumerate(live.updates(timeout=60), start=1):
            rows = live.to_arrow().sort_by("sym").to_pylist()
            print(f"{update.added.size} added, {update.modified_rows.size} modified:", rows)
            if number == UPDATES:
                break
        _wait_for(client, "trades", queries)
        print(f"trades has {client.snapshot('trades').num_rows} rows")


def _wait_for(client: bs.Client, table: str, queries: list[StreamingQuery]) -> None:
    while table not in {each.name for each in client.tables()}:  # the first batch makes it
        if any(query.exception() for query in queries):
            sys.exit("a query has failed; Spark has printed why")
        time.sleep(0.2)


if __name__ == "__main__":
    main()
