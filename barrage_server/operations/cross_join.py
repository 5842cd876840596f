"""The operator of joins that pair rows with equal keys."""

from __future__ import annotations

from typing import ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa

from barrage_server.engine import TableUpdate, TableVersion
from barrage_server.engine.group_index import GroupIndex, pack_rows
from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.order_index import Moves, OrderIndex
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.ranges import ranges_of
from barrage_server.engine.redirected import numbers_of
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.view import ColumnView
from barrage_server.errors import LimitError
from barrage_server.fixed_limits import JOIN_ROWS, ROW_KEY
from barrage_server.operations.grouped_rows import GroupedRows, forget_dead_groups
from barrage_server.operations.join_columns import AddedColumns, JoinKeys
from barrage_server.operations.pair_view import LeftView, Pairs, RightView
from barrage_server.operations.rank_changes import Ranges, RankChanges, Ranks
from barrage_server.rowset import MAX_KEY, RowSet, RowSetShiftData

__all__ = ["CrossJoin"]

_NUMBER: Final = pa.schema([("number", pa.int64())])
_NOTHING: Final = np.zeros(0, np.int64)
_KEY_BITS: Final = 63
MOST_RANGES: Final = 1 << 24
"""Ranges of pairs that change with right rows in a cycle, some hundred bytes each. Beyond, groups change as a whole."""


class _RightChange(NamedTuple):
    """The effect of a change of the right table on its groups.

    Attributes:
        groups: the groups concerned, ascending; all others refer to them by position.
        before: the number of pairs that each left row of a group had.
        ranks: how the ranks have changed.
        modified: for each column that is added, the ranks of the rows that are modified.

    """

    groups: Int64Array
    before: Int64Array
    ranks: RankChanges
    modified: list[Ranges]

    def bounded(self, here: Int64Array) -> _RightChange:
        """Replace many ranges by the removal and addition of all pairs.

        Ranges are kept up to :data:`MOST_RANGES`, which bounds their memory.

        Args:
            here: the number of left rows of each group.

        """
        ranges = (self.ranks.removed, self.ranks.added, self.ranks.shifted, *self.modified)
        if sum(float(here[each.groups].sum()) for each in ranges) <= MOST_RANGES:
            return self
        return self._replace(ranks=self.ranks.as_replaced(), modified=[Ranges.none()] * len(self.modified))


