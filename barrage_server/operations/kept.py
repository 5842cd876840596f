"""Extremes, first and last values of groups whose rows never leave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.engine.group_index import pack_rows
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.storage import from_storage, to_storage
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.types import StorageKind, storage_kind
from barrage_server.engine.undo import Undo
from barrage_server.engine.values import take
from barrage_server.errors import InvalidRequestError
from barrage_server.operations.accumulators import Accumulator
from barrage_server.operations.group_totals import GroupArray, GroupTotals
from barrage_server.operations.ordering import Key, code_of, comes_before, is_sortable, order_of
from barrage_server.rowset import RowSet
from barrage_server.wire.buffers import is_valid

__all__ = ["KEPT", "Kept"]


class Kept(Accumulator):
    """The first or last row's value of each group whose rows are only added.

    One value for each group is enough.

    Args:
        types: the types of the column, and of the columns that rows are ordered by.
        by_value: whether rows are ordered by the column itself, of which null is left out and NaN wins.
        from_end: whether the last row counts, and not the first one.

    """

    def __init__(self, types: Sequence[pa.DataType], *, by_value: bool, from_end: bool) -> None:
        if not all(map(is_sortable, types if by_value else types[1:])):
            raise TypeError
        super().__init__(types)
        self._leaves_garbage = any(storage_kind(each) is StorageKind.HEAP for each in types)
        self._by_value = by_value
        self._from_end = from_end
        self._store = ColumnStore(pa.schema([(str(number), each) for number, each in enumerate(types)]))
        self._columns = [0] if by_value else list(range(1, len(types)))  # that rows are ordered by
        self._keys = tuple(Key(number) for number in range(1 + len(self._columns)))  # the group before them
        self._has = GroupArray(np.bool_)  # a value
        self._has_nan = GroupArray(np.bool_)
        self._count = 0

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        """The type of the column."""
        return types[0]

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """Masks of the groups that have a value, and of those that have NaN."""
        return self._has, self._has_nan

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return super().nbytes + self._store.nbytes

    def reserve(self, count: int) -> None:
        """Make room for at least ``count`` groups."""
        super().reserve(count)
        self._count = max(self._count, count)

    def pack(self, living: Int64Array) -> None:
        """Keep only the groups ``living``, renumbered from 0."""
        super().pack(living)
        pack_rows(self._store, living, self._count)
        self._store.views()  # nothing reads the values as they were
        self._count = len(living)

    def change(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Compare the rows with the present values."""
        if sign < 0:
            raise InvalidRequestError("A table that was to keep its rows as they are has changed some, or lost them.")
        if self._by_value:
            there = is_valid(columns[0])
            if pat.is_floating(columns[0].type):
                nans = there & np.isnan(columns[0].to_numpy(zero_copy_only=False))
                self._has_nan.array[groups[places[nans]]] = True
                there = there & ~nans
            if not there.all():
                kept = np.flatnonzero(there)
                places, columns = places[kept], [take(column, kept) for column in columns]
        chosen = self._chosen(places, columns, len(groups))
        some = np.flatnonzero(chosen >= 0)
        chosen = chosen[some]
        self._keep(groups[some], [take(column, chosen) for column in columns])

    def _chosen(self, places: Int64Array, columns: Sequence[pa.Array], count: int) -> Int64Array:
        """The row that counts at each of ``count`` places, or -1."""
        codes = [code_of(columns[number]) for number in self._columns]
        rows = np.arange(len(places), dtype=np.int64)
        code = codes[0] if len(codes) == 1 else None
        if code is not None:
            best = np.full(count, 0 if self._from_end else np.iinfo(np.uint64).max, np.uint64)
            (np.maximum if self._from_end else np.minimum).at(best, places, code)
            rows = np.flatnonzero(code == best[places])
        elif codes:
            rows = order_of([pa.array(places), *(columns[number] for number in self._columns)], self._keys, len(rows))
        if not self._from_end:
            rows = rows[::-1]
        found = np.full(count, -1, np.int64)
        found[places[rows]] = rows  # the last one stays
        return found

    def _keep(self, groups: Int64Array, columns: Sequence[pa.Array]) -> None:
        """Store rows, one for each of ascending groups, that replace present ones."""
        has = self._has.array[groups]
        new, old = np.flatnonzero(~has), np.flatnonzero(has)
        old = old[self._replaces(groups[old], [take(columns[number], old) for number in self._columns])]
        undo = Undo()
        for column, values in zip(self._store.columns, columns, strict=True):
            column.write(groups[new], take(values, new), None)
            column.overwrite(groups[old], take(values, old), undo)
        self._has.array[groups[new]] = True
        if len(old) and self._leaves_garbage:
            living = RowSet.from_sorted_keys(np.flatnonzero(self._has.array[: self._count]))
            for column in self._store.columns:
                column.collect(living, undo)

    def _replaces(self, groups: Int64Array, columns: Sequence[pa.Array]) -> npt.NDArray[np.bool_]:
        """Which rows take the place of the present rows of their groups."""
        if not columns:
            return np.full(len(groups), self._from_end)
        stored = [self._store.columns[number].read_current(groups) for number in self._columns]
        before = comes_before(columns, stored, self._keys[: len(columns)], np.zeros(len(groups), np.bool_))
        return ~before if self._from_end else before

    def results(self, groups: Int64Array) -> pa.Array:
        """The values; null for groups without one."""
        has, has_nan = self._has.array[groups], self._has_nan.array[groups]
        values = to_storage(self._store.columns[0].read_current(groups[has]))
        places = np.full(len(groups), len(values), np.int64)
        places[has] = np.arange(len(values))
        if has_nan.any():
            places[has_nan] = len(values)
            values = pa.concat_arrays([values, pa.array(np.full(1, np.nan, values.type.to_pandas_dtype()))])
        return from_storage(values.take(pa.array(places, mask=~(has | has_nan))), self.type)


KEPT: Final[dict[str, dict[str, Any]]] = {
    "min": {"by_value": True, "from_end": False},
    "max": {"by_value": True, "from_end": True},
    "first": {"by_value": False, "from_end": False},
    "last": {"by_value": False, "from_end": True},
    "sorted_first": {"by_value": False, "from_end": False},
    "sorted_last": {"by_value": False, "from_end": True},
}
"""The functions that one row of each group is enough for, if rows never leave."""
