"""Spark repeats itself: restarts, replayed batches, retried tasks. The table must not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812

import barrage_server as bs
from barrage_server.spark import BarrageDataSource, BarrageSink, register
from barrage_server.spark.publisher import Publisher
from barrage_server.spark.source import BatchWriter, StagedTask, StreamWriter
from barrage_server.wire.commit_messages import CommitRequest, CommitResult
from tests.spark.feeding import Drain, Feed, by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter
    from pyspark.sql.types import StructType

pytestmark = pytest.mark.spark

ROUTES = ["foreachBatch", "format"]


def _writer(route: str, frame: DataFrame, server: bs.Server) -> DataStreamWriter:
    if route == "format":
        return frame.writeStream.format("barrage").options(uri=server.uri, table="t")
    return frame.writeStream.foreachBatch(BarrageSink(server.uri, table="t"))


@pytest.fixture(autouse=True)
def _registered(spark: SparkSession) -> None:
    register(spark)


@pytest.mark.parametrize("route", ROUTES)
def test_a_restart_from_the_checkpoint_goes_on_where_it_was(
    feed: Feed, drain: Drain, server: bs.Server, client: bs.Client, route: str
) -> None:
    feed.add({"v": [1, 2]})
    first = drain(_writer(route, feed.stream(), server))
    feed.add({"v": [3]})
    second = drain(_writer(route, feed.stream(), server))
    assert first == second
    assert client.snapshot("t")["v"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("route", ROUTES)
def test_a_batch_committed_here_but_not_in_sparks_log_is_not_doubled(
    feed: Feed, drain: Drain, server: bs.Server, client: bs.Client, tmp_path: Path, route: str
) -> None:
    checkpoint = tmp_path / "checkpoint"
    feed.add({"v": [1, 2]})
    feed.add({"v": [3]})
    drain(_writer(route, feed.stream(), server), checkpoint)
    _forget_last_commit(checkpoint)
    feed.add({"v": [4]})
    drain(_writer(route, feed.stream(), server), checkpoint)
    assert client.snapshot("t")["v"].to_pylist() == [1, 2, 3, 4]
    assert server.statistics().staging.entries == 0


def test_sums_stay_right_when_an_aggregating_query_replays_its_last_batch(
    feed: Feed, drain: Drain, server: bs.Server, client: bs.Client, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    sums = {"k": ["a", "b", "a"], "v": [1, 2, 3]}, {"k": ["a"], "v": [10]}, {"k": ["b"], "v": [100]}
    for rows in sums[:2]:
        feed.add(rows)
    sink = BarrageSink(server.uri, table="t", key=["k"])
    totals = feed.stream().groupBy("k").agg(F.sum("v").alias("v"))
    drain(totals.writeStream.outputMode("update").foreachBatch(sink), checkpoint)
    _forget_last_commit(checkpoint)
    feed.add(sums[2])
    drain(totals.writeStream.outputMode("update").foreachBatch(sink), checkpoint)
    assert by(client.snapshot("t"), "k") == [{"k": "a", "v": 14}, {"k": "b", "v": 102}]


@pytest.mark.parametrize("ship", ["driver", "executors"])
def test_a_batch_given_twice_by_hand_counts_once_and_is_not_even_computed(
    spark: SparkSession, server: bs.Server, client: bs.Client, ship: str
) -> None:
    sink = BarrageSink(server.uri, table="t", ship=ship)
    for batch in (0, 1):
        sink(spark.range(3), batch)
    would_fail = spark.range(3).selectExpr("if(id >= 0, raise_error('computed'), id) as id")
    for batch in (1, 0):
        sink(would_fail, batch)
    assert client.snapshot("t").num_rows == 6


def test_a_failure_between_staging_and_commit_leaves_nothing_and_the_restart_heals_it(
    feed: Feed, drain: Drain, server: bs.Server, client: bs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed.add({"v": [1, 2]})
    writer = feed.stream().writeStream.foreachBatch(BarrageSink(server.uri, table="t", ship="driver"))
    commit = Publisher.commit

    def broken(self: Publisher, request: CommitRequest) -> CommitResult:
        raise bs.PublishError("the driver stopped here")

    monkeypatch.setattr(Publisher, "commit", broken)
    with pytest.raises(StreamingQueryException, match="the driver stopped here"):
        drain(writer)
    assert not server.tables()
    assert server.statistics().staging.entries == 0
    monkeypatch.setattr(Publisher, "commit", commit)
    drain(writer)
    assert client.snapshot("t")["v"].to_pylist() == [1, 2]


def test_a_commit_whose_answer_was_lost_is_repeated_without_harm(
    spark: SparkSession, server: bs.Server, client: bs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Publisher.commit

    def twice(self: Publisher, request: CommitRequest) -> CommitResult:
        assert commit(self, request).committed
        again = commit(self, request)
        assert again.duplicate
        return again

    monkeypatch.setattr(Publisher, "commit", twice)
    BarrageSink(server.uri, table="t", ship="driver")(spark.range(3), 0)
    assert client.snapshot("t").num_rows == 3


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The publishers whose last batch was asked for."""
    found = []
    last_batch = Publisher.last_batch

    def noted(self: Publisher, publisher: str, *others: Any, takeover: bool) -> int | None:
        found.append(publisher)
        return last_batch(self, publisher, *others, takeover=takeover)

    monkeypatch.setattr(Publisher, "last_batch", noted)
    return found


