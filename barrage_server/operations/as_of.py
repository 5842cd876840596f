"""The joins with the nearest row in an order: ``aj`` and ``raj``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from barrage_server.engine import Table, TableUpdate, TableVersion
from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.ranges import joined
from barrage_server.engine.redirected import numbers_of
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError
from barrage_server.operations.checks import known_columns, pair
from barrage_server.operations.grouped_rows import forget_dead_groups
from barrage_server.operations.history import readable_with
from barrage_server.operations.join_columns import (
    AddedColumns,
    JoinKeys,
    added_columns,
    compared_columns,
    join_keys,
    without_order,
)
from barrage_server.operations.ordering import Key, is_sortable, order_of
from barrage_server.operations.result import make
from barrage_server.operations.row_places import MappedView
from barrage_server.operations.stamped_rows import Stamped, StampedRows
from barrage_server.operations.traits import of_columns, route_of
from barrage_server.rowset import RowSet

__all__ = ["AsOfJoin", "as_of_join"]

_NUMBER: Final = pa.schema([("number", pa.int64())])
_NO_ROW, _GONE = -1, -2
_BLOCK: Final = 1 << 16
_BLOCK_BITS: Final = 16
_MANY: Final = 1 << 20
"""Left rows that are sorted at a time, when the table starts."""
_RELATIONS: Final = (">=", "<=", ">", "<")


class AsOfJoin(Operator):
    """The left rows with columns of the nearest right row.

    The state is the right row of each left row, and the right rows by group and stamp; if the right table ticks, the
    left rows, too. A cycle costs some comparisons for each changed row of either side, and the left rows between the
    stamps of right rows that come, go, are modified or get another row key, and the next stamps.

    Args:
        left: the columns of the left input.
        keys: the columns that are equal; there may be none.
        stamps: the numbers of the left and the right stamps, which have one type.
        added: the right columns that are added.
        is_backward: whether the right row is the last one that is not behind the left row; otherwise the first one that
            is not before it.
        takes_equal: whether a right row with an equal stamp counts.
        follows_right: whether the right table ticks.
        keeps_history: whether rows stay readable after they have left, as far as they do in the left input.

    """

    name: ClassVar[str] = "aj"

    def __init__(
        self,
        left: pa.Schema,
        keys: JoinKeys,
        stamps: tuple[int, int],
        added: AddedColumns,
        *,
        is_backward: bool,
        takes_equal: bool,
        follows_right: bool,
        keeps_history: bool = False,
    ) -> None:
        self.schema = pa.schema([*left, *added.fields])
        self._columns = added.numbers
        self._is_backward = is_backward
        self._equal_behind = is_backward != takes_equal  # right rows with the stamp of a left one, for the latter
        self._keeps_history = keeps_history
        self._groups = GroupIndex(keys.schema)
        self._left = StampedRows(
            self._groups, keys.left, keys.types, stamps[0], is_ordered=follows_right, may_wait=True
        )
        self._right = StampedRows(self._groups, keys.right, keys.types, stamps[1], follows=follows_right, may_wait=True)
        self._rows = ColumnStore(_NUMBER)  # the right row of each left row, or -1
        self._readable = RowSet.empty()
        self._dropped = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the groups, the orders and the map."""
        return self._groups.nbytes + self._left.nbytes + self._right.nbytes + self._rows.nbytes

    def start(self, inputs: Inputs) -> Outcome:
        """Order the rows, and look for the right row of each left one."""
        left, right = inputs
        self._left.start(left)
        self._right.start(right)
        self._rows.expect(left.row_set)
        nearest = self._right.nearest(right, before_equal=self._equal_behind)
        for begin in range(0, left.size, _MANY):
            rows = left.row_set.slice(begin, begin + _MANY)
            places = None if nearest is None else nearest.places(*self._left.stamped(rows))
            for start in range(0, rows.size, _BLOCK):
                part = rows.slice(start, start + _BLOCK)
                known = None if places is None else places[start : start + _BLOCK]
                self._rows.columns[0].write(part, pa.array(self._found(part, known)), None)
        return self._outcome(left, right, TableUpdate.of_added(left.row_set, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Find the right rows of changed left rows, and near changed right rows."""
        (left_change, right_change), (left, right) = changes, inputs
        update = TableUpdate.empty(len(left.schema)) if left_change is None else left_change.update
        departure = self._left.leave(left_change)
        self._left.version = left
        if left_change is not None:
            before, after = left_change.moved()
            if len(before):
                self._rows.columns[0].move(before, after, self._rows.undo)
        near = departure.rekeyed
        removed = RowSet.empty()
        touched = None
        if right_change is not None:
            touched = self._follow_right(right_change)
            removed = right_change.update.removed
        self._right.version = right
        if touched is not None and not update.removed and not departure.rekeyed:
            near = self._left_rows(touched)  # fewer than with the new rows, which are looked at in any case
            touched = None
        self._left.arrive(left, update.added, departure)
        self._rows.columns[0].write(update.added, pa.array(self._found(update.added)), self._rows.undo)
        if touched is not None:
            near = near | (self._left_rows(touched) - update.added)
        keys, found = near.keys(), self._found(near)
        former = self._rows_of(keys)
        known = former.copy()
        if right_change is not None:
            if right_change.update.shifted.size:
                self._shift(right_change, near | update.added)
                known = np.where(former < 0, former, right_change.update.shifted.apply_keys(former))
            known[removed.contains(former)] = _GONE
        self._rows.columns[0].write(keys[found != former], pa.array(found[found != former]), self._rows.undo)
        others = RowSet.from_sorted_keys(keys[found != known])
        modified = [others | (rows - update.added) for rows in self._modified(right_change)]
        own = TableUpdate(update.added, update.removed, update.shifted, (*update.modified, *modified))
        forget_dead_groups(self._groups, self._left, self._right, left.row_set, right.row_set)
        return self._outcome(left, right, own)

    def _follow_right(self, change: Change) -> Stamped:
        """Apply a change of the right rows; the groups and stamps of the change."""
        update = change.update
        removed = update.removed
        stamps = self._right.stamps(removed, change.before)
        departure = self._right.leave(change)
        rekeyed = departure.rekeyed
        former = update.shifted.unapply(rekeyed) if update.shifted.size and rekeyed else rekeyed
        touched = [(departure.groups, stamps), (departure.former, self._right.stamps(former, change.before))]
        self._right.arrive(change.after, update.added, departure)
        touched.append(self._right.stamped(update.added | rekeyed))
        groups, all_stamps = zip(*touched, strict=True)
        return np.concatenate(groups), pa.concat_arrays(all_stamps)

    def _shift(self, change: Change, but: RowSet) -> None:
        """Replace the row keys of right rows that moved, in their left rows."""
        before, after = change.moved()
        rows = self._left_rows(self._right.stamped(RowSet.from_sorted_keys(after))) - but
        keys = rows.keys()
        former = self._rows_of(keys)
        mine = RowSet.from_sorted_keys(before).contains(former)
        moved = pa.array(change.update.shifted.apply_keys(former[mine]))
        self._rows.columns[0].write(keys[mine], moved, self._rows.undo)

    def _modified(self, change: Change | None) -> list[RowSet]:
        """For each added column, the left rows whose right row changed in it."""
        if change is None:
            return [RowSet.empty()] * len(self._columns)
        modified = [change.update.modified[number] for number in self._columns]
        near = self._left_rows(self._right.stamped(RowSet.union_all(modified))).keys()
        theirs = self._rows_of(near)
        return [RowSet.from_sorted_keys(near[rows.contains(theirs)]) for rows in modified]

    def _found(self, rows: RowSet, places: Int64Array | None = None) -> Int64Array:
        """The right rows of left rows.

        Args:
            rows: the left rows.
            places: the positions of the right rows behind them in the right order, if these are known.

        """
        found = np.full(rows.size, _NO_ROW, np.int64)
        if not rows or self._right.is_empty:
            return found
        groups = self._left.groups_of(rows.keys())
        if places is None:
            return self._sought((groups, self._left.stamps(rows)))
        return self._at(places, groups)

    def _sought(self, stamped: Stamped) -> Int64Array:
        """The right rows for groups and stamps; appended stamps need no search."""
        groups, stamps = stamped
        before, behind = self._right.beside(stamped, or_equal=not self._equal_behind)
        found = before if self._is_backward else behind
        others = np.flatnonzero(before < 0)
        if len(others):
            stamped = groups[others], stamps.take(pa.array(others))
            found[others] = self._at(self._right.rank(stamped, before_equal=self._equal_behind), stamped[0])
        return found

    def _at(self, places: Int64Array, groups: Int64Array) -> Int64Array:
        """The right rows beside positions in the right order.

        Args:
            places: the positions. A backward join looks before them, the other one at them.
            groups: the groups of the left rows.

        """
        order = self._right.order
        assert order is not None
        found = np.full(len(groups), _NO_ROW, np.int64)
        if self._is_backward:
            places = places - 1
        there = np.flatnonzero((places >= 0) & (places < order.size))
        keys = self._right.keys_at(places[there])
        mine = self._right.groups_of(keys) == groups[there]
        found[there[mine]] = keys[mine]
        return found

    def _left_rows(self, stamped: Stamped) -> RowSet:
        """The left rows from given right stamps to the next right stamps.

        The given stamps need not be present.
        """
        if self._left.is_empty or not len(stamped[0]):
            return RowSet.empty()
        self._left.counts.reserve(self._groups.count)
        are_near = self._left.counts.array[stamped[0]] > 0
        if self._is_backward:
            are_near &= self._left.last_before(stamped, or_equal=self._equal_behind) < 0
        if not are_near.any():
            return RowSet.empty()
        stamped = stamped[0][are_near], stamped[1].filter(pa.array(are_near))
        stamped, begin, end = self._near_left_rows(stamped)
        groups, _ = stamped
        if not len(groups):
            return RowSet.empty()
        here = self._left.rank(stamped, before_equal=not self._equal_behind)
        # the next right row with another stamp
        there = self._right.rank(stamped, before_equal=not self._is_backward)
        there = there if self._is_backward else there - 1
        assert self._right.order is not None
        known = np.flatnonzero((there >= 0) & (there < self._right.order.size))
        keys = self._right.keys_at(there[known])
        mine = self._right.groups_of(keys) == groups[known]
        known, keys = known[mine], keys[mine]
        ordered, where = np.unique(keys, return_inverse=True)
        next_stamps = self._right.stamps(RowSet.from_sorted_keys(ordered)).take(pa.array(where))
        limit = self._left.rank((groups[known], next_stamps), before_equal=not self._equal_behind)
        if self._is_backward:
            begin, end[known] = here, limit
        else:
            begin[known], end = limit, here
        some = begin < end
        starts, ends, _ = joined(begin[some], end[some])
        order = self._left.order
        assert order is not None
        return RowSet.from_keys(order.keys_at(order.rows_within(starts, ends).keys()))

    def _near_left_rows(self, stamped: Stamped) -> tuple[Stamped, Int64Array, Int64Array]:
        """Right groups and stamps that have left rows on the side of the join.

        Returns:
            The groups and stamps, in order; and the positions at which the left rows of their groups begin and end.

        """
        groups, stamps = stamped
        order = order_of([pa.array(groups), stamps], (Key(0), Key(1)), len(groups))
        groups, stamps = groups[order], stamps.take(pa.array(order))
        is_first = np.append(True, groups[1:] != groups[:-1])
        outer = np.flatnonzero(is_first if self._is_backward else np.append(is_first[1:], True))
        begin, end = self._left.bounds(groups[outer])
        limit = self._left.rank((groups[outer], stamps.take(pa.array(outer))), before_equal=not self._equal_behind)
        some = limit < end if self._is_backward else begin < limit
        place = np.cumsum(is_first) - 1
        near = np.flatnonzero(some[place])
        return (groups[near], stamps.take(pa.array(near))), begin[place[near]], end[place[near]]

    def _rows_of(self, keys: Int64Array) -> Int64Array:
        return numbers_of(self._rows.columns[0].read_current(keys))

    def _outcome(self, left: TableVersion, right: TableVersion, update: TableUpdate) -> Outcome:
        self._left.drop_before(left.row_set)
        self._right.drop_before(right.row_set)
        if left.readable and left.readable.first_key >> _BLOCK_BITS > self._dropped:
            self._dropped = left.readable.first_key >> _BLOCK_BITS
            self._rows.columns[0].drop_before(self._dropped << _BLOCK_BITS)
        (rows,) = self._rows.views()
        views: list[ColumnView] = [*left.views, *(MappedView(right.views[number], rows) for number in self._columns)]
        if not self._keeps_history:
            return Outcome(left.row_set, views, update)
        self._readable = readable_with(self._readable, left.row_set, left)
        return Outcome(left.row_set, views, update, self._readable)


def as_of_join(
    parents: Sequence[Table], on: Sequence[str], joins: Sequence[str], *, reverse: bool = False, name: str | None = None
) -> Table:
    """The first table with columns of the nearest row of the second one.

    This is the last row before the left one, or at it; of rows with equal stamps the last. With ``reverse`` it is the
    first row behind the left one, or at it; of rows with equal stamps the first.

    Of right rows with equal stamps the last one is taken. With ``reverse`` it is the first one behind the left row, or
    at it, and of equal ones the first.

    Args:
        parents: the left and the right table.
        on: the columns that are equal, as ``"sym"`` or ``"sym = symbol"``, and last the stamps: ``"time"``,
            ``"time >= quoted"`` or ``"time > quoted"``; with ``reverse`` ``"time <= quoted"`` or ``"time < quoted"``.
        joins: the columns of the right table: ``"price"`` or ``"last = price"``; none: all that are not compared.
            Before them come compared ones of whose names the left table has no column.
        reverse: whether the right row is behind the left one.
        name: its name in messages and logs.

    Raises:
        UnknownColumnError: a table lacks a column.
        InvalidRequestError: columns to compare are of different types, or a result column is there already.
        UnsupportedTypeError: columns of a type cannot be keys.

    """
    left, right = parents
    if not on:
        raise InvalidRequestError("An as-of join needs columns that are compared, the stamps last: on=['sym', 'time'].")
    mine, relation, theirs = _relation(on[-1], reverse=reverse)
    pairs = [pair(entry) for entry in on[:-1]]
    keys = join_keys(left, right, pairs)
    (left_stamp,), (right_stamp,) = known_columns(left, [mine], "on"), known_columns(right, [theirs], "on")
    stamps = left.schema.field(left_stamp), right.schema.field(right_stamp)
    field = compared_columns(left, right, *stamps, are_keys=False)
    if not is_sortable(field.type):
        raise without_order(left, right, field)
    added = added_columns(left, right, _joins(left, right, [*(second for _, second in pairs), theirs], joins), [])
    traits = of_columns(left.traits)
    if right.is_refreshing:
        traits = replace(traits, append_only=False, add_only=False, is_blink=False)
    traits = replace(traits, stated=route_of(left.traits, right.traits))
    operator = AsOfJoin(
        left.schema,
        keys,
        (left_stamp, right_stamp),
        added,
        is_backward=not reverse,
        takes_equal="=" in relation,
        follows_right=right.is_refreshing,
        keeps_history=traits.is_blink,
    )
    called = "raj" if reverse else "aj"
    return make([left, right], called, operator, traits, key_columns=left.key_columns, name=name)


def _joins(left: Table, right: Table, compared: Sequence[str], joins: Sequence[str]) -> list[str]:
    """The columns to add.

    These are the columns ``compared`` whose names the left table does not have, then ``joins``, or all others. If
    ``joins`` names a compared column, too, its entry takes the place of the compared column.
    """
    mine = set(left.schema.names)
    known = [(name, name) for name in dict.fromkeys(compared) if name not in mine]
    others: list[tuple[str, str]] = []
    theirs = set(compared)
    wanted = [pair(entry) for entry in joins] or [(name, name) for name in right.schema.names if name not in theirs]
    for name, source in wanted:
        if (source, source) in known:
            known[known.index((source, source))] = name, source
        elif (name, name) in known:
            known[known.index((name, name))] = name, source
        else:
            others.append((name, source))
    return [f"{name} = {source}" for name, source in [*known, *others]]


def _relation(entry: str, *, reverse: bool) -> tuple[str, str, str]:
    """The left stamps, the relation and the right stamps of the last entry of ``on``."""
    known = ("<=", "<") if reverse else (">=", ">")
    for relation in _RELATIONS:
        left, found, right = (part.strip() for part in entry.partition(relation))
        if found:
            if left and right and found in known and not any(sign in right for sign in "<>="):
                return left, found, right
            break
    else:
        if entry.strip() and "=" not in entry:
            return entry.strip(), known[0], entry.strip()
    name = "raj" if reverse else "aj"
    raise InvalidRequestError(
        f"The last entry of on is 'time', 'time {known[0]} quoted' or 'time {known[1]} quoted' in {name}, not "
        f"{entry[:100]!r}."
    )
