"""One message to a subscriber: its metadata, and the source of its rows.

Each function is a pure function of two points in a table's history and of the subscriber's request; therefore
subscribers can share a message.
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
from barrage_server.wire.families import ColumnView
from barrage_server.wire.metadata import SubscriptionOptions, UpdateMetadata
from barrage_server.wire.raw import encode_flight_data
from barrage_server.wire.wrapper import unwrap

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

    ``KEY_SPACE``: row keys and shifts of the whole table, values only for the rows in view, as the Barrage concepts
    describe it.
    ``FLATTENED``: positions inside the viewport and no shifts, as Deephaven sends it. Full subscriptions are the same
    in both.
    """

    KEY_SPACE = "key-space"
    FLATTENED = "flattened"


@dataclass(frozen=True, slots=True)
class RowSource:
    """The source of the rows of a message: a version, the keys to read, and the columns.

    Columns are those of ``view``, by its numbers.
    """

    version: TableVersion
    view: ColumnView
    columns: tuple[int, ...]
    added: RowSet
    modified: tuple[RowSet, ...]

    def read_adds(self, start: int, stop: int) -> Sequence[pa.Array]:
        """Values of the added rows ``start`` to ``stop``: one array per schema column, of length zero where not
        subscribed.
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
        """Values of the rows modified in ``column``, from the ``start``-th to the ``stop``-th."""
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
    """A message, and how to convert it to record batches."""

    metadata: UpdateMetadata
    source: RowSource
    writer: MessageWriter

    @property
    def row_count(self) -> int:
        """Number of rows with values: added ones, plus the largest number of modified rows of a column."""
        return self.source.added.size + max((rows.size for rows in self.source.modified), default=0)

    @property
    def is_snapshot(self) -> bool:
        """Whether it shows what was there, and no change."""
        return self.metadata.is_snapshot

    def batches(self) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        """Record batches with their ``app_metadata``, read lazily from the version."""
        return self.writer.record_batches(self._outgoing())

    def ipc_messages(self) -> Iterator[tuple[bytes, bytes | None, list[Any]]]:
        """The same as raw messages, for endpoints that can write columns of different lengths."""
        return self.writer.ipc_messages(self._outgoing())

    def flight_data(self) -> Iterator[bytes]:
        """:meth:`ipc_messages`, each serialized as ``FlightData``."""
        for header, app_metadata, body in self.ipc_messages():
            yield encode_flight_data(header, app_metadata, body)

    def encapsulated(self) -> Iterator[tuple[bytes | None, bytes]]:
        """The same for web pages; see :func:`encapsulated_messages`."""
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
    """Raw messages as pairs: the flatbuffer of the update's metadata (``None`` on all but the first), and the
    encapsulated record batch.
    """
    for header, app_metadata, body in messages:
        metadata = None if app_metadata is None else bytes(unwrap(app_metadata)[1])
        yield metadata, encapsulated(header, body)


class MessageEncoder:
    """The form of one subscriber's messages, and the columns that it can see."""

    __slots__ = ("dialect", "key", "lengths", "options", "view", "writer")

    def __init__(
        self, schema: pa.Schema, view: ColumnView, options: SubscriptionOptions, dialect: Dialect, lengths: LengthMode
    ) -> None:
        """``schema``: the view's schema, with its metadata on the wire."""
        self.writer = MessageWriter(schema, options, lengths)
        self.view = view
        self.options = options
        self.dialect = dialect
        self.lengths = lengths
        # Equal keys mean equal messages. The parts are quick to hash.
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
        """The message, ready to be converted to batches. It does not keep later history alive.

        ``columns`` and ``modified``: in the numbering of the view.
        """
        source = RowSource(version.detached(), self.view, columns, added, modified)
        return EncodedMessage(metadata, source, self.writer)

    def nothing_modified(self) -> tuple[RowSet, ...]:
        """An empty row set for each column."""
        return all_columns(RowSet.empty(), len(self.view.sources))

    def modified(self, update: TableUpdate) -> tuple[RowSet, ...]:
        """The modified rows of each column that the subscriber can see."""
        rows = update.modified
        return rows if self.view.is_plain else tuple(rows[number] for number in self.view.sources)


def update_message(
    encoder: MessageEncoder, window: Window, update: TableUpdate, before: RowSet, first_step: int, version: TableVersion
) -> EncodedMessage:
    """What changed in the window since the subscriber had the row set ``before``."""
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
    """For a full subscriber of a blink table: remove the rows ``gone``, which the last message added, and add the rows
    ``unsent``: those added since then, including those removed again.
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
    """The first snapshot, or the part of it that holds the rows ``start`` to ``stop`` of those in ``view``.

    A part that is not the last one carries the positions reached so far as its effective viewport; each part names all
    rows, and includes only its own. A viewport's snapshot has a single part.
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
    """The answer to a changed viewport, for a subscriber that is up to date with ``version`` in its ``old`` window.

    Rows that it has, with all requested columns, are not sent again. In key space ``added_rows`` names only the rows
    with values, since the subscriber knows the table's row set.
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
    """Modified rows of the subscribed columns; where a reader needs columns of one length, each column has the rows of
    all.
    """
    wanted = set(window.columns)
    chosen = tuple(rows if number in wanted else RowSet.empty() for number, rows in enumerate(modified))
    if encoder.lengths is LengthMode.PADDED and not encoder.options.columns_as_list:
        together = RowSet.union_all(rows for rows in chosen if rows)
        return all_columns(together, len(modified), window.columns) if together else chosen
    return chosen
