"""Files in Arrow, Parquet, CSV and JSON. ``-`` is standard input or output.

The ending of a file's name tells its format.
"""

from __future__ import annotations

import io
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Final

import pyarrow as pa

from barrage_server.cli.text_tables import read_csv, read_json_lines, write_csv, write_json_lines
from barrage_server.cli.usage import UsageError
from barrage_server.errors import InvalidRequestError, SchemaMismatchError

__all__ = [
    "ENDINGS",
    "STANDARD",
    "FileFormat",
    "checked_source",
    "checked_target",
    "format_of",
    "open_file",
    "write_file",
]

STANDARD: Final = Path("-")
"""Standard input or output."""


class FileFormat(StrEnum):
    """The format of a file."""

    PARQUET = "parquet"
    ARROW = "arrow"
    ARROW_STREAM = "arrows"
    CSV = "csv"
    JSON_LINES = "jsonl"


ENDINGS: Final = {
    ".parquet": FileFormat.PARQUET,
    ".arrow": FileFormat.ARROW,
    ".feather": FileFormat.ARROW,
    ".ipc": FileFormat.ARROW,
    ".arrows": FileFormat.ARROW_STREAM,
    ".csv": FileFormat.CSV,
    ".jsonl": FileFormat.JSON_LINES,
    ".ndjson": FileFormat.JSON_LINES,
    ".json": FileFormat.JSON_LINES,
}
"""Formats by the endings of file names."""


def format_of(path: Path, named: str | None = None) -> FileFormat:
    """The format of a file: ``named``, or by the ending of its name.

    Raises:
        UsageError: the ending is unknown, or ``-`` has no ``named``.
    """
    if named is not None:
        try:
            return FileFormat(named)
        except ValueError:
            raise UsageError(f"{named!r} is not a format; --format is one of {', '.join(FileFormat)}.") from None
    if path == STANDARD:
        raise UsageError(f"'-' has no ending to tell the format; add --format: {', '.join(FileFormat)}.")
    found = ENDINGS.get(path.suffix.lower())
    if found is None:
        known = ", ".join(ENDINGS)
        raise UsageError(f"{path.name!r} has no known ending; use one of {known}, or --format.")
    return found


@contextmanager
def open_file(
    path: Path, named: str | None = None, schema: pa.Schema | None = None
) -> Iterator[tuple[pa.RecordBatchReader, int | None]]:
    """A reader of the rows of ``path``, and their number if the format has it.

    Args:
        path: the file; ``-`` is standard input.
        named: its format; by default from the ending.
        schema: the schema of the target table, with the types for CSV and JSON.

    Raises:
        UsageError: the ending is unknown, or the file does not exist.
        InvalidRequestError: the content does not have that format.
    """
    wanted = checked_source(path, named)
    with ExitStack() as stack:
        with _readable(path, wanted):
            source = _standard_input() if path == STANDARD else stack.enter_context(path.open("rb"))
            reader, rows = _open(source, wanted, schema)
        stack.callback(reader.close)
        yield pa.RecordBatchReader.from_batches(reader.schema, _told(reader, path, wanted)), rows


def write_file(table: pa.Table, path: Path, named: str | None = None) -> None:
    """Write ``table`` to ``path``; ``-`` is standard output.

    A file appears whole or not at all, with the permissions of the one that it replaces, and a symbolic link stays one.
    What is not a file, such as a named pipe or ``/dev/stdout``, is written to and not replaced.

    Raises:
        UsageError: the format is unknown, the folder does not exist, or ``path`` is a folder.
        InvalidRequestError: the folder is not writable, or the format does not support a type.
        BrokenPipeError: the reader of a pipe has closed it.
    """
    wanted = checked_target(path, named)
    if path == STANDARD:
        _write_to_pipe(table, wanted)
        return
    if path.exists() and (not path.is_file() or _descriptor(path) is not None):
        _write_to_device(table, path, wanted)
        return
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{secrets.token_hex(8)}.part")  # of the target's name, it could be too long
    try:
        with part.open("xb") as sink:
            if target.exists():
                os.fchmod(sink.fileno(), stat.S_IMODE(target.stat().st_mode))
            _write(table, sink, wanted)
        part.replace(target)
    except (pa.ArrowException, OSError) as error:
        raise InvalidRequestError(f"Cannot write {str(path)!r}: {error}") from None
    finally:
        part.unlink(missing_ok=True)


def checked_source(path: Path, named: str | None = None) -> FileFormat:
    """Check an input file, and return its format."""
    wanted = format_of(path, named)
    if path != STANDARD and not path.is_file() and not path.is_fifo():
        raise UsageError(f"There is no file {str(path)!r}.")
    return wanted


