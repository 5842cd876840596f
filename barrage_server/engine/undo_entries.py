"""Old values of cells: by row key, or for most rows of a range by position.

Merged entries of one column are kept as *levels*, oldest first. Each has about twice the rows of the following one or
more, so that a value is merged only log(n) times. While records follow, they become one :class:`DenseEntry` once they
cover some of their range, because it absorbs later records without sorting. When none follows, they keep their keys
unless those take more memory: see :func:`settle`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from barrage_server.engine.memory import zeros
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.sorting import sort_with_positions

__all__ = ["CellArray", "DenseEntry", "Levels", "MergedKeys", "UndoEntry", "extend", "settle"]

CellArray: TypeAlias = npt.NDArray[Any]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

_LEAST_DENSE: Final = 4096
"""The least number of rows of a dense entry."""
_ROWS_OF_RANGE: Final = 16
"""The rows of a range for each value from which the values become dense, while records follow."""
_KEY_BYTES: Final = 8


class UndoEntry(NamedTuple):
    """Old values of some cells of one column.

    Attributes:
        column: the column's number.
        epoch: the epoch of the column whose cells these are.
        keys: row keys, strictly increasing int64.
        data: the old cells, one per key.
        valid: whether the cells held a value (bool, one per key); ``None`` when all did.
    """

    column: int
    epoch: int
    keys: Int64Array
    data: CellArray
    valid: BoolArray | None

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and of the values."""
        return self.keys.nbytes + self.data.nbytes + (0 if self.valid is None else self.valid.nbytes)

    def put_back(self, plan: ReadPlan, data: CellArray, valid: BoolArray | None) -> BoolArray | None:
        """Put the values back into gathered cells, in place.

        Args:
            plan: the rows that were gathered.
            data: the gathered cells, one per row of the plan.
            valid: whether they hold values; ``None`` when all do.

        Returns:
            ``valid``, changed in place, or made when it was ``None`` and is needed.
        """
        positions, chosen = plan.locate(self.keys)
        if len(positions) == 0:
            return valid
        data[positions] = self.data[chosen]
        return _put_valid(valid, plan.size, positions, None if self.valid is None else self.valid[chosen])


class DenseEntry:
    """Old values of most rows of a range of row keys.

    Values are added while other threads read. A reader that does not find a value has it from the record that was not
    merged when it began, or has gathered the cell before it was overwritten.

    Args:
        entry: the first values.
        first: the first row key of the range.
        size: the number of rows in the range.
    """

    __slots__ = ("column", "count", "data", "epoch", "first", "known", "valid")

    def __init__(self, entry: UndoEntry, first: int, size: int) -> None:
        self.column, self.epoch = entry.column, entry.epoch
        self.first = first
        self.data: CellArray = zeros(size, entry.data.dtype)  # one that is freed leaves no gap between small arrays
        self.valid: BoolArray | None = None
        self.known: BoolArray = zeros(size, np.bool_)
        self.count = 0
        self.absorb(entry)

    @property
    def keys(self) -> Int64Array:
        """Row keys of the values, strictly increasing int64."""
        return np.flatnonzero(self.known) + self.first

    @property
    def nbytes(self) -> int:
        """Bytes of the whole range."""
        return self.data.nbytes + self.known.nbytes + (0 if self.valid is None else self.valid.nbytes)

    def absorb(self, entry: UndoEntry) -> UndoEntry | None:
        """Add newer values, by one thread at a time; returns those outside of the range."""
        low = int(entry.keys.searchsorted(self.first))
        high = int(entry.keys.searchsorted(self.first + (len(self.known) - 1), "right"))
        places = entry.keys[low:high] - self.first
        new = np.flatnonzero(~self.known[places])
        places = places[new]
        self.data[places] = entry.data[low:high][new]
        if entry.valid is not None:
            if self.valid is None:
                self.valid = np.ones(len(self.known), np.bool_)
            self.valid[places] = entry.valid[low:high][new]
        self.known[places] = True  # at last: readers look at this first
        self.count += len(places)
        if high - low == len(entry.keys):
            return None
        outside = np.r_[0:low, high : len(entry.keys)]
        return _chosen(entry, outside)

    def sparse(self) -> UndoEntry:
        """The same values by row key."""
        places = np.flatnonzero(self.known)
        valid = None if self.valid is None else self.valid[places]
        return UndoEntry(self.column, self.epoch, places + self.first, self.data[places], valid)

    def put_back(self, plan: ReadPlan, data: CellArray, valid: BoolArray | None) -> BoolArray | None:
        """See :meth:`UndoEntry.put_back`."""
        if plan.is_contiguous:
            low = min(max(plan.first_key - self.first, 0), len(self.known))
            high = max(min(plan.last_key - self.first + 1, len(self.known)), low)
            places = np.flatnonzero(self.known[low:high]) + low
            positions = places + (self.first - plan.first_key)
        else:
            own = plan.keys
            start = int(own.searchsorted(self.first))
            stop = int(own.searchsorted(self.first + (len(self.known) - 1), "right"))
            places = own[start:stop] - self.first
            found = np.flatnonzero(self.known[places])
            places, positions = places[found], found + start
        if len(positions) == 0:
            return valid
        data[positions] = self.data[places]
        return _put_valid(valid, plan.size, positions, None if self.valid is None else self.valid[places])


