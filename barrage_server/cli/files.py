"""Arrow, Parquet, CSV and JSON files, by the ending of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from barrage_server.errors import InvalidRequestError

__all__ = ["ENDINGS_READ", "ENDINGS_WRITTEN", "checked_target", "open_file", "write_file"]

ENDINGS_READ: Final = (".parquet", ".arrow", ".feather", ".ipc", ".arrows", ".csv", ".jsonl", ".ndjson", ".json")
ENDINGS_WRITTEN: Final = (".parquet", ".arrow", ".csv")


@contextmanager
def open_file(path: Path) -> Iterator[tuple[pa.RecordBatchReader, int | None]]:
    """A reader over the rows of ``path``, and their number where the file tells it beforehand.

    Arrow files may be in the file or the stream format. A JSON file has one object a line.

    Raises:
        InvalidRequestError: an ending that is not known, no such file, or content that is not what the ending says.
    """
    ending = _known_ending(path, ENDINGS_READ)
    if not path.is_file():
        raise InvalidRequestError(f"there is no file {str(path)!r}")
    try:
        match ending:
            case ".parquet":
                opened = _open_parquet(path)
            case ".csv":
                from pyarrow import csv

                opened = csv.open_csv(path), None
            case ".jsonl" | ".ndjson" | ".json":
                from pyarrow import json

                table = json.read_json(path)
                opened = table.to_reader(), table.num_rows
            case _:
                opened = _open_arrow(path)
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequestError(f"{str(path)!r} cannot be read as {ending}: {error}") from None
    reader = opened[0]
    try:
        yield opened
    finally:
        reader.close()


def write_file(table: pa.Table, path: Path) -> None:
    """Write ``table`` to ``path`` in the format of its ending; the file appears whole or not at all.

    Raises:
        InvalidRequestError: an unknown ending, a folder that cannot be written, or a type the format cannot hold.
    """
    ending = checked_target(path)
    part = path.with_name(f".{path.name}.part")
    try:
        _WRITERS[ending](table, part)
        part.replace(path)
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequestError(f"cannot write {str(path)!r}: {error}") from None
    finally:
        part.unlink(missing_ok=True)


def checked_target(path: Path) -> str:
    """The ending of a file that is to be written, checked before any work is done for it."""
    ending = _known_ending(path, ENDINGS_WRITTEN)
    if not path.parent.is_dir():
        raise InvalidRequestError(f"there is no folder {str(path.parent)!r} to write {path.name!r} into")
    return ending


def _known_ending(path: Path, known: tuple[str, ...]) -> str:
    ending = path.suffix.lower()
    if ending not in known:
        raise InvalidRequestError(f"{path.name!r} has no ending that is known here; use one of {', '.join(known)}")
    return ending


def _open_parquet(path: Path) -> tuple[pa.RecordBatchReader, int | None]:
    from pyarrow import parquet

    file = parquet.ParquetFile(path)
    return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches()), file.metadata.num_rows


def _open_arrow(path: Path) -> tuple[pa.RecordBatchReader, int | None]:
    source = pa.memory_map(str(path))
    try:
        file = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source), None
    rows = sum(file.get_batch(number).num_rows for number in range(file.num_record_batches))
    batches = (file.get_batch(number) for number in range(file.num_record_batches))
    return pa.RecordBatchReader.from_batches(file.schema, batches), rows


def _write_parquet(table: pa.Table, path: Path) -> None:
    from pyarrow import parquet

    parquet.write_table(table, path)


def _write_arrow(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=65536)


def _write_csv(table: pa.Table, path: Path) -> None:
    from pyarrow import csv

    csv.write_csv(table, path)


_WRITERS: Final[dict[str, Callable[[pa.Table, Path], None]]] = {
    ".parquet": _write_parquet,
    ".arrow": _write_arrow,
    ".csv": _write_csv,
}
