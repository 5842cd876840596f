"""The streaming query of a sink call, as far as Spark provides it.

Spark passes only rows and a number to a ``foreachBatch`` function. The query's id and batch are in local properties of
the thread, which are public. The output mode is in the running query, which only classic Spark (not Spark Connect)
shows to Python.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barrage_server.errors import QueryStoppedError
from barrage_server.wire.protocol import PublishMode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "BATCH_ID",
    "QUERY_ID",
    "is_classic",
    "output_mode",
    "plan_size",
    "publisher_id",
    "sleep_for",
]

QUERY_ID: Final = "sql.streaming.queryId"
"""Local property: the id of the query, which a restart from its checkpoint keeps."""
BATCH_ID: Final = "streaming.sql.batchId"
"""Local property: the number of the micro-batch."""


_STOPPED: Final = (
    "The query was stopped while it waited for the server (py4j.protocol.Py4JJavaError: An error occurred while "
    "calling Thread.sleep: java.lang.InterruptedException)."
)
"""Spark tells this end from a failure by the text of the traceback that Python passes to Java. It must be short: Spark
searches the text with a regular expression that needs a stack frame per character."""
_MODES: Final = {"append": PublishMode.APPEND, "update": PublishMode.UPSERT, "complete": PublishMode.REPLACE}
# Spark's value for an unknown size: spark.sql.defaultSizeInBytes is the largest long.
_UNKNOWN_SIZE: Final = 1 << 60


def publisher_id(spark: SparkSession) -> str | None:
    """The id of the calling thread's streaming query; None outside of one.

    Spark Connect has no local properties, and so None: batches need ``BarrageSink(..., publisher="a name of your
    own")``.
    """
    if not is_classic(spark):
        return None
    found = spark.sparkContext.getLocalProperty(QUERY_ID)
    return found or None


def output_mode(spark: SparkSession, query: str | None) -> PublishMode | None:
    """The publish mode for the output mode of a running query; None when unknown."""
    if query is None or not is_classic(spark):
        return None
    try:
        # The session of a micro-batch is a clone that does not list its own query, but the shared state does.
        jvm = spark.sparkContext._jvm
        running = spark._jsparkSession.sharedState().activeStreamingQueries().get(jvm.java.util.UUID.fromString(query))
        return None if running is None else _MODES.get(str(running.outputMode()).lower())
    except _jvm_errors():
        # Not public, so another Spark may lack it; the sink's own settings decide then.
        return None


def plan_size(frame: DataFrame) -> int | None:
    """Spark's estimate of the bytes of ``frame``, without running it; or None."""
    if not is_classic(frame.sparkSession):
        return None
    try:
        size = int(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    except _jvm_errors():
        # Not public either; without it the size of the previous batch is the estimate.
        return None
    return size if size < _UNKNOWN_SIZE else None


def sleep_for(spark: SparkSession, query: str | None) -> Callable[[float], None]:
    """A function that pauses in a batch of ``query`` until the query is stopped.

    A ``foreachBatch`` function runs in the query's own Java thread, which ``query.stop()`` interrupts: Java's sleep
    then fails. The batch must fail too, or Spark would count it as published.
    """
    if query is None or not is_classic(spark):
        return time.sleep
    from py4j.protocol import Py4JJavaError

    thread = spark.sparkContext._jvm.java.lang.Thread

    def sleep(seconds: float) -> None:
        try:
            thread.sleep(math.ceil(1000 * seconds))
        except Py4JJavaError:
            raise QueryStoppedError(_STOPPED) from None

    return sleep


def is_classic(spark: SparkSession) -> bool:
    """Whether Python runs beside Spark's driver; False with Spark Connect."""
    return hasattr(spark, "_jsparkSession")


def _jvm_errors() -> tuple[type[BaseException], ...]:
    from py4j.protocol import Py4JError

    return (Py4JError, AttributeError, TypeError, ValueError)
