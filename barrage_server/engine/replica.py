"""A table that applies the updates of another table.

A client keeps one for each subscription, and a ticking upload writes to one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from barrage_server.engine.cells import MAX_PAGE_BITS
from barrage_server.engine.graph import UpdateGraph
from barrage_server.engine.replica_cells import ReplicaCells
from barrage_server.engine.table import StoredTable
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.types import normalise
from barrage_server.engine.update import TableUpdate, all_columns, coalesce
from barrage_server.engine.view import ColumnView
from barrage_server.engine.window_arrays import WindowArrays
from barrage_server.errors import LimitError, WireFormatError
from barrage_server.public import public
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["ReplicaTable", "ReplicaUpdate"]


@dataclass(frozen=True, slots=True)
class ReplicaUpdate:
    """An update with its data.

    Attributes:
        added: rows that are new, in the key space after the update.
        removed: removed rows, in the key space before it.
        shifted: how the keys of the rows that stay move.
        columns: one array per column with the values of ``added``, in key order. An array of length zero leaves the
            column null in the new rows (it is not subscribed).
        modified: per column number, the rows with new values and those values.
    """

    added: RowSet
    removed: RowSet = field(default_factory=RowSet.empty)
    shifted: RowSetShiftData = field(default_factory=RowSetShiftData.empty)
    columns: Sequence[pa.Array | pa.ChunkedArray] = ()
    modified: Mapping[int, tuple[RowSet, pa.Array | pa.ChunkedArray]] = field(default_factory=dict)


# Rows per page of a window, as a power of two.
_WINDOW_PAGE_BITS = 10


@public
class ReplicaTable(StoredTable):
    """A copy of another table, with its row keys, shifts and values.

    Args:
        graph: the update graph whose cycles move this table.
        name: its name in messages and logs.
        schema: column names and Arrow types, in order.
        traits: the publisher's promises about its rows. They are not trusted: only the use of memory may depend on
            them.
        key_columns: the columns whose values identify a row.
        is_window: whether its rows are a small moving part of a large table. The values of each column are then one
            array while they are few; otherwise storage has small pages, which are freed on both sides.

    Attributes:
        origin: the writer's own record of the source table; not used here.
    """

    def __init__(
        self,
        graph: UpdateGraph,
        name: str,
        schema: pa.Schema,
        *,
        traits: TableTraits | None = None,
        key_columns: Sequence[str] = (),
        is_window: bool = False,
    ) -> None:
        traits = traits or TableTraits()
        bits = _WINDOW_PAGE_BITS if is_window else MAX_PAGE_BITS
        self._arrays = WindowArrays(schema) if is_window and WindowArrays.suits(schema) else None
        super().__init__(
            graph,
            name,
            schema,
            traits=traits,
            key_columns=key_columns,
            page_bits=bits,
            interns=not is_window and not traits.rows_come_once,
        )
        self.is_window = is_window
        self.origin: object = None
        self._cells = ReplicaCells(self._store.columns, self._store.make_columns, bits, is_window=is_window)

    def restate(self, traits: TableTraits, key_columns: Sequence[str] | None = None) -> None:
        """Replace the promises about the rows, and the key columns if given."""
        self._traits = traits
        if key_columns is not None:
            self._key_columns = tuple(key_columns)

    def apply(self, update: ReplicaUpdate) -> None:
        """Apply ``update`` in a cycle.

        Raises:
            WireFormatError: it does not fit the rows that the table has, or its arrays do not fit its rows.
            SchemaMismatchError: values are of another type than their column.
            LimitError: one value is too large for an array. Nothing is applied in any of these cases.
        """
        self._check_lengths(update)
        self.graph.stage(self, *self._normalised_parts(update))

    def check_operations(self, operations: Sequence[ReplicaUpdate]) -> None:
        """Raise unless each update fits the rows that the updates before it leave."""
        rows = self._rows
        for update in operations:
            rows = _rows_after(rows, update, self.name)

    def apply_operations(self, operations: Sequence[ReplicaUpdate]) -> TableUpdate:
        """Apply the staged updates in order."""
        before = self._rows
        total: TableUpdate | None = None
        for operation in operations:
            update = self._apply_one(operation)
            total = update if total is None else coalesce(total, update, before)
        if self._arrays is not None:
            return total or TableUpdate.empty(len(self.schema))
        self._cells.collect(self._rows, self._store.undo)
        self._store.columns, self._store.slots = self._cells.columns, self._cells.slots
        return total or TableUpdate.empty(len(self.schema))

    def make_views(self) -> Sequence[ColumnView]:
        """The values as they are now."""
        return super().make_views() if self._arrays is None else self._arrays.views()

    def _apply_one(self, update: ReplicaUpdate) -> TableUpdate:
        rows = self._rows - update.removed if update.removed else self._rows
        shifted = update.shifted.clip(rows) if update.shifted.size else update.shifted
        if self._arrays is not None and not self._arrays.fits(rows, update.added, update.columns, update.modified):
            self._leave_arrays(self._arrays)
        if self._arrays is not None:
            self._rows = self._arrays.apply(rows, shifted, update.added, update.columns, update.modified)
        else:
            self._rows = self._write_cells(rows, shifted, update)
        modified = list(all_columns(RowSet.empty(), len(self.schema)))
        for number, (changed, _) in update.modified.items():
            modified[number] = changed
        return TableUpdate(update.added, update.removed, shifted, tuple(modified))

    def _write_cells(self, rows: RowSet, shifted: RowSetShiftData, update: ReplicaUpdate) -> RowSet:
        """Apply an update to the cells; returns the rows afterwards.

        Args:
            rows: the rows that stay.
            shifted: the shifts of these rows.
            update: the update.
        """
        if update.removed:
            self._cells.remove(update.removed)
        rows = self._cells.arrange(rows, shifted, update.added, self._store.undo)
        if update.added:
            self._cells.add(update.added, list(update.columns), self._store.undo)
            rows = rows | update.added
        self._cells.modify(update.modified, self._store.undo)
        if update.removed:
            self._cells.release(rows)
        return rows

    def _leave_arrays(self, arrays: WindowArrays) -> None:
        """Move the values to cells, because copies per update would cost too much."""
        self._arrays = None
        if self._rows:
            nothing = RowSet.empty()
            self._cells.arrange(nothing, RowSetShiftData.empty(), self._rows, self._store.undo)
            self._cells.add(self._rows, arrays.arrays, self._store.undo)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns, and of the map from rows to cells."""
        arrays = self._arrays  # another thread may give them up
        return super().nbytes + self._cells.nbytes + (0 if arrays is None else arrays.nbytes)

    def _normalised_parts(self, update: ReplicaUpdate) -> Iterator[ReplicaUpdate]:
        """The update with one full array per column.

        Values that are too large for that come in several updates, to be applied in order.
        """
        try:
            normalised = self._normalised(update)
        except LimitError:
            if max(rows.size for rows in (update.added, *(rows for rows, _ in update.modified.values()))) < 2:
                raise
            for half in _halves(update):
                yield from self._normalised_parts(half)
        else:
            yield normalised

    def _normalised(self, update: ReplicaUpdate) -> ReplicaUpdate:
        """The update with one full array of the column's type per column.

        Raises:
            SchemaMismatchError: values of another type.
        """
        columns: list[pa.Array] = []
        if update.added:
            for values, field in zip(update.columns, self.schema, strict=True):
                array = normalise(values, field.type)
                columns.append(array if len(array) else pa.nulls(update.added.size, field.type))
        modified = {
            number: (rows, normalise(values, self.schema.field(number).type))
            for number, (rows, values) in update.modified.items()
            if rows
        }
        return replace(update, columns=columns, modified=modified)

    def _check_lengths(self, update: ReplicaUpdate) -> None:
        if update.added and len(update.columns) != len(self.schema):
            raise WireFormatError(
                f"An update of '{self.name}' has {len(update.columns)} columns; the table has {len(self.schema)}."
            )
        for number, values in enumerate(update.columns):
            if len(values) not in (0, update.added.size):
                raise WireFormatError(
                    f"An update of '{self.name}' adds {update.added.size} rows but carries {len(values)} values "
                    f"for column '{self.schema.names[number]}'."
                )
        for number, (rows, values) in update.modified.items():
            if not 0 <= number < len(self.schema) or len(values) != rows.size:
                raise WireFormatError(
                    f"An update of '{self.name}' modifies {rows.size} rows with {len(values)} values."
                )


