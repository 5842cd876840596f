"""Messages of a subscription, applied to a replica. No socket, thread or clock.

There are two dialects. In *key space* a message has the keys of the whole table and data for the rows in view; the
applier tracks the keys of the whole table, computes the keys in view, and drops rows that leave the view. *Flattened*
messages have positions inside the view; the applier uses them as row keys, and moves rows by shifts. Subscriptions to a
whole table are in key space in both.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from barrage_server.client.cells import Values, merged, picked
from barrage_server.engine import ReplicaTable, ReplicaUpdate, TableTraits, TableUpdate, UpdateGraph
from barrage_server.errors import InternalError, WireFormatError
from barrage_server.rowset import RowSet, RowSetShiftData
from barrage_server.subscription import Dialect, Window
from barrage_server.wire.metadata import UpdateMetadata
from barrage_server.wire.reader import IncomingMessage

__all__ = ["MessageApplier"]

# Rows up to which a view is stored as a window, which is cheap to move.
_MAX_WINDOW: Final = 1 << 20


class MessageApplier:
    """Applies the messages of one stream to a replica.

    Args:
        schema: the plain schema of the whole table.
        window: the first request of the stream. A stream has a viewport for its whole life, or never.
        dialect: the dialect of viewport messages.
        graph: the update graph of the replica.
        name: the name of the replica.
        attributes: table attributes for the replica.
        key_columns: key columns of the table; the replica has those in view.

    Attributes:
        dialect: the dialect of viewport messages.
        window: the window of the last snapshot; None before the first.
        table_size: rows of the whole table.
        step: the server's step of the last message; -1 before, and for tables that never change.
    """

    def __init__(
        self,
        schema: pa.Schema,
        window: Window,
        *,
        dialect: Dialect,
        graph: UpdateGraph,
        name: str,
        attributes: Mapping[str, object] | None = None,
        key_columns: Sequence[str] = (),
    ) -> None:
        self._schema = schema
        self._graph = graph
        self._name = name
        self._traits = TableTraits.of(attributes or {})
        self._keys = tuple(key_columns)
        self.dialect = dialect
        self._flat = dialect is Dialect.FLATTENED and not window.is_full
        self._is_window = window.positions is not None and window.positions.size <= _MAX_WINDOW
        self._whole = RowSet.empty()
        self._columns = self._numbers(window.columns)
        self._made: ReplicaTable | None = self._make_table()
        self._adopted: weakref.ref[ReplicaTable] | None = None
        self.window: Window | None = None
        self.table_size = 0
        self.step = -1

    def shows(self, window: Window) -> bool:
        """Whether the last snapshot was that of ``window``."""
        return (
            self.window is not None
            and self.window.positions == window.positions
            and self.window.columns == window.columns
            and (self.window.reverse == window.reverse or window.is_full)
        )

    @property
    def table(self) -> ReplicaTable:
        """The replica, with the rows and columns in view.

        It is replaced when the columns change.
        """
        table = self._made
        if table is None and self._adopted is not None:
            table = self._adopted()
        if table is None:
            raise InternalError("The replica that messages were applied to is there no more.")
        return table

    def adopt(self, table: ReplicaTable) -> None:
        """Make ``table`` the replica, which has the same rows and columns.

        The caller keeps it: it may refer to this applier, and both are freed with the last other reference to it.
        """
        self._made, self._adopted = None, weakref.ref(table)

    def apply(self, message: IncomingMessage) -> None:
        """Bring the replica up to the message.

        Raises:
            WireFormatError: the message contradicts earlier ones; the stream cannot be used any more.
        """
        metadata = message.metadata
        if metadata.is_snapshot:
            columns = self._numbers(metadata.effective_column_set)
            window = Window(columns, metadata.effective_viewport, metadata.effective_reverse_viewport)
            if columns != self._columns:
                message = self._change_columns(window, message)
            self.window = window
        elif self.window is None:
            raise WireFormatError("The server sent an update before any snapshot.")
        if self._flat:
            self._apply_flattened(message)
            self.table_size = metadata.table_size
        else:
            self._apply_key_space(message, self.window)
            self.table_size = self._whole.size
        self.step = metadata.last_seq

    # Key space.

    def _apply_key_space(self, message: IncomingMessage, window: Window) -> None:
        metadata = message.metadata
        added = metadata.added_rows or RowSet.empty()
        removed = metadata.removed_rows or RowSet.empty()
        shifts = metadata.shift_data or RowSetShiftData.empty()
        modified = self._modified(metadata)
        if window.is_full and not metadata.is_snapshot:
            adds = self._added(message, metadata.included_rows, added)
            self._publish(TableUpdate(added, removed, shifts, modified), adds, self._mods(message, modified))
            self._whole = self.table.version.row_set
            return
        if metadata.is_snapshot:
            # A snapshot adds all rows of the table, or, when the keys are known already, the rows with values only.
            removed, shifts = RowSet.empty(), RowSetShiftData.empty()
        stayed = self._whole - removed
        self._whole = (shifts.apply(stayed) if shifts.size else stayed) | added
        self._move_view(message, window.keys(self._whole), removed, shifts, modified)

    def _move_view(
        self,
        message: IncomingMessage,
        view: RowSet,
        removed: RowSet,
        shifts: RowSetShiftData,
        modified: tuple[RowSet, ...],
    ) -> None:
        """Make ``view`` the rows in view: drop, add and modify rows."""
        held, included = self.table.version.row_set, message.metadata.included_rows
        gone = held & removed
        stayed = held - gone
        moved = shifts.apply(stayed) if shifts.size else stayed
        left = moved - view
        if left:
            moved = moved - left
            unmoved = shifts.unapply(left) if shifts.size else left
            gone, stayed = gone | unmoved, stayed - unmoved
        came = view - moved
        # A server may send rows again that are in view already; their new values count.
        again = included & moved
        mods = self._mods(message, modified)
        for number, rows in enumerate(modified):
            if again or not moved.is_superset(rows):
                fresh = picked(self._adds(message)[number], included, again)
                kept = (rows & moved) - again
                values = picked(mods[number], rows, kept)
                mods[number] = merged(kept, values, again, fresh)
                modified = (*modified[:number], kept | again, *modified[number + 1 :])
        update = TableUpdate(came, gone, shifts.clip(stayed) if shifts.size else shifts, modified)
        self._publish(update, self._added(message, included, came), mods)

    # Flattened.

    def _apply_flattened(self, message: IncomingMessage) -> None:
        metadata = message.metadata
        held = self.table.version.row_set
        added, removed = metadata.added_rows or RowSet.empty(), metadata.removed_rows or RowSet.empty()
        stayed, now = _flattened_move(held, removed, added)
        shifts = RowSetShiftData.between(stayed, now)
        modified = self._modified(metadata)
        mods = self._mods(message, modified)
        for number, rows in enumerate(modified):
            if not rows.is_disjoint(added):
                kept = rows - added
                mods[number] = picked(mods[number], rows, kept)
                modified = (*modified[:number], kept, *modified[number + 1 :])
        self._publish(TableUpdate(added, removed, shifts, modified), self._added(message, added, added), mods)

    # Columns: messages have all columns of the server's table, the replica those in view.

    def _change_columns(self, window: Window, message: IncomingMessage) -> IncomingMessage:
        """Start a replica with the columns of ``window``.

        It begins with the rows in view that ``message`` does not repeat.

        Returns:
            The message to apply to it.
        """
        before, earlier, metadata = self.table.version, self._columns, message.metadata
        self._columns = window.columns
        table = self._made = self._make_table()
        if self._flat:
            kept = before.row_set - (metadata.removed_rows or RowSet.empty())
            rows = RowSet.flat(kept.size)
            message = replace(message, metadata=replace(metadata, removed_rows=RowSet.empty()))
        else:
            whole = self._whole | (metadata.added_rows or RowSet.empty())
            rows = kept = (window.keys(whole) - metadata.included_rows) & before.row_set
        if kept:
            if not set(window.columns).issubset(earlier):
                raise WireFormatError("The server sent no data for columns that came into view.")
            values = before.read(kept, [earlier.index(number) for number in window.columns])
            table.apply(ReplicaUpdate(rows, columns=values))
        return message

    def _numbers(self, columns: tuple[int, ...] | None) -> tuple[int, ...]:
        everything = tuple(range(len(self._schema)))
        if columns is None:
            return everything
        if not set(columns).issubset(everything):
            raise WireFormatError(f"The server speaks of columns {columns}, of {len(everything)}.")
        return tuple(sorted(columns))

    def _make_table(self) -> ReplicaTable:
        schema = pa.schema([self._schema.field(number) for number in self._columns], self._schema.metadata)
        keys = self._keys if set(self._keys).issubset(schema.names) else ()
        return ReplicaTable(
            self._graph,
            self._name,
            schema,
            key_columns=keys,
            traits=self._traits,
            is_window=self._is_window,
        )

    def _adds(self, message: IncomingMessage) -> list[Values]:
        return [message.add_columns[number] for number in self._columns]

    def _added(self, message: IncomingMessage, included: RowSet, wanted: RowSet) -> list[Values]:
        """Pick the values of the rows ``wanted``, all of which the message must have."""
        if not included.is_superset(wanted):
            missing = wanted - included
            raise WireFormatError(f"The server sent no data for {missing.size} rows that came into view: {missing}.")
        columns = self._adds(message)
        if wanted and any(len(values) != included.size for values in columns):
            raise WireFormatError(f"The server sent fewer than {included.size} values of a column that is in view.")
        return [picked(values, included, wanted) for values in columns]

    def _modified(self, metadata: UpdateMetadata) -> tuple[RowSet, ...]:
        nodes = metadata.modified_rows
        if not nodes:
            return (RowSet.empty(),) * len(self._columns)
        if len(nodes) != len(self._schema):
            raise WireFormatError(f"The server sent modifications of {len(nodes)} columns, of {len(self._schema)}.")
        return tuple(nodes[number] for number in self._columns)

    def _mods(self, message: IncomingMessage, modified: tuple[RowSet, ...]) -> list[Values]:
        if not any(modified):
            return [pa.chunked_array([], self._schema.field(number).type) for number in self._columns]
        return [message.mod_columns[number] for number in self._columns]

    def _publish(self, update: TableUpdate, adds: Sequence[Values], mods: Sequence[Values]) -> None:
        if not update.is_empty:
            modified = {number: (rows, mods[number]) for number, rows in enumerate(update.modified) if rows}
            columns = adds if update.added else ()
            self.table.apply(ReplicaUpdate(update.added, update.removed, update.shifted, columns, modified))


def _flattened_move(held: RowSet, removed: RowSet, added: RowSet) -> tuple[RowSet, RowSet]:
    """Where the rows are that stay in a flattened view: positions before and after."""
    if not held.is_superset(removed):
        raise WireFormatError("The server removed positions that are not in view.")
    stayed = held - removed
    view = RowSet.flat(stayed.size + added.size)
    if not view.is_superset(added):
        raise WireFormatError("The server added positions that leave gaps in the view.")
    return stayed, view - added
