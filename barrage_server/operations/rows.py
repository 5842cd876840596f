"""Operators that choose, number or reverse rows by their position."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import ClassVar, TypeAlias

import pyarrow as pa

from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.renumbered import Numbering, RenumberedView
from barrage_server.engine.update import TableUpdate
from barrage_server.engine.version import TableVersion
from barrage_server.operations.history import readable_with
from barrage_server.operations.reversed import Reversal, ReversedView
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["Bounds", "Flatten", "Reverse", "Slice", "head_pct_bounds", "slice_bounds", "tail_pct_bounds"]

Bounds: TypeAlias = Callable[[int], tuple[int, int]]
"""The first position of a slice, and the one after its last, of a table with the given number of rows."""


def slice_bounds(start: int, stop: int) -> Bounds:
    """The positions from ``start`` to ``stop``; negative ones count from the end.

    So does 0 as ``stop`` after a negative ``start``.
    """

    def bounds(size: int) -> tuple[int, int]:
        low = start if start >= 0 else max(size + start, 0)
        high = stop if stop > 0 or (stop == 0 and start >= 0) else size + stop
        return min(low, size), max(min(high, size), min(low, size))

    return bounds


def head_pct_bounds(part: float) -> Bounds:
    """The first ``part`` of the rows, rounded up."""
    return lambda size: (0, min(ceil(part * size), size))


def tail_pct_bounds(part: float) -> Bounds:
    """The last ``part`` of the rows, rounded up."""
    return lambda size: (size - min(ceil(part * size), size), size)


class Slice(Operator):
    """The rows at some positions, with the keys and columns of the input.

    A cycle costs the rows that change within the slice or move into or out of it.

    Args:
        schema: the columns of the input.
        bounds: the positions.
        keeps_history: whether rows stay readable after they have left, as far as they do in the input.

    """

    name: ClassVar[str] = "slice"

    def __init__(self, schema: pa.Schema, bounds: Bounds, *, keeps_history: bool = False) -> None:
        self.schema = schema
        self._bounds = bounds
        self._keeps_history = keeps_history
        self._rows = RowSet.empty()
        self._readable = RowSet.empty()

    def start(self, inputs: Inputs) -> Outcome:
        """Slice the rows."""
        (version,) = inputs
        self._rows = version.row_set.slice(*self._bounds(version.size))
        return self._outcome(version, TableUpdate.of_added(self._rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Compare the new slice with the present keys of the old one."""
        (change,), (version,) = changes, inputs
        if change is None or change.update.is_empty:
            return self._outcome(version, TableUpdate.empty(len(self.schema)))
        update, before = change.update, self._rows
        after = version.row_set.slice(*self._bounds(version.size))
        removed = before & update.removed
        stayed = before - removed
        shifts = update.shifted
        moved = shifts.apply(stayed) if shifts.size else stayed
        left = moved - after
        if left:
            moved = moved - left
            left_before = shifts.unapply(left) if shifts.size else left
            removed, stayed = removed | left_before, stayed - left_before
        self._rows = after
        modified = tuple(rows & moved if rows else rows for rows in update.modified)
        own_shifts = shifts.clip(stayed) if shifts.size else shifts
        return self._outcome(version, TableUpdate(after - moved, removed, own_shifts, modified))

    def _outcome(self, version: TableVersion, update: TableUpdate) -> Outcome:
        if self._keeps_history:
            self._readable = readable_with(self._readable, self._rows, version)
            return Outcome(self._rows, version.views, update, self._readable)
        return Outcome(self._rows, version.views, update)


class Flatten(Operator):
    """All rows, with their positions as keys.

    A cycle costs the ranges of rows that were added and removed.

    Args:
        schema: the columns of the input.

    """

    name: ClassVar[str] = "flatten"

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._before = RowSet.empty()  # in keys of the input

    def start(self, inputs: Inputs) -> Outcome:
        """Number all rows."""
        (version,) = inputs
        rows = RowSet.flat(version.size)
        return self._outcome(version, TableUpdate.of_added(rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Number the changed rows; rows between added and removed ones shift."""
        (change,), (version,) = changes, inputs
        if change is None or change.update.is_empty:
            return self._outcome(version, TableUpdate.empty(len(self.schema)))
        update, before, after = change.update, self._before, version.row_set
        removed, added = before.invert(update.removed), after.invert(update.added)
        shifted = RowSetShiftData.empty()
        if removed or added:
            shifted = RowSetShiftData.between(
                RowSet.flat(before.size) - removed,
                RowSet.flat(after.size) - added,
            )
        modified = tuple(after.invert(rows) if rows else rows for rows in update.modified)
        return self._outcome(version, TableUpdate(added, removed, shifted, modified))

    def _outcome(self, version: TableVersion, update: TableUpdate) -> Outcome:
        self._before = version.row_set
        rows = RowSet.flat(version.size)
        if version.row_set.is_flat:
            return Outcome(rows, version.views, update)
        numbering = Numbering(version.row_set, 0)
        return Outcome(rows, [RenumberedView(view, numbering) for view in version.views], update)


class Reverse(Operator):
    """All rows in the opposite order, with columns that are read backwards.

    Row ``k`` of the input has the key ``pivot - k``. A cycle costs the rows that were added, removed, shifted or
    modified; all rows shift when a key is above the pivot, which at least doubles then.

    Args:
        schema: the columns of the input.

    """

    name: ClassVar[str] = "reverse"

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._reversal = Reversal(Reversal.FIRST_PIVOT)
        self._rows = RowSet.empty()

    def start(self, inputs: Inputs) -> Outcome:
        """Reverse all rows."""
        (version,) = inputs
        self._reversal = self._reversal.reaching(version.row_set)
        self._rows = self._reversal.turned(version.row_set)
        return self._outcome(version, TableUpdate.of_added(self._rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Reverse the update."""
        (change,), (version,) = changes, inputs
        if change is None or change.update.is_empty:
            return self._outcome(version, TableUpdate.empty(len(self.schema)))
        return self._outcome(version, self._turned(change, version))

    def _turned(self, change: Change, version: TableVersion) -> TableUpdate:
        update, before, after = change.update, self._reversal, self._reversal.reaching(version.row_set)
        removed, added = before.turned(update.removed), after.turned(update.added)
        modified = tuple(after.turned(rows) for rows in update.modified)
        if after is before:
            own = TableUpdate(added, removed, before.turned_shifts(update.shifted), modified)
            self._rows = own.apply_to(self._rows)
        else:
            stayed, rows = self._rows - removed, after.turned(version.row_set)
            own = TableUpdate(added, removed, RowSetShiftData.between(stayed, rows - added), modified)
            self._reversal, self._rows = after, rows
        return own

    def _outcome(self, version: TableVersion, update: TableUpdate) -> Outcome:
        return Outcome(self._rows, [ReversedView(view, self._reversal) for view in version.views], update)
