"""Tables restricted to the rows and columns that some readers may see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.engine.append import BlinkTable
from barrage_server.engine.condition import Condition
from barrage_server.engine.derived import DerivedTable
from barrage_server.engine.heap import READ_ROWS
from barrage_server.engine.keyed import KeyedTable
from barrage_server.engine.operator import Change, Changes, Inputs, Operator, Outcome
from barrage_server.engine.placed import PlacedRows, PlacedView
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.renumbered import AppendedRows, Numbering, RenumberedView
from barrage_server.engine.table import Table
from barrage_server.engine.traits import ROUTE, TableTraits
from barrage_server.engine.update import TableUpdate
from barrage_server.engine.values import differs
from barrage_server.engine.version import TableVersion
from barrage_server.engine.view import ColumnView
from barrage_server.engine.where import Predicate, Where, row_flags
from barrage_server.errors import InvalidRequestError, TableFailedError, UnsupportedOperationError
from barrage_server.rowset import RowSet, RowSetShiftData
from barrage_server.wire.schema import DEEPHAVEN_PREFIX, EXTENSION_PREFIX

__all__ = ["RestrictedTable", "Restriction", "restrict", "source_of"]

_TYPE_METADATA: Final = (DEEPHAVEN_PREFIX, EXTENSION_PREFIX)
"""Prefixes of metadata keys that define the type of a column."""


@dataclass(frozen=True, slots=True)
class Restriction:
    """The visible part of a table.

    Attributes:
        conditions: a row is shown if one of them holds; if there are none, all rows are shown.
        columns: the names of the columns to show, if the table has them; ``None`` for all.
    """

    conditions: frozenset[Condition | Predicate] = field(default_factory=frozenset)
    columns: frozenset[str] | None = None

    @property
    def has_functions(self) -> bool:
        """Whether a condition is a function, which may raise any exception."""
        return not all(isinstance(condition, Condition) for condition in self.conditions)

    def check(self, schema: pa.Schema) -> None:
        """Raise InvalidRequestError if it does not fit a table with these columns."""
        _shown(schema, self)
        for condition in self.conditions:
            if isinstance(condition, Condition):
                condition.predicate(schema)


class RestrictedTable(DerivedTable):
    """The visible rows and columns of another table, which it follows.

    Its row keys do not tell how many rows are hidden: with a condition, rows have keys of their own, without gaps, in
    the order of the rows. Where row keys of the other table are positions, so are its own. For a keyed table each row
    keeps its own key while it is shown; a new row takes a free key, or the key behind all others. The table has the
    name of the other table, and no attributes that could reveal hidden rows or columns.

    Args:
        source: the other table.
        restriction: the visible part.

    Raises:
        InvalidRequestError: the restriction cannot be applied to the table.
        Exception: any exception of a condition that is a function.
    """

    def __init__(self, source: Table, restriction: Restriction) -> None:
        schema = source.schema
        shown = _shown(schema, restriction)
        predicate, needed = _predicate(schema, restriction)
        operator = Restrict(
            schema,
            shown,
            predicate,
            needed,
            keeps_history=isinstance(source, BlinkTable),
            by_position=_is_by_position(source.traits),
            keeps_keys=isinstance(source, KeyedTable),
        )
        names = {schema.field(number).name for number in shown}
        keys = source.key_columns if names.issuperset(source.key_columns) else ()
        self.source = source
        self.restriction = restriction
        self._restrict = operator
        super().__init__([source], source.name, operator, key_columns=keys, traits=_traits(source, predicate))

    @property
    def hides_rows(self) -> bool:
        """That is what it is for."""
        return True

    @property
    def name(self) -> str:
        """The name of the other table."""
        return self.source.name

    def rename(self, name: str) -> None:  # noqa: ARG002  (the signature is the base's)
        """Raise UnsupportedOperationError: the other table has the name."""
        raise UnsupportedOperationError(f"A part of table '{self.name}' cannot have another name.")

    def readable_rows(self) -> RowSet:
        """The visible rows; for a blink table also rows that were visible before."""
        return self._restrict.readable

    def check_usable(self) -> None:
        """Raise if the table no longer changes.

        Why is not said, since that may have values of hidden rows.

        Raises:
            UnavailableError: the other table is retired.
            TableFailedError: the other table has failed, or a condition.
        """
        try:
            self.source.check_usable()
        except TableFailedError as error:
            reason = f"Table '{self.name}' does not change any more since it failed in a cycle."
            raise TableFailedError(reason, error.error_id) from error
        if self.failure is not None:
            reason = f"The rows of table '{self.name}' cannot be shown any more. Subscribe again."
            raise TableFailedError(reason, self.failure_id)


def restrict(table: Table, restriction: Restriction) -> RestrictedTable:
    """The visible part of ``table``, as a table that follows it.

    Raises what :class:`RestrictedTable` does.
    """
    made = RestrictedTable(table, restriction)
    table.graph.attach(made)
    return made


def source_of(table: Table) -> Table:
    """The table that a restricted table shows a part of; any other table itself."""
    return table.source if isinstance(table, RestrictedTable) else table


class Restrict(Operator):
    """Selects columns, and the rows for which a predicate holds.

    Args:
        schema: the columns of the input.
        shown: the numbers of the columns to show.
        predicate: selects the rows; ``None`` for all rows, under their own keys.
        needed: the numbers of the columns that the predicate takes.
        keeps_history: whether removed rows stay readable, as long as they do in the input. Later rows of the input must
            never have the keys of earlier ones.
        by_position: whether row ``i`` of the result takes the place of row ``i``, as in an input whose rows are
            replaced. The keys of rows in such an input depend on hidden rows.
        keeps_keys: whether each row keeps its key. The input must have no shifts, and row keys that lie close together;
            their order has no meaning.

    Attributes:
        readable: the rows that can be read: the rows of the result, or more.
    """

    name: ClassVar[str] = "restrict"

    def __init__(
        self,
        schema: pa.Schema,
        shown: Sequence[int],
        predicate: Predicate | None,
        needed: Sequence[int],
        *,
        keeps_history: bool = False,
        by_position: bool = False,
        keeps_keys: bool = False,
    ) -> None:
        # metadata of the schema may describe hidden columns and rows, as pandas' metadata does
        is_whole = predicate is None and len(shown) == len(schema)
        fields = [schema.field(number) for number in shown]
        if predicate is not None:
            fields = [_without_values(field) for field in fields]
        self.schema = schema if is_whole else pa.schema(fields)
        self._shown = tuple(shown)
        self._where = None if predicate is None else Where(schema, predicate, needed)
        self._keeps_history = keeps_history
        self._by_position = by_position
        self._keeps_keys = keeps_keys
        self._rows = RowSet.empty()  # in keys of the input, as is _readable
        self._readable = RowSet.empty()
        self._appended: AppendedRows | None = None  # all rows, while rows are only appended
        self._placed: PlacedRows | None = None  # with keeps_keys: all rows, once one was removed or inserted
        self._next = 0
        self.readable = RowSet.empty()

    @property
    def nbytes(self) -> int:
        """Bytes of the map between row keys, for rows that keep theirs."""
        placed = self._placed  # another thread may replace it
        return 0 if placed is None else placed.nbytes

    def start(self, inputs: Inputs) -> Outcome:
        """Select from all rows."""
        (version,) = inputs
        if self._where is None:
            rows = version.row_set
        else:
            self._readable = self._rows = self._where.start(inputs).rows
            self._next = self._rows.size
            rows = RowSet.flat(self._next)
            if not self._keeps_history and not self._by_position:
                self._appended = AppendedRows(self._rows)
        return self._outcome(version, rows, TableUpdate.of_added(rows, len(self._shown)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Select from the changed rows, at a cost proportional to their number."""
        (change,), (version,) = changes, inputs
        if self._where is not None:
            if self._placed is not None:
                return self._follow_placed(self._where, self._placed, change, version)
            if self._appended is not None:
                update = TableUpdate.empty(len(self._shown)) if change is None else change.update
                if update.only_adds and (not update.added or update.added.first_key > self._appended.last):
                    return self._append(self._where, self._appended, update.added, version)
                self._rows = self._readable = self._where.rows = self._appended.numbering().rows
                self._appended = None
            inner = self._where.follow(changes, inputs)
            if self._keeps_keys and self._is_out_of_order(inner.update):
                self._placed = PlacedRows(self._rows)
                self._rows = self._readable = self._where.rows = RowSet.empty()
                return self._follow_placed(self._where, self._placed, change, version)
            if self._by_position and change is not None:
                return self._follow_positions(inner, change)
            return self._follow_rows(inner, version)
        update = TableUpdate.empty(len(self._shown)) if change is None else self._visible(change.update)
        return self._outcome(version, version.row_set, update)

    def _append(self, where: Where, appended: AppendedRows, added: RowSet, version: TableVersion) -> Outcome:
        """Append rows behind all others: no row changes its key, and none is looked up."""
        first = self._next
        if added:
            appended.append(where.chosen_keys(version, added))
            self._next = appended.size
        own = TableUpdate.of_added(_span(first, self._next), len(self._shown))
        self.readable = rows = _span(0, self._next)
        return Outcome(rows, self._views(version, appended.numbering()), own)

    def _is_out_of_order(self, update: TableUpdate) -> bool:
        """Whether a row was removed, or inserted before others."""
        return bool(update.removed) or bool(
            update.added and self._rows and update.added.first_key < self._rows.last_key
        )

    def _follow_placed(self, where: Where, placed: PlacedRows, change: Change | None, version: TableVersion) -> Outcome:
        """Add and remove rows, and leave the keys of all others unchanged."""
        update = TableUpdate.empty(len(version.views)) if change is None else change.update
        gone, came = update.removed.keys(), where.chosen_keys(version, update.added)
        gone = gone[placed.find(gone) >= 0]
        touched = where.touched(update)
        modified = {id(touched): touched}  # columns share their row sets
        if touched:
            keys, are_in = touched.keys(), where.flags_of(version, touched)
            were = placed.find(keys)
            were_in = were >= 0
            gone, came = _joined(gone, keys[were_in > are_in]), _joined(came, keys[were_in < are_in])
            modified[id(touched)] = _row_set(were[were_in & are_in])
        others = {
            id(rows): rows.keys() for rows in map(update.modified.__getitem__, self._shown) if rows is not touched
        }
        before = {part: placed.find(keys) for part, keys in others.items()}
        removed, added = placed.change(gone, came)
        for part, were in before.items():
            modified[part] = _row_set(were[(were >= 0) & (were == placed.find(others[part]))])
        changed = tuple(modified[id(update.modified[number])] for number in self._shown)
        own = TableUpdate(added, removed, RowSetShiftData.empty(), changed)
        self.readable, sources = placed.rows, placed.sources()
        return Outcome(placed.rows, [PlacedView(version.views[number], sources) for number in self._shown], own)

    def _follow_rows(self, inner: Outcome, version: TableVersion) -> Outcome:
        """Number the rows again.

        Rows removed in front leave their keys unused; behind other removed rows, later rows close the gap.
        """
        update = inner.update
        before, after = Numbering(self._rows, self._next - self._rows.size), inner.rows
        removed = before.rows.invert(update.removed)
        gone = int(removed.ranges()[1][0]) + 1 if removed and removed.first_key == 0 else 0
        numbering = Numbering(after, before.first + gone)
        added = after.invert(update.added)
        shifted = RowSetShiftData.empty()
        if removed.size > gone or (added and added.first_key < before.rows.size - gone):
            stayed = (RowSet.flat(before.rows.size) - removed).shift(before.first)
            shifted = RowSetShiftData.between(stayed, (RowSet.flat(after.size) - added).shift(numbering.first))
        own = self._visible(
            TableUpdate(
                added.shift(numbering.first),
                removed.shift(before.first),
                shifted,
                tuple(numbering.keys_of(rows) if rows else rows for rows in update.modified),
            )
        )
        self._rows, self._next = after, numbering.first + after.size
        self._readable = (self._readable | after) & version.readable if self._keeps_history else after
        return self._outcome(version, _span(numbering.first, self._next), own)

    def _follow_positions(self, inner: Outcome, change: Change) -> Outcome:
        """Compare each row with the previous one at its position, as hidden rows change."""
        before, after = self._rows, inner.rows
        common = min(before.size, after.size)
        update, modified = inner.update, [RowSet.empty() for _ in self._shown]
        touched = RowSet.union_all([update.added, update.removed, *update.modified])
        for start in range(0, common, READ_ROWS):
            old, new = (rows.slice(start, min(start + READ_ROWS, common)) for rows in (before, after))
            if old == new and not update.shifted.size and not old & touched:
                continue
            values = change.before.read(old, self._shown), change.after.read(new, self._shown)
            for place, (first, second) in enumerate(zip(*values, strict=True)):
                found = np.flatnonzero(differs(first, second))
                if len(found):
                    modified[place] |= RowSet.from_sorted_keys(found + start)
        own = TableUpdate(
            _span(before.size, after.size), _span(after.size, before.size), RowSetShiftData.empty(), tuple(modified)
        )
        self._rows = self._readable = after
        self._next = after.size
        return self._outcome(change.after, RowSet.flat(after.size), own)

    def _visible(self, update: TableUpdate) -> TableUpdate:
        return replace(update, modified=tuple(update.modified[number] for number in self._shown))

    def _outcome(self, version: TableVersion, rows: RowSet, update: TableUpdate) -> Outcome:
        if self._where is None:
            self.readable = version.readable
            return Outcome(rows, [version.views[number] for number in self._shown], update)
        numbering = Numbering(self._readable, self._next - self._readable.size)
        self.readable = _span(numbering.first, self._next)
        return Outcome(rows, self._views(version, numbering), update)

    def _views(self, version: TableVersion, numbering: Numbering) -> list[ColumnView]:
        return [RenumberedView(version.views[number], numbering) for number in self._shown]


