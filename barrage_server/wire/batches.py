"""Updates as record batches; :mod:`barrage_server.wire.reader` reads them.

Batches of added rows come before batches of modified rows. Only the first batch carries the metadata. An update without
rows is one batch without rows. Modified rows are cut at the same positions of the row set of each column, so that a
column with fewer modified rows has shorter pieces and then none. Deephaven's clients rely on this split of
deephaven-core.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from barrage_server.errors import MessageTooLargeError
from barrage_server.wire.array_bound import read_in_parts
from barrage_server.wire.arrow_message import encode_batch_header
from barrage_server.wire.empty import empty_array
from barrage_server.wire.layout import take_apart
from barrage_server.wire.metadata import SubscriptionOptions
from barrage_server.wire.nulls import has_deephaven_null, to_deephaven_nulls
from barrage_server.wire.previews import preview
from barrage_server.wire.schema import list_schema

__all__ = [
    "BATCH_ROWS",
    "LengthMode",
    "MessageWriter",
    "OutgoingMessage",
    "RowsReader",
]

FIRST_BATCH_ROWS: Final = 4096
"""The most rows of the first batch of added rows: few, so that the receiver can show them early."""
EARLY_BATCH_ROWS: Final = 16384
"""Rows of the next batches of added rows, up to row ``EARLY_ROWS``. A divisor of ``BATCH_ROWS``."""
EARLY_ROWS: Final = 1 << 18
"""About the rows that the buffers of a connection hold. Beyond them a stalled receiver blocks the sender, which then
holds one batch."""
BATCH_ROWS: Final = 65536
UNLIMITED_ROWS: Final = (1 << 31) - 1
DEFAULT_MESSAGE_BYTES: Final = 96 << 20
"""Bytes; stock clients refuse messages above 100 MiB by default."""
HARD_MESSAGE_BYTES: Final = (1 << 31) - (1 << 16)
"""Bytes: protobuf's limit of 2 GiB, minus the framing."""
_BOUNDS: Final = struct.Struct("<ii")
_OVERHEAD: Final = 1024
_COLUMN_OVERHEAD: Final = 160  # nodes, buffers and padding of a column, in bytes


class RowsReader(Protocol):
    """Reads ranges of the rows of a message."""

    def __call__(self, start: int, stop: int) -> Sequence[pa.Array]:
        """Read rows ``[start, stop)``.

        Returns:
            One array per schema column, in order; empty if the column is not subscribed.

        """


class Metadata(Protocol):
    """The metadata of a message: :class:`UpdateMetadata`, or a faster encoder of it."""

    def encode(self, batch_counts: tuple[int, int] | None = None) -> bytes:
        """See :meth:`UpdateMetadata.encode`."""

    def size_estimate(self) -> int:
        """See :meth:`UpdateMetadata.size_estimate`."""


class LengthMode(Enum):
    """The treatment of columns of different lengths without ``columns_as_list``."""

    PADDED = "padded"
    """Padded with nulls, as pyarrow requires; the receiver cuts them to the counts in the metadata."""
    RAGGED = "ragged"
    """Sent with their own lengths; possible with :meth:`MessageWriter.ipc_messages` only."""


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """An update, and the functions that read its data.

    Attributes:
        metadata: the metadata.
        add_count: the number of rows that the metadata includes.
        read_adds: reads these rows.
        mod_counts: the number of modified rows per column; ``()`` when nothing is modified.
        read_mods: ``read_mods(column, start, stop)`` reads ``[start, stop)`` of the modified rows of one column.

    """

    metadata: Metadata
    add_count: int
    read_adds: RowsReader
    mod_counts: tuple[int, ...]
    read_mods: Callable[[int, int, int], pa.Array]


