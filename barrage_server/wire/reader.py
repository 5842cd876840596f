"""Record batches read as updates; :mod:`barrage_server.wire.batches` writes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from barrage_server.errors import WireFormatError
from barrage_server.wire.empty import empty_array
from barrage_server.wire.intake import Intake
from barrage_server.wire.metadata import UpdateMetadata
from barrage_server.wire.metadata_reader import MetadataReader
from barrage_server.wire.nulls import from_deephaven_nulls, has_deephaven_null
from barrage_server.wire.schema import is_list_schema, plain_schema
from barrage_server.wire.soundness import check_schema

__all__ = ["IncomingMessage", "MessageReader"]

Column: TypeAlias = pa.Array | pa.ChunkedArray


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """One whole update. Columns that came in several batches are chunked.

    Attributes:
        metadata: the metadata.
        add_columns: per schema column the values of ``metadata.included_rows``, in key order. A column outside of the
            subscription is empty, or all null from a sender that pads.
        mod_columns: per schema column the values of its ``metadata.modified_rows``; empty without modified rows, and
            for a column outside of the subscription.

    """

    metadata: UpdateMetadata
    add_columns: tuple[Column, ...]
    mod_columns: tuple[Column, ...]


class _Pending:
    """An update with outstanding batches."""

    __slots__ = ("add_batches", "adds", "adds_left", "metadata", "mod_batches", "mods", "mods_left", "mods_wanted")

    def __init__(self, metadata: UpdateMetadata, columns: int) -> None:
        self.metadata = metadata
        self.adds: list[list[pa.Array]] = [[] for _ in range(columns)]
        self.mods: list[list[pa.Array]] = [[] for _ in range(columns)]
        self.adds_left = metadata.included_rows.size if columns else 0
        modified = metadata.modified_rows or ()
        if modified and len(modified) != columns:
            raise WireFormatError(
                f"update metadata: modified rows of {len(modified)} columns; the schema has {columns}"
            )
        self.mods_wanted = [rows.size for rows in modified] or [0] * columns
        self.mods_left = max(self.mods_wanted, default=0)
        # Batch counts, where the sender gives them; otherwise rows are counted.
        self.add_batches = metadata.num_add_batches
        self.mod_batches = metadata.num_mod_batches

    @property
    def is_complete(self) -> bool:
        if self.add_batches is not None:
            return self.add_batches == 0 and self.mod_batches == 0
        return self.adds_left == 0 and self.mods_left == 0


class MessageReader:
    """Assembles the record batches of one stream to updates.

    The metadata has the number of rows of an update, and often the number of batches. Batches may have columns of
    different lengths (:meth:`feed_columns`), columns as lists, or columns padded with nulls.

    Args:
        schema_on_the_wire: the schema of the stream.
        use_deephaven_nulls: whether nulls are Deephaven's null values.
        columns_as_list: whether columns are lists; None derives it from the schema.
        max_update_bytes: most bytes, in plain form, of one update, which is kept in memory until it is complete.
        left_out: returns the numbers of columns outside of the subscription, whose types may be unreadable.

    Attributes:
        schema: the table's schema: without lists around the columns, and with plain types.

    """

    __slots__ = ("_in_band", "_intake", "_is_list", "_left_out", "_metadata", "_pending", "_types", "schema")

    def __init__(
        self,
        schema_on_the_wire: pa.Schema,
        *,
        use_deephaven_nulls: bool = False,
        columns_as_list: bool | None = None,
        max_update_bytes: int | None = None,
        left_out: Callable[[pa.Schema], Collection[int]] = lambda _schema: (),
    ) -> None:
        check_schema(schema_on_the_wire)
        self._is_list = is_list_schema(schema_on_the_wire) if columns_as_list is None else columns_as_list
        self._left_out = frozenset(left_out(plain_schema(schema_on_the_wire) if self._is_list else schema_on_the_wire))
        refusal = (
            f"One update may have {max_update_bytes:,} bytes (put_bytes), and this one has more."
            if max_update_bytes
            else ""
        )
        self._intake = Intake(schema_on_the_wire, max_update_bytes, refusal, self._left_out)
        plain = self._intake.schema
        self.schema: pa.Schema = plain_schema(plain) if self._is_list else plain
        self._types: list[pa.DataType] = [
            pa.null() if number in self._left_out else data_type for number, data_type in enumerate(self.schema.types)
        ]
        self._in_band = [use_deephaven_nulls and has_deephaven_null(data_type) for data_type in self._types]
        self._metadata = MetadataReader()
        self._pending: _Pending | None = None

    @property
    def is_complete(self) -> bool:
        """Whether no update is incomplete."""
        return self._pending is None

    def feed(self, batch: pa.RecordBatch | None, app_metadata: bytes | None) -> IncomingMessage | None:
        """Add the next record batch; return the update if it is complete.

        Args:
            batch: the batch; None for a message without data, which is ignored if it has no metadata either.
            app_metadata: app_metadata of the message.

        Raises:
            WireFormatError: the batch does not fit its update; the stream cannot be read further.

        """
        if batch is None:
            if app_metadata is None:
                return None
            raise WireFormatError("update metadata came without a record batch")
        values = self._intake.take_values(batch) if self._is_list else None
        if values is not None:
            return self._feed(self._with_bitmaps(values), max(map(len, values)), app_metadata)
        columns = self._intake.take_columns(batch)
        return self.feed_columns(columns, len(columns[0]) if columns else 0, app_metadata)

    def feed_columns(
        self, columns: Sequence[pa.Array], length: int, app_metadata: bytes | None
    ) -> IncomingMessage | None:
        """Add the columns of the next record batch; return the update if it is complete.

        Args:
            columns: sound and plain columns, which may differ in length.
            length: the length of the batch in its header.
            app_metadata: app_metadata of the message.

        Raises:
            WireFormatError: the batch does not fit its update; the stream cannot be read further.

        """
        if len(columns) != len(self._types):
            raise WireFormatError(f"a record batch of {len(columns)} columns; the schema has {len(self._types)}")
        return self._feed(*self._columns(columns, length), app_metadata)

    def _feed(self, arrays: list[pa.Array], rows: int, app_metadata: bytes | None) -> IncomingMessage | None:
        """Add the values of ``rows`` rows, with validity bitmaps."""
        pending = self._begin(app_metadata) if app_metadata is not None else self._pending
        if pending is None:
            raise WireFormatError("a record batch came before any update metadata")
        is_add = pending.adds_left > 0 if pending.add_batches is None else pending.add_batches > 0
        if is_add:
            _take_adds(pending, arrays, rows)
        else:
            _take_mods(pending, arrays, rows)
        if not pending.is_complete:
            return None
        self._pending = None
        self._intake.reset()
        return self._finish(pending)

    def _begin(self, app_metadata: bytes) -> _Pending:
        if self._pending is not None:
            raise WireFormatError("a new update began before the last one was complete")
        metadata = self._metadata.read(app_metadata)
        if not isinstance(metadata, UpdateMetadata):
            raise WireFormatError(f"expected update metadata on a record batch, got a {type(metadata).__name__}")
        self._pending = _Pending(metadata, len(self._types))
        return self._pending

    def _columns(self, columns: Sequence[pa.Array], length: int) -> tuple[list[pa.Array], int]:
        """Return the values with validity bitmaps, and the number of rows of the batch."""
        if self._is_list and length > 0:
            columns = [
                pa.nulls(0) if number in self._left_out else _unwrap(column) for number, column in enumerate(columns)
            ]
            length = max((len(column) for column in columns), default=0)
        elif self._is_list:
            columns = [empty_array(data_type) for data_type in self._types]
        return self._with_bitmaps(columns), length

    def _with_bitmaps(self, columns: Sequence[pa.Array]) -> list[pa.Array]:
        return [
            from_deephaven_nulls(array) if in_band else array
            for array, in_band in zip(columns, self._in_band, strict=True)
        ]

    def _finish(self, pending: _Pending) -> IncomingMessage:
        wanted = pending.metadata.included_rows.size
        if pending.adds_left or pending.mods_left:
            raise WireFormatError(
                f"an update ended with {pending.adds_left} added and {pending.mods_left} modified rows missing"
            )
        adds = tuple(map(_join, pending.adds, self._types))
        for field, column in zip(self.schema, adds, strict=True):
            if len(column) not in (0, wanted):
                raise WireFormatError(f"column {field.name!r} has {len(column)} added rows instead of {wanted}")
        mods = tuple(map(_join, pending.mods, self._types))
        for field, column, rows in zip(self.schema, mods, pending.mods_wanted, strict=True):
            if len(column) not in (0, rows):
                raise WireFormatError(f"column {field.name!r} has {len(column)} modified rows instead of {rows}")
        return IncomingMessage(pending.metadata, adds, mods)


def _take_adds(pending: _Pending, arrays: list[pa.Array], rows: int) -> None:
    if rows > pending.adds_left and arrays:
        raise WireFormatError(f"a record batch of {rows} added rows where {pending.adds_left} are left")
    for chunks, array in zip(pending.adds, arrays, strict=True):
        if len(array):
            chunks.append(array)
    pending.adds_left -= rows if arrays else 0
    if pending.add_batches is not None:
        pending.add_batches -= 1


def _take_mods(pending: _Pending, arrays: list[pa.Array], rows: int) -> None:
    """Take the outstanding rows of each column; further values are padding."""
    if rows > pending.mods_left:
        raise WireFormatError(f"a record batch of {rows} modified rows where {pending.mods_left} are left")
    done = max(pending.mods_wanted, default=0) - pending.mods_left
    for chunks, array, wanted in zip(pending.mods, arrays, pending.mods_wanted, strict=True):
        count = min(max(wanted - done, 0), rows, len(array))
        if count:
            chunks.append(array if count == len(array) else array.slice(0, count))
    pending.mods_left -= rows
    if pending.mod_batches is not None:
        pending.mod_batches = max(0, pending.mod_batches - 1)


def _unwrap(column: pa.Array) -> pa.Array:
    """Return the values of the only list of a column."""
    if len(column) != 1 or column.null_count or not pa.types.is_list(column.type):
        raise WireFormatError("a column as list must hold exactly one list, and that not null")
    start, stop = column.offsets.to_pylist()
    values = column.values
    if not 0 <= start <= stop <= len(values):
        raise WireFormatError("a column as list reaches beyond its elements")
    return values if stop - start == len(values) else values.slice(start, stop - start)


def _join(chunks: list[pa.Array], data_type: pa.DataType) -> Column:
    if len(chunks) == 1:
        return chunks[0]
    return pa.chunked_array(chunks, data_type) if chunks else empty_array(data_type)
