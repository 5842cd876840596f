"""Messages to many viewports of one table, as slices of one batch.

It applies when only values change. The cost follows the rows that changed in all viewports together. A message is a
slice of a record batch, with the row sets of its rows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa

from barrage_server.engine.values import take
from barrage_server.engine.version import TableVersion
from barrage_server.rowset import RowSet, RowSetShiftData, encode_keys, encode_range, encode_row_set
from barrage_server.subscription.message import Dialect, MessageEncoder, encapsulated_messages
from barrage_server.subscription.shared_rows import Keys, SharedRows
from barrage_server.wire.batches import OutgoingMessage
from barrage_server.wire.empty import empty_array
from barrage_server.wire.metadata import UpdateMetadata
from barrage_server.wire.raw import encode_flight_data
from barrage_server.wire.update_metadata import MetadataFrame
from barrage_server.wire.wrapper import unwrap, wrapped_payload

__all__ = ["GroupMessage", "ViewportGroup"]

_KEPT: Final = 8  # most changes: subscribers lag by different numbers of cycles
_MOST_ROWS: Final = 1 << 20  # most rows in one batch; rows of overlapping viewports are copied
_NONE: Final = (0, 0)  # numbers of batches of added and of modified rows
_ONE: Final = (0, 1)
_NO_ROWS: Final = encode_row_set(RowSet.empty())
# Upper bounds of the bytes of app_metadata: for the message, for each column, and for each key of a column.
_METADATA_BYTES: Final = 512
_BYTES_PER_COLUMN: Final = 64
_BYTES_PER_KEY: Final = 16


class ViewportGroup:
    """Viewports of one run of positions each, with equal other settings.

    They have the same columns, direction, options and dialect.

    Args:
        encoder: the form of the messages.
        columns: numbers of the subscribed columns.
        reverse: whether positions count from the end.

    """

    def __init__(self, encoder: MessageEncoder, columns: tuple[int, ...], *, reverse: bool) -> None:
        self._encoder = encoder
        self._columns = columns
        self._reverse = reverse
        self._lock = threading.Lock()
        self._runs: dict[object, RowSet] = {}
        self._members: _Members | None = None
        self._changes: dict[tuple[int, int], _Change | None] = {}

    def join(self, member: object, positions: RowSet) -> None:
        """Add a member, with a viewport that does not change."""
        with self._lock:
            self._runs[member] = positions
            self._members = None

    def leave(self, member: object) -> None:
        """Remove a member."""
        with self._lock:
            del self._runs[member]
            self._members = None

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self._runs)

    def message(
        self, member: object, shared: SharedRows, first_step: int, version: TableVersion
    ) -> GroupMessage | None:
        """Return the message to ``member`` about a change with modified rows only.

        Args:
            member: the member, as given to :meth:`join`.
            shared: the rows, as of ``version``.
            first_step: the first step of the change.
            version: the version after the change.

        Returns:
            ``None`` when the message must be built separately.

        """
        span = (first_step, version.step)
        with self._lock:
            if span not in self._changes:
                if len(self._changes) >= _KEPT:
                    oldest = min(self._changes, key=lambda kept: kept[1])
                    if oldest[1] >= version.step:  # members lag at too many different steps
                        return None
                    del self._changes[oldest]
                self._changes[span] = self._build(shared, first_step, version)
            change = self._changes[span]
        if change is None:
            return None
        index = change.members.of.get(member)
        return None if index is None else GroupMessage(change, index)

    def known(self, member: object, first_step: int, last_step: int) -> GroupMessage | None:
        """Return the message to ``member`` about a change, if it was built for the group.

        Args:
            member: the member, as given to :meth:`join`.
            first_step: the first step of the change.
            last_step: the last step of the change.

        Returns:
            ``None`` when it was not built yet, or without this member.

        """
        change = self._changes.get((first_step, last_step))
        index = None if change is None else change.members.of.get(member)
        return None if change is None or index is None else GroupMessage(change, index)

    def _build(self, shared: SharedRows, first_step: int, version: TableVersion) -> _Change | None:
        if self._members is None:
            self._members = _Members(self._runs, self._reverse)
        size = version.size
        if size == 0:
            return None
        lows, highs = self._members.positions(size)
        inside = np.minimum(lows, size - 1)
        first_keys, last_keys = version.row_set.select(inside), version.row_set.select(np.maximum(highs, 0))
        flattened = self._encoder.dialect is Dialect.FLATTENED
        runs: dict[int, _Runs] = {}
        encoded: dict[int | bytes, bytes] = {}
        columns: list[_Column | None] = []
        total = 0
        for number in range(len(self._encoder.view.sources)):
            found = shared.column(number) if number in self._columns else None
            if found is None:
                columns.append(None)
                continue
            keys, values = found
            if id(keys) not in runs:
                starts = keys.searchsorted(first_keys)
                stops = np.where(lows > highs, starts, keys.searchsorted(last_keys, "right"))
                named = version.row_set.rank(keys) if flattened else keys
                runs[id(keys)] = _Runs(named, starts, stops, lows if flattened else None, encoded)
            run = runs[id(keys)]
            total = max(total, run.total)
            columns.append(_Column(run, values))
        if total > _MOST_ROWS:
            return None
        columns = [None if column is None else column.of_viewports() for column in columns]
        runs_of = [column.runs for column in columns if column is not None]
        said = sum(int(run.lengths.max(initial=0)) for run in runs_of)
        if not self._encoder.writer.fits(
            total,
            sum(column.values.nbytes for column in columns if column is not None),
            _METADATA_BYTES + _BYTES_PER_COLUMN * len(columns) + _BYTES_PER_KEY * said,
        ):
            return None  # messages beyond the limit of their size are built separately
        nothing = RowSet.empty()
        metadata = UpdateMetadata(
            first_seq=first_step,
            last_seq=version.step,
            effective_reverse_viewport=self._reverse,
            added_rows=nothing,
            removed_rows=nothing,
            shift_data=None if flattened else RowSetShiftData.empty(),
            added_rows_included=None if flattened else nothing,
            table_size=size,
        )
        return _Change(self._encoder, self._members, columns, metadata)


class _Members:
    """The members, in order. Immutable, because changes keep them."""

    def __init__(self, runs: dict[object, RowSet], reverse: bool) -> None:
        self.of = {member: number for number, member in enumerate(runs)}
        self._firsts = np.array([run.first_key for run in runs.values()], np.int64)
        self._lasts = np.array([run.last_key for run in runs.values()], np.int64)
        self._reverse = reverse

    def positions(self, size: int) -> tuple[Keys, Keys]:
        """Return the first and last position of each member in a table of ``size`` rows.

        The last one is smaller than the first where nothing is in view.
        """
        if self._reverse:
            return np.maximum(size - 1 - self._lasts, 0), size - 1 - self._firsts
        return self._firsts, np.minimum(self._lasts, size - 1)


class _Runs:
    """The modified rows of a column in each viewport.

    Args:
        named: the modified rows of the column, in the numbering of messages before ``origins`` are subtracted.
        starts: index in ``named`` of the first row of each viewport.
        stops: index in ``named`` behind the last row of each viewport.
        origins: the number that is subtracted for each viewport; None for 0.
        encoded: encoded row sets by their keys, shared with other columns.

    Attributes:
        lengths: number of rows in each viewport.
        total: number of rows in all viewports together.

    """

    def __init__(
        self, named: Keys, starts: Keys, stops: Keys, origins: Keys | None, encoded: dict[int | bytes, bytes]
    ) -> None:
        self._named = named
        self._starts, self._stops = starts, stops
        self._origins = origins
        self._encoded = encoded
        self.lengths = stops - starts
        self.total = int(self.lengths.sum())

    @cached_property
    def bounds(self) -> list[tuple[int, int]]:
        """The start and stop of each viewport."""
        return list(zip(self._starts.tolist(), self._stops.tolist(), strict=True))

    @cached_property
    def offsets(self) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """Offsets of the rows of each viewport in ``order``, then the total (int32)."""
        offsets = np.zeros(len(self.lengths) + 1, np.int32)
        np.cumsum(self.lengths, out=offsets[1:])
        return offsets

    @cached_property
    def order(self) -> Keys | None:
        """Indices of the rows of all viewports, concatenated; ``None`` if in order."""
        if self.total == len(self._named) and bool((self._starts == self.offsets[:-1]).all()):
            return None
        return np.arange(self.total) + np.repeat(self._starts - self.offsets[:-1], self.lengths)

    @cached_property
    def _numbers(self) -> list[int]:
        return self._named.tolist()

    def encoded(self, index: int) -> bytes:
        """Return the encoded row set of one viewport."""
        start, stop = self.bounds[index]
        if start == stop:
            return _NO_ROWS
        if stop - start == 1:  # the most frequent case
            key = self._numbers[start] - (0 if self._origins is None else int(self._origins[index]))
            known = self._encoded.get(key)
            if known is None:
                known = self._encoded[key] = encode_range(key, key)
            return known
        keys = self._named[start:stop]
        if self._origins is not None:
            keys = keys - self._origins[index]
        held = keys.tobytes()
        known = self._encoded.get(held)
        if known is None:
            known = self._encoded[held] = encode_keys(keys)
        return known

    @cached_property
    def singles(self) -> Keys:
        """The one row of each viewport, in the numbering of messages.

        -1 where a viewport has none or several.
        """
        if not len(self._named):
            return np.full(len(self.lengths), -1)
        rows = self._named[np.minimum(self._starts, len(self._named) - 1)]
        return np.where(self.lengths == 1, rows if self._origins is None else rows - self._origins, -1)


@dataclass(frozen=True, slots=True)
class _Column:
    runs: _Runs
    values: pa.Array

    def of_viewports(self) -> _Column:
        """Return this column with the concatenated values of all viewports."""
        order = self.runs.order
        return self if order is None else _Column(self.runs, take(self.values, order))


class _Change:
    """The messages about one change to all members.

    Attributes:
        members: the members.
        columns: the rows and values of each column; ``None`` for a column without modified rows.
        writer: converts messages to batches.
        counts: for each member, the largest number of modified rows of a column.

    """

    def __init__(
        self, encoder: MessageEncoder, members: _Members, columns: Sequence[_Column | None], metadata: UpdateMetadata
    ) -> None:
        self.members = members
        self.columns = columns
        self.writer = encoder.writer
        self._lock = threading.Lock()
        self._metadata = metadata
        self._frames: dict[tuple[int, int] | None, MetadataFrame] = {}
        # Where all columns have the same modified rows in a viewport, metadata differs in one row set only: the bytes
        # before and after it, by batch counts and by the length of the row set.
        self._distinct = list({id(column.runs): column.runs for column in columns if column is not None}.values())
        self._halves: dict[tuple[tuple[int, int] | None, int], tuple[bytes, bytes]] = {}
        self._batch: pa.RecordBatch | None = None
        self._types = encoder.view.schema.types
        runs = [column.runs for column in columns if column is not None]
        lengths = np.max([run.lengths for run in runs], axis=0) if runs else np.zeros(len(members.of), np.int64)
        self.counts: list[int] = lengths.tolist()

    def batch(self) -> pa.RecordBatch:
        """Return one row per member, with the list of its values in each column."""
        batch = self._batch
        if batch is not None:
            return batch
        with self._lock:
            if self._batch is None:
                count = len(self.members.of)
                nothing = np.zeros(count + 1, np.int32)
                self._batch = self.writer.list_batch(
                    [self.values(number) for number in range(len(self.columns))],
                    [nothing if column is None else column.runs.offsets for column in self.columns],
                )
            return self._batch

    def values(self, number: int) -> pa.Array:
        """Return the concatenated values of one column in all viewports."""
        column = self.columns[number]
        return empty_array(self._types[number]) if column is None else column.values

    def encode(self, index: int, counts: tuple[int, int] | None) -> bytes:
        """Encode app_metadata for one member."""
        distinct = self._distinct
        rows = distinct[0].encoded(index) if distinct else _NO_ROWS
        if rows is _NO_ROWS or not (self._is_one_row[index] or all(runs.encoded(index) == rows for runs in distinct)):
            return self._frame(counts).around(self._rows(index))
        halves = self._halves.get((counts, len(rows)))
        if halves is None:
            place = next(number for number, column in enumerate(self.columns) if column is not None)
            halves = self._frame(counts).halves(self._rows(index), place)
            self._halves[counts, len(rows)] = halves
        return halves[0] + rows + halves[1]

    @cached_property
    def _is_one_row(self) -> list[bool]:
        """Of each member, whether all columns with modified rows have the same one."""
        rows = self._distinct[0].singles
        same = [runs.singles == rows for runs in self._distinct[1:]]
        return np.logical_and.reduce([rows >= 0, *same]).tolist()  # type: ignore[no-any-return]

    def _frame(self, counts: tuple[int, int] | None) -> MetadataFrame:
        frame = self._frames.get(counts)
        if frame is None:
            frame = self._frames[counts] = MetadataFrame(self._metadata, counts)
        return frame

    def _rows(self, index: int) -> list[bytes]:
        """Return the encoded row set of each column."""
        known: dict[int, bytes] = {}
        rows: list[bytes] = []
        for column in self.columns:
            if column is None:
                rows.append(_NO_ROWS)
                continue
            runs = column.runs
            encoded = known.get(id(runs))
            if encoded is None:
                encoded = known[id(runs)] = runs.encoded(index)
            rows.append(encoded)
        return rows


class GroupMessage:
    """The message to one member of a group.

    Methods are those of :class:`~barrage_server.subscription.message.EncodedMessage`.
    """

    __slots__ = ("_change", "_index")

    is_snapshot: Final = False

    def __init__(self, change: _Change, index: int) -> None:
        self._change = change
        self._index = index

    @property
    def metadata(self) -> UpdateMetadata:
        """The decoded metadata of the message."""
        return UpdateMetadata.decode_payload(unwrap(self.encode())[1])

    @property
    def row_count(self) -> int:
        """The largest number of modified rows of a column."""
        return self._change.counts[self._index]

    def batches(self) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        """Return the record batches with their ``app_metadata``, with columns as lists."""
        change, index = self._change, self._index
        count = change.counts[index]
        if count > change.writer.batch_rows:
            return change.writer.record_batches(self._outgoing())
        return iter(((change.batch().slice(index, 1), change.encode(index, _ONE if count else _NONE)),))

    def flight_data(self) -> Iterator[bytes]:
        """Yield serialized ``FlightData``."""
        for header, app_metadata, body in self._change.writer.ipc_messages(self._outgoing()):
            yield encode_flight_data(header, app_metadata, body)

    def encapsulated(self) -> Iterator[tuple[bytes | None, bytes]]:
        """Return the messages to web pages."""
        change, index = self._change, self._index
        count = change.counts[index]
        if count > change.writer.batch_rows:
            return encapsulated_messages(change.writer.ipc_messages(self._outgoing()))
        metadata = wrapped_payload(change.encode(index, _ONE if count else _NONE))
        return iter(((metadata, change.batch().slice(index, 1).serialize().to_pybytes()),))

    def _outgoing(self) -> OutgoingMessage:
        return OutgoingMessage(self, 0, lambda _start, _stop: [], self._counts(), self._read)

    def encode(self, batch_counts: tuple[int, int] | None = None) -> bytes:
        """Encode app_metadata; see :meth:`UpdateMetadata.encode`."""
        return self._change.encode(self._index, batch_counts)

    def size_estimate(self) -> int:
        """Return the exact bytes of :meth:`encode`; messages are small."""
        return len(self.encode())

    def _counts(self) -> tuple[int, ...]:
        index = self._index
        return tuple(
            0 if column is None else column.runs.bounds[index][1] - column.runs.bounds[index][0]
            for column in self._change.columns
        )

    def _read(self, number: int, start: int, stop: int) -> Any:
        column = self._change.columns[number]
        begin = 0 if column is None else int(column.runs.offsets[self._index])
        return self._change.values(number).slice(begin + start, stop - start)