Levels: TypeAlias = "tuple[UndoEntry | DenseEntry, ...]"
"""Merged entries, oldest first. Only the first may be dense; the others then lie outside of its range."""


class MergedKeys:
    """Merged row keys of entries, computed once for columns that share them."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # By the ids of the arrays, which the values keep alive.
        self._known: dict[tuple[int, ...], tuple[list[Int64Array], Int64Array, Int64Array]] = {}

    def of(self, arrays: list[Int64Array]) -> tuple[Int64Array, Int64Array]:
        """The distinct row keys in order, and the first place of each."""
        place = tuple(map(id, arrays))
        known = self._known.get(place)
        if known is None:
            ordered, order = sort_with_positions(np.concatenate(arrays), runs=len(arrays))
            is_first = np.ones(len(ordered), np.bool_)
            np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
            places = np.flatnonzero(is_first)
            known = self._known[place] = arrays, ordered.take(places), order.take(places)
        return known[1:]


def extend(levels: Levels, entries: Sequence[UndoEntry | DenseEntry], merged: MergedKeys | None = None) -> Levels:
    """Add newer entries of the same column; of each row, the oldest value stays.

    A dense entry is extended in place: a reader of the old levels finds values that are as old as those it needs.

    Args:
        levels: the present entries.
        entries: the newer entries, oldest first.
        merged: for columns that are extended together.
    """
    merged = MergedKeys() if merged is None else merged
    newer = [entry.sparse() if isinstance(entry, DenseEntry) else entry for entry in entries]
    first = levels[0] if levels else None
    if isinstance(first, DenseEntry):
        newer = [outside for entry in newer if (outside := first.absorb(entry)) is not None]
    return _push(levels, _merge(newer, merged), merged) if newer else levels


def _push(levels: Levels, entry: UndoEntry, merged: MergedKeys) -> Levels:
    """Add a newer entry; merge neighbours of similar size."""
    stack = [*levels, entry]
    while len(stack) > 1 and _count(stack[-2]) <= 2 * _count(stack[-1]):
        newer = stack.pop()
        stack[-1] = _merge([_sparse(stack[-1]), _sparse(newer)], merged)
    oldest = stack[0]
    if isinstance(oldest, UndoEntry) and _should_be_dense(oldest):
        first = int(oldest.keys[0])
        dense = DenseEntry(oldest, first, int(oldest.keys[-1]) - first + 1)
        return (dense, *(outside for level in stack[1:] if (outside := dense.absorb(_sparse(level))) is not None))
    return tuple(stack)


def settle(levels: Levels) -> Levels:
    """Choose the form for values that no record follows, by its memory.

    Args:
        levels: the entries, which readers may have, too.
    """
    first = levels[0] if levels else None
    if not isinstance(first, DenseEntry):
        return levels
    width = first.data.itemsize
    if len(first.known) * (width + 1) <= 2 * first.count * (width + _KEY_BYTES):
        return levels
    return (_merge([first.sparse(), *(_sparse(level) for level in levels[1:])], MergedKeys()),)


def _should_be_dense(entry: UndoEntry) -> bool:
    """Whether the values are many, and lie close to each other."""
    count = len(entry.keys)
    return count >= _LEAST_DENSE and int(entry.keys[-1]) - int(entry.keys[0]) < count * _ROWS_OF_RANGE


def _count(entry: UndoEntry | DenseEntry) -> int:
    return entry.count if isinstance(entry, DenseEntry) else len(entry.keys)


def _sparse(entry: UndoEntry | DenseEntry) -> UndoEntry:
    return entry.sparse() if isinstance(entry, DenseEntry) else entry


def _merge(entries: Sequence[UndoEntry], merged: MergedKeys) -> UndoEntry:
    """Merge entries, oldest first; the oldest value of a row wins."""
    if len(entries) == 1:
        return entries[0]
    first = entries[0]
    ordered, chosen = merged.of([entry.keys for entry in entries])
    valid = None
    if any(entry.valid is not None for entry in entries):
        valid = np.concatenate([_valid_of(entry) for entry in entries]).take(chosen)
    data = np.concatenate([entry.data for entry in entries]).take(chosen)
    return UndoEntry(first.column, first.epoch, ordered, data, valid)


def _chosen(entry: UndoEntry, places: Int64Array) -> UndoEntry:
    valid = None if entry.valid is None else entry.valid[places]
    return UndoEntry(entry.column, entry.epoch, entry.keys[places], entry.data[places], valid)


def _valid_of(entry: UndoEntry) -> BoolArray:
    return np.ones(len(entry.keys), np.bool_) if entry.valid is None else entry.valid


def _put_valid(valid: BoolArray | None, size: int, positions: Int64Array, old: BoolArray | None) -> BoolArray | None:
    if old is not None:
        if valid is None:
            valid = np.ones(size, np.bool_)
        valid[positions] = old
    elif valid is not None:
        valid[positions] = True
    return valid
