"""A row for each item of the lists of a row: ``ungroup``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from barrage_server.engine import Table, TableUpdate, TableVersion
from barrage_server.engine.operator import Changes, Inputs, Operator, Outcome
from barrage_server.engine.plan import Int64Array, ReadPlan
from barrage_server.engine.storage import from_storage, to_storage
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.values import take
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.fixed_limits import ROW_KEY
from barrage_server.operations.checks import known_columns
from barrage_server.operations.gathered import GatheredView
from barrage_server.operations.result import make
from barrage_server.operations.traits import route_of
from barrage_server.rowset import MAX_KEY, RowSet, RowSetShiftData
from barrage_server.wire.schema import is_list_like

__all__ = ["Ungroup", "UngroupedView", "ungroup"]

_LEAST_BITS: Final = 3
"""Bits of a row key that number the items of a row, at least. Row sets are cheapest when they are dense."""


class _Numbering:
    """Row keys made of the key of a row and the number of an item.

    There is one object per version.

    Args:
        bits: the number of lower bits, which contain the number of the item.

    """

    __slots__ = ("bits",)

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def spans(self, rows: RowSet) -> RowSet:
        """All keys that items of ``rows`` may have."""
        starts, ends = rows.ranges()
        return RowSet.from_ranges(starts << self.bits, (ends << self.bits) | ((1 << self.bits) - 1))

    def rows(self, keys: Int64Array, lengths: Int64Array, first: Int64Array | int = 0) -> RowSet:
        """The row keys of items, from number ``first`` on, of ascending row ``keys``."""
        starts, ends = (keys << self.bits) + first, (keys << self.bits) + lengths - 1
        some = starts <= ends
        return RowSet.from_ranges(starts[some], ends[some])

    def count(self, rows: RowSet, keys: Int64Array, likely: Int64Array) -> Int64Array:
        """The number of items of each row among ``rows``.

        Where it is the ``likely`` one, which two keys tell, it costs much less: the positions of keys are found by
        listing those before them.
        """
        starts = keys << self.bits
        ends = starts + likely
        has_last, has_next = rows.contains(np.concatenate((np.maximum(ends - 1, 0), ends))).reshape(2, -1)
        is_likely = (has_last | (likely == 0)) & ~(has_next & (likely < 1 << self.bits))
        found = likely.copy()
        if not is_likely.all():
            starts = starts[~is_likely]
            ranks = rows.rank(np.stack((starts, starts + (1 << self.bits)), axis=1).ravel())
            found[~is_likely] = ranks[1::2] - ranks[::2]
        return found

    def shifts(self, shifted: RowSetShiftData) -> RowSetShiftData:
        """The shifts of the items of shifted rows."""
        ends = (shifted.ends << self.bits) | ((1 << self.bits) - 1)
        return RowSetShiftData.from_arrays(shifted.starts << self.bits, ends, shifted.deltas << self.bits)

    def translated(self, rows: RowSet, other: _Numbering) -> RowSet:
        """The keys of items in another numbering."""
        keys = rows.keys()
        return RowSet.from_sorted_keys(((keys >> self.bits) << other.bits) | (keys & ((1 << self.bits) - 1)))

    def plan(self, plan: ReadPlan) -> tuple[ReadPlan, Int64Array, Int64Array]:
        """The rows of items, each item's position among these rows, and its number."""
        known = plan.in_source
        if known is None or known[0] is not self:
            rows = plan.keys >> self.bits
            is_first = np.ones(len(rows), np.bool_)
            is_first[1:] = rows[1:] != rows[:-1]
            numbers = plan.keys & ((1 << self.bits) - 1)
            found = ReadPlan.from_keys(rows[is_first]), np.cumsum(is_first) - 1, numbers
            known = plan.in_source = (self, found)
        inner: tuple[ReadPlan, Int64Array, Int64Array] = known[1]
        return inner


