"""``foreachBatch(BarrageSink(...))``: what a query computes is what the table holds, in every output mode."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812

import barrage_server as bs
from barrage_server.spark import BarrageSink
from barrage_server.spark.workers import Workers
from tests.spark.feeding import Drain, Feed, by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = ({"k": ["a", "b", "a", None], "v": [1, 2, 3, 4]}, {"k": ["b", "c"], "v": [10, 20]}, {"k": ["a"], "v": [5]})


@pytest.mark.parametrize("ship", ["driver", "executors"])
def test_update_mode_upserts_by_key(feed: Feed, drain: Drain, server: bs.Server, client: bs.Client, ship: str) -> None:
    for rows in ROWS:
        feed.add(rows)
    totals = feed.stream().groupBy("k").agg(F.sum("v").alias("v"), F.count("*").alias("n"))
    drain(totals.writeStream.outputMode("update").foreachBatch(BarrageSink(server.uri, table="t", key="k", ship=ship)))
    assert by(client.snapshot("t"), "k") == [
        {"k": "a", "v": 9, "n": 3},
        {"k": "b", "v": 12, "n": 2},
        {"k": "c", "v": 20, "n": 1},
        {"k": None, "v": 4, "n": 1},
    ]


@pytest.mark.parametrize("ship", ["driver", "executors"])
def test_the_window_of_an_aggregation_is_a_key(
    feed: Feed, drain: Drain, server: bs.Server, client: bs.Client, ship: str
) -> None:
    """A struct of two timestamps, as Spark makes it: its rows are updated from batch to batch."""
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    for seconds, names in (([1, 2, 11], ["a", "b", "a"]), ([3, 12, 13], ["a", "a", None])):
        at = pa.array([start + dt.timedelta(seconds=second) for second in seconds], pa.timestamp("us", "UTC"))
        feed.add(pa.table({"at": at, "name": names}))
    counts = feed.stream().groupBy(F.window("at", "10 seconds"), "name").count()
    sink = BarrageSink(server.uri, table="t", key=["window", "name"], ship=ship)
    drain(counts.writeStream.outputMode("update").foreachBatch(sink))
    later = start + dt.timedelta(seconds=10)
    found = {(row["window"]["start"], row["name"]): row["count"] for row in client.snapshot("t").to_pylist()}
    assert found == {(start, "a"): 2, (start, "b"): 1, (later, "a"): 2, (later, None): 1}
    assert server.table("t").key_columns == ("window", "name")


def test_a_subscriber_sees_one_update_per_batch(feed: Feed, drain: Drain, server: bs.Server, client: bs.Client) -> None:
    feed.add(ROWS[0])
    totals = feed.stream().groupBy("k").agg(F.sum("v").alias("v"))
    writer = totals.writeStream.outputMode("update").foreachBatch(BarrageSink(server.uri, table="t", key=["k"]))
    drain(writer)
    with client.subscribe("t", interval_ms=0) as live:
        feed.add(ROWS[1])
        drain(writer)
        update = next(live.updates(timeout=20))
        assert update.added_values().to_pylist() == [{"k": "c", "v": 20}]
        assert update.modified_values("v")["v"].to_pylist() == [12]
        assert update.modified_previous_values("v")["v"].to_pylist() == [2]
        assert not update.removed


def test_append_mode_appends(feed: Feed, drain: Drain, server: bs.Server, client: bs.Client) -> None:
    for rows in ROWS:
        feed.add(rows)
    drain(feed.stream().writeStream.foreachBatch(BarrageSink(server.uri, table="t")))
    assert client.snapshot("t")["v"].to_pylist() == [1, 2, 3, 4, 10, 20, 5]


def test_append_mode_with_a_key_upserts_and_order_by_says_which_row_is_last(
    feed: Feed, drain: Drain, server: bs.Server, client: bs.Client
) -> None:
    feed.add({"k": ["a", "a", "b", "a"], "v": [3, 7, 1, 5]})
    feed.add({"k": ["b", "b"], "v": [9, 2]})
    sink = BarrageSink(server.uri, table="t", key=["k"], order_by="v")
    drain(feed.stream().repartition(4).writeStream.foreachBatch(sink))
    assert by(client.snapshot("t"), "k") == [{"k": "a", "v": 7}, {"k": "b", "v": 9}]


@pytest.mark.parametrize("key", [None, ["k"]])
def test_complete_mode_replaces(
    feed: Feed, drain: Drain, server: bs.Server, client: bs.Client, key: list[str] | None
) -> None:
    for rows in ROWS:
        feed.add(rows)
    top = feed.stream().groupBy("k").agg(F.sum("v").alias("v")).orderBy(F.desc("v")).limit(2)
    drain(top.writeStream.outputMode("complete").foreachBatch(BarrageSink(server.uri, table="t", key=key)))
    assert by(client.snapshot("t"), "k") == [{"k": "b", "v": 12}, {"k": "c", "v": 20}]


def test_update_mode_without_a_key_says_how_to_name_one(feed: Feed, drain: Drain, server: bs.Server) -> None:
    feed.add(ROWS[0])
    counts = feed.stream().groupBy("k").count()
    with pytest.raises(StreamingQueryException, match=r"KeyMismatchError.*name the key columns.*key=\["):
        drain(counts.writeStream.outputMode("update").foreachBatch(BarrageSink(server.uri, table="t")))
    assert not server.tables()


@pytest.mark.parametrize("ship", ["driver", "executors"])
def test_a_second_sink_with_other_keys_is_refused_and_changes_nothing(
    spark: SparkSession, server: bs.Server, client: bs.Client, ship: str
) -> None:
    rows = spark.createDataFrame([("a", 1, 2.0)], "k string, n int, v double")
    BarrageSink(server.uri, table="t", key=["k"])(rows, 0)
    with pytest.raises(bs.KeyMismatchError, match="key"):
        BarrageSink(server.uri, table="t", key=["k", "n"], ship=ship, publisher="other")(rows, 0)
    assert client.snapshot("t").num_rows == 1


@pytest.mark.parametrize("ship", ["driver", "executors"])
def test_rows_that_do_not_fit_are_refused_whole(
    spark: SparkSession, server: bs.Server, client: bs.Client, ship: str
) -> None:
    BarrageSink(server.uri, table="t")(spark.range(3), 0)
    with pytest.raises(bs.SchemaMismatchError):
        BarrageSink(server.uri, table="t", ship=ship, publisher="other")(spark.range(3).selectExpr("id as x"), 0)
    assert client.snapshot("t").num_rows == 3


def test_an_empty_first_batch_makes_the_table(spark: SparkSession, server: bs.Server, client: bs.Client) -> None:
    for ship in ("driver", "executors"):
        BarrageSink(server.uri, table=ship, ship=ship)(spark.range(0), 0)
        assert client.snapshot(ship).schema.names == ["id"]
        assert client.snapshot(ship).num_rows == 0


def test_a_ring_keeps_the_last_rows(spark: SparkSession, server: bs.Server, client: bs.Client) -> None:
    sink = BarrageSink(server.uri, table="t", kind="ring", capacity=3)
    sink(spark.range(5).coalesce(1), 0)
    sink(spark.range(5, 6).coalesce(1), 1)
    assert client.snapshot("t")["id"].to_pylist() == [3, 4, 5]


def test_delete_takes_the_rows_of_a_batch_away(spark: SparkSession, server: bs.Server, client: bs.Client) -> None:
    BarrageSink(server.uri, table="t", key=["id"])(spark.range(5).selectExpr("id", "id * 2 as v"), 0)
    gone = spark.range(1, 4)
    BarrageSink(server.uri, table="t", key=["id"], mode="delete", publisher="deleter")(gone, 0)
    assert by(client.snapshot("t"), "id") == [{"id": 0, "v": 0}, {"id": 4, "v": 8}]


def test_a_key_column_that_the_rows_lack_is_named(spark: SparkSession, server: bs.Server) -> None:
    with pytest.raises(bs.UnknownColumnError, match=r"'nope'.*'id'"):
        BarrageSink(server.uri, table="t", key=["nope"])(spark.range(1), 0)


def test_a_pickled_sink_publishes_too(spark: SparkSession, server: bs.Server, client: bs.Client) -> None:
    sink = pickle.loads(pickle.dumps(BarrageSink(server.uri, table="t", key=["id"])))
    sink(spark.range(2), 0)
    assert client.snapshot("t").num_rows == 2


def test_auto_takes_the_driver_for_small_batches_and_the_executors_for_large_ones(
    spark: SparkSession, server: bs.Server, client: bs.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="barrage_server.spark")
    sink = BarrageSink(server.uri, table="t", ship_threshold=100_000)
    sizes = (10, 50_000, 10)
    for batch, size in enumerate(sizes):
        sink(spark.range(size), batch)
    ways = [record.getMessage() for record in caplog.records]
    assert [way.split(" went by ")[1].split(":")[0] for way in ways] == ["driver", "executors", "driver"]
    assert ways[1].endswith("400000 bytes")
    assert client.snapshot("t").num_rows == sum(sizes)


def test_the_log_names_the_driver_where_the_workers_lack_the_package(
    spark: SparkSession, server: bs.Server, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Workers, "lack", lambda self: "No module named 'barrage_server'")
    caplog.set_level("DEBUG", logger="barrage_server.spark")
    BarrageSink(server.uri, table="t", ship_threshold=0)(spark.range(10), 0)
    assert [record.getMessage() for record in caplog.records] == ["batch 0 of table 't' went by driver: 80 bytes"]


def test_a_server_that_is_not_there_is_an_error_that_says_so(spark: SparkSession, server: bs.Server) -> None:
    uri = server.uri
    server.close()
    with pytest.raises(bs.UnavailableError, match=rf"last batch of table 't' at {uri}"):
        BarrageSink(uri, table="t", retry_seconds=0)(spark.range(1), 0)
