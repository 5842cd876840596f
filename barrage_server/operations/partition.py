"""A table divided by the values of its keys: ``partition_by``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from weakref import WeakValueDictionary

import pyarrow as pa

from barrage_server.engine import Table, TableUpdate, TableVersion
from barrage_server.engine.derived import DerivedTable
from barrage_server.engine.latest_view import LatestView, LatestViews, UnchangedRows
from barrage_server.engine.operator import Change
from barrage_server.engine.static import StaticTable
from barrage_server.engine.view import ColumnView
from barrage_server.engine.weak_list import WeakList
from barrage_server.operations.checks import known_columns
from barrage_server.operations.group_numbers import GroupNumbers, RowsOfGroup, rows_of_groups
from barrage_server.operations.result import name_for
from barrage_server.operations.traits import of_rows
from barrage_server.rowset import RowSet

__all__ = ["ConstituentTable", "Partition", "partition"]

_NONE: Final = -1
"""The group of a constituent that never has rows."""
_AT_ONCE: Final = 128
"""Constituents that are made in one turn of the graph, which publishers wait for."""


class Partition(DerivedTable):
    """A table with the group of each row, and a table for each requested group.

    In a cycle, only the tables of changed groups follow, and those of a blink table.

    Args:
        table: the table.
        columns: the numbers of the key columns.
        name: its name in messages and logs.

    """

    def __init__(self, table: Table, columns: Sequence[int], name: str) -> None:
        self._numbers = GroupNumbers(table.schema, columns)
        self._made: dict[int, WeakList[ConstituentTable]] = {}
        self._touched: list[int] = []  # groups with tables that the cycle has changed
        self._unchanged: WeakValueDictionary[int, UnchangedRows] = WeakValueDictionary()
        self._fresh: list[UnchangedRows] = []  # those that are read in a version that is not visible yet
        self._starting = 0  # threads that make tables of groups whose numbers they know
        super().__init__((table,), name, self._numbers, traits=of_rows(table.traits))
        self.is_refreshing = table.is_refreshing
        self._latest = LatestViews(self.version.views)

    def constituents(self, keys: Sequence[pa.Array], count: int) -> list[Table]:
        """The tables of ``count`` keys, which need not have rows.

        A table that exists already is returned again.

        Args:
            keys: the values of the keys, an array for each column.
            count: how many there are.

        """
        with self.graph.in_one_turn():
            self.check_usable()
            version, groups = self.peek(), self._numbers.number(keys, count)
            made = {group: self._usable(group) for group in groups}
            rows = self._rows_known(group for group, table in made.items() if table is None)
            self._starting += 1
        try:
            missing = sorted(group for group, table in made.items() if table is None and group not in rows)
            if missing:
                rows |= zip(missing, rows_of_groups(version, missing), strict=True)
            pending = list(rows)
            for start in range(0, len(pending), _AT_ONCE):
                with self.graph.in_one_turn():
                    for group in pending[start : start + _AT_ONCE]:
                        made[group] = self._usable(group) or self._constituent(group, version, rows[group])
        finally:
            with self.graph.in_one_turn():
                self._starting -= 1
        return [table for group in groups if (table := made[group]) is not None]

    def sample(self) -> Table:
        """A table without rows, with the columns of constituents."""
        with self.graph.in_one_turn():
            return self._constituent(_NONE, self.peek(), RowSet.EMPTY)

    def affected_children(self) -> Iterable[DerivedTable]:
        """The tables of changed groups.

        These are all tables if this one has failed, or if rows of the past can be read.
        """
        if self._failure is not None or self.traits.is_blink:
            return self.children
        return [table for group in self._touched for table in self._made[group]]

    def entered(self, table: ConstituentTable) -> None:
        """Record the table of a group, which begins to follow."""
        if table.group != _NONE:
            self._made.setdefault(table.group, WeakList()).add(table)

    def views_of(self, group: int) -> Sequence[ColumnView]:
        """The columns for the present rows of a group.

        They do not keep overwritten values of other rows alive.
        """
        version = self.peek()
        if self.traits.is_blink:
            return version.views[:-1]
        rows = self._unchanged.get(group)
        if rows is None:
            rows = self._unchanged[group] = UnchangedRows(self._latest, version.views)
            if version is self._version:
                rows.unpin()
            else:
                self._fresh.append(rows)
        return [LatestView(rows, number) for number in range(len(self.schema) - 1)]

    def enter(self, step: int, number: int) -> None:
        """Begin to follow."""
        super().enter(step, number)
        self._latest.views = self._version.views

    def prepare_version(self, step: int, update: TableUpdate) -> None:
        """Find the changed groups. Older versions read their former rows."""
        super().prepare_version(step, update)
        groups = self._numbers.divided(Change(update, self._version, self.peek())).groups
        self._touched = [group for group in _common(self._made, groups) if len(self._made[group])]
        for group in _common(self._unchanged, groups):
            rows = self._unchanged.pop(group, None)
            if rows is not None:
                rows.pin(self._version.views)

    def show_version(self) -> None:
        """Make the prepared version visible; unchanged rows are read in it now."""
        super().show_version()
        self._latest.views = self._version.views
        fresh, self._fresh = self._fresh, []
        for rows in fresh:
            rows.unpin()

    def _follow(self, updates: Mapping[Table, TableUpdate]) -> TableUpdate:
        self._touched = []
        if self._numbers.has_many_dead and not self._starting:
            self._made = {group: tables for group, tables in self._made.items() if len(tables)}
            self._numbers.forget(self._made)
        return super()._follow(updates)

    def _usable(self, group: int) -> Table | None:
        """The table of a group, if there is one that has not failed."""
        return next((table for table in self._made.get(group, ()) if table.failure is None), None)

    def _rows_known(self, groups: Iterable[int]) -> dict[int, RowSet]:
        """The rows of groups that have none, or appeared in the present cycle."""
        known: dict[int, RowSet] = {}
        version = self.peek()
        for group in groups:
            size = self._numbers.size(group)
            gained = RowSet.EMPTY
            if size and version is not self._version:
                gained = self._numbers.divided(Change(version.node.update, self._version, version)).gained(group)
            if gained.size == size:
                known[group] = gained
        return known

    def _constituent(self, group: int, version: TableVersion, rows: RowSet) -> Table:
        name = name_for(self.parents[0], "constituent", None)
        if not self.is_refreshing:
            return StaticTable(
                self.graph,
                name,
                self.parents[0].schema,
                rows,
                version.views[:-1],
                nbytes=self.nbytes + rows.nbytes,
                state_bytes=self.state_bytes + rows.nbytes,
                key_columns=self.parents[0].key_columns,
                traits=self.traits,
            )
        made = ConstituentTable(self, group, version, rows, name)
        self.graph.attach(made)
        return made


class ConstituentTable(DerivedTable):
    """The rows of one group of a table.

    Args:
        whole: the table.
        group: the number of the group.
        version: a version of the table.
        rows: the rows of the group in it.
        name: its name in messages and logs.

    """

    def __init__(self, whole: Partition, group: int, version: TableVersion, rows: RowSet, name: str) -> None:
        self._whole = whole
        self.group = group
        numbers = whole._numbers
        operator = RowsOfGroup(numbers, group, version, rows, keeps_history=whole.traits.is_blink)
        super().__init__((whole,), name, operator, key_columns=whole.parents[0].key_columns, traits=whole.traits)

    def enter(self, step: int, number: int) -> None:
        """Begin to follow, with columns that keep no other rows alive."""
        self._whole.entered(self)
        self._outcome = self._outcome._replace(views=self._whole.views_of(self.group))
        super().enter(step, number)

    def _follow(self, updates: Mapping[Table, TableUpdate]) -> TableUpdate:
        update = super()._follow(updates)
        self._outcome = self._outcome._replace(views=self._whole.views_of(self.group))
        return update


def partition(parents: Sequence[Table], columns: Sequence[str]) -> Partition:
    """The table by the values of some columns.

    Raises:
        UnknownColumnError: the table lacks a column.
        UnsupportedTypeError: values of a column cannot be keys.

    """
    (table,) = parents
    made = Partition(table, known_columns(table, list(columns), "by"), name_for(table, "partition_by", None))
    table.graph.attach(made)
    return made


def _common(held: Mapping[int, object], groups: frozenset[int]) -> list[int]:
    """The numbers in both, at the cost of the smaller set."""
    if len(held) < len(groups):
        return [group for group in list(held) if group in groups]
    return [group for group in groups if group in held]
