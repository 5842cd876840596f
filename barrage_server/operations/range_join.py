"""The join of each row with the rows within its range: ``range_join``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.engine import Table, TableUpdate, TableVersion
from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.order_index import OrderIndex
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.redirected import numbers_of
from barrage_server.engine.store import ColumnStore
from barrage_server.errors import InvalidRequestError, UnsupportedOperationError
from barrage_server.operations.checks import known_columns, pair
from barrage_server.operations.grouped_rows import GroupedRows, forget_dead_groups
from barrage_server.operations.join_columns import (
    AddedColumns,
    JoinKeys,
    added_columns,
    compared_columns,
    join_keys,
    without_order,
)
from barrage_server.operations.members import Members
from barrage_server.operations.ordering import Key, comes_before, is_sortable
from barrage_server.operations.range_view import RangeMembers, RangeView
from barrage_server.operations.result import make
from barrage_server.operations.stamped_rows import StampedRows
from barrage_server.operations.traits import of_columns, route_of
from barrage_server.plan.aggregation import Aggregation
from barrage_server.plan.range_match import RangeMatch
from barrage_server.rowset import RowSet
from barrage_server.wire.buffers import is_valid

__all__ = ["RangeColumns", "RangeJoin", "range_join"]

_BOUNDS: Final = pa.schema([("first", pa.int64()), ("length", pa.int64())])
_NULL: Final = -1
_KEY: Final = (Key(0),)
_NOTHING: Final = np.zeros(0, np.int64)

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class RangeColumns:
    """The columns of a range: both bounds on the left, and the right values."""

    first: int
    value: int
    last: int


class RangeJoin(Operator):
    """The left rows with lists of right rows within each row's range.

    The state is the start of each left row's list within its group and the list's length, and the right rows by group
    and value; if the right table ticks, the left rows by group, too. It includes no values. A cycle costs the left rows
    that change, and all left rows of the groups in which right rows come, go, or have other values.

    Args:
        left: the columns of the left input.
        keys: the columns that are equal; there may be none.
        columns: those of the range, whose types are those of the right one.
        match: which ends of the range belong to it.
        added: the right columns that are listed.
        follows_right: whether the right table ticks.

    """

    name: ClassVar[str] = "range_join"

    def __init__(
        self,
        left: pa.Schema,
        keys: JoinKeys,
        columns: RangeColumns,
        match: RangeMatch,
        added: AddedColumns,
        *,
        follows_right: bool,
    ) -> None:
        self.schema = pa.schema([*left, *(field.with_type(pa.list_(field.type)) for field in added.fields)])
        self._ends = columns
        self._match = match
        self._columns = added.numbers
        self._groups = GroupIndex(keys.schema)
        order = OrderIndex(versioned=False) if follows_right else None
        self._left = GroupedRows(self._groups, keys.left, keys.types, order, keeps_versions=True)
        self._right = StampedRows(self._groups, keys.right, keys.types, columns.value, keeps_versions=True)
        self._bounds = ColumnStore(_BOUNDS)

    @property
    def nbytes(self) -> int:
        """Bytes of the groups, the order and the bounds."""
        return self._groups.nbytes + self._left.nbytes + self._right.nbytes + self._bounds.nbytes

    def start(self, inputs: Inputs) -> Outcome:
        """Order the right rows, and find the bounds of all left rows."""
        left, right = inputs
        self._left.start(left)
        self._right.start(right)
        self._find(left, left.row_set, RowSet.empty())
        return self._outcome(left, right, TableUpdate.of_added(left.row_set, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Find the bounds of changed left rows, and in groups of changed right rows."""
        (left_change, right_change), (left, right) = changes, inputs
        update = TableUpdate.empty(len(left.schema)) if left_change is None else left_change.update
        departure = self._left.leave(left_change)
        if left_change is not None:
            before, after = left_change.moved()
            if len(before):
                for column in self._bounds.columns:
                    column.move(before, after, self._bounds.undo)
        touched = _NOTHING if right_change is None else self._follow_right(right_change)
        self._right.version = right
        self._left.arrive(left, update.added, departure)
        for rows in (self._left, self._right):
            rows.counts.reserve(self._groups.count)
        near = (self._left.rows_of(touched) | departure.rekeyed) - update.added
        moved = (update.modified[self._ends.first] | update.modified[self._ends.last]) - near
        others = near | self._find(left, update.added, near | moved)
        modified = [others | (rows - update.added) for rows in self._modified(right_change)]
        own = TableUpdate(update.added, update.removed, update.shifted, (*update.modified, *modified))
        forget_dead_groups(self._groups, self._left, self._right, left.row_set, right.row_set)
        return self._outcome(left, right, own)

    def _follow_right(self, change: Change) -> Int64Array:
        """Apply a change of the right rows; the groups whose rows have changed."""
        departure = self._right.leave(change)
        self._right.arrive(change.after, change.update.added, departure)
        came = self._right.groups_of((change.update.added | departure.rekeyed).keys())
        return np.unique(np.concatenate((departure.groups, departure.former, came)))

    def _modified(self, change: Change | None) -> list[RowSet]:
        """For each listed column, the left rows in groups with a modified right row."""
        if change is None:
            return [RowSet.empty()] * len(self._columns)
        modified = [change.update.modified[number] for number in self._columns]
        return [self._left.rows_of(np.unique(self._right.groups_of(rows.keys()))) for rows in modified]

    def _find(self, left: TableVersion, added: RowSet, known: RowSet) -> RowSet:
        """Find the bounds of ``added`` and ``known`` rows.

        Returns the known rows that have other bounds.
        """
        self._right.counts.reserve(self._groups.count)
        changed = [RowSet.empty()]
        for rows, is_new in ((added, True), (known, False)):
            for part in left.pieces(rows, (self._ends.first, self._ends.last)):
                keys, found = part.keys(), self._bounds_of(left, part)
                if not is_new:
                    former = [numbers_of(column.read_current(keys)) for column in self._bounds.columns]
                    differs = (found[0] != former[0]) | (found[1] != former[1])
                    keys, found = keys[differs], (found[0][differs], found[1][differs])
                    changed.append(RowSet.from_sorted_keys(keys))
                for column, values in zip(self._bounds.columns, found, strict=True):
                    column.write(keys, pa.array(values), self._bounds.undo)
        return RowSet.union_all(changed)

    def _bounds_of(self, left: TableVersion, rows: RowSet) -> tuple[Int64Array, Int64Array]:
        """The place of the first right row in its group, and the number of rows.

        Both are int64, per left row; the number is -1 for null.
        """
        value_type = self._right.version.schema.field(self._ends.value).type
        low, high = (
            column if column.type == value_type else column.cast(value_type)
            for column in left.read(rows, [self._ends.first, self._ends.last])
        )
        groups = self._left.groups_of(rows.keys())
        makes_sense = self._makes_sense(low, high)
        order = self._right.order
        if order is None or not order.size:
            return np.zeros(len(groups), np.int64), np.where(makes_sense, 0, _NULL)
        origin, group_end = self._right.bounds(groups)
        # values without an order stand at the ends of each group: null first, NaN last
        nulls, nans = pa.nulls(len(groups), value_type), _all_nan(len(groups), value_type)
        least = self._right.rank((groups, nulls), before_equal=False)
        most = group_end if nans is None else self._right.rank((groups, nans), before_equal=True)
        low_before, low_behind = (self._right.rank((groups, low), before_equal=each) for each in (True, False))
        high_before, high_behind = (self._right.rank((groups, high), before_equal=each) for each in (True, False))
        begin = low_before if self._match.takes_first else low_behind
        end = high_behind if self._match.takes_last else high_before
        if self._match.takes_preceding:
            begin = begin - ((low_before == low_behind) & (begin > least))
        if self._match.takes_following:
            end = end + ((high_before == high_behind) & (end < most))
        begin = np.where(is_valid(low), begin, least)
        end = np.where(is_valid(high), end, most)
        return begin - origin, np.where(makes_sense, np.maximum(end - begin, 0), _NULL)

    def _makes_sense(self, low: pa.Array, high: pa.Array) -> Flags:
        """Which ranges do not end before they begin, and have no NaN as a bound."""
        no_ties = np.zeros(len(low), np.bool_)
        is_reversed = comes_before([high], [low], _KEY, no_ties)
        if not (self._match.takes_first and self._match.takes_last):
            is_reversed |= ~comes_before([low], [high], _KEY, no_ties)
        found: Flags = ~(is_reversed & is_valid(low) & is_valid(high))
        if pat.is_floating(low.type):
            for bound in (low, high):
                found &= ~np.isnan(bound.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False))
        return found

    def _outcome(self, left: TableVersion, right: TableVersion, update: TableUpdate) -> Outcome:
        self._left.drop_before(left.row_set)
        self._right.drop_before(right.row_set)
        order = self._right.order
        assert order is not None
        members = Members(order.rows, order.view(), self._right.store.views()[0])
        first, length = self._bounds.views()
        ranges = RangeMembers(members, self._left.store.views()[0], first, length, len(self._columns))
        views = [RangeView(right.views[number], ranges) for number in self._columns]
        return Outcome(left.row_set, [*left.views, *views], update)


