"""The merged rows of tables made for each key, while keys come and go."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
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
from barrage_server.engine.values import take
from barrage_server.engine.version import TableVersion
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError
from barrage_server.operations.grouped_rows import FEW_DEAD
from barrage_server.operations.merge import Blocks, BlockView, size_for
from barrage_server.operations.result import name_for
from barrage_server.operations.traits import route_of
from barrage_server.rowset import MAX_KEY, RowSet, RowSetShiftData

__all__ = ["MergedConstituents", "merge_constituents"]

Keys: TypeAlias = Sequence[pa.Array]
"""The values of some keys, an array for each column."""
Maker: TypeAlias = Callable[[Keys, int], Sequence[Table]]


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
    """Merge the tables of all keys, in the order of the keys' appearance.

    Args:
        keys: a row for each key; it ticks.
        make: makes the tables of some keys, of which it gets the number, too. In a cycle in which keys appear, it is
            called within that cycle.
        sample: makes a table such as that of a key, for its columns, if there is no key yet.
        name: its name in messages and logs.

    Raises:
        InvalidRequestError: the tables have different columns.

    """
    graph = keys.graph
    index, made = GroupIndex(keys.schema), dict[int, Table]()
    _make_missing(keys.version, index, made, make)  # while publishers go on
    first = next(iter(made.values())) if made else sample()
    with graph.in_one_turn():
        present = _make_missing(keys.peek(), index, made, make)
        columns = pa.schema([field.remove_metadata() for field in first.schema])
        parts = [_part(number, made[number], columns) for number in present]
        table = MergedConstituents(keys, parts, make, index, columns, first.height, name_for(keys, "merge", name))
        graph.attach(table)
    return table


def _make_missing(keys: TableVersion, index: GroupIndex, made: dict[int, Table], make: Maker) -> list[int]:
    """Make the missing tables of keys; the numbers of all keys, in order."""
    present: list[int] = []
    for batch in keys.batches():
        numbers = index.add(batch.columns, len(batch)).tolist()
        made |= _made(batch.columns, numbers, made, make)
        present += numbers
    return present


def _made(keys: Keys, numbers: Sequence[int], known: Collection[int], make: Maker) -> dict[int, Table]:
    """Make the tables of the keys that are not ``known``, by number."""
    places = [place for place, number in enumerate(numbers) if number not in known]
    if not places:
        return {}
    tables = make([take(column, np.array(places, np.int64)) for column in keys], len(places))
    return {numbers[place]: table for place, table in zip(places, tables, strict=True)}


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
    """A table that follows the keys and the tables of all keys, its parents."""

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
        self._gone = 0  # keys that have gone since some were forgotten
        self._parts = {part.number: part for part in parts}
        self._rows_of = MergedRows(schema, parts)
        tables = [part.table for part in parts]
        super().__init__((keys, *tables), name, self._rows_of, traits=TableTraits(stated=route_of(keys.traits)))
        self.height = max(self.height, height + 1)

    @property
    def own_bytes(self) -> int:
        """Bytes of the keys."""
        return self._index.nbytes

    @property
    def included(self) -> Sequence[Table]:
        """The merged tables."""
        return self.parents[1:]

    @property
    def state_bytes(self) -> int:
        """Bytes of the keys, and of the state of the tables."""
        parts = list(self._parts.values())  # other threads ask while keys come and go
        return self._index.nbytes + sum(part.table.state_bytes for part in parts)

    def _follow(self, updates: Mapping[Table, TableUpdate]) -> TableUpdate:
        graph, keys = self.graph, self.parents[0]
        began = graph.clock()
        gone: set[int] = set()
        new: list[_Part] = []
        if keys in updates:
            gone, new = self._follow_keys(updates[keys])
        if gone or new:
            self._outcome = self._rows_of.exchange(gone, new, updates)
            self._exchange(gone, new)
        else:
            self._outcome = self._rows_of.change(updates)
        update = self._outcome.update
        self.cycles += 1
        self.changed_rows += update.added.size + update.removed.size + update.modified_rows.size
        self.seconds += graph.clock() - began
        return update

    def _exchange(self, gone: Collection[int], new: Sequence[_Part]) -> None:
        """Follow the tables of new keys, and leave the tables of removed keys."""
        for number in gone:
            del self._parts[number]
        self._parts |= {part.number: part for part in new}
        before = frozenset(self.parents)
        self.parents = (self.parents[0], *(part.table for part in self._parts.values()))
        present = frozenset(self.parents)
        for table in present - before:  # one may be that of several keys
            table.children.add(self)
        for table in before - present:
            table.children.discard(self)
        self._gone += len(gone)
        if self._gone > max(FEW_DEAD, len(self._parts)):
            self._gone = 0
            self._index.forget(np.setdiff1d(np.arange(self._index.count), list(self._parts)))

    def _follow_keys(self, update: TableUpdate) -> tuple[set[int], list[_Part]]:
        """The numbers of removed keys, and the parts of new keys."""
        keys = self.parents[0]
        columns = range(len(keys.schema))
        left, came = keys.version.read(update.removed, columns), keys.peek().read(update.added, columns)
        lost = self._index.find(left, update.removed.size).tolist()
        found = self._index.add(came, update.added.size).tolist()
        with self.graph.adopting(self.graph.step + 1):
            made = _made(came, found, self._parts, self._make)
        if any(table.height >= self.height for table in made.values()):
            raise InvalidRequestError("func must make the table of each key in the same way: by as many steps.")
        return set(lost) - set(found), [_part(number, table, self.schema) for number, table in made.items()]


class MergedRows(Operator):
    """The rows of tables, each table in a block of the key space.

    The state is row keys, and no values. A cycle costs the rows and the tables that change; a cycle in which tables
    come or go, or outgrow their blocks, costs the number of tables. When a table outgrows its block, the rows of the
    following tables shift.

    Args:
        schema: the columns of the result.
        parts: the tables at the start. They are the inputs behind the input of the keys.

    """

    name: ClassVar[str] = "merge"

    def __init__(self, schema: pa.Schema, parts: Sequence[_Part]) -> None:
        self.schema = schema
        self._parts = tuple(parts)
        self._places = _places_of(self._parts)
        self._blocks = Blocks((), ())
        self._end = 0  # of the last block that there was
        self._rows = RowSet.empty()
        self._views: list[BlockView] = []

    def start(self, inputs: Inputs) -> Outcome:
        """Concatenate the rows of the tables."""
        versions = inputs[1:]
        self._set_blocks(Blocks.around(versions))
        self._rows = RowSet.union_all(
            version.row_set.shift(first) for version, first in zip(versions, self._blocks.firsts, strict=True)
        )
        return self._outcome(versions, TableUpdate.of_added(self._rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Never called: the table calls :meth:`change` and :meth:`exchange`."""
        raise NotImplementedError

    def change(self, updates: Mapping[Table, TableUpdate]) -> Outcome:
        """Concatenate the updates of the tables.

        Args:
            updates: the updates of the tables that change in this cycle, or have other columns.

        """
        if not self._parts:
            return self._outcome((), TableUpdate.empty(len(self.schema)))
        blocks, merging = self._blocks, _Merging(self.schema)
        places = sorted(place for table in updates for place in self._places.get(table, ()))
        columns: list[dict[int, ColumnView]] = [{} for _ in self.schema]
        for place in places:
            part, first = self._parts[place], blocks.firsts[place]
            version = part.table.peek()
            if size_for(version.row_set, blocks.sizes[place]) != blocks.sizes[place]:
                return self.exchange((), (), updates)
            merging.follow(part, version, updates[part.table], first, first)
            for column, number in zip(columns, part.order, strict=True):
                column[place] = version.views[number]
        update = merging.update()
        if update.shifted.size:
            self._rows = update.apply_to(self._rows)
        else:
            self._rows = self._rows.exchanged(update.removed, update.added)
        self._views = [view.replaced(column) for view, column in zip(self._views, columns, strict=True)]
        return Outcome(self._rows, self._views, update)

    def exchange(self, gone: Collection[int], new: Sequence[_Part], updates: Mapping[Table, TableUpdate]) -> Outcome:
        """Concatenate the updates, without removed tables and with new ones.

        Args:
            gone: the numbers of the removed keys.
            new: the parts of the new keys.
            updates: the updates of the tables that change in this cycle.

        """
        firsts = {part.number: first for part, first in zip(self._parts, self._blocks.firsts, strict=True)}
        sizes = {part.number: size for part, size in zip(self._parts, self._blocks.sizes, strict=True)}
        merging = _Merging(self.schema)
        for part in self._parts:
            if part.number in gone:
                merging.removed.append((part.fixed or part.table.version).row_set.shift(firsts.pop(part.number)))
        self._parts = (*(part for part in self._parts if part.number in firsts), *new)
        self._places = _places_of(self._parts)
        versions = [part.fixed or part.table.peek() for part in self._parts]
        self._set_blocks(self._next_blocks(versions, firsts, sizes))
        for part, version, to in zip(self._parts, versions, self._blocks.firsts, strict=True):
            at = firsts.get(part.number)
            if at is None:
                merging.added.append(version.row_set.shift(to))
            else:
                merging.follow(part, version, None if part.fixed else updates.get(part.table), at, to)
        update = merging.update()
        self._rows = update.apply_to(self._rows)
        return self._outcome(versions, update)

    def _next_blocks(
        self, versions: Sequence[TableVersion], firsts: Mapping[int, int], sizes: Mapping[int, int]
    ) -> Blocks:
        """The present blocks, then the blocks of new tables.

        All blocks are made anew once one is too small.
        """
        needed = [
            size_for(version.row_set, sizes.get(part.number, 0))
            for part, version in zip(self._parts, versions, strict=True)
        ]
        end, places = self._end, []
        for part, size in zip(self._parts, needed, strict=True):
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

    def _outcome(self, versions: Sequence[TableVersion], update: TableUpdate) -> Outcome:
        self._views = []
        if not self._parts:
            return Outcome(self._rows, ColumnStore(self.schema).views(), update)
        for number in range(len(self.schema)):
            columns = [version.views[part.order[number]] for part, version in zip(self._parts, versions, strict=True)]
            self._views.append(BlockView(columns, self._blocks))
        return Outcome(self._rows, self._views, update)