def test_a_sink_asks_for_the_last_batch_once_per_query(
    spark: SparkSession, server: bs.Server, client: bs.Client, asked: list[str]
) -> None:
    """Afterwards each batch follows the one before, as the server itself confirms."""
    sink = BarrageSink(server.uri, table="t", ship="driver", publisher="p")
    for batch in (0, 1, 1, 2, 3):  # a repetition is no news either
        sink(spark.range(batch, batch + 1), batch)
    assert asked == ["p", "p"]
    again = BarrageSink(server.uri, table="t", ship="driver", publisher="p")
    again(spark.range(3, 4), 3)
    again(spark.range(4, 5), 4)
    assert asked == ["p"] * 3
    assert client.snapshot("t")["id"].to_pylist() == [0, 1, 2, 3, 4]


def test_a_sink_that_did_not_ask_learns_from_the_refused_commit(
    spark: SparkSession, server: bs.Server, client: bs.Client
) -> None:
    """The table was dropped, or another process has gone on with the query: nothing is lost or doubled unseen."""
    sink = BarrageSink(server.uri, table="t", ship="driver", publisher="p")
    for batch in (0, 1):
        sink(spark.range(batch, batch + 1), batch)
    BarrageSink(server.uri, table="t", ship="driver", publisher="p")(spark.range(2, 3), 2)
    sink(spark.range(2, 3), 2)
    assert client.snapshot("t")["id"].to_pylist() == [0, 1, 2]
    client.drop("t")
    with pytest.raises(bs.PublishError, match="lacks batches 0 to 2 of this query"):
        sink(spark.range(3, 4), 3)
    assert server.statistics().staging.entries == 0
    whole = BarrageSink(server.uri, table="w", mode="replace", ship="driver", publisher="p")
    whole(spark.range(1), 0)
    client.drop("w")
    whole(spark.range(2), 1)
    assert client.snapshot("w").num_rows == 2


def test_a_stream_writer_asks_only_when_its_commit_is_refused(
    server: bs.Server, client: bs.Client, asked: list[str]
) -> None:
    schema = pa.schema([("v", pa.int64())])
    options = {"uri": server.uri, "table": "t", "allow_gap": "true"}

    def commit(number: int) -> None:
        writer = StreamWriter(options, schema, overwrite=False)  # Spark makes one anew for each batch
        writer.commit([writer.stage(iter([pa.record_batch([[number]], schema)]), "q", number)], number)

    for number in (0, 1, 1, 2):
        commit(number)
    assert asked == []
    assert client.snapshot("t")["v"].to_pylist() == [0, 1, 2]
    commit(4)
    assert asked == ["q"]
    client.drop("t")
    options["allow_gap"] = "false"
    with pytest.raises(bs.PublishError, match="lacks batches 0 to 4 of this query"):
        commit(5)
    assert asked == ["q", "q"]
    assert server.statistics().staging.entries == 0


