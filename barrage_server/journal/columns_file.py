"""Files with rows of a table: Parquet for flat types, and Arrow for all others.

Parquet through pyarrow preserves every value of the types that :func:`is_kept_by_parquet` accepts. A file counts only
once it was opened again: a checkpoint replaces the only other copy of its rows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pat
import xxhash

from barrage_server.engine.storage import from_storage, storage_type, to_storage
from barrage_server.errors import JournalError
from barrage_server.journal.files import Directory, JournalFile

__all__ = ["check_written", "is_kept_by_parquet", "read_rows", "unreadable", "write_rows"]

logger = logging.getLogger("barrage_server.journal")

GROUP_ROWS: Final = 1 << 16
"""Rows of a row group, which is also the number of rows read at a time."""
_MOST_JOINED_BYTES: Final = 1 << 30
"""Bytes up to which batches that are read are joined."""
_LENGTH_BYTES: Final = 4
"""Bytes of the length of a text in a page without a dictionary."""
_TEXTS: Final = frozenset({pa.string(), pa.binary()})
"""Types of columns that may be read with dictionaries, which pyarrow returns with values of these types only."""
_LONGEST_ZONE: Final = 64
"""Characters of the name of a time zone in a Parquet file."""
_MOST_WIDTH: Final = 1 << 12
"""Bytes of a value of fixed width in a Parquet file."""
_TEXT_KINDS: Final = (pat.is_string, pat.is_large_string, pat.is_binary, pat.is_large_binary)
"""Kinds of texts and bytes."""
_KEPT: Final = (
    *(pat.is_boolean, pat.is_integer, pat.is_floating, pat.is_date32, pat.is_time64, pat.is_duration),
    *_TEXT_KINDS,
)
"""Kinds of types that Parquet preserves without exception."""
_PARQUET: Final = ".parquet"
_ARROW: Final = ".arrow"
_ENDINGS: Final = (_PARQUET, _ARROW)


def is_kept_by_parquet(data_type: pa.DataType) -> bool:
    """Whether Parquet preserves all values of a storage type, and the type itself.

    Of these types, Parquet's own description has few bytes. It has no seconds, cuts the bytes of decimals that have
    more digits than they declare, and cannot read back some nested values that it has written.
    """
    if pat.is_timestamp(data_type):
        return bool(data_type.unit != "s" and len(data_type.tz or "") <= _LONGEST_ZONE)
    if pat.is_time32(data_type):
        return bool(data_type.unit != "s")
    if pat.is_fixed_size_binary(data_type):
        return bool(0 < data_type.byte_width <= _MOST_WIDTH)
    return any(is_kind(data_type) for is_kind in _KEPT)


def _has_dictionary(data_type: pa.DataType) -> bool:
    """Whether a row group has a dictionary of the values of a column of the type.

    Of numbers that hardly repeat, one takes twice the time to write and a third more bytes. It takes three times the
    memory, too, which mimalloc keeps.
    """
    return any(is_kind(data_type) for is_kind in _TEXT_KINDS)


class _Sink:
    """A journal file as a file object for pyarrow."""

    closed = False

    def __init__(self, file: JournalFile) -> None:
        self._file = file
        self._checksum = xxhash.xxh3_64()
        self.nbytes = 0

    @property
    def checksum(self) -> str:
        """XXH3-64 of the written bytes, in hexadecimal."""
        return self._checksum.hexdigest()

    def write(self, data: Any) -> int:
        """Add ``data``."""
        view = memoryview(data)
        self._file.write([view])
        self._checksum.update(view)
        self.nbytes += view.nbytes
        return view.nbytes

    def tell(self) -> int:
        """Bytes written so far."""
        return self.nbytes

    def flush(self) -> None:
        """Do nothing: there is no buffer."""

    def close(self) -> None:
        """Do nothing: the owner closes the file."""


def write_rows(
    directory: Directory, stem: str, schema: pa.Schema, batches: Callable[[], Iterable[Sequence[pa.Array]]]
) -> tuple[dict[str, str], int]:
    """Write rows into files, open the files again, and sync them.

    All columns are written as Arrow if the Parquet file cannot be written or opened.

    Args:
        directory: the folder of the files.
        stem: the start of the names of the files.
        schema: columns, in order.
        batches: returns the rows, in parts: one array per column, of exactly its type. May be called twice.

    Returns:
        The names of the files, each with its XXH3-64, and their bytes.

    Raises:
        OSError: the files cannot be written.
        JournalError: a file cannot be read again.
    """
    stored = [storage_type(field.type) for field in schema]
    parquet = [number for number, data_type in enumerate(stored) if is_kept_by_parquet(data_type)]
    if parquet:
        try:
            return _write(directory, stem, stored, batches(), parquet)
        except (pa.ArrowException, OSError, JournalError) as error:
            if not _is_of_format(error):
                raise
            logger.warning("%s%s is written as Arrow instead: %s", stem, _PARQUET, error)
            for ending in _ENDINGS:
                directory.remove(f"{stem}{ending}")
    try:
        return _write(directory, stem, stored, batches(), ())
    except (pa.ArrowException, OSError) as error:
        if not _is_of_format(error):
            raise
        raise JournalError(f"The rows of {stem}{_ARROW} cannot be written: {error}") from error


def _write(
    directory: Directory,
    stem: str,
    stored: Sequence[pa.DataType],
    batches: Iterable[Sequence[pa.Array]],
    parquet: Sequence[int],
) -> tuple[dict[str, str], int]:
    """Write the columns numbered in ``parquet`` as Parquet, and all others as Arrow."""
    split = {_PARQUET: parquet, _ARROW: sorted({*range(len(stored))}.difference(parquet))}
    parts = [
        (f"{stem}{ending}", numbers, pa.schema([pa.field(str(number), stored[number]) for number in numbers]))
        for ending, numbers in split.items()
        if numbers
    ]
    with _Writers(directory) as writers:
        for name, _, fields in parts:
            writers.open(name, fields)
        for batch in batches:
            for name, numbers, fields in parts:
                arrays = [to_storage(batch[number]) for number in numbers]
                writers.write(name, pa.RecordBatch.from_arrays(arrays, schema=fields))
        return writers.finish()


def _is_of_format(error: Exception) -> bool:
    """Whether an error is about the form of what was written, and not about the disk."""
    return not isinstance(error, OSError) or (type(error) is OSError and error.errno is None)  # one of pyarrow's


@dataclass(slots=True)
class _OpenFile:
    """A file that is being written.

    Attributes:
        writer: pyarrow's writer of its format.
        sink: what the writer writes to.
        file: what the sink writes to.
        schema: its columns.
        rows: the number of rows so far.
        is_complete: whether it has its end.
    """

    writer: Any
    sink: _Sink
    file: JournalFile
    schema: pa.Schema
    rows: int = 0
    is_complete: bool = False


class _Writers:
    """The open files of one table."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._open: dict[str, _OpenFile] = {}

    def __enter__(self) -> _Writers:
        return self

    def __exit__(self, *details: object) -> None:
        for one in self._open.values():
            if not one.is_complete:
                with suppress(OSError, pa.ArrowException):  # its end cannot be written either; it must not try later
                    one.writer.close()
            one.file.close()

    def open(self, name: str, schema: pa.Schema) -> None:
        file = self._directory.create(name)
        sink = _Sink(file)
        writer: Any
        try:
            if name.endswith(_PARQUET):
                import pyarrow.parquet as pq  # not before there is a checkpoint: it takes a while

                encoded = [field.name for field in schema if _has_dictionary(field.type)]
                writer = pq.ParquetWriter(sink, schema, compression="zstd", store_schema=True, use_dictionary=encoded)
            else:
                writer = pa.ipc.new_file(pa.PythonFile(sink, mode="w"), schema, options=_arrow_options())
        except BaseException:
            file.close()
            raise
        self._open[name] = _OpenFile(writer, sink, file, schema)

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        one = self._open[name]
        if name.endswith(_PARQUET):
            one.writer.write_batch(batch, row_group_size=GROUP_ROWS)
        else:
            one.writer.write_batch(batch)
        one.rows += batch.num_rows

    def finish(self) -> tuple[dict[str, str], int]:
        """Complete, check and sync the files; returns their checksums and bytes."""
        checksums: dict[str, str] = {}
        total = 0
        for name, one in self._open.items():
            one.writer.close()
            one.is_complete = True
            check_written(self._directory, name, one.schema, one.rows)
            one.file.sync()
            checksums[name] = one.sink.checksum
            total += one.sink.nbytes
        return checksums, total


