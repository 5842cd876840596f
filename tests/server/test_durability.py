"""Tables with a data directory survive the end of their server, however it ends."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xxhash

import barrage_server as bs
from barrage_server.cli.data_directory import check_directory, repair_directory
from barrage_server.engine import UpdateGraph
from barrage_server.errors import AlreadyExistsError, InvalidRequestError, JournalError, ReadOnlyError
from barrage_server.journal.files import JournalFile, OsDirectory
from barrage_server.journal.recovery import read_identity, recover
from barrage_server.publish import Target, publish_rows
from barrage_server.wire.commit_messages import CommitRequest, StageRequest
from tests.engine.samples import SAMPLES
from tests.waiting import until
from tests.watched_files import watch_files

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])
SERVE = """
import sys, barrage_server as bs
server = bs.Server(data_dir=sys.argv[1], fsync=sys.argv[2])
print(server.uri, flush=True)
server.wait()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def rows(*keys: int) -> dict[str, list[Any]]:
    return {"key": list(keys), "text": [f"row {key}" for key in keys]}


def state(server: bs.Server) -> dict[str, tuple[Any, Any]]:
    return {table.name: (table.version.row_set, table.to_arrow()) for table in server.tables()}


@pytest.fixture(params=["always", "interval", "os"])
def process(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-c", SERVE, str(folder), request.param]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            yield child, child.stdout.readline().strip()
        finally:
            child.kill()


def test_a_killed_server_loses_nothing_that_it_has_answered(
    process: tuple[subprocess.Popen[str], str], folder: Path
) -> None:
    child, uri = process
    with bs.connect(uri) as client:
        client.create_table("log", SCHEMA)
        client.create_table("ring", SCHEMA, capacity=7)
        client.create_table("keyed", SCHEMA, key="key")
        client.create_table("gone", SCHEMA)
        client.create_table("memory", SCHEMA, durable=False)
        client.create_table("blink", SCHEMA, kind="blink")
        client.publish("whole", rows(9, 9), mode="replace")
        for number in range(20):
            for name in ("log", "ring", "keyed", "memory"):
                client.publish(name, rows(number, number + 1))
        client.publish("keyed", pa.table({"key": [3, 4]}), mode="delete")
        client.publish("log", rows(1), mode="replace")  # makes it a table of another kind
        client.drop("gone")
        before = {name: client.snapshot(name) for name in ("log", "ring", "keyed", "whole")}
    child.send_signal(signal.SIGKILL)
    child.wait()
    with bs.Server(data_dir=folder) as server, bs.connect(server.uri) as client:
        assert sorted(table.name for table in server.tables()) == ["keyed", "log", "ring", "whole"]
        assert {name: client.snapshot(name) for name in before} == before
        assert server.table("ring").version.row_set.first_key == 33
        client.publish("keyed", rows(100))
        client.publish("log", rows(2), mode="replace")
        assert client.snapshot("log")["key"].to_pylist() == [2]


def test_a_batch_that_was_committed_before_the_end_is_a_repetition_after_it(folder: Path) -> None:
    with bs.Server(data_dir=folder) as server:
        assert commit(server, 0).committed
    with bs.Server(data_dir=folder) as server:
        assert commit(server, 0).duplicate
        assert server.table("t").size == 1
        assert commit(server, 1).committed
        assert server.table("t").size == 2


def commit(server: bs.Server, batch: int) -> Any:
    server_state = server._server_state
    token = server_state.staging.open(StageRequest("query", "t", batch, attempt="a"), SCHEMA, server_state.clock())
    server_state.staging.add(token, pa.record_batch(rows(batch), SCHEMA), server_state.clock())
    server_state.staging.seal(token, 1, server_state.clock())
    return server_state.committer.commit(CommitRequest("query", "t", batch, tokens=(token,), schema=SCHEMA))


@pytest.mark.parametrize("saves", [0, 1, 3])
def test_a_checkpoint_has_what_the_journal_had(folder: Path, saves: int) -> None:
    with bs.Server(data_dir=folder) as server:
        log, ring = server.append_table("log", SCHEMA), server.ring_table("ring", SCHEMA, capacity=10)
        keyed, whole = server.keyed_table("keyed", SCHEMA, key="key"), server.replaced_table("whole", SCHEMA)
        for number in range(6):
            for table in (log, ring):
                table.append(rows(*range(number, number + 5)))
            keyed.upsert(rows(*range(3 * number, 3 * number + 6)))
            keyed.delete({"key": [3 * number]})
            whole.replace(rows(*range(number % 4)))
            if number < saves:
                assert server._server_state.durability is not None
                server._server_state.durability.save()
        before = state(server)
    with bs.Server(data_dir=folder) as server:
        assert state(server) == before
        server.table("keyed").upsert(rows(1000))  # type: ignore[attr-defined]
        server.table("ring").append(rows(1000))  # type: ignore[attr-defined]
        before = state(server)
    with bs.Server(data_dir=folder) as server:
        assert state(server) == before


def test_the_thread_that_writes_a_checkpoint_keeps_no_buffers_of_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow keeps them for each thread, and gives back those of the thread that asks."""
    asked = list[int]()

    class Pool:
        def release_unused(self) -> None:
            asked.append(threading.get_ident())

    with bs.Server(data_dir=folder) as server:
        server.keyed_table("t", SCHEMA, key="key").upsert(rows(1, 2, 3))
        with monkeypatch.context() as patched, ThreadPoolExecutor(1) as threads:
            patched.setattr(pa, "default_memory_pool", Pool)
            assert server._server_state.durability is not None
            threads.submit(server._server_state.durability.save).result()
            assert asked == [threads.submit(threading.get_ident).result()]


@pytest.mark.parametrize("name", SAMPLES)
def test_values_of_every_type_come_back(folder: Path, name: str) -> None:
    values = SAMPLES[name]
    schema = pa.schema([("id", pa.int64()), ("value", values.type)])
    for checkpoint in (False, True):
        with bs.Server(data_dir=folder) as server:
            table = server.append_table(f"t{checkpoint}", schema)
            table.append(pa.record_batch([pa.array(range(len(values))), values], schema=schema))
            before = str(table.to_arrow()["value"].to_pylist())
            if checkpoint:
                assert server._server_state.durability is not None
                server._server_state.durability.save()
        with bs.Server(data_dir=folder) as server:
            found = server.table(f"t{checkpoint}").to_arrow()
            assert found.schema.field("value").type == values.type
            assert str(found["value"].to_pylist()) == before


def test_a_data_directory_has_one_server(folder: Path) -> None:
    with bs.Server(data_dir=folder), pytest.raises(AlreadyExistsError, match="Another server"):
        bs.Server(data_dir=folder)
    bs.Server(data_dir=folder).close()


def test_a_folder_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear all")
    with pytest.raises(JournalError, match=r"not empty: there is letter\.txt"):
        bs.Server(data_dir=tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) in (["letter.txt"], ["letter.txt", "lock"])


def test_a_folder_that_cannot_be_made_is_a_wrong_argument_and_a_full_disk_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`serve` tells them apart by its exit code: a supervisor starts it anew after the latter alone."""
    (tmp_path / "file").touch()
    with pytest.raises(InvalidRequestError, match="cannot be used: Not a directory"):
        bs.Server(data_dir=tmp_path / "file" / "data")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(ReadOnlyError, match="cannot be used: No space left"):
        bs.Server(data_dir=tmp_path / "data")


def test_a_server_without_a_data_directory_cannot_be_told_to_sync() -> None:
    with pytest.raises(InvalidRequestError, match="With fsync='always' a server needs a data directory"):
        bs.Server(fsync="always")


def test_only_a_server_with_a_data_directory_has_durable_tables(folder: Path) -> None:
    with bs.Server() as server, pytest.raises(InvalidRequestError, match="no data directory"):
        server.create_table("t", SCHEMA, durable=True)
    with bs.Server(data_dir=folder) as server, pytest.raises(InvalidRequestError, match="one cycle"):
        server.create_table("t", SCHEMA, kind="blink", durable=True)


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


def test_a_table_that_failed_in_a_cycle_comes_back_as_it_was_before(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a cycle has not done is not repeated, and what it did in other tables is."""
    with bs.Server(data_dir=folder) as server:
        good, bad = server.append_table("good", SCHEMA), server.append_table("bad", SCHEMA)
        bad.append(rows(1))
        monkeypatch.setattr(bad, "apply_operations", lambda _: 1 / 0)
        with pytest.raises(bs.TableFailedError), server.graph.cycle():
            good.append(rows(2))
            bad.append(rows(2))
        good.append(rows(3))
    with bs.Server(data_dir=folder) as server:
        assert server.table("good").to_arrow()["key"].to_pylist() == [2, 3]
        assert server.table("bad").to_arrow()["key"].to_pylist() == [1]
        server.table("bad").append(rows(4))  # type: ignore[attr-defined]


def test_a_table_is_not_there_after_a_failed_first_cycle(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from barrage_server.engine import AppendTable

    with bs.Server(data_dir=folder) as server, bs.connect(server.uri) as client:
        with monkeypatch.context() as patch:
            patch.setattr(AppendTable, "apply_operations", lambda *_: 1 / 0)
            with pytest.raises(bs.BarrageError):
                client.publish("t", rows(1))
        client.publish("u", rows(1))
        assert [table.name for table in server.tables()] == ["u"]
    with bs.Server(data_dir=folder) as server:
        assert [table.name for table in server.tables()] == ["u"]


def test_a_table_that_was_not_overwritten_in_the_end_is_there_after_a_restart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from barrage_server.engine import ReplacedTable

    with bs.Server(data_dir=folder) as server, bs.connect(server.uri) as client:
        client.publish("t", rows(1, 2))
        with monkeypatch.context() as patch:
            patch.setattr(ReplacedTable, "apply_operations", lambda *_: 1 / 0)
            with pytest.raises(bs.BarrageError):
                client.publish("t", rows(3), mode="replace")
        client.publish("t", rows(4))
    with bs.Server(data_dir=folder) as server:
        assert server.table("t").to_arrow()["key"].to_pylist() == [1, 2, 4]


def test_damage_stops_the_start_and_names_the_place(folder: Path) -> None:
    with bs.Server(data_dir=folder) as server:
        table = server.append_table("t", SCHEMA)
        for number in range(10):
            table.append(rows(number))
    segment = next((folder / "journal").glob("*.log"))
    with bs.Server(data_dir=folder) as server:
        server.table("t").append(rows(10))  # type: ignore[attr-defined]  # in a later segment
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    with pytest.raises(JournalError, match=rf"damaged in {segment.name} at byte [\d,]+"):
        bs.Server(data_dir=folder)


@pytest.mark.parametrize("name", ["manifest.json", "*.parquet", "*.arrow"])
def test_a_changed_bit_anywhere_in_a_checkpoint_stops_the_start(folder: Path, name: str) -> None:
    """Neither Parquet nor Arrow notices a change of a value."""
    schema = pa.schema([("key", pa.int64()), ("when", pa.timestamp("s"))])
    with bs.Server(data_dir=folder) as server:
        server.append_table("t", schema).append({"key": list(range(1000)), "when": list(range(1000))})
        assert server._server_state.durability is not None
        server._server_state.durability.save()
    (path,) = (folder / "state").glob(f"*/{name}")
    whole = path.read_bytes()
    for place in range(0, len(whole), max(1, len(whole) // 40)):
        content = bytearray(whole)
        content[place] ^= 1
        path.write_bytes(content)
        with pytest.raises(JournalError, match=r"checkpoint.* is damaged: the checksum of"):
            bs.Server(data_dir=folder)
    path.write_bytes(whole)
    with bs.Server(data_dir=folder) as server:
        assert server.table("t").size == 1000


def saved(folder: Path, key: int) -> str:
    """Make a data directory with a checkpoint; its identity."""
    with bs.Server(data_dir=folder) as server:
        server.append_table("t", SCHEMA).append(rows(key))
        durability = server._server_state.durability
        assert durability is not None
        durability.save()
        return durability.identity


@pytest.mark.parametrize("part", ["state", "journal", "barrage.json"])
def test_a_part_of_another_data_directory_stops_the_start_and_both_are_named(tmp_path: Path, part: str) -> None:
    """Both have the same tables and the same steps."""
    here, there = tmp_path / "here", tmp_path / "there"
    own, other = saved(here, 1), saved(there, 2)
    source, target = there / part, here / part
    if source.is_dir():
        shutil.rmtree(target)
        shutil.copytree(source, target)
    else:
        shutil.copy(source, target)
    with pytest.raises(JournalError, match="belongs to") as caught:
        bs.Server(data_dir=here)
    if part == "barrage.json":
        own, other = other, own
    assert own in str(caught.value)
    assert other in str(caught.value)


@pytest.mark.parametrize("entry", [{}, {"publisher": "p", "batch": "x"}, {"publisher": "p", "batch": 1, "earlier": 5}])
def test_a_checkpoint_with_a_committed_batch_that_makes_no_sense_stops_the_start(
    folder: Path, entry: dict[str, Any]
) -> None:
    saved(folder, 1)
    (manifest,) = (folder / "state").glob("*/manifest.json")
    found = json.loads(manifest.read_bytes().partition(b"\n")[2])
    found["ledger"] = [{"table": found["tables"][0]["id"], "entry": entry}]
    text = json.dumps(found).encode()
    manifest.write_bytes(xxhash.xxh3_64_hexdigest(text).encode() + b"\n" + text)
    for _ in range(2):  # the directory is free again
        with pytest.raises(JournalError, match="cannot be served"):
            bs.Server(data_dir=folder)


def test_a_checkpoint_under_another_number_stops_the_start(folder: Path) -> None:
    saved(folder, 1)
    (checkpoint,) = (folder / "state").iterdir()
    for number in (1, 1000):
        moved = checkpoint.rename(checkpoint.with_name(f"{number:020d}"))
        with pytest.raises(JournalError, match=f"{moved.name} was written as {checkpoint.name}"):
            bs.Server(data_dir=folder)
        checkpoint = moved.rename(checkpoint)
    with bs.Server(data_dir=folder) as server:
        assert server.table("t").size == 1


@pytest.mark.parametrize("saves", [True, False])
@pytest.mark.parametrize("lost", ["state", "journal", "journal/*"])
def test_a_lost_part_of_a_data_directory_stops_the_start(folder: Path, lost: str, saves: bool) -> None:
    """Checkpoint and journal say which record the other one begins with, and a start stays refused."""
    with bs.Server(data_dir=folder, fsync="always") as server:
        table = server.append_table("t", SCHEMA)
        table.append(rows(1))
        if saves:
            assert server._server_state.durability is not None
            server._server_state.durability.save()
            table.append(rows(2))
    for path in folder.glob(lost):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if lost == "state" and not saves:
        with bs.Server(data_dir=folder) as server:
            assert server.table("t").size == 1
        return
    for _ in range(2):
        with pytest.raises(JournalError, match=r"[Rr]ecord \d+ of the journal.* backup"):
            bs.Server(data_dir=folder)
        with pytest.raises(JournalError):
            check_directory(folder)


@pytest.mark.parametrize("saves", [True, False])
def test_a_start_that_ends_before_its_first_record_is_no_loss(folder: Path, saves: bool) -> None:
    """Of a segment that was begun, a crash may leave the name alone, and starts may end there again and again."""
    with bs.Server(data_dir=folder) as server:
        if saves:
            server.append_table("t", SCHEMA).append(rows(1))
            assert server._server_state.durability is not None
            server._server_state.durability.save()
    segment = max((folder / "journal").glob("*.log"))
    for left in (b"", b"torn", b""):
        segment.write_bytes(left)
        check_directory(folder)
        root = OsDirectory(folder)
        identity = read_identity(root)
        assert identity is not None
        recover(root, identity, UpdateGraph())  # a start that ends before it writes
        assert segment.read_bytes() == b""
        with bs.Server(data_dir=folder) as server:
            assert [table.name for table in server.tables()] == (["t"] if saves else [])


@pytest.mark.parametrize("saves", [True, False])
def test_a_segment_that_is_cut_at_its_first_byte_is_begun_anew(folder: Path, saves: bool) -> None:
    with bs.Server(data_dir=folder, fsync="always") as server:
        table = server.append_table("t", SCHEMA)
        if saves:
            assert server._server_state.durability is not None
            server._server_state.durability.save()
        table.append(rows(1))
        table.append(rows(2))
    segment = max((folder / "journal").glob("*.log"))
    content = bytearray(segment.read_bytes())
    content[3] ^= 1
    segment.write_bytes(content)
    with pytest.raises(JournalError, match=rf"damaged in {segment.name} at byte 0"):
        bs.Server(data_dir=folder)
    repair_directory(folder, yes=True)
    for number in range(2):
        with bs.Server(data_dir=folder) as server:
            assert [table.name for table in server.tables()] == (["t"] if saves else ["again"][:number])
            if not saves:
                server.create_table("again", SCHEMA)


def test_a_torn_end_is_cut_off(folder: Path) -> None:
    with bs.Server(data_dir=folder, fsync="os") as server:
        table = server.append_table("t", SCHEMA)
        table.append(rows(1))
        table.append(rows(2))
    segment = max((folder / "journal").glob("*.log"))
    segment.write_bytes(segment.read_bytes()[:-20])
    with bs.Server(data_dir=folder) as server:
        assert server.table("t").to_arrow()["key"].to_pylist() == [1]
        server.table("t").append(rows(3))  # type: ignore[attr-defined]
    with bs.Server(data_dir=folder) as server:
        assert server.table("t").to_arrow()["key"].to_pylist() == [1, 3]


def test_a_server_keeps_its_journal_within_its_bound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barrage_server.server.durability._LEAST_JOURNAL_BYTES", 1 << 15)

    def nbytes() -> int:
        total = 0
        for path in (folder / "journal").iterdir():
            with suppress(FileNotFoundError):  # removed meanwhile
                total += path.stat().st_size
        return total

    with bs.Server(data_dir=folder) as server:
        table = server.keyed_table("t", SCHEMA, key="key")
        for _ in range(3):
            while nbytes() < 1 << 15:
                table.upsert(rows(*range(100)))
            until(lambda: nbytes() < 1 << 15)
    with bs.Server(data_dir=folder) as server:
        assert server.table("t").size == 100


@ERRORS
def test_a_checkpoint_that_cannot_be_written_leaves_room_for_the_journal(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    disk, reason = FailingDisk(monkeypatch, error), os.strerror(error)
    with bs.Server(data_dir=folder) as server:
        table = server.append_table("t", SCHEMA)
        table.append(rows(1))
        durability = server._server_state.durability
        assert durability is not None
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


def test_a_server_that_closes_does_not_wait_for_its_checkpoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal has everything, and the end of the process has a deadline."""
    from barrage_server.journal.columns_file import write_rows

    closing, reading = threading.Event(), threading.Event()

    def slow(directory: Any, stem: str, schema: pa.Schema, batches: Any) -> Any:
        reading.set()
        assert closing.wait(30)
        return write_rows(directory, stem, schema, batches)

    monkeypatch.setattr("barrage_server.journal.checkpoint.write_rows", slow)
    with bs.Server(data_dir=folder) as server:
        server.append_table("t", SCHEMA).append(rows(1))
        durability = server._server_state.durability
        assert durability is not None

        def save() -> None:
            with pytest.raises(InterruptedError):
                durability.save()

        saving = threading.Thread(target=save)
        saving.start()
        assert reading.wait(30)
    closing.set()
    saving.join(30)
    assert not saving.is_alive()
    assert list((folder / "state").iterdir()) == []
    with bs.Server(data_dir=folder) as server:
        assert server.table("t").size == 1


def test_who_waits_for_a_server_finds_its_directory_closed(folder: Path) -> None:
    """A program that waits for the end, in one thread, may exit then; another thread closes."""
    server = bs.Server(data_dir=folder)
    server.append_table("t", SCHEMA).append(rows(1))
    closer = threading.Thread(target=server.close)
    closer.start()
    assert server.wait(30)
    with bs.Server(data_dir=folder) as another:  # refused while the first one has the directory
        assert another.table("t").size == 1
    closer.join(30)


def test_a_segment_that_cannot_be_begun_leaves_nothing_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bs.Server(data_dir=folder) as server:
        table = server.append_table("t", SCHEMA)
        durability = server._server_state.durability
        assert durability is not None
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


def test_an_interrupt_between_record_and_cycle_takes_the_record_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from barrage_server.engine.cycle_runner import CycleRunner

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with bs.Server(data_dir=folder) as server:
        table, other = server.append_table("t", SCHEMA), server.append_table("other", SCHEMA)
        with monkeypatch.context() as patch:
            patch.setattr(CycleRunner, "_compute", interrupted)
            for action in (
                lambda: table.append(rows(1)),
                lambda: server.drop("other"),
                lambda: server.append_table("new", SCHEMA),
            ):
                with pytest.raises(KeyboardInterrupt):
                    action()
        table.append(rows(2))
        other.append(rows(3))
        before = state(server)
        assert sorted(before) == ["other", "t"]
    with bs.Server(data_dir=folder) as server:
        assert state(server) == before


def test_an_interrupt_when_a_cycle_is_visible_leaves_what_it_made_durable(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from barrage_server.engine.cycle_runner import CycleRunner

    show = CycleRunner._show

    def interrupted(runner: CycleRunner, cycle: Any) -> None:
        show(runner, cycle)
        raise KeyboardInterrupt

    with bs.Server(data_dir=folder) as server:
        given = pa.record_batch(rows(1), SCHEMA)
        with monkeypatch.context() as patch:
            patch.setattr(CycleRunner, "_show", interrupted)
            with pytest.raises(KeyboardInterrupt):
                publish_rows(server._server_state.catalog, Target("new"), SCHEMA, [given])
        server.table("new").append(rows(2))  # type: ignore[attr-defined]
        before = state(server)
    with bs.Server(data_dir=folder) as server:
        assert state(server) == before
        assert server.table("new").size == 2


def test_rows_behind_an_overwriting_in_one_cycle_are_refused(folder: Path) -> None:
    """They would be told to be there, and be in a table that is gone."""
    with bs.Server(data_dir=folder) as server, bs.connect(server.uri) as client:
        client.publish("t", rows(1))
        errors: list[BaseException] = []

        def publish(action: Any) -> None:
            try:
                action()
            except bs.UnavailableError as error:
                errors.append(error)

        table = server.table("t")
        overwrite = threading.Thread(target=publish, args=(lambda: client.publish("t", rows(2), mode="replace"),))
        append = threading.Thread(target=publish, args=(lambda: table.append(rows(3)),))  # type: ignore[attr-defined]
        with server.graph.between_cycles():
            overwrite.start()
            until(lambda: server.graph.waiting == 1)
            append.start()
            until(lambda: server.graph.waiting == 2)
        overwrite.join(30)
        append.join(30)
        assert [str(error) for error in errors] == ["Table 't' was overwritten by another one. Publish again."]
        assert client.snapshot("t")["key"].to_pylist() == [2]


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
