"""``format("barrage")``: streams in append and complete mode, and batch writes."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812

import barrage_server as bs
from barrage_server.spark import BarrageDataSource, register
from tests.spark.feeding import Drain, Feed, by

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


def test_append_stream(feed: Feed, drain: Drain, server: bs.Server, client: bs.Client) -> None:
    feed.add({"v": [3, 1]})
    feed.add({"v": [2]})
    options = {"uri": server.uri, "table": "t", "orderBy": "v"}
    drain(feed.stream().writeStream.format("barrage").options(**options))
    assert client.snapshot("t")["v"].to_pylist() == [1, 3, 2]


def test_append_stream_with_a_key_upserts(feed: Feed, drain: Drain, server: bs.Server, client: bs.Client) -> None:
    feed.add({"k": ["a", "b"], "v": [1, 1]})
    feed.add({"k": ["b"], "v": [2]})
    drain(feed.stream().writeStream.format("barrage").options(uri=server.uri, table="t", key="k"))
    assert by(client.snapshot("t"), "k") == [{"k": "a", "v": 1}, {"k": "b", "v": 2}]


def test_windows_are_keys_of_streams_and_batches(
    feed: Feed, drain: Drain, server: bs.Server, client: bs.Client
) -> None:
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    feed.add({"at": pa.array([start, start, start + dt.timedelta(minutes=1)], pa.timestamp("us", "UTC"))})
    options = {"uri": server.uri, "key": "window"}
    counts = feed.stream().groupBy(F.window("at", "1 minute")).count()
    drain(counts.writeStream.outputMode("complete").format("barrage").options(table="stream", **options))
    batch = feed.batch().groupBy(F.window("at", "1 minute")).count()
    for _ in range(2):  # the same keys: the same rows
        batch.write.format("barrage").options(table="batch", **options).mode("append").save()
    for table in ("stream", "batch"):
        rows = client.snapshot(table).to_pylist()
        assert sorted((row["window"]["start"], row["count"]) for row in rows) == [
            (start, 2),
            (start + dt.timedelta(minutes=1), 1),
        ]


def test_complete_stream_replaces_with_the_smallest_update(
    feed: Feed, drain: Drain, server: bs.Server, client: bs.Client
) -> None:
    feed.add({"k": ["a", "b"], "v": [1, 5]})
    top = feed.stream().groupBy("k").agg(F.sum("v").alias("v")).orderBy(F.desc("v")).limit(2)
    writer = top.writeStream.outputMode("complete").format("barrage").options(uri=server.uri, table="t", key="k")
    drain(writer)
    with client.subscribe("t", interval_ms=0) as live:
        feed.add({"k": ["c"], "v": [9]})
        drain(writer)
        update = next(live.updates(timeout=20))
        assert update.removed_values()["k"].to_pylist() == ["a"]
        assert update.added_values()["k"].to_pylist() == ["c"]
        assert not update.modified_rows
        assert by(live.to_arrow(), "k") == [{"k": "b", "v": 5}, {"k": "c", "v": 9}]


def test_update_mode_is_refused_by_spark_and_the_way_out_is_told(feed: Feed, drain: Drain, server: bs.Server) -> None:
    feed.add({"k": ["a"]})
    counts = feed.stream().groupBy("k").count()
    options = {"uri": server.uri, "table": "t", "key": "k"}
    with pytest.raises(StreamingQueryException, match="barrage does not support Update mode"):
        drain(counts.writeStream.outputMode("update").format("barrage").options(**options))
    assert "foreachBatch" in (BarrageDataSource.__doc__ or "")
    # Asked for by an option, where this package has the word.
    with pytest.raises(StreamingQueryException, match=r"UnsupportedOperationError.*foreachBatch\(BarrageSink"):
        drain(feed.stream().writeStream.format("barrage").options(mode="update", **options))


def test_batch_append_and_overwrite(spark: SparkSession, server: bs.Server, client: bs.Client) -> None:
    write = spark.range(0, 5, 1, 2).write.format("barrage").options(uri=server.uri, table="t", key="id")
    write.mode("append").save()
    spark.range(3, 8).write.format("barrage").options(uri=server.uri, table="t", key="id").mode("append").save()
    assert sorted(client.snapshot("t")["id"].to_pylist()) == list(range(8))
    write.mode("overwrite").save()
    assert sorted(client.snapshot("t")["id"].to_pylist()) == list(range(5))


def test_overwrite_and_append_take_turns_on_a_table_without_keys(
    spark: SparkSession, server: bs.Server, client: bs.Client
) -> None:
    """A subscriber sees the table before or after a write, and goes on following it."""
    write = [spark.range(first, first + 3).write.format("barrage") for first in (0, 10, 20, 30)]
    options = {"uri": server.uri, "table": "t"}
    write[0].options(**options).mode("append").save()
    seen: list[list[int]] = []
    with client.subscribe("t", interval_ms=0) as live:
        live.on_update(lambda _: seen.append(sorted(live.to_arrow()["id"].to_pylist())))
        write[1].options(**options).mode("overwrite").save()
        live.wait_until(lambda _: sorted(live.to_arrow()["id"].to_pylist()) == [10, 11, 12], timeout=60)
        write[2].options(**options).mode("append").save()
        live.wait_until(lambda table: table.size == 6, timeout=60)
        write[3].options(**options).mode("overwrite").save()
        live.wait_until(lambda table: table.size == 3, timeout=60)
        assert live.to_arrow().equals(client.snapshot("t"))
    contents = ([0, 1, 2], [10, 11, 12], [10, 11, 12, 20, 21, 22], [30, 31, 32])
    assert all(content in contents for content in seen)
    with pytest.raises(AnalysisException, match="contradict each other"):
        write[0].options(mode="append", **options).mode("overwrite").save()


def test_each_batch_write_counts(spark: SparkSession, server: bs.Server, client: bs.Client) -> None:
    write = spark.range(0, 4, 1, 2).write.format("barrage").options(uri=server.uri, table="t").mode("append")
    write.save()
    write.save()
    assert client.snapshot("t")["id"].to_pylist() == [0, 1, 2, 3, 0, 1, 2, 3]


def test_a_batch_write_under_a_publisher_counts_once(spark: SparkSession, server: bs.Server, client: bs.Client) -> None:
    options = {"uri": server.uri, "table": "t", "publisher": "nightly"}
    for _ in range(2):
        spark.range(4).write.format("barrage").options(**options).mode("append").save()
    assert client.snapshot("t").num_rows == 4


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"key": "nope"}, "UnknownColumnError.*'nope'"),
        ({"kye": "id"}, "InvalidRequestError.*Unknown option kye"),
        ({"mode": "upsert"}, "KeyMismatchError.*name the key columns"),
        ({"mode": "sideways"}, "InvalidRequestError.*sideways"),
        ({"table": ""}, "InvalidRequestError.*Say where to publish"),
    ],
)
def test_options_are_checked_before_anything_runs(
    spark: SparkSession, server: bs.Server, options: dict[str, str], text: str
) -> None:
    given = {"uri": server.uri, "table": "t"} | options
    with pytest.raises(AnalysisException, match=f"(?s){text}"):
        spark.range(1).write.format("barrage").options(**given).mode("append").save()
    assert not server.tables()


def test_types_are_checked_before_anything_runs(spark: SparkSession, server: bs.Server) -> None:
    rows = spark.sql("select 1 as id, interval '2' month as wait")
    with pytest.raises(AnalysisException, match=r"UnsupportedTypeError.*'wait'.*cast it to int"):
        rows.write.format("barrage").options(uri=server.uri, table="t").mode("append").save()
    assert not server.tables()