def test_two_queries_write_into_one_table(
    spark: SparkSession, drain: Drain, server: bs.Server, client: bs.Client, tmp_path: Path
) -> None:
    queries = []
    for number, route in enumerate(ROUTES):
        own = Feed(spark, tmp_path / f"feed-{number}")
        own.add({"v": [10 * number + 1]})
        own.add({"v": [10 * number + 2]})
        writer = _writer(route, own.stream(), server).option("checkpointLocation", str(tmp_path / f"check-{number}"))
        queries.append(writer.start())
    for query in queries:
        query.processAllAvailable()
        query.stop()
    assert sorted(client.snapshot("t")["v"].to_pylist()) == [1, 2, 11, 12]


def test_rows_of_a_failed_attempt_are_not_counted_in_a_batch_write(
    spark: SparkSession, server: bs.Server, client: bs.Client
) -> None:
    spark.dataSource.register(_failing_source())
    spark.range(0, 100, 1, 2).write.format("failing").options(uri=server.uri, table="t").mode("append").save()
    assert sorted(client.snapshot("t")["id"].to_pylist()) == list(range(100))
    # What the failed attempts of both tasks had staged was dropped with the commit of their batch.
    assert server.statistics().staging.entries == 0


def test_rows_of_a_failed_attempt_are_not_counted_in_a_stream(
    spark: SparkSession, feed: Feed, drain: Drain, server: bs.Server, client: bs.Client
) -> None:
    spark.dataSource.register(_failing_source())
    feed.add({"v": [1, 2]})
    feed.add({"v": [3]})
    drain(feed.stream().writeStream.format("failing").options(uri=server.uri, table="t"))
    assert client.snapshot("t")["v"].to_pylist() == [1, 2, 3]


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, server: bs.Server) -> None:
    rows = spark.range(0, 10, 1, 2).selectExpr("if(id = 9, raise_error('no nine'), id) as id")
    with pytest.raises(Exception, match="no nine"):
        rows.write.format("barrage").options(uri=server.uri, table="t").mode("append").save()
    with pytest.raises(Exception, match="no nine"):
        BarrageSink(server.uri, table="t", ship="executors")(rows, 0)
    # The task that did not fail may have staged its rows; they are invisible, and expire.
    assert not server.tables()


def test_what_a_failed_job_has_staged_is_dropped_by_batch(
    spark: SparkSession, server: bs.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped = []
    abort_batch = Publisher.abort_batch

    def noted(self: Publisher, publisher: str, table: str, batch: int, epoch: str | None) -> int:
        dropped.append((publisher, table, batch))
        return abort_batch(self, publisher, table, batch, epoch)

    monkeypatch.setattr(Publisher, "abort_batch", noted)
    rows = spark.range(0, 10, 1, 2).selectExpr("if(id = 9, raise_error('no nine'), id) as id")
    with pytest.raises(Exception, match="no nine"):
        BarrageSink(server.uri, table="t", ship="executors", publisher="p")(rows, 0)
    assert dropped == [("p", "t", 0)]


def _forget_last_commit(checkpoint: Path) -> None:
    """What a driver leaves behind that dies after the sink has returned and before Spark wrote its commit log."""
    commits = sorted((path for path in (checkpoint / "commits").iterdir() if path.name.isdigit()), key=_number)
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)


def _number(path: Path) -> int:
    return int(path.name)


def _failing_source() -> type[BarrageDataSource]:
    """A data source whose tasks fail after they have staged everything, at their first attempt."""

    # Classes of a function travel to the workers by value, with what they need.
    class FailingBatch(BatchWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
            staged = super().write(iterator)
            if TaskContext.get().attemptNumber() == 0:
                raise RuntimeError("after staging")
            return staged

    class FailingStream(StreamWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedTask:
            staged = super().write(iterator)
            if TaskContext.get().attemptNumber() == 0:
                raise RuntimeError("after staging")
            return staged

    class Failing(BarrageDataSource):
        @classmethod
        def name(cls) -> str:
            return "failing"

        def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
            made = super().writer(schema, overwrite)
            made.__class__ = FailingBatch
            return made

        def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
            made = super().streamWriter(schema, overwrite)
            made.__class__ = FailingStream
            return made

    return Failing
