"""Filters by the keys of another table: ``where_in`` and ``where_not_in``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine import Table, TableUpdate, TableVersion
from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.order_index import OrderIndex
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.update import all_columns
from barrage_server.errors import InvalidRequestError
from barrage_server.operations.checks import pair
from barrage_server.operations.group_totals import GroupArray
from barrage_server.operations.grouped_rows import GroupedRows, groups_at, joined, living_groups, may_be_dead
from barrage_server.operations.history import readable_with
from barrage_server.operations.join_columns import JoinKeys, join_keys, key_pieces
from barrage_server.operations.result import make
from barrage_server.operations.traits import of_rows, route_of
from barrage_server.rowset import RowSet

__all__ = ["WhereIn", "where_in"]


class WhereIn(Operator):
    """The left rows whose key the right table has, or does not have.

    The state is the right keys, each with the number of its rows; if the right table ticks, the left rows by key, too.
    A cycle costs the rows that change in a key column on both sides, and the left rows of keys that appear on the right
    or vanish there.

    Args:
        schema: the columns of the left input.
        keys: the columns that are compared.
        inverted: whether the rows without a right row are wanted.
        follows_right: whether the right table ticks.
        keeps_history: whether rows stay readable after they have left, as far as they do in the left input.

    """

    name: ClassVar[str] = "where_in"

    def __init__(
        self, schema: pa.Schema, keys: JoinKeys, *, inverted: bool, follows_right: bool, keeps_history: bool = False
    ) -> None:
        self.schema = schema
        self._keys = keys
        self._inverted = inverted
        self._keeps_history = keeps_history
        self._groups = GroupIndex(keys.schema)
        self._there = GroupArray(np.int64)  # right rows of each group
        order = OrderIndex(versioned=False)
        self._left = GroupedRows(self._groups, keys.left, keys.types, order) if follows_right else None
        self._rows = RowSet.empty()
        self._readable = RowSet.empty()
        self._gone = 0  # right rows that have gone since groups were looked at

    @property
    def nbytes(self) -> int:
        """Bytes of the keys, and of the order of the left rows."""
        return self._groups.nbytes + self._there.nbytes + (0 if self._left is None else self._left.nbytes)

    def start(self, inputs: Inputs) -> Outcome:
        """Add the right keys, and look them up for the left rows."""
        left, right = inputs
        found = [
            self._groups.add(keys, part.size)
            for part, keys in key_pieces(right, right.row_set, self._keys.right, self._keys.types)
        ]
        self._count(joined(found), 1)
        if self._left is not None:
            self._left.start(left)
            self._there.reserve(self._groups.count)
        self._rows = self._chosen(left, left.row_set)
        return self._outcome(left, TableUpdate.of_added(self._rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Look up the keys of changed left rows, and the left rows of changed keys."""
        (left_change, right_change), (left, _) = changes, inputs
        update = TableUpdate.empty(len(self.schema)) if left_change is None else left_change.update
        departure = None if self._left is None else self._left.leave(left_change)
        appeared, vanished = self._follow_right(right_change)
        if self._left is not None and departure is not None:
            self._left.arrive(left, update.added, departure)
            self._there.reserve(self._groups.count)
        before, shifts = self._rows, update.shifted
        removed = before & update.removed
        stayed = before - removed if removed else before
        moved = shifts.apply(stayed) if shifts.size else stayed
        rekeyed = RowSet.union_all(update.modified[number] for number in self._keys.left)
        are_in, were_in = self._chosen(left, rekeyed), rekeyed & moved
        came, went = are_in - were_in, were_in - are_in
        if self._left is not None and (len(appeared) or len(vanished)):
            others = update.added | rekeyed
            came = came | (self._left.rows_of(appeared) - others)
            went = went | ((self._left.rows_of(vanished) - others) & moved)
        if went:
            moved = moved - went
            went_before = shifts.unapply(went) if shifts.size else went
            removed, stayed = removed | went_before, stayed - went_before
        added = self._chosen(left, update.added) | came
        modified = all_columns(RowSet.empty(), len(self.schema))
        if any(update.modified):
            modified = tuple(rows & moved if rows else rows for rows in update.modified)
        self._rows = moved | added if added else moved
        own_shifts = shifts.clip(stayed) if shifts.size else shifts
        self._pack(left)
        return self._outcome(left, TableUpdate(added, removed, own_shifts, modified))

    def _follow_right(self, change: Change | None) -> tuple[Int64Array, Int64Array]:
        """Update the numbers of right rows.

        Returns:
            The groups whose left rows enter the result, and those whose rows leave it.

        """
        nothing = np.zeros(0, np.int64)
        if change is None or change.update.is_empty:
            return nothing, nothing
        update, keys = change.update, self._keys
        rekeyed = RowSet.union_all(update.modified[number] for number in keys.right)
        former = update.shifted.unapply(rekeyed) if update.shifted.size and rekeyed else rekeyed
        less = groups_at(self._groups, change.before, update.removed | former, keys.right, keys.types)
        more = joined(
            [
                self._groups.add(values, part.size)
                for part, values in key_pieces(change.after, update.added | rekeyed, keys.right, keys.types)
            ]
        )
        self._there.reserve(self._groups.count)
        touched = np.unique(np.concatenate((less, more)))
        were = self._there.array[touched] > 0
        self._count(less, -1)
        self._count(more, 1)
        self._gone += len(less)
        are = self._there.array[touched] > 0
        appeared, vanished = touched[are & ~were], touched[were & ~are]
        return (vanished, appeared) if self._inverted else (appeared, vanished)

    def _count(self, groups: Int64Array, sign: int) -> None:
        self._there.reserve(self._groups.count)
        np.add.at(self._there.array, groups, sign)

    def _chosen(self, left: TableVersion, rows: RowSet) -> RowSet:
        """The ``rows`` that are in the result."""
        if not rows:
            return rows
        if self._left is not None:
            return self._where(rows, self._there.array[self._left.groups_of(rows.keys())] > 0)
        pieces = key_pieces(left, rows, self._keys.left, self._keys.types)
        return RowSet.union_all(self._where(part, self._groups.find(keys, part.size) >= 0) for part, keys in pieces)

    def _where(self, rows: RowSet, flags: npt.NDArray[np.bool_]) -> RowSet:
        places = np.flatnonzero(~flags if self._inverted else flags)
        return rows if len(places) == rows.size else RowSet.from_sorted_keys(rows.select(places))

    def _pack(self, left: TableVersion) -> None:
        """Renumber the groups that have rows, when most have none."""
        if self._left is None or not may_be_dead(self._gone + self._left.gone, self._groups.count):
            return
        self._gone = self._left.gone = 0
        count = self._groups.count
        are_living = (self._there.array[:count] > 0) | (self._left.counts.array[:count] > 0)
        living = living_groups(self._groups, are_living, left.size)
        if living is not None:
            self._groups.pack(living)
            self._there.pack(living)
            self._left.pack(left.row_set, living)

    def _outcome(self, left: TableVersion, update: TableUpdate) -> Outcome:
        if self._left is not None:
            self._left.drop_before(left.row_set)
        if not self._keeps_history:
            return Outcome(self._rows, left.views, update)
        self._readable = readable_with(self._readable, self._rows, left)
        return Outcome(self._rows, left.views, update, self._readable)


