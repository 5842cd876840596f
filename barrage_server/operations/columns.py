"""Operators that compute, choose and rename columns of their input."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from barrage_server.engine.cells import MAX_PAGE_BITS
from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.plan import ReadPlan
from barrage_server.engine.replica_cells import ReplicaCells
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.update import TableUpdate
from barrage_server.engine.version import TableVersion, shared_values
from barrage_server.engine.view import ColumnView
from barrage_server.formula.inputs import NamedValues
from barrage_server.operations.budget import check_bytes, most_bytes
from barrage_server.operations.formula_view import Computation, FormulaView, RowPositions
from barrage_server.operations.history import readable_with
from barrage_server.rowset import RowSet, RowSetShiftData

__all__ = ["Computed", "Layout", "StoredColumns", "ViewedColumns"]


@dataclass(frozen=True, slots=True)
class Computed:
    """A column that is computed.

    Attributes:
        computation: the formula.
        inputs: for each column that it names, its place in the layout.
        arrays: for each column that it reads by position, its number in the input.

    """

    computation: Computation
    inputs: tuple[int, ...]
    arrays: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """The origins of the columns of a result.

    A *place* is the number of a column of the input; behind these are the computed columns, in order.

    Attributes:
        schema: the columns of the result.
        places: the place of each.
        width: the number of columns of the input.
        computed: the computed columns; each depends on earlier places only.

    """

    schema: pa.Schema
    places: tuple[int, ...]
    width: int
    computed: tuple[Computed, ...] = ()

    def key_columns(self, numbers: Sequence[int]) -> tuple[str, ...]:
        """The names in the result of columns of the input; empty if one is missing."""
        found: dict[int, str] = {}
        for name, place in zip(self.schema.names, self.places, strict=True):
            found.setdefault(place, name)
        names = tuple(found.get(number, "") for number in numbers)
        return names if all(names) else ()

    @property
    def uses_positions(self) -> bool:
        """Whether a column depends on positions."""
        return any(column.computation.positions for column in self.computed)


class _Columns(Operator):
    """The common part of operators of columns: which columns a change modifies."""

    def __init__(self, layout: Layout, *, grows: bool) -> None:
        self.schema = layout.schema
        self._layout = layout
        self._uses_positions = layout.uses_positions
        self._grows = grows

    def _update(self, update: TableUpdate, modified: Sequence[RowSet]) -> TableUpdate:
        """The update of the input with the modified rows of places."""
        own = tuple([modified[place] for place in self._layout.places])
        return TableUpdate(update.added, update.removed, update.shifted, own)

    def _positions(self, column: Computed, version: TableVersion) -> RowPositions | None:
        if not column.computation.positions:
            return None
        names = column.computation.arrays
        views = {name: version.views[number] for name, number in zip(names, column.arrays, strict=True)}
        return RowPositions(version.row_set, views, grows=self._grows)


class ViewedColumns(_Columns):
    """Columns that are computed when they are read, beside columns of the input.

    Args:
        layout: the columns.
        grows: whether rows may be added to the input later.

    """

    name: ClassVar[str] = "view"

    def start(self, inputs: Inputs) -> Outcome:
        """All rows of the input."""
        (version,) = inputs
        return self._outcome(version, TableUpdate.of_added(version.row_set, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Pass the change on; a computed column changes where one of its inputs does."""
        (change,), (version,) = changes, inputs
        if change is None:
            return self._outcome(version, TableUpdate.empty(len(self.schema)))
        modified = list(change.update.modified)
        for column in self._layout.computed:
            modified.append(RowSet.union_all([modified[place] for place in column.inputs]))
        return self._outcome(version, self._update(change.update, modified))

    def _outcome(self, version: TableVersion, update: TableUpdate) -> Outcome:
        views: list[ColumnView] = list(version.views)
        for column in self._layout.computed:
            wanted = [views[place] for place in column.inputs]
            views.append(FormulaView(column.computation, wanted, self._positions(column, version)))
        shown = [views[place] for place in self._layout.places]
        # Positions are those of the present rows.
        readable = version.row_set if self._uses_positions else version.readable
        return Outcome(version.row_set, shown, update, readable)