def _arrow_options() -> pa.ipc.IpcWriteOptions:
    """The form of an Arrow file: compressed, by one thread, as a Parquet file is."""
    return pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", 1), allow_64bit=True, use_threads=False)


def check_written(directory: Directory, name: str, schema: pa.Schema, rows: int) -> None:
    """Check that a file can be opened, with this schema and number of rows.

    Of a Parquet file, only the description of its pages is read.

    Raises:
        JournalError: it cannot, or has others.
    """
    data = pa.py_buffer(directory.read(name))
    try:
        found, count = _described(data) if name.endswith(_PARQUET) else _counted(data)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise JournalError(f"The file {name} was written and cannot be read again: {error}") from error
    if not found.equals(schema):
        raise JournalError(f"The file {name} was written and has other columns when it is read again.")
    if count != rows:
        raise JournalError(f"The file {name} was written with {rows:,} rows, and has {count:,} when it is read again.")


def _described(data: pa.Buffer) -> tuple[pa.Schema, int]:
    """The schema of a Parquet file, and its number of rows."""
    import pyarrow.parquet as pq

    file = pq.ParquetFile(data)
    return file.schema_arrow, file.metadata.num_rows


def _counted(data: pa.Buffer) -> tuple[pa.Schema, int]:
    """The schema of an Arrow file, and its number of rows. Reads all of them."""
    reader = pa.ipc.open_file(data, options=pa.ipc.IpcReadOptions(use_threads=False))
    count = 0
    for number in range(reader.num_record_batches):
        batch = reader.get_batch(number)
        batch.validate()
        count += batch.num_rows
    return reader.schema, count


