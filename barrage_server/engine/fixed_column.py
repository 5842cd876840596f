"""Columns of fixed-width values, such as numbers, times and booleans.

The values lie in the cells themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine.cells import Cells, Pages, gather, gather_any, view
from barrage_server.engine.column import FEW_EQUAL, Column, ColumnSnapshot, Rows
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.types import cell_dtype
from barrage_server.engine.undo import Undo, UndoCursor, UndoEntry, restore
from barrage_server.engine.values import BoolArray, cells_differ, from_cells, to_cells
from barrage_server.rowset import RowSet

__all__ = ["FixedColumn"]


class _FixedSnapshot(ColumnSnapshot):
    __slots__ = ("_dtype", "_pages", "_recent", "_valid_pages")

    def __init__(self, column: FixedColumn) -> None:
        super().__init__(column.type, column.number, column.epoch, column.cells.page_bits)
        self._dtype = column.cells.dtype
        self._pages = column.cells.pages
        self._valid_pages = column.valid.pages
        self._recent = None if self._valid_pages else column.cells.recent

    def read(self, plan: ReadPlan, cursor: UndoCursor | None = None, *, frozen: bool = False) -> pa.Array:
        data = view(self._pages, plan, self.page_bits) if frozen else None
        if data is None and self._recent is not None:
            data = self._recent.find(plan)
            if data is not None:
                return from_cells(self.type, data, None)
        if data is None:
            data = gather(self._pages, plan, self._dtype, self.page_bits)
        valid = _gather_valid(self._valid_pages, plan, self.page_bits)
        if cursor is not None and not frozen:
            valid = restore(cursor.entries(self.number, self.epoch), plan, data, valid)
        return from_cells(self.type, data, valid)


class FixedColumn(Column):
    """A column of values of fixed width.

    Args:
        data_type: the Arrow type, bool or of fixed width.
        number: the column's number in its table.
        page_bits: rows per page of storage, as a power of two.
    """

    def __init__(self, data_type: pa.DataType, number: int, page_bits: int) -> None:
        super().__init__(data_type, number)
        self.cells = Cells(cell_dtype(data_type), page_bits=page_bits)
        # A page of validity exists only where some cell of the page was null once, and is as long as the page of cells.
        self.valid = Cells(np.bool_, page_bits=page_bits, fill=True)

    @property
    def nbytes(self) -> int:
        """Bytes of the cells and of their validity."""
        return self.cells.nbytes + self.valid.nbytes

    def expect(self, rows: RowSet) -> None:
        """Grow the pages once; see :meth:`Column.expect`."""
        plan = ReadPlan.of(rows)
        if not self.cells.was_dropped(plan):
            self.cells.reserve(plan)

    def write(self, rows: Rows, values: pa.Array, undo: Undo | None) -> None:
        """Set the values of ``rows``; see :meth:`Column.write`."""
        plan = ReadPlan.of(rows)
        self.check(plan, values)
        data, valid = to_cells(values)
        self._write_cells(plan, data, valid, undo)

    def overwrite(self, rows: Rows, values: pa.Array, undo: Undo) -> None:
        """Set the values of ``rows``; see :meth:`Column.overwrite`."""
        self.write(rows, values, undo)

    def update(self, rows: Rows, values: pa.Array, undo: Undo, order: Int64Array | None = None) -> BoolArray:
        """Overwrite the cells whose bytes differ; see :meth:`Column.update`."""
        plan = ReadPlan.of(rows)
        self.check(plan, values, order)
        old_data = self.cells.gather(plan)
        old_valid = _gather_valid(self.valid.pages, plan, self.valid.page_bits)
        data, valid = to_cells(values)
        if order is not None:
            data, valid = data.take(order), _chosen(valid, order)
        changed = cells_differ(old_data, old_valid, data, valid)
        count = int(np.count_nonzero(changed))
        if count:
            places = None if count == len(changed) else np.flatnonzero(changed)
            if places is not None and count < FEW_EQUAL * len(changed):
                plan = ReadPlan.from_keys(plan.keys.take(places))
                old_data, data = old_data.take(places), data.take(places)
                old_valid, valid = _chosen(old_valid, places), _chosen(valid, places)
            self._prepare(plan, exist=True)
            undo.record(UndoEntry(self.number, self.epoch, plan.keys, old_data, old_valid))
            self._set_cells(plan, data, valid)
            if places is not None and len(places) < plan.size:
                self.cells.recent = self.cells.recent and self.cells.recent.take(places)
        return changed

    def _write_cells(self, plan: ReadPlan, data: npt.NDArray[Any], valid: BoolArray | None, undo: Undo | None) -> None:
        if plan.size == 0:
            return
        self._prepare(plan)
        if undo is not None:
            old_valid = _gather_valid(self.valid.pages, plan, self.valid.page_bits)
            undo.record(UndoEntry(self.number, self.epoch, plan.keys, self.cells.gather(plan), old_valid))
        self._set_cells(plan, data, valid)

    def _prepare(self, plan: ReadPlan, *, exist: bool = False) -> None:
        """Make the cells of ``plan`` writable.

        Args:
            plan: the rows.
            exist: whether all their cells exist already.
        """
        if self.cells.was_dropped(plan):
            # A dropped page is created again. Older versions still hold the former one, to which records of the new one
            # must not apply: they keep the present pages, and later writes go to copies in a new epoch.
            self.epoch += 1
            self.cells.leave_pages()
            self.valid.leave_pages()
        if not exist or self.cells.are_shared:
            self.cells.reserve(plan)
        if self.valid.pages:
            self._lengthen_valid(plan)

    def _set_cells(self, plan: ReadPlan, data: npt.NDArray[Any], valid: BoolArray | None) -> None:
        self.cells.scatter(plan, data)
        if valid is not None or self.valid.pages:
            self._write_valid(plan, valid)

    def _lengthen_valid(self, plan: ReadPlan) -> None:
        """Extend pages of validity to the length of their pages of cells."""
        for page, _, _, _, _ in plan.segments(self.valid.page_bits):
            if page in self.valid.pages:
                self.valid.resize(page, len(self.cells.pages[page]))

    def _write_valid(self, plan: ReadPlan, valid: BoolArray | None) -> None:
        for page, where, start, stop, _ in plan.segments(self.valid.page_bits):
            if page in self.valid.pages or (valid is not None and not valid[start:stop].all()):
                self.valid.resize(page, len(self.cells.pages[page]))
                self.valid.pages[page][where] = True if valid is None else valid[start:stop]

    def move(self, sources: Int64Array, targets: Int64Array, undo: Undo | None) -> None:
        """Copy cells; see :meth:`Column.move`."""
        plan = ReadPlan.from_keys(sources)
        data = self.cells.gather(plan)
        valid = _gather_valid(self.valid.pages, plan, self.valid.page_bits)
        self._write_cells(ReadPlan.from_keys(targets), data, valid, undo)

    def discard(self, rows: RowSet) -> None:
        """Do nothing: an unused cell leaves no garbage."""

    def read_current(self, keys: Int64Array) -> pa.Array:
        """The cells as they are; see :meth:`Column.read_current`."""
        data = gather_any(self.cells.pages, keys, self.cells.dtype, self.cells.page_bits)
        valid = None
        if self.valid.pages:
            valid = gather_any(self.valid.pages, keys, self.valid.dtype, self.valid.page_bits, default=True)
        return from_cells(self.type, data, valid)

    def snapshot(self) -> ColumnSnapshot:
        """A snapshot of the present pages."""
        return _FixedSnapshot(self)

    def collect(self, live: RowSet, undo: Undo) -> None:
        """Do nothing: an overwritten cell leaves no garbage."""

    def drop_before(self, first_key: int) -> None:
        """Drop pages; see :meth:`Column.drop_before`."""
        self.cells.drop_before(first_key)
        self.valid.drop_before(first_key)

    def drop_after(self, last_key: int) -> None:
        """Drop pages; see :meth:`Column.drop_after`."""
        self.cells.drop_after(last_key)
        self.valid.drop_after(last_key)


def _chosen(valid: BoolArray | None, places: Int64Array) -> BoolArray | None:
    return None if valid is None else valid.take(places)


def _gather_valid(pages: Pages, plan: ReadPlan, page_bits: int) -> BoolArray | None:
    """Whether each row of ``plan`` has a value; ``None`` if no page ever had nulls."""
    if not pages:
        return None
    valid: BoolArray | None = None
    for page, where, start, stop, _ in plan.segments(page_bits):
        flags = pages.get(page)
        if flags is not None:
            if valid is None:
                valid = np.ones(plan.size, np.bool_)
            valid[start:stop] = flags[where]
    return valid
