"""While a job runs, its driver keeps what the tasks have staged."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.publish import StagingArea
from barrage_server.server.server_state import ServerState
from barrage_server.spark import BarrageSink, register
from barrage_server.spark.keeping import kept_alive
from tests.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_it_is_kept_until_the_body_ends_also_after_a_failure() -> None:
    calls: list[float] = []
    enough = threading.Event()

    def keep() -> float:
        calls.append(0.0)
        if len(calls) == 3:
            enough.set()
        return 0.003

    with pytest.raises(ValueError, match="the job"), kept_alive(keep):
        assert enough.wait(60)
        raise ValueError("the job")
    after = len(calls)
    assert not [thread for thread in threading.enumerate() if thread.name == "barrage-keep"]
    assert len(calls) == after


def test_a_server_that_does_not_answer_does_not_fail_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barrage_server.spark.keeping._RETRY_SECONDS", 0.001)
    tried = threading.Semaphore(0)

    def keep() -> float:
        tried.release()
        raise bs.UnavailableError("away")

    with kept_alive(keep):
        for _ in range(3):
            assert tried.acquire(timeout=60)


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.parametrize("ship", ["executors", "connect"])
def test_a_batch_whose_tasks_outlive_the_expiry_is_committed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ship: str
) -> None:
    if ship == "connect":  # the way through the data source
        monkeypatch.setattr("barrage_server.spark.micro_batch.record_batch_messages", lambda frame: None)
        register(spark)
    limits = bs.Limits(staging=bs.StagingLimits(expiry_seconds=0.3, lifetime_seconds=0.3))
    gate = tmp_path / "gate"
    kept: list[int] = []
    keep_batch, expire = StagingArea.keep_batch, StagingArea.expire

    def clock() -> float:
        """Two thirds of the expiry pass with each call that keeps something, however slow the machine is."""
        return 0.2 * sum(kept)

    def counted(self: StagingArea, *arguments: Any) -> int:
        number = keep_batch(self, *arguments)
        assert expire(self, clock()) == 0
        kept.append(min(number, 1))
        return number

    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            while 1 in batch.column(0).to_pylist() and not gate.exists():
                threading.Event().wait(0.01)
            yield batch

    monkeypatch.setattr(StagingArea, "keep_batch", counted)
    monkeypatch.setattr(StagingArea, "expire", lambda self, now: expire(self, clock()))
    monkeypatch.setattr("barrage_server.server.assembly.ServerState", partial(ServerState, clock=clock))

    def open_gate() -> None:
        try:
            until(lambda: sum(kept) >= 10, 90)
        finally:
            gate.touch()

    with bs.Server(limits=limits) as server, ThreadPoolExecutor(1) as pool:
        opened = pool.submit(open_gate)
        sink = BarrageSink(server.uri, table="t", ship="executors", publisher="p")
        sink(spark.range(0, 2, 1, 2).mapInArrow(slow, "id long"), 0)
        opened.result()
        assert clock() >= 6 * 0.3
        assert server.statistics().staging.expired == 0
        assert sorted(server.table("t").to_arrow()["id"].to_pylist()) == [0, 1]
