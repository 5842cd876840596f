"""The columns of a table: typed values by row key, readable in older versions.

There are three kinds with one interface: cells contain values of fixed width; all others lie in a heap, with their
index in the cell; a column of type null stores nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from barrage_server.engine.cells import MAX_PAGE_BITS
from barrage_server.engine.column import Column, ColumnSnapshot, Rows
from barrage_server.engine.fixed_column import FixedColumn
from barrage_server.engine.heap_column import HeapColumn
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.types import StorageKind, storage_kind
from barrage_server.engine.undo import Undo, UndoCursor
from barrage_server.engine.values import BoolArray
from barrage_server.rowset import RowSet

__all__ = ["Column", "ColumnSnapshot", "Rows", "expect_rows", "make_column"]

# Room is made at once for this many rows or more, if there are at most this many row keys for each of them.
_MANY, _SPAN = 1 << 17, 2


def make_column(
    data_type: pa.DataType,
    *,
    number: int,
    page_bits: int = MAX_PAGE_BITS,
    reuses: bool = True,
    interns: bool = True,
) -> Column:
    """An empty column of a supported type (see :func:`.types.check_type`).

    Args:
        data_type: the Arrow type.
        number: the column's number in its table.
        page_bits: rows per page of storage, as a power of two.
        reuses: whether values are overwritten or removed one by one; otherwise rows only come at the end, and go from
            the front.
        interns: whether equal values of variable width may be kept once.
    """
    kind = storage_kind(data_type)
    if kind is StorageKind.NULL:
        return _NullColumn(data_type, number)
    if kind is StorageKind.HEAP:
        return HeapColumn(data_type, number, page_bits, reuses=reuses, interns=interns)
    return FixedColumn(data_type, number, page_bits)


def expect_rows(columns: Sequence[Column], rows: RowSet) -> None:
    """Make room for new rows, written next, unless they are few or scattered."""
    if rows.size >= _MANY and rows.last_key - rows.first_key < _SPAN * rows.size:
        span = RowSet.from_range(rows.first_key, rows.last_key)
        for column in columns:
            column.expect(span)


_ONE_PIECE = 63


class _NullSnapshot(ColumnSnapshot):
    __slots__ = ()

    def read(self, plan: ReadPlan, cursor: UndoCursor | None = None, *, frozen: bool = False) -> pa.Array:  # noqa: ARG002
        return pa.nulls(plan.size, self.type)


class _NullColumn(Column):
    """A column of nothing but nulls."""

    @property
    def nbytes(self) -> int:
        """Nothing is stored."""
        return 0

    def write(self, rows: Rows, values: pa.Array, undo: Undo | None) -> None:  # noqa: ARG002
        """Check, and forget."""
        self.check(ReadPlan.of(rows), values)

    def overwrite(self, rows: Rows, values: pa.Array, undo: Undo) -> None:  # noqa: ARG002
        """Check, and forget."""
        self.check(ReadPlan.of(rows), values)

    def update(self, rows: Rows, values: pa.Array, undo: Undo, order: Int64Array | None = None) -> BoolArray:  # noqa: ARG002
        """Nothing changes: all rows are alike."""
        plan = ReadPlan.of(rows)
        self.check(plan, values, order)
        return np.zeros(plan.size, np.bool_)

    def move(self, sources: Int64Array, targets: Int64Array, undo: Undo | None) -> None:
        """Nothing: all rows are alike."""

    def discard(self, rows: RowSet) -> None:
        """Nothing is stored."""

    def read_current(self, keys: Int64Array) -> pa.Array:
        """Nulls."""
        return pa.nulls(len(keys), self.type)

    def snapshot(self) -> ColumnSnapshot:
        """A column of nulls needs none."""
        return _NullSnapshot(self.type, self.number, self.epoch, _ONE_PIECE)

    def collect(self, live: RowSet, undo: Undo) -> None:
        """Nothing is stored."""

    def drop_before(self, first_key: int) -> None:
        """Nothing is stored."""

    def drop_after(self, last_key: int) -> None:
        """Nothing is stored."""