def _halves(update: ReplicaUpdate) -> tuple[ReplicaUpdate, ReplicaUpdate]:
    """Two updates that make ``update`` when applied in order.

    The first one has half of the added rows, or all of a single one and half of the modified ones: added rows may be
    modified, too.
    """
    added = update.added
    if added.size > 1:
        middle = added.size // 2
        columns = [(values.slice(0, middle), values.slice(min(middle, len(values)))) for values in update.columns]
        return (
            ReplicaUpdate(added.slice(0, middle), update.removed, update.shifted, [first for first, _ in columns]),
            ReplicaUpdate(
                added.slice(middle, added.size), columns=[second for _, second in columns], modified=update.modified
            ),
        )
    first: dict[int, tuple[RowSet, pa.Array | pa.ChunkedArray]] = {}
    second: dict[int, tuple[RowSet, pa.Array | pa.ChunkedArray]] = {}
    for number, (rows, values) in update.modified.items():
        half = rows.size // 2
        first[number] = rows.slice(0, half), values.slice(0, half)
        second[number] = rows.slice(half, rows.size), values.slice(half)
    return replace(update, modified=first), ReplicaUpdate(RowSet.empty(), modified=second)


def _rows_after(rows: RowSet, update: ReplicaUpdate, name: str) -> RowSet:
    if update.removed:
        if not rows.is_superset(update.removed):
            raise WireFormatError(f"An update of '{name}' removes rows that are not there.")
        rows = rows - update.removed
    if update.shifted.size:
        rows = update.shifted.apply(rows)
    if update.added:
        if not rows.is_disjoint(update.added):
            raise WireFormatError(f"An update of '{name}' adds rows that are there already.")
        rows = rows | update.added
    for changed, _ in update.modified.values():
        if not rows.is_superset(changed):
            raise WireFormatError(f"An update of '{name}' modifies rows that are not there.")
    return rows
