"""Interfaces of a table's column and of its snapshot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import pyarrow as pa

from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.undo import Undo, UndoCursor
from barrage_server.engine.values import BoolArray
from barrage_server.errors import SchemaMismatchError
from barrage_server.rowset import RowSet

__all__ = ["FEW_EQUAL", "Column", "ColumnSnapshot", "Rows"]

Rows: TypeAlias = ReadPlan | RowSet | Int64Array

FEW_EQUAL = 0.9
"""The share of changed cells from which an update writes all cells, which then costs less."""


class ColumnSnapshot(ABC):
    """The storage of a column at one moment.

    With the cells overwritten since, it reads as at that moment.

    Attributes:
        type: the Arrow type.
        number: the column's number in its store.
        epoch: the column's epoch then.
        page_bits: rows per page of storage, as a power of two.
    """

    __slots__ = ("epoch", "number", "page_bits", "type")

    def __init__(self, data_type: pa.DataType, number: int, epoch: int, page_bits: int) -> None:
        self.type = data_type
        self.number = number
        self.epoch = epoch
        self.page_bits = page_bits

    @abstractmethod
    def read(self, plan: ReadPlan, cursor: UndoCursor | None = None, *, frozen: bool = False) -> pa.Array:
        """The values of the rows of ``plan``, in key order, as one array.

        Args:
            plan: rows of the version.
            cursor: what was overwritten since the version; ``None`` when nothing can have been.
            frozen: the cells are never overwritten, so the array may share their memory.

        Raises:
            RowSetError: there are row keys that were never written.
            LimitError: the values are together too large for one array.
        """


class Column(ABC):
    """One column of a table, for the writer. One thread writes at a time.

    Attributes:
        type: the Arrow type.
        number: the column's number in its store, under which overwritten values are recorded.
        epoch: number of restarts of storage; see :mod:`barrage_server.engine.undo`.
    """

    def __init__(self, data_type: pa.DataType, number: int) -> None:
        self.type = data_type
        self.number = number
        self.epoch = 0

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes held for the current state, garbage that is not yet collected included."""

    def expect(self, rows: RowSet) -> None:  # noqa: B027  (a hint)
        """Make room for new rows that are written next, in several calls."""

    @abstractmethod
    def write(self, rows: Rows, values: pa.Array, undo: Undo | None) -> None:
        """Set the values of new rows, in key order.

        Args:
            rows: rows that the table does not have yet, or not any more; row keys as an array must be strictly
                increasing.
            values: one value per row, of exactly the column's type.
            undo: where the old values go; ``None`` only when no version that is held can read these cells.
        """

    @abstractmethod
    def overwrite(self, rows: Rows, values: pa.Array, undo: Undo) -> None:
        """Set the values of rows that the table has, in key order.

        Args:
            rows: the rows; row keys as an array must be strictly increasing.
            values: one value per row, of exactly the column's type.
            undo: where the old values go.
        """

    def restore(self, rows: Rows, values: pa.Array) -> None:
        """Write rows that no version has.

        Args:
            rows: the rows, not written before.
            values: the values, of exactly the column's type, or with a dictionary of that type.
        """
        plain = values.cast(values.type.value_type) if isinstance(values, pa.DictionaryArray) else values
        self.write(rows, plain, None)

    @abstractmethod
    def update(self, rows: Rows, values: pa.Array, undo: Undo, order: Int64Array | None = None) -> BoolArray:
        """Overwrite the values that differ; returns for each row whether it did.

        Nulls equal nulls and NaN equals NaN; otherwise every bit counts (0.0 differs from -0.0).

        Args:
            rows: the rows; row keys as an array must be strictly increasing.
            values: the values, of exactly the column's type.
            undo: where the old values go.
            order: where in ``values`` the value of each row is, each place once at most; ``None``: in key order.
        """

    @abstractmethod
    def move(self, sources: Int64Array, targets: Int64Array, undo: Undo | None) -> None:
        """Copy the values of the row keys ``sources`` to ``targets``, as if all at once.

        Both are strictly increasing int64 arrays of one length; they may overlap. The values under the sources are
        undefined afterwards.
        """

    @abstractmethod
    def discard(self, rows: RowSet) -> None:
        """Take note that the table has lost ``rows``. Older versions still read them."""

    @abstractmethod
    def read_current(self, keys: Int64Array) -> pa.Array:
        """The values stored now under row keys in any order. For the writer only."""

    @abstractmethod
    def snapshot(self) -> ColumnSnapshot:
        """The present storage, for a version."""

    @abstractmethod
    def collect(self, live: RowSet, undo: Undo) -> None:
        """Free some storage that none of the rows ``live`` needs; called once per cycle.

        The work of one call is proportional to the rows written since the last call.
        """

    @abstractmethod
    def drop_before(self, first_key: int) -> None:
        """Free storage of row keys below ``first_key`` only. Snapshots keep theirs.

        Args:
            first_key: the lowest row key that is still needed, or one above all keys ever written when none is.
        """

    @abstractmethod
    def drop_after(self, last_key: int) -> None:
        """Free storage of row keys above ``last_key`` only. Snapshots keep theirs."""

    def check(self, plan: ReadPlan, values: pa.Array, order: Int64Array | None = None) -> None:
        """Raise SchemaMismatchError unless ``values`` fit the type and the plan's size."""
        if values.type != self.type:
            raise SchemaMismatchError(
                f"Values of type {values.type} were given for a column of type {self.type}. Cast them first."
            )
        count = len(values if order is None else order)
        if count != plan.size:
            raise SchemaMismatchError(
                f"{count} values were given for {plan.size} rows. Give exactly one value per row."
            )