class CrossJoin(Operator):
    """The pairs of left and right rows with equal keys; it stores no pair.

    The state is the group of each left row, and the right rows in the order of their groups; if the right table ticks,
    the left rows, too. A cycle costs the pairs that come, go, or are modified, and a shift for each left row of a group
    in which the ranks of right rows change. The row key of a pair is the key of its left row, followed by the rank of
    its right row in the group.

    Args:
        left: the columns of the left input.
        keys: the columns that are compared; none: all rows have one key.
        added: the right columns that are added.
        bits: the initial number of bits of row keys for ranks.
        is_outer: whether a left row without right rows is in the result, with nulls.
        follows_right: whether the right table ticks.
        most_rows: the largest number of rows.

    Raises:
        LimitError: there would be more rows, or row keys are too large; raised by :meth:`start` and :meth:`follow`.

    """

    name: ClassVar[str] = "join"

    def __init__(
        self,
        left: pa.Schema,
        keys: JoinKeys,
        added: AddedColumns,
        *,
        bits: int,
        is_outer: bool,
        follows_right: bool,
        most_rows: int,
    ) -> None:
        self.schema = pa.schema([*left, *added.fields])
        self._columns = added.numbers
        self._bits = bits
        self._is_outer = is_outer
        self._most_rows = most_rows
        self._groups = GroupIndex(keys.schema)
        order = OrderIndex(versioned=False) if follows_right else None
        self._left = GroupedRows(self._groups, keys.left, keys.types, order, keeps_versions=True)
        self._order = OrderIndex()
        self._right = GroupedRows(self._groups, keys.right, keys.types, self._order)
        self._firsts = ColumnStore(_NUMBER)  # where the first right row of each group is in the order, or -1
        self._known = 0  # groups that have a cell in _firsts
        self._rows = RowSet.empty()

    @property
    def nbytes(self) -> int:
        """Bytes of the groups, the orders and the maps."""
        return self._groups.nbytes + self._left.nbytes + self._right.nbytes + self._firsts.nbytes

    def start(self, inputs: Inputs) -> Outcome:
        """Group all rows, and count the pairs before they are made."""
        left, right = inputs
        self._left.start(left)
        self._right.start(right)
        self._extend()
        everything = np.arange(self._order.size)
        self._set_firsts(everything)
        sizes = self._sizes(np.arange(self._groups.count))
        counts = self._left.counts.array[: self._groups.count]
        self._check_rows(float(np.dot(counts.astype(np.float64), sizes.astype(np.float64))))
        needed = _bits_for(int(sizes.max(initial=0)))
        available = _KEY_BITS - (left.row_set.last_key.bit_length() if left.row_set else 0)
        self._bits = max(needed, min(self._bits, available))
        self._check_keys(left)
        keys = left.row_set.keys()
        self._rows = self._pairs_of(keys, sizes[self._left.groups_of(keys)], self._bits)
        return self._outcome(left, right, TableUpdate.of_added(self._rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Make the pairs of changed left rows, then those of changed right rows."""
        (left_change, right_change), (left, right) = changes, inputs
        update = TableUpdate.empty(len(left.schema)) if left_change is None else left_change.update
        departure = self._left.leave(left_change)
        theirs = self._follow_right(right_change)
        self._left.arrive(left, update.added, departure)
        self._extend()
        come = update.added | departure.rekeyed
        mine, numbers = self._left_rows(theirs.groups, come)
        here = np.bincount(numbers, minlength=len(theirs.groups))
        come_sizes = self._sizes(self._left.groups_of(come.keys()))
        gone_sizes = self._sizes_before(np.concatenate((departure.groups, departure.former)), theirs)
        theirs = theirs.bounded(here)
        gained = float(come_sizes.sum(dtype=np.float64)) + theirs.ranks.added.number_of_pairs(here)
        lost = float(gone_sizes.sum(dtype=np.float64)) + theirs.ranks.removed.number_of_pairs(here)
        self._check_rows(self._rows.size + gained - lost)
        old_bits, self._bits = self._bits, max(self._bits, _bits_for(int(self._sizes(theirs.groups).max(initial=0))))
        self._check_keys(left)
        shifts = update.shifted
        former_keys = shifts.unapply_keys(departure.rekeyed.keys())
        removed = self._pairs_of(np.concatenate((update.removed.keys(), former_keys)), gone_sizes, old_bits)
        removed |= theirs.ranks.removed.pairs(shifts.unapply_keys(mine), numbers, old_bits)
        added = self._pairs_of(come.keys(), come_sizes, self._bits)
        added |= theirs.ranks.added.pairs(mine, numbers, self._bits)
        own_shifts = self._shifts(old_bits, shifts, theirs.ranks.shifted, mine, numbers, removed)
        own = TableUpdate(added, removed, own_shifts, self._modified(update, come, theirs, mine, numbers, added))
        self._rows = own.apply_to(self._rows)
        self._pack(left, right)
        return self._outcome(left, right, own)

    # The right table.

    def _follow_right(self, change: Change | None) -> _RightChange:
        """Apply a change of the right rows."""
        if change is None or change.update.is_empty:
            empty = RankChanges(_NOTHING, _NOTHING, RowSet.empty(), RowSet.empty())
            return _RightChange(_NOTHING, _NOTHING, empty, [Ranges.none()] * len(self._columns))
        update, slots_before = change.update, self._order.rows
        departure = self._right.leave(change)
        gone = np.concatenate((departure.groups, departure.former))
        gone_slots = np.concatenate((departure.slots, departure.was))
        gone_ranks = slots_before.rank(gone_slots) - slots_before.rank(self._firsts_of(gone))
        moves = self._right.arrive(change.after, update.added, departure)
        self._extend()
        come_rows = update.added | departure.rekeyed
        come = self._right.groups_of(come_rows.keys())
        come_slots = self._order.slots_of(come_rows.keys())
        self._follow_order(moves, gone, gone_slots, come_slots)
        modified = [
            (update.modified[number] - departure.rekeyed if departure.rekeyed else update.modified[number]).keys()
            for number in self._columns
        ]
        changed = [self._right.groups_of(rows) for rows in modified]
        groups = np.unique(np.concatenate((gone, come, *changed)))
        after = self._right.counts.array[groups]
        gone_at, come_at = np.searchsorted(groups, gone), np.searchsorted(groups, come)
        before = after + np.bincount(gone_at, minlength=len(groups)) - np.bincount(come_at, minlength=len(groups))
        removed = Ranks(gone_at, gone_ranks).as_set()
        added = Ranks(come_at, self._ranks(come, come_slots)).as_set()
        if self._is_outer:  # a pair with nulls
            alone, left_alone = np.flatnonzero(before == 0), np.flatnonzero(after == 0)
            removed |= Ranks(alone, np.zeros(len(alone), np.int64)).as_set()
            added |= Ranks(left_alone, np.zeros(len(left_alone), np.int64)).as_set()
            before, after = np.maximum(before, 1), np.maximum(after, 1)
        ranks = RankChanges(before, after, removed, added)
        ranges = [
            Ranks(np.searchsorted(groups, those), self._ranks(those, self._order.slots_of(rows))).ranges()
            for those, rows in zip(changed, modified, strict=True)
        ]
        return _RightChange(groups, before, ranks, ranges)

    def _follow_order(
        self, moves: Moves | None, gone: Int64Array, gone_slots: Int64Array, come_slots: Int64Array
    ) -> None:
        """Find the new first rows of groups whose rows came, went or moved."""
        if moves is None:
            return
        rows = self._order.rows
        moved = rows & moves.shifted.destinations() if moves.shifted.size else RowSet.empty()
        places = rows.rank(np.concatenate((come_slots, gone_slots, moved.keys())))
        places = np.unique(np.concatenate((places, places + 1)))  # with those behind them
        empty = np.unique(gone[self._right.counts.array[gone] == 0])
        self._write_firsts(empty, np.full(len(empty), -1, np.int64))
        self._set_firsts(places[places < rows.size])

    def _set_firsts(self, places: Int64Array) -> None:
        """Set the groups' first rows among ascending positions of the order."""
        order, step = self._order, 1 << 16
        for start in range(0, len(places), step):
            part = places[start : start + step]
            slots = order.rows.select(part)
            groups = self._right.groups_of(order.keys_at(slots))
            ahead = order.keys_at(order.rows.select(np.maximum(part - 1, 0)))
            is_first = (part == 0) | (self._right.groups_of(ahead) != groups)
            self._write_firsts(groups[is_first], slots[is_first])

    def _write_firsts(self, groups: Int64Array, slots: Int64Array) -> None:
        order = np.argsort(groups)
        self._firsts.columns[0].write(groups[order], pa.array(slots[order]), self._firsts.undo)

    def _firsts_of(self, groups: Int64Array) -> Int64Array:
        return numbers_of(self._firsts.columns[0].read_current(groups))

    def _ranks(self, groups: Int64Array, slots: Int64Array) -> Int64Array:
        """The ranks of right rows in their groups."""
        rows = self._order.rows
        ranks: Int64Array = rows.rank(slots) - rows.rank(self._firsts_of(groups))
        return ranks

    def _extend(self) -> None:
        """Make cells for new groups."""
        count = self._groups.count
        if count > self._known:
            new = RowSet.from_range(self._known, count - 1)
            self._firsts.columns[0].write(new, pa.array(np.full(new.size, -1, np.int64)), self._firsts.undo)
            self._known = count
        self._left.counts.reserve(count)
        self._right.counts.reserve(count)

    # Pairs.

    def _sizes(self, groups: Int64Array) -> Int64Array:
        """The number of pairs of each left row of these groups."""
        sizes: Int64Array = self._right.counts.array[groups]
        return np.maximum(sizes, 1) if self._is_outer else sizes

    def _sizes_before(self, groups: Int64Array, theirs: _RightChange) -> Int64Array:
        sizes = self._sizes(groups)
        if len(theirs.groups):
            places = np.minimum(np.searchsorted(theirs.groups, groups), len(theirs.groups) - 1)
            sizes = np.where(theirs.groups[places] == groups, theirs.before[places], sizes)
        return sizes

    def _left_rows(self, groups: Int64Array, but: RowSet) -> tuple[Int64Array, Int64Array]:
        """The keys of left rows of groups, without ``but``, and each row's group.

        Groups are given by their position.
        """
        order = self._left.order
        if order is None or not len(groups) or not order.size:
            return _NOTHING, _NOTHING
        first, end = self._left.bounds(groups)
        counts = end - first
        numbers = np.repeat(np.arange(len(groups)), counts)
        places = ranges_of(first, counts)
        keys = order.keys_at(order.slots_at(places))
        if but:
            kept = ~but.contains(keys)
            keys, numbers = keys[kept], numbers[kept]
        return keys, numbers

    @staticmethod
    def _pairs_of(keys: Int64Array, sizes: Int64Array, bits: int) -> RowSet:
        """All pairs of left rows, in any order."""
        some = np.flatnonzero(sizes)
        starts = keys[some] << bits
        return _set_of(starts, starts + sizes[some] - 1)

    def _shifts(
        self,
        old_bits: int,
        shifts: RowSetShiftData,
        ranks: Ranges,
        mine: Int64Array,
        numbers: Int64Array,
        removed: RowSet,
    ) -> RowSetShiftData:
        """The shifts of pairs that stay.

        Pairs move with more bits for ranks, with their left rows, and with their ranks.
        """
        steps = []
        if old_bits != self._bits:
            keys = self._rows.blocks(old_bits).keys()
            keys = keys[keys > 0]
            starts = keys << old_bits
            steps.append((starts, starts + (1 << old_bits) - 1, (keys << self._bits) - starts))
        if shifts.size:
            bits = self._bits
            steps.append((shifts.starts << bits, ((shifts.ends + 1) << bits) - 1, shifts.deltas << bits))
        if len(ranks.groups):
            steps.append(ranks.with_rows(mine, numbers, self._bits))
        found = RowSetShiftData.empty()
        if steps:
            stayed = self._rows - removed
            for step in steps:
                found = found.then(RowSetShiftData.from_arrays(*step), stayed)
        return found

    def _modified(
        self,
        update: TableUpdate,
        come: RowSet,
        theirs: _RightChange,
        mine: Int64Array,
        numbers: Int64Array,
        added: RowSet,
    ) -> tuple[RowSet, ...]:
        found: dict[int, RowSet] = {}
        for rows in update.modified:
            if id(rows) not in found:
                keys = (rows - come if come else rows).keys()
                found[id(rows)] = self._pairs_of(keys, self._sizes(self._left.groups_of(keys)), self._bits) - added
        left = [found[id(rows)] for rows in update.modified]
        right = [ranks.pairs(mine, numbers, self._bits) for ranks in theirs.modified]
        return (*left, *right)

    # Both.

    def _check_rows(self, rows: float) -> None:
        if rows > self._most_rows:
            raise LimitError(
                f"The join would have {rows:,.0f} rows, and {self._most_rows:,} is the most ({JOIN_ROWS.name}). "
                f"Compare more columns, or filter the tables before."
            )

    def _check_keys(self, left: TableVersion) -> None:
        if left.row_set and left.row_set.last_key >= (MAX_KEY >> self._bits):
            raise LimitError(
                f"The row keys of the left table of a join are too large: they take {self._bits} more bits, "
                f"and the largest row key is {ROW_KEY.most:,} ({ROW_KEY.name}). Flatten it before."
            )

    def _pack(self, left: TableVersion, right: TableVersion) -> None:
        """Renumber the groups that have rows, when most have none."""
        count = self._groups.count
        living = forget_dead_groups(self._groups, self._left, self._right, left.row_set, right.row_set)
        if living is not None:
            pack_rows(self._firsts, living, count)
            self._known = len(living)

    def _outcome(self, left: TableVersion, right: TableVersion, update: TableUpdate) -> Outcome:
        self._left.drop_before(left.row_set)
        self._right.drop_before(right.row_set)
        (groups,), (firsts,) = self._left.store.views(), self._firsts.views()
        pairs = Pairs(self._bits, groups, firsts, self._order.rows, self._order.view())
        views: list[ColumnView] = [LeftView(view, pairs) for view in left.views]
        return Outcome(
            self._rows, [*views, *(RightView(right.views[number], pairs) for number in self._columns)], update
        )


def _bits_for(size: int) -> int:
    """The number of bits for the ranks of ``size`` rows."""
    return max(size - 1, 0).bit_length()


def _set_of(starts: Int64Array, ends: Int64Array) -> RowSet:
    order = np.argsort(starts)
    return RowSet.from_ranges(starts[order], ends[order])
