"""The join of any number of tables by their keys: ``multi_join``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine import Table, TableUpdate
from barrage_server.engine.group_index import GroupIndex
from barrage_server.engine.operator import Changes, Inputs, Operator, Outcome
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError
from barrage_server.operations.checks import check_column_names, columns_text, known_columns, pair
from barrage_server.operations.grouped_rows import joined, living_groups, may_be_dead
from barrage_server.operations.join_columns import AddedColumns, compared_columns
from barrage_server.operations.result import make
from barrage_server.operations.right_rows import NO_ROW, OnlyRows
from barrage_server.operations.row_places import MappedView
from barrage_server.operations.traits import route_of
from barrage_server.plan.joins import MultiJoinColumns
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["MultiJoin", "multi_join"]


class MultiJoin(Operator):
    """A row for each key of any input, with columns of all inputs.

    The state is the key values, and the row of each key in each input. The row key of a key is its number, in order of
    appearance. A cycle costs the rows that change in the inputs. Keys without rows leave the result; when they
    outnumber the others, the others are renumbered.

    Args:
        keys: the key columns of the result.
        key_numbers: for each input the numbers of these columns.
        added: for each input the columns that it adds.

    Raises:
        KeyMismatchError: an input has a key twice; raised by :meth:`start` and :meth:`follow`.

    """

    name: ClassVar[str] = "multi_join"

    def __init__(self, keys: pa.Schema, key_numbers: Sequence[Sequence[int]], added: Sequence[AddedColumns]) -> None:
        self.schema = pa.schema([*keys, *(field for columns in added for field in columns.fields)])
        types = [field.type for field in keys]
        self._keys = len(keys)
        self._columns = [columns.numbers for columns in added]
        self._groups = GroupIndex(keys)
        self._inputs = [
            OnlyRows(self._groups, numbers, types, columns.numbers, table=f"Table {place} of a multi_join")
            for place, (numbers, columns) in enumerate(zip(key_numbers, added, strict=True), 1)
        ]
        self._rows = RowSet.empty()
        self._gone = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the keys and the maps."""
        return self._groups.nbytes + sum(rows.nbytes for rows in self._inputs)

    def start(self, inputs: Inputs) -> Outcome:
        """Add the rows of all inputs."""
        for rows, version in zip(self._inputs, inputs, strict=True):
            rows.start(version)
        for rows in self._inputs:
            rows.extend()
        self._rows = RowSet.flat(self._groups.count)
        return self._outcome(inputs, TableUpdate.of_added(self._rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Apply the changes of the inputs."""
        nothing = np.zeros(0, np.int64)
        found: list[tuple[Int64Array, list[Int64Array]]] = []
        for rows, change in zip(self._inputs, changes, strict=True):
            if change is None or change.update.is_empty:
                found.append((nothing, [nothing] * len(self._columns[len(found)])))
            else:
                found.append(rows.follow(change))
        for rows in self._inputs:
            rows.extend()
        touched = np.unique(joined([groups for groups, _ in found]))
        are_there = self._there(touched)
        now, gone = RowSet.from_sorted_keys(touched[are_there]), RowSet.from_sorted_keys(touched[~are_there])
        added, removed = now - self._rows, gone & self._rows
        stayed = self._rows - removed
        modified = [RowSet.empty()] * self._keys
        for groups, by_column in found:
            modified += [RowSet.from_keys(np.concatenate((groups, changed))) & stayed for changed in by_column]
        update = TableUpdate(added, removed, RowSetShiftData.empty(), tuple(modified))
        self._rows = stayed | added
        return self._outcome(inputs, self._packed(inputs, update, stayed))

    def _there(self, groups: Int64Array) -> npt.NDArray[np.bool_]:
        """Which keys some input has."""
        found = np.zeros(len(groups), np.bool_)
        for rows in self._inputs:
            found |= rows.of(groups) != NO_ROW
        return found

    def _packed(self, inputs: Inputs, update: TableUpdate, stayed: RowSet) -> TableUpdate:
        """Renumber the keys that have rows, when most have none. Returns the update."""
        self._gone += update.removed.size
        if not may_be_dead(self._gone, self._groups.count):
            return update
        self._gone = 0
        rows = self._rows
        are_living = rows.contains(np.arange(self._groups.count))
        living = living_groups(self._groups, are_living, 0)
        if living is None:
            return update
        for each, version in zip(self._inputs, inputs, strict=True):
            each.pack(version, living)
        self._groups.pack(living)
        self._rows = RowSet.flat(len(living))
        return update.renumbered(rows, stayed)

    def _outcome(self, inputs: Inputs, update: TableUpdate) -> Outcome:
        views: list[ColumnView] = [*self._groups.views()]
        for rows, numbers, version in zip(self._inputs, self._columns, inputs, strict=True):
            (there,) = rows.store.views()
            views += [MappedView(version.views[number], there) for number in numbers]
        return Outcome(self._rows, views, update)


def multi_join(parents: Sequence[Table], columns: Sequence[MultiJoinColumns], *, name: str | None = None) -> Table:
    """A row for each key of any of the tables, with columns of all tables.

    The columns of a table are null for a key that the table lacks.

    Args:
        parents: the tables, each with one row for each key.
        columns: for each of them the key columns, as ``"sym"`` or ``"sym = symbol"`` for other names in the table, and
            the columns that it adds, as ``"price"`` or ``"last = price"``; none: all others.
        name: its name in messages and logs.

    Raises:
        UnknownColumnError: a table lacks a column.
        InvalidRequestError: key columns differ in their names or types, or a result column is there twice.
        KeyMismatchError: a table has a key twice.
        UnsupportedTypeError: columns of a type cannot be keys.

    """
    if not parents or len(parents) != len(columns):
        raise InvalidRequestError(f"A multi_join of {len(parents)} tables has columns for {len(columns)}.")
    first = parents[0]
    fields: list[pa.Field] = []
    numbers: list[list[int]] = []
    added: list[AddedColumns] = []
    for table, own in zip(parents, columns, strict=True):
        pairs = [pair(entry) for entry in own.on]
        names = [result for result, _ in pairs]
        if not pairs or (fields and names != [field.name for field in fields]):
            wanted = f"has {', '.join(field.name for field in fields)}" if fields else "needs at least one key column"
            raise InvalidRequestError(
                f"The key columns of a multi_join have the same names for all tables: '{first.name}' {wanted}, and "
                f"'{table.name}' has {', '.join(names) or 'none'}. Write 'sym = symbol' for column 'symbol'."
            )
        numbers.append(known_columns(table, [source for _, source in pairs], "on"))
        own_fields = [table.schema.field(number) for number in numbers[-1]]
        if fields:
            fields = [compared_columns(first, table, *both) for both in zip(fields, own_fields, strict=True)]
        else:
            fields = [pa.field(key, field.type) for key, field in zip(names, own_fields, strict=True)]
        compared = {source for _, source in pairs}
        adds = [pair(entry) for entry in own.joins] or [
            (field.name, field.name) for field in table.schema if field.name not in compared
        ]
        places = known_columns(table, [source for _, source in adds], "joins") if adds else []
        made = [pa.field(new, table.schema.field(place).type) for (new, _), place in zip(adds, places, strict=True)]
        added.append(AddedColumns(tuple(made), tuple(places)))
    seen = {field.name for field in fields}
    for table, each in zip(parents, added, strict=True):
        for column in (field.name for field in each.fields):
            if column in seen:
                raise InvalidRequestError(
                    f"The result would have the column {column!r} twice. Name the columns to add of '{table.name}' "
                    f"with MultiJoinInput, with another name for this one: 'other_{column} = {column}'. The tables are "
                    f"{' and '.join(columns_text(parent) for parent in parents[:4])}."
                )
            seen.add(column)
    check_column_names(seen)
    traits = TableTraits(stated=route_of(*(table.traits for table in parents)))
    operator = MultiJoin(pa.schema(fields), numbers, added)
    return make(parents, "multi_join", operator, traits, key_columns=[field.name for field in fields], name=name)