def read_rows(
    directory: Directory, stem: str, schema: pa.Schema, checksums: Mapping[str, str], encoded: Collection[str] = ()
) -> Iterator[list[pa.Array]]:
    """The rows that :func:`write_rows` wrote, in parts.

    Each file says which columns it has: earlier servers had more of them in Parquet.

    Args:
        directory: the folder of the files.
        stem: the start of the names of the files.
        schema: columns, in order.
        checksums: the XXH3-64 of each file, by name.
        encoded: columns that may be returned with dictionaries: those of few texts are.

    Raises:
        JournalError: a file is missing or damaged.
    """
    stored = [storage_type(field.type) for field in schema]
    numbers_of = {str(number): number for number in range(len(stored))}
    may_be = [
        str(number)
        for number, data_type in enumerate(stored)
        if data_type in _TEXTS and schema.field(number).name in encoded
    ]
    name = stem
    try:
        sources: list[tuple[list[int], Iterator[pa.RecordBatch]]] = []
        for ending in _ENDINGS:
            if f"{stem}{ending}" not in checksums:
                continue
            name = f"{stem}{ending}"
            content = directory.read(name)
            if xxhash.xxh3_64_hexdigest(content) != checksums[name]:
                raise JournalError(f"The checkpoint is damaged: the checksum of {name} differs. Restore a backup.")
            data = pa.py_buffer(content)
            names, rows = _parquet_rows(data, may_be) if ending == _PARQUET else _arrow_rows(data)
            sources.append(([numbers_of.get(column, -1) for column in names], _checked(_runs(rows), name)))
        if sorted(number for numbers, _ in sources for number in numbers) != [*range(len(stored))]:
            raise JournalError(f"The checkpoint's files {stem} have other columns than their table. Restore a backup.")
        for batches in _aligned([rows for _, rows in sources]):
            found: list[Any] = [None] * len(stored)
            for (numbers, _), batch in zip(sources, batches, strict=True):
                if batch is None:
                    raise JournalError(f"The files of {stem} differ in their number of rows.")
                for place, number in enumerate(numbers):
                    values = batch.column(place)
                    if not pat.is_dictionary(values.type) or pat.is_dictionary(stored[number]):
                        values = from_storage(values, schema.field(number).type)
                    found[number] = values
            yield found
    except (OSError, pa.ArrowException) as error:
        raise unreadable(name, error) from error


