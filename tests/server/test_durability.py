"""Tables with a data directory survive the end of their server, however it ends."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.engine import TableVersion
from barrage_server.errors import AlreadyExistsError, InvalidRequestError, JournalError, LimitError, ReadOnlyError
from barrage_server.journal.checkpoint import save_checkpoint
from barrage_server.publish import Target, publish_rows
from barrage_server.rowset import RowSet
from barrage_server.server import durability
from tests.engine.samples import SAMPLES
from tests.server.durable import SCHEMA, commit, durability_of, rows, state
from tests.waiting import until

SERVE = """
import sys, barrage_server as bs
server = bs.Server(data_dir=sys.argv[1], fsync=sys.argv[2])
print(server.uri, flush=True)
server.wait()
"""


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
                durability_of(server).save()
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
            threads.submit(durability_of(server).save).result()
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
                durability_of(server).save()
        with bs.Server(data_dir=folder) as server:
            found = server.table(f"t{checkpoint}").to_arrow()
            assert found.schema.field("value").type == values.type
            assert str(found["value"].to_pylist()) == before


DECIMALS = (
    *(pa.decimal32(5, 2), pa.decimal32(5, -3), pa.decimal32(5, 30), pa.decimal32(9, 10)),
    *(pa.decimal64(18, 18), pa.decimal64(18, -3), pa.decimal64(18, 30), pa.decimal64(5, -1)),
    *(pa.decimal128(38, 0), pa.decimal128(10, -3), pa.decimal128(5, 30), pa.decimal128(5, 6)),
    *(pa.decimal256(76, 76), pa.decimal256(70, -3), pa.decimal256(5, 30), pa.decimal256(76, 77)),
)
NESTINGS: tuple[Callable[[pa.DataType], pa.DataType], ...] = (
    lambda data_type: data_type,
    pa.list_,
    pa.large_list,
    pa.list_view,
    lambda data_type: pa.list_(data_type, 2),
    lambda data_type: pa.struct([("at", pa.int64()), ("x", data_type)]),
    lambda data_type: pa.map_(pa.string(), data_type),
    lambda data_type: pa.map_(data_type, pa.int8()),
    lambda data_type: pa.list_(pa.struct([("deep", pa.list_(data_type))])),
)


def test_decimals_of_every_scale_come_back_at_any_depth(folder: Path) -> None:
    """Parquet has no negative scale, and none beyond the precision."""
    types = [nest(data_type) for data_type in DECIMALS for nest in NESTINGS]
    columns = []
    for data_type in DECIMALS:
        width = pa.int64() if data_type.byte_width > 4 else pa.int32()
        size = data_type.byte_width // width.byte_width
        words = pa.array([0] * size + [1, *[0] * (size - 1)] + [-1] * size, width)
        leaf = pa.Array.from_buffers(data_type, 3, [None, words.buffers()[1]])
        three = pa.array([0, 1, 2, 3], pa.int32())
        lists = pa.ListArray.from_arrays(three, leaf)
        wide = pa.array([0, 1, 2, 3], pa.int64())
        keys, ones = pa.array(["a", "b", "c"]), pa.array([1, None, 2], pa.int8())
        inner = pa.StructArray.from_arrays([lists], names=["deep"])
        columns += [
            leaf,
            lists,
            pa.LargeListArray.from_arrays(wide, leaf),
            pa.ListViewArray.from_arrays(three[:3], pa.array([1, 1, 1], pa.int32()), leaf),
            pa.FixedSizeListArray.from_arrays(pa.concat_arrays([leaf, leaf]), 2),
            pa.StructArray.from_arrays([pa.array([1, 2, 3]), leaf], names=["at", "x"]),
            pa.MapArray.from_arrays(three, keys, leaf),
            pa.MapArray.from_arrays(three, leaf, ones),
            pa.ListArray.from_arrays(three, inner),
        ]
    given = pa.table(columns, schema=pa.schema([(str(number), data_type) for number, data_type in enumerate(types)]))
    given = given.append_column("key", pa.array([1, 2, 3]))
    with bs.Server(data_dir=folder) as server:
        server.append_table("log", given.schema).append(given)
        server.keyed_table("keyed", given.schema, key="key").upsert(given)
        durability_of(server).save()
        before = state(server)
    with bs.Server(data_dir=folder) as server:
        assert durability_of(server).recovered.cycles == 0
        assert {name: rows for name, (rows, _) in state(server).items()} == {name: before[name][0] for name in before}
        for name in ("log", "keyed"):
            found = server.table(name).to_arrow()
            assert found.schema == given.schema
            for number in range(given.num_columns):
                assert found.column(number).equals(given.column(number)), found.schema.field(number)


def test_long_texts_are_saved_and_read_in_smaller_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One array holds less than 2 GiB of them, and a part has up to 65,536 rows."""
    sizes = list[int]()
    read = TableVersion.read

    def limited(version: TableVersion, rows: RowSet, columns: Sequence[int] | None = None) -> list[pa.Array]:
        if rows.size > 7:
            raise LimitError("Too large for one array.")
        sizes.append(rows.size)
        return read(version, rows, columns)

    odd = pa.schema([("key", pa.int64()), ("text", pa.string()), ("at", pa.date64())])  # in two files
    with bs.Server(data_dir=folder) as server:
        server.keyed_table("t", odd, key="key").upsert({**rows(*range(100)), "at": [None] * 100})
        server.keyed_table("u", SCHEMA, key="key").upsert(rows(*range(0, 90, 3)))
        before = state(server)
        with monkeypatch.context() as patched:
            patched.setattr(TableVersion, "read", limited)
            durability_of(server).save()
    assert sum(sizes) == 130
    monkeypatch.setattr("barrage_server.journal.columns_file._MOST_JOINED_BYTES", 100)
    with bs.Server(data_dir=folder) as server:
        assert durability_of(server).recovered.cycles == 0
        assert state(server) == before


