"""Spark publishes a streaming query, or a batch write, as a live table.

::

    from barrage_server.spark import BarrageSink, register

    df.writeStream.outputMode("update").foreachBatch(BarrageSink(uri, table="carriers", key=["carrier"])).start()

    register(spark)
    df.writeStream.format("barrage").option("uri", uri).option("table", "flights").start()
    df.write.format("barrage").option("uri", uri).option("table", "flights").mode("append").save()

====================  ======  ======  ========  =================================================
route                 append  update  complete  where the rows go
====================  ======  ======  ========  =================================================
``foreachBatch``      yes     yes     yes       from the executors when a batch is large, else through the driver
``writeStream``       yes     no      yes       from the executors
``write``             append and overwrite      from the executors
====================  ======  ======  ========  =================================================

Spark refuses update mode for every data source written in Python, this one included: use ``foreachBatch`` with
:class:`BarrageSink` there.

Needs the ``spark`` extra: ``pip install '.[spark]'`` in a clone of the repository. Names load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from barrage_server.spark.java import find_java, prepare_environment
    from barrage_server.spark.session import spark_session
    from barrage_server.spark.sink import BarrageSink
    from barrage_server.spark.sink_table import SinkTable
    from barrage_server.spark.source import BarrageDataSource, register
    from barrage_server.spark.workers import add_package

__all__ = [
    "BarrageDataSource",
    "BarrageSink",
    "SinkTable",
    "add_package",
    "find_java",
    "prepare_environment",
    "register",
    "spark_session",
]

_HOMES: Final = {
    "BarrageDataSource": "source",
    "BarrageSink": "sink",
    "SinkTable": "sink_table",
    "add_package": "workers",
    "find_java": "java",
    "prepare_environment": "java",
    "register": "source",
    "spark_session": "session",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use (PEP 562): a sink's settings need no Spark."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