def unreadable(name: str, error: Exception) -> JournalError:
    """The error for a file of a checkpoint that ``error`` keeps from being read."""
    if isinstance(error, FileNotFoundError):
        reason = "it is missing"
    elif isinstance(error, OSError) and error.strerror:
        reason = error.strerror
    else:
        reason = f"it is damaged, or of another version ({type(error).__name__})"
    return JournalError(
        f"The checkpoint's file {name} cannot be read: {reason}. Restore the data directory from a backup."
    )


def _checked(rows: Iterator[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    """``rows`` of the file ``name``, whose errors name it."""
    try:
        yield from rows
    except (OSError, pa.ArrowException) as error:
        raise unreadable(name, error) from error


def _arrow_rows(data: pa.Buffer) -> tuple[list[str], Iterator[pa.RecordBatch]]:
    """The names of the columns of an Arrow file, and its rows."""
    reader = pa.ipc.open_file(data)
    return reader.schema.names, (reader.get_batch(number) for number in range(reader.num_record_batches))


def _parquet_rows(data: pa.Buffer, may_be_encoded: Sequence[str]) -> tuple[list[str], Iterator[pa.RecordBatch]]:
    """The names of the columns of a Parquet file, and its rows.

    Columns of few texts come with the dictionaries of their row groups. Dictionaries of many texts are given up while
    they are written, and would have to be made here.
    """
    import pyarrow.parquet as pq

    file = pq.ParquetFile(data)
    encoded = []
    if file.metadata.num_row_groups:
        group = file.metadata.row_group(0)
        chunks = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
        encoded = [name for name in may_be_encoded if name in chunks and _is_small(chunks[name])]
    if encoded:
        file = pq.ParquetFile(data, metadata=file.metadata, read_dictionary=encoded)
    return file.schema_arrow.names, file.iter_batches(batch_size=GROUP_ROWS)


def _is_small(chunk: Any) -> bool:
    """Whether the dictionary of a column of texts is small in a row group.

    The column then takes less than the lengths of its texts alone would without one.
    """
    return bool(chunk.has_dictionary_page and chunk.total_uncompressed_size < _LENGTH_BYTES * chunk.num_values)


def _aligned(sources: Sequence[Iterator[pa.RecordBatch]]) -> Iterator[list[pa.RecordBatch | None]]:
    """Batches of as many rows, one of each source; ``None`` after its end."""
    batches = [next(rows, None) for rows in sources]
    while any(batch is not None for batch in batches):
        count = min(batch.num_rows for batch in batches if batch is not None)
        yield [None if batch is None else batch.slice(0, count) for batch in batches]
        for place, batch in enumerate(batches):
            if batch is not None:
                batches[place] = batch.slice(count) if count < batch.num_rows else next(sources[place], None)


def _runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows in batches of :data:`GROUP_ROWS` rows.

    The last one may be smaller, and so may those of long texts or lists: one array holds less than 2 GiB of texts, and
    of items.
    """
    waiting: list[pa.RecordBatch] = []
    count = nbytes = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, GROUP_ROWS - count)
            if waiting and nbytes + part.nbytes > _MOST_JOINED_BYTES:
                yield from _joined(waiting)
                waiting, count, nbytes = [], 0, 0
                part = batch.slice(start, GROUP_ROWS)
            waiting.append(part)
            start, count, nbytes = start + part.num_rows, count + part.num_rows, nbytes + part.nbytes
            if count == GROUP_ROWS:
                yield from _joined(waiting)
                waiting, count, nbytes = [], 0, 0
    if count:
        yield from _joined(waiting)


def _joined(batches: Sequence[pa.RecordBatch]) -> Sequence[pa.RecordBatch]:
    """``batches`` as one, unless an array cannot have all their items of lists."""
    if len(batches) == 1:
        return batches
    try:
        return [pa.concat_batches(batches)]
    except pa.ArrowInvalid:  # items may have no bytes, such as nulls
        return batches
