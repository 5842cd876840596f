"""Columns whose values lie in a heap, with their index in the cell: strings, binary and nested values."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from barrage_server.engine.cells import Cells, Pages, gather, gather_any, view
from barrage_server.engine.column import Column, ColumnSnapshot, Rows
from barrage_server.engine.heap import INDEX, MAX_CHUNK_ROWS, Heap, HeapView, IndexArray
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.types import storage_type
from barrage_server.engine.undo import Undo, UndoCursor, UndoEntry, restore
from barrage_server.engine.values import BoolArray, differs, storage_of, wrap
from barrage_server.rowset import RowSet

__all__ = ["HeapColumn"]

# Garbage below this size is not worth collecting.
_MIN_GARBAGE_BYTES = 1 << 20
_MAX_GARBAGE_ROWS = 1 << 24
_COMPACTION_STEP = 1 << 17


class _HeapSnapshot(ColumnSnapshot):
    __slots__ = ("_heap", "_page_bits", "_pages")

    def __init__(self, column: HeapColumn) -> None:
        super().__init__(column.type, column.number, column.epoch)
        self._page_bits = column.indexes.page_bits
        self._pages: Pages = column.indexes.pages
        self._heap: HeapView = column.heap.snapshot()

    def read(self, plan: ReadPlan, cursor: UndoCursor | None = None, *, frozen: bool = False) -> pa.Array:
        indexes = view(self._pages, plan, self._page_bits) if frozen else None
        if indexes is None:
            indexes = gather(self._pages, plan, INDEX, self._page_bits)
        if cursor is not None and not frozen:
            restore(cursor.entries(self.number, self.epoch), plan, indexes, None)
        return wrap(self._heap.take(indexes), self.type)


class HeapColumn(Column):
    """A column of values of variable width.

    Args:
        data_type: the Arrow type.
        number: the column's number in its table.
        page_bits: rows per page of storage, as a power of two.
    """

    def __init__(self, data_type: pa.DataType, number: int, page_bits: int) -> None:
        super().__init__(data_type, number)
        self._page_bits = page_bits
        self._start()

    def _start(self) -> None:
        self.indexes = Cells(INDEX, page_bits=self._page_bits)
        self.heap = Heap(storage_type(self.type), chunk_rows=min(MAX_CHUNK_ROWS, 1 << self._page_bits))
        # While rows are only ever added behind all others, indexes increase with row keys, and old chunks can be
        # dropped.
        self._in_order = True
        self._last_key = -1

    @property
    def nbytes(self) -> int:
        """Bytes of the cells and of the heap, garbage included."""
        return self.indexes.nbytes + self.heap.nbytes

    def write(self, rows: Rows, values: pa.Array, undo: Undo | None) -> None:
        """Append ``values`` to the heap and set the indexes; see :meth:`Column.write`."""
        plan = ReadPlan.of(rows)
        self.check(plan, values)
        if plan.size:
            self._write_indexes(plan, self.heap.append(storage_of(values)), undo)

    def _write_indexes(self, plan: ReadPlan, indexes: IndexArray, undo: Undo | None) -> None:
        if plan.first_key <= self._last_key:
            self._in_order = False
        self._last_key = max(self._last_key, plan.last_key)
        if self.indexes.was_dropped(plan):
            # See FixedColumn: older versions keep the pages that there are.
            self.epoch += 1
            self.indexes.leave_pages()
        self.indexes.reserve(plan)
        if undo is not None:
            undo.record(UndoEntry(self.number, self.epoch, plan.keys, self.indexes.gather(plan), None))
        self.indexes.scatter(plan, indexes)

    def move(self, sources: Int64Array, targets: Int64Array, undo: Undo | None) -> None:
        """Copy indexes; values stay where they are. See :meth:`Column.move`."""
        if len(sources):
            self._in_order = False
            indexes = self.indexes.gather(ReadPlan.from_keys(sources))
            self._write_indexes(ReadPlan.from_keys(targets), indexes, undo)

    def changed(self, rows: Rows, values: pa.Array) -> BoolArray:
        """Compare values; see :meth:`Column.changed`."""
        plan = ReadPlan.of(rows)
        self.check(plan, values)
        changed = np.empty(plan.size, np.bool_)
        start = 0
        for stored in self.heap.snapshot().pieces(self.indexes.gather(plan)):
            stop = start + len(stored)
            changed[start:stop] = differs(stored, values.slice(start, len(stored)))
            start = stop
        return changed

    def read_current(self, keys: Int64Array) -> pa.Array:
        """The values as they are; see :meth:`Column.read_current`."""
        indexes = gather_any(self.indexes.pages, keys, INDEX, self._page_bits)
        return wrap(self.heap.snapshot().take(indexes), self.type)

    def snapshot(self) -> ColumnSnapshot:
        """The pages and the chunks that there are."""
        return _HeapSnapshot(self)

    def needs_compaction(self, live_rows: int) -> bool:
        """Whether most of the heap is garbage; see :meth:`Column.needs_compaction`."""
        stored = len(self.heap)
        return stored > 2 * live_rows and (self.heap.nbytes > _MIN_GARBAGE_BYTES or stored > _MAX_GARBAGE_ROWS)

    def compact(self, live: RowSet) -> None:
        """Copy the live values to a new heap, in key order; see :meth:`Column.compact`."""
        old_indexes, old_heap = self.indexes, self.heap.snapshot()
        self._start()
        self.epoch += 1
        for start in range(0, live.size, _COMPACTION_STEP):
            plan = ReadPlan.from_row_set(live.slice(start, start + _COMPACTION_STEP))
            new = [self.heap.append(values) for values in old_heap.pieces(old_indexes.gather(plan))]
            self._write_indexes(plan, np.concatenate(new), None)

    def drop_after(self, last_key: int) -> None:
        """Let go of pages; see :meth:`Column.drop_after`."""
        self.indexes.drop_after(last_key)

    def drop_before(self, first_key: int) -> None:
        """Let go of pages, and of chunks where values lie in key order; see :meth:`Column.drop_before`."""
        self.indexes.drop_before(first_key)
        if not self._in_order:
            return
        if first_key > self._last_key:
            self.heap.drop_before(self.heap.next_index)
            return
        page, offset = first_key >> self._page_bits, first_key & ((1 << self._page_bits) - 1)
        cells = self.indexes.pages.get(page)
        if cells is not None and offset < len(cells):
            index = self.heap.absolute(int(cells[offset]))
            if index < self.heap.next_index:  # otherwise the cell was never written
                self.heap.drop_before(index)