class UngroupedView(GatheredView):
    """A column of the input for each item of its rows.

    Args:
        view: the column.
        numbering: the keys of items. One object for all columns of a version, which share the work of finding the rows.
        is_list: whether the items of its lists are wanted, not its values.

    """

    __slots__ = ("_is_list", "_numbering")

    def __init__(self, view: ColumnView, numbering: _Numbering, *, is_list: bool) -> None:
        super().__init__(view, data_type=_item_type(view.type) if is_list else None)
        self._numbering = numbering
        self._is_list = is_list

    def read(self, plan: ReadPlan) -> pa.Array:
        """Read each row once, and take the items; null behind the end of a list."""
        rows, places, numbers = self._numbering.plan(plan)
        values = self._view.read(rows)
        if not self._is_list:
            return take(values, places)
        lists = to_storage(values)
        lengths = _lengths(lists)
        starts = np.cumsum(lengths) - lengths
        is_there = numbers < lengths[places]
        items = lists.flatten()  # without those under nulls
        if is_there.all():
            return from_storage(take(items, starts[places] + numbers), self.type)
        chosen = pa.array(np.where(is_there, starts[places] + numbers, 0), mask=~is_there)
        return from_storage(items.take(chosen) if len(items) else pa.nulls(len(chosen), items.type), self.type)


