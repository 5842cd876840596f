"""The columns of a table: typed values per row key, written in place, read as of any version that is held.

There are three kinds behind one interface: values of fixed width lie in cells themselves; all others lie in a heap,
with their index in the cell; of a column of type null nothing is kept at all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine.cells import MAX_PAGE_BITS, Cells, Pages, gather, gather_any, view
from barrage_server.engine.heap import INDEX, MAX_CHUNK_ROWS, Heap, HeapView, IndexArray
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.types import StorageKind, cell_dtype, storage_kind
from barrage_server.engine.undo import Undo, UndoCursor, UndoEntry, restore
from barrage_server.engine.values import BoolArray, cells_differ, differs, from_cells, to_cells
from barrage_server.errors import SchemaMismatchError
from barrage_server.rowset import RowSet

__all__ = ["Column", "ColumnSnapshot", "Undo", "UndoCursor", "make_column"]

Rows: TypeAlias = ReadPlan | RowSet | Int64Array

# Garbage below this size is not worth collecting.
_MIN_GARBAGE_BYTES = 1 << 20
_MAX_GARBAGE_ROWS = 1 << 24
_COMPACTION_STEP = 1 << 17


class ColumnSnapshot(ABC):
    """One column of one version: holds the storage of that moment, and reads it as it was then."""

    __slots__ = ("epoch", "number", "type")

    def __init__(self, data_type: pa.DataType, number: int, epoch: int) -> None:
        self.type = data_type
        self.number = number
        self.epoch = epoch

    @abstractmethod
    def read(self, plan: ReadPlan, cursor: UndoCursor | None = None, *, frozen: bool = False) -> pa.Array:
        """The values of the rows of ``plan``, in key order, as one array of exactly the column's type.

        Args:
            plan: rows of the version.
            cursor: what was overwritten since the version; ``None`` when nothing can have been.
            frozen: the cells are never overwritten, so the array may share their memory.

        Raises:
            RowSetError: there are row keys that were never written.
            LimitError: the values are together too large for one array.

        """


class Column(ABC):
    """One column of a table, as the writer sees it. One thread writes at a time.

    Attributes:
        type: the Arrow type.
        number: the column's number in its table, under which overwritten values are recorded.
        epoch: how often the storage was compacted; see :mod:`barrage_server.engine.undo`.

    """

    def __init__(self, data_type: pa.DataType, number: int) -> None:
        self.type = data_type
        self.number = number
        self.epoch = 0

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held for the current state, garbage that is not yet collected included."""

    @abstractmethod
    def write(self, rows: Rows, values: pa.Array, undo: Undo | None) -> None:
        """Set the values of ``rows``, in key order.

        Args:
            rows: the rows to write, known or new; row keys as an array must be strictly increasing.
            values: one value per row, of exactly the column's type.
            undo: where the old values go; ``None`` only when no version that is held can read these cells.

        """

    @abstractmethod
    def move(self, sources: Int64Array, targets: Int64Array, undo: Undo | None) -> None:
        """Copy the values of the row keys ``sources`` to ``targets``, as if all at once.

        Both are strictly increasing and of one length; they may overlap. What is left under the sources does not matter
        any more.
        """

    @abstractmethod
    def changed(self, rows: Rows, values: pa.Array) -> BoolArray:
        """For each of ``rows``, whether ``values`` differ from what is stored now.

        Nulls equal nulls and NaN equals NaN; otherwise every bit counts (0.0 differs from -0.0).
        """

    @abstractmethod
    def read_current(self, keys: Int64Array) -> pa.Array:
        """The values stored now under row keys in any order, which may repeat. For the writer, not for readers."""

    @abstractmethod
    def snapshot(self) -> ColumnSnapshot:
        """What a version holds of this column."""

    @abstractmethod
    def needs_compaction(self, live_rows: int) -> bool:
        """Whether more than half of the storage is values that none of ``live_rows`` rows has any more."""

    @abstractmethod
    def compact(self, live: RowSet) -> None:
        """Give the rows of ``live`` new storage, and start a new epoch. Snapshots taken before stay valid."""

    @abstractmethod
    def drop_before(self, first_key: int) -> None:
        """Let go of storage that only rows below ``first_key`` used. Snapshots taken before keep what they need.

        Args:
            first_key: the lowest row key that is still needed, or one above all keys ever written when none is.

        """

    def _check(self, plan: ReadPlan, values: pa.Array) -> None:
        if values.type != self.type:
            raise SchemaMismatchError(
                f"Values of type {values.type} were given for a column of type {self.type}. Cast them first."
            )
        if len(values) != plan.size:
            raise SchemaMismatchError(
                f"{len(values)} values were given for {plan.size} rows. Give exactly one value per row."
            )


