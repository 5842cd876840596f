"""The joins that add columns of the row with the same key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa

from barrage_server.engine import Table, TableUpdate, TableVersion
from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.operator import Changes, Inputs, Operator, Outcome
from barrage_server.engine.order_index import OrderIndex
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.redirected import numbers_of, pick
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError, KeyMismatchError
from barrage_server.operations.checks import pair
from barrage_server.operations.gathered import GatheredView
from barrage_server.operations.grouped_rows import GroupedRows, living_groups, may_be_dead
from barrage_server.operations.join_columns import AddedColumns, JoinKeys, added_columns, join_keys
from barrage_server.operations.result import make
from barrage_server.operations.right_rows import NO_ROW, ChosenRows, OnlyRows, RightRows, key_of_group
from barrage_server.operations.row_places import RowPlaces
from barrage_server.operations.traits import of_columns, route_of
from barrage_server.plan.joins import NaturalJoinType

__all__ = ["JoinedView", "NaturalJoin", "exact_join", "natural_join"]


class JoinedView(GatheredView):
    """A column of the right table for the left rows; null without a right row.

    Args:
        view: the column.
        groups: the group of each left row. One object for all columns of a version, which share the look-up.
        rights: the right row of each group, or -1.

    """

    __slots__ = ("_groups", "_rights")

    def __init__(self, view: ColumnView, groups: ColumnView, rights: ColumnView) -> None:
        super().__init__(view, groups, rights)
        self._groups = groups
        self._rights = rights

    def read(self, plan: ReadPlan) -> pa.Array:
        """Read the right rows in their order, and put values in their places."""
        known = plan.in_source
        if known is None or known[0] is not self._groups:
            (rows,) = pick([self._rights], numbers_of(self._groups.read(plan)))
            known = plan.in_source = (self._groups, RowPlaces.of(numbers_of(rows)))
        return known[1].read(self._view)


class NaturalJoin(Operator):
    """The left rows with columns of the right row that has the same key.

    The state is the group of each left row, and the right row of each group; if the right table ticks, the left rows by
    group, too. A cycle costs the rows that change on both sides, and the left rows of keys whose right row has changed.

    Args:
        left: the columns of the left input.
        keys: the columns that are compared.
        added: the right columns that are added.
        match: which right row is taken, if there are several.
        follows_right: whether the right table ticks.

    """

    name: ClassVar[str] = "natural_join"
    _is_exact: ClassVar[bool] = False

    def __init__(
        self,
        left: pa.Schema,
        keys: JoinKeys,
        added: AddedColumns,
        *,
        match: NaturalJoinType = NaturalJoinType.ERROR_ON_DUPLICATE,
        follows_right: bool = True,
    ) -> None:
        self.schema = pa.schema([*left, *added.fields])
        self._keys = keys
        self._columns = added.numbers
        self._groups = GroupIndex(keys.schema)
        order = OrderIndex(versioned=False) if follows_right else None
        self._left = GroupedRows(self._groups, keys.left, keys.types, order, keeps_versions=True)
        self._right: RightRows
        if match is NaturalJoinType.ERROR_ON_DUPLICATE:
            self._right = OnlyRows(self._groups, keys.right, keys.types, added.numbers)
        else:
            is_last = match is NaturalJoinType.LAST_MATCH
            self._right = ChosenRows(
                self._groups, keys.right, keys.types, added.numbers, is_last=is_last, is_ordered=follows_right
            )

    @property
    def nbytes(self) -> int:
        """Bytes of the groups and the maps."""
        return self._groups.nbytes + self._left.nbytes + self._right.nbytes

    def start(self, inputs: Inputs) -> Outcome:
        """Find the right row of each group, then the group of each left row.

        The right keys come first, since they are fewer, and often in order.
        """
        left, right = inputs
        self._right.start(right)
        self._left.start(left)
        self._right.extend()
        self._left.counts.reserve(self._groups.count)
        if self._is_exact:
            self._check(np.arange(self._groups.count))
        return self._outcome(left, right, TableUpdate.of_added(left.row_set, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Follow changed left rows, and the left rows of changed right rows."""
        (left_change, right_change), (left, right) = changes, inputs
        update = TableUpdate.empty(len(left.schema)) if left_change is None else left_change.update
        departure = self._left.leave(left_change)
        regrouped = departure.rekeyed
        nothing = np.zeros(0, np.int64)
        touched, by_column = nothing, [nothing] * len(self._columns)
        if right_change is not None and not right_change.update.is_empty:
            touched, by_column = self._right.follow(right_change)
        self._left.arrive(left, update.added, departure)
        self._right.extend()
        self._left.counts.reserve(self._groups.count)
        if self._is_exact:
            come = self._left.groups_of((update.added | regrouped).keys())
            self._check(np.concatenate((touched, come)))
        modified = []
        for changed in by_column:
            groups = np.unique(np.concatenate((touched, changed)))
            rows = self._left.rows_of(groups) | regrouped
            modified.append(rows - update.added if update.added else rows)
        own = TableUpdate(update.added, update.removed, update.shifted, (*update.modified, *modified))
        self._pack(left, right)
        return self._outcome(left, right, own)

    def _check(self, groups: Int64Array) -> None:
        """Raise KeyMismatchError when left rows of ``groups`` have no right row."""
        alone = groups[(self._right.of(groups) == NO_ROW) & (self._left.counts.array[groups] > 0)]
        if len(alone):
            raise KeyMismatchError(
                f"The right table of an exact join has no row with the key "
                f"{key_of_group(self._groups, int(alone[0]))}, which the left one has. Add it, or use natural_join, "
                f"which gives nulls."
            )

    def _pack(self, left: TableVersion, right: TableVersion) -> None:
        """Renumber the groups that have rows, when most have none."""
        count = self._groups.count
        if not may_be_dead(self._left.gone + self._right.gone, count):
            return
        self._left.gone = self._right.gone = 0
        are_living = (self._left.counts.array[:count] > 0) | (self._right.of(np.arange(count)) != NO_ROW)
        rows, past = left.readable, left.readable.size - left.size
        if living_groups(self._groups, are_living, left.size, past) is None:
            return
        if past:  # rows of a blink table that have left can still be read
            are_living[self._left.groups_of(rows.keys())] = True
        living = np.flatnonzero(are_living)
        self._right.pack(right, living)
        self._groups.pack(living)
        self._left.pack(rows, living)

    def _outcome(self, left: TableVersion, right: TableVersion, update: TableUpdate) -> Outcome:
        self._left.drop_before(left.readable)
        (groups,), (rights,) = self._left.store.views(), self._right.store.views()
        added = [JoinedView(right.views[number], groups, rights) for number in self._columns]
        return Outcome(left.row_set, [*left.views, *added], update, left.readable)


