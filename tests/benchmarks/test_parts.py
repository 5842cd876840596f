"""What the benchmarks are made of: rows that are written, the raw client, and how its findings are judged."""

from __future__ import annotations

import os
import threading
import time
from itertools import islice

import numpy as np
import pytest

import barrage_server as bs
from benchmarks import data
from benchmarks.exchange import Exchange, Receiver, connect
from benchmarks.machine import cpu_seconds, resident_bytes
from benchmarks.servers.writer import ROWS_PER_VIEW, Writer, appended, one_per_view, upserted
from benchmarks.steady import Steady, on_time
from benchmarks.works.growth import exponent


def test_rows_have_the_size_that_is_said() -> None:
    batch = data.batch(0, 100_000)
    values = sum(buffer.size for column in batch.columns for buffer in column.buffers()[1:] if buffer is not None)
    assert values / batch.num_rows == pytest.approx(data.BYTES_PER_ROW, abs=0.05)


def test_batches_have_all_ids_once() -> None:
    ids = np.concatenate([batch["id"].to_numpy() for batch in data.batches(2500, 1000)])
    assert ids.tolist() == list(range(2500))


def test_appended_rows_go_on_counting() -> None:
    first, second = islice(appended(10, 5), 2)
    assert (first["id"].to_pylist(), second["id"].to_pylist()) == ([10, 11, 12, 13, 14], [15, 16, 17, 18, 19])


def test_upserted_rows_are_known_keys_none_twice_in_a_batch() -> None:
    for batch in islice(upserted(1000, 100), 5):
        ids = batch["id"].to_numpy()
        assert len(np.unique(ids)) == len(ids) <= 100
        assert ids.max() < 1000


def test_one_row_of_each_view_changes() -> None:
    for batch in islice(one_per_view(500), 70):
        assert (batch["id"].to_numpy() // ROWS_PER_VIEW).tolist() == [0, 1, 2, 3, 4]


def test_a_writer_tells_what_it_has_failed_with() -> None:
    failed = threading.Event()

    def write(_: object) -> None:
        failed.set()
        raise ValueError("full")

    writer = Writer(write, appended(0, 1), 0.001)
    assert failed.wait(10)
    with pytest.raises(ValueError, match="full"):
        writer.stop()


@pytest.mark.parametrize(
    ("times", "share"),
    [
        ([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], 90.0),  # none in the last tenth
        ([0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95], 100.0),
        ([0.5, 0.6], 10.0),
        ([], 0.0),
    ],
)
def test_a_message_is_in_time_within_an_interval_and_a_half(times: list[float], share: float) -> None:
    assert on_time(times, 0.0, 1.0, 100) == pytest.approx(share)


def test_a_rate_is_sustained_when_all_of_it_arrives_and_is_young() -> None:
    def seen(rate: float, age: float) -> bool:
        return Steady(rate, 0.5, age, 28.0, 100.0).keeps_up(1000.0)

    assert seen(990.0, 0.1)
    assert not seen(900.0, 0.1)
    assert not seen(990.0, 0.6)


def test_the_exponent_of_cost_against_size() -> None:
    assert exponent([(10.0, 3.0), (100.0, 3.0), (1000.0, 3.0)]) == pytest.approx(0.0)
    assert exponent([(10.0, 3.0), (100.0, 30.0), (1000.0, 300.0)]) == pytest.approx(1.0)


def test_the_raw_client_receives_content_windows_and_changes() -> None:
    with bs.Server() as server, connect(server.port) as client:
        table = server.append_table("t", data.SCHEMA)
        table.append(data.batch(0, 1000))
        whole = Exchange(client, "t", 1, deephaven=False)
        assert whole.first_content(1000) >= 1000 * 24
        window = Exchange(client, "t", 1, deephaven=False, viewport=(0, 100))
        assert window.move(window.request((500, 100))) > 0
        window.cancel()
        receiver = Receiver(whole)
        table.append(data.stamped(data.batch(1000, 10), 5.0))
        while not receiver.has_caught_up(10, np.inf):
            assert receiver.error is None
        seen = receiver.between(0.0, np.inf)
        receiver.stop()
        assert (seen.rows.sum(), set(seen.oldest[seen.rows > 0])) == (10, {5.0})


def test_processor_time_is_that_of_all_threads_of_a_process() -> None:
    before, own = cpu_seconds(os.getpid()), time.process_time()
    while time.process_time() - own < 0.05:
        pass
    used = cpu_seconds(os.getpid()) - before
    assert 0.05 <= used < time.process_time() - own + 0.05
    assert resident_bytes(os.getpid()) > 1 << 20
