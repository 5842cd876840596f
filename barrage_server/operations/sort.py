"""The rows of a table in the order of columns: ``sort``, ``sort_descending``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine import Table, TableUpdate, TableVersion
from barrage_server.engine.operator import Changes, Inputs, Operator, Outcome
from barrage_server.engine.order_fences import OrderCodes
from barrage_server.engine.order_index import Moves, OrderIndex
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.redirected import RedirectedView, pick
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError
from barrage_server.operations.checks import known_columns
from barrage_server.operations.ordering import Key, comes_before, is_sortable, order_of, rough_codes
from barrage_server.operations.result import make
from barrage_server.operations.traits import route_of
from barrage_server.plan.operation import SortColumn
from barrage_server.rowset import RowSet

__all__ = ["Sort", "sort"]

_BLOCK_BITS: Final = 16


def sort(parents: Sequence[Table], columns: Sequence[SortColumn], *, name: str | None = None) -> Table:
    """The rows in the order of ``columns``, the first column most significant.

    Raises:
        UnknownColumnError: the table lacks a column.
        InvalidRequestError: values of a column have no order, or no sizes.

    """
    (table,) = parents
    if not columns:
        raise InvalidRequestError("Name at least one column to sort by.")
    numbers = known_columns(table, [column.name for column in columns], "order_by")
    for number, column in zip(numbers, columns, strict=True):
        data_type = table.schema.field(number).type
        if not is_sortable(data_type):
            raise InvalidRequestError(f"Column {column.name!r} cannot be sorted by: it has the type {data_type}.")
        if column.absolute and not (pa.types.is_integer(data_type) or pa.types.is_floating(data_type)):
            raise InvalidRequestError(f"Column {column.name!r} has no absolute values: it has the type {data_type}.")
    keys = [Key(number, column.descending, column.absolute) for number, column in zip(numbers, columns, strict=True)]
    traits = TableTraits(stated=route_of(table.traits))
    operator = Sort(table.schema, keys, follows=table.is_refreshing)
    return make([table], "sort", operator, traits, key_columns=table.key_columns, name=name)


class Sort(Operator):
    """The rows in the order of columns, with views of the input's columns.

    The state is the order, and no values. A cycle costs the rows added, removed, moved by shifts, and modified in a
    column of the order, each some comparisons with other rows.

    Args:
        schema: the columns.
        keys: the columns that rows are ordered by.
        follows: whether the input ticks.

    """

    name: ClassVar[str] = "sort"

    def __init__(self, schema: pa.Schema, keys: Sequence[Key], *, follows: bool = True) -> None:
        self.schema = schema
        self._keys = tuple(keys)
        self._columns = tuple(key.number for key in keys)
        self._order = OrderIndex(follows=follows)
        self._dropped = 0  # blocks of row keys of the input that are not used any more

    @property
    def nbytes(self) -> int:
        """Bytes of the order."""
        return self._order.nbytes

    def start(self, inputs: Inputs) -> Outcome:
        """Sort all rows."""
        (version,) = inputs
        rows = version.row_set
        order = order_of(self._values(version, rows), self._keys, rows.size)
        self._order.fill(rows, order)
        return self._outcome(version, TableUpdate.of_added(self._order.rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Put changed rows into their places."""
        (change,), (version,) = changes, inputs
        if change is None or change.update.is_empty:
            return self._outcome(version, TableUpdate.empty(len(self.schema)))
        update, order = change.update, self._order
        moved = RowSet.union_all(update.modified[number] for number in self._columns)
        gone = order.slots_of(update.removed.keys())
        self._order.shift(*change.moved())
        was_moved = order.slots_of(moved.keys())
        new = update.added | moved
        moves = self._put(version, np.sort(np.concatenate((gone, was_moved))), new, moved, was_moved)
        own = TableUpdate(
            moves.added,
            moves.removed,
            moves.shifted,
            tuple(self._in_order(rows) - moves.added if rows else rows for rows in update.modified),
        )
        return self._outcome(version, own)

    def _put(self, version: TableVersion, gone: Int64Array, new: RowSet, moved: RowSet, was_moved: Int64Array) -> Moves:
        columns = self._values(version, new)
        order = order_of(columns, self._keys, new.size)
        keys, was = new.keys(), np.full(new.size, -1, np.int64)
        if moved:
            was[new.find(moved.keys())] = was_moved
        keys, was = keys[order], was[order]
        columns = [column.take(pa.array(order)) for column in columns]
        views = [version.views[number] for number in self._columns]

        def before(items: Int64Array, others: Int64Array) -> npt.NDArray[np.bool_]:
            theirs = pick(views, others)
            mine = [column.take(pa.array(items)) for column in columns]
            return comes_before(mine, theirs, self._keys, keys[items] < others)

        own = rough_codes(columns, self._keys)
        codes = OrderCodes(own, lambda others: rough_codes(pick(views, others), self._keys)) if own else None
        return self._order.change(gone, keys, was, before, codes)

    def _in_order(self, rows: RowSet) -> RowSet:
        return RowSet.from_keys(self._order.slots_of(rows.keys()))

    def _values(self, version: TableVersion, rows: RowSet) -> list[pa.Array]:
        parts = [version.read(part, self._columns) for part in version.pieces(rows, self._columns)]
        if not parts:
            return [pa.array([], self.schema.field(number).type) for number in self._columns]
        return [pa.concat_arrays(list(column)) if len(parts) > 1 else column[0] for column in zip(*parts, strict=True)]

    def _outcome(self, version: TableVersion, update: TableUpdate) -> Outcome:
        if version.row_set and version.row_set.first_key >> _BLOCK_BITS > self._dropped:
            self._dropped = version.row_set.first_key >> _BLOCK_BITS
            self._order.drop_before(self._dropped << _BLOCK_BITS)
        rows = self._order.view()
        views: list[ColumnView] = [RedirectedView(view, rows) for view in version.views]
        return Outcome(self._order.rows, views, update)
