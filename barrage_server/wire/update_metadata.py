"""BarrageUpdateMetadata: the row changes of an update, sent with its first batch."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from barrage_flatbuf.BarrageMessageType import BarrageMessageType

from barrage_server.errors import WireFormatError
from barrage_server.rowset import (
    RowSet,
    RowSetShiftData,
    decode_bit_set,
    decode_row_set,
    decode_shift_data,
    encode_bit_set,
    encode_row_set,
    encode_shift_data,
)
from barrage_server.wire.flat import FlatTable
from barrage_server.wire.wrapper import HEAD_BYTES, PAYLOAD_SLOT, wrap

__all__ = [
    "MODIFIED_SLOT",
    "NUMBERS",
    "NUMBERS_POSITION",
    "MetadataFrame",
    "MovedFrame",
    "QuietFrame",
    "UpdateMetadata",
]

# The table is packed here, because it is written once per update and subscriber, and the builder takes a hundred
# microseconds. Positions count from the start of the buffer: root offset, vtable, table, then the vectors.
_FIELD_LIST: Final = 4
_TABLE: Final = 36  # puts the 64-bit fields, which come first, at multiples of 8
_HEAD: Final = "<I 16H i 3q 9I 2B 2x"
_VECTORS: Final = 72  # position of the first of the seven vector fields
_SCALAR_SLOTS: Final = {0: 40, 1: 48, 11: 56, 12: 64, 13: 68, 2: 100, 4: 101}
_VECTOR_SLOTS: Final = (3, 5, 6, 7, 8, 9, 10)
# The padded vtable that all tables of modified rows share (6 bytes long; 8 bytes of table; the rows at 4).
_NODE_FIELD_LIST: Final = struct.pack("<3H2x", 6, 8, 4)
_BYTES_PER_RANGE: Final = 4  # two int16, the usual encoding
_NODE: Final = struct.Struct("<iII")
NUMBERS: Final = struct.Struct("<3q")
"""first_seq, last_seq and table_size, as :meth:`UpdateMetadata.encode` lays them out."""
NUMBERS_POSITION: Final = _SCALAR_SLOTS[0]
"""The position of ``NUMBERS`` in a payload, in bytes."""
MODIFIED_SLOT: Final = 10
"""The slot of the modified rows."""


@dataclass(frozen=True, slots=True)
class UpdateMetadata:
    """One update, without its data.

    In the flattened dialect of viewports, row sets are positions inside the viewport, and ``shift_data`` is None.

    Attributes:
        first_seq: the first step of the update graph that the update covers; -1 for a static table.
        last_seq: the last step that the update covers; -1 for a static table.
        is_snapshot: whether the update answers a request.
        effective_viewport: the viewport of a snapshot; None for the whole table.
        effective_reverse_viewport: whether its positions count from the end of the table.
        effective_column_set: the column numbers of a snapshot; None for all.
        added_rows: keys of the added rows.
        removed_rows: keys of the removed rows, before the shifts; all other row sets have keys after the shifts.
        shift_data: how keys of remaining rows have moved.
        added_rows_included: rows with data in this message; None for ``added_rows``.
        modified_rows: one row set per column, or ``()``, or None when the field is absent.
        table_size: the number of rows of the whole table.
        num_add_batches: the number of record batches of added rows, with the first one.
        num_mod_batches: the number of record batches of modified rows. If both numbers are zero on the wire, both are
            None, and the receiver counts rows.

    """

    first_seq: int = -1
    last_seq: int = -1
    is_snapshot: bool = False
    effective_viewport: RowSet | None = None
    effective_reverse_viewport: bool = False
    effective_column_set: tuple[int, ...] | None = None
    added_rows: RowSet | None = None
    removed_rows: RowSet | None = None
    shift_data: RowSetShiftData | None = None
    added_rows_included: RowSet | None = None
    modified_rows: tuple[RowSet, ...] | None = None
    table_size: int = 0
    num_add_batches: int | None = None
    num_mod_batches: int | None = None

    @property
    def included_rows(self) -> RowSet:
        """The added rows with data in this message."""
        included = self.added_rows if self.added_rows_included is None else self.added_rows_included
        return RowSet.EMPTY if included is None else included

    @property
    def mod_count(self) -> int:
        """The most modified rows of a column, which is the number of rows of mod batches."""
        return max((rows.size for rows in self.modified_rows or ()), default=0)

    def size_estimate(self) -> int:
        """Estimate the bytes of :meth:`encode`, to tell large messages from small ones."""
        sets = [self.effective_viewport, self.added_rows, self.removed_rows, self.added_rows_included]
        sets += {id(rows): rows for rows in self.modified_rows or ()}.values()
        ranges = sum([rows.range_count for rows in sets if rows])
        if self.shift_data is not None:
            ranges += 3 * self.shift_data.size
        return struct.calcsize(_HEAD) + _BYTES_PER_RANGE * ranges

    def encode(self, batch_counts: tuple[int, int] | None = None) -> bytes:
        """Encode the app_metadata.

        Args:
            batch_counts: replaces ``num_add_batches`` and ``num_mod_batches``.

        """
        if self.modified_rows is None:
            return wrap(BarrageMessageType.BarrageUpdateMetadata, _head(self, batch_counts, modified=False))
        known = {id(rows): rows for rows in self.modified_rows}
        encoded = {number: encode_row_set(rows) for number, rows in known.items()}
        return MetadataFrame(self, batch_counts).around([encoded[id(rows)] for rows in self.modified_rows])

    @classmethod
    def decode_payload(cls, payload: bytes | memoryview) -> UpdateMetadata:
        """Decode a payload; WireFormatError on damaged bytes."""
        table = FlatTable.root(payload)
        columns = table.bytes_vector(5)
        shifts = table.bytes_vector(8)
        size, adds, mods = table.int64(11), table.uint32(12), table.uint32(13)
        if size < 0:
            raise WireFormatError(f"update metadata: table_size is {size}; it cannot be negative")
        counted = adds != 0 or mods != 0
        return cls(
            first_seq=table.int64(0),
            last_seq=table.int64(1),
            is_snapshot=table.boolean(2),
            effective_viewport=_row_set(table, 3),
            effective_reverse_viewport=table.boolean(4),
            effective_column_set=None if columns is None else decode_bit_set(bytes(columns)),
            added_rows=_row_set(table, 6),
            removed_rows=_row_set(table, 7),
            shift_data=None if shifts is None else decode_shift_data(bytes(shifts)),
            added_rows_included=_row_set(table, 9),
            modified_rows=_modified(table, payload),
            table_size=size,
            num_add_batches=adds if counted else None,
            num_mod_batches=mods if counted else None,
        )


class MetadataFrame:
    """The metadata of messages that differ in their modified rows only.

    Args:
        metadata: the metadata, whose modified rows are ignored.
        batch_counts: replaces the batch counts, as in :meth:`UpdateMetadata.encode`.

    """

    __slots__ = ("_head",)

    def __init__(self, metadata: UpdateMetadata, batch_counts: tuple[int, int] | None = None) -> None:
        self._head = _head(metadata, batch_counts, modified=True)

    def around(self, modified: Sequence[bytes]) -> bytes:
        """Encode the app_metadata, with an encoded row set for each column."""
        return wrap(BarrageMessageType.BarrageUpdateMetadata, self._head + _nodes(modified))

    def halves(self, modified: Sequence[bytes], column: int) -> tuple[bytes, bytes]:
        """Return the bytes of :meth:`around` before and after the row set of one column.

        They are the same for other row sets of this length, if the same columns have equal row sets.
        """
        numbers: dict[bytes, int] = {}
        tables = tuple([numbers.setdefault(data, len(numbers)) for data in modified])
        before, _ = _node_layout(tables, tuple(map(len, numbers)))
        shared = list(numbers)
        place = HEAD_BYTES + len(self._head)
        place += sum(map(len, before[: tables[column] + 1])) + sum(map(len, shared[: tables[column]]))
        data = self.around(modified)
        return data[:place], data[place + len(modified[column]) :]


class MovedFrame:
    """The metadata of messages for moved viewports.

    The messages differ in their steps, size and three row sets only: ``effective_viewport``, ``added_rows`` and
    ``added_rows_included``, which has the same rows.

    Args:
        data: app_metadata of one of the messages.

    """

    __slots__ = ("_added", "_data", "_included", "_numbers", "_viewport")

    def __init__(self, data: bytes) -> None:
        start, end = FlatTable.root(data).bytes_span(PAYLOAD_SLOT) or (0, 0)
        table = FlatTable.root(data[start:end])
        self._data = data
        self._numbers = start + NUMBERS_POSITION
        spans = [table.bytes_span(slot) or (0, 0) for slot in (3, 6, 9)]
        self._viewport, self._added, self._included = (slice(start + first, start + stop) for first, stop in spans)

    def around(self, step: int, size: int, viewport: bytes, added: bytes) -> bytes:
        """Encode the app_metadata; row sets must be as long as in the given message."""
        data = bytearray(self._data)
        NUMBERS.pack_into(data, self._numbers, step, step, size)
        data[self._viewport] = viewport
        data[self._added] = data[self._included] = added
        return bytes(data)


class QuietFrame:
    """The metadata of updates that differ in steps, size and ``added_rows`` only.

    These are the updates to a viewport in which nothing changes.

    Args:
        data: app_metadata of one of the updates.

    """

    __slots__ = ("_added", "_data", "_numbers")

    def __init__(self, data: bytes) -> None:
        start, end = FlatTable.root(data).bytes_span(PAYLOAD_SLOT) or (0, 0)
        first, stop = FlatTable.root(data[start:end]).bytes_span(6) or (0, 0)
        self._data = data
        self._numbers = start + NUMBERS_POSITION
        self._added = slice(start + first, start + stop)

    def around(self, first_step: int, last_step: int, size: int, added: bytes) -> bytes:
        """Encode the app_metadata of another such update.

        Args:
            first_step: its first step.
            last_step: its last step.
            size: the number of rows of the table.
            added: the encoded ``added_rows``, as long as those of the update that the frame was made of.

        """
        data = bytearray(self._data)
        NUMBERS.pack_into(data, self._numbers, first_step, last_step, size)
        data[self._added] = added
        return bytes(data)


def _head(metadata: UpdateMetadata, batch_counts: tuple[int, int] | None, *, modified: bool) -> bytes:
    """Encode the table and its vectors, but for the modified rows.

    Args:
        metadata: the metadata.
        batch_counts: replaces the batch counts.
        modified: whether the vector of modified rows follows.

    """
    adds, mods = batch_counts or (metadata.num_add_batches or 0, metadata.num_mod_batches or 0)
    added, included = metadata.added_rows, metadata.added_rows_included
    added_bytes = _rows(added)
    vectors = (
        _rows(metadata.effective_viewport),
        None if metadata.effective_column_set is None else encode_bit_set(metadata.effective_column_set),
        added_bytes,
        _rows(metadata.removed_rows),
        None if metadata.shift_data is None else encode_shift_data(metadata.shift_data),
        added_bytes if included is added else _rows(included),
    )
    lengths = tuple([None if vector is None else len(vector) for vector in vectors])
    layout, field_list, offsets = _layout(lengths, modified)
    return layout.pack(
        _TABLE,
        *field_list,
        _TABLE - _FIELD_LIST,
        metadata.first_seq,
        metadata.last_seq,
        metadata.table_size,
        adds,
        mods,
        *offsets,
        metadata.is_snapshot,
        metadata.effective_reverse_viewport,
        *[part for vector in vectors if vector is not None for part in (len(vector), vector)],
    )


@lru_cache(maxsize=1024)
def _layout(lengths: tuple[int | None, ...], modified: bool) -> tuple[struct.Struct, tuple[int, ...], tuple[int, ...]]:
    """Return the layout of a table with byte vectors of these lengths.

    Args:
        lengths: bytes of the six vectors; None for an absent one.
        modified: whether the vector of modified rows follows them.

    Returns:
        The layout; the vtable: two lengths, then the position of each slot; and the offsets of the vectors.

    """
    slots = [0] * 14
    for slot, position in _SCALAR_SLOTS.items():
        slots[slot] = position - _TABLE
    offsets: list[int] = []
    parts = [_HEAD]
    end = struct.calcsize(_HEAD)
    for number, length in enumerate((*lengths, 0 if modified else None)):
        field = _VECTORS + 4 * number
        offsets.append(0 if length is None else end - field)
        if length is None:
            continue
        slots[_VECTOR_SLOTS[number]] = field - _TABLE
        if number < len(lengths):  # length, bytes, padding to four
            parts.append(f"I {length}s {-length % 4}x")
            end += 4 + length + -length % 4
    field_list = (4 + 2 * len(slots), struct.calcsize(_HEAD) - _TABLE, *slots)
    return struct.Struct(" ".join(parts)), field_list, tuple(offsets)


def _nodes(modified: Sequence[bytes]) -> bytes:
    """Encode the vector of tables of modified rows; equal row sets share one table."""
    numbers: dict[bytes, int] = {}
    tables = tuple([numbers.setdefault(data, len(numbers)) for data in modified])
    before, after = _node_layout(tables, tuple(map(len, numbers)))
    parts = [part for pair in zip(before, numbers, strict=True) for part in pair]
    parts.append(after)
    return b"".join(parts)


@lru_cache(maxsize=256)
def _node_layout(tables: tuple[int, ...], lengths: tuple[int, ...]) -> tuple[list[bytes], bytes]:
    """Return the bytes before each distinct row set, and after the last one.

    Args:
        tables: for each column the number of its row set.
        lengths: bytes of each row set.

    """
    place = field_list = 4 + 4 * len(tables)
    place += len(_NODE_FIELD_LIST)
    places: list[int] = []
    before: list[bytes] = []
    padding = b""
    for length in lengths:
        places.append(place)
        # The table (offsets to its vtable and to the rows), then the rows: length, bytes, padding.
        before.append(padding + _NODE.pack(place - field_list, 4, length))
        padding = b"\0" * (-length % 4)
        place += _NODE.size + length + len(padding)
    offsets = [places[table] - 4 - 4 * number for number, table in enumerate(tables)]
    head = struct.pack(f"<{len(tables) + 1}I", len(tables), *offsets) + _NODE_FIELD_LIST
    if not before:
        return before, head
    before[0] = head + before[0]
    return before, padding


def _rows(rows: RowSet | None) -> bytes | None:
    return None if rows is None else encode_row_set(rows)


def _row_set(table: FlatTable, slot: int) -> RowSet | None:
    data = table.bytes_vector(slot)
    return None if data is None else decode_row_set(bytes(data))


def _modified(table: FlatTable, payload: bytes | memoryview) -> tuple[RowSet, ...] | None:
    nodes = table.tables(MODIFIED_SLOT)
    if nodes is None:
        return None
    view = memoryview(payload)
    # Tables may share their rows, which are then decoded once. Rows that overlap otherwise could make a small message
    # expensive; no encoder writes them, so together rows must not be longer than the message.
    decoded: dict[tuple[int, int], RowSet] = {}
    budget = len(view)
    result: list[RowSet] = []
    for node in nodes:
        span = node.bytes_span(0)
        if span is None:
            result.append(RowSet.EMPTY)
            continue
        rows = decoded.get(span)
        if rows is None:
            budget -= span[1] - span[0]
            if budget < 0:
                raise WireFormatError("damaged update metadata: the modified rows overlap one another")
            rows = decoded[span] = decode_row_set(bytes(view[span[0] : span[1]]))
        result.append(rows)
    return tuple(result)
