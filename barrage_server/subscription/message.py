"""Messages to subscribers: their metadata, and the source of their rows.

Messages are pure functions of two points in a table's history and of the subscriber's request; therefore subscribers
can share them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pyarrow as pa

from barrage_server.engine.update import TableUpdate, all_columns
from barrage_server.engine.version import TableVersion
from barrage_server.public import public
from barrage_server.rowset import RowSet, RowSetShiftData
from barrage_server.subscription.window import Window
from barrage_server.wire.arrow_message import encapsulated
from barrage_server.wire.batches import LengthMode, MessageWriter, OutgoingMessage
from barrage_server.wire.empty import empty_array
from barrage_server.wire.families import FamilyColumns
from barrage_server.wire.metadata import SubscriptionOptions, UpdateMetadata
from barrage_server.wire.raw import encode_flight_data
from barrage_server.wire.wrapper import wrapped_payload

__all__ = [
    "Dialect",
    "EncodedMessage",
    "MessageEncoder",
    "RowSource",
    "blink_message",
    "change_message",
    "encapsulated_messages",
    "initial_message",
    "update_message",
]


@public
class Dialect(Enum):
    """How messages to a viewport subscriber name rows.

    ``KEY_SPACE``: row keys and shifts of the whole table, with values for the rows in view only, as in the Barrage
    concepts.
    ``FLATTENED``: positions inside the viewport, without shifts, as Deephaven sends them. Full subscriptions are the
    same in both.
    """

    KEY_SPACE = "key-space"
    FLATTENED = "flattened"


@dataclass(frozen=True, slots=True)
class RowSource:
    """The source of the rows of a message.

    Attributes:
        version: the version to read.
        view: the columns that the subscriber can see.
        columns: numbers of the columns to read, in the view.
        added: keys of the added rows.
        modified: keys of the modified rows of each column of the view.

    """

    version: TableVersion
    view: FamilyColumns
    columns: tuple[int, ...]
    added: RowSet
    modified: tuple[RowSet, ...]

    def read_adds(self, start: int, stop: int) -> Sequence[pa.Array]:
        """Read the added rows ``[start, stop)``: one array per schema column.

        Columns that are not subscribed have length zero.
        """
        rows = self.added if start == 0 and stop >= self.added.size else self.added.slice(start, stop)
        read = self._read(rows, self.columns)
        if len(read) == len(self.view.sources):
            return read
        values, wanted = iter(read), set(self.columns)
        return [
            next(values) if number in wanted else empty_array(field.type)
            for number, field in enumerate(self.view.schema)
        ]

    def read_mods(self, column: int, start: int, stop: int) -> pa.Array:
        """Read ``[start, stop)`` of the rows modified in ``column``."""
        rows = self.modified[column]
        if start > 0 or stop < rows.size:
            rows = rows.slice(start, stop)
        return self._read(rows, (column,))[0]

    def _read(self, rows: RowSet, columns: tuple[int, ...]) -> list[pa.Array]:
        view = self.view
        if view.is_plain:
            return self.version.read(rows, columns)
        arrays = self.version.read(rows, [view.sources[number] for number in columns])
        return [view.convert(number, array) for number, array in zip(columns, arrays, strict=True)]


@dataclass(frozen=True, slots=True)
class EncodedMessage:
    """A message that is not converted to record batches yet."""

    metadata: UpdateMetadata
    source: RowSource
    writer: MessageWriter

    @property
    def row_count(self) -> int:
        """Number of rows with values: added rows, and the most modified rows of a column."""
        return self.source.added.size + max((rows.size for rows in self.source.modified), default=0)

    @property
    def is_snapshot(self) -> bool:
        """Whether the message answers a request, and is no change of the table."""
        return self.metadata.is_snapshot

    def batches(self) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        """Return the record batches with their ``app_metadata``, read lazily."""
        return self.writer.record_batches(self._outgoing())

    def ipc_messages(self) -> Iterator[tuple[bytes, bytes | None, list[Any]]]:
        """Return raw messages, which may have columns of different lengths."""
        return self.writer.ipc_messages(self._outgoing())

    def flight_data(self) -> Iterator[bytes]:
        """Yield the raw messages, serialized as ``FlightData``."""
        for header, app_metadata, body in self.ipc_messages():
            yield encode_flight_data(header, app_metadata, body)

    def encapsulated(self) -> Iterator[tuple[bytes | None, bytes]]:
        """Return the messages to web pages; see :func:`encapsulated_messages`."""
        return encapsulated_messages(self.ipc_messages())

    def _outgoing(self) -> OutgoingMessage:
        source = self.source
        return OutgoingMessage(
            metadata=self.metadata,
            add_count=source.added.size,
            read_adds=source.read_adds,
            mod_counts=tuple(rows.size for rows in source.modified),
            read_mods=source.read_mods,
        )


def encapsulated_messages(
    messages: Iterable[tuple[bytes, bytes | None, Sequence[Any]]],
) -> Iterator[tuple[bytes | None, bytes]]:
    """Convert raw messages to messages to web pages.

    Returns:
        Pairs of the flatbuffer of the update's metadata (of the first only) and the encapsulated record batch.

    """
    for header, app_metadata, body in messages:
        metadata = None if app_metadata is None else wrapped_payload(app_metadata)
        yield metadata, encapsulated(header, body)


class MessageEncoder:
    """The form of one subscriber's messages, and the columns that it can see.

    Args:
        schema: the view's schema, with its metadata on the wire.
        view: the columns that the subscriber can see.
        options: the options of the subscription.
        dialect: the dialect of viewport messages.
        lengths: the treatment of columns that differ in length.

    Attributes:
        key: equal for encoders of equal messages.

    """

    __slots__ = ("dialect", "key", "lengths", "options", "view", "writer")

    def __init__(
        self,
        schema: pa.Schema,
        view: FamilyColumns,
        options: SubscriptionOptions,
        dialect: Dialect,
        lengths: LengthMode,
    ) -> None:
        self.writer = MessageWriter(schema, options, lengths)
        self.view = view
        self.options = options
        self.dialect = dialect
        self.lengths = lengths
        # All parts of the key are fast to hash.
        chosen = (getattr(options, name) for name in options.__slots__ if name != "min_update_interval_ms")
        self.key = (*chosen, dialect.value, lengths.value)

    @property
    def carries_ragged(self) -> bool:
        """Whether columns of one message may differ in length without padding."""
        return self.options.columns_as_list or self.lengths is LengthMode.RAGGED

    def encode(
        self,
        metadata: UpdateMetadata,
        version: TableVersion,
        columns: tuple[int, ...],
        added: RowSet,
        modified: tuple[RowSet, ...],
    ) -> EncodedMessage:
        """Make a message, which does not keep later history alive.

        Args:
            metadata: the metadata.
            version: the version to read.
            columns: numbers of the columns to read, in the view.
            added: keys of the rows to read.
            modified: keys of the modified rows to read, of each column of the view.

        """
        source = RowSource(version.detached(), self.view, columns, added, modified)
        return EncodedMessage(metadata, source, self.writer)

    def nothing_modified(self) -> tuple[RowSet, ...]:
        """Return an empty row set for each column."""
        return all_columns(RowSet.empty(), len(self.view.sources))

    def modified(self, update: TableUpdate) -> tuple[RowSet, ...]:
        """Return the modified rows of each column that the subscriber can see."""
        rows = update.modified
        return rows if self.view.is_plain else tuple(rows[number] for number in self.view.sources)


def update_message(
    encoder: MessageEncoder, window: Window, update: TableUpdate, before: RowSet, first_step: int, version: TableVersion
) -> EncodedMessage:
    """Make the message of an update.

    Args:
        encoder: the form of the message.
        window: the subscriber's window.
        update: all changes since the subscriber's point in the history.
        before: the row set at that point.
        first_step: the first step of the changes.
        version: the version after the changes.

    """
    base = UpdateMetadata(
        first_seq=first_step,
        last_seq=version.step,
        effective_reverse_viewport=window.reverse,
        table_size=version.size,
    )
    if window.is_full:
        modified = _columns_of(encoder.modified(update), window, encoder)
        metadata = replace(
            base,
            added_rows=update.added,
            removed_rows=update.removed,
            shift_data=update.shifted,
            modified_rows=modified,
        )
        return encoder.encode(metadata, version, window.columns, update.added, modified)

    had = window.keys(before)
    lived = update.survivors(had)
    view = window.keys(version.row_set)
    new = view - lived
    kept = view - new
    inside = tuple(rows & kept if rows else rows for rows in encoder.modified(update))
    modified = _columns_of(inside, window, encoder)
    if encoder.dialect is Dialect.KEY_SPACE:
        metadata = replace(
            base,
            added_rows=update.added,
            removed_rows=update.removed,
            shift_data=update.shifted,
            added_rows_included=new,
            modified_rows=modified,
        )
    else:
        kept_before = update.shifted.unapply(kept) if update.shifted.size else kept
        metadata = replace(
            base,
            added_rows=view.invert(new),
            removed_rows=had.invert(had - kept_before),
            modified_rows=tuple(view.invert(rows) if rows else rows for rows in modified),
        )
    return encoder.encode(metadata, version, window.columns, new, modified)


def blink_message(
    encoder: MessageEncoder, window: Window, gone: RowSet, unsent: RowSet, first_step: int, version: TableVersion
) -> EncodedMessage:
    """Make the message of an update to a full subscriber of a blink table.

    Args:
        encoder: the form of the message.
        window: the subscriber's window.
        gone: the rows that the last message added, which this one removes.
        unsent: all rows added since then, also those removed again.
        first_step: the first step of the update.
        version: the version after the update.

    """
    nothing = encoder.nothing_modified()
    metadata = UpdateMetadata(
        first_seq=first_step,
        last_seq=version.step,
        added_rows=unsent,
        removed_rows=gone,
        shift_data=RowSetShiftData.empty(),
        modified_rows=nothing,
        table_size=unsent.size,
    )
    return encoder.encode(metadata, version, window.columns, unsent, nothing)


def initial_message(
    encoder: MessageEncoder, window: Window, version: TableVersion, view: RowSet, start: int, stop: int
) -> EncodedMessage:
    """Make the first snapshot, or its part of the rows ``[start, stop)`` in view.

    Each part names all rows, and includes its own only. A part before the last one has the positions reached so far as
    its effective viewport. The snapshot of a viewport has a single part.
    """
    nothing = encoder.nothing_modified()
    part = view if start == 0 and stop >= view.size else view.slice(start, stop)
    flattened = not window.is_full and encoder.dialect is Dialect.FLATTENED
    viewport = window.positions
    if viewport is None and stop < view.size:
        viewport = RowSet.flat(stop)
    metadata = UpdateMetadata(
        first_seq=version.step,
        last_seq=version.step,
        is_snapshot=True,
        effective_viewport=viewport,
        effective_reverse_viewport=window.reverse,
        effective_column_set=window.columns,
        added_rows=RowSet.flat(view.size) if flattened else view if window.is_full else version.row_set,
        removed_rows=RowSet.empty(),
        shift_data=None if flattened else RowSetShiftData.empty(),
        added_rows_included=None if flattened else part,
        modified_rows=nothing,
        table_size=view.size if window.is_full else version.size,
    )
    return encoder.encode(metadata, version, window.columns, part, nothing)


def change_message(encoder: MessageEncoder, old: Window, new: Window, version: TableVersion) -> EncodedMessage:
    """Make the answer to a changed viewport.

    The subscriber is up to date with ``version`` in its ``old`` window. Rows that it has, with all requested columns,
    are not sent again. In key space ``added_rows`` has only the rows with values, because the subscriber knows the row
    set of the table.
    """
    nothing = encoder.nothing_modified()
    had = old.keys(version.row_set)
    view = new.keys(version.row_set)
    usable = had if set(new.columns) <= set(old.columns) else RowSet.empty()
    missing = view - usable
    flattened = encoder.dialect is Dialect.FLATTENED
    metadata = UpdateMetadata(
        first_seq=version.step,
        last_seq=version.step,
        is_snapshot=True,
        effective_viewport=new.positions,
        effective_reverse_viewport=new.reverse,
        effective_column_set=new.columns,
        added_rows=view.invert(missing) if flattened else missing,
        removed_rows=had.invert(had - (view & usable)) if flattened else RowSet.empty(),
        shift_data=None if flattened else RowSetShiftData.empty(),
        added_rows_included=None if flattened else missing,
        modified_rows=nothing,
        table_size=version.size,
    )
    return encoder.encode(metadata, version, new.columns, missing, nothing)


def _columns_of(modified: tuple[RowSet, ...], window: Window, encoder: MessageEncoder) -> tuple[RowSet, ...]:
    """Return the modified rows of the subscribed columns.

    Where a reader needs columns of one length, each column has the modified rows of all.
    """
    wanted = set(window.columns)
    chosen = tuple(rows if number in wanted else RowSet.empty() for number, rows in enumerate(modified))
    if encoder.lengths is LengthMode.PADDED and not encoder.options.columns_as_list:
        together = RowSet.union_all(rows for rows in chosen if rows)
        return all_columns(together, len(modified), window.columns) if together else chosen
    return chosen
