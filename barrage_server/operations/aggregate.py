"""The operator of aggregations: a row for each group of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa

from barrage_server.engine import TableUpdate, TableVersion
from barrage_server.engine.group_index import GroupIndex, pack_rows
from barrage_server.engine.key_values import KeyValues
from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.version import FEW_ROWS, shared_values
from barrage_server.engine.view import ColumnView
from barrage_server.formula.inputs import SharedValues
from barrage_server.operations.accumulators import Accumulator
from barrage_server.operations.appended import added_rows
from barrage_server.operations.distinct import OfDistinct
from barrage_server.operations.exchange import Exchange, ExchangedRows
from barrage_server.operations.group_formula import GroupFormula
from barrage_server.operations.group_totals import GroupArray
from barrage_server.operations.members import GroupView, Listed
from barrage_server.operations.ordering import Key
from barrage_server.operations.ranking import Ranked, Ranking, RowGroups
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["Aggregate", "AggregatedColumn"]

_FEW_DEAD: Final = 1024
"""Groups without rows that are always kept: a group that comes back has the same number."""
_BLOCK_BITS: Final = 16
_BLOCK: Final = 1 << _BLOCK_BITS
_GROUPS_OF_A_ROW: Final = 32
"""Groups that can be scanned in the time of sorting one row."""
_ROWS_OF_A_GROUP: Final = 4
"""Rows per group from which on most pieces have rows of all groups."""
_NO_GROUPS: Final = np.zeros(0, np.int64)
_MOST_SHARED: Final = 32
"""Results of others about some rows, from which on no more are kept with a version."""


class AggregatedColumn(NamedTuple):
    """A column of results.

    Attributes:
        name: its name.
        accumulator: what computes it; ``None``: the number of rows.
        inputs: the numbers of the columns that it is computed of.

    """

    name: str
    accumulator: Accumulator | None
    inputs: tuple[int, ...]

    @property
    def is_list(self) -> bool:
        """Whether it lists the values of the group, which are not stored again."""
        return isinstance(self.accumulator, Listed)

    @property
    def is_of_members(self) -> bool:
        """Whether the result is computed from the present rows of the group.

        Other results are computed from the rows that come and go.
        """
        return isinstance(self.accumulator, Listed | GroupFormula)


class Aggregate(Operator):
    """One row for each group, with the results of accumulators.

    The state is the key values of the groups, their numbers of rows, and the state of the accumulators. A cycle costs
    the rows added, removed, and modified in a column that is read. The row key of a group is its number, in order of
    appearance. Groups without rows leave the result. When they outnumber the others, the groups are renumbered.

    Args:
        schema: the columns of the input.
        keys: the numbers of the columns that tell groups apart.
        key_names: their names in the result.
        columns: the columns of results.
        accumulates: whether rows that leave the input stay counted: those of a blink table.

    """

    name: ClassVar[str] = "agg_by"

    def __init__(
        self,
        schema: pa.Schema,
        keys: Sequence[int],
        key_names: Sequence[str],
        columns: Sequence[AggregatedColumn],
        *,
        accumulates: bool = False,
    ) -> None:
        key_fields = [schema.field(number).with_name(name) for number, name in zip(keys, key_names, strict=True)]
        fields = [
            pa.field(column.name, pa.int64())
            if column.accumulator is None
            else pa.field(column.name, column.accumulator.type, metadata=column.accumulator.metadata)
            for column in columns
        ]
        self.schema = pa.schema([*key_fields, *fields])
        self._keys = tuple(keys)
        self._columns = tuple(columns)
        counted = (number for column in columns if not column.is_of_members for number in column.inputs)
        self._read = tuple(dict.fromkeys([*keys, *counted]))
        self._accumulates = accumulates
        self._groups = GroupIndex(pa.schema(key_fields))
        has_lists = any(column.is_list for column in columns)
        stored = [each for column, each in zip(columns, fields, strict=True) if not column.is_list]
        self._results = ColumnStore(pa.schema(stored))
        stores = iter(self._results.columns)
        self._stores = [None if column.is_list else next(stores) for column in columns]
        self._sizes = GroupArray(np.int64)
        self._places = GroupArray(np.int32)  # of groups among those of a piece; to be used within it
        self._rows = RowSet.empty()
        self._of_rows = RowGroups(versioned=has_lists)
        self._rankings: dict[tuple[Key, ...], Ranking] = {}
        self._lists = Ranking((), self._of_rows, versioned=True) if has_lists else None
        if self._lists is not None:
            self._rankings[()] = self._lists
        for column in columns:
            self._rank(column)
        self._counted = _with_own_state(columns)
        self._of_members = tuple(number for number, column in enumerate(columns) if column.is_of_members)
        self._dropped = 0  # blocks of row keys of the input that are not used any more

    def _rank(self, column: AggregatedColumn) -> None:
        """Give the column's accumulator its ranking, shared with others of one order."""
        accumulator = column.accumulator
        if isinstance(accumulator, Ranked):
            keys = tuple(map(Key, column.inputs[:1] if accumulator.by_value else column.inputs[1:]))
            accumulator.column = column.inputs[0]
            accumulator.ranking = self._rankings.setdefault(keys, Ranking(keys, self._of_rows))
        elif isinstance(accumulator, GroupFormula):
            accumulator.ranking = self._rankings.setdefault((), Ranking((), self._of_rows))
            accumulator.groups, accumulator.sizes = self._groups, self._sizes

    @property
    def nbytes(self) -> int:
        """Bytes of the groups, the accumulators and the results."""
        accumulators = sum(column.accumulator.nbytes for column in self._columns if column.accumulator is not None)
        accumulators += self._of_rows.nbytes + sum(ranking.nbytes for ranking in self._rankings.values())
        return self._groups.nbytes + self._sizes.nbytes + self._places.nbytes + self._results.nbytes + accumulators

    def start(self, inputs: Inputs) -> Outcome:
        """Add all rows."""
        (version,) = inputs
        self._take(version, version.row_set, 1)
        for ranking in self._rankings.values():
            ranking.start(version)
        return self._changed(ReadPlan.from_range(0, self._groups.count - 1), version)

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Remove rows with their old values, and add rows with their new values."""
        (change,), (version,) = changes, inputs
        came = RowSet.EMPTY if change is None else added_rows(change) if self._accumulates else change.update.added
        if change is None or (change.update.is_empty and not came):
            return Outcome(self._rows, self._views(version), TableUpdate.empty(len(self.schema)))
        update = change.update
        modified = RowSet.union_all([update.modified[number] for number in self._read])
        stay = not (came or update.removed or update.shifted.size or _any_of(update.modified, self._keys))
        if stay and not self._rankings:
            plans = self._exchange(change.before, version, modified)
            plan = plans[0] if len(plans) == 1 else ReadPlan.from_keys(_merged([plan.keys for plan in plans]))
            return self._changed(plan, version, stay=True)
        lost = self._groups_left(update)
        left = [self._leave(ranking, change) for ranking in self._rankings.values()]
        if stay:
            touched = [plan.keys for plan in self._exchange(change.before, version, modified)]
        else:
            gone = RowSet.empty() if self._accumulates else update.removed
            if modified:
                gone = gone | (update.shifted.unapply(modified) if update.shifted.size else modified)
            touched = self._take(change.before, gone, -1)
            touched += self._take(version, came | modified, 1)
        for ranking, (slots, moved, was) in zip(self._rankings.values(), left, strict=True):
            ranking.change(version, slots, update.added | moved, moved, was)
        if self._rankings:
            self._drop(version)
        members = self._members_changed(update, lost)
        groups = _merged([*touched, *members.values()])
        return self._changed(ReadPlan.from_keys(groups), version, members, stay=stay)

    def _groups_left(self, update: TableUpdate) -> Int64Array:
        """The groups that lose rows, if a result is computed from group members."""
        if not self._of_members:
            return _NO_GROUPS
        regrouped = RowSet.union_all(update.modified[number] for number in self._keys)
        former = update.shifted.unapply(regrouped) if update.shifted.size and regrouped else regrouped
        return self._of_rows.of((update.removed | former).keys())

    def _members_changed(self, update: TableUpdate, lost: Int64Array) -> dict[int, Int64Array]:
        """The groups with changed members, by number of the column of results.

        Only columns computed from group members are listed.
        """
        if not self._of_members:
            return {}
        regrouped = RowSet.union_all(update.modified[number] for number in self._keys)
        moved = [lost, self._of_rows.of((update.added | regrouped).keys())]
        found = {}
        for number in self._of_members:
            modified = RowSet.union_all(update.modified[each] for each in self._columns[number].inputs)
            found[number] = _merged([*moved, self._of_rows.of(modified.keys())])
        return found

    def _take(self, version: TableVersion, rows: RowSet, sign: int) -> list[Int64Array]:
        """Add or remove ``rows``. Returns the touched groups, piece by piece."""
        found = []
        for part, columns in self._pieces(version, rows):
            keys = [columns[number] for number in self._keys]
            numbers = self._groups.add(keys, part.size) if sign > 0 else self._groups.find(keys, part.size)
            if sign > 0 and self._rankings:
                self._of_rows.write(part, numbers)
            self._sizes.reserve(self._groups.count)
            groups, places = self._told_apart(numbers)
            self._sizes.array[groups] += sign * np.bincount(places, minlength=len(groups))
            for accumulator, inputs in self._counted:
                accumulator.reserve(self._groups.count)
                accumulator.change(groups, places, [columns[number] for number in inputs], sign)
            found.append(groups)
        return found

    def _exchange(self, before: TableVersion, version: TableVersion, rows: RowSet) -> list[ReadPlan]:
        """Replace the old values of ``rows``, which stay in their groups.

        Returns the rows of the groups in the result, piece by piece.
        """
        found = []
        for part in self._parts(version, rows):
            exchange = self._exchange_of(before, version, part)
            for accumulator, inputs in self._counted:
                accumulator.exchange(exchange, inputs)
            found.append(exchange.plan)
        return found

    def _exchange_of(self, before: TableVersion, version: TableVersion, rows: RowSet) -> Exchange:
        """The exchange of rows of one piece."""
        old, new = self._shared(before, rows), self._shared(version, rows)
        key = self._keys, before.step
        known: ExchangedRows | None = new.answers.get(key)
        if known is not None:
            return Exchange.of(known, self._groups.find_keys(known.keys), old, new)
        columns = [new.array(number) for number in self._keys]
        groups, places = self._told_apart(self._groups.find(columns, rows.size))
        keys = None
        is_shared = rows.size <= FEW_ROWS and len(new.answers) < _MOST_SHARED and all(map(new.keeps, self._keys))
        if is_shared and columns:
            some_row = np.empty(len(groups), np.int64)
            some_row[places] = np.arange(len(places))
            keys = KeyValues(columns).take(some_row)
        known = ExchangedRows(places, groups, keys)
        if is_shared:
            new.answers[key] = known
        return Exchange.of(known, groups, old, new)

    def _told_apart(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The distinct groups in ``numbers``, ascending, and each number's place."""
        count = self._groups.count
        if count * _ROWS_OF_A_GROUP <= len(numbers):
            groups = np.flatnonzero(np.bincount(numbers, minlength=count))
            if len(groups) == count:
                return groups, numbers
        self._places.reserve(count)
        table, order = self._places.array, np.arange(len(numbers), dtype=np.int32)
        if len(numbers) * _GROUPS_OF_A_ROW >= count:
            are_here = np.zeros(count, np.bool_)
            are_here[numbers] = True
            groups = are_here.nonzero()[0]  # flatnonzero takes longer than all of this for few rows
        else:
            table[numbers] = order
            groups = np.sort(numbers[np.flatnonzero(table[numbers] == order)])
        table[groups] = order[: len(groups)]
        return groups, table[numbers]

    def _leave(self, ranking: Ranking, change: Change) -> tuple[Int64Array, RowSet, Int64Array]:
        """Collect the slots that rows leave in a ranking.

        Returns:
            All these slots, ascending; the rows that get another slot; and their present slots.

        """
        update = change.update
        removed = ranking.slots_of(update.removed)
        before, after = change.moved()
        if len(before):
            ranking.shift(before, after)
            if ranking is next(iter(self._rankings.values())):  # shared by all
                self._of_rows.shift(before, after)
        moved = RowSet.union_all(update.modified[number] for number in {*self._keys, *ranking.columns})
        was = ranking.slots_of(moved)
        return np.sort(np.concatenate((removed, was))), moved, was

    def _drop(self, version: TableVersion) -> None:
        """Forget the groups of rows whose keys are no longer used."""
        if version.row_set and version.row_set.first_key >> _BLOCK_BITS > self._dropped:
            self._dropped = version.row_set.first_key >> _BLOCK_BITS
            self._of_rows.drop_before(self._dropped << _BLOCK_BITS)
            for ranking in self._rankings.values():
                ranking.drop_before(self._dropped << _BLOCK_BITS)

    def _parts(self, version: TableVersion, rows: RowSet) -> Iterable[RowSet]:
        """``rows`` by pieces.

        Few rows are the object itself, by which other tables find their values.
        """
        return (rows,) if 0 < rows.size <= FEW_ROWS else version.pieces(rows, self._read)

    def _pieces(self, version: TableVersion, rows: RowSet) -> Iterator[tuple[RowSet, dict[int, pa.Array]]]:
        """The parts of ``rows``, each with the columns that are read."""
        for part in self._parts(version, rows):
            values = self._shared(version, part)
            yield part, {number: values.array(number) for number in self._read}

    def _shared(self, version: TableVersion, rows: RowSet) -> SharedValues:
        """The columns that are read, of rows of one piece.

        Tables that read the same few rows share the values.
        """
        shared = shared_values(version, rows)
        if shared is not None:
            return shared
        columns = dict(zip(self._read, version.read(rows, self._read), strict=True))
        return SharedValues(columns.__getitem__)

    def _changed(
        self,
        plan: ReadPlan,
        version: TableVersion,
        members: dict[int, Int64Array] | None = None,
        *,
        stay: bool = False,
    ) -> Outcome:
        """Write the results of changed groups.

        Args:
            plan: the groups' rows in the result.
            version: the input.
            members: by column of results that is of the members of groups, the groups whose members have changed.
            stay: whether no group comes or goes.

        """
        removed = added = RowSet.EMPTY
        if not stay:
            groups = plan.keys
            are_in, were_in = self._sizes.array[groups] > 0, self._rows.contains(groups)
            removed = RowSet.from_sorted_keys(groups[are_in < were_in])
            added = RowSet.from_sorted_keys(groups[are_in > were_in])
            plan = ReadPlan.from_keys(groups[are_in & were_in])
        modified: list[RowSet] = [RowSet.EMPTY] * len(self._keys)
        for number, (column, store) in enumerate(zip(self._columns, self._stores, strict=True)):
            stayed = plan
            if members and number in members:
                stayed = ReadPlan.from_row_set(plan.rows & RowSet.from_sorted_keys(members[number]))
            if store is None:
                modified.append(stayed.rows)
                continue
            changed = RowSet.EMPTY
            if added:
                store.write(added, self._result(column, added.keys()), self._results.undo)
            if stayed.size:
                flags = store.update(stayed, self._result(column, stayed.keys), self._results.undo)
                is_whole = np.count_nonzero(flags) == stayed.size
                changed = stayed.rows if is_whole else RowSet.from_sorted_keys(stayed.keys[flags])
            modified.append(changed)
        before = self._rows
        if removed or added:
            self._rows = (before - removed) | added
        update = TableUpdate(added, removed, RowSetShiftData.empty(), tuple(modified))
        dead = self._groups.count - self._rows.size
        if dead > max(_FEW_DEAD, self._rows.size) and dead > self._entries(version) >> 3:
            update = self._pack(update, before - removed, version)
        return Outcome(self._rows, self._views(version), update)

    def _entries(self, version: TableVersion) -> int:
        """Entries to rewrite when groups are renumbered, beside one per group."""
        pairs = sum(each.accumulator.size for each in self._columns if isinstance(each.accumulator, OfDistinct))
        return pairs + (version.size if self._rankings else 0)

    def _pack(self, update: TableUpdate, stayed: RowSet, version: TableVersion) -> TableUpdate:
        """Renumber the groups with rows from 0, in order. Returns the update."""
        rows = self._rows
        living = rows.keys()
        pack_rows(self._results, living, self._groups.count)
        self._groups.pack(living)
        self._sizes.pack(living)
        self._places.pack(living)
        for column in self._columns:
            if column.accumulator is not None:
                column.accumulator.pack(living)
        for start in range(0, version.size if self._rankings else 0, _BLOCK):
            part = version.row_set.slice(start, start + _BLOCK)
            self._of_rows.write(part, np.searchsorted(living, self._of_rows.of(part.keys())))
        for ranking in self._rankings.values():
            ranking.forget_groups()
        self._rows = RowSet.flat(len(living))
        return update.renumbered(rows, stayed)

    def _result(self, column: AggregatedColumn, groups: Int64Array) -> pa.Array:
        if column.accumulator is None:
            return pa.array(self._sizes.array[groups])
        return column.accumulator.results(groups)

    def _views(self, version: TableVersion) -> list[ColumnView]:
        members = None if self._lists is None else self._lists.members()
        if members is None:
            return [*self._groups.views(), *self._results.views()]
        results = iter(self._results.views())
        found: list[ColumnView] = list(self._groups.views())
        for column in self._columns:
            if column.is_list:
                found.append(GroupView(version.views[column.inputs[0]], members))
            else:
                found.append(next(results))
        return found


def _with_own_state(columns: Sequence[AggregatedColumn]) -> list[tuple[Accumulator, tuple[int, ...]]]:
    """The accumulators with state of their own, and their inputs.

    The others share the state of one of these.
    """
    found: list[tuple[Accumulator, tuple[int, ...]]] = []
    for column in columns:
        accumulator, inputs = column.accumulator, column.inputs
        if accumulator is None or column.is_of_members:
            continue
        if not any(others == inputs and accumulator.reuse(other) for other, others in found):
            found.append((accumulator, inputs))
    return found


def _any_of(modified: Sequence[RowSet], columns: Sequence[int]) -> bool:
    return any(modified[number] for number in columns)


def _merged(parts: Sequence[Int64Array]) -> Int64Array:
    """The distinct groups of several ascending arrays."""
    if len(parts) == 1:
        return parts[0]
    groups = np.sort(np.concatenate([_NO_GROUPS, *parts]))  # np.unique has a hash table, which takes much longer
    is_first = np.ones(len(groups), np.bool_)
    is_first[1:] = groups[1:] != groups[:-1]
    return groups[is_first]
