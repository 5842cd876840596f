"""Rows in an order other than that of their keys, with stable row keys.

A row has a row key in this order, too, and few of these keys change with few rows. Rows lie in leaves of 32 slots, in
order, with free slots among them; the number of a slot is the row key. A row finds its leaf by the first rows of the
leaves, then its place within the leaf. It gets a free slot there, or the rows up to the next free slot make room
(:mod:`.order_places`). Rows for which a leaf has no room are spread over other leaves (:mod:`.order_windows`). Rows
behind the last one, or before the first one, get leaves of their own. The values that define the order are not stored:
the caller compares rows, and may give codes that spare most comparisons.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine.cells import Cells, gather_any, gather_runs
from barrage_server.engine.fixed_column import FixedColumn
from barrage_server.engine.order_blocks import LEAVES, Blocks, Growth
from barrage_server.engine.order_fences import Fences, OrderCodes
from barrage_server.engine.order_layout import LaidOut
from barrage_server.engine.order_leaves import (
    BITS,
    SLOTS,
    FilledLeaves,
    Masks,
    Occupied,
    Rest,
    by_leaf,
    counts_of,
    distinct,
    first_slots,
    packed,
)
from barrage_server.engine.order_moves import Moves, OrderRows
from barrage_server.engine.order_places import Fitted, Places
from barrage_server.engine.order_positions import MOST_SELECTED, Positions
from barrage_server.engine.order_windows import FILLED, Hot, Windows, is_thin, windows_of
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.ranges import ranges_of
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.undo import Undo
from barrage_server.engine.view import StoredView
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["Before", "Moves", "OrderIndex"]

Before: TypeAlias = Callable[[Int64Array, Int64Array], npt.NDArray[np.bool_]]
"""Whether each new row, given by its position, comes before a placed row, given by its key."""

_BLOCK: Final = 1 << 16
_EARLY: Final = 0.72
"""Rows per slot from which a block may get more leaves early."""
_PACE: Final = 12
"""Rows that early growth may move for each new row, so that blocks filling up together grow one by one."""

MAP_SCHEMA: Final = pa.schema([("row", pa.int64())])


class OrderIndex:
    """An order of rows.

    Args:
        versioned: whether versions are made with :meth:`view`, so that overwritten cells must be kept.
        follows: whether rows will change. If not, there are no free slots, and only :meth:`fill`, :meth:`rank`,
            :meth:`keys_at` and :meth:`view` may be called.
        longest: the most leaves of a block, a power of two.

    Attributes:
        store: one column: the key of the row in each slot.
        follows: whether rows will change.
        size: the number of rows.
    """

    def __init__(self, *, versioned: bool = True, follows: bool = True, longest: int = LEAVES) -> None:
        self._versioned = versioned
        self.follows = follows
        self._fences = Fences()
        self.store = ColumnStore(MAP_SCHEMA)
        self.size = 0
        self._slots = Cells(np.int64)  # by the key of the row
        self._blocks = Blocks.of(0, longest)
        self._masks: Masks = np.zeros(0, np.uint32)
        self._credit = 0  # rows that blocks may move to grow early
        self._rows = OrderRows()
        self._positions: Positions | None = None  # until the order changes
        self._is_new = True

    @property
    def nbytes(self) -> int:
        """Bytes of the order."""
        return self.store.nbytes + self._slots.nbytes + self._masks.nbytes + self._fences.nbytes + self._rows.nbytes

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows."""
        return not len(self._masks)

    @property
    def rows(self) -> RowSet:
        """The slots that hold rows, as row keys."""
        return self._rows.get(self._blocks, self._masks)

    def rows_within(self, first: Int64Array, end: Int64Array) -> RowSet:
        """The slots of the rows from each position ``first`` up to its ``end``.

        Args:
            first: positions, ascending.
            end: positions behind them, up to the next one of ``first``.
        """
        count = int((end - first).sum())
        known = self._positions_for(count) if count <= MOST_SELECTED else None
        if known is None:
            return self.rows.subset(RowSet.from_ranges(first, end - 1))
        return RowSet.from_sorted_keys(known.slots(ranges_of(first, end - first)))

    def view(self) -> StoredView:
        """The present map from slots to rows, for a version."""
        return self.store.views()[0]

    def slots_of(self, keys: Int64Array) -> Int64Array:
        """The slots of rows, from their keys in any order."""
        return gather_any(self._slots.pages, keys, self._slots.dtype, self._slots.page_bits)

    def keys_at(self, slots: Int64Array) -> Int64Array:
        """The keys of the rows in ``slots``."""
        return self._keys(slots)

    def rank(self, count: int, before: Before, codes: OrderCodes | None = None) -> Int64Array:
        """For each of ``count`` items, the number of rows that it does not come before."""
        rest = Rest.unchanged(self._masks)
        places = self._places(count, before, rest, codes)
        positions = self._positions_for(count)
        if positions is None:
            return self.rows.rank(self._blocks.slots(places.leaves) + places.until)
        return positions.of_places(places.leaves, places.offsets)

    def positions_of(self, slots: Int64Array) -> Int64Array:
        """The positions of the rows in ``slots``."""
        positions = self._positions_for(len(slots))
        return self.rows.rank(slots) if positions is None else positions.of_slots(slots)

    def slots_at(self, positions: Int64Array) -> Int64Array:
        """The slots of the rows at ``positions``, in any order."""
        known = self._positions_for(len(positions)) if len(positions) <= MOST_SELECTED else None
        return self.rows.select(positions) if known is None else known.slots(positions)

    def drop_before(self, key: int) -> None:
        """Drop storage for row keys below ``key``, which are not used any more."""
        self._slots.drop_before(key)

    def forget_codes(self) -> None:
        """Take note that the codes of rows have changed, and their order has not."""
        self._fences.forget()

    def fill(self, rows: RowSet, order: Int64Array) -> None:
        """Add the first rows to an empty order.

        Args:
            rows: the rows.
            order: their positions in ``rows``, in order.
        """
        self.forget_codes()
        self._positions, self.size = None, rows.size
        if not rows:
            return
        count, width = rows.size, FILLED if self.follows else SLOTS
        leaves = -(-count // width)
        counts = np.full(leaves, width)
        if count % width:
            counts[-1] = count % width
        self._masks = packed(counts)
        self._blocks = Blocks.of(leaves, self._blocks.longest if self.follows else leaves)
        begins = self._blocks.slots(np.arange(leaves))
        if self.follows:
            self._rows.set(RowSet.from_ranges(begins, begins + counts - 1))
        else:
            self._rows.set(RowSet.from_range(self._blocks.first_slot, self._blocks.first_slot + count - 1))
        self._write_all(rows, order, (begins[:, None] + np.arange(width)).ravel()[:count] if self.follows else None)
        self._is_new = False

    def shift(self, before: Int64Array, after: Int64Array) -> None:
        """Take note that the keys of rows have changed, and their order has not."""
        if len(before):
            slots = self.slots_of(before)
            order = np.argsort(slots)
            self.store.columns[0].write(slots[order], pa.array(after[order]), self._undo)
            self._slots.scatter_any(after, slots)

    def change(
        self,
        gone: Int64Array,
        new: Int64Array,
        was: Int64Array,
        before: Before,
        codes: OrderCodes | None = None,
        behind: Int64Array | None = None,
    ) -> Moves:
        """Remove rows, and add others, which may be the same rows in another place.

        Args:
            gone: the slots of the removed rows, ascending.
            new: the keys of the added rows, in their order.
            was: the slot in ``gone`` of each added row that is removed as well; otherwise -1.
            before: compares added rows with rows that stay. It is a strict order: no two rows are equal.
            codes: spare most comparisons. They are learned again after a call without codes.
            behind: for each added row the key of the row that stays directly before it, if known; otherwise -1.
        """
        if self.is_empty:
            rows = RowSet.from_keys(new)
            self.fill(rows, rows.find(new))
            return Moves.of(RowSet.empty(), self.rows, RowSetShiftData.empty())
        if not len(gone) and not len(new):
            return Moves.of(RowSet.empty(), RowSet.empty(), RowSetShiftData.empty())
        rest = Rest(self._masks, self._blocks.places(gone))
        known = np.zeros(0, np.int64) if behind is None else np.flatnonzero(behind >= 0)
        if behind is None or not len(known):
            places = self._places(len(new), before, rest, codes)
        else:
            places = self._places_behind(behind, known, before, rest, codes)
        moves = self._take_in(rest, new, was, places, gone, codes)
        self._trim()
        self._positions, self.size = None, self.size + len(new) - len(gone)
        return moves

    # Finding places.

    def _places(self, count: int, before: Before, rest: Rest, codes: OrderCodes | None) -> Places:
        """The places of ``count`` rows among the rows that stay."""
        filled = FilledLeaves(rest.masks)
        if not filled.count or not count:
            return Places.at_start(count)

        def firsts(_items: Int64Array, places: Int64Array) -> Int64Array:
            leaves = filled.leaves(places)
            return self._keys(self._blocks.slots(leaves) + rest.first(leaves))

        low, high = np.zeros(count, np.int64), np.full(count, filled.count, np.int64)
        if codes is not None and codes.own:
            if not self._fences.is_known:
                every = np.arange(filled.count)
                self._fences.learn(filled.leaves(every), len(rest.masks), codes.of(firsts(every, every)))
            low, high = self._fences.bounds(filled, codes.own)
            # the first row of the last leaf that begins before may have gone, and the next one come behind
            low = np.maximum(low - rest.has_lost_first(filled.leaves(np.maximum(low - 1, 0))), 0)
        behind = _search(low, high, firsts, before)  # leaves whose first row comes before
        leaves = filled.leaves(np.maximum(behind - 1, 0))
        is_other = np.append(True, leaves[1:] != leaves[:-1])
        number = np.cumsum(is_other) - 1
        occupied = Occupied.of(rest.masks[leaves[is_other]])
        keys = self._keys_of_leaves(leaves[is_other])

        def within(items: Int64Array, offsets: Int64Array) -> Int64Array:
            own = number[items]
            found: Int64Array = keys[own, occupied.slots[occupied.starts[own] + offsets]]
            return found

        low = np.minimum(behind, 1)  # the first row of its leaf comes before
        high = np.where(behind > 0, occupied.counts[number], 0)
        if codes is not None:  # most often it is the last one of its group, or of all
            some = np.flatnonzero(low < high)
            is_behind = ~before(some, within(some, high[some] - 1))
            low[some[is_behind]] = high[some[is_behind]]
            high[some[~is_behind]] -= 1
        return Places.of(leaves, _search(low, high, within, before), occupied, number)

    def _places_behind(
        self, behind: Int64Array, known: Int64Array, before: Before, rest: Rest, codes: OrderCodes | None
    ) -> Places:
        """The places of rows, of which some are ``known`` to be directly behind others."""
        local = self._blocks.places(self.slots_of(behind[known]))
        leaves, slots = local >> BITS, local & (SLOTS - 1)
        offsets, until = rest.until(leaves, slots)
        found = Places(leaves, offsets, slots, until)
        others = np.flatnonzero(behind < 0)
        if not len(others):
            return found
        if codes is not None:
            codes = OrderCodes([part[others] for part in codes.own], codes.of)
        sought = self._places(len(others), lambda items, rows: before(others[items], rows), rest, codes)
        return Places.joined(known, found, others, sought)

    def _positions_for(self, look_ups: int) -> Positions | None:
        """The positions of rows; ``None`` if the row set is faster."""
        found = self._positions
        if not Positions.are_worth(look_ups, len(self._masks), known=found is not None):
            return None
        if found is None:
            found = self._positions = Positions(self._blocks, self._masks)
        return found

    # Making room.

    def _take_in(
        self, rest: Rest, new: Int64Array, was: Int64Array, places: Places, gone: Int64Array, codes: OrderCodes | None
    ) -> Moves:
        """Give the new rows slots: in their leaves, or in leaves laid out again."""
        places = places.spilled(rest.masks)
        fitted = Fitted.of(places, self._blocks.places(was), rest.masks)
        former = blocks = self._blocks
        touched = distinct((places.leaves[~fitted.is_fitted],), len(rest.masks))
        totals, hot = np.zeros(0, np.int64), Hot.of(places.leaves, places.offsets)
        whole = np.zeros(0, np.int64), np.zeros(0, np.int64)
        if rest.would_overflow(places.leaves) or is_thin(blocks.total, self.size - len(gone) + len(new)):
            totals = counts_of(rest.masks)
            np.add.at(totals, places.leaves, 1)
            windows = windows_of(totals, touched, hot, blocks, whole)
        else:
            windows = Windows.of_leaves(touched, blocks.total)
        full = self._growing(blocks, totals, windows, len(new))
        while len(full):
            blocks, where, starts, ends = Growth.of(blocks, np.add.reduceat(totals, blocks.begins), full)
            former = former.spread(where, blocks.total)
            rest, places, fitted = rest.spread(where, blocks.total), places.spread(where), fitted.spread(where)
            self._fences.spread(where, blocks.total)
            totals, sizes = np.zeros(blocks.total, np.int64), totals
            totals[where] = sizes
            touched, hot = where[touched], hot._replace(leaves=where[hot.leaves])
            whole = np.append(where[whole[0]], starts), np.append(where[whole[1] - 1] + 1, ends)
            windows = windows_of(totals, touched, hot, blocks, whole)
            full = windows.full
        former = former.padded(windows.front, windows.total)
        self._blocks = blocks = blocks.extended(windows.front, windows.total)
        rest = rest.resized(windows.front, windows.total)
        places, fitted = places.with_front(windows.front), fitted.with_front(windows.front)
        self._fences.resize(windows.front, windows.total)
        is_laid = np.zeros(windows.total, np.bool_)
        is_laid[ranges_of(windows.starts, windows.ends - windows.starts)] = True
        fitted = fitted.without(is_laid, places)
        others = np.flatnonzero(~fitted.is_fitted)
        laid = LaidOut.of(windows, rest, places.chosen(others), former, blocks)

        came = blocks.slots(places.leaves) + fitted.slots
        came[others] = laid.came
        pushed = blocks.slots(fitted.moved) + fitted.before
        movement = laid.movement.merged(pushed, pushed + fitted.steps)
        self._masks = masks = rest.masks
        masks[laid.members] = packed(laid.filled)
        for slots in (came[fitted.is_fitted], pushed + fitted.steps):
            leaves, bits = by_leaf(blocks.places(slots))
            masks[leaves] |= bits

        before, after = movement.moved()
        slots = np.concatenate((came, after))
        order = np.argsort(slots, kind="stable")  # merges, in linear time
        slots = slots[order]
        self._write(slots, np.concatenate((new, self._keys(before)))[order])
        self._fence(rest, (places.leaves, laid.members), slots, codes)
        self._rows.change(np.sort(np.concatenate((gone, before)), kind="stable"), slots, len(masks))

        def found() -> tuple[RowSet, RowSet, RowSetShiftData]:
            stays = movement.keep(came, was)
            in_place = came[stays]
            removed = np.setdiff1d(gone, in_place, assume_unique=True) if len(in_place) else gone
            shifted = movement.shifts(in_place, is_laid, former)
            return RowSet.from_sorted_keys(removed), RowSet.from_sorted_keys(came[~stays]), shifted

        return Moves(found)

    def _growing(self, blocks: Blocks, totals: Int64Array, windows: Windows, came: int) -> Int64Array:
        """The blocks that get more leaves: full ones, and some that soon will be.

        Args:
            blocks: the blocks.
            totals: the rows that each leaf is to have.
            windows: what would be laid out without more leaves.
            came: the number of rows that have come.
        """
        self._credit = min(self._credit + _PACE * came, blocks.longest * SLOTS)
        others = np.setdiff1d(windows.crowded, windows.full)
        if len(blocks.begins) == 1 or not len(others):
            return windows.full
        rows = np.add.reduceat(totals, blocks.begins)[others]
        load = rows / (SLOTS * (blocks.ends - blocks.begins)[others])
        order = np.argsort(-load)[: np.count_nonzero(load > _EARLY)]
        moved = np.cumsum(rows[order])
        early = np.count_nonzero(moved <= self._credit)
        self._credit -= int(moved[early - 1]) if early else 0
        return np.union1d(windows.full, others[order[:early]])

    def _fence(
        self, rest: Rest, touched: tuple[Int64Array, ...], written: Int64Array, codes: OrderCodes | None
    ) -> None:
        """Update the codes of the leaves that begin with another row.

        Args:
            rest: the leaves before new rows have come.
            touched: the leaves that have got rows, or have been laid out.
            written: the slots that have other rows, ascending.
            codes: give the codes of rows.
        """
        if codes is None:
            self._fences.forget()
        if not self._fences.is_known or codes is None:
            return
        leaves = distinct((rest.leaves, *touched), len(self._masks))
        leaves = leaves[self._masks[leaves] != 0]
        first = first_slots(self._masks[leaves])
        slots = self._blocks.slots(leaves) + first
        is_other = first != rest.former_first(leaves)
        if len(written):
            is_other |= written[np.minimum(np.searchsorted(written, slots), len(written) - 1)] == slots
        if is_other.any():
            self._fences.update(leaves[is_other], codes.of(self._keys(slots[is_other])))

    def _trim(self) -> None:
        """Remove leaves without rows at both ends."""
        if self._masks[0] and self._masks[-1]:
            return
        filled = np.flatnonzero(self._masks)
        if not len(filled):
            self._masks = self._masks[:0]
            for column in self.store.columns:
                column.drop_before(self._blocks.last_slot + 1)
            self._blocks = Blocks.of(0, self._blocks.longest)
            self.forget_codes()
            return
        first, last = int(filled[0]), int(filled[-1])
        if first or last + 1 < len(self._masks):
            self._masks = self._masks[first : last + 1].copy()
            self._blocks = self._blocks.cut(first, last + 1)
            self._fences.cut(first, last + 1)
            for column in self.store.columns:
                column.drop_before(self._blocks.first_slot)
                column.drop_after(self._blocks.last_slot)

    # Cells.

    @property
    def _undo(self) -> Undo | None:
        return self.store.undo if self._versioned else None

    @property
    def _cells(self) -> Cells:
        """The cells of the one column of :attr:`store`."""
        (column,) = self.store.columns
        assert isinstance(column, FixedColumn)
        return column.cells

    def _keys(self, slots: Int64Array) -> Int64Array:
        cells = self._cells
        return gather_any(cells.pages, slots, cells.dtype, cells.page_bits)

    def _keys_of_leaves(self, leaves: Int64Array) -> Int64Array:
        """Return the row keys in all slots of leaves, a line for each leaf.

        The values of free slots mean nothing.
        """
        cells = self._cells
        return gather_runs(cells.pages, self._blocks.slots(leaves), cells.dtype, cells.page_bits, BITS)

    def _write_all(self, rows: RowSet, order: Int64Array, slots: Int64Array | None) -> None:
        """Write all ``rows`` to the slots :attr:`rows`.

        Args:
            rows: the rows.
            order: their positions in ``rows``, in order.
            slots: the slots as an array, to store the slot of each row as well; ``None`` if no row's slot is asked for.
        """
        column = self.store.columns[0]
        keys = order if rows.is_flat else rows.keys()[order]
        self.store.expect(self.rows)
        column.write(self.rows if slots is None else slots, pa.array(keys), None if self._is_new else self._undo)
        if slots is not None:
            by_key = np.empty(len(slots), np.int64)
            by_key[order] = slots
            plan = ReadPlan.of(rows)
            self._slots.reserve(plan)
            self._slots.scatter(plan, by_key)

    def _write(self, slots: Int64Array, keys: Int64Array) -> None:
        for start in range(0, len(slots), _BLOCK):
            part, rows = slots[start : start + _BLOCK], keys[start : start + _BLOCK]
            self.store.columns[0].write(part, pa.array(rows), None if self._is_new else self._undo)
            self._slots.scatter_any(rows, part)


def _search(
    low: Int64Array, high: Int64Array, key_at: Callable[[Int64Array, Int64Array], Int64Array], before: Before
) -> Int64Array:
    """The first place from ``low`` before ``high`` whose row each row comes before."""
    while len(open_ := np.flatnonzero(low < high)):
        middle = (low[open_] + high[open_]) >> 1
        is_before = before(open_, key_at(open_, middle))
        high[open_[is_before]] = middle[is_before]
        low[open_[~is_before]] = middle[~is_before] + 1
    return low
