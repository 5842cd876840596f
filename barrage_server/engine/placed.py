"""Columns of some rows of another table, under stable row keys of their own."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.redirected import in_order, numbers_of
from barrage_server.engine.renumbered import own_values
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.types import StorageKind, storage_kind
from barrage_server.engine.undo import Undo
from barrage_server.engine.values import take
from barrage_server.engine.view import ColumnView
from barrage_server.rowset import MAX_KEY, RowSet

__all__ = ["PlacedRows", "PlacedView"]

_SOURCE: Final = pa.schema([pa.field("source", pa.int64(), nullable=False)])
_NO_KEY: Final = -1


class PlacedRows:
    """Rows that come and go anywhere in a table, and their own row keys.

    A new row takes the key of a removed one, or the next unused key. No key depends on other rows of the table. The
    cost of a change is proportional to the rows that come and go. The state takes 8 bytes per row, and 8 per row key of
    the source table, whose keys should lie close together.

    Args:
        rows: the first rows, by their keys in the source table. Their own keys are 0, 1, 2 and so on.

    Attributes:
        rows: the own keys of the rows.
    """

    __slots__ = ("_count", "_free", "_keys", "_next", "_store", "rows")

    def __init__(self, rows: RowSet) -> None:
        self.rows = RowSet.flat(rows.size)
        self._next = rows.size
        self._free = np.empty(0, np.int64)  # own keys of rows that have gone, of which the first ones count
        self._count = 0
        self._store = ColumnStore(_SOURCE)  # of each own key the source row
        self._keys = np.full(rows.last_key + 1 if rows else 0, _NO_KEY, np.int64)  # of each source row the own key
        if rows:
            self._store.expect(self.rows)
            self._set(self.rows.keys(), rows.keys(), None)

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return self._store.nbytes + self._keys.nbytes + self._free.nbytes

    def find(self, rows: Int64Array) -> Int64Array:
        """The own keys of ``rows`` (ascending); -1 for rows that are not included."""
        if not len(rows) or rows[-1] < len(self._keys):
            return self._keys[rows]
        found = np.full(len(rows), _NO_KEY, np.int64)
        known = int(rows.searchsorted(len(self._keys)))
        found[:known] = self._keys[rows[:known]]
        return found

    def change(self, gone: Int64Array, came: Int64Array) -> tuple[RowSet, RowSet]:
        """Remove rows, then add others.

        Args:
            gone: the removed rows, each once and all included now.
            came: the added rows, ascending, none among the rows that stay.

        Returns:
            The own keys of the removed rows, and of the added ones. A key may be in both.
        """
        freed = self._keys[gone]
        freed.sort()
        self._keys[gone] = _NO_KEY
        reused = min(len(freed), len(came))
        taken, left = freed[:reused], freed[reused:]
        removed = added = RowSet.from_sorted_keys(freed)
        if len(left):
            self._release(left)
            self.rows = self.rows ^ RowSet.from_sorted_keys(left)
            added = RowSet.from_sorted_keys(taken)
        elif len(came) > reused:
            more = self._take(len(came) - reused)
            self.rows = self.rows ^ RowSet.from_sorted_keys(more)
            taken = np.concatenate((taken, more))
            taken.sort()
            added = RowSet.from_sorted_keys(taken)
        if len(came):
            self._set(taken, came, self._store.undo)
        return removed, added

    def sources(self) -> ColumnView:
        """The present source row of each own key. To be called once per version."""
        (view,) = self._store.views()
        return view

    def _take(self, count: int) -> Int64Array:
        """``count`` free keys, ascending: keys of removed rows, then unused keys."""
        reused = min(count, self._count)
        self._count -= reused
        fresh = np.arange(self._next, self._next + count - reused, dtype=np.int64)
        self._next += len(fresh)
        return np.concatenate((np.sort(self._free[self._count : self._count + reused]), fresh))

    def _release(self, keys: Int64Array) -> None:
        count = self._count + len(keys)
        if count > len(self._free):
            self._free = np.concatenate((self._free[: self._count], keys, np.empty(count // 2, np.int64)))
        else:
            self._free[self._count : count] = keys
        self._count = count

    def _set(self, keys: Int64Array, rows: Int64Array, undo: Undo | None) -> None:
        """Give ``keys`` to ``rows``; both are ascending."""
        if rows[-1] >= len(self._keys):
            grown = np.full(max(int(rows[-1]) + 1, len(self._keys) * 5 // 4), _NO_KEY, np.int64)
            grown[: len(self._keys)] = self._keys
            self._keys = grown
        self._keys[rows] = keys
        self._store.columns[0].write(keys, pa.array(rows), undo)


class PlacedView(ColumnView):
    """A column of another table, whose rows have the keys of placed rows.

    Args:
        view: the column.
        sources: the source row of each key; one object for all columns of a version, which share the search for the
            rows.
    """

    __slots__ = ("_copies", "_sources", "_view", "depth", "is_frozen", "type")

    def __init__(self, view: ColumnView, sources: ColumnView) -> None:
        self.type = view.type
        self.is_frozen = False
        self.depth = view.depth + 1
        self._view = view
        self._sources = sources
        self._copies = storage_kind(view.type) is StorageKind.HEAP

    def read(self, plan: ReadPlan) -> pa.Array:
        """Read the rows in the order of the other table, and reorder them.

        The buffers of the array contain bytes of these rows only.
        """
        known = plan.in_source
        if known is None or known[0] is not self._sources:
            known = plan.in_source = (self._sources, _ordered(numbers_of(self._sources.read(plan))))
        inner, places = known[1]
        array = self._view.read(inner)
        if self._copies:
            return own_values(array, np.arange(len(array)) if places is None else places)
        return array if places is None else take(array, places)

    def piece_end(self, key: int) -> int:  # noqa: ARG002  (as every view has it)
        """The end of the key space, because values are copied in any case."""
        return MAX_KEY

    def compact(self) -> None:
        """Compact the column and the map of source rows."""
        self._view.compact()
        self._sources.compact()


def _ordered(rows: Int64Array) -> tuple[ReadPlan, Int64Array | None]:
    """The plan for distinct rows in any order, and their places (``None``: in order)."""
    if bool((rows[1:] > rows[:-1]).all()):
        return ReadPlan.from_keys(rows), None
    return in_order(rows)
