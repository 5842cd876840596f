"""A table with the number of each row's group, and the rows of one group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from barrage_server.engine import TableUpdate, TableVersion
from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.sorting import sort_with_positions
from barrage_server.engine.update import coalesce_nodes
from barrage_server.engine.view import ColumnView
from barrage_server.operations.divided import DividedUpdate, group_numbers
from barrage_server.operations.grouped_rows import GroupedRows, may_be_dead
from barrage_server.operations.history import readable_with
from barrage_server.rowset import RowSet

__all__ = ["GroupNumbers", "RowsOfGroup", "rows_of_groups"]

_REMEMBERED: Final = 2


class GroupNumbers(Operator):
    """The input with the number of each row's group in an additional last column.

    The state is the numbers and the keys. A cycle costs the rows added, removed, moved by shifts, and modified in a key
    column.

    Args:
        schema: the columns of the input.
        columns: the numbers of the key columns.

    """

    name: ClassVar[str] = "partition_by"

    def __init__(self, schema: pa.Schema, columns: Sequence[int]) -> None:
        called = "group"
        while called in schema.names:
            called += "_"
        self.schema = schema.append(pa.field(called, pa.int64()))
        keys = pa.schema([schema.field(number) for number in columns])
        self._groups = GroupIndex(keys)
        self._rows = GroupedRows(self._groups, columns, keys.types, None, keeps_versions=True)
        self._divided: tuple[tuple[TableUpdate, DividedUpdate], ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers and the keys."""
        return self._groups.nbytes + self._rows.nbytes

    def start(self, inputs: Inputs) -> Outcome:
        """Number the groups of all rows."""
        (version,) = inputs
        self._rows.start(version)
        return self._outcome(version, TableUpdate.of_added(version.row_set, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Number the groups of rows that are new or have other keys."""
        (change,), (version,) = changes, inputs
        if change is None or change.update.is_empty:
            return self._outcome(version, TableUpdate.empty(len(self.schema)))
        update, departure = change.update, self._rows.leave(change)
        self._rows.arrive(version, update.added, departure)
        keys = departure.rekeyed.keys()
        regrouped = RowSet.from_sorted_keys(keys[self._rows.groups_of(keys) != departure.former])
        self._rows.drop_before(version.row_set)
        columns = (*update.modified, regrouped)
        return self._outcome(version, TableUpdate(update.added, update.removed, update.shifted, columns))

    def number(self, keys: Sequence[pa.Array], count: int) -> list[int]:
        """The numbers of the groups of ``count`` keys, which may have no rows.

        It may be called between two changes, or within one.
        """
        numbers = self._groups.add(keys, count)
        self._rows.counts.reserve(self._groups.count)
        self._rows.gone += int(np.count_nonzero(self._rows.counts.array[numbers] == 0))  # of which no row may ever come
        found: list[int] = numbers.tolist()
        return found

    def size(self, group: int) -> int:
        """The present number of rows of a group."""
        return int(self._rows.counts.array[group])

    def divided(self, change: Change) -> DividedUpdate:
        """A change of the result by group; the last results are kept.

        The same update gives the same object.
        """
        for update, divided in self._divided:
            if update is change.update:
                return divided
        found = DividedUpdate(change)
        self._divided = ((change.update, found), *self._divided[: _REMEMBERED - 1])
        return found

    @property
    def has_many_dead(self) -> bool:
        """Whether :meth:`forget` is due: many groups have no rows."""
        return may_be_dead(self._rows.gone, self._groups.count)

    def forget(self, held: Iterable[int]) -> None:
        """Forget the groups without rows, if they are most, except ``held`` groups."""
        self._rows.gone = 0
        is_dead = self._rows.counts.array[: self._groups.count] == 0
        is_dead[list(held)] = False
        dead = np.flatnonzero(is_dead)
        if 2 * len(dead) > len(is_dead):
            self._groups.forget(dead)

    def _outcome(self, version: TableVersion, update: TableUpdate) -> Outcome:
        return Outcome(version.row_set, (*version.views, *self._rows.store.views()), update, version.readable)


class RowsOfGroup(Operator):
    """The rows of one group.

    The state is row keys, and no values. A cycle costs the rows of the group that change.

    Args:
        numbers: the operator of the input.
        group: the number of the group.
        version: a version of the input.
        rows: the rows of the group in this version.
        keeps_history: whether rows stay readable after they have left, as far as they do in the input.

    """

    name: ClassVar[str] = "partition_by"

    def __init__(
        self, numbers: GroupNumbers, group: int, version: TableVersion, rows: RowSet, *, keeps_history: bool
    ) -> None:
        self.schema = pa.schema(list(numbers.schema)[:-1], metadata=numbers.schema.metadata)
        self.group = group
        self._numbers = numbers
        self._begin: TableVersion | None = version
        self._rows = rows
        self._keeps_history = keeps_history
        self._readable = RowSet.EMPTY

    @property
    def nbytes(self) -> int:
        """Bytes of the row keys."""
        return self._rows.nbytes

    def start(self, inputs: Inputs) -> Outcome:
        """Follow the input from the version with the given rows."""
        (version,), begin = inputs, self._begin
        self._begin = None
        if begin is not None and begin.node is not version.node:
            change = Change(coalesce_nodes(begin.node, version.node), begin, version)
            self._rows = self._after(change)[0]
        return self._outcome(version, TableUpdate.of_added(self._rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Apply the group's part of the change."""
        (change,), (version,) = changes, inputs
        if change is None or change.update.is_empty:
            return self._outcome(version, TableUpdate.empty(len(self.schema)))
        self._rows, update = self._after(change)
        return self._outcome(version, update)

    def _after(self, change: Change) -> tuple[RowSet, TableUpdate]:
        """The rows of the group after a change of the input, and their update."""
        divided, group = self._numbers.divided(change), self.group
        if group not in divided.groups:
            return self._rows, TableUpdate.empty(len(self.schema))
        gone, gained, shifts = divided.gone(group), divided.gained(group), divided.shifted
        if not shifts.size:
            return self._rows.exchanged(gone, gained), TableUpdate(gained, gone, shifts, divided.modified(group))
        rows = self._rows - gone
        shifts = shifts.clip(rows)
        return shifts.apply(rows) | gained, TableUpdate(gained, gone, shifts, divided.modified(group))

    def _outcome(self, version: TableVersion, update: TableUpdate) -> Outcome:
        views: Sequence[ColumnView] = version.views[:-1]
        if not self._keeps_history:
            return Outcome(self._rows, views, update)
        self._readable = readable_with(self._readable, self._rows, version)
        return Outcome(self._rows, views, update, self._readable)


def rows_of_groups(version: TableVersion, groups: Sequence[int]) -> list[RowSet]:
    """The rows of each of ``groups``, ascending, in a version with group numbers."""
    rows = version.row_set
    parts = [group_numbers(version, part) for part in version.pieces(rows, [len(version.schema) - 1])]
    numbers: Int64Array = np.concatenate([np.zeros(0, np.int64), *parts])
    if len(groups) == 1:
        return [RowSet.from_sorted_keys(rows.select(np.flatnonzero(numbers == groups[0])))]
    ordered, positions = sort_with_positions(numbers)
    keys = rows.select(positions)
    starts, ends = (np.searchsorted(ordered, groups, side).tolist() for side in ("left", "right"))
    return [RowSet.from_sorted_keys(keys[start:end]).packed() for start, end in zip(starts, ends, strict=True)]
