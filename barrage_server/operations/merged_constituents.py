"""The rows of tables that are made for each key, merged: tables of new keys come while it ticks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from barrage_server.engine.derived import DerivedTable
from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.operator import Changes, Inputs, Operator, Outcome
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.table import Table
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.update import TableUpdate
from barrage_server.engine.version import TableVersion
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError
from barrage_server.operations.merge import Blocks, BlockView, size_for
from barrage_server.operations.result import name_for
from barrage_server.operations.traits import route_of
from barrage_server.rowset import MAX_KEY, RowSet, RowSetShiftData

__all__ = ["MergedConstituents", "merge_constituents"]

Key: TypeAlias = Sequence[pa.Array]
"""The values of one key, an array of one value for each column."""
Maker: TypeAlias = Callable[[Key], Table]


class _Part(NamedTuple):
    """The table of one key.

    Attributes:
        number: that of the key.
        table: the table.
        fixed: its version, if it does not tick.
        order: the numbers of its columns, in the order of the result.

    """

    number: int
    table: Table
    fixed: TableVersion | None
    order: tuple[int, ...]


def merge_constituents(keys: Table, make: Maker, sample: Callable[[], Table], *, name: str | None = None) -> Table:
    """The rows of the tables of all keys, one behind the other, in the order in which the keys have appeared.

    Args:
        keys: a row for each key; it ticks.
        make: makes the table of a key. In a cycle in which a key appears, it is called within that cycle.
        sample: makes a table such as that of a key, for its columns, if there is no key yet.
        name: its name in messages and logs.

    Raises:
        InvalidRequestError: the tables have different columns.

    """
    graph = keys.graph
    index, made = GroupIndex(keys.schema), dict[int, Table]()
    _make_missing(keys, index, made, make)  # while publishers go on
    first = next(iter(made.values())) if made else sample()
    with graph.between_cycles(), graph.adopting(graph.step):
        present = _make_missing(keys, index, made, make)
        columns = pa.schema([field.remove_metadata() for field in first.schema])
        parts = [_part(number, made[number], columns) for number in present]
        table = MergedConstituents(keys, parts, make, index, columns, first.height, name_for(keys, "merge", name))
        graph.attach(table)
    return table


def _make_missing(keys: Table, index: GroupIndex, made: dict[int, Table], make: Maker) -> list[int]:
    """Make the tables of the keys that have none; the numbers of all keys, in order."""
    present: list[int] = []
    for batch in keys.version.batches():
        for row, number in enumerate(index.add(batch.columns, len(batch)).tolist()):
            present.append(number)
            if number not in made:
                made[number] = make(batch.slice(row, 1).columns)
    return present


def _part(number: int, table: Table, schema: pa.Schema) -> _Part:
    places = {field.name: (place, field.type) for place, field in enumerate(table.schema)}
    order = tuple(places[field.name][0] for field in schema if places.get(field.name, (0, None))[1] == field.type)
    if len(order) != len(schema) or len(order) != len(table.schema):
        raise InvalidRequestError(
            f"func must give the same columns for each key. For one it gave {_columns(schema)}; for another one "
            f"{_columns(table.schema)}."
        )
    return _Part(number, table, None if table.is_refreshing else table.version.detached(), order)


def _columns(schema: pa.Schema) -> str:
    shown = ", ".join(f"{field.name}: {field.type}" for field in list(schema)[:20])
    return f"{shown} and {len(schema) - 20} more" if len(schema) > 20 else shown


class MergedConstituents(DerivedTable):
    """Follows the keys and the tables of all of them, which are its parents."""

    def __init__(
        self,
        keys: Table,
        parts: Sequence[_Part],
        make: Maker,
        index: GroupIndex,
        schema: pa.Schema,
        height: int,
        name: str,
    ) -> None:
        self._make = make
        self._index = index
        self._parts = {part.number: part for part in parts}
        self._rows_of = MergedRows(schema, parts)
        tables = [part.table for part in parts]
        super().__init__((keys, *tables), name, self._rows_of, traits=TableTraits(stated=route_of(keys.traits)))
        self.height = max(self.height, height + 1)

    @property
    def nbytes(self) -> int:
        """Bytes of the keys, and of the tables, which share their columns."""
        return self.state_bytes + self.parents[0].nbytes

    @property
    def state_bytes(self) -> int:
        """Bytes of the keys, and of the state of the tables."""
        return self._index.nbytes + sum(part.table.state_bytes for part in self._parts.values())

    def _follow(self, updates: Mapping[Table, TableUpdate]) -> TableUpdate:
        graph, keys = self.graph, self.parents[0]
        began = graph.clock()
        gone: dict[int, _Part] = {}
        new: dict[int, _Part] = {}
        if keys in updates:
            gone, new = self._follow_keys(updates[keys])
        before = list(self._parts.values())
        kept = [part for part in before if part.number not in gone]
        self._outcome = self._rows_of.change(before, kept, list(new.values()), updates)
        self._parts = {part.number: part for part in (*kept, *new.values())}
        self.parents = (keys, *(part.table for part in self._parts.values()))
        for part in new.values():
            part.table.children.add(self)
        for table in {part.table for part in gone.values()} - set(self.parents):
            table.children.discard(self)
        update = self._outcome.update
        self.cycles += 1
        self.changed_rows += update.added.size + update.removed.size + update.modified_rows.size
        self.seconds += graph.clock() - began
        return update

    def _follow_keys(self, update: TableUpdate) -> tuple[dict[int, _Part], dict[int, _Part]]:
        """The parts of the keys that have gone, and those of new ones, by the numbers of their keys."""
        keys = self.parents[0]
        columns = range(len(keys.schema))
        left, came = keys.version.read(update.removed, columns), keys.peek().read(update.added, columns)
        lost = self._index.find(left, update.removed.size).tolist()
        found = self._index.add(came, update.added.size).tolist()
        gone = {number: self._parts[number] for number in set(lost) - set(found)}
        new: dict[int, _Part] = {}
        with self.graph.adopting(self.graph.step + 1):
            for row, number in enumerate(found):
                if number in self._parts:
                    continue
                table = self._make([column.slice(row, 1) for column in came])
                if table.height >= self.height:
                    raise InvalidRequestError("func must make the table of each key in the same way: by as many steps.")
                new[number] = _part(number, table, self.schema)
        return gone, new


class MergedRows(Operator):
    """Puts the rows of tables behind each other, each into a block of the key space. It keeps row keys and no values.

    A cycle costs the rows that change in the tables, and the number of tables. The rows of one that outgrows its block
    shift those of the tables behind it.

    Args:
        schema: the columns of the result.
        parts: the tables at the start, which are its inputs behind that of the keys.

    """

    name: ClassVar[str] = "merge"

    def __init__(self, schema: pa.Schema, parts: Sequence[_Part]) -> None:
        self.schema = schema
        self._parts = tuple(parts)
        self._blocks = Blocks((), ())
        self._end = 0  # of the last block that there was
        self._rows = RowSet.empty()

    def start(self, inputs: Inputs) -> Outcome:
        """Put the rows of the tables behind each other."""
        versions = inputs[1:]
        self._set_blocks(Blocks.around(versions))
        self._rows = RowSet.union_all(
            version.row_set.shift(first) for version, first in zip(versions, self._blocks.firsts, strict=True)
        )
        return self._outcome(self._parts, versions, TableUpdate.of_added(self._rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Not used: tables come and go, as :meth:`change` has it."""
        raise NotImplementedError

    def change(
        self,
        before: Sequence[_Part],
        kept: Sequence[_Part],
        new: Sequence[_Part],
        updates: Mapping[Table, TableUpdate],
    ) -> Outcome:
        """Put the updates of the tables behind each other, without the tables that have gone, and with new ones.

        Args:
            before: the tables so far.
            kept: those that stay.
            new: those that come.
            updates: the updates of those that change in this cycle.

        """
        firsts = {part.number: first for part, first in zip(before, self._blocks.firsts, strict=True)}
        sizes = {part.number: size for part, size in zip(before, self._blocks.sizes, strict=True)}
        parts = (*kept, *new)
        versions = [part.fixed or part.table.peek() for part in parts]
        self._set_blocks(self._next_blocks(parts, versions, firsts, sizes))
        added, removed, modified = [], [], [[RowSet.empty()] for _ in self.schema]
        shifts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        stay = {part.number for part in kept}
        for part in before:
            if part.number not in stay:
                removed.append((part.fixed or part.table.version).row_set.shift(firsts[part.number]))
        for part, version, to in zip(parts, versions, self._blocks.firsts, strict=True):
            if part.number not in stay:
                added.append(version.row_set.shift(to))
                continue
            at, update = firsts[part.number], None
            if part.fixed is None and part.table in updates:
                update = updates[part.table]
                added.append(update.added.shift(to))
                removed.append(update.removed.shift(at))
                for rows, place in zip(modified, part.order, strict=True):
                    rows.append(update.modified[place].shift(to))
            moved = _moved(part, version, update, at, to)
            if moved.size:
                shifts.append((moved.starts, moved.ends, moved.deltas))
        own_shifts = RowSetShiftData.empty()
        if shifts:
            own_shifts = RowSetShiftData.from_arrays(*map(np.concatenate, zip(*shifts, strict=True)))
        union = RowSet.union_all
        update = TableUpdate(union(added), union(removed), own_shifts, tuple(map(union, modified)))
        self._rows = update.apply_to(self._rows)
        return self._outcome(parts, versions, update)

    def _next_blocks(
        self,
        parts: Sequence[_Part],
        versions: Sequence[TableVersion],
        firsts: Mapping[int, int],
        sizes: Mapping[int, int],
    ) -> Blocks:
        """The present blocks and those of new tables behind them; all anew once one is too small."""
        needed = [
            size_for(version.row_set, sizes.get(part.number, 0)) for part, version in zip(parts, versions, strict=True)
        ]
        end, places = self._end, []
        for part, size in zip(parts, needed, strict=True):
            if part.number in firsts:
                if size != sizes[part.number]:
                    return self._from_start(needed)
                places.append(firsts[part.number])
            else:
                places.append(end)
                end += size
        return Blocks(tuple(places), tuple(needed)) if end <= MAX_KEY else self._from_start(needed)

    def _from_start(self, sizes: Sequence[int]) -> Blocks:
        self._end = 0
        return Blocks.of_sizes(sizes)

    def _set_blocks(self, blocks: Blocks) -> None:
        self._blocks = blocks
        if blocks.firsts:
            self._end = max(self._end, blocks.firsts[-1] + blocks.sizes[-1])

    def _outcome(self, parts: Sequence[_Part], versions: Sequence[TableVersion], update: TableUpdate) -> Outcome:
        if not parts:
            return Outcome(self._rows, ColumnStore(self.schema).views(), update)
        views: list[ColumnView] = []
        for number in range(len(self.schema)):
            columns = [version.views[part.order[number]] for part, version in zip(parts, versions, strict=True)]
            views.append(BlockView(columns, self._blocks))
        return Outcome(self._rows, views, update)


def _moved(part: _Part, version: TableVersion, update: TableUpdate | None, before: int, after: int) -> RowSetShiftData:
    """How the rows of a table that stay are shifted, in a block that began at ``before`` and begins at ``after``."""
    if before == after:
        if update is None or not update.shifted.size:
            return RowSetShiftData.empty()
        shifted = update.shifted
        return RowSetShiftData.from_arrays(shifted.starts + before, shifted.ends + before, shifted.deltas)
    were, are = version.row_set, version.row_set
    if update is not None:
        were, are = part.table.version.row_set - update.removed, are - update.added
    return RowSetShiftData.between(were.shift(before), are.shift(after))
