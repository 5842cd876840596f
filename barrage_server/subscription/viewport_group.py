"""Messages to many viewports of one table, as slices of one batch.

It applies when only values change. The cost follows the rows that changed in all viewports together. A message is a
slice of a record batch, with the row sets of its rows.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa

from barrage_server.engine.version import TableVersion
from barrage_server.rowset import RowSet, RowSetShiftData
from barrage_server.subscription.message import Dialect, MessageEncoder, encapsulated_messages
from barrage_server.subscription.shared_rows import SharedRows
from barrage_server.subscription.viewport_change import Column, GroupChange, Members, Runs
from barrage_server.wire.batches import OutgoingMessage
from barrage_server.wire.metadata import UpdateMetadata
from barrage_server.wire.raw import encode_flight_data
from barrage_server.wire.wrapper import unwrap, wrapped_payload

__all__ = ["GroupMessage", "ViewportGroup"]

_KEPT: Final = 8  # most changes: subscribers lag by different numbers of cycles
_MOST_ROWS: Final = 1 << 20  # most rows in one batch; rows of overlapping viewports are copied
_NONE: Final = (0, 0)  # numbers of batches of added and of modified rows
_ONE: Final = (0, 1)
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
        self._members: Members | None = None
        self._changes: dict[tuple[int, int], GroupChange | None] = {}

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

    def _build(self, shared: SharedRows, first_step: int, version: TableVersion) -> GroupChange | None:
        if self._members is None:
            self._members = Members(self._runs, self._reverse)
        size = version.size
        if size == 0:
            return None
        lows, highs = self._members.positions(size)
        inside = np.minimum(lows, size - 1)
        first_keys, last_keys = version.row_set.select(inside), version.row_set.select(np.maximum(highs, 0))
        flattened = self._encoder.dialect is Dialect.FLATTENED
        runs: dict[int, Runs] = {}
        encoded: dict[int | bytes, bytes] = {}
        columns: list[Column | None] = []
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
                runs[id(keys)] = Runs(named, starts, stops, lows if flattened else None, encoded)
            run = runs[id(keys)]
            total = max(total, run.total)
            columns.append(Column(run, values))
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
        together = self._most_will_take(version.step)
        return GroupChange(self._encoder, self._members, columns, metadata, together=together)

    def _most_will_take(self, step: int) -> bool:
        """Whether most members are expected to take a change that ends with ``step``.

        So it is if most took one of those that ended last, and this is the first one that ends here: others
        are for members that lag. No more messages about earlier changes are encoded together from now on.
        """
        kept = [(last, change) for (_, last), change in self._changes.items() if change is not None]
        before = [(last, change) for last, change in kept if last < step]
        for _, change in before:
            change.encode_no_more()
        latest = max((last for last, _ in before), default=step)
        return len(before) == len(kept) and any(change.was_taken for last, change in before if last == latest)


class GroupMessage:
    """The message to one member of a group.

    Methods are those of :class:`~barrage_server.subscription.message.EncodedMessage`.
    """

    __slots__ = ("_change", "_index")

    is_snapshot: Final = False

    def __init__(self, change: GroupChange, index: int) -> None:
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
        return iter(((metadata, change.encapsulated_batch(index)),))

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
