"""The columns of a small window: one array each, replaced by every update.

When a window of a hundred rows moves, nearly all rows are replaced. Making an array of the old and new rows costs less
than finding, keeping and freeing cells, and older versions need no undo records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from pyarrow import lib

from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.values import concatenated, take
from barrage_server.engine.view import ColumnView
from barrage_server.errors import RowSetError
from barrage_server.rowset import MAX_KEY, RowSet, RowSetShiftData
from barrage_server.wire.buffers import offsets_of
from barrage_server.wire.plain_size import FIXED

__all__ = ["ArrayView", "WindowArrays"]

_MOST_ROWS: Final = 1 << 11
_MOST_BYTES: Final = 1 << 22  # of all columns
_WITH_OFFSETS: Final = frozenset({lib.Type_STRING, lib.Type_BINARY, lib.Type_LARGE_STRING, lib.Type_LARGE_BINARY})
_TYPES: Final = FIXED | _WITH_OFFSETS
_Modified = Mapping[int, tuple[RowSet, pa.Array]]


class WindowArrays:
    """The values of all columns of a window.

    Args:
        schema: the columns, of types that :meth:`suits`.

    Attributes:
        arrays: the present values of each column.
    """

    __slots__ = ("_rows", "_schema", "arrays")

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._rows = RowSet.empty()
        self.arrays: list[pa.Array] = [pa.nulls(0, data_type) for data_type in schema.types]

    @staticmethod
    def suits(schema: pa.Schema) -> bool:
        """Whether all columns have numbers, times, texts or bytes."""
        return all(data_type.id in _TYPES for data_type in schema.types)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return _bytes(self.arrays)

    def fits(self, stayed: RowSet, added: RowSet, columns: Sequence[pa.Array], modified: _Modified) -> bool:
        """Whether rows and bytes stay few after an update.

        Args:
            stayed: the rows that stay.
            added: the rows to add.
            columns: their values, for each column.
            modified: by column number: rows and their new values.
        """
        if stayed.size + added.size > _MOST_ROWS:
            return False
        before = self.nbytes if stayed else 0  # those of some rows are not known, and are counted as all
        return before + _bytes(columns) + _bytes([values for _, values in modified.values()]) <= _MOST_BYTES

    def apply(
        self, stayed: RowSet, shifted: RowSetShiftData, added: RowSet, columns: Sequence[pa.Array], modified: _Modified
    ) -> RowSet:
        """Apply an update; returns the rows afterwards.

        Args:
            stayed: the rows that stay, before they are moved.
            shifted: their shifts, clipped to them.
            added: the rows to add, with keys after the shifts.
            columns: their values, for each column; ignored if there are none.
            modified: by column number: rows that stay, with keys after the shifts, and their new values.
        """
        before = self._rows
        moved = shifted.apply(stayed) if shifted.size else stayed
        after = moved | added if added else moved
        kept = None if modified else _run(before, stayed)
        if kept is not None and (not moved or not added or _are_apart(moved, added)):
            follows = bool(moved and added) and added.first_key > moved.last_key
            self._move(kept, columns if added else (), follows=follows)
        else:
            order = None if not added and stayed.size == before.size else _order(before, stayed, after, added)
            self.arrays = [
                self._column(number, order, after, columns[number] if added else None, modified.get(number))
                for number in range(len(self.arrays))
            ]
        self._rows = after
        return after

    def _move(self, kept: slice, columns: Sequence[pa.Array], *, follows: bool) -> None:
        """Keep one run of rows, with the new rows before or, if they follow, behind it."""
        count = kept.stop - kept.start
        if not count and columns:
            self.arrays = [_owned(values) for values in columns]
        elif columns or count < self._rows.size:
            parts = [[array.slice(kept.start, count)] for array in self.arrays]
            for part, values in zip(parts, columns, strict=False):
                part.insert(1 if follows else 0, values)
            types = self._schema.types
            self.arrays = [_owned(concatenated(part, data_type)) for part, data_type in zip(parts, types, strict=True)]

    def _column(
        self,
        number: int,
        order: Int64Array | None,
        after: RowSet,
        added: pa.Array | None,
        modified: tuple[RowSet, pa.Array] | None,
    ) -> pa.Array:
        """The values of one column after an update.

        Args:
            number: the number of the column.
            order: for each row afterwards, its place in the previous values, followed by the added ones; ``None`` if
                all rows keep their places.
            after: the rows afterwards.
            added: the values of the added rows, if there are any.
            modified: rows and their new values, if there are any.
        """
        array = self.arrays[number]
        parts = [array] if added is None else [array, added]
        if modified is not None and modified[0]:
            rows, values = modified
            order = np.arange(after.size) if order is None else order.copy()
            first = sum(map(len, parts))
            order[after.find(rows.keys())] = np.arange(first, first + rows.size)
            parts.append(values)
        return array if order is None else take(concatenated(parts, array.type), order)

    def views(self) -> tuple[ArrayView, ...]:
        """The present columns, for a new version."""
        rows = self._rows
        return tuple([ArrayView(rows, array) for array in self.arrays])


class ArrayView(ColumnView):
    """A column whose values are one array.

    Args:
        rows: the row keys.
        array: the values, in the order of the row keys.
    """

    __slots__ = ("_array", "_rows", "is_frozen", "type")

    depth = 0

    def __init__(self, rows: RowSet, array: pa.Array) -> None:
        self.type = array.type
        self.is_frozen = True
        self._rows = rows
        self._array = array

    def read(self, plan: ReadPlan) -> pa.Array:
        """The array itself, or a copy of some of its values."""
        rows = self._rows
        if plan.size == rows.size and plan.rows == rows:
            return self._array
        known = plan.in_source
        if known is None or known[0] is not rows:
            known = plan.in_source = (rows, _places(rows, plan))
        return take(self._array, known[1])

    def piece_end(self, key: int) -> int:  # noqa: ARG002  (as every view has it)
        """The end of the key space, because all rows are one piece."""
        return MAX_KEY

    def compact(self) -> None:
        """Do nothing: there is no history."""


def _places(rows: RowSet, plan: ReadPlan) -> Int64Array:
    places = rows.find(plan.keys)
    if len(places) and int(places.min()) < 0:
        raise RowSetError(
            f"Some row keys from {plan.first_key} to {plan.last_key} have no cells: they are not rows of this version."
        )
    return places


def _run(before: RowSet, stayed: RowSet) -> slice | None:
    """The places of ``stayed`` in ``before``, if they are one run."""
    if not stayed:
        return slice(0, 0)
    first, last = before.find([stayed.first_key, stayed.last_key]).tolist()
    return slice(first, last + 1) if last - first + 1 == stayed.size else None


def _are_apart(one: RowSet, other: RowSet) -> bool:
    """Whether all keys of one set lie before the keys of the other."""
    return one.last_key < other.first_key or other.last_key < one.first_key


def _order(before: RowSet, stayed: RowSet, after: RowSet, added: RowSet) -> Int64Array:
    """For each row afterwards, its place in the previous values, then the added."""
    order = np.empty(after.size, np.int64)
    come = np.zeros(after.size, np.bool_)
    come[after.find(added.keys())] = True
    order[come] = np.arange(before.size, before.size + added.size)
    order[~come] = before.find(stayed.keys())
    return order


def _owned(array: pa.Array) -> pa.Array:
    """The values in buffers without unused values or needless bitmaps."""
    has_idle_bitmap = array.null_count == 0 and array.buffers()[0] is not None
    if array.offset or has_idle_bitmap or (array.type.id in _WITH_OFFSETS and offsets_of(array)[0]):
        return take(array, np.arange(len(array)))
    return array


def _bytes(arrays: Sequence[pa.Array]) -> int:
    return sum([array.get_total_buffer_size() for array in arrays])
