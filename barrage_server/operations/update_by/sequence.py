"""The rows of each group in order, and the rows that depend on changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.interrupts import check_interrupt
from barrage_server.engine.operator import Change
from barrage_server.engine.order_index import OrderIndex
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.redirected import pick
from barrage_server.engine.version import TableVersion
from barrage_server.operations.grouped_rows import Departure, GroupedRows
from barrage_server.operations.update_by.functions import DECREASING, Fault, Frame, Windows
from barrage_server.operations.update_by.ranges import Flat, Ranges
from barrage_server.operations.update_by.values import moments
from barrage_server.rowset import RowSet

__all__ = ["GroupSequence", "Marks", "Runs"]

_ROWS: Final = 1 << 20
"""Rows computed at a time; a range of one group may be larger."""
_NONE: Final = np.zeros(0, np.int64)
_FARTHEST: Final = np.iinfo(np.int64)


class Runs(NamedTuple):
    """Runs of consecutive rows, each of one group.

    Attributes:
        keys: the row keys, run by run.
        starts: where each run begins among them.
        before: the key of the row before each run, in its group; -1 without one.

    """

    keys: Int64Array
    starts: Int64Array
    before: Int64Array


class Marks(NamedTuple):
    """Former times of changed rows.

    Attributes:
        groups: the groups.
        times: the times, in nanoseconds.

    """

    groups: Int64Array
    times: Int64Array


class GroupSequence(GroupedRows):
    """The rows by group, then by row key; a position is an index in this order.

    Args:
        groups: the groups.
        columns: the numbers of the key columns.
        types: their types.

    Attributes:
        version: the present version, which must be set in every cycle.

    """

    version: TableVersion
    order: OrderIndex

    def __init__(self, groups: GroupIndex, columns: Sequence[int], types: Sequence[pa.DataType]) -> None:
        super().__init__(groups, columns, types, OrderIndex(versioned=False))

    # Between leave and arrive.

    def beside(self, departure: Departure) -> Int64Array:
        """The keys of the rows before and behind leaving rows, in the present order."""
        gone = np.sort(np.concatenate((departure.slots, departure.was)))
        if not len(gone):
            return _NONE
        places = self.order.positions_of(gone)
        begins = np.append(True, np.diff(places) > 1)
        before = places[begins] - 1
        behind = places[np.append(begins[1:], True)] + 1
        beside = np.concatenate((before[before >= 0], behind[behind < self.order.size]))
        return self.order.keys_at(self.order.slots_at(np.unique(beside)))

    def left(self, change: Change, time: int, departure: Departure) -> Marks:
        """The former groups and times of rows that left their group or time."""
        update = change.update
        other = departure.rekeyed | update.modified[time]
        former = self.groups_of(other.keys())  # those with other keys have not arrived in their new group
        keys = other.keys()
        if update.shifted.size:
            keys = update.shifted.unapply(other).keys()
        times = [self._times_of(change.before, time, each) for each in (update.removed.keys(), keys)]
        return Marks(np.concatenate((departure.groups, former)), np.concatenate(times))

    # Which rows to compute.

    def whole(self, count: int) -> Ranges:
        """All rows of the first ``count`` groups."""
        first, end = self.bounds(np.arange(count, dtype=np.int64))
        return Ranges.of(first, end, first, end)

    def behind(self, changed: RowSet) -> Ranges:
        """The rows from each changed row to the end of its group."""
        if not changed:
            return Ranges()
        positions, first, end = self._placed(changed)
        return Ranges.of(positions, end, first, end)

    def around(self, changed: RowSet, frame: Frame) -> Ranges:
        """The rows whose window of rows contains a changed row."""
        if not changed:
            return Ranges()
        positions, first, end = self._placed(changed)
        size = self.order.size
        after, before = min(max(frame.after, 0), size), min(max(frame.before, 1), size)
        return Ranges.of(positions - after, positions + before, first, end)

    def around_times(self, changed: RowSet, frame: Frame, marks: Marks) -> Ranges:
        """The rows whose window in time contains a changed row, or contained it before."""
        keys = changed.keys()
        times = self._times_of(self.version, frame.time, keys)
        groups = np.concatenate((self.groups_of(keys), marks.groups))
        times = np.concatenate((times, marks.times))
        if not len(groups):
            return Ranges()
        known, places = np.unique(groups, return_inverse=True)
        bounds = self.bounds(known)
        first, end = bounds[0][places], bounds[1][places]
        # a row itself is among them also if its window does not have it
        low = self._searched(frame, first, end, np.minimum(_plus(times, -frame.after), times), is_behind=False)
        high = self._searched(frame, first, end, np.maximum(_plus(times, frame.before), times), is_behind=True)
        return Ranges.of(low, high, first, end)

    def _placed(self, rows: RowSet) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The positions of rows, and the bounds of their groups."""
        keys = rows.keys()
        positions = self.order.positions_of(self.order.slots_of(keys))
        groups, places = np.unique(self.groups_of(keys), return_inverse=True)
        first, end = self.bounds(groups)
        return positions, first[places], end[places]

    # What is read for them.

    def keys_at(self, positions: Int64Array) -> Int64Array:
        """The row keys at positions."""
        return self.order.keys_at(self.order.slots_at(positions))

    def runs(self, ranges: Ranges) -> Iterator[Runs]:
        """The rows of ranges, some ranges at a time."""
        for part in _pieces(ranges):
            has = part.first > part.group_first
            before = np.full(len(has), -1, np.int64)
            before[has] = self.keys_at(part.first[has] - 1)
            yield Runs(self.keys_at(part.positions()), part.starts(), before)

    def windows(self, ranges: Ranges, frame: Frame) -> Iterator[tuple[Int64Array, Windows]]:
        """The keys of rows to read, and the windows of rows, some ranges at a time."""
        for part in _pieces(ranges):
            read, windows = self._windows(part, frame) if frame.time is None else self._windows_in_time(part, frame)
            yield self.keys_at(read.positions()), windows

    def _windows(self, part: Ranges, frame: Frame) -> tuple[Ranges, Windows]:
        size = self.order.size
        before, after = (min(max(width, -size), size) for width in (frame.before, frame.after))
        read = Ranges.of(
            np.minimum(part.first, part.first - before + 1),
            np.maximum(part.end, part.end + after),
            part.group_first,
            part.group_end,
        )
        own = part.positions()
        low, high = part.repeated(part.group_first), part.repeated(part.group_end)
        first = np.clip(own - before + 1, low, high)
        end = np.clip(own + after + 1, first, high)
        places = Flat(read).places(own)
        return read, Windows(places + (first - own), places + (end - own), places)

    def _windows_in_time(self, part: Ranges, frame: Frame) -> tuple[Ranges, Windows]:
        version = self.version
        ends = self._times_of(version, frame.time, self.keys_at(np.concatenate((part.first, part.end - 1))))
        low = _plus(ends[: len(part.first)], -frame.before)
        high = _plus(ends[len(part.first) :], frame.after)
        first = self._searched(frame, part.group_first, part.group_end, low, is_behind=False)
        end = self._searched(frame, part.group_first, part.group_end, high, is_behind=True)
        read = Ranges.of(np.minimum(first, part.first), np.maximum(end, part.end), part.group_first, part.group_end)
        keys = self.keys_at(read.positions())
        times = self._times_of(version, frame.time, keys)
        decreases = np.flatnonzero(times[1:] < times[:-1]) + 1
        wrong = decreases[~np.isin(decreases, read.starts())]
        if len(wrong):
            raise DECREASING.error(version, self._columns, int(keys[wrong[0]]))
        places = Flat(read)
        own = places.places(part.positions())
        start, stop = places.bounds(part.positions())
        mine = times[own]
        from_ = _search(times.take, start, stop, _plus(mine, -frame.before), is_behind=False)
        to = _search(times.take, start, stop, _plus(mine, frame.after), is_behind=True)
        return read, Windows(from_, np.maximum(to, from_), own)

    def _times_of(self, version: TableVersion, time: int | None, keys: Int64Array) -> Int64Array:
        """The times of rows, by keys in any order."""
        assert time is not None
        if not len(keys):
            return _NONE
        times, valid = moments(pick([version.views[time]], keys)[0])
        if not valid.all():
            fault = Fault(
                "Windows need the time of each row.",
                f"Column {version.schema.field(time).name!r} has null",
                "Filter such rows before update_by.",
            )
            raise fault.error(version, self._columns, int(keys[valid.argmin()]))
        return times

    def _searched(
        self, frame: Frame, first: Int64Array, end: Int64Array, times: Int64Array, *, is_behind: bool
    ) -> Int64Array:
        """The first position within bounds whose time is at, or behind, each time."""

        def read(positions: Int64Array) -> Int64Array:
            return self._times_of(self.version, frame.time, self.keys_at(positions))

        return _search(read, first, end, times, is_behind=is_behind)


