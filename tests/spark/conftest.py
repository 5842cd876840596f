"""One real Spark for all tests of this folder, and a live server per test."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import barrage_server as bs
from tests.spark.feeding import Drain, Feed

with warnings.catch_warnings():
    # PySpark warns at import that it has not been tried with the newest pandas, which nothing here uses.
    warnings.simplefilter("ignore")
    import pyspark.sql  # noqa: F401

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter

_ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Older PySpark leaves sockets of its own for the garbage collector to close."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Two cores, three attempts per task."""
    from barrage_server.spark import spark_session

    # The workers are started with the environment of this process, and must find what is tested here.
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(_ROOT), str(_ROOT / "generated"), *([before] if before else [])])
    session = spark_session(
        "barrage-server tests",
        master="local[2,3]",
        **{
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.log.level": "OFF",
            "spark.sql.shuffle.partitions": "2",
        },
    )
    yield session
    session.stop()
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


@pytest.fixture
def server() -> Iterator[bs.Server]:
    """A server on a free port."""
    with bs.Server(port=0) as running:
        yield running


@pytest.fixture
def client(server: bs.Server) -> Iterator[bs.Client]:
    """A client of the server."""
    with bs.connect(server.uri) as connected:
        yield connected


@pytest.fixture
def feed(spark: SparkSession, tmp_path: Path) -> Feed:
    """A stream with nothing in it yet."""
    return Feed(spark, tmp_path / "feed")


@pytest.fixture
def drain(tmp_path: Path) -> Drain:
    """Run a streaming query until its input is worked off; returns the query's id."""

    def run(writer: DataStreamWriter, checkpoint: Path | None = None) -> str:
        query = writer.option("checkpointLocation", str(checkpoint or tmp_path / "checkpoint")).start()
        try:
            query.processAllAvailable()
            return str(query.id)
        finally:
            query.stop()

    return run
