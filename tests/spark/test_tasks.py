"""The rows of a batch as Arrow messages, sent by the tasks of one job."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.spark import BarrageSink
from barrage_server.spark.arrow_types import arrow_schema
from barrage_server.spark.settings import PublishSettings
from barrage_server.spark.tasks import PartitionStager, record_batch_messages
from barrage_server.spark.worker import QuickAckSockets, keep_what_is_loaded
from tests.spark.feeding import by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LARGE = "spark.sql.execution.arrow.useLargeVarTypes"


@pytest.fixture
def large_types(spark: SparkSession) -> Iterator[None]:
    """A session whose texts have 64-bit offsets."""
    spark.conf.set(LARGE, "true")
    yield
    spark.conf.unset(LARGE)


def test_messages_hold_the_rows_in_the_layout_of_the_table(spark: SparkSession) -> None:
    frame = spark.range(0, 25_000, 1, 2).selectExpr("id", "if(id % 3 = 0, null, cast(id as string)) as text")
    messages = record_batch_messages(frame)
    assert messages is not None
    schema = arrow_schema(frame.schema)
    batches = [pa.ipc.read_record_batch(pa.py_buffer(message), schema) for message in messages.collect()]
    rows = pa.Table.from_batches(batches, schema)
    rows.validate(full=True)
    assert rows["id"].to_pylist() == list(range(25_000))
    assert rows["text"].to_pylist()[:4] == [None, "1", "2", None]


def test_partitions_come_in_their_order_and_empty_ones_stage_nothing(
    spark: SparkSession, server: bs.Server, client: bs.Client
) -> None:
    frame = spark.range(0, 100, 1, 4).where("id < 20 or id >= 60")
    messages = record_batch_messages(frame)
    assert messages is not None
    settings = PublishSettings(server.uri, "t", publisher="p")
    parts = messages.mapPartitions(PartitionStager(settings, arrow_schema(frame.schema), 0)).collect()
    assert [(part.token is None, part.rows, part.nbytes) for part in parts] == [
        (False, 20, 160),
        (True, 0, 0),
        (False, 15, 120),
        (False, 25, 200),
    ]
    BarrageSink(server.uri, table="t", ship="executors")(frame.orderBy("id"), 0)
    assert client.snapshot("t")["id"].to_pylist() == [*range(20), *range(60, 100)]


@pytest.mark.usefixtures("large_types")
def test_a_session_with_other_layouts_ships_through_the_data_source(
    spark: SparkSession, server: bs.Server, client: bs.Client
) -> None:
    frame = spark.createDataFrame([("a", 1), ("b", 2)], "k string, n int")
    assert record_batch_messages(frame) is None
    for ship in ("executors", "driver"):
        BarrageSink(server.uri, table="t", key="k", ship=ship, publisher=ship)(frame, 0)
    assert by(client.snapshot("t"), "k") == [{"k": "a", "n": 1}, {"k": "b", "n": 2}]
    assert server.statistics().staging.entries == 0


@pytest.mark.usefixtures("large_types")
def test_errors_of_the_data_source_keep_their_class(spark: SparkSession, server: bs.Server) -> None:
    BarrageSink(server.uri, table="t")(spark.range(3), 0)
    with pytest.raises(bs.SchemaMismatchError):
        BarrageSink(server.uri, table="t", ship="executors", publisher="p")(spark.range(3).selectExpr("id as x"), 0)


def test_connections_stay_open_when_what_came_over_them_was_acknowledged() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as one:
        other, _ = listening.accept()
        with other:
            with QuickAckSockets() as sockets:
                one.sendall(b"x")
                sockets.acknowledge()
            assert other.recv(1) == b"x"
            other.sendall(b"y")
            assert one.recv(1) == b"y"


def test_what_is_loaded_is_set_aside_once() -> None:
    try:
        keep_what_is_loaded()
        count = gc.get_freeze_count()
        assert count > 0
        keep_what_is_loaded()
        assert gc.get_freeze_count() <= count
    finally:
        gc.unfreeze()
