"""Computes columns of functions that move along the rows of each group, and follows changes of the rows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa

from barrage_server.engine.cells import MAX_PAGE_BITS
from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.interrupts import check_interrupt
from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.order_index import OrderIndex
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.redirected import pick
from barrage_server.engine.replica_cells import ReplicaCells
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.update import TableUpdate
from barrage_server.engine.values import concatenated, take
from barrage_server.engine.version import TableVersion
from barrage_server.errors import InvalidRequestError
from barrage_server.operations.budget import check_bytes, most_bytes
from barrage_server.operations.grouped_rows import FEW_DEAD, Departure, GroupedRows, living_groups
from barrage_server.operations.update_by.functions import DECREASING, Frame, Scan, Window, Windows
from barrage_server.operations.update_by.ranges import Flat, Ranges
from barrage_server.operations.update_by.values import moments, taken
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["UpdateBy"]

_ROWS: Final = 1 << 20
"""Rows that are computed at a time, as far as they are of more than one group."""
_NONE: Final = np.zeros(0, np.int64)
_FARTHEST: Final = np.iinfo(np.int64)


class _Results(NamedTuple):
    """The results of some functions at some rows.

    Attributes:
        columns: the numbers of the stored columns.
        keys: the keys of the rows, ascending.
        values: for each column its values.

    """

    columns: Sequence[int]
    keys: Int64Array
    values: Sequence[pa.Array]


class _Marks(NamedTuple):
    """Times at which the rows of groups have changed.

    Attributes:
        groups: the groups.
        times: the times, in nanoseconds.

    """

    groups: Int64Array
    times: Int64Array


class UpdateBy(Operator):
    """Keeps the results, what functions need to go on from each row, and the order of the rows by group.

    A cycle costs the rows that change, and for scans the rows behind the first of them in each group; for windows the
    rows whose window has one of them.

    Args:
        schema: the columns of the input.
        keys: the numbers of the columns that tell groups apart.
        functions: the functions.
        names: the names of their results, which are in the place of columns of the input with the same name, or behind
            all columns.

    """

    name: ClassVar[str] = "update_by"

    def __init__(
        self, schema: pa.Schema, keys: Sequence[int], functions: Sequence[Scan | Window], names: Sequence[str]
    ) -> None:
        self._scans: list[tuple[Scan, list[int]]] = []
        self._windows: dict[Frame, list[tuple[Window, int]]] = {}
        types: list[pa.DataType] = []
        results: dict[str, tuple[int, pa.Field]] = {}
        for function, name in zip(functions, names, strict=True):
            first = len(types)
            if isinstance(function, Scan):
                types += function.types
                self._scans.append((function, list(range(first, len(types)))))
            else:
                types.append(function.type)
                self._windows.setdefault(function.frame, []).append((function, first))
            results[name] = (first, pa.field(name, types[first]))
        self._places = [
            (True, results[field.name][0]) if field.name in results else (False, number)
            for number, field in enumerate(schema)
        ]
        fields = [results[field.name][1] if field.name in results else field for field in schema]
        known = set(schema.names)
        for name, (number, field) in results.items():
            if name not in known:
                self._places.append((True, number))
                fields.append(field)
        self.schema = pa.schema(fields)
        self._store = ColumnStore(pa.schema([(str(number), kind) for number, kind in enumerate(types)]))
        self._cells = ReplicaCells(self._store.columns, self._store.make_columns, MAX_PAGE_BITS, is_window=False)
        key_fields = [schema.field(number) for number in keys]
        self._groups = GroupIndex(
            pa.schema([pa.field(str(number), field.type) for number, field in enumerate(key_fields)])
        )
        self._order = OrderIndex(versioned=False)
        self._members = GroupedRows(self._groups, keys, [field.type for field in key_fields], self._order)
        self._times = tuple(dict.fromkeys(frame.time for frame in self._windows if frame.time is not None))
        self._most_bytes = most_bytes()

    @property
    def nbytes(self) -> int:
        """Bytes of the results, the groups and the order."""
        return self._store.nbytes + self._cells.nbytes + self._groups.nbytes + self._members.nbytes

    def start(self, inputs: Inputs) -> Outcome:
        """Compute all rows."""
        (version,) = inputs
        self._members.start(version)
        rows = version.row_set
        if rows:
            self._cells.arrange(RowSet.empty(), RowSetShiftData.empty(), rows, self._store.undo)
            ranges = self._whole(np.arange(self._groups.count, dtype=np.int64))
            found = [self._scanned(version, function, columns, ranges) for function, columns in self._scans]
            found += [self._windowed(version, frame, ranges) for frame in self._windows]
            self._add(rows, found)
        return self._outcome(version, TableUpdate.of_added(rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Compute the rows that have changed, and those that depend on them."""
        (change,), (version,) = changes, inputs
        if change is None or change.update.is_empty:
            return self._outcome(version, TableUpdate.empty(len(self.schema)))
        update, undo = change.update, self._store.undo
        departure = self._members.leave(change)
        marks = {time: self._left(change, time, departure) for time in self._times}
        near = self._beside(departure)
        self._members.arrive(version, update.added, departure)
        if update.removed:
            self._cells.remove(update.removed)
        self._cells.arrange(change.before.row_set - update.removed, update.shifted, update.added, undo)
        moved = RowSet.from_keys(np.concatenate((near, departure.rekeyed.keys()))) | update.added
        found = []
        for function, columns in self._scans:
            changed = RowSet.union_all([moved, *(update.modified[number] for number in function.inputs)])
            found.append(self._scanned(version, function, columns, self._behind(changed)))
        for frame, functions in self._windows.items():
            read = {number for function, _ in functions for number in function.inputs}
            changed = RowSet.union_all([moved, *(update.modified[number] for number in read)])
            if frame.time is None:
                ranges = self._around(changed, frame)
            else:
                changed = changed | update.modified[frame.time]
                ranges = self._around_times(version, changed, frame, marks[frame.time])
            found.append(self._windowed(version, frame, ranges))
        modified = self._write(update.added, found)
        self._pack(version)
        own = [modified[number] if is_own else update.modified[number] for is_own, number in self._places]
        return self._outcome(
            version, TableUpdate(update.added, update.removed, update.shifted, tuple(own)), update.removed
        )

    # Which rows to compute.

    def _whole(self, groups: Int64Array) -> Ranges:
        """All rows of some groups, in ascending order."""
        first, end = self._members.bounds(groups)
        return Ranges.of(first, end, first, end)

    def _placed(self, rows: RowSet) -> tuple[Int64Array, Int64Array, Int64Array]:
        """The positions of rows, and the bounds of their groups."""
        keys = rows.keys()
        positions = self._order.rows.find(self._order.slots_of(keys))
        groups, places = np.unique(self._members.groups_of(keys), return_inverse=True)
        first, end = self._members.bounds(groups)
        return positions, first[places], end[places]

    def _behind(self, changed: RowSet) -> Ranges:
        """The rows from each of those that have changed to the end of its group."""
        if not changed:
            return Ranges()
        positions, first, end = self._placed(changed)
        return Ranges.of(positions, end, first, end)

    def _around(self, changed: RowSet, frame: Frame) -> Ranges:
        """The rows whose window of rows has a row that has changed."""
        if not changed:
            return Ranges()
        positions, first, end = self._placed(changed)
        size = self._order.rows.size
        after, before = min(max(frame.after, 0), size), min(max(frame.before, 1), size)
        return Ranges.of(positions - after, positions + before, first, end)

    def _around_times(self, version: TableVersion, changed: RowSet, frame: Frame, marks: _Marks) -> Ranges:
        """The rows whose window in time has a row that has changed, or that was there before."""
        keys = changed.keys()
        times = self._times_of(version, frame.time, keys)
        groups = np.concatenate((self._members.groups_of(keys), marks.groups))
        times = np.concatenate((times, marks.times))
        if not len(groups):
            return Ranges()
        known, places = np.unique(groups, return_inverse=True)
        bounds = self._members.bounds(known)
        first, end = bounds[0][places], bounds[1][places]
        # a row itself is among them also if its window does not have it
        low = self._searched(version, frame, first, end, np.minimum(_plus(times, -frame.after), times), is_behind=False)
        high = self._searched(version, frame, first, end, np.maximum(_plus(times, frame.before), times), is_behind=True)
        return Ranges.of(low, high, first, end)

    def _beside(self, departure: Departure) -> Int64Array:
        """The keys of the rows before and behind those that leave their place, in the order as it still is."""
        gone = np.sort(np.concatenate((departure.slots, departure.was)))
        if not len(gone):
            return _NONE
        rows = self._order.rows
        places = rows.find(gone)
        begins = np.append(True, np.diff(places) > 1)
        before = places[begins] - 1
        behind = places[np.append(begins[1:], True)] + 1
        beside = np.concatenate((before[before >= 0], behind[behind < rows.size]))
        return self._order.keys_at(rows.select(np.unique(beside)))

    def _left(self, change: Change, time: int, departure: Departure) -> _Marks:
        """The groups and times that rows had which have gone, or have another group or time."""
        update = change.update
        other = departure.rekeyed | update.modified[time]
        former = self._members.groups_of(other.keys())  # those with other keys have not arrived in their new group
        keys = other.keys()
        if update.shifted.size:
            keys = update.shifted.unapply(other).keys()
        times = [self._times_of(change.before, time, each) for each in (update.removed.keys(), keys)]
        return _Marks(np.concatenate((departure.groups, former)), np.concatenate(times))

    # Values.

    def _times_of(self, version: TableVersion, time: int | None, keys: Int64Array) -> Int64Array:
        """The times of rows, by their keys in any order."""
        assert time is not None
        if not len(keys):
            return _NONE
        times, valid = moments(pick([version.views[time]], keys)[0])
        if not valid.all():
            raise InvalidRequestError(
                f"Column {version.schema.field(time).name!r} has null, and windows need the time of each row. Filter "
                f"such rows before update_by."
            )
        return times

    def _searched(
        self,
        version: TableVersion,
        frame: Frame,
        first: Int64Array,
        end: Int64Array,
        times: Int64Array,
        *,
        is_behind: bool,
    ) -> Int64Array:
        """The first position between bounds whose time is not before, or ``is_behind``, each of some times."""
        low, high = first.copy(), end.copy()
        while len(open_ := np.flatnonzero(low < high)):
            middle = (low[open_] + high[open_]) >> 1
            there = self._times_of(version, frame.time, self._keys_at(middle))
            is_below = there <= times[open_] if is_behind else there < times[open_]
            low[open_[is_below]] = middle[is_below] + 1
            high[open_[~is_below]] = middle[~is_below]
        return low

    def _keys_at(self, positions: Int64Array) -> Int64Array:
        return self._order.keys_at(self._order.rows.select(positions))

    def _scanned(self, version: TableVersion, function: Scan, columns: Sequence[int], ranges: Ranges) -> _Results:
        """The results of a scan at the rows of ranges, each of which goes on from the row before it."""
        parts = []
        for part in _pieces(ranges):
            keys = self._keys_at(part.positions())
            carry = self._stored(columns, part)
            views = [version.views[number] for number in function.inputs]
            parts.append((keys, function.run(pick(views, keys), part.starts(), carry)))
        return self._joined(columns, parts, function.types)

    def _stored(self, columns: Sequence[int], ranges: Ranges) -> list[pa.Array]:
        """What is stored with the row before each range; null, if that is of another group."""
        has = ranges.first > ranges.group_first
        places = np.where(has, np.cumsum(has) - 1, -1)
        keys = self._keys_at(ranges.first[has] - 1)
        order = np.argsort(keys)
        rank = np.empty(len(keys), np.int64)
        rank[order] = np.arange(len(keys))
        rows = RowSet.from_sorted_keys(keys[order])
        where = np.where(has, rank[places] if len(keys) else -1, -1)
        return [taken(self._cells.read(number, rows), where) for number in columns]

    def _windowed(self, version: TableVersion, frame: Frame, ranges: Ranges) -> _Results:
        """The results of all functions with a frame, at the rows of ranges."""
        functions = self._windows[frame]
        columns = [number for _, number in functions]
        parts = []
        for part in _pieces(ranges):
            if frame.time is None:
                read, windows = self._rows_around(part, frame)
            else:
                read, windows = self._rows_in_time(version, part, frame)
            keys = self._keys_at(read.positions())
            needed = sorted({number for function, _ in functions for number in function.inputs})
            values = dict(zip(needed, pick([version.views[number] for number in needed], keys), strict=True))
            results = [
                function.run([values[number] for number in function.inputs], windows) for function, _ in functions
            ]
            parts.append((keys[windows.own], results))
        return self._joined(columns, parts, [function.type for function, _ in functions])

    def _rows_around(self, part: Ranges, frame: Frame) -> tuple[Ranges, Windows]:
        """The rows of the windows of rows, and these windows."""
        size = self._order.rows.size
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
        return read, _windows(read, first, end, own)

    def _rows_in_time(self, version: TableVersion, part: Ranges, frame: Frame) -> tuple[Ranges, Windows]:
        """The rows of the windows in time, and these windows."""
        ends = self._times_of(version, frame.time, self._keys_at(np.concatenate((part.first, part.end - 1))))
        low = _plus(ends[: len(part.first)], -frame.before)
        high = _plus(ends[len(part.first) :], frame.after)
        first = self._searched(version, frame, part.group_first, part.group_end, low, is_behind=False)
        end = self._searched(version, frame, part.group_first, part.group_end, high, is_behind=True)
        read = Ranges.of(np.minimum(first, part.first), np.maximum(end, part.end), part.group_first, part.group_end)
        times = self._times_of(version, frame.time, self._keys_at(read.positions()))
        places = Flat(read)
        starts = read.starts()
        decreases = np.flatnonzero(np.diff(times) < 0) + 1
        if not np.isin(decreases, starts).all():
            raise InvalidRequestError(DECREASING)
        own = part.positions()
        own_places = places.places(own)
        start, stop = places.bounds(own)
        mine = times[own_places]
        from_ = _between(times, start, stop, _plus(mine, -frame.before), is_behind=False)
        to = _between(times, start, stop, _plus(mine, frame.after), is_behind=True)
        return read, Windows(from_, np.maximum(to, from_), own_places)

    # Storage.

    def _joined(
        self,
        columns: Sequence[int],
        parts: Sequence[tuple[Int64Array, Sequence[pa.Array]]],
        types: Sequence[pa.DataType],
    ) -> _Results:
        """The results of all pieces, by row key."""
        keys = np.concatenate([keys for keys, _ in parts]) if parts else _NONE
        order = np.argsort(keys, kind="stable")
        values = []
        for number, kind in enumerate(types):
            whole = concatenated([found[number] for _, found in parts], kind)
            values.append(take(whole, order))
        return _Results(columns, keys[order], values)

    def _add(self, rows: RowSet, found: Sequence[_Results]) -> None:
        """Write new rows, of which there are results in all columns."""
        by_column = {number: (one, place) for one in found for place, number in enumerate(one.columns)}
        arrays = []
        keys = rows.keys()
        for number in range(len(by_column)):
            results, place = by_column[number]
            values = results.values[place]
            if len(results.keys) != len(keys):
                values = take(values, np.searchsorted(results.keys, keys))
            arrays.append(values)
        self._cells.add(rows, arrays, self._store.undo)
        self._check_bytes()

    def _write(self, added: RowSet, found: Sequence[_Results]) -> dict[int, RowSet]:
        """Write the results; for each column the rows that were there and have another value now."""
        if added:
            self._add(added, found)
        modified = {}
        for results in found:
            rows = RowSet.from_sorted_keys(results.keys)
            others = rows - added
            places = None if others.size == rows.size else rows.find(others.keys())
            for number, values in zip(results.columns, results.values, strict=True):
                own = values if places is None else take(values, places)
                modified[number] = self._cells.update(number, others, own, self._store.undo) if others else others
        self._check_bytes()
        return modified

    def _check_bytes(self) -> None:
        if self._most_bytes < math.inf:
            check_bytes(self.nbytes, self._most_bytes)

    def _pack(self, version: TableVersion) -> None:
        """Forget groups without rows when they outnumber the others."""
        if self._members.gone <= max(FEW_DEAD, self._groups.count >> 2):
            return
        self._members.gone = 0
        is_living = self._members.counts.array[: self._groups.count] > 0
        living = living_groups(self._groups, is_living, version.size)
        if living is not None:
            self._groups.pack(living)
            self._groups.store.views()  # nothing reads the key values as they were
            self._members.pack(version.row_set, living)

    def _outcome(self, version: TableVersion, update: TableUpdate, removed: RowSet | None = None) -> Outcome:
        rows = version.row_set
        self._members.drop_before(rows)
        if removed:
            self._cells.release(rows)
        self._cells.collect(rows, self._store.undo)
        self._store.columns, self._store.slots = self._cells.columns, self._cells.slots
        stored = self._store.views()
        views = [stored[number] if is_own else version.views[number] for is_own, number in self._places]
        return Outcome(rows, views, update, rows)


