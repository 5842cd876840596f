"""The update of a table, divided by groups of its rows."""

from __future__ import annotations

import numpy as np

from barrage_server.engine import TableVersion
from barrage_server.engine.operator import Change
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.redirected import numbers_of
from barrage_server.engine.sorting import sort_with_positions
from barrage_server.rowset import RowSet

__all__ = ["DividedUpdate", "KeysByGroup", "group_numbers"]


class KeysByGroup:
    """Row keys by the groups of their rows.

    Args:
        groups: int64, the group of each row.
        keys: int64, their row keys; ascending, at least among the rows of each group.

    Attributes:
        groups: the groups that have rows, ascending.

    """

    __slots__ = ("_bounds", "_keys", "groups")

    def __init__(self, groups: Int64Array, keys: Int64Array) -> None:
        ordered, positions = sort_with_positions(groups)
        self._keys = keys[positions]
        starts = np.flatnonzero(np.diff(ordered, prepend=-1))
        self.groups = ordered[starts]
        bounds = zip(starts.tolist(), np.append(starts[1:], len(ordered)).tolist(), strict=False)
        self._bounds = dict(zip(self.groups.tolist(), bounds, strict=False))

    def of(self, group: int) -> RowSet:
        """The rows of a group."""
        bounds = self._bounds.get(group)
        if bounds is None:
            return RowSet.EMPTY
        return RowSet.from_sorted_keys(self._keys[bounds[0] : bounds[1]]).packed()


class DividedUpdate:
    """The update of a table that has the group of each row in its last column.

    Args:
        change: the change of the table, in which some rows may get another group.

    Attributes:
        shifted: how remaining rows have moved, of all groups.
        groups: the groups whose rows have changed in any way.

    """

    def __init__(self, change: Change) -> None:
        update, before, after = change.update, change.before, change.after
        *columns, regrouped = update.modified
        removed, added = update.removed.keys(), update.added.keys()
        left, came = group_numbers(before, update.removed), group_numbers(after, update.added)
        others = RowSet.EMPTY  # rows that are in another group than before
        if regrouped:
            were = update.shifted.unapply(regrouped) if update.shifted.size else regrouped
            former, present = group_numbers(before, were), group_numbers(after, regrouped)
            differ = np.flatnonzero(former != present)
            others = RowSet.from_sorted_keys(regrouped.keys()[differ])
            removed, left = _joined(removed, left, were.keys()[differ], former[differ])
            added, came = _joined(added, came, others.keys(), present[differ])
        self.shifted = update.shifted
        self._gone, self._gained = KeysByGroup(left, removed), KeysByGroup(came, added)
        divided: dict[int, KeysByGroup] = {}  # columns that were written together share their sets
        for rows in columns:
            if rows and id(rows) not in divided:
                stay = rows - others if others else rows
                divided[id(rows)] = KeysByGroup(group_numbers(after, stay), stay.keys())
        self._modified = [divided.get(id(rows)) for rows in columns]
        touched = [part.groups for part in (self._gone, self._gained, *divided.values())]
        if update.shifted.size:
            _, moved = change.moved()
            touched.append(group_numbers(after, RowSet.from_sorted_keys(moved)))
        self.groups = frozenset(np.unique(np.concatenate(touched)).tolist())

    def gone(self, group: int) -> RowSet:
        """The rows that left the group, by their keys before the change."""
        return self._gone.of(group)

    def gained(self, group: int) -> RowSet:
        """The rows that came to the group."""
        return self._gained.of(group)

    def modified(self, group: int) -> tuple[RowSet, ...]:
        """For each column but the last, the modified rows that stay in the group."""
        known = {id(part): part.of(group) for part in self._modified if part is not None}
        return tuple([RowSet.EMPTY if part is None else known[id(part)] for part in self._modified])


def group_numbers(version: TableVersion, rows: RowSet) -> Int64Array:
    """The numbers in the last column of a version."""
    if not rows:
        return np.zeros(0, np.int64)
    (numbers,) = version.read(rows, [len(version.schema) - 1])
    return numbers_of(numbers)


def _joined(
    keys: Int64Array, groups: Int64Array, more_keys: Int64Array, more_groups: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Merge two sets of row keys with groups, in the order of the keys."""
    together, numbers = np.concatenate((keys, more_keys)), np.concatenate((groups, more_groups))
    order = np.argsort(together, kind="stable")
    return together[order], numbers[order]