def make_column(data_type: pa.DataType, *, number: int, page_bits: int = MAX_PAGE_BITS) -> Column:
    """An empty column of a type that has passed :func:`~barrage_server.engine.types.check_type`.

    Args:
        data_type: the Arrow type.
        number: the column's number in its table.
        page_bits: rows per page of storage, as a power of two.

    """
    kind = storage_kind(data_type)
    if kind is StorageKind.NULL:
        return _NullColumn(data_type, number)
    if kind is StorageKind.HEAP:
        return _HeapColumn(data_type, number, page_bits)
    return _FixedColumn(data_type, number, page_bits)


# Values of fixed width


class _FixedSnapshot(ColumnSnapshot):
    __slots__ = ("_dtype", "_page_bits", "_pages", "_valid_pages")

    def __init__(self, column: _FixedColumn) -> None:
        super().__init__(column.type, column.number, column.epoch)
        self._dtype = column.cells.dtype
        self._page_bits = column.cells.page_bits
        self._pages = column.cells.pages
        self._valid_pages = column.valid.pages

    def read(self, plan: ReadPlan, cursor: UndoCursor | None = None, *, frozen: bool = False) -> pa.Array:
        data = view(self._pages, plan, self._page_bits) if frozen else None
        if data is None:
            data = gather(self._pages, plan, self._dtype, self._page_bits)
        valid = _gather_valid(self._valid_pages, plan, self._page_bits)
        if cursor is not None and not frozen:
            valid = restore(cursor.entries(self.number, self.epoch), plan, data, valid)
        return from_cells(self.type, data, valid)


class _FixedColumn(Column):
    def __init__(self, data_type: pa.DataType, number: int, page_bits: int) -> None:
        super().__init__(data_type, number)
        self.cells = Cells(cell_dtype(data_type), page_bits=page_bits)
        # A page of validity exists only where some cell of the page was null once, and is as long as the page of cells.
        self.valid = Cells(np.bool_, page_bits=page_bits, fill=True)

    @property
    def nbytes(self) -> int:
        return self.cells.nbytes + self.valid.nbytes

    def write(self, rows: Rows, values: pa.Array, undo: Undo | None) -> None:
        plan = ReadPlan.of(rows)
        self._check(plan, values)
        data, valid = to_cells(values)
        self._write_cells(plan, data, valid, undo)

    def _write_cells(self, plan: ReadPlan, data: npt.NDArray[Any], valid: BoolArray | None, undo: Undo | None) -> None:
        if plan.size == 0:
            return
        self.cells.reserve(plan)
        if undo is not None:
            old_valid = _gather_valid(self.valid.pages, plan, self.valid.page_bits)
            undo.record(UndoEntry(self.number, self.epoch, plan.keys, self.cells.gather(plan), old_valid))
        self.cells.scatter(plan, data)
        if valid is not None or self.valid.pages:
            self._write_valid(plan, valid)

    def _write_valid(self, plan: ReadPlan, valid: BoolArray | None) -> None:
        for page, where, start, stop, _ in plan.segments(self.valid.page_bits):
            if page in self.valid.pages or (valid is not None and not valid[start:stop].all()):
                self.valid.resize(page, len(self.cells.pages[page]))
                self.valid.pages[page][where] = True if valid is None else valid[start:stop]

    def move(self, sources: Int64Array, targets: Int64Array, undo: Undo | None) -> None:
        plan = ReadPlan.from_keys(sources)
        data = self.cells.gather(plan)
        valid = _gather_valid(self.valid.pages, plan, self.valid.page_bits)
        self._write_cells(ReadPlan.from_keys(targets), data, valid, undo)

    def changed(self, rows: Rows, values: pa.Array) -> BoolArray:
        plan = ReadPlan.of(rows)
        self._check(plan, values)
        stored_valid = _gather_valid(self.valid.pages, plan, self.valid.page_bits)
        return cells_differ(self.type, self.cells.gather(plan), stored_valid, *to_cells(values))

    def read_current(self, keys: Int64Array) -> pa.Array:
        data = gather_any(self.cells.pages, keys, self.cells.dtype, self.cells.page_bits)
        valid = None
        if self.valid.pages:
            valid = np.ones(len(keys), np.bool_)
            numbers = keys >> self.valid.page_bits
            for page, flags in self.valid.pages.items():
                here = np.flatnonzero(numbers == page)
                valid[here] = flags[keys[here] - (page << self.valid.page_bits)]
        return from_cells(self.type, data, valid)

    def snapshot(self) -> ColumnSnapshot:
        return _FixedSnapshot(self)

    def needs_compaction(self, live_rows: int) -> bool:  # noqa: ARG002
        return False

    def compact(self, live: RowSet) -> None:
        """Nothing: an overwritten cell leaves no garbage."""

    def drop_before(self, first_key: int) -> None:
        self.cells.drop_before(first_key)
        self.valid.drop_before(first_key)


