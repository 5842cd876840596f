"""The operator of functions along the rows of each group."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from barrage_server.engine.cells import MAX_PAGE_BITS
from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.interrupts import check_interrupt
from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.redirected import pick
from barrage_server.engine.replica_cells import ReplicaCells
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.types import check_key_type
from barrage_server.engine.update import TableUpdate
from barrage_server.engine.values import concatenated, take
from barrage_server.engine.version import TableVersion
from barrage_server.operations.budget import check_bytes, most_bytes
from barrage_server.operations.history import readable_with
from barrage_server.operations.update_by.appended import LastRows
from barrage_server.operations.update_by.functions import Frame, RefusedRow, Scan, Window
from barrage_server.operations.update_by.ranges import Ranges
from barrage_server.operations.update_by.sequence import GroupSequence, Runs
from barrage_server.operations.update_by.values import taken
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["UpdateBy"]


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


class UpdateBy(Operator):
    """The columns of the input, and results of functions along each group.

    The state is the results, the values from which functions continue, and the order of the rows by group. A cycle
    costs the rows that change; for scans also the rows behind the first of them in each group, and for windows the rows
    whose window has one of them.

    Args:
        schema: the columns of the input.
        keys: the numbers of the columns that tell groups apart.
        functions: the functions.
        names: the names of their results, which are in the place of columns of the input with the same name, or behind
            all columns.
        is_append_only: whether rows are added at the end, and never change.
        keeps_history: whether rows stay readable after they have left, as far as they do in the input, whose later rows
            have larger keys.

    """

    name: ClassVar[str] = "update_by"

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[int],
        functions: Sequence[Scan | Window],
        names: Sequence[str],
        *,
        is_append_only: bool = False,
        keeps_history: bool = False,
    ) -> None:
        self._keys = tuple(keys)
        self._keeps_history = keeps_history
        self._readable = RowSet.empty()
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
        for field in key_fields:
            check_key_type(field.type, field.name)
        self._groups = GroupIndex(
            pa.schema([pa.field(str(number), field.type) for number, field in enumerate(key_fields)])
        )
        grouping = (self._groups, keys, [field.type for field in key_fields])
        self._last = LastRows(*grouping)
        self._sequence = None if is_append_only and not self._windows else GroupSequence(*grouping)
        self._times = tuple(dict.fromkeys(frame.time for frame in self._windows if frame.time is not None))
        self._most_bytes = most_bytes()

    @property
    def nbytes(self) -> int:
        """Bytes of the results, the groups and the order."""
        order = self._last.nbytes if self._sequence is None else self._sequence.nbytes
        return self._store.nbytes + self._cells.nbytes + self._groups.nbytes + order

    def start(self, inputs: Inputs) -> Outcome:
        """Compute all rows."""
        (version,) = inputs
        rows, sequence = version.row_set, self._sequence
        if rows:
            self._cells.arrange(RowSet.empty(), RowSetShiftData.empty(), rows, self._store.undo)
        if sequence is None:
            found = self._scanned(version, [self._last.append(version, rows)])
        else:
            sequence.version = version
            sequence.start(version)
            ranges = sequence.whole(self._groups.count)
            found = self._scanned(version, sequence.runs(ranges))
            found += [self._windowed(version, sequence, frame, ranges) for frame in self._windows]
        if rows:
            self._add(rows, found)
        return self._outcome(version, TableUpdate.of_added(rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Compute the changed rows, and the rows that depend on them."""
        (change,), (version,) = changes, inputs
        if change is None or change.update.is_empty:
            return self._outcome(version, TableUpdate.empty(len(self.schema)))
        update, sequence = change.update, self._sequence
        if sequence is None:
            self._arrange(change)
            found = self._scanned(version, [self._last.append(version, update.added)])
        else:
            found = self._changed(sequence, change, version)
            sequence.forget_dead(version.row_set)
        modified = self._write(update.added, found)
        own = [modified[number] if is_own else update.modified[number] for is_own, number in self._places]
        shown = TableUpdate(update.added, update.removed, update.shifted, tuple(own))
        return self._outcome(version, shown, is_smaller=bool(update.removed))

    def _arrange(self, change: Change) -> None:
        """Follow the rows that stay, and make room for added rows."""
        update = change.update
        gone = self._readable - change.after.readable if self._keeps_history else update.removed
        stayed = (self._readable if self._keeps_history else change.before.row_set) - gone
        if gone:
            self._cells.remove(gone)
        self._cells.arrange(stayed, update.shifted, update.added, self._store.undo)

    def _changed(self, sequence: GroupSequence, change: Change, version: TableVersion) -> list[_Results]:
        """The results of all rows that depend on changes."""
        update = change.update
        sequence.version = version
        departure = sequence.leave(change)
        marks = {time: sequence.left(change, time, departure) for time in self._times}
        beside = sequence.beside(departure)
        sequence.arrive(version, update.added, departure)
        self._arrange(change)
        moved = RowSet.from_keys(np.concatenate((beside, departure.rekeyed.keys()))) | update.added
        read = {number for function, _ in self._scans for number in function.inputs}
        found = self._scanned(version, sequence.runs(sequence.behind(_with_modified(moved, update, read))))
        for frame, functions in self._windows.items():
            read = {number for function, _ in functions for number in function.inputs}
            if frame.time is None:
                ranges = sequence.around(_with_modified(moved, update, read), frame)
            else:
                changed = _with_modified(moved, update, {*read, frame.time})
                ranges = sequence.around_times(changed, frame, marks[frame.time])
            found.append(self._windowed(version, sequence, frame, ranges))
        return found

    # Values.

    def _scanned(self, version: TableVersion, found: Iterable[Runs]) -> list[_Results]:
        """The results of scans at the rows of runs, continued from the rows before."""
        parts: list[list[tuple[Int64Array, Sequence[pa.Array]]]] = [[] for _ in self._scans]
        nbytes = 0
        for runs in found:
            for part, (function, columns) in zip(parts, self._scans, strict=True):
                values = pick([version.views[number] for number in function.inputs], runs.keys)
                try:
                    results = function.run(values, runs.starts, self._stored(columns, runs.before))
                except RefusedRow as refused:
                    raise refused.fault.error(version, self._keys, int(runs.keys[refused.place])) from None
                part.append((runs.keys, results))
                nbytes = self._checked(nbytes, results)
        return [
            _joined(columns, part, function.types) for part, (function, columns) in zip(parts, self._scans, strict=True)
        ]

    def _stored(self, columns: Sequence[int], keys: Int64Array) -> list[pa.Array]:
        """The values stored with rows; null for the key -1."""
        known, places = np.unique(keys[keys >= 0], return_inverse=True)
        where = np.full(len(keys), -1, np.int64)
        where[keys >= 0] = places
        rows = RowSet.from_sorted_keys(known)
        return [taken(self._cells.read(number, rows), where) for number in columns]

    def _windowed(self, version: TableVersion, sequence: GroupSequence, frame: Frame, ranges: Ranges) -> _Results:
        """The results of all functions with a frame, at the rows of ranges."""
        functions = self._windows[frame]
        needed = sorted({number for function, _ in functions for number in function.inputs})
        parts: list[tuple[Int64Array, Sequence[pa.Array]]] = []
        nbytes = 0
        for keys, windows in sequence.windows(ranges, frame):
            values = dict(zip(needed, pick([version.views[number] for number in needed], keys), strict=True))
            results = []
            for function, _ in functions:
                results.append(function.run([values[number] for number in function.inputs], windows))
                nbytes = self._checked(nbytes, results[-1:])
            parts.append((keys[windows.own], results))
        return _joined([number for _, number in functions], parts, [function.type for function, _ in functions])

    def _checked(self, nbytes: int, results: Sequence[pa.Array]) -> int:
        """The bytes of results so far, with the limit checked.

        The computation can be interrupted here.
        """
        check_interrupt()
        nbytes += sum(array.nbytes for array in results)
        if self._most_bytes < math.inf:
            check_bytes(nbytes, self._most_bytes)
        return nbytes

    # Storage.

    def _add(self, rows: RowSet, found: Sequence[_Results]) -> None:
        """Write new rows, with results in all columns."""
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
        """Write the results. Returns the modified rows of each column."""
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

    def _outcome(self, version: TableVersion, update: TableUpdate, *, is_smaller: bool = False) -> Outcome:
        rows = version.row_set
        if self._sequence is not None:
            self._sequence.drop_before(rows)
        readable = readable_with(self._readable, rows, version) if self._keeps_history else rows
        if is_smaller:
            self._cells.release(readable)
        self._cells.collect(readable, self._store.undo)
        self._store.columns, self._store.slots = self._cells.columns, self._cells.slots
        stored = self._store.views()
        views = [stored[number] if is_own else version.views[number] for is_own, number in self._places]
        self._readable = readable
        return Outcome(rows, views, update, readable)


def _joined(
    columns: Sequence[int], parts: Sequence[tuple[Int64Array, Sequence[pa.Array]]], types: Sequence[pa.DataType]
) -> _Results:
    """Combine the results of all pieces, by row key."""
    keys = np.concatenate([keys for keys, _ in parts]) if parts else np.zeros(0, np.int64)
    order = np.argsort(keys, kind="stable")
    values = [
        take(concatenated([found[number] for _, found in parts], kind), order) for number, kind in enumerate(types)
    ]
    return _Results(columns, keys[order], values)


def _with_modified(rows: RowSet, update: TableUpdate, columns: Iterable[int]) -> RowSet:
    """Rows, and the rows that were modified in any of these columns."""
    return RowSet.union_all([rows, *(update.modified[number] for number in columns)])
