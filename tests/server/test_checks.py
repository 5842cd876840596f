"""Batches are checked beside their receipt, and what comes of it is what checking them one after the other gives."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

from barrage_server.errors import LimitError, WireFormatError
from barrage_server.server.checks import checked
from barrage_server.server.workers import Workers
from barrage_server.wire.intake import Intake

ROWS = 40_000  # large enough for a thread


def batch(number: int, rows: int = ROWS) -> pa.RecordBatch:
    return pa.record_batch([pa.array(np.arange(rows) + number)], ["a"])


def damaged() -> pa.RecordBatch:
    text = pa.Array.from_buffers(
        pa.string(), ROWS, [None, pa.py_buffer(np.arange(ROWS + 1, dtype=np.int32)), pa.py_buffer(b"\xff" * ROWS * 8)]
    )
    return pa.record_batch([text], ["a"])


@pytest.fixture
def workers() -> Iterator[Workers]:
    pool = Workers(2, "checks")
    yield pool
    pool.shutdown()


@pytest.mark.parametrize("sizes", [[], [1], [ROWS], [ROWS, 1, ROWS, ROWS, 1, 1], [1] * 5, [ROWS] * 9])
def test_order_rows_and_bytes_are_kept(workers: Workers, sizes: list[int]) -> None:
    batches = [batch(number, rows) for number, rows in enumerate(sizes)]
    intake = Intake(batch(0).schema)
    found = list(checked(batches, intake, workers))
    assert [plain for plain, _ in found] == batches
    assert [nbytes for _, nbytes in found] == [8 * rows for rows in sizes]
    assert intake.nbytes == 8 * sum(sizes)


def test_a_batch_is_checked_while_the_next_one_is_awaited(workers: Workers) -> None:
    done = threading.Event()

    class Watched(Intake):
        def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
            try:
                return super().take(batch)
            finally:
                done.set()

    def received() -> Iterator[pa.RecordBatch]:
        yield batch(0)
        assert done.wait(30)
        yield batch(1)

    assert len(list(checked(received(), Watched(batch(0).schema), workers))) == 2


@pytest.mark.parametrize("place", [0, 1, 4])
def test_what_is_damaged_ends_it(workers: Workers, place: int) -> None:
    batches = [damaged() if number == place else damaged().slice(0, 0) for number in range(5)]
    with pytest.raises(WireFormatError, match="UTF-8"):
        list(checked(batches, Intake(damaged().schema), workers))


def test_the_limit_is_that_of_all_batches(workers: Workers) -> None:
    intake = Intake(batch(0).schema, 3 * 8 * ROWS, "too much")
    rows = checked([batch(number) for number in range(5)], intake, workers)
    assert len([next(rows) for _ in range(3)]) == 3
    with pytest.raises(LimitError, match="too much"):
        next(rows)


def test_where_no_thread_is_free_the_caller_checks() -> None:
    pool, release, begun = Workers(1, "checks"), threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        release.wait(60)

    held = pool.submit(hold)
    assert begun.wait(30)
    assert len(list(checked([batch(number) for number in range(5)], Intake(batch(0).schema), pool))) == 5
    assert not pool.submit_if_free(lambda: None)
    release.set()
    held.result(30)
    pool.shutdown()


def test_a_pool_that_is_shut_down_holds_nothing_up(workers: Workers) -> None:
    def received() -> Iterator[pa.RecordBatch]:
        yield batch(0)
        workers.shutdown()
        yield batch(1)
        yield batch(2)

    assert len(list(checked(received(), Intake(batch(0).schema), workers))) == 3


def test_nothing_works_on_a_stream_that_has_failed(workers: Workers) -> None:
    begun, release, running = threading.Event(), threading.Event(), threading.Event()

    class Slow(Intake):
        def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
            running.set()
            begun.set()
            release.wait(60)
            running.clear()
            return super().take(batch)

    def received() -> Iterator[pa.RecordBatch]:
        yield batch(0)
        assert begun.wait(30)
        threading.Timer(0.05, release.set).start()
        raise OSError("the client has gone")

    with pytest.raises(OSError, match="gone"):
        list(checked(received(), Slow(batch(0).schema), workers))
    assert not running.is_set()
