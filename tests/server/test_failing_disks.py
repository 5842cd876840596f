"""On a disk that fails or is full, tables become read-only and say why, and nothing that was answered is lost."""

from __future__ import annotations

import errno
import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import barrage_server as bs
from barrage_server.cli.boundary import run
from barrage_server.errors import AlreadyExistsError, ReadOnlyError
from barrage_server.journal.files import JournalFile, OsDirectory
from tests.server.durable import SCHEMA, durability_of, rows
from tests.waiting import until
from tests.watched_files import watch_files


class FailingDisk:
    """Makes operations on files fail from some moment on.

    Args:
        monkeypatch: takes it back.
        error: the ``errno`` of the failure.
        operations: what fails: ``write``, ``sync``, or both.

    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, error: int = errno.ENOSPC, operations: Sequence[str] = ("write", "sync")
    ) -> None:
        self.fails = False

        def refuse(file: JournalFile, operation: str) -> None:
            whole = getattr(file, operation)

            def attempt(*arguments: Any) -> None:
                if self.fails:
                    raise OSError(error, os.strerror(error))
                whole(*arguments)

            setattr(file, operation, attempt)

        def limit(file: JournalFile, name: str) -> None:
            for operation in operations:
                refuse(file, operation)

        watch_files(monkeypatch, limit)


def is_refused(table: bs.AppendTable) -> bool:
    """Whether a row is refused because the folder of the table has lost its lock."""
    try:
        table.append(rows(2))
    except ReadOnlyError as error:
        assert "its file 'lock' was moved or removed" in str(error)
        return True
    return False


ERRORS = pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO], ids=["ENOSPC", "EIO"])


@ERRORS
@pytest.mark.parametrize("operations", [("write",), ("write", "sync")], ids=" and ".join)
@pytest.mark.parametrize("fsync", ["always", "interval", "os"])
def test_on_a_disk_that_fails_tables_can_be_read_only_and_say_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fsync: str, operations: tuple[str, ...], error: int
) -> None:
    disk, reason = FailingDisk(monkeypatch, error, operations), os.strerror(error)
    with bs.Server(data_dir=folder, fsync=fsync) as server, bs.connect(server.uri) as client:
        client.publish("t", rows(1))
        server.create_table("memory", SCHEMA, durable=False)
        disk.fails = True
        for _ in range(2):
            with pytest.raises(ReadOnlyError, match=reason):
                client.publish("t", rows(2))
        with pytest.raises(ReadOnlyError, match=reason):
            client.drop("t")
        with pytest.raises(ReadOnlyError, match=reason):
            client.create_table("u", SCHEMA)
        assert client.snapshot("t")["key"].to_pylist() == [1]
        assert client.publish("memory", rows(3)) == 1
        assert [table.name for table in server.tables()] == ["memory", "t"]
    disk.fails = False
    with bs.Server(data_dir=folder) as server:
        assert server.table("t").to_arrow()["key"].to_pylist() == [1]


@ERRORS
@pytest.mark.parametrize("fsync", ["always", "interval"])
def test_where_only_syncs_fail_what_was_answered_is_kept_and_the_rest_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fsync: str, error: int
) -> None:
    """With ``always``, rows that could not be synced are not answered for; with ``interval`` they were answered."""
    disk, reason = FailingDisk(monkeypatch, error, ("sync",)), os.strerror(error)
    with bs.Server(data_dir=folder, fsync=fsync) as server, bs.connect(server.uri) as client:
        client.publish("t", rows(0))
        disk.fails = True
        answered = [0]
        words = "not known whether these rows are on disk" if fsync == "always" else "can be read only"
        with pytest.raises(ReadOnlyError, match=f"{words}.*{reason}"):
            for number in range(1, 10_000):
                client.publish("t", rows(number))
                answered.append(number)
        shown = [0, 1] if fsync == "always" else answered
        for change in (
            lambda: client.publish("t", rows(-1)),
            lambda: client.drop("t"),
            lambda: client.create_table("u", SCHEMA),
        ):
            with pytest.raises(ReadOnlyError, match=reason):
                change()
        assert client.snapshot("t")["key"].to_pylist() == shown
        assert [table.name for table in server.tables()] == ["t"]
    disk.fails = False
    with bs.Server(data_dir=folder) as server:  # the machine did not end: the operating system has what was written
        assert server.table("t").to_arrow()["key"].to_pylist() == shown


@ERRORS
def test_where_only_syncs_fail_and_none_are_asked_for_the_log_tells_at_the_end(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: int
) -> None:
    disk = FailingDisk(monkeypatch, error, ("sync",))
    with bs.Server(data_dir=folder, fsync="os") as server, bs.connect(server.uri) as client:
        disk.fails = True
        for number in range(3):
            client.publish("t", rows(number))
        server.close()
    assert f"the journal could not be synced at the end: {os.strerror(error)}" in caplog.text
    disk.fails = False
    with bs.Server(data_dir=folder) as server:
        assert server.table("t").to_arrow()["key"].to_pylist() == [0, 1, 2]


@ERRORS
def test_a_checkpoint_that_cannot_be_written_leaves_room_for_the_journal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    disk, reason = FailingDisk(monkeypatch, error), os.strerror(error)
    with bs.Server(data_dir=folder) as server:
        table = server.append_table("t", SCHEMA)
        table.append(rows(1))
        durability = durability_of(server)
        rename = OsDirectory.rename

        def full(directory: OsDirectory, before: str, after: str) -> None:
            raise OSError(error, reason)

        monkeypatch.setattr(OsDirectory, "rename", full)
        with pytest.raises(OSError, match=reason):
            durability.save()
        assert list((folder / "state").iterdir()) == []
        monkeypatch.setattr(OsDirectory, "rename", rename)
        table.append(rows(2))
        disk.fails = True
        with pytest.raises(OSError, match=reason):
            durability.save()
        assert durability.failure is not None  # what could not be synced may be lost
    disk.fails = False
    with bs.Server(data_dir=folder) as server:
        assert server.table("t").to_arrow()["key"].to_pylist() == [1, 2]


def test_a_segment_that_cannot_be_begun_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bs.Server(data_dir=folder) as server:
        table = server.append_table("t", SCHEMA)
        durability = durability_of(server)
        for _ in range(3):
            table.append(rows(1))
            with monkeypatch.context() as patch:
                create = OsDirectory.create

                def torn(directory: OsDirectory, name: str, create: Any = create) -> JournalFile:
                    file: JournalFile = create(directory, name)

                    def fail(parts: Any) -> None:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

                    monkeypatch.setattr(file, "write", fail)
                    return file

                patch.setattr(OsDirectory, "create", torn)
                with pytest.raises(OSError, match="No space"):
                    durability.save()
        assert len(list((folder / "journal").iterdir())) == 1
        durability.save()
        table.append(rows(2))
    with bs.Server(data_dir=folder) as server:
        assert server.table("t").to_arrow()["key"].to_pylist() == [1, 1, 1, 2]


def test_a_folder_without_its_lock_is_not_written_to(folder: Path, tmp_path: Path) -> None:
    with bs.Server(data_dir=folder) as server:
        table = server.append_table("t", SCHEMA)
        table.append(rows(1))
        (folder / "lock").rename(tmp_path / "elsewhere")
        until(lambda: is_refused(table))
        with bs.Server(data_dir=folder) as other:
            assert [table.name for table in other.tables()] == ["t"]
        assert table.size >= 1


def test_a_moved_folder_stays_that_of_its_server(folder: Path, tmp_path: Path) -> None:
    """Another server at the former path has a folder of its own, which checkpoints of the first one leave alone."""
    moved = tmp_path / "moved"
    with bs.Server(data_dir=folder) as server:
        one = server.append_table("one", SCHEMA)
        one.append(rows(1))
        folder.rename(moved)
        with bs.Server(data_dir=folder) as other:
            two = other.append_table("two", SCHEMA)
            two.append(rows(2))
            for writer, table in ((server, one), (other, two), (server, one)):
                durability_of(writer).save()
                table.append(rows(3))
            with pytest.raises(AlreadyExistsError, match="Another server uses this data directory"):
                bs.Server(data_dir=moved)
    for path, name, keys in ((moved, "one", [1, 3, 3]), (folder, "two", [2, 3])):
        with bs.Server(data_dir=path) as again:
            assert again.table(name).to_arrow()["key"].to_pylist() == keys


def test_statistics_and_stats_say_that_the_disk_refuses_commits_and_tables_which_are_durable(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    disk = FailingDisk(monkeypatch)
    with (
        caplog.at_level(logging.INFO),
        bs.Server(data_dir=folder, fsync="always") as server,
        bs.connect(server.uri) as client,
    ):
        client.publish("t", rows(1))
        client.create_table("memory", SCHEMA, durable=False)
        assert {info.name: info.durable for info in client.tables()} == {"t": True, "memory": False}
        assert client.statistics()["read_only"] is None
        assert run(["stats", server.uri]) == 0
        assert "refused" not in capsys.readouterr().out
        disk.fails = True
        with pytest.raises(ReadOnlyError):
            client.publish("t", rows(2))
        figures = client.statistics()
        reason = (
            "the data directory cannot be written (No space left on device). Mend that, and start the server again."
        )
        assert figures["read_only"] == server.statistics().read_only == reason
        assert {entry["name"]: entry["durable"] for entry in figures["tables"]} == {"t": True, "memory": False}
        assert run(["stats", server.uri]) == 0
        assert f"commits to durable tables are refused: {reason}" in capsys.readouterr().out.splitlines()
        assert run(["tables", server.uri]) == 0
        lines = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
        assert lines == [["table", "rows", "durable"], ["memory", "0", "-"], ["t", "1", "yes"]]
        assert run(["tables", server.uri, "--json"]) == 0
        described = map(json.loads, capsys.readouterr().out.splitlines())
        assert {entry["name"]: entry["durable"] for entry in described} == {"t": True, "memory": False}
    assert "table t: made, append, 2 columns, durable" in caplog.messages
    assert "table memory: made, append, 2 columns, in memory" in caplog.messages


def test_a_caller_without_the_right_learns_nothing_of_the_disk() -> None:
    roles = {"reader": bs.Role(["*"], ["list", "read"])}
    with (
        bs.Server(token="t", roles=roles, default_roles=["reader"]) as server,
        bs.connect(server.uri, token="t") as client,
        pytest.raises(bs.ForbiddenError, match="'statistics'"),
    ):
        client.statistics()


def test_without_a_data_directory_the_log_does_not_say_where_a_table_is(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), bs.Server() as server:
        server.create_table("t", SCHEMA)
    assert "table t: made, append, 2 columns" in caplog.messages
