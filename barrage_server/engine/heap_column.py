"""Columns of variable-width values: strings, binary and nested values.

The values lie in a heap; a cell holds the index of its value.

Where rows are overwritten or removed one by one, the heap counts the values of each chunk that are in use. Garbage in
many chunks is collected by a *sweep*: a few rows at a time, in key order, the values in the chunks to empty are
appended to the heap again. Readers are not affected: the old index goes into the undo record like any other old cell.

Strings of few distinct values are kept once each (:mod:`barrage_server.engine.interner`), and leave no garbage.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from barrage_server.engine.cells import Pages, gather, gather_any, view
from barrage_server.engine.column import FEW_EQUAL, Column, ColumnSnapshot, Rows
from barrage_server.engine.heap import INDEX, INDEX_MASK, MAX_CHUNK_ROWS, READ_ROWS, Heap, HeapView, IndexArray
from barrage_server.engine.index_cells import IndexCells, IndexRun
from barrage_server.engine.interner import Interner
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.storage import from_storage, storage_type, to_storage
from barrage_server.engine.undo import Undo, UndoCursor, UndoEntry, restore
from barrage_server.engine.values import BoolArray, differs
from barrage_server.rowset import RowSet

__all__ = ["HeapColumn"]

_INTERNED = {pa.string(), pa.large_string(), pa.binary(), pa.large_binary()}
# Rows that a sweep checks per cycle: for each row written in it, and in addition.
_SWEEP, _MIN_SWEEP = 4, 4096
# Interned values are rebuilt when there are this many of them per remaining row, and this many bytes.
_WORN = 4
_MIN_WORN_BYTES = 1 << 20


class _HeapSnapshot(ColumnSnapshot):
    __slots__ = ("_heap", "_pages", "_recent")

    def __init__(self, column: HeapColumn) -> None:
        super().__init__(column.type, column.number, column.epoch, column.indexes.page_bits)
        self._pages: Pages = column.indexes.pages
        self._recent = column.indexes.recent
        self._heap: HeapView = column.heap.snapshot()

    def read(self, plan: ReadPlan, cursor: UndoCursor | None = None, *, frozen: bool = False) -> pa.Array:
        indexes = None
        if frozen:
            segments = plan.segments(self.page_bits)
            line = self._pages.get(segments[0].page) if len(segments) == 1 else None
            if isinstance(line, IndexRun) and isinstance(segments[0].where, slice) and segments[0].top <= line.size:
                return from_storage(self._heap.run(line.start + segments[0].where.start, plan.size), self.type)
            indexes = view(self._pages, plan, self.page_bits)
        if indexes is None and self._recent is not None:
            indexes = self._recent.find(plan)
            if indexes is not None:
                return from_storage(self._heap.take(indexes), self.type)
        if indexes is None:
            indexes = gather(self._pages, plan, INDEX, self.page_bits)
        if cursor is not None and not frozen:
            restore(cursor.entries(self.number, self.epoch), plan, indexes, None)
        return from_storage(self._heap.take(indexes), self.type)


class HeapColumn(Column):
    """A column of values of variable width.

    Args:
        data_type: the Arrow type.
        number: the column's number in its table.
        page_bits: rows per page of storage, as a power of two.
        reuses: whether values are released one by one, so that garbage must be collected. Otherwise they are dropped in
            the order of their appends, or never.
        interns: whether equal values may be kept once.
    """

    def __init__(self, data_type: pa.DataType, number: int, page_bits: int, *, reuses: bool, interns: bool) -> None:
        super().__init__(data_type, number)
        self._page_bits = page_bits
        self._reuses = reuses
        self.indexes = IndexCells(page_bits=page_bits)
        most = MAX_CHUNK_ROWS if reuses else READ_ROWS
        self.heap = Heap(storage_type(data_type), chunk_rows=min(most, 1 << page_bits))
        can_intern = reuses and interns and self.heap.type in _INTERNED
        self._interner = Interner(self.heap) if can_intern else None
        # While rows are only ever added behind all others, indexes increase with row keys, and old chunks can be
        # dropped.
        self._in_order = not reuses
        self._last_key = -1
        self._written = 0  # rows since the last look for garbage
        self._sweep: tuple[int, int, int] | None = None  # empties these indexes; has come to this row key

    @property
    def nbytes(self) -> int:
        """Bytes of the cells and of the heap, garbage included."""
        interner = self._interner  # another thread may give it up
        return self.indexes.nbytes + self.heap.nbytes + (0 if interner is None else interner.nbytes)

    def write(self, rows: Rows, values: pa.Array, undo: Undo | None) -> None:
        """Append ``values`` to the heap and set the indexes; see :meth:`Column.write`."""
        plan = ReadPlan.of(rows)
        self.check(plan, values)
        if plan.size == 0:
            return
        if undo is None and plan.is_contiguous and not self._is_interning:
            first = self.heap.extend(to_storage(values))
            self._prepare(plan)
            self.indexes.write_run(plan, first)
        else:
            self._write_indexes(plan, self._append(values), undo)

    def restore(self, rows: Rows, values: pa.Array) -> None:
        """Write rows that no version has; see :meth:`Column.restore`.

        Each value of a dictionary is looked up once.
        """
        if not (isinstance(values, pa.DictionaryArray) and values.type.value_type == self.type and self._is_interning):
            super().restore(rows, values)
            return
        assert self._interner is not None
        plan = ReadPlan.of(rows)
        if plan.size:
            self._write_indexes(plan, self._interner.append_encoded(values), None)

    def overwrite(self, rows: Rows, values: pa.Array, undo: Undo) -> None:
        """Overwrite the values, and release the old ones; see :meth:`Column.overwrite`."""
        plan = ReadPlan.of(rows)
        self.check(plan, values)
        if plan.size:
            self._release(self._write_indexes(plan, self._append(values), undo))

    def update(self, rows: Rows, values: pa.Array, undo: Undo, order: Int64Array | None = None) -> BoolArray:
        """Overwrite the values that differ; see :meth:`Column.update`."""
        plan = ReadPlan.of(rows)
        self.check(plan, values, order)
        if plan.size == 0:
            return np.zeros(0, np.bool_)
        values = to_storage(values)
        old = self.indexes.gather(plan)
        given = None
        if self._is_interning:
            given = self._append(values)  # all of them: putting indexes in order costs much less than values
        if self._is_interning and given is not None:
            new = given if order is None else given.take(order)
            changed: BoolArray = old != new
            count = int(np.count_nonzero(changed))
            if count == 0:
                return changed
            places = None if count == len(changed) else np.flatnonzero(changed)
            if places is not None and count < FEW_EQUAL * len(changed):
                plan, old, new = ReadPlan.from_keys(plan.keys.take(places)), old.take(places), new.take(places)
            self._write_indexes(plan, new, undo, old)
            if places is not None and len(places) < plan.size:
                self.indexes.recent = self.indexes.recent and self.indexes.recent.take(places)
            return changed
        if order is not None:
            values = values.take(pa.array(order))
        changed = self._differ(old, values)
        if given is not None:  # it was given up just now
            wanted = np.flatnonzero(changed) if order is None else order[changed]
            unused = np.ones(len(given), np.bool_)
            unused[wanted] = False
            self.heap.release(given[unused])
        if changed.any():
            if not changed.all():
                plan, old = ReadPlan.from_keys(plan.keys[changed]), old[changed]
                values = values.filter(pa.array(changed))
            self._write_indexes(plan, self._append(values) if given is None else given[wanted], undo, old)
            self._release(old)
        return changed

    @property
    def counts_values(self) -> bool:
        """Whether the heap counts the values in use."""
        return self._reuses and not self._is_interning

    @property
    def _is_interning(self) -> bool:
        return self._interner is not None and self._interner.is_active

    def _append(self, values: pa.Array) -> IndexArray:
        stored = to_storage(values)
        if self._interner is None or not self._interner.is_active:
            return self.heap.append(stored)
        return self._interner.append(stored)

    def _differ(self, indexes: IndexArray, values: pa.Array) -> BoolArray:
        """Whether each of ``values`` differs from the value at its index."""
        changed = np.empty(len(indexes), np.bool_)
        start = 0
        for stored in self.heap.snapshot().pieces(indexes):
            stop = start + len(stored)
            changed[start:stop] = differs(stored, values.slice(start, len(stored)))
            start = stop
        return changed

    def _prepare(self, plan: ReadPlan) -> None:
        """Prepare for writing the cells of ``plan``."""
        self._written += plan.size
        if plan.first_key <= self._last_key:
            self._in_order = False
        self._last_key = max(self._last_key, plan.last_key)
        if self.indexes.was_dropped(plan):
            # See FixedColumn: older versions keep the present pages.
            self.epoch += 1
            self.indexes.leave_pages()

    def _write_indexes(
        self, plan: ReadPlan, indexes: IndexArray, undo: Undo | None, old: IndexArray | None = None
    ) -> IndexArray:
        """Set the cells of ``plan``, and record the old ones in ``undo``.

        Returns:
            The old cells; an empty array if ``undo`` is ``None``.
        """
        self._prepare(plan)
        self.indexes.reserve(plan)
        if undo is not None:
            old = self.indexes.gather(plan) if old is None else old
            undo.record(UndoEntry(self.number, self.epoch, plan.keys, old, None))
        self.indexes.scatter(plan, indexes)
        return indexes[:0] if old is None else old

    def move(self, sources: Int64Array, targets: Int64Array, undo: Undo | None) -> None:
        """Copy indexes; the values stay where they are. See :meth:`Column.move`."""
        if len(sources):
            self._in_order = False
            indexes = self.indexes.gather(ReadPlan.from_keys(sources))
            plan = ReadPlan.from_keys(targets)
            self._write_indexes(plan, indexes, undo)
            if self._sweep is not None and undo is not None:  # they may have come to where it has been
                self._move_values(plan, undo)

    def discard(self, rows: RowSet) -> None:
        """Release the values of ``rows``; see :meth:`Column.discard`."""
        if rows and self.counts_values:
            self.heap.release(self.indexes.gather(ReadPlan.from_row_set(rows)))
        self._written += rows.size

    def _release(self, indexes: IndexArray) -> None:
        if self.counts_values:
            self.heap.release(indexes)

    def read_current(self, keys: Int64Array) -> pa.Array:
        """The values as they are; see :meth:`Column.read_current`."""
        indexes = gather_any(self.indexes.pages, keys, INDEX, self._page_bits)
        return from_storage(self.heap.snapshot().take(indexes), self.type)

    def snapshot(self) -> ColumnSnapshot:
        """A snapshot of the present pages and chunks."""
        return _HeapSnapshot(self)

    def collect(self, live: RowSet, undo: Undo) -> None:
        """Continue or begin a sweep; see :meth:`Column.collect`."""
        if not self._reuses:
            return
        budget, self._written = _SWEEP * self._written + _MIN_SWEEP, 0
        if (
            self._interner is not None
            and self._interner.count > _WORN * live.size
            and self.heap.nbytes > _MIN_WORN_BYTES
        ):
            self._begin_anew(live, undo)
        if self._sweep is None:
            collectable_span = self.heap.collectable_span()
            if collectable_span is None:
                return
            self.heap.close()
            self._sweep = (*collectable_span, 0)
        first, stop, next_key = self._sweep
        start = int(live.rank([next_key])[0]) if live and next_key <= live.last_key else live.size
        rows = live.slice(start, start + budget)
        self._move_values(ReadPlan.from_row_set(rows), undo)
        if start + budget < live.size:
            self._sweep = (first, stop, rows.last_key + 1)
        else:
            self._sweep = None
            self.heap.drop_between(first, stop)

    def _move_values(self, plan: ReadPlan, undo: Undo) -> None:
        """Move the values of ``plan`` out of the swept chunks, and set the indexes."""
        if plan.size == 0 or self._sweep is None:
            return
        first, stop, _ = self._sweep
        indexes = self.indexes.gather(plan)
        within = (indexes - INDEX.type(first & INDEX_MASK)) < stop - first
        if within.any():
            old = indexes[within]
            new = [self.heap.append(values) for values in self.heap.snapshot().pieces(old)]
            self._write_indexes(ReadPlan.from_keys(plan.keys[within]), np.concatenate(new), undo, old)
            self._written -= len(old)
            self.heap.release(old)

    def _begin_anew(self, live: RowSet, undo: Undo) -> None:
        """Rebuild the interned values from the rows ``live``."""
        plan = ReadPlan.from_row_set(live)
        old = self.indexes.gather(plan)
        values = list(self.heap.snapshot().pieces(old))
        self.heap.drop_before(self.heap.next_index)
        self._interner = Interner(self.heap)
        self._sweep = None
        if values:
            self._write_indexes(plan, np.concatenate([self._append(part) for part in values]), undo, old)

    def drop_after(self, last_key: int) -> None:
        """Drop pages; see :meth:`Column.drop_after`."""
        self.indexes.drop_after(last_key)

    def drop_before(self, first_key: int) -> None:
        """Drop pages, and chunks whose values are no longer used.

        Chunks are dropped only while values are in key order. See :meth:`Column.drop_before`.
        """
        self.indexes.drop_before(first_key)
        if not self._in_order:
            return
        if first_key > self._last_key:
            self.heap.drop_before(self.heap.next_index)
            return
        page, offset = first_key >> self._page_bits, first_key & ((1 << self._page_bits) - 1)
        cells = self.indexes.pages.get(page)
        if cells is not None and offset < len(cells):
            index = self.heap.absolute(int(cells[offset : offset + 1][0]))
            if index < self.heap.next_index:  # otherwise the cell was never written
                self.heap.drop_before(index)