def _windows(read: Ranges, first: Int64Array, end: Int64Array, own: Int64Array) -> Windows:
    """Windows by positions as those of the values that were read."""
    places = Flat(read)
    own_places = places.places(own)
    return Windows(own_places + (first - own), own_places + (end - own), own_places)


def _pieces(ranges: Ranges) -> Iterator[Ranges]:
    """Some ranges at a time, with about ``_ROWS`` rows in all, or one larger range."""
    ends = np.cumsum(ranges.lengths)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _ROWS, "right")))
        check_interrupt()
        yield ranges.part(start, stop)
        start = stop


def _plus(times: Int64Array, nanoseconds: int) -> Int64Array:
    """Later times; the last or first of all, where there is none so late or early."""
    width = int(np.clip(nanoseconds, _FARTHEST.min, _FARTHEST.max))
    with np.errstate(over="ignore"):
        found = times + np.int64(width)
    if width > 0:
        return np.where(found < times, _FARTHEST.max, found)
    return np.where(found > times, _FARTHEST.min, found)


def _between(
    times: Int64Array, first: Int64Array, end: Int64Array, wanted: Int64Array, *, is_behind: bool
) -> Int64Array:
    """The first place between bounds whose time is not before, or ``is_behind``, each of some times."""
    low, high = first.copy(), end.copy()
    while len(open_ := np.flatnonzero(low < high)):
        middle = (low[open_] + high[open_]) >> 1
        there = times[middle]
        is_below = there <= wanted[open_] if is_behind else there < wanted[open_]
        low[open_[is_below]] = middle[is_below] + 1
        high[open_[~is_below]] = middle[~is_below]
    return low
