"""The Spark job of the compose file: a stream of readings, summed up per sensor, published as a live table.

Settings come from the environment: BARRAGE_URI, BARRAGE_TOKEN, BARRAGE_CHECKPOINT (a folder that outlives the
container), BARRAGE_ROWS_PER_SECOND.
"""

from __future__ import annotations

import os

from pyspark.sql import functions as f

from barrage_server.spark import BarrageSink, spark_session


def main() -> None:
    """Run the query until the container stops."""
    spark = spark_session("sensors")
    readings = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", os.environ.get("BARRAGE_ROWS_PER_SECOND", "1000"))
        .load()
    )
    per_sensor = (
        readings.withColumn("sensor", f.col("value") % 50)
        .groupBy("sensor")
        .agg(
            f.count("*").alias("readings"),
            f.max("timestamp").alias("latest"),
            f.avg(f.sin(f.col("value") / 1000)).alias("mean"),
        )
    )
    sink = BarrageSink(
        os.environ["BARRAGE_URI"], table="sensors", key=["sensor"], token=os.environ.get("BARRAGE_TOKEN") or None
    )
    query = (
        per_sensor.writeStream.outputMode("update")
        .option("checkpointLocation", os.environ.get("BARRAGE_CHECKPOINT", "checkpoint"))
        .foreachBatch(sink)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