class _Merging:
    """Collects the updates of tables, each of which has a block of the key space.

    Args:
        schema: the columns of the result.

    Attributes:
        added, removed: rows of the result that are new, or go.

    """

    def __init__(self, schema: pa.Schema) -> None:
        self.added: list[RowSet] = []
        self.removed: list[RowSet] = []
        self._modified: list[list[RowSet]] = [[] for _ in schema]
        self._shifts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def follow(self, part: _Part, version: TableVersion, update: TableUpdate | None, before: int, after: int) -> None:
        """Add the update of a table, whose block moved from ``before`` to ``after``."""
        if update is not None:
            self.added.append(update.added.shift(after))
            self.removed.append(update.removed.shift(before))
            for rows, place in zip(self._modified, part.order, strict=True):
                rows.append(update.modified[place].shift(after))
        moved = _moved(part, version, update, before, after)
        if moved.size:
            self._shifts.append((moved.starts, moved.ends, moved.deltas))

    def update(self) -> TableUpdate:
        """The combined update of tables, which were added in the order of blocks."""
        shifts = RowSetShiftData.empty()
        if self._shifts:
            shifts = RowSetShiftData.from_arrays(*map(np.concatenate, zip(*self._shifts, strict=True)))
        union = RowSet.union_all
        return TableUpdate(union(self.added), union(self.removed), shifts, tuple(map(union, self._modified)))


def _places_of(parts: Sequence[_Part]) -> dict[Table, list[int]]:
    """The places of each ticking table, which may be the table of several keys."""
    places: dict[Table, list[int]] = {}
    for place, part in enumerate(parts):
        if part.fixed is None:
            places.setdefault(part.table, []).append(place)
    return places


def _moved(part: _Part, version: TableVersion, update: TableUpdate | None, before: int, after: int) -> RowSetShiftData:
    """The shifts of rows of a table whose block moved from ``before`` to ``after``."""
    if before == after:
        if update is None or not update.shifted.size:
            return RowSetShiftData.empty()
        shifted = update.shifted
        return RowSetShiftData.from_arrays(shifted.starts + before, shifted.ends + before, shifted.deltas)
    were, are = version.row_set, version.row_set
    if update is not None:
        were, are = part.table.version.row_set - update.removed, are - update.added
    return RowSetShiftData.between(were.shift(before), are.shift(after))