def _without_values(field: pa.Field) -> pa.Field:
    """The field without metadata that may have been computed from all rows."""
    kept = {key: value for key, value in (field.metadata or {}).items() if key.startswith(_TYPE_METADATA)}
    bare = field.remove_metadata()
    return bare.with_metadata(kept) if kept else bare


def _joined(keys: Int64Array, more: Int64Array) -> Int64Array:
    """Two ascending arrays of distinct keys as one."""
    if not len(keys) or not len(more):
        return keys if len(keys) else more
    return np.sort(np.concatenate((keys, more)), kind="stable")


def _row_set(keys: Int64Array) -> RowSet:
    """The row set of distinct keys in any order."""
    return RowSet.from_sorted_keys(np.sort(keys))


def _span(first: int, end: int) -> RowSet:
    return RowSet.from_range(first, end - 1) if end > first else RowSet.empty()


def _shown(schema: pa.Schema, restriction: Restriction) -> list[int]:
    wanted = restriction.columns
    shown = [number for number, name in enumerate(schema.names) if wanted is None or name in wanted]
    if not shown:
        raise InvalidRequestError(f"The table has none of the columns {', '.join(sorted(wanted or ()))}.")
    return shown


def _predicate(schema: pa.Schema, restriction: Restriction) -> tuple[Predicate | None, Sequence[int]]:
    """The predicate that one of the conditions holds, and the columns it takes."""
    if not restriction.conditions:
        return None, ()
    numbers = {name: number for number, name in enumerate(schema.names)}
    needed: set[int] = set()
    predicates: list[Predicate] = []
    for condition in restriction.conditions:
        if isinstance(condition, Condition):
            predicates.append(condition.predicate(schema))
            needed.update(numbers[name] for name in condition.columns)
        else:
            predicates.append(condition)
            needed.update(range(len(schema)))
    if len(predicates) == 1:
        return predicates[0], sorted(needed)

    def any_holds(batch: pa.RecordBatch) -> pa.Array:
        flags = [pa.array(row_flags(predicate(batch), batch.num_rows)) for predicate in predicates]
        found = flags[0]
        for more in flags[1:]:
            found = pc.or_(found, more)
        return found

    return any_holds, sorted(needed)


def _traits(source: Table, predicate: Predicate | None) -> TableTraits:
    traits = source.traits
    stated = tuple(entry for entry in traits.stated if entry[0] == ROUTE)
    return replace(
        traits,
        is_input=False,
        is_flat=traits.is_flat if predicate is None else traits.append_only or _is_by_position(traits),
        stated=stated,
    )


def _is_by_position(traits: TableTraits) -> bool:
    return traits.is_flat and not traits.append_only and not traits.add_only and not traits.is_blink
