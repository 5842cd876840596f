"""What a live table shows: the replica of its present stream, kept steady while streams and columns change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from barrage_server.client.message_applier import MessageApplier
from barrage_server.client.update import Update
from barrage_server.engine import ReplicaTable, ReplicaUpdate, TableUpdate, TableVersion, UpdateGraph, coalesce_nodes
from barrage_server.engine.heap import READ_ROWS
from barrage_server.engine.values import differs, take
from barrage_server.errors import InternalError, SchemaMismatchError
from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, Window
from barrage_server.wire.reader import IncomingMessage

__all__ = ["Content", "difference"]


class Content:
    """One table as a subscriber sees it, over any number of streams. Pure, and not locked: the caller locks.

    While a stream delivers its first snapshot, or one with other columns, the previous content stays in view. Then the
    new content replaces it in one update. The table object stays the same over lost connections; it is replaced when
    the columns change, and between a window and the whole table.

    Args:
        graph: the update graph for the replicas.
        name: the name of the replicas.
        onto: the replica of an ended subscription: the first content is applied to it as a difference, if it has the
            same columns. Its attributes and keys stay.
    """

    def __init__(self, graph: UpdateGraph, name: str, onto: ReplicaTable | None = None) -> None:
        self._graph = graph
        self._name = name
        self._onto = onto
        self._applier: MessageApplier | None = None
        self._table: ReplicaTable | None = None
        self._shown: ReplicaTable | None = None  # the table of the last update
        self._version: TableVersion | None = None
        self._schema: pa.Schema | None = None
        self.wanted: Window | None = None
        self.table_size = 0
        self.step = -1

    @property
    def is_complete(self) -> bool:
        """Whether anything is in view yet."""
        return self._table is not None

    @property
    def is_settled(self) -> bool:
        """Whether what is in view is what is wanted now."""
        applier = self._applier
        return (
            applier is not None
            and self.wanted is not None
            and applier.table is self._table
            and applier.shows(self.wanted)
        )

    @property
    def table(self) -> ReplicaTable:
        """The replica in view; InternalError before :attr:`is_complete`."""
        if self._table is None:
            raise InternalError("The first snapshot is not complete yet.")
        return self._table

    @property
    def version(self) -> TableVersion:
        """The version in view."""
        return self.table.version

    def begin(
        self,
        schema: pa.Schema,
        window: Window,
        dialect: Dialect,
        *,
        attributes: Mapping[str, object] | None = None,
        key_columns: Sequence[str] = (),
    ) -> None:
        """Begin a new stream, which has requested ``window``.

        Args:
            schema: the plain schema of the stream.
            window: the requested window.
            dialect: the dialect of its viewport messages.
            attributes: table attributes of the stream.
            key_columns: key columns of the stream.

        Raises:
            SchemaMismatchError: the table has other columns than in the first stream.
        """
        if self._schema is not None and not self._schema.equals(schema):
            raise SchemaMismatchError(
                f"Table '{self._name}' has other columns than when it was subscribed to: {_columns(schema)} instead of "
                f"{_columns(self._schema)}. Subscribe again."
            )
        self._schema = schema
        self.wanted = window
        self._applier = MessageApplier(
            schema,
            window,
            dialect=dialect,
            graph=self._graph,
            name=self._name,
            attributes=attributes,
            key_columns=key_columns,
        )

    def apply(self, message: IncomingMessage) -> Update | None:
        """Take the next message of the present stream.

        Returns:
            What it changed of what is in view; None when that is nothing, or the first content.

        Raises:
            WireFormatError: the message contradicts the ones before; the stream is of no use any more.
        """
        applier = self._applier
        if applier is None or self.wanted is None:
            raise InternalError("A message came before a stream was begun.")
        applier.apply(message)
        if applier.table is not self._table:
            if not applier.shows(self.wanted):
                return None
            self._show(applier)
        self.table_size, self.step = applier.table_size, applier.step
        return self._update(is_snapshot=message.metadata.is_snapshot)

    def _show(self, applier: MessageApplier) -> None:
        shown, fresh = self._onto if self._table is None else self._table, applier.table
        if shown is not None and shown.schema.equals(fresh.schema) and shown.is_window == fresh.is_window:
            if shown is not self._onto:
                shown.restate(fresh.traits, fresh.key_columns)
            shown.apply(difference(shown.version, fresh.version))
            applier.adopt(shown)
            self._table = shown
        else:
            self._table = fresh

    def _update(self, *, is_snapshot: bool) -> Update | None:
        before, after = self._version, self.version
        self._version = after
        if before is None or before is after:
            self._shown = self._table
            return None
        if not before.schema.equals(after.schema):
            self._shown = self._table
            return Update.of_other_columns(before.detached(), after.detached(), step=self.step)
        change = coalesce_nodes(before.node, after.node) if self._shown is self._table else _change(before, after)
        self._shown = self._table
        if change.is_empty:
            return None
        return Update(before.detached(), after.detached(), change, is_snapshot=is_snapshot, step=self.step)


def difference(before: TableVersion, after: TableVersion) -> ReplicaUpdate:
    """The update that turns the content of one table into that of another with the same columns.

    Rows with the same key in both are compared, cell by cell and bit by bit, and modified where they differ. Nulls
    equal nulls; bytes under them are ignored.
    """
    stayed = before.row_set & after.row_set
    added = after.row_set - stayed
    modified: dict[int, tuple[RowSet, pa.Array]] = {}
    if stayed:
        for number in range(len(after.schema)):
            rows, values = _changed(before, after, stayed, number)
            if rows:
                modified[number] = (rows, values)
    return ReplicaUpdate(added, before.row_set - stayed, columns=after.read(added) if added else (), modified=modified)


def _changed(before: TableVersion, after: TableVersion, stayed: RowSet, number: int) -> tuple[RowSet, pa.ChunkedArray]:
    """Which of the rows that stayed differ in a column, and their values. Read in parts, as one may be too large."""
    found: list[RowSet] = []
    values: list[pa.Array] = []
    for start in range(0, stayed.size, READ_ROWS):
        part = stayed.slice(start, start + READ_ROWS)
        old, new = before.read(part, (number,))[0], after.read(part, (number,))[0]
        changed = np.flatnonzero(differs(old, new))
        if len(changed):
            found.append(RowSet.from_sorted_keys(part.select(changed)))
            values.append(take(new, changed))
    return RowSet.union_all(found), pa.chunked_array(values, after.schema.field(number).type)


def _change(before: TableVersion, after: TableVersion) -> TableUpdate:
    """The row changes of :func:`difference`, without the values."""
    update = difference(before, after)
    nothing = (RowSet.empty(), None)
    modified = tuple(update.modified.get(number, nothing)[0] for number in range(len(after.schema)))
    return TableUpdate(update.added, update.removed, update.shifted, modified)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
