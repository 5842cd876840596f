"""Snapshots of a table that another one triggers: ``snapshot_when``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from barrage_server.engine import Table, TableUpdate, TableVersion
from barrage_server.engine.cells import MAX_PAGE_BITS
from barrage_server.engine.interrupts import check_interrupt
from barrage_server.engine.operator import Changes, Inputs, Operator, Outcome
from barrage_server.engine.replica_cells import ReplicaCells
from barrage_server.engine.store import ColumnStore
from barrage_server.engine.traits import TableTraits
from barrage_server.engine.values import differs
from barrage_server.engine.view import ColumnView
from barrage_server.errors import InvalidRequestError
from barrage_server.operations.appended import AppendedRows, added_rows
from barrage_server.operations.build import snapshot
from barrage_server.operations.join_columns import AddedColumns, added_columns
from barrage_server.operations.pending import PendingChanges
from barrage_server.operations.result import make
from barrage_server.operations.stamps import ConstantView, last_values, repeated, taken
from barrage_server.operations.traits import route_of
from barrage_server.rowset import RowSet

__all__ = ["SnapshotHistory", "SnapshotWhen", "StampedSnapshot", "snapshot_when"]

_BLOCK: Final = 1 << 16
_BLOCK_BYTES: Final = 1 << 26
"""Bytes of copies of a small base that are written at once."""
_CELL_BYTES: Final = 16
"""Bytes of a value that the base has overwritten since the held version, with its row key."""


class SnapshotWhen(Operator):
    """The base, the first input, as of the last change of the trigger.

    The operator holds that version of the base, and shares its columns. A cycle in which the trigger changes costs the
    rows of the base that have changed since the last one; other cycles cost the rows that change in them.

    Args:
        base: the columns of the base.
        stamps: the columns of the trigger whose last values all rows have.
        initial: whether there is a snapshot in the beginning.

    """

    name: ClassVar[str] = "snapshot_when"

    def __init__(self, base: pa.Schema, stamps: AddedColumns, *, initial: bool) -> None:
        self.schema = pa.schema([*base, *stamps.fields])
        self._columns = stamps.numbers
        self._initial = initial
        self._held: TableVersion | None = None
        self._stamps: list[pa.Array] = []
        self._pending = PendingChanges()

    @property
    def nbytes(self) -> int:
        """Approximate bytes of the values that the base has overwritten since."""
        return 0 if self._held is None or self._held.is_frozen else self._pending.cells * _CELL_BYTES

    def start(self, inputs: Inputs) -> Outcome:
        """Take the first snapshot, if ``initial``."""
        base, trigger = inputs
        if not self._initial:
            return self._outcome(TableUpdate.empty(len(self.schema)))
        return self._outcome(self._take(base, trigger))

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Take a snapshot if the trigger has changed; otherwise record the change."""
        (base_change, trigger_change), (base, trigger) = changes, inputs
        if self._held is not None and base_change is not None:
            self._pending.add(base_change.before.row_set, base_change.update)
            if not self._pending:  # other views of the same values
                self._held = base.detached()
        if trigger_change is None or trigger_change.update.is_empty:
            return self._outcome(TableUpdate.empty(len(self.schema)))
        return self._outcome(self._take(base, trigger))

    def _take(self, base: TableVersion, trigger: TableVersion) -> TableUpdate:
        """Take a snapshot, and return the update."""
        stamps = last_values(trigger, self._columns)
        if self._held is None:
            update = TableUpdate.of_added(base.row_set, len(base.schema))
        else:
            update = self._pending.take(len(base.schema))
        own = self._stamped(update, base, stamps)
        self._held = base.detached()
        return own

    def _stamped(self, update: TableUpdate, base: TableVersion, stamps: list[pa.Array]) -> TableUpdate:
        """The update of the base and the stamps, which are stored."""
        stayed = base.row_set - update.added
        former, self._stamps = self._stamps or stamps, stamps
        modified = [
            stayed if differs(before, after)[0] else RowSet.empty()
            for before, after in zip(former, stamps, strict=True)
        ]
        return TableUpdate(update.added, update.removed, update.shifted, (*update.modified, *modified))

    def _stamp_views(self) -> Sequence[ColumnView]:
        return [ConstantView(value) for value in self._stamps]

    def _outcome(self, update: TableUpdate) -> Outcome:
        if self._held is None:
            return Outcome(RowSet.empty(), ColumnStore(self.schema).views(), update)
        return Outcome(self._held.row_set, [*self._held.views, *self._stamp_views()], update)


class StampedSnapshot(SnapshotWhen):
    """A snapshot whose rows keep the stamps with which they came or changed last.

    Arguments are those of :class:`SnapshotWhen`. The stamps of each row are stored.
    """

    def __init__(self, base: pa.Schema, stamps: AddedColumns, *, initial: bool) -> None:
        super().__init__(base, stamps, initial=initial)
        self._store = ColumnStore(pa.schema(stamps.fields))
        self._cells = ReplicaCells(self._store.columns, self._store.make_columns, MAX_PAGE_BITS, is_window=False)

    @property
    def nbytes(self) -> int:
        """Bytes of overwritten values, and of the stamps."""
        return super().nbytes + self._store.nbytes + self._cells.nbytes

    def _stamped(self, update: TableUpdate, base: TableVersion, stamps: list[pa.Array]) -> TableUpdate:
        cells, undo = self._cells, self._store.undo
        before = RowSet.empty() if self._held is None else self._held.row_set
        if update.removed:
            cells.remove(update.removed)
        cells.arrange(before - update.removed, update.shifted, update.added, undo)
        touched: list[list[RowSet]] = [[] for _ in stamps]
        for rows in _parts(update.modified_rows):
            for number, value in enumerate(stamps):
                touched[number].append(cells.update(number, rows, repeated(value, rows.size), undo))
        for rows in _parts(update.added):
            cells.add(rows, [repeated(value, rows.size) for value in stamps], undo)
        if update.removed:
            cells.release(base.row_set)
        cells.collect(base.row_set, undo)
        self._store.columns, self._store.slots = cells.columns, cells.slots
        modified = (*update.modified, *map(RowSet.union_all, touched))
        return TableUpdate(update.added, update.removed, update.shifted, modified)

    def _stamp_views(self) -> Sequence[ColumnView]:
        return self._store.views()


