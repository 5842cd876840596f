"""Publishers that wait for the disk share its syncs."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import barrage_server as bs
from barrage_server.journal.files import JournalFile
from tests.server.durable import SCHEMA, rows
from tests.waiting import until
from tests.watched_files import watch_files


class SlowDisk:
    """A disk whose syncs of journal segments wait until they are let go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.entered, self.may_go_on = threading.Semaphore(0), threading.Semaphore(0)
        self.holds = False

        def slow(file: JournalFile, name: str) -> None:
            if name.endswith(".log"):
                sync = file.sync

                def slowly() -> None:
                    if self.holds:
                        self.entered.release()
                        assert self.may_go_on.acquire(timeout=30)
                    sync()

                monkeypatch.setattr(file, "sync", slowly)

        watch_files(monkeypatch, slow)


def test_publishers_that_wait_for_the_disk_share_a_sync(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one syncs; what comes meanwhile is on disk with one more."""
    disk = SlowDisk(monkeypatch)
    with bs.Server(data_dir=folder, fsync="always") as server, ThreadPoolExecutor(8) as pool:
        tables: list[Any] = [server.append_table(f"t{number}", SCHEMA) for number in range(8)]
        disk.holds = True
        first = pool.submit(tables[0].append, rows(0))
        assert disk.entered.acquire(timeout=30)
        others = [pool.submit(table.append, rows(1)) for table in tables[1:]]
        until(lambda: all(table.size for table in tables))
        assert not any(answer.done() for answer in (first, *others))
        disk.may_go_on.release()
        first.result(30)
        assert disk.entered.acquire(timeout=30)
        assert not any(answer.done() for answer in others)
        disk.may_go_on.release()
        for answer in others:
            answer.result(30)
        assert not disk.entered.acquire(blocking=False)
        disk.holds = False


def test_a_publisher_alone_syncs_once_on_its_own_thread(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other thread is woken, and nothing is synced twice."""
    syncs: list[int] = []

    def watched(file: JournalFile, name: str) -> None:
        if name.endswith(".log"):
            sync = file.sync

            def counted() -> None:
                syncs.append(threading.get_ident())
                sync()

            monkeypatch.setattr(file, "sync", counted)

    watch_files(monkeypatch, watched)
    with bs.Server(data_dir=folder, fsync="always") as server:
        table: Any = server.append_table("t", SCHEMA)
        syncs.clear()
        for key in range(10):
            table.append(rows(key))
        assert syncs == [threading.get_ident()] * 10


def test_commits_of_several_publishers_share_a_sync(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that waits for the disk does not keep another publisher's from running."""
    disk = SlowDisk(monkeypatch)
    with (
        bs.Server(data_dir=folder, fsync="always") as server,
        bs.connect(server.uri) as client,
        ThreadPoolExecutor(8) as pool,
    ):
        tables: list[Any] = [server.append_table(f"t{number}", SCHEMA) for number in range(8)]

        def publish(number: int) -> bs.PublishResult:
            return client.publish(f"t{number}", rows(number), publisher=f"p{number}", batch=0)

        disk.holds = True
        first = pool.submit(publish, 0)
        assert disk.entered.acquire(timeout=30)
        others = [pool.submit(publish, number) for number in range(1, 8)]
        until(lambda: all(table.size for table in tables))
        assert not any(answer.done() for answer in (first, *others))
        disk.may_go_on.release()
        assert first.result(30).applied
        assert disk.entered.acquire(timeout=30)
        assert not any(answer.done() for answer in others)
        disk.may_go_on.release()
        assert all(answer.result(30).applied for answer in others)
        assert not disk.entered.acquire(blocking=False)
        disk.holds = False


def test_a_publisher_that_waits_while_the_server_closes_is_told_what_is_true(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SlowDisk(monkeypatch)
    with bs.Server(data_dir=folder, fsync="always") as server, ThreadPoolExecutor(2) as pool:
        table: Any = server.append_table("t", SCHEMA)
        disk.holds = True
        answers = [pool.submit(table.append, rows(0))]
        assert disk.entered.acquire(timeout=30)
        answers.append(pool.submit(table.append, rows(1)))
        until(lambda: table.size == 2)
        closing = threading.Thread(target=server.close)
        closing.start()
        disk.holds = False
        disk.may_go_on.release()
        closing.join(30)
        assert not closing.is_alive()
        answered = [answer.exception(30) is None for answer in answers]
    with bs.Server(data_dir=folder) as server:
        found = server.table("t").to_arrow()["key"].to_pylist()
        assert answered[0]
        assert found == [0, 1]


def test_rows_that_were_acknowledged_beside_the_end_of_a_process_are_kept(folder: Path) -> None:
    """Threads of the process go on until it has ended: the directory is closed beside them, and not the graph."""
    program = """
import sys, threading
import barrage_server as bs

def feed(number):
    for n in range(1 << 60):
        try:
            table.append({"key": [4 * n + number], "text": ["x" * (n % 50)]})
        except bs.ReadOnlyError:
            return
        if n == 20:
            many.set()
        sys.stdout.write(f"{4 * n + number}\\n")
        sys.stdout.flush()

many = threading.Event()
server = bs.Server(data_dir=sys.argv[1], fsync="always")
table = server.append_table("t", {"key": "int64", "text": "string"})
for number in range(3):
    threading.Thread(target=feed, args=[number], daemon=True).start()
many.wait()
"""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", program, folder], check=True, capture_output=True, text=True, timeout=120
        )
        assert "cannot be written" not in done.stderr
        told = {int(line) for line in done.stdout.split("\n")[:-1]}
        with bs.Server(data_dir=folder) as server:
            table: Any = server.table("t")
            assert told <= set(table.to_arrow()["key"].to_pylist())
            server.drop("t")