class ExactJoin(NaturalJoin):
    """A natural join whose left rows all need a right one."""

    name: ClassVar[str] = "exact_join"
    _is_exact: ClassVar[bool] = True


def natural_join(
    parents: Sequence[Table],
    on: Sequence[str],
    joins: Sequence[str],
    match: str = NaturalJoinType.ERROR_ON_DUPLICATE,
    *,
    name: str | None = None,
    exact: bool = False,
) -> Table:
    """The first table with columns of the row of the second with the same key.

    Args:
        parents: the left and the right table.
        on: the columns that are compared: ``"sym"``, or ``"sym = symbol"`` for other names on the right.
        joins: the columns of the right table: ``"price"`` or ``"last = price"``; none: all others.
        match: which row is taken if the right table has several with one key: ``"error_on_duplicate"``,
            ``"first_match"`` or ``"last_match"``.
        name: its name in messages and logs.
        exact: whether each left row needs a right one.

    Raises:
        UnknownColumnError: a table lacks a column.
        InvalidRequestError: columns to compare are of different types, or a result column is there already.
        KeyMismatchError: the right table has a key twice, or lacks one that it needs.
        UnsupportedTypeError: columns of a type cannot be keys.

    """
    left, right = parents
    pairs = [pair(entry) for entry in on]
    if not pairs:
        raise InvalidRequestError("A join needs columns that are compared: on=['sym'].")
    keys = join_keys(left, right, pairs)
    compared = {theirs for _, theirs in pairs}
    added = added_columns(left, right, joins, [each for each in right.schema.names if each not in compared])
    joining = ExactJoin if exact else NaturalJoin
    operator = joining(left.schema, keys, added, match=NaturalJoinType(match), follows_right=right.is_refreshing)
    traits = of_columns(left.traits)
    if right.is_refreshing:
        traits = replace(traits, append_only=False, add_only=False)
    traits = replace(traits, stated=route_of(left.traits, right.traits))
    return make([left, right], joining.name, operator, traits, key_columns=left.key_columns, name=name)


def exact_join(parents: Sequence[Table], on: Sequence[str], joins: Sequence[str], *, name: str | None = None) -> Table:
    """A natural join that fails for a left row without a right row.

    Raises what :func:`natural_join` does.
    """
    return natural_join(parents, on, joins, name=name, exact=True)
