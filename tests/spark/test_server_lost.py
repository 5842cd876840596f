"""A server that goes away under a query: it is waited for, and what it has forgotten is not passed over in silence."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812

import barrage_server as bs
from barrage_server.spark import BarrageSink, register
from barrage_server.spark.gap import check_gap
from barrage_server.spark.publisher import Publisher
from barrage_server.spark.settings import PublishSettings
from barrage_server.wire.protocol import PublishMode, TableKind
from tests.server.test_failing_disks import FailingDisk
from tests.spark.feeding import Drain, Feed, by
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter

pytestmark = pytest.mark.spark

ROUTES = ["driver", "executors", "format"]
_SECONDS = 60.0


class Restarting:
    """A server that can be ended and begun anew at the same address, with nothing in it."""

    def __init__(self) -> None:
        self.server = bs.Server()
        self.uri, self.port = self.server.uri, self.server.port

    def begin(self) -> None:
        """Serve again."""
        self.server = bs.Server(port=self.port)

    def restart(self) -> None:
        """End and begin."""
        self.server.close()
        self.begin()

    def rows(self, *columns: str) -> list[dict[str, object]]:
        """What table ``t`` has."""
        return by(self.server.table("t").to_arrow(), *columns)


@pytest.fixture
def restarting(spark: SparkSession) -> Iterator[Restarting]:
    register(spark)
    made = Restarting()
    yield made
    made.server.close()


def _writer(route: str, frame: DataFrame, uri: str, **options: object) -> DataStreamWriter:
    if route == "format":
        given = {name: str(value) for name, value in options.items()}
        return frame.writeStream.format("barrage").options(uri=uri, table="t", **given)
    return frame.writeStream.foreachBatch(BarrageSink(uri, table="t", ship=route, **options))  # type: ignore[arg-type]


# What a gap is.


def _takes_none() -> bool:
    """The answer of a server whose table does not blink."""
    return False


def _settings(**given: object) -> PublishSettings:
    return PublishSettings("grpc://here:1", "t", **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("batch", "last", "missing"),
    [(1, None, "batch 0"), (5, None, "batches 0 to 4"), (5, 3, "batch 4"), (9, 3, "batches 4 to 8")],
)
def test_batches_that_the_server_does_not_know_are_named(
    batch: int, last: int | None, missing: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(
        bs.LostBatchesError, match=rf"Table 't' at grpc://here:1 lacks {missing} .*new checkpointLocation"
    ):
        check_gap(_settings(mode=PublishMode.APPEND), "p", batch, last, _takes_none)
    check_gap(_settings(mode=PublishMode.APPEND, allow_gap=True), "p", batch, last, _takes_none)
    assert f"lacks {missing} " in caplog.text


@pytest.mark.parametrize(("batch", "last"), [(0, None), (4, 3), (0, 0), (3, 3), (2, 3)])
def test_a_batch_that_follows_or_comes_again_leaves_no_gap(batch: int, last: int | None) -> None:
    """The check for lost batches raises no error."""
    check_gap(_settings(mode=PublishMode.APPEND), "p", batch, last, _takes_none)


def test_a_table_that_is_replaced_or_blinks_has_no_gap() -> None:
    """The check for lost batches raises no error, although batches 0 to 4 are unknown."""
    check_gap(_settings(mode=PublishMode.REPLACE), "p", 5, None, _takes_none)
    check_gap(_settings(mode=PublishMode.APPEND, kind=TableKind.BLINK), "p", 5, None, _takes_none)
    check_gap(_settings(mode=PublishMode.APPEND), "p", 5, None, lambda: True)


# A query on a server that was restarted.


@pytest.mark.parametrize("route", ROUTES)
def test_a_query_on_a_server_that_lost_its_table_fails_and_warns_when_told_so(
    feed: Feed, drain: Drain, restarting: Restarting, route: str
) -> None:
    feed.add({"v": [1]})
    drain(_writer(route, feed.stream(), restarting.uri))
    restarting.restart()
    feed.add({"v": [2]})
    with pytest.raises(
        StreamingQueryException, match=r"(?s)LostBatchesError.*lacks batch 0 of this query.*new checkpoint"
    ):
        drain(_writer(route, feed.stream(), restarting.uri))
    assert not restarting.server.tables()
    assert restarting.server.statistics().staging.entries == 0
    drain(_writer(route, feed.stream(), restarting.uri, allow_gap=True))
    feed.add({"v": [3]})
    drain(_writer(route, feed.stream(), restarting.uri))  # nothing is missing any more that is not known
    assert restarting.rows("v") == [{"v": 2}, {"v": 3}]


@pytest.mark.parametrize("route", ROUTES)
def test_a_query_goes_on_into_a_blink_table_that_was_made_anew(
    feed: Feed, drain: Drain, restarting: Restarting, route: str
) -> None:
    """The table is made by the program of the server, and the query says nothing of its kind."""
    restarting.server.blink_table("t", {"v": "int64"})
    feed.add({"v": [1]})
    drain(_writer(route, feed.stream(), restarting.uri))
    restarting.restart()
    restarting.server.blink_table("t", {"v": "int64"})
    feed.add({"v": [2]})
    drain(_writer(route, feed.stream(), restarting.uri))
    assert restarting.rows("v") == [{"v": 2}]


def test_a_new_checkpoint_replays_everything(feed: Feed, drain: Drain, restarting: Restarting, tmp_path: Path) -> None:
    feed.add({"v": [1]})
    drain(_writer("driver", feed.stream(), restarting.uri))
    restarting.restart()
    feed.add({"v": [2]})
    drain(_writer("driver", feed.stream(), restarting.uri), tmp_path / "another")
    assert restarting.rows("v") == [{"v": 1}, {"v": 2}]


def test_a_dropped_table_is_a_gap_too(feed: Feed, drain: Drain, restarting: Restarting) -> None:
    feed.add({"v": [1]})
    drain(_writer("driver", feed.stream(), restarting.uri))
    restarting.server.drop("t")
    feed.add({"v": [2]})
    with pytest.raises(StreamingQueryException, match="lacks batch 0"):
        drain(_writer("driver", feed.stream(), restarting.uri))


@pytest.mark.parametrize("route", ["driver", "format"])
def test_complete_mode_fills_a_server_that_lost_its_table(
    feed: Feed, drain: Drain, restarting: Restarting, route: str
) -> None:
    def totals() -> DataStreamWriter:
        frame = feed.stream().groupBy("k").agg(F.sum("v").alias("v"))
        return _writer(route, frame, restarting.uri, key="k").outputMode("complete")

    feed.add({"k": ["a", "b"], "v": [1, 2]})
    drain(totals())
    restarting.restart()
    feed.add({"k": ["a"], "v": [10]})
    drain(totals())
    assert restarting.rows("k") == [{"k": "a", "v": 11}, {"k": "b", "v": 2}]


def test_a_server_that_is_restarted_between_the_question_and_the_commit_is_noticed(
    spark: SparkSession, restarting: Restarting, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = BarrageSink(restarting.uri, table="t", ship="driver", publisher="p")
    sink(spark.range(1), 0)
    commit = Publisher.commit
    restarts = [True]

    def late(self: Publisher, request: object) -> object:
        if restarts:
            restarts.pop()
            restarting.restart()
        return commit(self, request)  # type: ignore[arg-type]

    monkeypatch.setattr(Publisher, "commit", late)
    with pytest.raises(bs.LostBatchesError, match="lacks batch 0 of this query"):
        sink(spark.range(1), 1)
    assert not restarting.server.tables()


# A server that is away for a while.


@pytest.mark.parametrize("ship", ["driver", "executors"])
def test_a_batch_that_loses_its_server_on_the_way_is_sent_again(
    spark: SparkSession, restarting: Restarting, monkeypatch: pytest.MonkeyPatch, ship: str
) -> None:
    """The first batch, so that nothing else is lost with the server."""
    last_batch = Publisher.last_batch
    restarts = [True]

    def then_gone(self: Publisher, *asked: str, takeover: bool) -> int | None:
        found = last_batch(self, *asked, takeover=takeover)
        if restarts:
            restarts.pop()
            restarting.server.close()
            threading.Timer(0.5, restarting.begin).start()
        return found

    monkeypatch.setattr(Publisher, "last_batch", then_gone)
    BarrageSink(restarting.uri, table="t", ship=ship, retry_seconds=_SECONDS)(spark.range(0, 4, 1, 2), 0)
    assert restarting.rows("id") == [{"id": number} for number in range(4)]


@contextlib.contextmanager
def attempts(port: int) -> Iterator[list[object]]:
    """Stands in for a server that is away: connections are closed at once, and counted."""
    made: list[object] = []
    with socket.create_server(("127.0.0.1", port)) as listener:

        def refuse() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, address = listener.accept()
                    connection.close()
                    made.append(address)

        refusing = threading.Thread(target=refuse)
        refusing.start()
        yield made
        listener.shutdown(socket.SHUT_RDWR)
        refusing.join(_SECONDS)


@pytest.mark.parametrize("route", ROUTES)
def test_stopping_a_query_ends_its_wait(feed: Feed, restarting: Restarting, tmp_path: Path, route: str) -> None:
    feed.add({"v": [1]})
    writer = _writer(route, feed.stream(), restarting.uri, retry_seconds=float("inf"))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.processAllAvailable()
    restarting.server.close()
    with attempts(restarting.port) as made:
        feed.add({"v": [2]})
        until(lambda: len(made) > 2 or not query.isActive, _SECONDS)
        assert query.isActive
        stopping = threading.Thread(target=query.stop)
        stopping.start()
        stopping.join(_SECONDS)
        assert not stopping.is_alive()
    assert query.exception() is None


def test_a_query_that_was_stopped_in_its_wait_goes_on_where_it_was(
    feed: Feed, drain: Drain, restarting: Restarting, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The batch that waited does not count as published."""
    checkpoint = tmp_path / "checkpoint"
    with bs.Server() as other:
        kept = other.uri
        feed.add({"v": [1]})
        query = _writer("driver", feed.stream(), kept, retry_seconds=float("inf"))
        running = query.option("checkpointLocation", str(checkpoint)).start()
        running.processAllAvailable()
        running.stop()
    feed.add({"v": [2]})
    running = (
        _writer("driver", feed.stream(), kept, retry_seconds=float("inf"))
        .option("checkpointLocation", str(checkpoint))
        .start()
    )
    until(lambda: "waiting for the server" in caplog.text, _SECONDS)
    running.stop()
    drain(_writer("driver", feed.stream(), restarting.uri, allow_gap=True), checkpoint)
    assert restarting.rows("v") == [{"v": 2}]


# A server whose disk is full.


@pytest.mark.parametrize("route", ROUTES)
def test_on_a_full_disk_the_query_ends_and_its_next_start_repeats_the_batch(
    spark: SparkSession, feed: Feed, drain: Drain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, route: str
) -> None:
    register(spark)
    disk = FailingDisk(monkeypatch)
    feed.add({"v": [1]})
    with bs.Server(data_dir=tmp_path / "data") as server:
        port, uri = server.port, server.uri
        drain(_writer(route, feed.stream(), uri))
        disk.fails = True
        feed.add({"v": [2]})
        for _ in range(2):  # a query that is started again meanwhile ends again
            with pytest.raises(StreamingQueryException, match=r"(?s)ReadOnlyError.*cannot be written.*No space left"):
                drain(_writer(route, feed.stream(), uri, retry_seconds=_SECONDS))
        assert server.table("t").to_arrow()["v"].to_pylist() == [1]
        disk.fails = False
    feed.add({"v": [3]})
    with bs.Server(port=port, data_dir=tmp_path / "data") as server:
        drain(_writer(route, feed.stream(), uri))
        assert by(server.table("t").to_arrow(), "v") == [{"v": 1}, {"v": 2}, {"v": 3}]