class StoredColumns(_Columns):
    """Columns that are stored when their inputs change, beside columns of the input.

    A cycle evaluates rows that were added, or modified in a column that a formula reads. Results that do not differ are
    not written, and not modified.

    Args:
        layout: the columns.
        grows: whether rows may be added to the input later.
        is_append_only: whether rows of the input are added at the end, under the keys 0, 1, 2 and so on, and never
            change.
        keeps_history: whether rows stay readable after they have left, as far as they do in the input, whose later rows
            never have the keys of earlier ones.

    """

    name: ClassVar[str] = "update"

    def __init__(
        self, layout: Layout, *, grows: bool, is_append_only: bool = False, keeps_history: bool = False
    ) -> None:
        super().__init__(layout, grows=grows)
        stored = pa.schema(
            [pa.field(str(number), column.computation.type) for number, column in enumerate(layout.computed)]
        )
        self._store = ColumnStore(stored, overwrites=not is_append_only)
        self._cells = ReplicaCells(self._store.columns, self._store.make_columns, MAX_PAGE_BITS, is_window=False)
        self._keeps_history = keeps_history
        self._most_bytes = most_bytes()
        self._readable = RowSet.empty()
        needed = {place for column in layout.computed for place in column.inputs if place < layout.width}
        self._needed = sorted(needed)
        self._places = [dict(zip(each.computation.columns, each.inputs, strict=True)) for each in layout.computed]

    @property
    def nbytes(self) -> int:
        """Bytes of the results."""
        return self._store.nbytes + self._cells.nbytes

    def start(self, inputs: Inputs) -> Outcome:
        """Evaluate all rows."""
        (version,) = inputs
        rows = version.row_set
        if rows:
            self._cells.arrange(RowSet.empty(), RowSetShiftData.empty(), rows, self._store.undo)
            self._add(version, rows)
        return self._outcome(version, TableUpdate.of_added(rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Evaluate the rows that have changed."""
        (change,), (version,) = changes, inputs
        if change is None:
            return self._outcome(version, TableUpdate.empty(len(self.schema)))
        update, cells, undo = change.update, self._cells, self._store.undo
        if update.added or update.removed or update.shifted.size or self._keeps_history:
            cells.arrange(self._remove(change), update.shifted, update.added, undo)
        modified = list(update.modified)
        for number, column in enumerate(self._layout.computed):
            touched = RowSet.union_all([modified[place] for place in column.inputs])
            modified.append(self._modify(version, number, column, touched) if touched else touched)
        if update.added:
            self._add(version, update.added)
        return self._outcome(version, self._update(update, modified), is_changed=True)

    def _remove(self, change: Change) -> RowSet:
        """Free the cells of rows that no reader can reach.

        Returns the other rows, by their keys before the cycle.
        """
        if self._keeps_history:
            gone = self._readable - change.after.readable
            stayed = self._readable - gone
        else:
            gone = change.update.removed
            stayed = change.before.row_set - gone
        if gone:
            self._cells.remove(gone)
        return stayed

    def _add(self, version: TableVersion, rows: RowSet) -> None:
        for part in version.pieces(rows, self._needed):
            values = dict(zip(self._needed, version.read(part, self._needed), strict=True))
            for number, column in enumerate(self._layout.computed):
                inputs = {name: values[place] for name, place in self._places[number].items()}
                values[self._layout.width + number] = self._evaluated(version, column, part, inputs)
            found = [values[self._layout.width + number] for number in range(len(self._layout.computed))]
            self._cells.add(part, found, self._store.undo)
            self._check_bytes()

    def _modify(self, version: TableVersion, number: int, column: Computed, rows: RowSet) -> RowSet:
        """Evaluate a column for changed rows; the rows with another result."""
        width, places = self._layout.width, self._places[number]
        shared = shared_values(version, rows) if max(column.inputs) < width else None
        if shared is not None:
            return self._replace(version, number, shared.plan, NamedValues(shared, places))
        from_input = [place for place in dict.fromkeys(column.inputs) if place < width]
        changed: list[RowSet] = []
        for part in version.pieces(rows, from_input):
            values = dict(zip(from_input, version.read(part, from_input), strict=True))
            for place in column.inputs:
                if place >= width:
                    values[place] = self._cells.read(place - width, part)
            inputs = {name: values[place] for name, place in places.items()}
            changed.append(self._replace(version, number, ReadPlan.from_row_set(part), inputs))
        return RowSet.union_all(changed)

    def _replace(self, version: TableVersion, number: int, plan: ReadPlan, inputs: Mapping[str, pa.Array]) -> RowSet:
        """Store a column's results for some rows; the rows with another result."""
        found = self._evaluated(version, self._layout.computed[number], plan.rows, inputs)
        changed = self._cells.update(number, plan, found, self._store.undo)
        self._check_bytes()
        return changed

    def _check_bytes(self) -> None:
        if self._most_bytes < math.inf:
            check_bytes(self.nbytes, self._most_bytes)

    def _evaluated(
        self, version: TableVersion, column: Computed, rows: RowSet, inputs: Mapping[str, pa.Array]
    ) -> pa.Array:
        positions = self._positions(column, version)
        if positions is not None:
            return positions.evaluate(column.computation, inputs, rows.keys())
        return column.computation.evaluate(inputs, rows.size)

    def _outcome(self, version: TableVersion, update: TableUpdate, *, is_changed: bool = False) -> Outcome:
        rows = version.row_set
        readable = readable_with(self._readable, rows, version) if self._keeps_history else rows
        if is_changed:
            if update.removed:
                self._cells.release(readable)
            self._cells.collect(readable, self._store.undo)
            self._store.columns, self._store.slots = self._cells.columns, self._cells.slots
        elif update.added:
            self._store.columns, self._store.slots = self._cells.columns, self._cells.slots
        self._readable = readable
        views: list[ColumnView] = [*version.views, *self._store.views()]
        return Outcome(rows, [views[place] for place in self._layout.places], update, readable)
