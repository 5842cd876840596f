"""A data directory that is damaged, mixed up or incomplete stops the start, with the place; a torn end is cut off."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import xxhash

import barrage_server as bs
from barrage_server.cli.data_directory import check_directory, repair_directory
from barrage_server.engine import UpdateGraph
from barrage_server.errors import InvalidRequestError, JournalError, ReadOnlyError
from barrage_server.journal.files import OsDirectory
from barrage_server.journal.recovery import read_identity, recover
from tests.server.durable import SCHEMA, durability_of, rows


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
        durability_of(server).save()
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
        durability = durability_of(server)
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
        with pytest.raises(JournalError, match=r"committed batch.* cannot be (read|served)"):
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
            durability_of(server).save()
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
            durability_of(server).save()
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
            durability_of(server).save()
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


def kept_over_starts(folder: Path) -> Path:
    """Make a data directory with rows of two starts; the segment of the second."""
    for number in range(2):
        with bs.Server(data_dir=folder, fsync="always") as server:
            server.append_table("t", SCHEMA).append(rows(number))
    return max((folder / "journal").glob("*.log"))


def test_a_last_segment_that_is_lost_stops_the_start_until_it_is_done_without(folder: Path) -> None:
    """What was committed since the last start was in it, and the server would go on as if it had never been."""
    segment = kept_over_starts(folder)
    segment.unlink()
    for _ in range(2):
        with pytest.raises(JournalError, match=rf"segment {segment.name} of the journal is missing"):
            bs.Server(data_dir=folder)
        with pytest.raises(JournalError, match=segment.name):
            check_directory(folder)
        repair_directory(folder, yes=False)
    repair_directory(folder, yes=True)
    check_directory(folder)
    for number in range(2):
        with bs.Server(data_dir=folder) as server:
            table = server.append_table("t", SCHEMA)
            assert table.to_arrow()["key"].to_pylist() == [0, *range(5, 5 + number)]
            table.append(rows(5 + number))


@pytest.mark.parametrize("saves", [True, False])
@pytest.mark.parametrize("lost", ["journal", "journal/*"])
def test_the_only_segment_that_is_lost_is_replaced_by_an_empty_one(
    folder: Path, lost: str, saves: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with bs.Server(data_dir=folder, fsync="always") as server:
        table = server.append_table("t", SCHEMA)
        table.append(rows(1))
        if saves:
            durability_of(server).save()
        table.append(rows(2))
    (segment,) = (folder / "journal").glob("*.log")
    for path in folder.glob(lost):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for use in (check_directory, lambda path: bs.Server(data_dir=path)):
        with pytest.raises(
            JournalError, match=rf"do without the segment {segment.name}.* 'barrage-server repair {folder}'"
        ):
            use(folder)
    assert not repair_directory(folder, yes=False)
    assert f"With --yes, the journal goes on with an empty segment {segment.name}." in capsys.readouterr().out
    assert not segment.exists()
    repair_directory(folder, yes=True)
    assert segment.read_bytes() == b""
    check_directory(folder)
    for number in range(2):
        with bs.Server(data_dir=folder) as server:
            table = server.append_table("t", SCHEMA)
            assert table.to_arrow()["key"].to_pylist() == [*([1] if saves else []), *range(5, 5 + number)]
            table.append(rows(5 + number))


def test_a_journal_whose_later_segment_is_lost_too_is_not_replaced(folder: Path) -> None:
    kept_over_starts(folder)
    shutil.rmtree(folder / "journal")
    with pytest.raises(JournalError, match=r"there is no segment. Restore the data directory from a backup\.$"):
        repair_directory(folder, yes=True)


def test_a_file_that_cannot_be_read_is_named_with_what_can_be_done(folder: Path) -> None:
    saved(folder, 1)
    (rows_file,) = (folder / "state").glob("*/*.parquet")
    manifest = rows_file.with_name("manifest.json")
    for path, name in ((rows_file, rows_file.name), (manifest, f"{manifest.parent.name}/manifest.json")):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(JournalError, match=rf"checkpoint's file {name} cannot be read: it is missing\. Restore .*"):
            bs.Server(data_dir=folder)
        path.write_bytes(content)
    identity = folder / "barrage.json"
    identity.write_bytes(b"{}")
    for use in (check_directory, lambda path: bs.Server(data_dir=path)):
        with pytest.raises(JournalError, match=rf"{identity}' is damaged.* from a backup\."):
            use(folder)


def test_a_segment_that_is_lost_while_no_checkpoint_begins_with_it_is_noticed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint begins a segment, and may then fail."""

    def fails(*_: object) -> None:
        raise OSError("the disk is full")

    with bs.Server(data_dir=folder, fsync="always") as server:
        table = server.append_table("t", SCHEMA)
        table.append(rows(1))
        with monkeypatch.context() as patch:
            patch.setattr("barrage_server.server.durability.save_checkpoint", fails)
            with pytest.raises(OSError, match="full"):
                durability_of(server).save()
        table.append(rows(2))
    first, segment = sorted((folder / "journal").glob("*.log"))
    segment.unlink()
    with pytest.raises(JournalError, match=rf"segment {segment.name} of the journal is missing"):
        bs.Server(data_dir=folder)
    repair_directory(folder, yes=True)
    with bs.Server(data_dir=folder) as server:
        assert server.table("t").to_arrow()["key"].to_pylist() == [1]
    assert first.is_file()


def test_damage_before_a_lost_segment_is_cut_by_a_second_repair(folder: Path) -> None:
    segment = kept_over_starts(folder)
    before = min((folder / "journal").glob("*.log"))
    content = bytearray(before.read_bytes())
    content[content.index(b"BJR1", 50) + 60] ^= 1
    before.write_bytes(content)
    segment.unlink()
    with pytest.raises(JournalError, match=segment.name):
        bs.Server(data_dir=folder)
    with pytest.raises(JournalError, match=before.name):
        repair_directory(folder, yes=True)
    repair_directory(folder, yes=True)
    with bs.Server(data_dir=folder) as server:
        assert not server.tables()


def test_a_repair_that_takes_the_last_segment_away_does_not_miss_it(folder: Path) -> None:
    kept_over_starts(folder)
    before = min((folder / "journal").glob("*.log"))
    content = bytearray(before.read_bytes())
    content[content.index(b"BJR1", 50) + 60] ^= 1
    before.write_bytes(content)
    repair_directory(folder, yes=True)
    check_directory(folder)
    bs.Server(data_dir=folder).close()


def test_a_link_to_nowhere_in_the_place_of_a_segment_is_told(folder: Path) -> None:
    for link in (kept_over_starts(folder), folder / "journal" / f"{1000:020d}.log"):
        link.unlink(missing_ok=True)
        link.symlink_to(folder / "nowhere")
        for use in (check_directory, lambda path: bs.Server(data_dir=path)):
            with pytest.raises(
                (ReadOnlyError, InvalidRequestError), match=rf"A link to what is not there: '{link.name}'"
            ):
                use(folder)
        link.unlink()
        repair_directory(folder, yes=True)