def where_in(
    parents: Sequence[Table], columns: Sequence[str], *, inverted: bool = False, name: str | None = None
) -> Table:
    """The rows of the first table whose key the second one has.

    With ``inverted``, the rows whose key the second table does not have.

    Args:
        parents: the table, and the one with the keys.
        columns: the columns that are compared: ``"sym"``, or ``"sym = symbol"`` for other names in the second one.
        inverted: whether rows with a key of the second table are left out.
        name: its name in messages and logs.

    Raises:
        UnknownColumnError: a table lacks a column.
        InvalidRequestError: there are no columns, or they are of different types.
        UnsupportedTypeError: columns of a type cannot be keys.

    """
    left, right = parents
    if not columns:
        raise InvalidRequestError("Name at least one column that is compared: cols=['sym'].")
    keys = join_keys(left, right, [pair(entry) for entry in columns], "cols")
    traits = of_rows(left.traits)
    if right.is_refreshing:  # rows enter and leave with the keys
        traits = TableTraits()
    traits = TableTraits(
        append_only=traits.append_only,
        add_only=traits.add_only,
        is_blink=traits.is_blink,
        stated=route_of(left.traits, right.traits),
    )
    operator = WhereIn(
        left.schema, keys, inverted=inverted, follows_right=right.is_refreshing, keeps_history=traits.is_blink
    )
    called = "where_not_in" if inverted else "where_in"
    return make([left, right], called, operator, traits, key_columns=left.key_columns, name=name)
