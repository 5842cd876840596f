"""The single right row of each key, for joins that add one row's columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from barrage_server.engine import TableVersion
from barrage_server.engine.group_index import GroupIndex, pack_rows
from barrage_server.engine.operator import Change
from barrage_server.engine.order_index import OrderIndex
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.redirected import numbers_of
from barrage_server.engine.store import ColumnStore
from barrage_server.errors import KeyMismatchError
from barrage_server.operations.checks import key_text
from barrage_server.operations.grouped_rows import GroupedRows, groups_at, joined
from barrage_server.operations.join_columns import key_pieces
from barrage_server.rowset import RowSet

__all__ = ["NO_ROW", "ChosenRows", "OnlyRows", "RightRows", "key_of_group"]

NO_ROW: Final = -1
"""In place of the row key of a right row, where there is none."""
_NUMBER: Final = pa.schema([("number", pa.int64())])
_NOTHING: Final = np.zeros(0, np.int64)


class RightRows(ABC):
    """The right row of each group, as a column that versions read.

    Args:
        groups: the groups, which the left rows share.
        keys: the numbers of the key columns.
        types: the types that they are compared in.
        columns: the numbers of the columns that are added to left rows.

    Attributes:
        store: one column: the row key of the right row of each group, or -1.
        gone: the rows that have gone since it was set to 0.

    """

    def __init__(
        self, groups: GroupIndex, keys: Sequence[int], types: Sequence[pa.DataType], columns: Sequence[int]
    ) -> None:
        self.store = ColumnStore(_NUMBER)
        self.gone = 0
        self._groups = groups
        self._keys = tuple(keys)
        self._types = tuple(types)
        self._columns = tuple(columns)
        self._known = 0  # groups that have a cell

    @property
    def nbytes(self) -> int:
        """Bytes of the rows of groups."""
        return self.store.nbytes

    @abstractmethod
    def start(self, version: TableVersion) -> None:
        """Add all rows."""

    @abstractmethod
    def follow(self, change: Change) -> tuple[Int64Array, list[Int64Array]]:
        """Apply a change of the rows.

        Returns:
            The groups that have another row; and per column the groups whose row has another value.

        """

    def of(self, groups: Int64Array) -> Int64Array:
        """The right rows of groups, in any order."""
        return numbers_of(self.store.columns[0].read_current(groups))

    def extend(self) -> None:
        """Make cells for new groups."""
        count = self._groups.count
        if count > self._known:
            new = RowSet.from_range(self._known, count - 1)
            self.store.columns[0].write(new, pa.array(np.full(new.size, NO_ROW, np.int64)), self.store.undo)
            self._known = count

    def pack(self, version: TableVersion, living: Int64Array) -> None:  # noqa: ARG002  (some number rows anew)
        """Apply the new numbers of the groups ``living``, before groups are packed."""
        pack_rows(self.store, living, self._groups.count)
        self._known = len(living)

    def _set(self, groups: Int64Array, rows: Int64Array) -> None:
        order = np.argsort(groups)
        self.store.columns[0].write(groups[order], pa.array(rows[order]), self.store.undo)


class OnlyRows(RightRows):
    """The only right row of each key; a second one is an error.

    No rows are kept: removed rows are found by their keys.

    Args:
        groups, keys, types, columns: as of :class:`RightRows`.
        table: the name of the table in error texts.

    Raises:
        KeyMismatchError: two rows have one key; raised by :meth:`start` and :meth:`follow`.

    """

    def __init__(
        self,
        groups: GroupIndex,
        keys: Sequence[int],
        types: Sequence[pa.DataType],
        columns: Sequence[int],
        *,
        table: str = "The right table of a join",
    ) -> None:
        super().__init__(groups, keys, types, columns)
        self._table = table

    def start(self, version: TableVersion) -> None:
        """Add all rows."""
        for part, keys in key_pieces(version, version.row_set, self._keys, self._types):
            self._connect(self._groups.add(keys, part.size), part.keys())
        self.extend()

    def follow(self, change: Change) -> tuple[Int64Array, list[Int64Array]]:
        """Remove rows by their old keys, and add rows by their new keys."""
        update = change.update
        rekeyed = RowSet.union_all(update.modified[number] for number in self._keys)
        former = update.shifted.unapply(rekeyed) if update.shifted.size and rekeyed else rekeyed
        gone = groups_at(self._groups, change.before, update.removed | former, self._keys, self._types)
        self.gone += len(gone)
        self._set(gone, np.full(len(gone), NO_ROW, np.int64))
        if update.shifted.size:
            moved = (change.before.row_set - update.removed - former) & update.shifted.sources()
            for part, keys in key_pieces(change.before, moved, self._keys, self._types):
                self._set(self._groups.find(keys, part.size), update.shifted.apply_keys(part.keys()))
        touched = [gone]
        for part, keys in key_pieces(change.after, update.added | rekeyed, self._keys, self._types):
            numbers = self._groups.add(keys, part.size)
            self._connect(numbers, part.keys())
            touched.append(numbers)
        by_column = []
        for number in self._columns:
            rows = update.modified[number] - rekeyed if rekeyed else update.modified[number]
            by_column.append(groups_at(self._groups, change.after, rows, self._keys, self._types))
        return joined(touched), by_column

    def _connect(self, groups: Int64Array, rows: Int64Array) -> None:
        """Give groups their right rows."""
        self.extend()
        ordered = np.sort(groups)
        twice = ordered[1:][ordered[1:] == ordered[:-1]]
        taken = groups[self.of(groups) != NO_ROW]
        for wrong in (twice, taken):
            if len(wrong):
                key = key_of_group(self._groups, int(wrong[0]))
                raise KeyMismatchError(
                    f"{self._table} has more than one row with the key {key}. Let it have one for each key, for "
                    f"example with a keyed table, or with first_by or last_by. A natural_join can take one of them: "
                    f"type='first_match' or 'last_match'."
                )
        self._set(groups, rows)


class ChosenRows(RightRows):
    """The first or the last of the right rows with each key.

    Args:
        is_last: whether it is the last one.
        is_ordered: whether rows may change, so that the rows of a group are to be found.

    """

    def __init__(
        self,
        groups: GroupIndex,
        keys: Sequence[int],
        types: Sequence[pa.DataType],
        columns: Sequence[int],
        *,
        is_last: bool,
        is_ordered: bool,
    ) -> None:
        super().__init__(groups, keys, types, columns)
        self._is_last = is_last
        self._rows = GroupedRows(groups, keys, types, OrderIndex(versioned=False)) if is_ordered else None

    @property
    def nbytes(self) -> int:
        """Bytes of the rows of groups, and of all rows by group."""
        return super().nbytes + (0 if self._rows is None else self._rows.nbytes)

    def start(self, version: TableVersion) -> None:
        """Add all rows."""
        if self._rows is not None:
            self._rows.start(version)
            self.extend()
            self._choose(np.arange(self._groups.count, dtype=np.int64))
            return
        for part, keys in key_pieces(version, version.row_set, self._keys, self._types):
            numbers, rows = self._groups.add(keys, part.size), part.keys()
            self.extend()
            if not self._is_last:  # those of pieces before come first
                new = np.flatnonzero(self.of(numbers) == NO_ROW)[::-1]
                numbers, rows = numbers[new], rows[new]
            order = np.argsort(numbers, kind="stable")
            last = np.append(numbers[order][1:] != numbers[order][:-1], True)[: len(order)]
            self._set(numbers[order][last], rows[order][last])
        self.extend()

    def follow(self, change: Change) -> tuple[Int64Array, list[Int64Array]]:
        """Choose again for keys whose rows have come or gone."""
        assert self._rows is not None
        update = change.update
        groups = self._rows.groups_of(update.removed.keys())
        forgotten = [self._forget(groups, update.removed.keys())]
        rekeyed = RowSet.union_all(update.modified[number] for number in self._keys)
        former = update.shifted.unapply(rekeyed) if update.shifted.size and rekeyed else rekeyed
        forgotten.append(self._forget(self._rows.groups_of(former.keys()), former.keys()))
        before, after = change.moved()
        if len(before):
            numbers = self._rows.groups_of(before)
            mine = self.of(numbers) == before
            self._set(numbers[mine], after[mine])
        departure = self._rows.leave(change)
        self._rows.arrive(change.after, update.added, departure)
        self.gone += self._rows.gone
        self._rows.gone = 0
        self.extend()
        come = self._rows.groups_of((update.added | rekeyed).keys())
        touched = np.unique(np.concatenate((groups, departure.former, come)))
        changed = np.unique(np.concatenate((self._choose(touched), *forgotten)))
        by_column = []
        for number in self._columns:
            rows = update.modified[number].keys()
            numbers = self._rows.groups_of(rows)
            by_column.append(numbers[self.of(numbers) == rows])
        return changed, by_column

    def pack(self, version: TableVersion, living: Int64Array) -> None:
        """Apply the new numbers of groups."""
        super().pack(version, living)
        if self._rows is not None:
            self._rows.pack(version.row_set, living)

    def _forget(self, groups: Int64Array, rows: Int64Array) -> Int64Array:
        """Remove rows that were chosen, and return their groups.

        Later rows may have the same row keys.
        """
        mine: Int64Array = groups[self.of(groups) == rows]
        self._set(mine, np.full(len(mine), NO_ROW, np.int64))
        return mine

    def _choose(self, groups: Int64Array) -> Int64Array:
        """Choose the rows of groups; the groups that have another row than before."""
        assert self._rows is not None
        order = self._rows.order
        assert order is not None
        rows = np.full(len(groups), NO_ROW, np.int64)
        if order.size:
            first, end = self._rows.bounds(groups)
            some = first < end
            places = (end - 1 if self._is_last else first)[some]
            rows[some] = order.keys_at(order.slots_at(places))
        changed = rows != self.of(groups)
        others: Int64Array = groups[changed]
        self._set(others, rows[changed])
        return others


def key_of_group(groups: GroupIndex, group: int) -> str:
    """The key values of a group, for error texts."""
    columns = [column.read_current(np.array([group]))[0].as_py() for column in groups.store.columns]
    return key_text(columns)