class Ungroup(Operator):
    """A row for each item of the lists of a row.

    The state is row keys, and no values. A row key is the key of the input's row, followed by the number of the item. A
    cycle costs the items of the rows that are added, removed, or modified in a list, and the ranges of the other rows
    that are modified or moved by shifts. When a list is too long for the bits that number its items, all rows get other
    keys.

    Args:
        schema: the columns of the input.
        lists: the numbers of the columns whose items are wanted.
        null_fill: whether the shorter lists of a row end with nulls; otherwise they must be of one length.

    """

    name: ClassVar[str] = "ungroup"

    def __init__(self, schema: pa.Schema, lists: Sequence[int], *, null_fill: bool) -> None:
        self.schema = pa.schema(
            [
                pa.field(field.name, _item_type(field.type)) if number in lists else field
                for number, field in enumerate(schema)
            ]
        )
        self._lists = tuple(lists)
        self._null_fill = null_fill
        self._numbering = _Numbering(_LEAST_BITS)
        self._rows = RowSet.empty()

    def start(self, inputs: Inputs) -> Outcome:
        """Number the items of all rows."""
        (version,) = inputs
        lengths = self._lengths(version, version.row_set)
        self._numbering = self._reaching(version, lengths)
        self._rows = self._numbering.rows(version.row_set.keys(), lengths)
        return self._outcome(version, TableUpdate.of_added(self._rows, len(self.schema)))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Number the items of changed rows."""
        (change,), (version,) = changes, inputs
        if change is None or change.update.is_empty:
            return self._outcome(version, TableUpdate.empty(len(self.schema)))
        update, before, old = change.update, self._rows, self._numbering
        relisted = RowSet.union_all(update.modified[number] for number in self._lists)
        new = update.added | relisted
        lengths = self._lengths(version, new)
        self._numbering = numbering = self._reaching(version, lengths)
        removed = before & old.spans(update.removed) if update.removed else RowSet.empty()
        stayed = before - removed if removed else before
        shifted = old.shifts(update.shifted) if update.shifted.size else update.shifted
        moved = shifted.apply(stayed) if shifted.size else stayed
        if numbering is not old:
            moved = old.translated(moved, numbering)
        now = lengths[new.find(relisted.keys())]
        there = numbering.count(moved, relisted.keys(), now)
        left = numbering.rows(relisted.keys(), there, now)  # items of lists that have become shorter
        if left:
            moved = moved - left
            gone = left if numbering is old else numbering.translated(left, old)
            gone = shifted.unapply(gone) if shifted.size else gone
            removed, stayed = removed | gone, stayed - gone
        if numbering is not old:
            shifted = RowSetShiftData.between(stayed, moved)
        elif shifted.size:
            shifted = shifted.clip(stayed)
        known = np.zeros(len(lengths), np.int64)
        known[new.find(relisted.keys())] = there
        added = numbering.rows(new.keys(), lengths, known)
        kept = np.minimum(there, now)
        self._rows = moved | added if added else moved
        modified = [
            numbering.rows(rows.keys(), kept[relisted.find(rows.keys())])
            if number in self._lists
            else numbering.spans(rows) & moved
            for number, rows in enumerate(update.modified)
        ]
        return self._outcome(version, TableUpdate(added, removed, shifted, tuple(modified)))

    def _lengths(self, version: TableVersion, rows: RowSet) -> Int64Array:
        """The number of items of each row: the length of its longest list."""
        found = [np.zeros(0, np.int64)]
        for part in version.pieces(rows, self._lists):
            lengths = [_lengths(to_storage(column)) for column in version.read(part, self._lists)]
            if not self._null_fill:
                self._check(lengths)
            found.append(np.maximum.reduce(lengths))
        return np.concatenate(found)

    def _check(self, lengths: list[Int64Array]) -> None:
        first, *others = lengths
        for number, other in zip(self._lists[1:], others, strict=True):
            differs = np.flatnonzero(first != other)
            if len(differs):
                one, two = self.schema.field(self._lists[0]).name, self.schema.field(number).name
                raise InvalidRequestError(
                    f"The lists of a row must be of one length without null_fill: in one row {one!r} "
                    f"has {first[differs[0]]} items, and {two!r} has {other[differs[0]]}."
                )

    def _reaching(self, version: TableVersion, lengths: Int64Array) -> _Numbering:
        """The present numbering, or one with more bits for longer lists."""
        bits = self._numbering.bits
        needed = int(lengths.max() - 1).bit_length() if len(lengths) else 0
        if needed > bits:
            bits = needed + 1
        if version.row_set and version.row_set.last_key >= MAX_KEY >> bits:
            raise LimitError(
                f"The row keys of the table are too large to number the items of rows: they take {bits} "
                f"more bits, and the largest row key is {ROW_KEY.most:,} ({ROW_KEY.name}). Flatten it first."
            )
        return self._numbering if bits == self._numbering.bits else _Numbering(bits)

    def _outcome(self, version: TableVersion, update: TableUpdate) -> Outcome:
        numbering = _Numbering(self._numbering.bits)
        views = [
            UngroupedView(view, numbering, is_list=number in self._lists) for number, view in enumerate(version.views)
        ]
        return Outcome(self._rows, views, update)


def ungroup(
    parents: Sequence[Table], columns: Sequence[str], *, null_fill: bool = True, name: str | None = None
) -> Table:
    """A row for each item of the lists in ``columns``.

    Without ``columns``, all columns of lists are taken. Rows without items have no row.

    Raises:
        InvalidRequestError: a column has no lists, or there is none that has; without ``null_fill`` also when a row has
            lists of several lengths.
        UnknownColumnError: the table lacks a column.
        LimitError: row keys are too large.

    """
    (table,) = parents
    if columns:
        numbers = known_columns(table, columns, "cols")
        for number in numbers:
            field = table.schema.field(number)
            if not is_list_like(field.type):
                raise InvalidRequestError(f"Column {field.name!r} cannot be ungrouped: it has the type {field.type}.")
    else:
        numbers = [number for number, field in enumerate(table.schema) if is_list_like(field.type)]
        if not numbers:
            raise InvalidRequestError(f"Table '{table.name}' has no columns of lists to ungroup.")
    operator = Ungroup(table.schema, list(dict.fromkeys(numbers)), null_fill=null_fill)
    return make([table], "ungroup", operator, TableTraits(stated=route_of(table.traits)), name=name)


def _item_type(data_type: pa.DataType) -> pa.DataType:
    return data_type.value_type


def _lengths(lists: pa.Array) -> Int64Array:
    """The numbers of items; 0 for null."""
    return np.asarray(pc.list_value_length(lists).fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False))
