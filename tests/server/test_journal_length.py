"""Publishers wait for a checkpoint when the journal has more than twice the bytes of the tables."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import barrage_server as bs
from barrage_server.journal.checkpoint import save_checkpoint
from barrage_server.server import durability
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
