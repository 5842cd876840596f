"""The rows of a table that satisfy a condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.arguments import callback, names, text
from barrage_server.engine.derived import DerivedTable
from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.table import Table
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.update import TableUpdate, all_columns
from barrage_server.engine.version import FEW_ROWS, TableVersion
from barrage_server.errors import SchemaMismatchError
from barrage_server.rowset import RowSet
from barrage_server.wire.empty import batch_of

__all__ = ["Flags", "Predicate", "Where", "row_flags", "where"]

Flags: TypeAlias = np.ndarray[tuple[int], np.dtype[np.bool_]]

Predicate: TypeAlias = Callable[[pa.RecordBatch], pa.Array | pa.ChunkedArray]
"""Returns one boolean per row of a batch: whether it is in the result; null means no."""


def where(table: Table, predicate: Predicate, columns: Sequence[str] | None = None, *, name: str) -> DerivedTable:
    """The rows of ``table`` that satisfy ``predicate``, as a table that follows it.

    The result shares the columns of ``table``, and keeps row keys only.

    Args:
        table: the table.
        predicate: called with record batches of added or changed rows, some ten thousand at a time. It must be a pure
            function of the values.
        columns: the columns that it is called with and depends on; all when ``None``.
        name: name of the result in messages and logs.

    Raises:
        UnknownColumnError: ``table`` lacks a column.
        SchemaMismatchError: ``predicate`` did not return one boolean per row.
    """
    callback(predicate, "predicate")
    wanted = table.schema.names if columns is None else names(columns, "columns")
    operator = Where(table.schema, predicate, table.column_numbers(wanted))
    # Rows stay if those of the table stay; but keys have gaps, and rows may be included later than rows after them.
    traits = TableTraits(append_only=table.traits.append_only, add_only=table.traits.add_only)
    made = DerivedTable([table], text(name, "name"), operator, key_columns=table.key_columns, traits=traits)
    table.graph.attach(made)
    return made


class Where(Operator):
    """Selects rows by a predicate. Rows keep their keys, and columns are shared.

    The cost of a cycle is proportional to the rows added, or changed in a column that the predicate depends on.

    Attributes:
        rows: the included rows.
    """

    name: ClassVar[str] = "where"

    def __init__(self, schema: pa.Schema, predicate: Predicate, columns: Sequence[int]) -> None:
        self.schema = schema
        self._predicate = predicate
        self._columns = tuple(columns)
        self._batch_schema = pa.schema([schema.field(number) for number in self._columns])
        self.rows = RowSet.empty()

    def start(self, inputs: Inputs) -> Outcome:
        """Evaluate all rows."""
        (version,) = inputs
        self.rows = self.chosen(version, version.row_set)
        return Outcome(self.rows, version.views, TableUpdate.of_added(self.rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Evaluate the added rows, and rows changed in a column of the predicate."""
        (change,), (version,) = changes, inputs
        if change is None:
            return Outcome(self.rows, version.views, TableUpdate.empty(len(self.schema)))
        update, touched = change.update, self.touched(change.update)
        if update.shifted.size or touched.size + update.removed.size > FEW_ROWS:
            return self._follow_many(update, touched, version)
        return self._follow_few(change, touched)

    def _follow_many(self, update: TableUpdate, touched: RowSet, version: TableVersion) -> Outcome:
        before = self.rows
        removed = before & update.removed if update.removed else RowSet.empty()
        stayed = before - removed if removed else before
        shifts = update.shifted
        moved = shifts.apply(stayed) if shifts.size else stayed
        added = self.chosen(version, update.added)
        if touched:
            are_in = self.chosen(version, touched)
            were_in = touched & moved
            came, left = are_in - were_in, were_in - are_in
            if left:
                moved = moved - left
                left_before = shifts.unapply(left) if shifts.size else left
                removed, stayed = removed | left_before, stayed - left_before if shifts.size else moved
            added = added | came if came else added
        modified = all_columns(RowSet.empty(), len(self.schema))
        if any(update.modified):
            modified = tuple(rows & moved if rows else rows for rows in update.modified)
        own_shifts = shifts.clip(stayed) if shifts.size else shifts
        self.rows = moved | added if added else moved
        return Outcome(self.rows, version.views, TableUpdate(added, removed, own_shifts, modified))

    def _follow_few(self, change: Change, touched: RowSet) -> Outcome:
        """Follow an update of few rows without shifts, with arrays of row keys."""
        update, version = change.update, change.after
        rows, nothing = self.rows, RowSet.empty()
        removed = rows & update.removed if update.removed else nothing
        added = self.chosen(version, update.added) if update.added else nothing
        stayed = came = left = nothing  # of those touched
        if touched:
            keys = touched.keys()
            were_in, are_in = self.changed_flags(change, touched)
            differ = are_in != were_in
            if np.count_nonzero(differ):
                rows = rows.toggled(keys[differ], are_in[differ])
                came = RowSet.from_sorted_keys(keys[are_in > were_in])
                left = RowSet.from_sorted_keys(keys[are_in < were_in])
            stayed = RowSet.from_sorted_keys(keys[are_in & were_in])
        if removed or added:
            rows = rows.exchanged(removed, added)
        if came:
            added = added | came if added else came
        if left:
            removed = removed | left if removed else left
        self.rows = rows
        modified = tuple(
            [
                changed if not changed else stayed if changed is touched else (changed & rows) - came
                for changed in update.modified
            ]
        )
        return Outcome(self.rows, version.views, TableUpdate(added, removed, update.shifted, modified))

    def touched(self, update: TableUpdate) -> RowSet:
        """The rows that changed in a column of the predicate."""
        return RowSet.union_all([update.modified[number] for number in self._columns])

    def chosen(self, version: TableVersion, rows: RowSet) -> RowSet:
        """The ``rows`` that satisfy the predicate."""
        found: list[RowSet] = []
        for part in version.pieces(rows, self._columns):
            chosen = np.flatnonzero(self.flags(version, part))
            if len(chosen) == part.size:
                found.append(part)
            elif len(chosen):
                found.append(RowSet.from_sorted_keys(_keys_at(part, chosen)))
        return RowSet.union_all(found)

    def chosen_keys(self, version: TableVersion, rows: RowSet) -> Int64Array:
        """The keys of the ``rows`` that satisfy the predicate, ascending, int64.

        Where the keys are needed, this costs less than :meth:`chosen`.
        """
        parts = [_keys_at(part, self.flags(version, part).nonzero()[0]) for part in version.pieces(rows, self._columns)]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])

    def flags_of(self, version: TableVersion, rows: RowSet) -> Flags:
        """Whether each of ``rows`` satisfies the predicate."""
        parts = [self.flags(version, part) for part in version.pieces(rows, self._columns)]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.bool_), *parts])

    def changed_flags(self, change: Change, rows: RowSet) -> tuple[Flags, Flags]:
        """Whether each row was in before ``change``, and is in after it.

        Args:
            change: the change.
            rows: at most 1,024 rows that are there before and after it, under the same keys.
        """
        return self.rows.contains(rows.keys()), self.flags(change.after, rows)

    def flags(self, version: TableVersion, rows: RowSet) -> Flags:
        """Whether each of ``rows``, one piece at most, satisfies the predicate."""
        batch = batch_of(version.read(rows, self._columns), rows.size, self._batch_schema)
        return row_flags(self._predicate(batch), rows.size)


def _keys_at(rows: RowSet, positions: Int64Array) -> Int64Array:
    return positions + rows.first_key if rows.is_contiguous else rows.select(positions)


def row_flags(answer: object, rows: int) -> Flags:
    """Check the answer of a predicate, and return one flag per row.

    Raises:
        SchemaMismatchError: the answer is not one boolean per row.
    """
    if isinstance(answer, pa.ChunkedArray):
        answer = answer.combine_chunks()
    if isinstance(answer, np.ndarray):
        answer = pa.array(answer)
    if not isinstance(answer, pa.Array) or not pat.is_boolean(answer.type) or len(answer) != rows:
        kind = str(answer.type) if isinstance(answer, pa.Array) else type(answer).__name__
        count = f" of {len(answer)} values" if isinstance(answer, pa.Array) else ""
        raise SchemaMismatchError(
            f"A predicate returns one boolean for each of the {rows} rows of its batch, not {kind}{count}."
        )
    filled = answer.fill_null(False) if answer.null_count else answer
    flags: Flags = filled.to_numpy(zero_copy_only=False)
    return flags
