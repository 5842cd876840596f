"""Files with rows of a table: Parquet, and Arrow for types that Parquet changes.

Parquet through pyarrow preserves every type that :func:`is_kept_by_parquet` accepts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pat
import xxhash

from barrage_server.engine.storage import from_storage, storage_type, to_storage
from barrage_server.errors import JournalError
from barrage_server.journal.files import Directory, JournalFile

__all__ = ["is_kept_by_parquet", "read_rows", "unreadable", "write_rows"]

GROUP_ROWS: Final = 1 << 16
"""Rows of a row group, which is also the number of rows read at a time."""
_MOST_JOINED_BYTES: Final = 1 << 30
"""Bytes up to which batches that are read are joined."""
_LENGTH_BYTES: Final = 4
"""Bytes of the length of a text in a page without a dictionary."""
_TEXTS: Final = frozenset({pa.string(), pa.binary()})
"""Types of columns that may be read with dictionaries, which pyarrow returns with values of these types only."""
_PARQUET: Final = ".parquet"
_ARROW: Final = ".arrow"


def is_kept_by_parquet(data_type: pa.DataType) -> bool:
    """Whether Parquet preserves values of a storage type, and the type itself."""
    if (
        pat.is_date64(data_type)
        or pat.is_interval(data_type)
        or (pat.is_time32(data_type) and data_type.unit == "s")
        or (pat.is_timestamp(data_type) and data_type.unit == "s")
        or (pat.is_fixed_size_binary(data_type) and data_type.byte_width == 0)
        or (pat.is_fixed_size_list(data_type) and data_type.list_size == 0)
        or (pat.is_struct(data_type) and data_type.num_fields == 0)
        or (pat.is_decimal(data_type) and not 0 <= data_type.scale <= data_type.precision)
    ):
        return False
    children = (data_type.field(number) for number in range(data_type.num_fields))
    return all(is_kept_by_parquet(child.type) for child in children)


def _has_dictionary(data_type: pa.DataType) -> bool:
    """Whether a row group has a dictionary of the values of a column of the type.

    Of numbers that hardly repeat, one takes twice the time to write and a third more bytes. It takes three times the
    memory, too, which mimalloc keeps.
    """
    kinds = (
        *(pat.is_dictionary, pat.is_string, pat.is_large_string, pat.is_string_view),
        *(pat.is_binary, pat.is_large_binary, pat.is_binary_view),
    )
    return any(is_kind(data_type) for is_kind in kinds)


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
    directory: Directory, stem: str, schema: pa.Schema, batches: Iterable[Sequence[pa.Array]]
) -> tuple[dict[str, str], int]:
    """Write the columns of ``batches`` into files, and sync them.

    Args:
        directory: the folder of the files.
        stem: the start of the names of the files.
        schema: columns, in order.
        batches: the rows, in parts: one array per column, of exactly its type.

    Returns:
        The names of the files, each with its XXH3-64, and their bytes.

    Raises:
        OSError: the files cannot be written.
    """
    stored = [storage_type(field.type) for field in schema]
    parts = []
    for ending, numbers in _split(stored).items():
        fields = pa.schema([pa.field(str(number), stored[number]) for number in numbers])
        parts.append((f"{stem}{ending}", numbers, fields))
    with _Writers(directory) as writers:
        for name, _, fields in parts:
            writers.open(name, fields)
        for batch in batches:
            for name, numbers, fields in parts:
                arrays = [to_storage(batch[number]) for number in numbers]
                writers.write(name, pa.RecordBatch.from_arrays(arrays, schema=fields))
        return writers.finish()


class _Writers:
    """The open files of one table."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._open: dict[str, tuple[Any, _Sink, JournalFile]] = {}
        self._finished: set[str] = set()

    def __enter__(self) -> _Writers:
        return self

    def __exit__(self, *details: object) -> None:
        for name, (writer, _, file) in self._open.items():
            if name not in self._finished:
                with suppress(OSError, pa.ArrowException):  # its end cannot be written either; it must not try later
                    writer.close()
            file.close()

    def open(self, name: str, schema: pa.Schema) -> None:
        file = self._directory.create(name)
        sink = _Sink(file)
        writer: Any
        if name.endswith(_PARQUET):
            import pyarrow.parquet as pq  # not before there is a checkpoint: it takes a while

            encoded = [field.name for field in schema if _has_dictionary(field.type)]
            writer = pq.ParquetWriter(sink, schema, compression="zstd", store_schema=True, use_dictionary=encoded)
        else:
            writer = pa.ipc.new_file(pa.PythonFile(sink, mode="w"), schema)
        self._open[name] = (writer, sink, file)

    def write(self, name: str, batch: pa.RecordBatch) -> None:
        writer, _, _ = self._open[name]
        if name.endswith(_PARQUET):
            writer.write_batch(batch, row_group_size=GROUP_ROWS)
        else:
            writer.write_batch(batch)

    def finish(self) -> tuple[dict[str, str], int]:
        checksums: dict[str, str] = {}
        total = 0
        for name, (writer, sink, file) in self._open.items():
            writer.close()
            self._finished.add(name)
            file.sync()
            checksums[name] = sink.checksum
            total += sink.nbytes
        return checksums, total


