"""Columns of some rows of another table, under consecutive row keys."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.storage import from_storage, to_storage
from barrage_server.engine.types import StorageKind, storage_kind
from barrage_server.engine.values import take
from barrage_server.engine.view import ColumnView
from barrage_server.rowset import RowSet

__all__ = ["AppendedRows", "Numbering", "RenumberedView", "own_values"]

_LEAST_TAIL: Final = 1 << 10
_MOST_TAIL: Final = 1 << 16
"""The most rows in the array, 512 KiB; beyond, they become part of the row set."""
_NO_KEYS: Final[Int64Array] = np.empty(0, np.int64)


class Numbering:
    """Consecutive row keys for rows of another table, in their order. Immutable.

    Args:
        rows: the rows, by their keys in the other table.
        first: the key of the first row.
        tail: further rows behind all of ``rows``, ascending, int64.

    Attributes:
        first: the key of the first row.
    """

    __slots__ = ("_rows", "_tail", "first")

    def __init__(self, rows: RowSet, first: int, tail: Int64Array = _NO_KEYS) -> None:
        self._rows = rows
        self._tail = tail
        self.first = first

    @property
    def rows(self) -> RowSet:
        """The rows, by their keys in the other table. O(rows in ``tail``)."""
        return self._rows | RowSet.from_sorted_keys(self._tail) if len(self._tail) else self._rows

    def keys_of(self, rows: RowSet) -> RowSet:
        """The keys of ``rows``, which must be among the numbered ones."""
        return self.rows.invert(rows).shift(self.first)

    def plan_of(self, keys: RowSet) -> ReadPlan:
        """The plan that reads the rows with these keys in the other table."""
        positions = keys.shift(-self.first)
        before = self._rows.size
        if not len(self._tail) or not positions or positions.last_key < before:
            return ReadPlan.from_row_set(self._rows.subset(positions))
        if positions.first_key >= before:
            if positions.is_contiguous:
                return ReadPlan.from_keys(self._tail[positions.first_key - before : positions.last_key - before + 1])
            return ReadPlan.from_keys(self._tail[positions.keys() - before])
        listed = self._tail[positions.restrict(before, positions.last_key).keys() - before]
        return ReadPlan.from_row_set(self._rows.subset(positions) | RowSet.from_sorted_keys(listed))

    def row_of(self, key: int) -> int:
        """The row with this key."""
        position = key - self.first
        return self._rows[position] if position < self._rows.size else int(self._tail[position - self._rows.size])

    def last_until(self, row: int) -> int:
        """The key of the last row up to ``row``; ``first - 1`` if there is none."""
        listed = int(self._tail.searchsorted(row, "right"))
        if listed:
            return self.first + self._rows.size + listed - 1
        rows = self._rows
        until = rows.size if not rows or row >= rows.last_key else int(rows.rank([row + 1])[0])
        return self.first + until - 1


class AppendedRows:
    """Rows that are only added, each behind all others, and their numbering from 0.

    The last rows are listed in an array: the cost of a small addition is proportional to its rows, and they are read
    without a look-up.

    Args:
        rows: the first rows.
    """

    __slots__ = ("_count", "_rows", "_tail")

    def __init__(self, rows: RowSet) -> None:
        self._rows = rows
        self._tail = np.empty(_LEAST_TAIL, np.int64)  # what numberings have of it is not written again
        self._count = 0

    @property
    def size(self) -> int:
        """The number of rows."""
        return self._rows.size + self._count

    @property
    def last(self) -> int:
        """The last row; -1 without one."""
        if self._count:
            return int(self._tail[self._count - 1])
        return self._rows.last_key if self._rows else -1

    def append(self, keys: Int64Array) -> None:
        """Add the rows with these keys, ascending and all behind :attr:`last`."""
        count = self._count + len(keys)
        if count > _MOST_TAIL:
            self._rows = self.numbering().rows | RowSet.from_sorted_keys(keys)
            self._tail, self._count = np.empty(_LEAST_TAIL, np.int64), 0
            return
        if count > len(self._tail):
            grown = np.empty(min(2 * count, _MOST_TAIL), np.int64)
            grown[: self._count] = self._tail[: self._count]
            self._tail = grown
        self._tail[self._count : count] = keys
        self._count = count

    def numbering(self) -> Numbering:
        """The numbering of the present rows."""
        return Numbering(self._rows, 0, self._tail[: self._count])


def own_values(array: pa.Array, places: Int64Array) -> pa.Array:
    """The values at ``places`` of a heap column, in buffers of their own.

    A slice of a heap shares bitmaps and items with the rows beside it.
    """
    # as stored: taking list views keeps all of the items that they share
    return from_storage(take(to_storage(array), places), array.type)


class RenumberedView(ColumnView):
    """A column of another table, whose rows have the keys of a numbering.

    Args:
        view: the column.
        numbering: the keys; one object for all columns of a version, which share the search for the rows.
    """

    __slots__ = ("_numbering", "_view", "depth", "is_frozen", "type")

    def __init__(self, view: ColumnView, numbering: Numbering) -> None:
        self.type = view.type
        self.is_frozen = view.is_frozen
        self.depth = view.depth + 1
        self._view = view
        self._numbering = numbering

    def read(self, plan: ReadPlan) -> pa.Array:
        """Read the rows by their keys in the other table.

        The buffers of the array contain bytes of these rows only.
        """
        known = plan.in_source
        if known is None or known[0] is not self._numbering:
            known = plan.in_source = (self._numbering, self._numbering.plan_of(plan.rows))
        array = self._view.read(known[1])
        is_in_heap = storage_kind(self.type) is StorageKind.HEAP
        return own_values(array, np.arange(len(array))) if is_in_heap else array

    def piece_end(self, key: int) -> int:
        """The key of the last row in the same piece of storage."""
        numbering = self._numbering
        return numbering.last_until(self._view.piece_end(numbering.row_of(key)))

    def compact(self) -> None:
        """Compact the column."""
        self._view.compact()