def _search(
    read: Callable[[Int64Array], Int64Array], first: Int64Array, end: Int64Array, wanted: Int64Array, *, is_behind: bool
) -> Int64Array:
    """The first place within bounds whose time is at, or behind, each time.

    It is behind with ``is_behind``.
    """
    low, high = first.copy(), end.copy()
    while len(open_ := np.flatnonzero(low < high)):
        middle = (low[open_] + high[open_]) >> 1
        there = read(middle)
        is_below = there <= wanted[open_] if is_behind else there < wanted[open_]
        low[open_[is_below]] = middle[is_below] + 1
        high[open_[~is_below]] = middle[~is_below]
    return low


def _plus(times: Int64Array, nanoseconds: int) -> Int64Array:
    """Shifted times, clipped to 64 bits."""
    width = int(np.clip(nanoseconds, _FARTHEST.min, _FARTHEST.max))
    with np.errstate(over="ignore"):
        found = times + np.int64(width)
    if width > 0:
        return np.where(found < times, _FARTHEST.max, found)
    return np.where(found > times, _FARTHEST.min, found)


def _pieces(ranges: Ranges) -> Iterator[Ranges]:
    """Some ranges at a time, with about ``_ROWS`` rows in all, or one large range."""
    ends = np.cumsum(ranges.lengths)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _ROWS, "right")))
        check_interrupt()
        yield ranges.part(start, stop)
        start = stop