def read_rows(
    directory: Directory, stem: str, schema: pa.Schema, checksums: Mapping[str, str], encoded: Collection[str] = ()
) -> Iterator[list[pa.Array]]:
    """The rows that :func:`write_rows` wrote, in parts.

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
    name = stem
    try:
        sources = []
        for ending, numbers in _split(stored).items():
            name = f"{stem}{ending}"
            content = directory.read(name)
            if xxhash.xxh3_64_hexdigest(content) != checksums.get(name):
                raise JournalError(f"The checkpoint is damaged: the checksum of {name} differs. Restore a backup.")
            data = pa.py_buffer(content)
            if ending == _PARQUET:
                may_be = [number for number in numbers if schema.field(number).name in encoded]
                rows: Iterator[pa.RecordBatch] = _parquet_rows(data, [n for n in may_be if stored[n] in _TEXTS])
            else:
                reader = pa.ipc.open_file(data)
                rows = (reader.get_batch(number) for number in range(reader.num_record_batches))
            sources.append((numbers, _checked(_runs(rows), name)))
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


def _parquet_rows(data: pa.Buffer, may_be_encoded: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file.

    Columns of few texts come with the dictionaries of their row groups. Dictionaries of many texts are given up while
    they are written, and would have to be made here.
    """
    import pyarrow.parquet as pq

    file = pq.ParquetFile(data)
    encoded = []
    if file.metadata.num_row_groups:
        group = file.metadata.row_group(0)
        chunks = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
        encoded = [str(number) for number in may_be_encoded if _is_small(chunks[str(number)])]
    if encoded:
        file = pq.ParquetFile(data, metadata=file.metadata, read_dictionary=encoded)
    rows: Iterator[pa.RecordBatch] = file.iter_batches(batch_size=GROUP_ROWS)
    return rows


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

    The last one may be smaller, and so may those of long texts: one array holds less than 2 GiB of them.
    """
    waiting: list[pa.RecordBatch] = []
    count = nbytes = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, GROUP_ROWS - count)
            if waiting and nbytes + part.nbytes > _MOST_JOINED_BYTES:
                yield _joined(waiting)
                waiting, count, nbytes = [], 0, 0
                part = batch.slice(start, GROUP_ROWS)
            waiting.append(part)
            start, count, nbytes = start + part.num_rows, count + part.num_rows, nbytes + part.nbytes
            if count == GROUP_ROWS:
                yield _joined(waiting)
                waiting, count, nbytes = [], 0, 0
    if count:
        yield _joined(waiting)


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _split(stored: Sequence[pa.DataType]) -> dict[str, list[int]]:
    """The numbers of the columns in each file, by ending; no files without columns."""
    parquet = [number for number, data_type in enumerate(stored) if is_kept_by_parquet(data_type)]
    arrow = [number for number in range(len(stored)) if number not in frozenset(parquet)]
    return {ending: numbers for ending, numbers in ((_PARQUET, parquet), (_ARROW, arrow)) if numbers}