def _gather_valid(pages: Pages, plan: ReadPlan, page_bits: int) -> BoolArray | None:
    """Which rows of ``plan`` hold values; ``None`` when there never were nulls in these pages."""
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


# Values in a heap


class _HeapSnapshot(ColumnSnapshot):
    __slots__ = ("_heap", "_page_bits", "_pages")

    def __init__(self, column: _HeapColumn) -> None:
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
        return self._heap.take(indexes)


class _HeapColumn(Column):
    def __init__(self, data_type: pa.DataType, number: int, page_bits: int) -> None:
        super().__init__(data_type, number)
        self._page_bits = page_bits
        self._start()

    def _start(self) -> None:
        self.indexes = Cells(INDEX, page_bits=self._page_bits)
        self.heap = Heap(self.type, chunk_rows=min(MAX_CHUNK_ROWS, 1 << self._page_bits))
        # While rows are only ever added behind all others, indexes increase with row keys, and old chunks can be
        # dropped.
        self._in_order = True
        self._last_key = -1

    @property
    def nbytes(self) -> int:
        return self.indexes.nbytes + self.heap.nbytes

    def write(self, rows: Rows, values: pa.Array, undo: Undo | None) -> None:
        plan = ReadPlan.of(rows)
        self._check(plan, values)
        if plan.size:
            self._write_indexes(plan, self.heap.append(values), undo)

    def _write_indexes(self, plan: ReadPlan, indexes: IndexArray, undo: Undo | None) -> None:
        if plan.first_key <= self._last_key:
            self._in_order = False
        self._last_key = max(self._last_key, plan.last_key)
        self.indexes.reserve(plan)
        if undo is not None:
            undo.record(UndoEntry(self.number, self.epoch, plan.keys, self.indexes.gather(plan), None))
        self.indexes.scatter(plan, indexes)

    def move(self, sources: Int64Array, targets: Int64Array, undo: Undo | None) -> None:
        if len(sources):
            self._in_order = False
            indexes = self.indexes.gather(ReadPlan.from_keys(sources))
            self._write_indexes(ReadPlan.from_keys(targets), indexes, undo)

    def changed(self, rows: Rows, values: pa.Array) -> BoolArray:
        plan = ReadPlan.of(rows)
        self._check(plan, values)
        return differs(self.heap.snapshot().take(self.indexes.gather(plan)), values)

    def read_current(self, keys: Int64Array) -> pa.Array:
        return self.heap.snapshot().take(gather_any(self.indexes.pages, keys, INDEX, self._page_bits))

    def snapshot(self) -> ColumnSnapshot:
        return _HeapSnapshot(self)

    def needs_compaction(self, live_rows: int) -> bool:
        stored = len(self.heap)
        return stored > 2 * live_rows and (self.heap.nbytes > _MIN_GARBAGE_BYTES or stored > _MAX_GARBAGE_ROWS)

    def compact(self, live: RowSet) -> None:
        old_indexes, old_heap = self.indexes, self.heap.snapshot()
        self._start()
        self.epoch += 1
        for start in range(0, live.size, _COMPACTION_STEP):
            plan = ReadPlan.from_row_set(live.slice(start, start + _COMPACTION_STEP))
            self.write(plan, old_heap.take(old_indexes.gather(plan)), None)

    def drop_before(self, first_key: int) -> None:
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


# Nothing but nulls


class _NullSnapshot(ColumnSnapshot):
    __slots__ = ()

    def read(self, plan: ReadPlan, cursor: UndoCursor | None = None, *, frozen: bool = False) -> pa.Array:  # noqa: ARG002
        return pa.nulls(plan.size, self.type)


class _NullColumn(Column):
    @property
    def nbytes(self) -> int:
        return 0

    def write(self, rows: Rows, values: pa.Array, undo: Undo | None) -> None:  # noqa: ARG002
        self._check(ReadPlan.of(rows), values)

    def move(self, sources: Int64Array, targets: Int64Array, undo: Undo | None) -> None:
        """Nothing: all rows are alike."""

    def changed(self, rows: Rows, values: pa.Array) -> BoolArray:
        self._check(ReadPlan.of(rows), values)
        return np.zeros(len(values), np.bool_)

    def read_current(self, keys: Int64Array) -> pa.Array:
        return pa.nulls(len(keys), self.type)

    def snapshot(self) -> ColumnSnapshot:
        return _NullSnapshot(self.type, self.number, self.epoch)

    def needs_compaction(self, live_rows: int) -> bool:  # noqa: ARG002
        return False

    def compact(self, live: RowSet) -> None:
        """Nothing is stored."""

    def drop_before(self, first_key: int) -> None:
        """Nothing is stored."""
