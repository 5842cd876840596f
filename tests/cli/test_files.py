"""Files by the ending of their names: read in batches, written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from barrage_server.cli.files import ENDINGS_READ, ENDINGS_WRITTEN, open_file, write_file
from barrage_server.errors import InvalidRequestError

TABLE = pa.table({"sym": ["A", "B", None], "price": [1.5, 2.5, 3.5], "size": pa.array([1, None, 3], pa.int64())})


def read(path: Path) -> tuple[pa.Table, int | None]:
    with open_file(path) as (reader, rows):
        return reader.read_all(), rows


@pytest.mark.parametrize("ending", [ending for ending in ENDINGS_WRITTEN if ending != ".csv"])
def test_what_is_written_is_read_back(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"trades{ending}"
    write_file(TABLE, path)
    assert read(path) == (TABLE, 3)
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_csv_keeps_what_csv_can_keep(tmp_path: Path) -> None:
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
    for ending in ENDINGS_READ:
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
        ("missing.parquet", None, "there is no file"),
        ("trades.xlsx", b"x", "no ending that is known here; use one of .parquet"),
        ("trades.parquet", b"not parquet at all", "cannot be read as .parquet"),
        ("trades.arrow", b"not arrow at all", "cannot be read as .arrow"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str, content: bytes | None, text: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidRequestError, match=text), open_file(path):
        pass


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    nested = pa.table({"a": [[1, 2], [3]]})
    (tmp_path / "old.csv").write_text("kept")
    with pytest.raises(InvalidRequestError, match="cannot write"):
        write_file(nested, tmp_path / "old.csv")
    assert [entry.read_text() for entry in tmp_path.iterdir()] == ["kept"]


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"there is no folder .*nowhere"):
        write_file(TABLE, tmp_path / "nowhere" / "a.parquet")
