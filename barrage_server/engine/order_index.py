"""Rows in an order that is not that of their keys: a row key for each, so that few keys change with few rows.

Rows lie in leaves of 32 slots, packed to the left, with free slots behind them; the number of a slot is the row key
that a row has in this order. A row finds its place among the leaves by their first rows, then within a leaf. What a
leaf has no room for is spread over others (:mod:`.order_windows`). Rows behind the last one, or before the first one,
get leaves of their own. The values that rows are ordered by are not stored: the caller compares, and may give codes
that spare it most of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine.fixed_column import FixedColumn
from barrage_server.engine.order_fences import Fences, OrderCodes
from barrage_server.engine.order_windows import BITS, FILLED, SLOTS, Hot, lay_out, ranges, windows_of
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.redirected import numbers_of
from barrage_server.engine.sorting import sort_with_positions
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.undo import Undo
from barrage_server.engine.view import StoredView
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["Before", "Moves", "OrderIndex"]

Before: TypeAlias = Callable[[Int64Array, Int64Array], npt.NDArray[np.bool_]]
"""Says of new rows, by their positions, whether each comes before one of the rows that are there, by their keys."""

_MIDDLE: Final = 1 << (40 - BITS)
"""The first leaf in the beginning, so that there is room for leaves on both sides."""
_BLOCK: Final = 1 << 16

MAP_SCHEMA: Final = pa.schema([("row", pa.int64())])


class Moves(NamedTuple):
    """What a change has done to row keys.

    Attributes:
        removed: the keys of rows that have gone, and of changed rows that now have another place.
        added: the keys of new rows, and of changed rows in their new place.
        shifted: how the keys of others have moved.

    """

    removed: RowSet
    added: RowSet
    shifted: RowSetShiftData


class OrderIndex:
    """The order of some rows.

    Args:
        versioned: whether versions are made with :meth:`view`, so that what is overwritten must be kept for them.
        follows: whether rows will change. If not, there are no free slots, and where a row is cannot be asked:
            :meth:`fill`, :meth:`rank`, :meth:`keys_at` and :meth:`view` may be used.

    Attributes:
        store: one column: the key that the row in a slot has in its table.
        rows: the slots that hold rows: their row keys.

    """

    def __init__(self, *, versioned: bool = True, follows: bool = True) -> None:
        self._versioned = versioned
        self._follows = follows
        self._fences = Fences()
        self.store = ColumnStore(MAP_SCHEMA)
        self._slots = FixedColumn(pa.int64(), 0, self.store.columns[0].snapshot().page_bits)  # by the key of the row
        self._first = _MIDDLE
        self._counts = np.zeros(0, np.int16)  # rows of each leaf, from the first
        self.rows = RowSet.empty()
        self._is_new = True

    @property
    def nbytes(self) -> int:
        """Bytes of the order."""
        return self.store.nbytes + self._slots.nbytes + self._counts.nbytes + self._fences.nbytes

    def view(self) -> StoredView:
        """The present map from slots to rows, for a version."""
        return self.store.views()[0]

    def slots_of(self, keys: Int64Array) -> Int64Array:
        """The slots of rows, by their keys in any order."""
        return numbers_of(self._slots.read_current(keys))

    def keys_at(self, slots: Int64Array) -> Int64Array:
        """The keys of the rows in ``slots``."""
        return self._keys(slots)

    def rank(self, count: int, before: Before, codes: OrderCodes | None = None) -> Int64Array:
        """For ``count`` things the number of rows that each of them does not come before."""
        rest = _Rest(self._first, self._counts, np.zeros(0, np.int64))
        leaves, offsets = self._places(count, before, rest, codes)
        return self.rows.rank(((self._first + leaves) << BITS) + offsets)

    def drop_before(self, key: int) -> None:
        """Forget where rows with keys below ``key`` were; there are none any more, and will be none."""
        self._slots.drop_before(key)

    def forget_codes(self) -> None:
        """Take note that rows have other codes, in the same order."""
        self._fences.forget()

    def fill(self, rows: RowSet, order: Int64Array) -> None:
        """Take in all rows. There are none yet.

        Args:
            rows: the rows.
            order: their positions in ``rows``, in order.

        """
        self.forget_codes()
        if not rows:
            return
        count, width = rows.size, FILLED if self._follows else SLOTS
        leaves = -(-count // width)
        self._counts = np.full(leaves, width, np.int16)
        if count % width:
            self._counts[-1] = count % width
        begins = (self._first + np.arange(leaves)) << BITS
        if self._follows:
            ends = begins + (width - 1)
            ends[-1:] = begins[-1:] + self._counts[-1:] - 1
            self.rows = RowSet.from_ranges(begins, ends)
        else:
            self.rows = RowSet.from_range(self._first << BITS, (self._first << BITS) + count - 1)
        self._write_all(rows, order, (begins[:, None] + np.arange(width)).ravel()[:count] if self._follows else None)
        self._is_new = False

    def shift(self, before: Int64Array, after: Int64Array) -> None:
        """Take note that rows have other keys in their table, in the same order."""
        if len(before):
            slots = self.slots_of(before)
            order = np.argsort(slots)
            self.store.columns[0].write(slots[order], pa.array(after[order]), self._undo)
            self._slots.write(after, pa.array(slots), None)

    def change(
        self, gone: Int64Array, new: Int64Array, was: Int64Array, before: Before, codes: OrderCodes | None = None
    ) -> Moves:
        """Take rows out, and others in, which may be the same rows in another place.

        Args:
            gone: the slots of the rows that go, ascending.
            new: the keys of the rows that come, in their order.
            was: for each of them its slot among ``gone``, if it goes and comes back; otherwise -1.
            before: compares the latter with rows that stay. It is a strict order: no two rows are equal.
            codes: spare most comparisons. They are learned anew after a call without them.

        """
        if not self.rows:
            rows = RowSet.from_keys(new)
            self.fill(rows, rows.find(new))
            return Moves(RowSet.empty(), self.rows, RowSetShiftData.empty())
        if not len(gone) and not len(new):
            return Moves(RowSet.empty(), RowSet.empty(), RowSetShiftData.empty())
        rest = _Rest(self._first, self._counts, gone)
        leaves, offsets = self._places(len(new), before, rest, codes)
        moves = self._rebuild(rest, new, was, leaves, offsets, gone, codes)
        self._trim()
        return moves

    # Finding places.

    def _places(
        self, count: int, before: Before, rest: _Rest, codes: OrderCodes | None
    ) -> tuple[Int64Array, Int64Array]:
        """For each of ``count`` rows its leaf, and the number of rows that stay there and come before it."""
        filled = np.flatnonzero(rest.counts)
        if not len(filled) or not count:
            return np.zeros(count, np.int64), np.zeros(count, np.int64)

        def firsts(_items: Int64Array, places: Int64Array) -> Int64Array:
            leaves = filled[places]
            return self._keys(rest.slots(leaves, np.zeros(len(leaves), np.int64)))

        low, high = np.zeros(count, np.int64), np.full(count, len(filled), np.int64)
        if codes is not None and codes.own:
            if not self._fences.is_known:
                self._fences.learn(filled, len(rest.counts), codes.of(firsts(filled, np.arange(len(filled)))))
            low, high = self._fences.bounds(filled, codes.own)
            # the first row of the last leaf that begins before may have gone, and the next one come behind
            low = np.maximum(low - rest.lost_first[filled[np.maximum(low - 1, 0)]], 0)
        behind = _search(low, high, firsts, before)  # leaves whose first row comes before
        leaves = filled[np.maximum(behind - 1, 0)]

        def within(items: Int64Array, places: Int64Array) -> Int64Array:
            return self._keys(rest.slots(leaves[items], places))

        low = np.minimum(behind, 1)  # the first row of its leaf comes before
        high = np.where(behind > 0, rest.counts[leaves], 0).astype(np.int64)
        if codes is not None:  # most often it is the last one of its group, or of all
            some = np.flatnonzero(low < high)
            is_behind = ~before(some, within(some, high[some] - 1))
            low[some[is_behind]] = high[some[is_behind]]
            high[some[~is_behind]] -= 1
        return leaves, _search(low, high, within, before)

    # Making room.

    def _rebuild(
        self,
        rest: _Rest,
        new: Int64Array,
        was: Int64Array,
        leaves: Int64Array,
        offsets: Int64Array,
        gone: Int64Array,
        codes: OrderCodes | None,
    ) -> Moves:
        """Lay out anew the leaves that lose or get rows, and those between which an overflow is spread."""
        totals = rest.counts.astype(np.int64)
        np.add.at(totals, leaves, 1)
        hot = Hot.of(leaves, offsets)
        is_touched = np.zeros(len(totals), np.bool_)
        is_touched[rest.leaves] = is_touched[leaves] = True
        windows = windows_of(totals, np.flatnonzero(is_touched), hot, self._first)
        if windows.front:
            rest = rest.with_front(windows.front)
            leaves = leaves + windows.front
            self._first -= windows.front
        self._fences.resize(windows.front, windows.total)
        counts = np.zeros(windows.total, np.int16)
        counts[: len(rest.counts)] = rest.counts
        rest.counts = counts
        members = ranges(windows.starts, windows.ends)
        here = counts[members].astype(np.int64)
        ends = np.cumsum(here)
        begins = ends - here
        stayed = int(ends[-1]) if len(ends) else 0
        old_slots = rest.slots(np.repeat(members, here), np.arange(stayed) - np.repeat(begins, here))
        # new rows among those that stay
        places = begins[np.searchsorted(members, leaves)] + offsets + np.arange(len(new))
        is_new = np.zeros(stayed + len(new), np.bool_)
        is_new[places] = True
        keys = np.empty(len(is_new), np.int64)
        keys[is_new], keys[~is_new] = new, self._keys(old_slots)
        window = np.searchsorted(windows.starts, members, side="right") - 1
        rows = np.bincount(window, here, minlength=len(windows.starts)) + np.bincount(
            np.searchsorted(windows.starts, leaves, side="right") - 1, minlength=len(windows.starts)
        )
        filled = lay_out(windows, rows.astype(np.int64), places[hot.last] + 1)
        slots = np.repeat(((self._first + members) << BITS) - (np.cumsum(filled) - filled), filled)
        slots += np.arange(len(slots))
        counts[members] = filled
        self._counts = counts

        came, kept = slots[is_new], slots[~is_new]
        changed = is_new.copy()
        moved = kept != old_slots
        changed[~is_new] = moved
        self._write(slots[changed], keys[changed])
        self._fence(members, filled, changed, keys, codes)
        stays = came == was  # and as many of the others come before it as did
        stays[stays] = np.searchsorted(old_slots, came[stays]) == np.searchsorted(kept, came[stays])
        removed = RowSet.from_sorted_keys(np.setdiff1d(gone, came[stays], assume_unique=True))
        added = RowSet.from_sorted_keys(came[~stays])
        in_place = came[stays]
        shifted = _shifts(*(_merged(part, in_place) for part in (old_slots, kept)))
        self.rows = ((self.rows - removed) - RowSet.from_sorted_keys(old_slots[moved])) | RowSet.from_sorted_keys(
            slots[changed]
        )
        return Moves(removed, added, shifted)

    def _fence(
        self,
        members: Int64Array,
        filled: Int64Array,
        changed: npt.NDArray[np.bool_],
        keys: Int64Array,
        codes: OrderCodes | None,
    ) -> None:
        """Take note of the leaves among ``members`` that begin with another row."""
        if codes is None:
            self._fences.forget()
        elif self._fences.is_known:
            some = np.flatnonzero(filled)
            begins = (np.cumsum(filled) - filled)[some]
            other = changed[begins]
            if other.any():
                self._fences.update(members[some[other]], codes.of(keys[begins[other]]))

    def _trim(self) -> None:
        """Forget leaves without rows at both ends."""
        filled = np.flatnonzero(self._counts)
        if not len(filled):
            self._counts = self._counts[:0]
            self.forget_codes()
            return
        first, last = int(filled[0]), int(filled[-1])
        if first or last + 1 < len(self._counts):
            self._counts = self._counts[first : last + 1].copy()
            self._first += first
            self._fences.cut(first, last + 1)
            for column in self.store.columns:
                column.drop_before(self._first << BITS)
                column.drop_after(((self._first + len(self._counts)) << BITS) - 1)

    # Cells.

    @property
    def _undo(self) -> Undo | None:
        return self.store.undo if self._versioned else None

    def _keys(self, slots: Int64Array) -> Int64Array:
        return numbers_of(self.store.columns[0].read_current(slots))

    def _write_all(self, rows: RowSet, order: Int64Array, slots: Int64Array | None) -> None:
        """Write all ``rows`` in that order to :attr:`rows`, which are ``slots`` if it can be asked where rows are."""
        column = self.store.columns[0]
        keys = order if rows.is_flat else rows.keys()[order]
        self.store.expect(self.rows)
        column.write(self.rows if slots is None else slots, pa.array(keys), None if self._is_new else self._undo)
        if slots is not None:
            by_key = np.empty(len(slots), np.int64)
            by_key[order] = slots
            self._slots.write(rows, pa.array(by_key), None)

    def _write(self, slots: Int64Array, keys: Int64Array) -> None:
        for start in range(0, len(slots), _BLOCK):
            part, rows = slots[start : start + _BLOCK], keys[start : start + _BLOCK]
            self.store.columns[0].write(part, pa.array(rows), None if self._is_new else self._undo)
            ordered, positions = sort_with_positions(rows)
            self._slots.write(ordered, pa.array(part[positions]), None)


class _Rest:
    """The leaves without the rows that go: those that stay are closed up, although nothing has been written.

    Attributes:
        counts: rows of each leaf.
        leaves: the leaves that have lost rows, ascending.
        lost_first: of each leaf, whether it has lost its first row.

    """

    def __init__(self, first: int, counts: npt.NDArray[np.int16], gone: Int64Array) -> None:
        self._origin = first
        self.counts = counts.copy()
        local = (gone >> BITS) - first
        self.leaves = local[np.append(True, local[1:] != local[:-1])] if len(local) else local
        self._number = np.full(len(counts), -1, np.int32)
        self._number[self.leaves] = np.arange(len(self.leaves), dtype=np.int32)
        there = np.arange(SLOTS) < counts[self.leaves][:, None]
        there[self._number[local], gone & (SLOTS - 1)] = False
        left = there.sum(axis=1)
        self.lost_first = np.zeros(len(counts), np.bool_)
        self.lost_first[self.leaves] = ~there[:, 0]
        self.counts[self.leaves] = left
        rows, offsets = np.nonzero(there)
        self._slots = ((first + self.leaves[rows]) << BITS) + offsets
        self._starts = np.cumsum(left) - left

    def with_front(self, more: int) -> _Rest:
        """The same with ``more`` leaves in front."""
        self._number = np.concatenate((np.full(more, -1, np.int32), self._number))
        self.counts = np.concatenate((np.zeros(more, np.int16), self.counts))
        self.leaves = self.leaves + more
        self._origin -= more
        return self

    def slots(self, leaves: Int64Array, offsets: Int64Array) -> Int64Array:
        """Where rows are written: the ``offsets``-th of those that stay, of each leaf."""
        found = ((self._origin + leaves) << BITS) + offsets
        number = np.full(len(leaves), -1, np.int32)
        known = leaves < len(self._number)
        number[known] = self._number[leaves[known]]
        lost = number >= 0
        if lost.any():
            found[lost] = self._slots[self._starts[number[lost]] + offsets[lost]]
        return found


def _search(
    low: Int64Array, high: Int64Array, key_at: Callable[[Int64Array, Int64Array], Int64Array], before: Before
) -> Int64Array:
    """For each new row the first place from ``low`` whose row it comes before, or ``high``; they are changed."""
    while len(open_ := np.flatnonzero(low < high)):
        middle = (low[open_] + high[open_]) >> 1
        is_before = before(open_, key_at(open_, middle))
        high[open_[is_before]] = middle[is_before]
        low[open_[~is_before]] = middle[~is_before] + 1
    return low


def _merged(first: Int64Array, second: Int64Array) -> Int64Array:
    """Two ascending arrays as one."""
    if not len(second):
        return first
    return np.sort(np.concatenate((first, second)), kind="stable")  # merges, in linear time


def _shifts(before: Int64Array, after: Int64Array) -> RowSetShiftData:
    """The shifts of all rows of some leaves; other leaves may lie between them."""
    if not len(before):
        return RowSetShiftData.empty()
    deltas = after - before
    is_first = np.ones(len(before), np.bool_)
    is_first[1:] = (deltas[1:] != deltas[:-1]) | ((before[1:] >> BITS) - (before[:-1] >> BITS) > 1)
    first = np.flatnonzero(is_first)
    last = np.append(first[1:] - 1, len(before) - 1)
    moved = deltas[first] != 0
    return RowSetShiftData.from_arrays(before[first][moved], before[last][moved], deltas[first][moved])
