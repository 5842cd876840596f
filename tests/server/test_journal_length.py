"""Publishers wait for a checkpoint when the journal has more than twice the bytes of the tables."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import barrage_server as bs
from barrage_server.journal.checkpoint import save_checkpoint
from barrage_server.server import durability
from barrage_server.server.durable_tables import DurableTables
from tests.server.durable import durability_of
from tests.waiting import until


def flood(server: bs.Server, table: bs.KeyedTable, lengths: list[int], room: list[int]) -> threading.Thread:
    """A thread that overwrites ten rows 200 times, and notes the bytes of the journal and of the table after each."""

    def write() -> None:
        for number in range(200):
            table.upsert({"k": range(10), "b": [number.to_bytes(2, "big") * 500] * 10})
            lengths.append(durability_of(server).nbytes)
            room.append(table.nbytes)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread


def test_publishers_wait_for_a_checkpoint_rather_than_lengthen_the_journal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    least, gate, save = 50_000, threading.Event(), save_checkpoint

    def saved(*given: Any) -> Any:
        assert gate.wait(30)
        return save(*given)

    monkeypatch.setattr(durability, "_LEAST_JOURNAL_BYTES", least)
    monkeypatch.setattr(durability, "save_checkpoint", saved)
    lengths, room = list[int](), list[int]()
    with bs.Server(data_dir=folder) as server:
        thread = flood(server, server.keyed_table("t", {"k": "int64", "b": "binary"}, key="k"), lengths, room)
        until(lambda: durability_of(server).nbytes > 2 * least)
        gate.set()
        thread.join(30)
        assert len(lengths) == 200
    assert all(length <= 2 * max(least, nbytes) for length, nbytes in zip(lengths, room, strict=True))
    assert 2 * max(least, *room) < 1_000_000, "much less than what was written"


def test_publishers_wait_for_no_checkpoint_that_cannot_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(durability, "_LEAST_JOURNAL_BYTES", 50_000)
    monkeypatch.setattr(durability, "save_checkpoint", full)
    lengths, room = list[int](), list[int]()
    with bs.Server(data_dir=folder) as server:
        thread = flood(server, server.keyed_table("t", {"k": "int64", "b": "binary"}, key="k"), lengths, room)
        thread.join(30)
        assert len(lengths) == 200
    assert lengths[-1] > 1_000_000
    assert "no checkpoint could be written" in caplog.text


def test_a_checkpoint_that_publishers_wait_for_is_written_though_the_last_one_was_larger(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal may have twice the bytes of the tables, and a checkpoint is due at the bytes of the last one."""
    least = 50_000
    monkeypatch.setattr(durability, "_LEAST_JOURNAL_BYTES", least)
    monkeypatch.setattr(durability, "_ROOM_SECONDS", 3600.0)
    lengths, room = list[int](), list[int]()
    with bs.Server(data_dir=folder) as server:
        large = server.append_table("large", {"b": "binary"})
        large.append({"b": [os.urandom(1000)] * 1000})
        durability_of(server).save()
        server.drop("large")
        thread = flood(server, server.keyed_table("t", {"k": "int64", "b": "binary"}, key="k"), lengths, room)
        thread.join(60)
        assert len(lengths) == 200
    assert max(lengths) <= 2 * max(least, *room)


