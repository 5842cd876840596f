"""One change of the viewports of a group.

It has the modified rows of each viewport, and the messages about them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from barrage_server.engine.values import take
from barrage_server.rowset import RowSet, encode_keys, encode_range, encode_row_set
from barrage_server.subscription.message import MessageEncoder
from barrage_server.subscription.shared_rows import Keys
from barrage_server.wire.empty import empty_array
from barrage_server.wire.metadata import UpdateMetadata
from barrage_server.wire.row_messages import row_messages
from barrage_server.wire.update_metadata import MetadataFrame

__all__ = ["Column", "GroupChange", "Members", "Runs"]

_PART: Final = 64  # members whose messages are encoded together
_PART_BYTES: Final = 1 << 17  # most bytes of their values: beyond it, that costs more than single calls
_MOST_TAKE: Final = 0.75  # share of the members
_NO_ROWS: Final = encode_row_set(RowSet.empty())


class Members:
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


class Runs:
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
class Column:
    """The modified rows of a column in all viewports, and their values."""

    runs: Runs
    values: pa.Array

    def of_viewports(self) -> Column:
        """Return this column with the concatenated values of all viewports."""
        order = self.runs.order
        return self if order is None else Column(self.runs, take(self.values, order))


class GroupChange:
    """The messages about one change to all members.

    Args:
        encoder: the form of the messages.
        members: the members.
        columns: the rows and values of each column; ``None`` for a column without modified rows.
        metadata: what the messages have in common.
        together: whether most members are expected to take their IPC messages, so that many are encoded in one call.

    Attributes:
        members: the members.
        columns: the rows and values of each column; ``None`` for a column without modified rows.
        writer: converts messages to batches.
        counts: for each member, the largest number of modified rows of a column.

    """

    def __init__(
        self,
        encoder: MessageEncoder,
        members: Members,
        columns: Sequence[Column | None],
        metadata: UpdateMetadata,
        *,
        together: bool,
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
        self._together = together
        self._encapsulated: dict[int, list[bytes | None]] = {}  # of parts of the members; empty: one by one
        self._taken = 0
        self._types = encoder.view.schema.types
        runs = [column.runs for column in columns if column is not None]
        lengths = np.max([run.lengths for run in runs], axis=0) if runs else np.zeros(len(members.of), np.int64)
        self.counts: list[int] = lengths.tolist()
        self._concerned = int(np.count_nonzero(lengths))

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

    def encapsulated_batch(self, index: int) -> bytes:
        """Return the batch to one member as an IPC message."""
        part, place = divmod(index, _PART)
        mine: pa.RecordBatch | None = None
        batch = self.batch()
        with self._lock:
            self._taken += 1
            messages = self._encapsulated.get(part)
            if messages is None and self._together:
                messages = self._encapsulated[part] = []  # other threads do not wait for this one
                mine = batch.slice(part * _PART, _PART)
        if mine is not None and mine.nbytes <= _PART_BYTES:
            messages = [*row_messages(mine)]
            with self._lock:
                if self._together:
                    self._encapsulated[part] = messages
        if messages:
            message, messages[place] = messages[place], None
            if message is not None:
                return message
        alone: bytes = batch.slice(index, 1).serialize().to_pybytes()
        return alone

    @property
    def was_taken(self) -> bool:
        """Whether most members with modified rows have taken their batches."""
        with self._lock:
            return self._taken >= _MOST_TAKE * self._concerned

    def encode_no_more(self) -> None:
        """Encode no messages but those asked for.

        Those that were encoded and not taken are dropped.
        """
        with self._lock:
            self._together = False
            self._encapsulated.clear()

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
        flags: list[bool] = np.logical_and.reduce([rows >= 0, *same]).tolist()
        return flags

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
