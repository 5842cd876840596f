"""The rows of one table, with columns of the row of another one that has the same key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine import Table, TableUpdate, TableVersion
from barrage_server.engine.group_index import GroupIndex, pack_rows
from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.order_index import OrderIndex
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.redirected import numbers_of, pick
from barrage_server.engine.storage import from_storage, to_storage
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.values import take
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError, KeyMismatchError
from barrage_server.operations.checks import check_column_names, known_columns, pair
from barrage_server.operations.group_totals import GroupArray
from barrage_server.operations.result import make
from barrage_server.operations.traits import of_columns, route_of
from barrage_server.rowset import MAX_KEY, RowSet

__all__ = ["JoinedView", "NaturalJoin", "exact_join", "natural_join"]

_FEW_DEAD: Final = 1024
_NONE: Final = -1
_BLOCK_BITS: Final = 16
_BLOCK: Final = 1 << _BLOCK_BITS
_SHOWN: Final = 200
_NUMBER: Final = pa.schema([("number", pa.int64())])


class JoinedView(ColumnView):
    """A column of the right table, for the rows of the left one; null where there is no right row.

    Args:
        view: the column.
        groups: the group of each left row. One object for all columns of a version, which share the look-up.
        rights: the right row of each group, or -1.

    """

    __slots__ = ("_groups", "_rights", "_view", "depth", "is_frozen", "type")

    def __init__(self, view: ColumnView, groups: ColumnView, rights: ColumnView) -> None:
        self.type = view.type
        self.is_frozen = False
        self.depth = view.depth + 1
        self._view = view
        self._groups = groups
        self._rights = rights

    def read(self, plan: ReadPlan) -> pa.Array:
        """Find the right rows, read them in their order, and put their values where they belong."""
        known = plan.in_source
        if known is None or known[0] is not self._groups:
            (rows,) = pick([self._rights], numbers_of(self._groups.read(plan)))
            keys = numbers_of(rows)
            there = keys != _NONE
            found = ReadPlan.from_keys(np.unique(keys[there]))
            places = np.full(len(keys), len(found.keys), np.int64)
            places[there] = np.searchsorted(found.keys, keys[there])
            known = plan.in_source = (self._groups, (found, places, not there.all()))
        found, places, missing = known[1]
        values = self._view.read(found)
        if not missing:
            return take(values, places)
        stored = to_storage(values)
        with_null = pa.concat_arrays([stored, pa.nulls(1, stored.type)])  # behind the last value
        return from_storage(take(with_null, places), self.type)

    def piece_end(self, key: int) -> int:  # noqa: ARG002  (as every view has it)
        """The end of the key space: values are copied in any case."""
        return MAX_KEY

    def compact(self) -> None:
        """As the column and the maps do."""
        for view in (self._view, self._groups, self._rights):
            view.compact()


class NaturalJoin(Operator):
    """Keeps the group of each left row, the right row of each group, and the left rows by group once the right ticks.

    A cycle costs the rows that change on both sides, and the left rows of the keys whose right row has changed.

    Args:
        left, right: the columns of both inputs.
        left_keys, right_keys: the numbers of the columns that are compared, which are of the same types, except for
            string and large_string.
        columns: the numbers of the right columns that are added.
        names: their names in the result.
        exact: whether each left row needs a right one.
        follows_right: whether the right table ticks.

    """

    name: ClassVar[str] = "natural_join"

    def __init__(
        self,
        left: pa.Schema,
        right: pa.Schema,
        left_keys: Sequence[int],
        right_keys: Sequence[int],
        columns: Sequence[int],
        names: Sequence[str],
        *,
        exact: bool = False,
        follows_right: bool = True,
    ) -> None:
        # without metadata, which may speak of the right table alone
        fields = [pa.field(name, right.field(number).type) for number, name in zip(columns, names, strict=True)]
        self.schema = pa.schema([*left, *fields])
        self._left_keys = tuple(left_keys)
        self._right_keys = tuple(right_keys)
        self._columns = tuple(columns)
        self._exact = exact
        self._types = tuple(
            _key_type(left.field(mine).type, right.field(theirs).type)
            for mine, theirs in zip(left_keys, right_keys, strict=True)
        )
        names_of_keys = (left.field(number).name for number in left_keys)
        self._groups = GroupIndex(pa.schema(list(zip(names_of_keys, self._types, strict=True))))
        self._of_rows = ColumnStore(_NUMBER)  # the group of each left row
        self._rights = ColumnStore(_NUMBER)  # the right row of each group
        self._counts = GroupArray(np.int64)  # left rows of each group
        self._order = OrderIndex(versioned=False) if follows_right else None
        self._known = 0  # groups that have a cell in _rights
        self._left = 0  # left rows
        self._gone = 0  # rows of both sides that have gone since groups were looked at
        self._dropped = 0  # blocks of left row keys that are not used any more

    @property
    def nbytes(self) -> int:
        """Bytes of the groups and the maps."""
        order = 0 if self._order is None else self._order.nbytes
        return self._groups.nbytes + self._of_rows.nbytes + self._rights.nbytes + self._counts.nbytes + order

    def start(self, inputs: Inputs) -> Outcome:
        """Find the group of each left row, then the right row of each group."""
        left, right = inputs
        numbers = []
        for part, keys in _pieces(left, left.row_set, self._left_keys, self._types):
            found = self._groups.add(keys, part.size)
            self._of_rows.columns[0].write(part, pa.array(found), None)
            numbers.append(found)
            self._count(found, 1)
        for part, keys in _pieces(right, right.row_set, self._right_keys, self._types):
            self._connect(self._groups.add(keys, part.size), part.keys())
        self._extend()
        self._left = left.size
        everything = np.concatenate(numbers) if numbers else np.zeros(0, np.int64)
        if self._exact:
            self._check(np.arange(self._groups.count))
        if self._order is not None:
            rows = left.row_set.keys()
            self._order.fill(rows[np.argsort(everything, kind="stable")])
        return self._outcome(left, right, TableUpdate.of_added(left.row_set, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Follow the left rows that have changed, and the left rows of right ones that have."""
        (left_change, right_change), (left, right) = changes, inputs
        update = TableUpdate.empty(len(left.schema)) if left_change is None else left_change.update
        regrouped = RowSet.empty()
        gone = np.zeros(0, np.int64)  # in the order
        if left_change is not None:
            gone, regrouped = self._leave(left_change)
        touched, by_column = self._follow_right(right_change)
        self._arrive(left, update.added | regrouped, regrouped, gone)
        if self._exact:
            self._check(np.concatenate((touched, self._groups_of(update.added | regrouped))))
        modified = [self._rows_of(groups) | regrouped for groups in _united(touched, by_column, len(self._columns))]
        own = TableUpdate(
            update.added,
            update.removed,
            update.shifted,
            (*update.modified, *(rows - update.added if update.added else rows for rows in modified)),
        )
        self._pack(left)
        return self._outcome(left, right, own)

    # The left table.

    def _leave(self, change: Change) -> tuple[Int64Array, RowSet]:
        """Take out left rows that have gone or have other keys, and move the others; the places in the order that
        become free, and the rows that have other keys.
        """
        update, column = change.update, self._of_rows.columns[0]
        removed = update.removed.keys()
        self._count(self._groups_of(update.removed), -1)
        gone = [] if self._order is None else [self._order.slots_of(removed)]
        sources, targets = change.moved()
        if len(sources):
            column.move(sources, targets, self._of_rows.undo)
            if self._order is not None:
                self._order.shift(sources, targets)
        regrouped = RowSet.union_all(update.modified[number] for number in self._left_keys)
        self._count(self._groups_of(regrouped), -1)
        if self._order is not None:
            gone.append(self._order.slots_of(regrouped.keys()))
        self._left -= update.removed.size + regrouped.size
        self._gone += update.removed.size + regrouped.size
        return np.sort(np.concatenate(gone)) if gone else removed[:0], regrouped

    def _arrive(self, left: TableVersion, rows: RowSet, regrouped: RowSet, gone: Int64Array) -> None:
        """Take in left rows that are new, or have other keys."""
        was = np.full(rows.size, -1, np.int64)
        if self._order is not None and regrouped:
            was[rows.find(regrouped.keys())] = self._order.slots_of(regrouped.keys())
        found = []
        for part, keys in _pieces(left, rows, self._left_keys, self._types):
            numbers = self._groups.add(keys, part.size)
            self._of_rows.columns[0].write(part, pa.array(numbers), self._of_rows.undo)
            self._count(numbers, 1)
            found.append(numbers)
        self._extend()
        self._left += rows.size
        if self._order is None or (not rows and not len(gone)):
            return
        numbers = np.concatenate(found) if found else np.zeros(0, np.int64)
        order = np.argsort(numbers, kind="stable")
        keys_in_order, numbers = rows.keys()[order], numbers[order]
        column = self._of_rows.columns[0]

        def before(items: Int64Array, others: Int64Array) -> npt.NDArray[np.bool_]:
            mine, theirs = numbers[items], numbers_of(column.read_current(others))
            answer: npt.NDArray[np.bool_] = (mine < theirs) | ((mine == theirs) & (keys_in_order[items] < others))
            return answer

        self._order.change(gone, keys_in_order, was[order], before)

    def _groups_of(self, rows: RowSet) -> Int64Array:
        return numbers_of(self._of_rows.columns[0].read_current(rows.keys()))

    def _rows_of(self, groups: Int64Array) -> RowSet:
        """The left rows of some groups, in ascending order."""
        if self._order is None or not len(groups) or not self._order.rows:
            return RowSet.empty()
        column = self._of_rows.columns[0]

        def group_of(keys: Int64Array) -> Int64Array:
            return numbers_of(column.read_current(keys))

        first = self._order.rank(len(groups), lambda items, others: groups[items] <= group_of(others))
        end = self._order.rank(len(groups), lambda items, others: groups[items] < group_of(others))
        some = first < end
        places = RowSet.from_ranges(first[some], end[some] - 1)
        return RowSet.from_keys(self._order.keys_at(self._order.rows.subset(places).keys()))

    # The right table.

    def _follow_right(self, change: Change | None) -> tuple[Int64Array, list[Int64Array]]:
        """Take over what the right rows have become: the groups with another right row, and per column those whose
        right row has another value.
        """
        nothing = np.zeros(0, np.int64)
        if change is None or change.update.is_empty:
            return nothing, [nothing] * len(self._columns)
        update = change.update
        rekeyed = RowSet.union_all(update.modified[number] for number in self._right_keys)
        former = update.shifted.unapply(rekeyed) if update.shifted.size and rekeyed else rekeyed
        touched = [self._disconnect(change.before, update.removed | former)]
        if update.shifted.size:
            moved = (change.before.row_set - update.removed - former) & update.shifted.sources()
            for part, keys in _pieces(change.before, moved, self._right_keys, self._types):
                self._set_rights(self._groups.find(keys, part.size), update.shifted.apply_keys(part.keys()))
        for part, keys in _pieces(change.after, update.added | rekeyed, self._right_keys, self._types):
            numbers = self._groups.add(keys, part.size)
            self._connect(numbers, part.keys())
            touched.append(numbers)
        by_column = []
        for number in self._columns:
            rows = update.modified[number] - rekeyed if rekeyed else update.modified[number]
            found = self._groups_of_right(change.after, rows)
            by_column.append(np.concatenate(found) if found else nothing)
        return np.concatenate(touched), by_column

    def _disconnect(self, version: TableVersion, rows: RowSet) -> Int64Array:
        """Take right rows out; their groups."""
        found = self._groups_of_right(version, rows)
        groups = np.concatenate(found) if found else np.zeros(0, np.int64)
        self._gone += len(groups)
        self._set_rights(groups, np.full(len(groups), _NONE, np.int64))
        return groups

    def _groups_of_right(self, version: TableVersion, rows: RowSet) -> list[Int64Array]:
        pieces = _pieces(version, rows, self._right_keys, self._types)
        return [self._groups.find(keys, part.size) for part, keys in pieces]

    def _connect(self, groups: Int64Array, rows: Int64Array) -> None:
        """Give groups their right rows; KeyMismatchError when one has two."""
        self._extend()
        ordered = np.sort(groups)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        taken = groups[numbers_of(self._rights.columns[0].read_current(groups)) != _NONE]
        for wrong in (twice, taken):
            if len(wrong):
                raise KeyMismatchError(
                    f"The right table of a join has more than one row with the key {self._key(int(wrong[0]))}. Let it "
                    f"have one for each key, for example with a keyed table."
                )
        self._set_rights(groups, rows)

    def _set_rights(self, groups: Int64Array, rows: Int64Array) -> None:
        order = np.argsort(groups)
        self._rights.columns[0].write(groups[order], pa.array(rows[order]), self._rights.undo)

    def _extend(self) -> None:
        """Have a cell for each group."""
        count = self._groups.count
        if count > self._known:
            new = RowSet.from_range(self._known, count - 1)
            self._rights.columns[0].write(new, pa.array(np.full(new.size, _NONE, np.int64)), self._rights.undo)
            self._known = count
        self._counts.reserve(count)

    # Both.

    def _count(self, groups: Int64Array, sign: int) -> None:
        self._counts.reserve(self._groups.count)
        np.add.at(self._counts.array, groups, sign)

    def _check(self, groups: Int64Array) -> None:
        """Raise KeyMismatchError when left rows of ``groups`` have no right row."""
        rows = numbers_of(self._rights.columns[0].read_current(groups))
        alone = groups[(rows == _NONE) & (self._counts.array[groups] > 0)]
        if len(alone):
            raise KeyMismatchError(
                f"The right table of an exact join has no row with the key {self._key(int(alone[0]))}, which the left "
                f"one has. Add it, or use natural_join, which gives nulls."
            )

    def _key(self, group: int) -> str:
        columns = [column.read_current(np.array([group]))[0].as_py() for column in self._groups.store.columns]
        told = ", ".join(map(repr, columns))
        return told if len(told) <= _SHOWN else f"{told[:_SHOWN]}..."

    def _pack(self, left: TableVersion) -> None:
        """Number the groups that have rows anew, when most have none."""
        count = self._groups.count
        if self._gone <= max(_FEW_DEAD, count >> 2):  # a look at all groups, once for as many rows
            return
        self._gone = 0
        rights = numbers_of(self._rights.columns[0].read_current(np.arange(count)))
        is_living = (self._counts.array[:count] > 0) | (rights != _NONE)
        rows, past = left.readable, left.readable.size - left.size
        dead = count - int(np.count_nonzero(is_living))
        if dead <= max(_FEW_DEAD, count - dead, self._left >> 3) + past:
            return
        if past:  # rows of a blink table that have left can still be read
            is_living[self._groups_of(rows)] = True
        living = np.flatnonzero(is_living)
        pack_rows(self._rights, living, count)
        self._groups.pack(living)
        self._counts.pack(living)
        self._known = len(living)
        for start in range(0, rows.size, _BLOCK):
            part = rows.slice(start, start + _BLOCK)
            numbers = np.searchsorted(living, self._groups_of(part))
            self._of_rows.columns[0].overwrite(part, pa.array(numbers), self._of_rows.undo)

    def _outcome(self, left: TableVersion, right: TableVersion, update: TableUpdate) -> Outcome:
        if left.readable and left.readable.first_key >> _BLOCK_BITS > self._dropped:
            self._dropped = left.readable.first_key >> _BLOCK_BITS
            self._of_rows.columns[0].drop_before(self._dropped << _BLOCK_BITS)
            if self._order is not None:
                self._order.drop_before(self._dropped << _BLOCK_BITS)
        (groups,), (rights,) = self._of_rows.views(), self._rights.views()
        added = [JoinedView(right.views[number], groups, rights) for number in self._columns]
        return Outcome(left.row_set, [*left.views, *added], update, left.readable)