def test_tables_that_shrink_leave_the_journal_less_room(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    least, step = 50_000, 10_000
    monkeypatch.setattr(durability, "_LEAST_JOURNAL_BYTES", least)
    monkeypatch.setattr(durability, "_MEASURED_BYTES", step)
    lengths, room = list[int](), list[int]()
    with bs.Server(data_dir=folder) as server:
        large = server.append_table("large", {"b": "binary"})
        large.append({"b": [os.urandom(1000)] * 1000})
        durability_of(server).save()
        large.append({"b": [b"more"]})  # the tables are measured
        server.drop("large")
        thread = flood(server, server.keyed_table("t", {"k": "int64", "b": "binary"}, key="k"), lengths, room)
        thread.join(60)
        assert len(lengths) == 200
    assert max(lengths) <= 2 * max(least, *room) + step


@pytest.fixture
def held_checkpoints(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Checkpoints of 50,000 bytes of journal, which begin and do not end until the event is set."""
    gate, save = threading.Event(), save_checkpoint

    def saved(*given: Any) -> Any:
        assert gate.wait(60)
        return save(*given)

    monkeypatch.setattr(durability, "_LEAST_JOURNAL_BYTES", 50_000)
    monkeypatch.setattr(durability, "_MEASURED_BYTES", 0)
    monkeypatch.setattr(durability, "_ROOM_SECONDS", 3600.0)
    monkeypatch.setattr(durability, "save_checkpoint", saved)
    yield gate
    gate.set()


def waiting_drop(server: bs.Server) -> threading.Thread:
    """A thread that drops a large table. It waits for a checkpoint, and so does every publisher after it."""
    server.append_table("memory", {"k": "int64"}, durable=False)
    server.append_table("large", {"b": "binary"}).append({"b": [bytes(150_000)]})
    thread = threading.Thread(target=server.drop, args=("large",), daemon=True)
    thread.start()
    until(lambda: "large" not in [table.name for table in server.tables()])
    return thread


@pytest.mark.parametrize("front", ["pyarrow", "grpc"])
def test_publishers_that_wait_for_a_checkpoint_keep_no_reader_waiting(
    folder: Path, front: str, held_checkpoints: threading.Event
) -> None:
    def publish(number: int) -> None:
        with bs.connect(server.uri, timeout=60) as client:
            client.publish("t", {"k": [number], "b": [b"few"]})

    with bs.Server(port=0, data_dir=folder, front=front) as server, bs.connect(server.uri) as client:
        table = server.keyed_table("t", {"k": "int64", "b": "binary"}, key="k")
        threads = [waiting_drop(server)]
        threads += [threading.Thread(target=publish, args=(number,), daemon=True) for number in range(40)]
        for thread in threads[1:]:
            thread.start()
        until(lambda: table.size == 40)
        assert all(thread.is_alive() for thread in threads)
        assert "t" in [found.name for found in client.tables()]
        assert client.snapshot("t").num_rows == 40
        assert client.append("memory", {"k": [1]}) == 1
        held_checkpoints.set()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()


def test_a_server_that_closes_lets_waiting_publishers_go(
    folder: Path, held_checkpoints: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    with bs.Server(port=0, data_dir=folder) as server, bs.connect(server.uri, timeout=60) as client:
        server.keyed_table("t", {"k": "int64", "b": "binary"}, key="k")
        threads = [waiting_drop(server)]
        threads.append(threading.Thread(target=client.publish, args=("t", {"k": [0], "b": [b"few"]}), daemon=True))
        threads[1].start()
        until(lambda: server.table("t").size == 1)
        assert all(thread.is_alive() for thread in threads)
        closing = threading.Timer(1.0, held_checkpoints.set)  # the thread that writes the checkpoint ends last
        closing.start()
        server.close()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    assert "does not end" not in caplog.text


def test_a_measurement_that_fails_does_not_end_the_thread_that_writes_checkpoints(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failures, measure = [RuntimeError("odd")], DurableTables.nbytes

    def failing(tables: DurableTables) -> int:
        if threading.current_thread().name == "barrage-journal" and failures:
            raise failures.pop()
        return int(measure.__get__(tables))

    monkeypatch.setattr(durability, "_LEAST_JOURNAL_BYTES", 50_000)
    monkeypatch.setattr(durability, "_MEASURED_BYTES", 0)
    monkeypatch.setattr(durability, "_ROOM_SECONDS", 0.1)
    monkeypatch.setattr(durability, "_TURN_SECONDS", 0.01)
    monkeypatch.setattr(durability, "_RETRY_SECONDS", 0.05)
    monkeypatch.setattr(DurableTables, "nbytes", property(failing))
    with bs.Server(data_dir=folder) as server:
        large = server.append_table("large", {"b": "binary"})
        large.append({"b": [os.urandom(1_000_000)]})
        durability_of(server).save()
        server.drop("large")
        table = server.keyed_table("t", {"k": "int64", "b": "binary"}, key="k")
        for _ in range(4):
            table.upsert({"k": [0], "b": [bytes(40_000)]})
        until(lambda: not failures)
        assert "odd" in caplog.text
        for _ in range(8):
            table.upsert({"k": [0], "b": [bytes(40_000)]})
        until(lambda: durability_of(server).nbytes < 50_000)
