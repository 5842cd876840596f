"""The rows of one input of a join by the groups of their keys."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine import TableVersion
from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.operator import Change
from barrage_server.engine.order_fences import Codes, OrderCodes
from barrage_server.engine.order_index import Before, Moves, OrderIndex
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.redirected import numbers_of
from barrage_server.engine.sorting import sort_with_positions
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.undo import Undo
from barrage_server.operations.group_totals import GroupArray
from barrage_server.operations.join_columns import key_pieces
from barrage_server.operations.last_rows import LastRows
from barrage_server.rowset import RowSet

__all__ = ["Departure", "GroupedRows", "forget_dead_groups", "groups_at", "joined", "living_groups", "may_be_dead"]

FEW_DEAD: Final = 1024
"""Groups without rows that are always kept: a group that comes back has the same number."""
_BLOCK_BITS: Final = 16
_BLOCK: Final = 1 << _BLOCK_BITS
_FEW_GROUPS: Final = 4
"""Groups per counted row up to which all counts are added at once."""
_NUMBER: Final = pa.schema([("number", pa.int64())])
_NOTHING: Final = np.zeros(0, np.int64)


class Departure(NamedTuple):
    """The rows that left their groups in a cycle.

    Attributes:
        groups: the groups of the rows that were removed, in the order of their keys.
        rekeyed: the rows that have other key values, by their present row keys.
        former: the groups that these had.
        slots: the places of the former in the order, if there is one.
        was: those of ``rekeyed``.

    """

    groups: Int64Array = _NOTHING
    rekeyed: RowSet = RowSet.EMPTY
    former: Int64Array = _NOTHING
    slots: Int64Array = _NOTHING
    was: Int64Array = _NOTHING


class GroupedRows:
    """The group of each row, and on demand the rows of each group.

    The number of rows of each group is counted, too.

    A cycle costs the rows added, removed, moved by shifts, and modified in a key column.

    Args:
        groups: the groups, which other inputs may share.
        columns: the numbers of the key columns.
        types: the types that they are compared in.
        order: an empty order, if the rows of a group are to be found.
        keeps_versions: whether versions read the groups of rows from :attr:`store`.

    Attributes:
        store: one column: the group of each row.
        counts: the number of rows of each group.
        last: the last row of each group in the order, if rows are compared by codes and row keys alone.
        gone: the rows that have left their group since it was set to 0.

    """

    def __init__(
        self,
        groups: GroupIndex,
        columns: Sequence[int],
        types: Sequence[pa.DataType],
        order: OrderIndex | None,
        *,
        keeps_versions: bool = False,
    ) -> None:
        self.store = ColumnStore(_NUMBER)
        self.counts = GroupArray(np.int64)
        self._order = order
        self.last = None if order is None else LastRows()
        self.gone = 0
        self._groups = groups
        self._columns = self._watched = tuple(columns)
        self._types = tuple(types)
        self._keeps_versions = keeps_versions
        self._dropped = 0  # blocks of row keys that are not used any more

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers and the order, without the groups."""
        ordered = sum(part.nbytes for part in (self._order, self.last) if part is not None)
        return self.store.nbytes + self.counts.nbytes + ordered

    @property
    def order(self) -> OrderIndex | None:
        """The rows by group, then by row key, if they are to be found."""
        return self._order

    @property
    def is_empty(self) -> bool:
        """Whether no rows are to be found."""
        return self._order is None or self._order.is_empty

    def start(self, version: TableVersion) -> None:
        """Add all rows."""
        rows = version.row_set
        self.store.expect(rows)
        parts = self._add(version, rows, None)
        if self._order is None:
            deque(parts, maxlen=0)
        else:
            numbers = joined(list(parts))
            order, _, own = self.sorted(version, rows, numbers)
            self._order.fill(rows, order)
            if self.last is not None:
                self.last.note(own, rows.keys()[order], self.counts.array)

    def leave(self, change: Change | None) -> Departure:
        """Remove rows that have gone or have other keys, and move shifted rows.

        :meth:`arrive` must be called after it.
        """
        if change is None:
            return Departure()
        update = change.update
        removed = update.removed.keys()
        rekeyed = RowSet.union_all(update.modified[number] for number in self._watched)
        before, after = change.moved()
        if len(removed) or rekeyed or len(before):
            self._settle(change.before)
        groups = self.groups_of(removed)
        slots = was = _NOTHING
        if self._order is not None:
            slots = self._order.slots_of(removed)
        if self.last is not None:
            self.last.forget(groups, removed)
        if len(before):
            self.store.columns[0].move(before, after, self.store.undo if self._keeps_versions else None)
            if self._order is not None:
                self._order.shift(before, after)
            if self.last is not None:
                self.last.shift(self.groups_of(after), before, after)
        former = self.groups_of(rekeyed.keys())
        if self._order is not None:
            was = self._order.slots_of(rekeyed.keys())
        if self.last is not None:
            self.last.forget(former, rekeyed.keys())
        for those in (groups, former):
            np.subtract.at(self.counts.array, those, 1)
        self.gone += len(groups) + len(former)
        return Departure(groups, rekeyed, former, slots, was)

    def arrive(self, version: TableVersion, added: RowSet, departure: Departure) -> Moves | None:
        """Add rows that are new or have other keys. Returns the moves in the order.

        Args:
            version: the version with these rows.
            added: the new rows.
            departure: what :meth:`leave` has given.

        """
        rows = added | departure.rekeyed if departure.rekeyed else added
        numbers = joined(list(self._add(version, rows, self.store.undo if self._keeps_versions else None)))
        gone = np.sort(np.concatenate((departure.slots, departure.was)))
        if self._order is None or (not rows and not len(gone)):
            return None
        was = np.full(rows.size, -1, np.int64)
        if departure.rekeyed:
            was[rows.find(departure.rekeyed.keys())] = departure.was
        order, before, own = self.sorted(version, rows, numbers)
        keys, codes = rows.keys()[order], OrderCodes(own, self.codes_of)
        if self.last is None:
            return self._order.change(gone, keys, was[order], before, codes)
        behind = self.last.before(own, keys)
        if not len(gone) and self._wait(keys, own[0], behind):
            self.last.note(own, keys, self.counts.array)
            return None
        self._settle(version)
        moves = self._order.change(gone, keys, was[order], before, codes, behind)
        unknown = self.last.note(own, keys, self.counts.array)
        if len(unknown) and not len(gone):  # else they may be forgotten again and again
            self.bounds(unknown)
        return moves

    def sorted(self, version: TableVersion, rows: RowSet, numbers: Int64Array) -> tuple[Int64Array, Before, Codes]:
        """Sort rows by group, then by row key.

        Returns:
            The positions of ``rows`` in order; a comparison of the sorted rows with others; and the codes of the sorted
            rows, as :meth:`codes_of` gives them.

        """
        del version
        numbers, order = sort_with_positions(numbers)
        keys = rows.keys()[order]

        def before(items: Int64Array, others: Int64Array) -> npt.NDArray[np.bool_]:
            mine, theirs = numbers[items], self.groups_of(others)
            answer: npt.NDArray[np.bool_] = (mine < theirs) | ((mine == theirs) & (keys[items] < others))
            return answer

        return order, before, (numbers,)

    def codes_of(self, keys: Int64Array) -> Codes:
        """The codes of rows in the order, by row keys in any order."""
        return (self.groups_of(keys),)

    def groups_of(self, keys: Int64Array) -> Int64Array:
        """The groups of rows, by row keys in any order."""
        return numbers_of(self.store.columns[0].read_current(keys))

    def rows_of(self, groups: Int64Array) -> RowSet:
        """The rows of ascending groups."""
        if self.order is None or not len(groups) or not self.order.size:
            return RowSet.empty()
        first, end = self.bounds(groups)
        some = first < end
        return RowSet.from_keys(self.order.keys_at(self.order.rows_within(first[some], end[some]).keys()))

    def bounds(self, groups: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The positions in the order at which groups begin and end.

        Only groups whose last row is not known are searched for, and then it is known.
        """
        order = self.order  # which waiting rows enter now
        assert order is not None
        counts = self.counts.array[groups]
        if self.last is None or not order.follows:
            first = self._begins(order, groups)
            return first, first + counts
        last, end = self.last.keys_of(groups), np.zeros(len(groups), np.int64)
        known, others = np.flatnonzero(last >= 0), np.flatnonzero(last < 0)
        end[known] = order.positions_of(order.slots_of(last[known])) + 1
        if len(others):
            end[others] = self._begins(order, groups[others]) + counts[others]
            keys = self.keys_at(end[others[counts[others] > 0]] - 1)
            self.last.learn(self.codes_of(keys), keys)
        return end - counts, end

    def _begins(self, order: OrderIndex, groups: Int64Array) -> Int64Array:
        codes = OrderCodes((groups,), self.codes_of)
        return order.rank(len(groups), lambda items, others: groups[items] <= self.groups_of(others), codes)

    def keys_at(self, places: Int64Array) -> Int64Array:
        """The row keys of the rows at positions of the order."""
        assert self.order is not None
        return self.order.keys_at(self.order.slots_at(places))

    def pack(self, rows: RowSet, living: Int64Array) -> None:
        """Apply the new numbers of the groups ``living``, for all readable ``rows``."""
        self.counts.pack(living)
        if self.last is not None:
            self.last.pack(living)
        if self._order is not None:
            self._order.forget_codes()
        for start in range(0, rows.size, _BLOCK):
            part = rows.slice(start, start + _BLOCK)
            numbers = pa.array(np.searchsorted(living, self.groups_of(part.keys())))
            if self._keeps_versions:
                self.store.columns[0].overwrite(part, numbers, self.store.undo)
            else:
                self.store.columns[0].write(part, numbers, None)

    def forget_dead(self, rows: RowSet) -> None:
        """Renumber the groups that have rows, when most have none.

        The groups are those of these rows alone.

        Args:
            rows: all rows.

        """
        count = self._groups.count
        if not may_be_dead(self.gone, count):
            return
        self.gone = 0
        living = living_groups(self._groups, self.counts.array[:count] > 0, rows.size)
        if living is not None:
            self._groups.pack(living)
            self.pack(rows, living)

    def drop_before(self, rows: RowSet) -> None:
        """Forget the places of rows whose keys come before all ``rows``."""
        if rows and rows.first_key >> _BLOCK_BITS > self._dropped:
            self._dropped = rows.first_key >> _BLOCK_BITS
            self.store.columns[0].drop_before(self._dropped << _BLOCK_BITS)
            if self._order is not None:
                self._order.drop_before(self._dropped << _BLOCK_BITS)

    def _wait(self, keys: Int64Array, groups: Int64Array, behind: Int64Array) -> bool:
        """Whether new rows need no place in the order for now.

        Args:
            keys: their row keys, in order.
            groups: their groups.
            behind: for each of them the key of the last row of its group, if that is known to come before it; or -1.

        """
        del keys, groups, behind
        return False

    def _settle(self, version: TableVersion) -> None:
        """Put waiting rows into the order. They are in ``version`` as they came."""

    def _add(self, version: TableVersion, rows: RowSet, undo: Undo | None) -> Iterator[Int64Array]:
        """Count ``rows`` in their groups, and write and yield these, part by part."""
        for part, keys in key_pieces(version, rows, self._columns, self._types):
            numbers = self._groups.add(keys, part.size)
            self.store.columns[0].write(part, pa.array(numbers), undo)
            self.counts.reserve(self._groups.count)
            counts = self.counts.array
            if len(counts) <= _FEW_GROUPS * part.size:
                counts += np.bincount(numbers, minlength=len(counts))
            else:
                np.add.at(counts, numbers, 1)
            yield numbers
        self.counts.reserve(self._groups.count)


def may_be_dead(gone: int, groups: int) -> bool:
    """Whether to look at all groups for those without rows.

    Args:
        gone: the rows that have left their group since the last look.
        groups: the number of groups.

    """
    return gone > max(FEW_DEAD, groups >> 2)


def living_groups(groups: GroupIndex, living: npt.NDArray[np.bool_], rows: int, past: int = 0) -> Int64Array | None:
    """The groups to keep if the others should be forgotten, or ``None``.

    It is ``None`` if most groups are alive, or if the renumbering is not worth its cost.

    Args:
        groups: the groups.
        living: which of them have rows.
        rows: the number of rows whose groups would get other numbers.
        past: the number of further rows whose groups must be kept.

    """
    dead = groups.count - int(np.count_nonzero(living))
    if dead <= max(FEW_DEAD, groups.count - dead, rows >> 3) + past:
        return None
    return np.flatnonzero(living)


def forget_dead_groups(
    groups: GroupIndex, left: GroupedRows, right: GroupedRows, left_rows: RowSet, right_rows: RowSet
) -> Int64Array | None:
    """Renumber the groups that have rows on either side, when most have none.

    Returns:
        The former numbers of these groups, ascending; ``None`` if they keep their numbers.

    """
    count = groups.count
    if not may_be_dead(left.gone + right.gone, count):
        return None
    left.gone = right.gone = 0
    for each in (left, right):
        each.counts.reserve(count)
    are_living = (left.counts.array[:count] > 0) | (right.counts.array[:count] > 0)
    living = living_groups(groups, are_living, left_rows.size + right_rows.size)
    if living is not None:
        groups.pack(living)
        left.pack(left_rows, living)
        right.pack(right_rows, living)
    return living


def groups_at(
    groups: GroupIndex, version: TableVersion, rows: RowSet, columns: Sequence[int], types: Sequence[pa.DataType]
) -> Int64Array:
    """The groups of rows by their key values in a version; -1 without a group."""
    return joined([groups.find(keys, part.size) for part, keys in key_pieces(version, rows, columns, types)])


def joined(parts: Sequence[Int64Array]) -> Int64Array:
    """The numbers of all parts, if any."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else _NOTHING