def _all_nan(count: int, data_type: pa.DataType) -> pa.Array | None:
    """NaN of a type, or None for types without NaN."""
    if not pat.is_floating(data_type):
        return None
    return pa.array(np.full(count, np.nan)).cast(data_type)


def range_join(
    parents: Sequence[Table], on: Sequence[str], aggregations: Sequence[Aggregation], *, name: str | None = None
) -> Table:
    """The first table with lists of values of the second within each row's range.

    Args:
        parents: the left and the right table.
        on: the columns that are equal, as ``"sym"`` or ``"sym = symbol"``, and last the range:
            ``"start <= time <= end"`` with ``<`` or ``<=``, and a column of the right table in the middle; ``"<- start
            <= time"`` takes the row before it, too, if none is at the start, and ``"time <= end ->"`` that behind it.
        aggregations: the columns of the right table that are listed: ``agg.group("price")``.
        name: its name in messages and logs.

    Raises:
        UnknownColumnError: a table lacks a column.
        InvalidRequestError: columns to compare are of different types, or a result column is there already.
        UnsupportedOperationError: an aggregation is not ``group``.
        UnsupportedTypeError: columns of a type cannot be keys.

    """
    left, right = parents
    if not on:
        raise InvalidRequestError("A range_join needs a range, last in on: on=['sym', 'start <= time <= end'].")
    match = RangeMatch.of(on[-1])
    keys = join_keys(left, right, [pair(entry) for entry in on[:-1]])
    (first,), (last,) = known_columns(left, [match.first], "on"), known_columns(left, [match.last], "on")
    (value,) = known_columns(right, [match.value], "on")
    for number in (first, last):
        field = compared_columns(left, right, left.schema.field(number), right.schema.field(value), are_keys=False)
        if not is_sortable(field.type):
            raise without_order(left, right, field)
    listed: list[str] = []
    for each in aggregations:
        if each.function != "group":
            raise UnsupportedOperationError(
                f"A range_join lists values with the aggregation 'group' alone, not '{each.function}'. Compute others "
                f"from the lists: update('total = sum(prices)')."
            )
        listed += each.columns
    if not listed:
        raise InvalidRequestError("aggs must name the columns that are listed, as in bs.agg.group('price').")
    added = added_columns(left, right, listed, ())
    traits = replace(of_columns(left.traits), is_blink=False, stated=route_of(left.traits, right.traits))
    if right.is_refreshing:
        traits = replace(traits, append_only=False, add_only=False)
    operator = RangeJoin(
        left.schema, keys, RangeColumns(first, value, last), match, added, follows_right=right.is_refreshing
    )
    return make([left, right], "range_join", operator, traits, key_columns=left.key_columns, name=name)
