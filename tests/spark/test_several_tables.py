"""One sink for several tables: a micro-batch is in all of them, once, or in none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812

import barrage_server as bs
from barrage_server.spark import BarrageSink, SinkTable
from barrage_server.spark.publisher import Publisher
from barrage_server.wire.commit_messages import CommitRequest, CommitResult
from tests.spark.feeding import Drain, Feed, by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark

TABLES = {
    "all": SinkTable(),
    "sums": SinkTable(lambda rows: rows.groupBy("k").agg(F.sum("v").alias("v")), key="k", mode="upsert"),
}


@pytest.mark.parametrize("ship", ["driver", "executors"])
def test_each_batch_is_one_update_of_all_tables(
    feed: Feed, drain: Drain, server: bs.Server, client: bs.Client, ship: str
) -> None:
    sink = BarrageSink(server.uri, tables=TABLES, ship=ship)
    assert "'all', 'sums'" in repr(sink)
    feed.add({"k": ["a", "b", "a"], "v": [1, 2, 3]})
    writer = feed.stream().writeStream.foreachBatch(sink)
    drain(writer)
    steps: list[int] = []
    for name in TABLES:
        server.table(name).add_listener(lambda update, before, after: steps.append(after.step))
    feed.add({"k": ["b"], "v": [7]})
    drain(writer)
    assert len(steps) == 2
    assert len(set(steps)) == 1
    assert [row["v"] for row in by(client.snapshot("all"), "v")] == [1, 2, 3, 7]
    assert by(client.snapshot("sums"), "k") == [{"k": "a", "v": 4}, {"k": "b", "v": 7}]
    assert server.statistics().staging.entries == 0


def test_a_batch_that_one_table_refuses_is_in_none(feed: Feed, drain: Drain, server: bs.Server) -> None:
    server.append_table("all", {"k": "string", "v": "int64"})
    server.keyed_table("sums", {"k": "string", "other": "int64"}, key="k")
    feed.add({"k": ["a"], "v": [1]})
    with pytest.raises(StreamingQueryException, match="SchemaMismatchError"):
        drain(feed.stream().writeStream.foreachBatch(BarrageSink(server.uri, tables=TABLES)))
    assert [table.size for table in server.tables()] == [0, 0]
    assert server.statistics().commits == ()
    assert server.statistics().staging.entries == 0


def test_a_batch_whose_driver_died_after_the_commit_is_found_in_all_tables(
    feed: Feed, drain: Drain, server: bs.Server, client: bs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Publisher.commit

    def dying(self: Publisher, request: CommitRequest) -> CommitResult:
        commit(self, request)
        raise bs.PublishError("the driver stopped here")

    feed.add({"k": ["a"], "v": [1]})
    writer = feed.stream().writeStream.foreachBatch(BarrageSink(server.uri, tables=TABLES))
    monkeypatch.setattr(Publisher, "commit", dying)
    drain(writer)  # the commit failed for the sink, which finds the batch on the server
    monkeypatch.setattr(Publisher, "commit", commit)
    feed.add({"k": ["a"], "v": [2]})
    drain(writer)
    assert client.snapshot("all")["v"].to_pylist() == [1, 2]
    assert client.snapshot("sums").to_pylist() == [{"k": "a", "v": 2}]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "table="),
        ({"table": "t", "tables": TABLES}, "table="),
        ({"tables": {}}, "SinkTable"),
        ({"tables": {"t": "u"}}, "'t' must be a SinkTable"),
        ({"tables": TABLES, "key": "k"}, r"SinkTable\(..., key"),
        ({"tables": {"t": SinkTable(mode="upsert")}}, "key"),
    ],
)
def test_wrong_tables_are_refused_at_once(server: bs.Server, given: dict[str, Any], text: str) -> None:
    with pytest.raises(bs.InvalidRequestError, match=text):
        BarrageSink(server.uri, **given)


def test_a_function_that_returns_no_rows_is_told(spark: Any, server: bs.Server) -> None:
    def nothing(rows: DataFrame) -> DataFrame:
        return None

    with pytest.raises(bs.InvalidRequestError, match="must return a DataFrame, not None"):
        BarrageSink(server.uri, tables={"t": SinkTable(nothing)})(spark.range(3), 0)