def checked_target(path: Path, named: str | None = None) -> FileFormat:
    """Check that an output file can be written, and return its format."""
    if path != STANDARD and path.is_dir():
        raise UsageError(f"{str(path)!r} is a folder: name a file in it.")
    wanted = format_of(path, named)
    if path != STANDARD and not path.parent.is_dir():
        raise UsageError(f"There is no folder {str(path.parent)!r} to write {path.name!r} into.")
    if path == STANDARD and wanted not in _TEXTS and sys.stdout.isatty():
        raise UsageError(
            f"{wanted} is not text, and stdout is a terminal; write to a file or a pipe, or use --format csv."
        )
    return wanted


_TEXTS: Final = (FileFormat.CSV, FileFormat.JSON_LINES)


@contextmanager
def _readable(path: Path, wanted: FileFormat) -> Iterator[None]:
    name = "standard input" if path == STANDARD else repr(str(path))
    try:
        yield
    except (pa.ArrowException, SchemaMismatchError, OSError) as error:
        raise InvalidRequestError(f"{name} cannot be read as {wanted}: {error}") from None


def _told(reader: pa.RecordBatchReader, path: Path, wanted: FileFormat) -> Iterator[pa.RecordBatch]:
    """The batches of ``reader``, with its errors in the words of ``_readable``."""
    while True:
        with _readable(path, wanted):
            try:
                batch = reader.read_next_batch()
            except StopIteration:
                return
        yield batch


def _standard_input() -> BinaryIO:
    """Standard input; what is typed is read to its end first.

    Otherwise readers would take a first Ctrl-D for the end of a piece.
    """
    source = sys.stdin.buffer
    return io.BytesIO(source.read()) if source.isatty() else source


def _open(source: BinaryIO, wanted: FileFormat, schema: pa.Schema | None) -> tuple[pa.RecordBatchReader, int | None]:
    match wanted:
        case FileFormat.CSV:
            return read_csv(source, schema), None
        case FileFormat.JSON_LINES:
            table = read_json_lines(source, schema)
            return table.to_reader(), table.num_rows
        case FileFormat.PARQUET:
            return _open_parquet(_seekable(source))
        case FileFormat.ARROW_STREAM:
            return pa.ipc.open_stream(source), None
        case _:
            return _open_arrow(_seekable(source))


def _seekable(source: BinaryIO) -> BinaryIO:
    """Read a pipe to its end, because the index of these formats is there."""
    return source if source.seekable() else io.BytesIO(source.read())


def _open_parquet(source: BinaryIO) -> tuple[pa.RecordBatchReader, int | None]:
    from pyarrow import parquet

    file = parquet.ParquetFile(source)
    return pa.RecordBatchReader.from_batches(file.schema_arrow, file.iter_batches()), file.metadata.num_rows


def _open_arrow(source: BinaryIO) -> tuple[pa.RecordBatchReader, int | None]:
    try:
        file = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        return pa.ipc.open_stream(source), None
    rows = sum(file.get_batch(number).num_rows for number in range(file.num_record_batches))
    batches = (file.get_batch(number) for number in range(file.num_record_batches))
    return pa.RecordBatchReader.from_batches(file.schema, batches), rows


def _write(table: pa.Table, sink: BinaryIO, wanted: FileFormat) -> None:
    match wanted:
        case FileFormat.CSV:
            write_csv(table, sink)
        case FileFormat.JSON_LINES:
            write_json_lines(table, sink)
        case FileFormat.PARQUET:
            from pyarrow import parquet

            parquet.write_table(table, sink)
        case _:
            new = pa.ipc.new_stream if wanted is FileFormat.ARROW_STREAM else pa.ipc.new_file
            with new(sink, table.schema) as writer:
                writer.write_table(table, max_chunksize=65536)


def _write_to_pipe(table: pa.Table, wanted: FileFormat) -> None:
    whole = _written(table, wanted)
    sys.stdout.flush()
    sys.stdout.buffer.write(whole)
    sys.stdout.buffer.flush()


def _write_to_device(table: pa.Table, path: Path, wanted: FileFormat) -> None:
    whole = _written(table, wanted)
    try:
        descriptor = _descriptor(path)  # at its place in the file, like others that write there
        with path.open("wb") if descriptor is None else os.fdopen(os.dup(descriptor), "wb") as sink:
            sink.write(whole)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InvalidRequestError(f"Cannot write {str(path)!r}: {error}") from None


def _descriptor(path: Path) -> int | None:
    """The descriptor that ``path`` leads to, as ``/dev/stdout`` does."""
    own = ("/dev/fd", f"/proc/{os.getpid()}/fd")
    for _ in range(8):
        folder = os.path.realpath(path.parent)
        if folder in own and path.name.isdecimal():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = Path(folder, path.readlink())
    return None


def _written(table: pa.Table, wanted: FileFormat) -> memoryview:
    """The bytes of the whole file, so that a failure writes nothing."""
    whole = io.BytesIO()
    try:
        _write(table, whole, wanted)
    except pa.ArrowException as error:
        raise InvalidRequestError(f"Cannot write {wanted}: {error}") from None
    return whole.getbuffer()
