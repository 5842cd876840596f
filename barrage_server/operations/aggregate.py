"""A row for each group of rows, with the results of aggregations: ``agg_by``, ``agg_all_by``, ``select_distinct``."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa

from barrage_server.arguments import text
from barrage_server.engine import Table, TableUpdate, TableVersion
from barrage_server.engine.group_index import GroupIndex, pack_rows
from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError
from barrage_server.operations import checks
from barrage_server.operations.accumulators import FUNCTIONS, Accumulator, is_number
from barrage_server.operations.checks import check_column_names, columns_by_name, pair, unknown_column
from barrage_server.operations.group_totals import GroupArray
from barrage_server.operations.ordering import Key, is_sortable
from barrage_server.operations.ranking import RANKED, Ranked, Ranking, RowGroups
from barrage_server.operations.result import make
from barrage_server.operations.traits import route_of
from barrage_server.plan.aggregation import Aggregation
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["Aggregate", "AggregatedColumn", "agg_all_by", "agg_by", "select_distinct"]

_FEW_DEAD: Final = 1024
"""Groups without rows that are kept in any case: a group that comes back finds its number."""
_BLOCK_BITS: Final = 16
_BLOCK: Final = 1 << _BLOCK_BITS


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


class Aggregate(Operator):
    """Keeps the key values of the groups, how many rows each has, and what its accumulators need.

    A cycle costs the rows added, removed, and modified in a column that is named. A group's row key is its number, in
    the order of appearance. Groups without rows leave the result. When they outnumber the others, these are numbered
    anew.

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
            pa.field(column.name, pa.int64() if column.accumulator is None else column.accumulator.type)
            for column in columns
        ]
        self.schema = pa.schema([*key_fields, *fields])
        self._keys = tuple(keys)
        self._columns = tuple(columns)
        self._read = tuple(dict.fromkeys([*keys, *(number for column in columns for number in column.inputs)]))
        self._accumulates = accumulates
        self._groups = GroupIndex(pa.schema(key_fields))
        self._results = ColumnStore(pa.schema(fields))
        self._sizes = GroupArray(np.int64)
        self._places = GroupArray(np.int32)  # of groups among those of a piece; to be used within it
        self._rows = RowSet.empty()
        self._of_rows = RowGroups()
        self._rankings: dict[tuple[Key, ...], Ranking] = {}
        for column in columns:
            self._rank(column)
        self._dropped = 0  # blocks of row keys of the input that are not used any more

    def _rank(self, column: AggregatedColumn) -> None:
        """Give an accumulator that needs one the ranking of its columns, which others may use, too."""
        accumulator = column.accumulator
        if isinstance(accumulator, Ranked):
            keys = tuple(map(Key, column.inputs[:1] if accumulator.by_value else column.inputs[1:]))
            accumulator.column = column.inputs[0]
            accumulator.ranking = self._rankings.setdefault(keys, Ranking(keys, self._of_rows))

    @property
    def nbytes(self) -> int:
        """Bytes of the groups, the accumulators and the results."""
        accumulators = sum(column.accumulator.nbytes for column in self._columns if column.accumulator is not None)
        accumulators += self._of_rows.nbytes + sum(ranking.nbytes for ranking in self._rankings.values())
        return self._groups.nbytes + self._sizes.nbytes + self._places.nbytes + self._results.nbytes + accumulators

    def start(self, inputs: Inputs) -> Outcome:
        """Take in all rows."""
        (version,) = inputs
        self._take(version, version.row_set, 1)
        for ranking in self._rankings.values():
            ranking.start(version)
        return self._changed(np.arange(self._groups.count, dtype=np.int64), version)

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Take out the rows as they were, and take in the rows as they are."""
        (change,), (version,) = changes, inputs
        if change is None or change.update.is_empty:
            return Outcome(self._rows, self._views(), TableUpdate.empty(len(self.schema)))
        update = change.update
        modified = RowSet.union_all(update.modified[number] for number in self._read)
        gone = RowSet.empty() if self._accumulates else update.removed
        if modified:
            gone = gone | (update.shifted.unapply(modified) if update.shifted.size else modified)
        left = [self._leave(ranking, change) for ranking in self._rankings.values()]
        touched = self._take(change.before, gone, -1)
        touched += self._take(version, update.added | modified, 1)
        for ranking, (slots, moved, was) in zip(self._rankings.values(), left, strict=True):
            ranking.change(version, slots, update.added | moved, moved, was)
        if self._rankings:
            self._drop(version)
        if not touched:
            return self._changed(np.zeros(0, np.int64), version)
        groups = np.sort(np.concatenate(touched))  # np.unique has a hash table, which takes much longer
        return self._changed(groups[np.append(True, groups[1:] != groups[:-1])], version)

    def _take(self, version: TableVersion, rows: RowSet, sign: int) -> list[Int64Array]:
        """Take ``rows`` in, or out; the groups that they are of, a piece at a time."""
        found = []
        for part, columns in self._pieces(version, rows):
            keys = [columns[number] for number in self._keys]
            numbers = self._groups.add(keys, part.size) if sign > 0 else self._groups.find(keys, part.size)
            if sign > 0 and self._rankings:
                self._of_rows.write(part, numbers)
            self._sizes.reserve(self._groups.count)
            groups, places = self._told_apart(numbers)
            self._sizes.array[groups] += sign * np.bincount(places, minlength=len(groups))
            for column in self._columns:
                if column.accumulator is not None:
                    column.accumulator.reserve(self._groups.count)
                    column.accumulator.change(groups, places, [columns[number] for number in column.inputs], sign)
            found.append(groups)
        return found

    def _told_apart(self, numbers: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The groups among ``numbers``, and the place of each number among them; without sorting."""
        self._places.reserve(self._groups.count)
        table, order = self._places.array, np.arange(len(numbers), dtype=np.int32)
        table[numbers] = order
        groups = numbers[np.flatnonzero(table[numbers] == order)]
        table[groups] = order[: len(groups)]
        return groups, table[numbers]

    def _leave(self, ranking: Ranking, change: Change) -> tuple[Int64Array, RowSet, Int64Array]:
        """What leaves its place in a ranking: the places, the rows that get another one, and the places of these."""
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
        """Forget where rows were whose keys are not used any more."""
        if version.row_set and version.row_set.first_key >> _BLOCK_BITS > self._dropped:
            self._dropped = version.row_set.first_key >> _BLOCK_BITS
            self._of_rows.drop_before(self._dropped << _BLOCK_BITS)
            for ranking in self._rankings.values():
                ranking.drop_before(self._dropped << _BLOCK_BITS)

    def _pieces(self, version: TableVersion, rows: RowSet) -> Iterator[tuple[RowSet, dict[int, pa.Array]]]:
        for part in version.pieces(rows, self._read):
            yield part, dict(zip(self._read, version.read(part, self._read), strict=True))

    def _changed(self, groups: Int64Array, version: TableVersion) -> Outcome:
        """Write the results of ``groups``, in ascending order, whose rows have changed."""
        living = groups[self._sizes.array[groups] > 0]
        now, all_touched = RowSet.from_sorted_keys(living), RowSet.from_sorted_keys(groups)
        removed = (all_touched - now) & self._rows
        added = now - self._rows
        stayed = now - added
        modified: list[RowSet] = [RowSet.empty()] * len(self._keys)
        for column, store in zip(self._columns, self._results.columns, strict=True):
            if added:
                store.write(added, self._result(column, added.keys()), self._results.undo)
            changed = RowSet.empty()
            if stayed:
                keys = stayed.keys()
                flags = store.update(stayed, self._result(column, keys), self._results.undo)
                changed = RowSet.from_sorted_keys(keys[np.flatnonzero(flags)])
            modified.append(changed)
        before, self._rows = self._rows, (self._rows - removed) | added
        update = TableUpdate(added, removed, RowSetShiftData.empty(), tuple(modified))
        dead = self._groups.count - self._rows.size
        if dead > max(_FEW_DEAD, self._rows.size, version.size >> 3 if self._rankings else 0):
            update = self._pack(update, before - removed, version)
        return Outcome(self._rows, self._views(), update)

    def _pack(self, update: TableUpdate, stayed: RowSet, version: TableVersion) -> TableUpdate:
        """Number the groups with rows from 0, in their order; the update that says so."""
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
        self._rows = RowSet.flat(len(living))
        return TableUpdate(
            rows.invert(update.added),
            update.removed,
            RowSetShiftData.between(stayed, rows.invert(stayed)),
            tuple(rows.invert(changed) for changed in update.modified),
        )

    def _result(self, column: AggregatedColumn, groups: Int64Array) -> pa.Array:
        if column.accumulator is None:
            return pa.array(self._sizes.array[groups])
        return column.accumulator.results(groups)

    def _views(self) -> list[ColumnView]:
        return [*self._groups.store.views(), *self._results.views()]


