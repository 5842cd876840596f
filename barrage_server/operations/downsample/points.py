"""The rows of the result: the values at marks, under keys that count up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

from barrage_server.engine.operator import Outcome
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.update import TableUpdate
from barrage_server.engine.version import TableVersion
from barrage_server.operations.downsample.marks import Marks, Patch
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["Points", "schema_of"]

_PAGE_BITS: Final = 10


def schema_of(schema: pa.Schema, x: int | None, series: tuple[int, ...]) -> pa.Schema:
    """The columns of the result."""
    along = pa.int64() if x is None else schema.field(x).type
    fields = [pa.field("first_x", along), pa.field("last_x", along)]
    for number in series:
        name, kind = schema.field(number).name, schema.field(number).type
        fields += [
            pa.field(f"{name}_first", kind),
            pa.field(f"{name}_least", kind),
            pa.field(f"{name}_least_x", along),
            pa.field(f"{name}_greatest", kind),
            pa.field(f"{name}_greatest_x", along),
            pa.field(f"{name}_last", kind),
        ]
    return pa.schema(fields)


class Points:
    """The cells of the result.

    Args:
        schema: the columns, as :func:`schema_of` gives them.
        x: the number of the column that rows are plotted over; None: their numbers.
        series: the numbers of the columns that are plotted.

    """

    def __init__(self, schema: pa.Schema, x: int | None, series: tuple[int, ...]) -> None:
        self._schema = schema
        self._x = x
        self._series = series
        self._store = ColumnStore(schema, page_bits=_PAGE_BITS)
        self._first = self._end = self._next = 0  # the keys of the rows, and the lowest that no row has had
        self._outcome: Outcome | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of the cells."""
        return self._store.nbytes

    def unchanged(self) -> Outcome:
        """The result as it was."""
        assert self._outcome is not None
        return self._outcome._replace(update=TableUpdate.empty(len(self._schema)))

    def apply(self, patch: Patch, version: TableVersion, keys: Callable[[Int64Array], Int64Array]) -> Outcome:
        """The result after a change.

        Args:
            patch: the change.
            version: the version of the table that is plotted.
            keys: the row keys of rows by their numbers.

        """
        before = self._rows()
        if patch.is_new:
            self._first = self._end = self._next
        else:
            self._first += patch.dropped
        modified = [np.zeros(0, np.int64)] * len(self._schema)
        for position, marks in patch.marks:
            start = self._first + position
            stop = start + len(marks.first)
            columns = self._read(marks, version, keys)
            known = max(0, min(self._end, stop) - start)
            for number, (column, values) in enumerate(zip(self._store.columns, columns, strict=True)):
                if known:
                    changed = column.update(
                        RowSet.from_range(start, start + known - 1), values.slice(0, known), self._store.undo
                    )
                    modified[number] = np.concatenate((modified[number], start + np.flatnonzero(changed)))
                if known < len(values):
                    added = RowSet.from_range(start + known, stop - 1)
                    # cells that a former row had may still be read
                    undo = self._store.undo if start + known < self._next else None
                    column.write(added, values.slice(known), undo)
            self._end = max(self._end, stop)
            self._next = max(self._next, self._end)
        for column in self._store.columns:
            column.drop_before(self._first)
        rows = self._rows()
        update = TableUpdate(
            rows - before,
            before - rows,
            RowSetShiftData.empty(),
            tuple(RowSet.from_sorted_keys(keys_) if len(keys_) else RowSet.empty() for keys_ in modified),
        )
        self._outcome = Outcome(rows, self._store.views(), update)
        return self._outcome

    def replace(self, marks: Marks, version: TableVersion, keys: Callable[[Int64Array], Int64Array]) -> Outcome:
        """The result with new marks under the present keys, as a minimal change."""
        count = len(marks.first)
        if self._end - self._first > count:
            self._end = self._first + count
            shrunk = self._outcome.rows - self._rows() if self._outcome is not None else RowSet.empty()
        else:
            shrunk = RowSet.empty()
        outcome = self.apply(Patch(False, 0, ((0, marks),)), version, keys)
        self._outcome = outcome._replace(
            update=TableUpdate(
                outcome.update.added, outcome.update.removed | shrunk, outcome.update.shifted, outcome.update.modified
            )
        )
        return self._outcome

    def _rows(self) -> RowSet:
        return RowSet.from_range(self._first, self._end - 1)

    def _read(self, marks: Marks, version: TableVersion, keys: Callable[[Int64Array], Int64Array]) -> list[pa.Array]:
        """The columns at marks. Each row is read once."""
        count = len(marks.first)
        if not count:
            return [pa.nulls(0, field.type) for field in self._schema]
        numbers = np.concatenate([marks.first, marks.last, *marks.least, *marks.greatest])
        there = numbers >= 0
        distinct, places = np.unique(numbers[there], return_inverse=True)
        row_keys = keys(distinct)
        read = version.read(
            RowSet.from_sorted_keys(row_keys), (*(() if self._x is None else (self._x,)), *self._series)
        )
        along = pa.array(distinct) if self._x is None else read.pop(0)
        index = np.zeros(len(numbers), np.int64)
        index[there] = places

        def at(values: pa.Array, which: int) -> pa.Array:
            part = slice(which * count, (which + 1) * count)
            return values.take(pa.array(index[part], mask=~there[part]))

        columns = [at(along, 0), at(along, 1)]
        series = len(self._series)
        for place, values in enumerate(read):
            least, greatest = 2 + place, 2 + series + place
            columns += [
                at(values, 0),
                at(values, least),
                at(along, least),
                at(values, greatest),
                at(along, greatest),
                at(values, 1),
            ]
        return columns