class SnapshotHistory(Operator):
    """A copy of all rows of the base for each row of the trigger, in sequence.

    Args:
        base: the columns of the base.
        stamps: the columns of the trigger, which come first.

    """

    name: ClassVar[str] = "snapshot_when"

    def __init__(self, base: pa.Schema, stamps: AddedColumns) -> None:
        self.schema = pa.schema([*stamps.fields, *base])
        self._columns = stamps.numbers
        self._cells = AppendedRows(self.schema)

    @property
    def nbytes(self) -> int:
        """Bytes of all snapshots."""
        return self._cells.nbytes

    def start(self, inputs: Inputs) -> Outcome:
        """Take a snapshot for each row of the trigger."""
        base, trigger = inputs
        return self._outcome(base, trigger, trigger.row_set)

    def follow(self, changes: Changes, inputs: Inputs) -> Outcome:
        """Take a snapshot for each row added to the trigger."""
        (_, change), (base, trigger) = changes, inputs
        return self._outcome(base, trigger, RowSet.empty() if change is None else added_rows(change))

    def _outcome(self, base: TableVersion, trigger: TableVersion, taken: RowSet) -> Outcome:
        if base.row_set:
            for part in trigger.pieces(taken, self._columns):
                self._append(base, trigger.read(part, self._columns), part.size)
        added, _ = self._cells.settle()
        return Outcome(self._cells.rows, self._cells.views(), TableUpdate.of_added(added, len(self.schema)))

    def _append(self, base: TableVersion, stamps: Sequence[pa.Array], count: int) -> None:
        """Append a snapshot for each of the stamps.

        Snapshots of a small base are appended several at a time, one of a large base in parts.
        """
        every = range(len(base.schema))
        if base.size > _BLOCK:
            for number in range(count):
                mine = [value.slice(number, 1) for value in stamps]
                for rows in base.pieces(base.row_set, every):
                    values = base.read(rows)
                    self._cells.append([*(repeated(value, rows.size) for value in mine), *values], rows.size)
            return
        values = base.read(base.row_set)
        copies = _BLOCK_BYTES // (1 + sum(value.nbytes for value in values))
        at_once = max(1, min(_BLOCK // base.size, copies))
        for first in range(0, count, at_once):
            check_interrupt()
            snapshots = np.arange(first, min(first + at_once, count))
            which, theirs = np.divmod(np.arange(len(snapshots) * base.size), base.size)
            self._cells.append(
                [*(taken(value, snapshots[which]) for value in stamps), *(taken(value, theirs) for value in values)],
                len(which),
            )


def _parts(rows: RowSet) -> Iterator[RowSet]:
    for start in range(0, rows.size, _BLOCK):
        check_interrupt()
        yield rows.slice(start, start + _BLOCK)


def snapshot_when(
    parents: Sequence[Table],
    stamps: Sequence[str],
    *,
    initial: bool = False,
    incremental: bool = False,
    history: bool = False,
    name: str | None = None,
) -> Table:
    """The first table as of the last change of the second one, the trigger.

    Rows also have columns of the trigger's last row.

    Args:
        parents: the base and the trigger.
        stamps: the columns of the trigger, as ``"time"`` or ``"taken = time"``; none: all.
        initial: whether there is a snapshot in the beginning.
        incremental: whether a row keeps the stamps that it came or was modified with.
        history: whether there is a snapshot behind the other for each row that the trigger has and gets, with its
            stamps in front.
        name: its name in messages and logs.

    Raises:
        UnknownColumnError: the trigger lacks a column.
        InvalidRequestError: ``history`` beside ``initial`` or ``incremental``, or a column would be there twice.
        LimitError: the snapshots of a history would take too much memory.

    """
    base, trigger = parents
    if history and (initial or incremental):
        raise InvalidRequestError(
            "history must not stand beside initial or incremental: it appends a snapshot for each row of the trigger, "
            "with those that are there at the beginning."
        )
    added = added_columns(base, trigger, stamps, trigger.schema.names, "stamp_cols")
    route = route_of(base.traits, trigger.traits)
    if not trigger.is_refreshing:
        base = snapshot([base])
    if history:
        traits = TableTraits(append_only=True, add_only=True, is_flat=True, stated=route)
        return make([base, trigger], "snapshot_when", SnapshotHistory(base.schema, added), traits, name=name)
    kind = StampedSnapshot if incremental else SnapshotWhen
    operator = kind(base.schema, added, initial=initial)
    traits = TableTraits(stated=route)
    return make([base, trigger], "snapshot_when", operator, traits, key_columns=base.key_columns, name=name)