def natural_join(
    parents: Sequence[Table], on: Sequence[str], joins: Sequence[str], *, name: str | None = None, exact: bool = False
) -> Table:
    """The rows of the first table, with columns of the row of the second one that has the same key.

    Args:
        parents: the left and the right table.
        on: the columns that are compared: ``"sym"``, or ``"sym = symbol"`` for other names on the right.
        joins: the columns of the right table: ``"price"`` or ``"last = price"``; none: all others.
        name: its name in messages and logs.
        exact: whether each left row needs a right one.

    Raises:
        UnknownColumnError: a table lacks a column.
        InvalidRequestError: columns to compare are of different types, or a result column is there already.
        KeyMismatchError: the right table has a key twice, or lacks one that it needs.
        UnsupportedTypeError: columns of a type cannot be keys.

    """
    left, right = parents
    keys = [pair(entry) for entry in on]
    if not keys:
        raise InvalidRequestError("A join needs columns that are compared: on=['sym'].")
    left_keys = known_columns(left, [mine for mine, _ in keys], "on")
    right_keys = known_columns(right, [theirs for _, theirs in keys], "on")
    for mine, theirs in zip(left_keys, right_keys, strict=True):
        first, second = left.schema.field(mine), right.schema.field(theirs)
        if _key_type(first.type, second.type) is None:
            raise InvalidRequestError(
                f"The columns of a join must be of one type: {first.name!r} of '{left.name}' is {first.type}, and "
                f"{second.name!r} of '{right.name}' is {second.type}. Convert one of them in an update before, such as "
                f"'id = (long)id' for integers."
            )
    compared = {theirs for _, theirs in keys}
    added = [pair(entry) for entry in joins] or [(each, each) for each in right.schema.names if each not in compared]
    names = [result for result, _ in added]
    check_column_names([*left.schema.names, *names])
    columns = known_columns(right, [source for _, source in added], "joins") if added else []
    operator = NaturalJoin(
        left.schema, right.schema, left_keys, right_keys, columns, names, exact=exact, follows_right=right.is_refreshing
    )
    traits = of_columns(left.traits)
    if right.is_refreshing:
        traits = replace(traits, append_only=False, add_only=False)
    traits = replace(traits, stated=route_of(left.traits, right.traits))
    called = "exact_join" if exact else "natural_join"
    return make([left, right], called, operator, traits, key_columns=left.key_columns, name=name)


def exact_join(parents: Sequence[Table], on: Sequence[str], joins: Sequence[str], *, name: str | None = None) -> Table:
    """The same, if each left row has a right one; otherwise it fails. Raises what :func:`natural_join` does."""
    return natural_join(parents, on, joins, name=name, exact=True)


def _united(touched: Int64Array, by_column: Sequence[Int64Array], columns: int) -> list[Int64Array]:
    """For each column the groups to be looked at, ascending."""
    return [np.unique(np.concatenate((touched, by_column[number]))) for number in range(columns)]


def _pieces(
    version: TableVersion, rows: RowSet, columns: Sequence[int], types: Sequence[pa.DataType]
) -> list[tuple[RowSet, list[pa.Array]]]:
    """The keys of some rows, in the types that they are compared in."""
    return [
        (
            part,
            [
                values if values.type == target else values.cast(target)
                for values, target in zip(version.read(part, columns), types, strict=True)
            ],
        )
        for part in version.pieces(rows, columns)
    ]


def _key_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type that keys of two types are compared in; None if they cannot be."""
    if left == right:
        return left
    return pa.large_string() if {left, right} == {pa.string(), pa.large_string()} else None
