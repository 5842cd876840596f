"""The cells of a replica: addressed by row key, or by slot for sparse row keys.

The choice is repeated as rows are added and removed. A new layout has new columns, into which the rows are copied.
Older versions keep the former columns, which are not written any more; overwritten values are recorded in a new epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from barrage_server.engine.columns import Column, expect_rows
from barrage_server.engine.heap import READ_ROWS
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.row_slots import NO_SLOT, RowSlots
from barrage_server.engine.undo import Undo
from barrage_server.engine.values import take
from barrage_server.rowset import RowSet, RowSetShiftData
from barrage_server.wire.array_bound import read_in_parts

__all__ = ["ReplicaCells"]

NO_KEYS: Final[Int64Array] = np.empty(0, np.int64)
_Moves = tuple[Int64Array, Int64Array] | None

# Storage by row key takes memory in blocks of about this many cells, as a power of two.
_BLOCK_BITS: Final = 10
_BLOCK: Final = 1 << _BLOCK_BITS
# Cells per row from which slots are used, and up to which row keys are used; and number of cells below which neither
# applies.
_MOST_CELLS, _FEW_CELLS = 16, 4
_SMALL: Final = 1 << 16
# Rows copied per block without rows: each costs about a microsecond.
_ROWS_PER_BLOCK: Final = 256
_MIN_BLOCKS: Final = 256
# Slots per row, and number of slots, from which they are renumbered.
_SPARSE_SLOTS, _MIN_SLOTS = 4, 4096


class ReplicaCells:
    """Writes the columns of a replica, and chooses the layout of their cells.

    Args:
        columns: the columns; replaced by others when the layout changes.
        make_columns: makes empty columns like them.
        page_bits: rows per page of storage, as a power of two.
        is_window: whether storage is freed on both sides of the rows.

    Attributes:
        columns: the present columns.
        slots: the slots of the rows; ``None`` while cells are addressed by row key.
    """

    def __init__(
        self, columns: list[Column], make_columns: Callable[[], list[Column]], page_bits: int, *, is_window: bool
    ) -> None:
        self.columns = columns
        self.slots: RowSlots | None = None
        self._make_columns = make_columns
        self._page_bits = page_bits
        self._is_window = is_window
        self._used_to = -1  # the highest row key, or slot, that was ever written
        # By row key: the written blocks, and the number of them at which the layout is checked again.
        self._blocks = RowSet.empty()
        self._most_blocks = _MIN_BLOCKS
        # By slot: slots that are in use, that were and may be used again, and rows changed since the last look.
        self._used = RowSet.empty()
        self._free = RowSet.empty()
        self._changes = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the mapping."""
        slots = self.slots  # another thread may give them up
        return 0 if slots is None else slots.nbytes

    # The parts of an update, in this order.

    def remove(self, rows: RowSet) -> None:
        """Record that ``rows`` were removed."""
        if self.slots is None:
            for column in self.columns:
                column.discard(rows)
            return
        keys = rows.keys()
        gone = RowSet.from_keys(self.slots.find(keys))
        for column in self.columns:
            column.discard(gone)
        self._used, self._free = self._used - gone, self._free | gone
        self.slots = self.slots.changed(keys, np.full(len(keys), NO_SLOT, np.int64))
        self._changes += len(keys)

    def arrange(self, rows: RowSet, shifted: RowSetShiftData, added: RowSet, undo: Undo) -> RowSet:
        """Move rows, and choose the layout; returns the rows afterwards.

        Args:
            rows: the rows that stay, before they are moved.
            shifted: their shifts, clipped to them.
            added: the rows that :meth:`add` will write.
            undo: where old values go.
        """
        after = shifted.apply(rows) if shifted.size else rows
        moves = self._moves(rows, shifted)
        if self.slots is None:
            self._arrange_by_key(rows, after, moves, added, undo)
        else:
            self._arrange_by_slot(after, moves, added)
        return after

    def _arrange_by_key(self, rows: RowSet, after: RowSet, moves: _Moves, added: RowSet, undo: Undo) -> None:
        if self._is_window and added and self._blocks:
            # Storage outside of all rows is freed after they are written; uniting it with them costs more.
            first = min(after.first_key, added.first_key) if after else added.first_key
            last = max(after.last_key, added.last_key) if after else added.last_key
            self._keep_blocks(first, last)
        blocks = self._with_blocks(moves, added)
        if blocks.size > self._most_blocks:
            whole = after | added
            taken = whole.blocks(_BLOCK_BITS).size
            spare = whole.size // _ROWS_PER_BLOCK + _MIN_BLOCKS
            if taken * _BLOCK > _MOST_CELLS * whole.size + _SMALL:
                self.lay_out_by_slot(rows)
                self._move_slots(moves)
                return
            if blocks.size > taken + spare:
                self.lay_out_by_key(rows)
                blocks = self._with_blocks(moves, added)
            self._most_blocks = max(taken + spare, blocks.size + spare // 4)
        self._blocks = blocks
        if moves is not None:
            sources, targets = moves
            for column in self.columns:
                column.move(sources, targets, undo)
            self._used_to = max(self._used_to, int(targets[-1]))
        expect_rows(self.columns, added)

    def _arrange_by_slot(self, after: RowSet, moves: _Moves, added: RowSet) -> None:
        self._move_slots(moves)
        self._changes += added.size
        size = after.size + added.size
        if self._changes <= size // 2 + _MIN_BLOCKS:
            return
        self._changes = 0
        taken = (after | added).blocks(_BLOCK_BITS).size
        if taken * _BLOCK <= _FEW_CELLS * size + _SMALL // _FEW_CELLS:
            self.lay_out_by_key(after)
            self._blocks = self._with_blocks(None, added)
            self._most_blocks = self._blocks.size + size // _ROWS_PER_BLOCK + _MIN_BLOCKS
        elif self._used_to > _SPARSE_SLOTS * size + _MIN_SLOTS:
            self.lay_out_by_slot(after)

    def add(self, rows: RowSet, values: list[pa.Array], undo: Undo) -> None:
        """Write new rows.

        Args:
            rows: the rows.
            values: one array per column, in key order.
            undo: where old values go.
        """
        cells, reuses = rows, rows.first_key <= self._used_to
        if self.slots is not None:
            cells, reuses = self._take_slots(rows.size)
            self.slots = self.slots.changed(rows.keys(), cells.keys())
        for column, array in zip(self.columns, values, strict=True):
            column.write(cells, array, undo if reuses else None)
        self._used_to = max(self._used_to, cells.last_key)

    def modify(self, modified: Mapping[int, tuple[RowSet, pa.Array]], undo: Undo) -> None:
        """Overwrite cells.

        Args:
            modified: by column number, rows and their values in key order.
            undo: where old values go.
        """
        for number, (rows, values) in modified.items():
            if self.slots is None:
                self.columns[number].overwrite(rows, values, undo)
            else:
                plan, order = self.slots.plan(rows)
                self.columns[number].overwrite(plan, values if order is None else take(values, order), undo)

    def update(self, number: int, rows: RowSet | ReadPlan, values: pa.Array, undo: Undo) -> RowSet:
        """Overwrite the cells of a column that differ; returns the changed rows.

        Args:
            number: the number of the column.
            rows: the rows.
            values: their values, in key order.
            undo: where old values go.
        """
        column, plan = self.columns[number], ReadPlan.of(rows)
        if self.slots is None:
            flags = column.update(plan, values, undo)
            if np.count_nonzero(flags) == plan.size:
                return plan.rows
            changed = flags.nonzero()[0]
        else:
            cells, order = self.slots.plan(plan.rows)
            changed = np.flatnonzero(column.update(cells, values, undo, order))
            if order is not None:
                changed = np.sort(order[changed])
        return plan.rows if len(changed) == plan.size else RowSet.from_sorted_keys(plan.rows.select(changed))

    def read(self, number: int, rows: RowSet) -> pa.Array:
        """The present values of a column, in key order. For the writer only."""
        keys = rows.keys() if self.slots is None else self.slots.find(rows.keys())
        return self.columns[number].read_current(keys)

    def release(self, rows: RowSet) -> None:
        """Free the storage outside of ``rows``, the rows of the table."""
        if self.slots is not None:
            return
        first = rows.first_key if rows else self._used_to + 1
        for column in self.columns:
            column.drop_before(first)
            if self._is_window and rows:
                column.drop_after(rows.last_key)
        last = rows.last_key if self._is_window and rows else self._used_to
        self._keep_blocks(first, max(first, last))

    def collect(self, rows: RowSet, undo: Undo) -> None:
        """Collect garbage in the columns of a table with ``rows``."""
        for column in self.columns:
            column.collect(rows if self.slots is None else self._used, undo)

    def _keep_blocks(self, first: int, last: int) -> None:
        """Forget the blocks in pages without row keys from ``first`` to ``last``."""
        pages = self._page_bits - _BLOCK_BITS
        first_block = (first >> self._page_bits) << pages
        last_block = (((last >> self._page_bits) + 1) << pages) - 1
        self._blocks = self._blocks.restrict(first_block, last_block)

    # Moving.

    def _moves(self, rows: RowSet, shifted: RowSetShiftData) -> _Moves:
        """The keys of moving rows, before and after the shifts."""
        moving = (rows & shifted.sources()).keys() if shifted.size else NO_KEYS
        return (moving, shifted.apply_keys(moving)) if len(moving) else None

    def _with_blocks(self, moves: _Moves, added: RowSet) -> RowSet:
        """The written blocks, and the blocks that the update will write."""
        blocks = self._blocks
        if moves is not None:
            blocks = blocks | _blocks_of(RowSet.from_sorted_keys(moves[1]), blocks)
        return blocks | _blocks_of(added, blocks)

    def _move_slots(self, moves: _Moves) -> None:
        if moves is not None and self.slots is not None:
            sources, targets = moves
            without = np.full(len(sources), NO_SLOT, np.int64)
            slots = np.concatenate((without, self.slots.find(sources)))
            self.slots = self.slots.changed(np.concatenate((sources, targets)), slots)
            self._changes += len(sources)

    def _take_slots(self, count: int) -> tuple[RowSet, bool]:
        """Slots for new rows, and whether some of them were in use before."""
        reused = self._free.slice(0, count)
        self._free = self._free - reused
        fresh = RowSet.from_range(self._used_to + 1, self._used_to + count - reused.size)
        taken = reused | fresh
        self._used = self._used | taken
        return taken, bool(reused)

    # Other layouts.

    def lay_out_by_key(self, rows: RowSet) -> None:
        """Copy the cells of ``rows`` to the places of their keys."""
        self._copy(rows, lambda part, _: part)
        self.slots = None
        self._used = self._free = RowSet.empty()
        self._used_to = rows.last_key if rows else -1
        self._blocks = rows.blocks(_BLOCK_BITS)

    def lay_out_by_slot(self, rows: RowSet) -> None:
        """Copy the cells of ``rows`` to slots in the order of their keys."""
        self._copy(rows, lambda part, start: RowSet.from_range(start, start + part.size - 1))
        self.slots = RowSlots().changed(rows.keys(), np.arange(rows.size, dtype=np.int64))
        self._used, self._free = RowSet.flat(rows.size), RowSet.empty()
        self._used_to = rows.size - 1
        self._changes = 0
        self._blocks = RowSet.empty()
        self._most_blocks = _MIN_BLOCKS

    def _copy(self, rows: RowSet, places: Callable[[RowSet, int], RowSet]) -> None:
        """Replace the columns by new ones with the cells of ``rows``."""
        made = self._make_columns()
        for before, column in zip(self.columns, made, strict=True):
            column.epoch = before.epoch + 1
        for start in range(0, rows.size, READ_ROWS):
            part = rows.slice(start, start + READ_ROWS)
            keys = part.keys() if self.slots is None else self.slots.find(part.keys())
            plan = ReadPlan.from_row_set(places(part, start))
            for before, column in zip(self.columns, made, strict=True):
                _copy_cells(before, keys, column, plan)
        self.columns = made


def _copy_cells(before: Column, keys: Int64Array, column: Column, plan: ReadPlan) -> None:
    """Copy cells, in parts if they are too large for one array."""
    for start, stop, values in read_in_parts(lambda start, stop: before.read_current(keys[start:stop]), 0, len(keys)):
        part = plan if stop - start == len(keys) else ReadPlan.from_keys(plan.keys[start:stop])
        column.write(part, values, None)


def _blocks_of(rows: RowSet, known: RowSet) -> RowSet:
    """The blocks of ``rows``; none if ``known``, as one run, contains them all."""
    if not rows:
        return rows
    if known and known.is_contiguous:
        first, last = rows.first_key >> _BLOCK_BITS, rows.last_key >> _BLOCK_BITS
        if known.first_key <= first and last <= known.last_key:
            return RowSet.empty()
    return rows.blocks(_BLOCK_BITS)