class MessageWriter:
    """Converts updates of one table to record batches. Immutable and shareable.

    Args:
        schema: the plain schema, of :func:`barrage_server.wire.schema.barrage_schema`.
        options: the options of the subscription.
        lengths: the treatment of columns that differ in length by :meth:`ipc_messages`.

    Attributes:
        schema: the schema on the wire.

    """

    __slots__ = (
        "_empty",
        "_first_rows",
        "_ipc_no_rows",
        "_is_list",
        "_list_types",
        "_max_bytes",
        "_no_rows",
        "_options",
        "_pads",
        "_prepared",
        "_row_bytes",
        "_rows",
        "_types",
        "schema",
    )

    def __init__(
        self, schema: pa.Schema, options: SubscriptionOptions, lengths: LengthMode = LengthMode.RAGGED
    ) -> None:
        self._options = options
        self._pads = lengths is LengthMode.PADDED and not options.columns_as_list
        self._is_list = options.columns_as_list
        self.schema: pa.Schema = list_schema(schema) if self._is_list else schema
        self._types: list[pa.DataType] = schema.types
        self._list_types: list[pa.DataType] = self.schema.types
        self._empty = [empty_array(data_type) for data_type in self._types]
        self._no_rows: pa.RecordBatch | None = None
        self._ipc_no_rows: tuple[bytes, list[Any]] | None = None
        self._prepared = [self._needs_preparing(data_type) for data_type in self._types]
        self._max_bytes = _message_limit(options.max_message_size, len(self._types))
        self._row_bytes = _row_bytes(self._types)
        rows = options.batch_size or BATCH_ROWS
        if rows < 0:
            rows = UNLIMITED_ROWS
        self._rows = rows
        self._first_rows = FIRST_BATCH_ROWS if options.batch_size == 0 else rows

    def record_batches(self, message: OutgoingMessage) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        """Yield record batches with their app_metadata, which only the first has.

        Without ``columns_as_list``, columns shorter than the longest are padded with nulls.
        """
        for arrays, length, app_metadata in self._messages(message):
            yield self.batch(arrays, length), app_metadata

    def ipc_messages(self, message: OutgoingMessage) -> Iterator[tuple[bytes, bytes | None, list[Any]]]:
        """Yield raw messages: header, app_metadata (of the first only), body in pieces.

        Columns of modified rows may differ in length, unless ``lengths`` is PADDED.
        """
        for columns, length, app_metadata in self._messages(message):
            header, body = self._ipc_message(columns, length)
            yield header, app_metadata, body

    def batch(self, arrays: Sequence[pa.Array], length: int) -> pa.RecordBatch:
        """Make a record batch of ``length`` rows, or of one row with lists of them."""
        columns = self._as_lists(arrays) if self._is_list else _padded(arrays, length)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def batch_without_rows(self) -> pa.RecordBatch:
        """Return the batch of an update without rows: the same object each time."""
        batch = self._no_rows
        if batch is None:
            batch = self._no_rows = self.batch(self._empty, 0)
        return batch

    def ipc_without_rows(self) -> tuple[bytes, list[Any]]:
        """Return header and body of a raw message without rows, the same each time."""
        message = self._ipc_no_rows
        if message is None:
            message = self._ipc_no_rows = self._ipc_message(self._empty, 0)
        return message

    @property
    def batch_rows(self) -> int:
        """The most rows in one batch."""
        return self._rows

    @property
    def first_batch_rows(self) -> int:
        """The most rows in the first batch of added rows."""
        return self._first_rows

    @property
    def sends_values_as_they_are(self) -> bool:
        """Whether neither previews nor the encoding of nulls change values."""
        return not any(self._prepared)

    def fits(self, rows: int, nbytes: int, metadata_bytes: int) -> bool:
        """Whether a message of this size is a single batch.

        Args:
            rows: the number of rows.
            nbytes: bytes of the data.
            metadata_bytes: bytes of app_metadata.

        """
        if self._row_bytes is not None:
            nbytes = max(nbytes, math.ceil(rows * self._row_bytes))
        return nbytes + metadata_bytes <= self._max_bytes

    def list_batch(self, columns: Sequence[pa.Array], offsets: Sequence[npt.NDArray[np.int32]]) -> pa.RecordBatch:
        """Make one batch of many messages: a row of lists for each.

        Args:
            columns: the concatenated values of all messages, per column.
            offsets: for each column the start of each message's values, and the end of the last one (int32).

        """
        arrays = [
            pa.Array.from_buffers(data_type, len(starts) - 1, [None, pa.py_buffer(starts)], 0, children=[values])
            for data_type, values, starts in zip(self._list_types, self._prepare(columns), offsets, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _ipc_message(self, columns: list[pa.Array], length: int) -> tuple[bytes, list[Any]]:
        """Return header and body of a batch of ``length`` rows as a raw message."""
        parts = take_apart(_padded(columns, length) if self._pads else columns, as_lists=self._is_list)
        return encode_batch_header(1 if self._is_list else length, parts.nodes, parts.spans, parts.size), parts.body

    def _messages(self, message: OutgoingMessage) -> Iterator[tuple[list[pa.Array], int, bytes | None]]:
        """Yield the columns, the number of rows and the app_metadata of each batch."""
        mod_count = max(message.mod_counts, default=0)
        room = max(1, self._max_bytes - message.metadata.size_estimate())
        adds = self._cuts(message.add_count, room, self._first_rows)
        mods = self._cuts(mod_count, self._max_bytes if adds else room, self._rows)
        batches = self._batches(message, adds, mods, room)
        counts: tuple[int, int] | None = (len(adds), len(mods))
        if self._row_bytes is None:
            # Rows of variable width are cut once they are read. Small messages are read first, to know the counts.
            counts = None
            if len(adds) <= 1 and len(mods) <= 1:
                ready = list(batches)
                counts = (sum(is_add for _, _, is_add in ready), sum(not is_add for _, _, is_add in ready))
                batches = iter(ready)
        app_metadata: bytes | None = message.metadata.encode(counts)
        for arrays, length, _ in batches:
            yield arrays, length, app_metadata
            app_metadata = None
        if app_metadata is not None:
            yield self._empty, 0, app_metadata

    def _cuts(self, count: int, room: int, first: int) -> list[tuple[int, int]]:
        """Return the start and stop of each batch.

        The first batch has at most ``first`` rows and ``room`` bytes.
        """
        rest = self._rows
        if self._row_bytes is not None:
            first = max(1, min(first, int(room / self._row_bytes)))
            rest = max(1, min(rest, int(self._max_bytes / self._row_bytes)))
        if count <= first:
            return [(0, count)] if count else []
        # Later batches end at multiples of ``rest``, aligned with storage pieces, so that slices are zero-copy.
        begun = rest if first < rest else first + rest
        bounds = [0, first]
        if first < EARLY_BATCH_ROWS < rest:
            begun = max(begun, EARLY_ROWS // rest * rest)
            bounds += range(EARLY_BATCH_ROWS, min(begun, count), EARLY_BATCH_ROWS)
        bounds += [*range(begun, count, rest), count]
        return list(pairwise(bounds))

    def _batches(
        self, message: OutgoingMessage, adds: list[tuple[int, int]], mods: list[tuple[int, int]], room: int
    ) -> Iterator[tuple[list[pa.Array], int, bool]]:
        """Yield the columns and the number of rows of each batch, and whether it adds."""

        def read_mods(start: int, stop: int) -> list[pa.Array]:
            return [
                message.read_mods(column, start, min(stop, count)) if count > start else self._empty[column]
                for column, count in enumerate(message.mod_counts)
            ]

        for read, cuts, is_add in ((message.read_adds, adds, True), (read_mods, mods, False)):
            for start, stop in cuts:
                parts = read_in_parts(read, start, stop)
                if self._row_bytes is not None:  # the number of batches was told already
                    parts = _joined(parts)
                for first, end, arrays in parts:
                    for piece, length in self._pieces(self._prepare(arrays), end - first, room):
                        yield piece, length, is_add
                room = self._max_bytes

    def _needs_preparing(self, data_type: pa.DataType) -> bool:
        options = self._options
        previewed = options.preview_list_length_limit != 0 and types.is_nested(data_type)
        return previewed or (options.use_deephaven_nulls and has_deephaven_null(data_type))

    def _prepare(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        """Apply previews and null encoding."""
        limit, in_band = self._options.preview_list_length_limit, self._options.use_deephaven_nulls
        prepared = list(arrays)
        for column, needed in enumerate(self._prepared):
            if needed:
                array = preview(prepared[column], limit)
                prepared[column] = to_deephaven_nulls(array) if in_band else array
        return prepared

    def _pieces(self, arrays: list[pa.Array], length: int, room: int) -> Iterator[tuple[list[pa.Array], int]]:
        """Cut rows so that pieces of more than one row have at most ``room`` bytes."""
        # The bytes in memory are fast to compute, and suffice to recognise a small message.
        size = 0 if self._row_bytes is not None else sum(array.get_total_buffer_size() for array in arrays)
        if size > room:
            size = sum(array.nbytes for array in arrays)
        if size <= room:
            yield arrays, length
        elif length == 1:
            if size > HARD_MESSAGE_BYTES:
                raise MessageTooLargeError(
                    f"one row has {size} bytes, but a message carries at most {HARD_MESSAGE_BYTES}; "
                    "leave out its widest column, or limit its lists with preview_list_length_limit"
                )
            yield arrays, length
        else:
            step = max(1, min(length - 1, length * room // size))
            for start in range(0, length, step):
                stop = min(start + step, length)
                cut = [array.slice(min(start, len(array)), stop - start) for array in arrays]
                yield from self._pieces(cut, stop - start, room)

    def _as_lists(self, arrays: Sequence[pa.Array]) -> list[pa.Array]:
        """Convert each column to a list array with one list of its values. Zero-copy."""
        bounds = {length: pa.py_buffer(_BOUNDS.pack(0, length)) for length in set(map(len, arrays))}
        return [
            pa.Array.from_buffers(data_type, 1, [None, bounds[len(array)]], null_count=0, children=[array])
            for data_type, array in zip(self._list_types, arrays, strict=True)
        ]


def _joined(parts: Iterator[tuple[int, int, Sequence[pa.Array]]]) -> Iterator[tuple[int, int, Sequence[pa.Array]]]:
    """Yield the parts as one: values of fixed width fit into one array."""
    found = list(parts)
    if len(found) == 1:
        yield found[0]
    else:
        columns = zip(*(arrays for _, _, arrays in found), strict=True)
        yield found[0][0], found[-1][1], [pa.concat_arrays(column) for column in columns]


def _padded(arrays: Sequence[pa.Array], length: int) -> list[pa.Array]:
    """Pad columns that are shorter than the batch with nulls."""
    return [
        array
        if len(array) == length
        else pa.nulls(length, array.type)
        if len(array) == 0
        else pa.concat_arrays([array, pa.nulls(length - len(array), array.type)])
        for array in arrays
    ]


def _message_limit(asked: int, columns: int) -> int:
    """Return the most bytes of data in one message, without its framing."""
    limit = min(asked, HARD_MESSAGE_BYTES) if asked > 0 else DEFAULT_MESSAGE_BYTES
    return max(1, limit - _OVERHEAD - _COLUMN_OVERHEAD * columns)


def _row_bytes(data_types: Sequence[pa.DataType]) -> float | None:
    """Return the bytes of a row with validity bits; None when rows differ in size."""
    bits = 0
    for data_type in data_types:
        if types.is_nested(data_type) or not (types.is_primitive(data_type) or types.is_decimal(data_type)):
            return None
        bits += data_type.bit_width + 1
    return bits / 8 if bits else None