def agg_by(
    parents: Sequence[Table], aggregations: Sequence[Aggregation], by: Sequence[str], *, name: str | None = None
) -> Table:
    """A row for each group of rows that are equal in the columns ``by``; all rows are one group without.

    Raises:
        UnknownColumnError: the table lacks a column.
        InvalidRequestError: a function does not exist, cannot be computed of a column, or two results have one name.
        UnsupportedTypeError: a column of ``by`` cannot tell groups apart.

    """
    (table,) = parents
    columns = [column for aggregation in aggregations for column in _columns(table, aggregation)]
    if not by and not columns:
        raise InvalidRequestError("Give aggregations, or columns that tell groups apart.")
    return _grouped(table, "agg_by", columns, by, name)


def agg_all_by(
    parents: Sequence[Table], aggregation: Aggregation, by: Sequence[str], *, name: str | None = None
) -> Table:
    """The same, with one aggregation of all other columns that it can be computed of. Raises what :func:`agg_by`
    does.
    """
    (table,) = parents
    if aggregation.function == "count" or aggregation.columns:
        raise InvalidRequestError("agg_all_by takes an aggregation without columns, such as bs.agg.avg().")
    used = {source for _, source in map(pair, by)} | {aggregation.weight}
    takes = _ANY.get(aggregation.function, is_sortable if aggregation.function in RANKED else is_number)
    wanted = tuple(field.name for field in table.schema if field.name not in used and takes(field.type))
    if not wanted:
        raise InvalidRequestError(
            f"Table '{table.name}' has no columns besides those of 'by' that {aggregation.function[:100]} can be "
            f"computed of."
        )
    columns = _columns(table, replace(aggregation, columns=wanted))
    return _grouped(table, "agg_all_by", columns, by, name)


