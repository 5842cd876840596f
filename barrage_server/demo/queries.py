"""The tables of the demo, as streaming queries and as batch queries.

The streaming queries publish, and the batch queries compute the expected rows. Both agree to the last bit, because
nothing depends on the order of rows: delays are whole minutes, so their sums are exact in a double, and a mean is one
division of the same two numbers; ties are broken by ``seq``, which is unique. The same holds for the destinations,
which the server computes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  # as every Spark program calls it

from barrage_server.demo.tables import BOARD, CARRIERS, FLIGHTS, TOP_DELAYS, WORST_DELAYS
from barrage_server.spark import BarrageSink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming import DataStreamWriter

__all__ = ["QUERIES", "Query", "destinations", "trigger_options"]

_FILES_PER_TRIGGER: Final = "1"
_LATE_MINUTES: Final = 15
_BOARD: Final = ["departs", "carrier", "flight", "tailnum", "dep_delay", "state", "seq"]
_WORST: Final = ["time_hour", "carrier", "flight", "origin", "dest", "tailnum", "seq"]


@dataclass(frozen=True, slots=True)
class Query:
    """One table, as a stream of flights and as a batch.

    Attributes:
        table: the table's name.
        publish: the streaming query that publishes flights to a server's URI.
        compute: the batch query with the same rows.
    """

    table: str
    publish: Callable[[DataFrame, str], DataStreamWriter]
    compute: Callable[[DataFrame], DataFrame]


def _state() -> Column:
    return (
        F.when(F.col("dep_time").isNull(), "cancelled")
        .when(F.col("dep_delay") > _LATE_MINUTES, "delayed")
        .otherwise("on time")
    )


def _publish_flights(flights: DataFrame, uri: str) -> DataStreamWriter:
    options = {"uri": uri, "table": FLIGHTS.name, "order_by": "seq"}
    return flights.writeStream.outputMode("append").format("barrage").options(**options)


def _carriers(flights: DataFrame) -> DataFrame:
    return flights.groupBy("carrier").agg(
        F.count("*").alias("flights"),
        F.avg("dep_delay").alias("mean_delay"),
        F.max("dep_delay").alias("worst_delay"),
        F.count_if(F.col("dep_time").isNull()).alias("cancellations"),
    )


def _publish_carriers(flights: DataFrame, uri: str) -> DataStreamWriter:
    sink = BarrageSink(uri, table=CARRIERS.name, key=CARRIERS.key)
    return _carriers(flights).writeStream.outputMode("update").foreachBatch(sink)


def _publish_board(flights: DataFrame, uri: str) -> DataStreamWriter:
    # No aggregation: the last row of a key in the order of order_by wins.
    rows = flights.withColumn("state", _state()).select(*BOARD.key, *_BOARD)
    sink = BarrageSink(uri, table=BOARD.name, key=BOARD.key, order_by="seq")
    return rows.writeStream.outputMode("append").foreachBatch(sink)


def _board(flights: DataFrame) -> DataFrame:
    last = F.max_by(F.struct(*_BOARD), "seq").alias("last")
    return flights.withColumn("state", _state()).groupBy(*BOARD.key).agg(last).select(*BOARD.key, "last.*")


def _publish_top_delays(flights: DataFrame, uri: str) -> DataStreamWriter:
    # Complete mode requires an aggregation, so every flight is a group. Short delays never make the list.
    worst = flights.where(F.col("dep_delay") >= TOP_DELAYS.at_least).groupBy(*_WORST)
    rows = worst.agg(F.max("dep_delay").alias("dep_delay")).orderBy(F.desc("dep_delay"), "seq").limit(WORST_DELAYS)
    options = {"uri": uri, "table": TOP_DELAYS.name, "key": ",".join(TOP_DELAYS.key)}
    return rows.writeStream.outputMode("complete").format("barrage").options(**options)


def _top_delays(flights: DataFrame) -> DataFrame:
    late = flights.where(F.col("dep_delay") >= TOP_DELAYS.at_least).select(*_WORST, "dep_delay")
    return late.orderBy(F.desc("dep_delay"), "seq").limit(WORST_DELAYS)


QUERIES: Final = (
    Query(FLIGHTS.name, _publish_flights, lambda flights: flights),
    Query(CARRIERS.name, _publish_carriers, _carriers),
    Query(BOARD.name, _publish_board, _board),
    Query(TOP_DELAYS.name, _publish_top_delays, _top_delays),
)
"""The tables of :data:`barrage_server.demo.tables.PUBLISHED`, in the same order."""


def destinations(flights: DataFrame, airports: DataFrame) -> DataFrame:
    """The delays of each destination, as the server computes them.

    The longest mean comes first. Airports without a name are null, and so are means of cancelled flights alone, which
    come last.
    """
    names = airports.select(F.col("faa").alias("dest"), F.col("name").alias("airport"))
    delays = flights.join(names, "dest", "left").groupBy("dest", "airport")
    rows = delays.agg(
        F.count("*").alias("flights"),
        F.avg("arr_delay").alias("mean_delay"),
        F.max("arr_delay").alias("worst_delay"),
        F.sum("arr_delay").alias("total_delay"),
    )
    return rows.orderBy(F.desc_nulls_last("mean_delay"), "dest")


def trigger_options() -> dict[str, str]:
    """Options of the file source."""
    return {"maxFilesPerTrigger": _FILES_PER_TRIGGER}
