"""The first or the last rows of each group: ``head_by`` and ``tail_by``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from barrage_server.arguments import integer
from barrage_server.engine import Table, TableUpdate, TableVersion
from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.operator import Changes, Inputs, Operator, Outcome
from barrage_server.engine.order_index import Moves, OrderIndex
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.redirected import RedirectedView
from barrage_server.engine.traits import TableTraits
from barrage_server.operations.checks import check_column_names, known_columns, pair
from barrage_server.operations.grouped_rows import Departure, GroupedRows
from barrage_server.operations.result import make
from barrage_server.operations.traits import route_of
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["HeadBy", "head_by"]

_ALL: Final = 1 << 48
"""Rows of a group that no table has: all rows are in the result, which is in the order of groups."""
_NOTHING: Final = Moves.of(RowSet.EMPTY, RowSet.EMPTY, RowSetShiftData.empty())


class HeadBy(Operator):
    """The first or last rows of each group, group by group.

    The state is the order of all rows by group; no values.

    The rows of a group are together, and groups in the order in which they have appeared. A cycle costs the rows added,
    removed, moved by shifts, and modified in a key column, and the rows of the result in their groups; the latter only
    if groups may have more rows than the result.

    Args:
        schema: the columns of the input.
        keys: the numbers of the columns that tell groups apart, which come first in the result.
        names: their names in the result.
        rows: the rows of each group, at most.
        from_end: whether they are the last ones.

    """

    name: ClassVar[str] = "head_by"

    def __init__(
        self, schema: pa.Schema, keys: Sequence[int], names: Sequence[str], rows: int, *, from_end: bool = False
    ) -> None:
        key_fields = [schema.field(number).with_name(name) for number, name in zip(keys, names, strict=True)]
        others = [number for number in range(len(schema)) if number not in keys]
        self.schema = pa.schema([*key_fields, *(schema.field(number) for number in others)])
        self._columns = (*keys, *others)
        self._most = rows
        self._from_end = from_end
        self._groups = GroupIndex(pa.schema(key_fields))
        self._order = OrderIndex()
        self._members = GroupedRows(self._groups, keys, [field.type for field in key_fields], self._order)
        self._rows = RowSet.empty()

    @property
    def nbytes(self) -> int:
        """Bytes of the groups and the order."""
        return self._groups.nbytes + self._members.nbytes

    def start(self, inputs: Inputs) -> Outcome:
        """Add all rows."""
        (version,) = inputs
        self._members.start(version)
        self._rows = self._chosen(*self._bounds(np.arange(self._groups.count, dtype=np.int64)))
        return self._outcome(version, TableUpdate.of_added(self._rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Put changed rows into their groups, and choose rows of these groups again."""
        (change,), (version,) = changes, inputs
        if change is None or change.update.is_empty:
            return self._outcome(version, TableUpdate.empty(len(self.schema)))
        update = change.update
        departure = self._members.leave(change)
        moves = self._members.arrive(version, update.added, departure) or _NOTHING
        own = self._follow_all(update, moves) if self._most >= _ALL else self._follow_some(update, moves, departure)
        self._members.forget_dead(version.row_set)
        return self._outcome(version, own)

    def _follow_all(self, update: TableUpdate, moves: Moves) -> TableUpdate:
        """The update of a result that has all rows."""
        self._rows = self._order.rows
        return TableUpdate(moves.added, moves.removed, moves.shifted, self._modified(update, moves.added))

    def _follow_some(self, update: TableUpdate, moves: Moves, departure: Departure) -> TableUpdate:
        """Choose rows again in the groups that have lost or got rows."""
        before = self._rows
        came = self._members.groups_of((update.added | departure.rekeyed).keys())
        touched = np.unique(np.concatenate((departure.groups, departure.former, came)))
        touched = touched[self._members.counts.array[touched] > 0]
        removed = before & moves.removed
        stayed = before - removed
        shifts = moves.shifted.clip(stayed)
        moved = shifts.apply(stayed)
        first, end = self._bounds(touched)
        present, chosen = moved & self._spans(first, end), self._chosen(first, end)
        lost, added = present - chosen, chosen - present
        if lost and shifts:
            former = shifts.unapply(lost)
            removed, shifts = removed | former, shifts.clip(stayed - former)
        elif lost:
            removed = removed | lost
        self._rows = moved ^ (lost ^ added)
        return TableUpdate(added, removed, shifts, self._modified(update, added))

    def _bounds(self, groups: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The positions at which groups with rows begin and end."""
        first, end = self._members.bounds(groups)
        return first[first < end], end[first < end]

    def _chosen(self, first: Int64Array, end: Int64Array) -> RowSet:
        """The rows of the result in groups at positions ``first`` to ``end``."""
        if not self._most or not len(first):
            return RowSet.empty()
        rows = np.minimum(end - first, self._most)
        first = end - rows if self._from_end else first
        return self._order.rows_within(first, first + rows)

    def _spans(self, first: Int64Array, end: Int64Array) -> RowSet:
        """Return the keys between the first and the last row of groups.

        Args:
            first: the position of the first row of each group.
            end: the position behind its last row.

        """
        if not len(first):
            return RowSet.empty()
        keys = self._order.slots_at(np.stack((first, end - 1), axis=1).ravel())
        return RowSet.from_ranges(keys[::2], keys[1::2])

    def _modified(self, update: TableUpdate, added: RowSet) -> tuple[RowSet, ...]:
        """The modified rows of the result without those ``added``, for each column."""
        found: dict[int, RowSet] = {}  # most often columns share their row set
        for rows in update.modified:
            if id(rows) not in found:
                slots = RowSet.from_keys(self._order.slots_of(rows.keys())) if rows else rows
                found[id(rows)] = (slots & self._rows) - added
        return tuple(found[id(update.modified[number])] for number in self._columns)

    def _outcome(self, version: TableVersion, update: TableUpdate) -> Outcome:
        self._members.drop_before(version.row_set)
        rows = self._order.view()
        return Outcome(self._rows, [RedirectedView(version.views[number], rows) for number in self._columns], update)


def head_by(
    parents: Sequence[Table], rows: int, by: Sequence[str], *, from_end: bool = False, name: str | None = None
) -> Table:
    """The first or last ``rows`` rows of each group of rows that are equal in ``by``.

    Raises:
        InvalidRequestError: ``rows`` is no number of rows, or the result would have a column twice.
        UnknownColumnError: the table lacks a column.
        UnsupportedTypeError: a column of ``by`` cannot tell groups apart.

    """
    (table,) = parents
    count = integer(rows, "num_rows")
    pairs = [pair(entry) for entry in by]
    names = [result for result, _ in pairs]
    keys = known_columns(table, [source for _, source in pairs], "by") if pairs else []
    sources = [table.schema.field(number).name for number in keys]
    check_column_names(sources)
    operator = HeadBy(table.schema, keys, names, count, from_end=from_end)
    check_column_names(operator.schema.names)
    renamed = dict(zip(sources, names, strict=True))
    key_columns = [renamed.get(column, column) for column in table.key_columns]
    traits = TableTraits(stated=route_of(table.traits))
    return make([table], "tail_by" if from_end else "head_by", operator, traits, key_columns=key_columns, name=name)
