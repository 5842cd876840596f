"""A query is an epoch of its publisher: it goes on from its checkpoint, and another one is not taken for it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

import barrage_server as bs
from barrage_server.spark import BarrageSink, register
from tests.spark.feeding import Drain, Feed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter

pytestmark = pytest.mark.spark


def _writer(route: str, feed: Feed, uri: str, *, takeover: bool = False) -> DataStreamWriter:
    frame = feed.stream()
    if route == "format":
        options = {"uri": uri, "table": "t", "publisher": "mine", "takeover": str(takeover)}
        return frame.writeStream.format("barrage").options(**options)
    return frame.writeStream.foreachBatch(BarrageSink(uri, table="t", publisher="mine", ship=route, takeover=takeover))


@pytest.mark.parametrize("route", ["driver", "executors", "format"])
def test_a_query_with_a_new_checkpoint_is_refused_unless_it_takes_the_name_over(
    spark: SparkSession, feed: Feed, drain: Drain, server: bs.Server, client: bs.Client, tmp_path: Path, route: str
) -> None:
    """Its batches were taken for repetitions: nothing was published, and nothing said."""
    register(spark)
    first, second = tmp_path / "first", tmp_path / "second"
    feed.add({"v": [1]})
    query = drain(_writer(route, feed, server.uri), first)
    feed.add({"v": [2]})
    assert drain(_writer(route, feed, server.uri), first) == query  # the same epoch after a restart
    assert client.last_batch("t", "mine", epoch=query) == 1
    with pytest.raises(StreamingQueryException, match=r"(?s)FencedError.*takeover=True"):
        drain(_writer(route, feed, server.uri), second)
    assert client.snapshot("t")["v"].to_pylist() == [1, 2]
    drain(_writer(route, feed, server.uri, takeover=True), second)
    assert client.snapshot("t")["v"].to_pylist() == [1, 2, 1, 2]
    feed.add({"v": [3]})
    for takeover in (False, True):
        with pytest.raises(StreamingQueryException, match=r"(?s)FencedError.*was taken over"):
            drain(_writer(route, feed, server.uri, takeover=takeover), first)
    drain(_writer(route, feed, server.uri), second)
    assert client.snapshot("t")["v"].to_pylist() == [1, 2, 1, 2, 3]
    assert server.statistics().staging.entries == 0


def test_takeover_is_true_or_false(server: bs.Server) -> None:
    with pytest.raises(bs.InvalidRequestError, match="takeover"):
        BarrageSink(server.uri, table="t", takeover="yes")  # type: ignore[arg-type]