def select_distinct(parents: Sequence[Table], columns: Sequence[str], *, name: str | None = None) -> Table:
    """A row for each combination of values in ``columns``, in all without. Raises what :func:`agg_by` does."""
    (table,) = parents
    return _grouped(table, "select_distinct", [], columns or table.schema.names, name)


def _any(_type: pa.DataType) -> bool:
    return True


_ANY: Final = dict.fromkeys(("first", "last", "sorted_first", "sorted_last"), _any)
"""The functions of columns of any type."""


def _grouped(
    table: Table, operation: str, columns: Sequence[AggregatedColumn], by: Sequence[str], name: str | None
) -> Table:
    keys = [pair(entry) for entry in by]
    names = [result for result, _ in keys]
    check_column_names([*names, *(column.name for column in columns)])
    known = columns_by_name(table.schema)
    numbers = [_number(table, source, known) for _, source in keys]
    operator = Aggregate(table.schema, numbers, names, columns, accumulates=table.traits.is_blink)
    traits = TableTraits(stated=route_of(table.traits))
    return make([table], operation, operator, traits, key_columns=names, name=name)


def _columns(table: Table, aggregation: Aggregation) -> list[AggregatedColumn]:
    """The columns of results of one aggregation."""
    function = aggregation.function
    if not aggregation.columns:
        raise InvalidRequestError(f"{function[:100]} needs columns, such as 'total = price'.")
    if function == "count":
        return [AggregatedColumn(text(name, "The name of a count"), None, ()) for name in aggregation.columns]
    further = _further(table, aggregation)
    make_accumulator = _maker(aggregation)
    known, found = columns_by_name(table.schema), []
    for result, source in map(pair, aggregation.columns):
        wanted = [source, *further]
        numbers = tuple(_number(table, name, known) for name in wanted)
        types = [table.schema.field(number).type for number in numbers]
        try:
            found.append(AggregatedColumn(result, make_accumulator(types), numbers))
        except TypeError:
            told = " and ".join(f"{name!r} of type {kind}" for name, kind in zip(wanted, types, strict=True))
            needed = "values that have an order" if function in RANKED else "numbers"
            raise InvalidRequestError(
                f"{function} takes {needed}, and not column {told}. Convert it in an update before."
            ) from None
    return found


def _further(table: Table, aggregation: Aggregation) -> Sequence[str]:
    """The columns that an aggregation needs besides the one it is of."""
    function = aggregation.function
    if function not in FUNCTIONS and function not in RANKED:
        there = ["count", *FUNCTIONS, *RANKED]
        close = difflib.get_close_matches(function[:100], there, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else f" There are: {', '.join(there)}."
        raise InvalidRequestError(f"There is no aggregation {function[:100]!r}.{hint}")
    if function in RANKED:
        if table.traits.is_blink:
            raise InvalidRequestError(
                f"{function} needs the rows of its groups, which a blink table does not keep. Publish them to an "
                f"append table, or to a ring."
            )
        if function.startswith("sorted_") and not aggregation.order_by:
            raise InvalidRequestError(f"{function} needs columns that rows are ordered by.")
        return aggregation.order_by
    if FUNCTIONS[function][1] == 1:
        return ()
    if not aggregation.weight:
        raise InvalidRequestError(f"{function} needs a column with weights.")
    return (aggregation.weight,)


def _maker(aggregation: Aggregation) -> Callable[[Sequence[pa.DataType]], Accumulator]:
    if aggregation.function in FUNCTIONS:
        return FUNCTIONS[aggregation.function][0]
    ranked = RANKED[aggregation.function]
    return lambda types: ranked(types, checks.part(aggregation.share, "percentile"))


def _number(table: Table, name: str, known: Mapping[str, int]) -> int:
    if name not in known:
        raise unknown_column(name, known.keys(), table.name)
    return known[name]
