"""Files by the ending of their names, and pipes: read in batches, written whole or not at all."""

from __future__ import annotations

import io
import os
import stat
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from barrage_server.cli.files import ENDINGS, STANDARD, FileFormat, format_of, open_file, write_file
from barrage_server.cli.usage import UsageError
from barrage_server.errors import InvalidRequestError

TABLE = pa.table({"sym": ["A", "B", None], "price": [1.5, 2.5, 3.5], "size": pa.array([1, None, 3], pa.int64())})


def read(path: Path, named: str | None = None, schema: pa.Schema | None = None) -> tuple[pa.Table, int | None]:
    with open_file(path, named, schema) as (reader, rows):
        return reader.read_all(), rows


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_written_is_read_back(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"trades{ending}"
    write_file(TABLE, path)
    table, rows = read(path, schema=TABLE.schema)
    assert table == TABLE
    assert rows == (None if ending in {".csv", ".arrows"} else 3)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("wanted", FileFormat)
def test_a_pipe_carries_every_format(wanted: FileFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read from a pipe as it comes is read to its end first."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb") as sink:
        monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=sink, flush=sink.flush, isatty=lambda: False))
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=source))
        write_file(TABLE, STANDARD, wanted)
        sink.close()
        assert read(STANDARD, wanted, TABLE.schema)[0] == TABLE


def test_a_pipe_needs_the_name_of_a_format() -> None:
    with pytest.raises(InvalidRequestError, match="add --format: parquet, arrow"):
        format_of(STANDARD)
    with pytest.raises(InvalidRequestError, match="'xml' is not a format; --format is one of parquet"):
        format_of(STANDARD, "xml")
    assert format_of(Path("a.txt"), "csv") is FileFormat.CSV


def test_a_terminal_gets_no_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=sink, flush=sink.flush, isatty=lambda: True))
    with pytest.raises(InvalidRequestError, match="parquet is not text, and stdout is a terminal"):
        write_file(TABLE, STANDARD, "parquet")
    write_file(TABLE, STANDARD, "csv")
    assert sink.getvalue().startswith(b'"sym","price","size"\n')


def test_csv_for_a_new_table_gets_the_types_that_its_values_suggest(tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    write_file(TABLE, path)
    table, rows = read(path)
    assert rows is None
    assert table.column("price").to_pylist() == [1.5, 2.5, 3.5]
    assert table.column("size").to_pylist() == [1, None, 3]


def test_every_ending_that_is_offered_is_read(tmp_path: Path) -> None:
    parquet.write_table(TABLE, tmp_path / "a.parquet")
    feather.write_feather(TABLE, tmp_path / "a.feather", compression="uncompressed")
    csv.write_csv(TABLE, tmp_path / "a.csv")
    for ending in (".arrow", ".ipc"):
        with pa.OSFile(str(tmp_path / f"a{ending}"), "wb") as sink, pa.ipc.new_file(sink, TABLE.schema) as writer:
            writer.write_table(TABLE)
    with pa.OSFile(str(tmp_path / "a.arrows"), "wb") as sink, pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    for ending in (".jsonl", ".ndjson", ".json"):
        (tmp_path / f"a{ending}").write_text("".join(f'{{"price": {price}}}\n' for price in (1.5, 2.5, 3.5)))
    for ending in ENDINGS:
        table, _ = read(tmp_path / f"a{ending}")
        assert table.column("price").to_pylist() == [1.5, 2.5, 3.5], ending


def test_an_arrow_stream_is_recognised_by_its_content(tmp_path: Path) -> None:
    path = tmp_path / "stream.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    assert read(path) == (TABLE, None)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("missing.parquet", None, "There is no file"),
        ("trades.xlsx", b"x", "no known ending; use one of .parquet"),
        ("trades.parquet", b"not parquet at all", "cannot be read as parquet"),
        ("trades.arrow", b"not arrow at all", "cannot be read as arrow"),
        ("trades.jsonl", b"{1: 2}", "cannot be read as jsonl"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str, content: bytes | None, text: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidRequestError, match=text), open_file(path):
        pass


def test_what_is_found_to_be_wrong_later_is_told_in_the_same_words(tmp_path: Path) -> None:
    path = tmp_path / "trades.csv"
    path.write_text("price\n" + "1.5\n" * 500_000 + "much\n")
    with (
        open_file(path, None, pa.schema([("price", pa.float64())])) as (reader, _),
        pytest.raises(InvalidRequestError, match=r"trades.csv' cannot be read as csv: .*'much'"),
    ):
        reader.read_all()


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    union = pa.table({"a": pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])})
    (tmp_path / "old.parquet").write_text("kept")
    with pytest.raises(InvalidRequestError, match="Cannot write"):
        write_file(union, tmp_path / "old.parquet")
    assert [entry.read_text() for entry in tmp_path.iterdir()] == ["kept"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"There is no folder .*nowhere"):
        write_file(TABLE, tmp_path / "nowhere" / "a.parquet")


def test_a_folder_is_not_written_to(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a folder: name a file in it"):
        write_file(TABLE, tmp_path)


def test_a_named_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "trades.arrows"
    os.mkfifo(pipe)
    read_back: list[pa.Table] = []
    reader = threading.Thread(target=lambda: read_back.append(read(pipe)[0]))
    reader.start()
    write_file(TABLE, pipe)
    reader.join(30)
    assert read_back == [TABLE]
    assert pipe.is_fifo()


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full")
def test_a_device_that_is_full_is_an_error(tmp_path: Path) -> None:
    link = tmp_path / "trades.csv"
    link.symlink_to("/dev/full")
    with pytest.raises(InvalidRequestError, match=r"Cannot write .*trades.csv.*No space left"):
        write_file(TABLE, link)
    assert link.is_symlink()


def test_a_symbolic_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "day").mkdir()
    link, target = tmp_path / "newest.csv", tmp_path / "day" / "trades.csv"
    link.symlink_to(target)
    for _ in range(2):  # the target is made, then replaced
        write_file(TABLE, link)
    assert link.is_symlink()
    assert read(target, schema=TABLE.schema)[0] == TABLE


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path) -> None:
    """Also one with a name that leaves no room for a longer one beside it."""
    path = tmp_path / f"{'n' * 251}.csv"
    write_file(TABLE, path)
    path.chmod(0o600)
    write_file(TABLE, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [*tmp_path.iterdir()] == [path]


def test_what_is_typed_ends_with_the_first_end_of_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal goes on after an end of input: a second read would wait for a second Ctrl-D."""

    class Typed(io.BytesIO):
        ended = False

        def isatty(self) -> bool:
            return True

        def read(self, size: int | None = -1) -> bytes:
            assert not self.ended, "reads again after the end"
            found = super().read(size)
            self.ended = self.tell() == len(self.getbuffer()) or not found
            return found

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=Typed(b"a,b\n1,2\n")))
    assert read(STANDARD, "csv")[0].to_pydict() == {"a": [1], "b": [2]}


def test_an_open_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """As with ``> file`` of a shell, where ``/dev/stdout`` leads to the file: what others write there stays."""
    file = tmp_path / "out.csv"
    with file.open("wb", buffering=0) as held:
        held.write(b"before\n")
        write_file(TABLE, Path(f"/dev/fd/{held.fileno()}"), "csv")
        held.write(b"after\n")
    write_file(TABLE, alone := tmp_path / "alone.csv")
    assert file.read_bytes() == b"before\n" + alone.read_bytes() + b"after\n"