def test_a_row_that_cannot_be_read_ends_the_checkpoint_with_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(*_: Any) -> None:
        raise LimitError("Too large for one array.")

    with bs.Server(data_dir=folder) as server:
        server.append_table("t", SCHEMA).append(rows(1, 2, 3))
        with monkeypatch.context() as patched:
            patched.setattr(TableVersion, "read", too_large)
            with pytest.raises(LimitError, match="Too large"):
                durability_of(server).save()
        assert list((folder / "state").iterdir()) == []
        durability_of(server).save()


def test_an_unexpected_error_of_a_checkpoint_does_not_end_its_thread(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(durability, "_LEAST_JOURNAL_BYTES", 1 << 12)
    monkeypatch.setattr(durability, "_TURN_SECONDS", 0.01)
    monkeypatch.setattr(durability, "_RETRY_SECONDS", 0.05)
    failures = [ValueError("odd"), MemoryError("full")]

    def failing(*given: Any) -> Any:
        if failures:
            raise failures.pop(0)
        return save_checkpoint(*given)

    monkeypatch.setattr(durability, "save_checkpoint", failing)
    with bs.Server(data_dir=folder) as server:
        table = server.keyed_table("t", SCHEMA, key="key")
        table.upsert(rows(*range(1000)))
        until(lambda: any(path.name.isdecimal() for path in (folder / "state").iterdir()))
        told = [record.getMessage() for record in caplog.records if "no checkpoint" in record.getMessage()]
        assert told == [
            "no checkpoint could be written; the journal grows: ValueError: odd",
            "no checkpoint could be written; the journal grows: MemoryError: full",
        ]
        (folder / "lock").unlink()
        until(lambda: durability_of(server).failure is not None)
        with pytest.raises(ReadOnlyError, match="lock"):
            table.upsert(rows(1))


def test_a_removed_lock_is_noticed_while_a_checkpoint_waits_for_its_next_attempt(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(durability, "_LEAST_JOURNAL_BYTES", 1)
    monkeypatch.setattr(durability, "_TURN_SECONDS", 0.01)
    monkeypatch.setattr(durability, "save_checkpoint", lambda *_: 1 / 0)
    with bs.Server(data_dir=folder) as server:
        server.append_table("t", SCHEMA).append(rows(1))
        until(lambda: "ZeroDivisionError" in caplog.text)
        (folder / "lock").unlink()
        until(lambda: durability_of(server).failure is not None)
        assert caplog.text.count("no checkpoint could be written") == 1


def test_a_data_directory_has_one_server(folder: Path) -> None:
    with bs.Server(data_dir=folder), pytest.raises(AlreadyExistsError, match="Another server"):
        bs.Server(data_dir=folder)
    bs.Server(data_dir=folder).close()


def test_a_folder_with_other_things_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear all")
    with pytest.raises(JournalError, match=r"not empty: there is letter\.txt"):
        bs.Server(data_dir=tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["letter.txt"]


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


def test_each_kind_of_table_can_be_in_memory_only(folder: Path) -> None:
    with bs.Server(data_dir=folder) as server:
        for durable in (None, False):
            server.append_table(f"append {durable}", SCHEMA, durable=durable)
            server.ring_table(f"ring {durable}", SCHEMA, capacity=5, durable=durable)
            server.keyed_table(f"keyed {durable}", SCHEMA, key="key", durable=durable)
            server.replaced_table(f"replaced {durable}", SCHEMA, durable=durable)
    with bs.Server(data_dir=folder) as server:
        kept = [table.name for table in server.tables()]
    assert kept == ["append None", "keyed None", "replaced None", "ring None"]


def test_a_table_in_memory_that_is_overwritten_stays_in_memory(folder: Path) -> None:
    """So does one that was never asked to be durable, and could not be."""
    with bs.Server(data_dir=folder) as server, bs.connect(server.uri) as client:
        server.append_table("memory", SCHEMA, durable=False)
        server.add_table("added", bs.table(rows(0)))
        names = ("memory", "added", "kept")
        for name in names:
            client.append(name, rows(1))
        assert [durability_of(server).keeps(server.table(name)) for name in names] == [False, False, True]
        for name in names:
            client.replace(name, rows(2, 3))
            assert client.snapshot(name).num_rows == 2
        assert [durability_of(server).keeps(server.table(name)) for name in names] == [False, False, True]
        client.publish("memory", rows(4), publisher="p", batch=0, mode="replace")
    with bs.Server(data_dir=folder) as server:
        assert [table.name for table in server.tables()] == ["kept"]
        assert {table for _, table, _ in server.statistics().commits} == {"kept"}


def test_a_table_in_memory_and_a_durable_one_are_not_taken_for_each_other(folder: Path) -> None:
    with bs.Server(data_dir=folder) as server, bs.connect(server.uri) as client:
        server.append_table("memory", SCHEMA, durable=False)
        server.append_table("kept", SCHEMA)
        for maker in (server, client):
            maker.create_table("kept", SCHEMA, durable=True)
            maker.create_table("memory", SCHEMA)
            with pytest.raises(AlreadyExistsError, match="exists in memory only"):
                maker.create_table("memory", SCHEMA, durable=True)
            with pytest.raises(AlreadyExistsError, match="'kept' is durable, and stays so"):
                maker.create_table("kept", SCHEMA, durable=False)
    with bs.Server(data_dir=folder) as server:  # a declaration of it, as in a configuration
        with pytest.raises(AlreadyExistsError, match="'kept' is durable, and stays so"):
            server.create_table("kept", SCHEMA, durable=False)
        server.create_table("kept", SCHEMA)


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
        durability = durability_of(server)

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


def test_an_interrupt_between_record_and_cycle_takes_the_record_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from barrage_server.engine import cycle_runner

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with bs.Server(data_dir=folder) as server:
        table, other = server.append_table("t", SCHEMA), server.append_table("other", SCHEMA)
        with monkeypatch.context() as patch:
            patch.setattr(cycle_runner, "without_collection", interrupted)  # what a cycle is computed by
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


def test_a_publisher_that_was_forgotten_meanwhile_does_not_come_back(folder: Path) -> None:
    with bs.Server(port=0, data_dir=folder) as server, bs.connect(server.uri) as client:
        client.publish("t", rows(1), publisher="p", batch=0)
    with bs.Server(port=0, data_dir=folder) as server, bs.connect(server.uri) as client:
        assert client.last_batch("t", "p") == 0
    with (
        bs.Server(port=0, data_dir=folder, limits=bs.Limits(ledger_seconds=1e-6)) as server,
        bs.connect(server.uri) as client,
    ):
        assert client.last_batch("t", "p") is None
        assert not server.statistics().commits
