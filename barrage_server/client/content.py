"""The content of a live table, over any number of streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from barrage_server.client.message_applier import MessageApplier
from barrage_server.client.update import Update
from barrage_server.client.view import View
from barrage_server.engine import (
    ReplicaTable,
    ReplicaUpdate,
    TableUpdate,
    TableVersion,
    UpdateGraph,
    UpdateNode,
    coalesce_nodes,
)
from barrage_server.engine.heap import READ_ROWS
from barrage_server.engine.values import differs, take
from barrage_server.errors import BarrageError, InternalError, SchemaMismatchError, UnavailableError
from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, Window
from barrage_server.wire.metadata import UpdateMetadata
from barrage_server.wire.reader import IncomingMessage
from barrage_server.wire.resume import ResumePoint

__all__ = ["Content", "difference"]


@dataclass(frozen=True, slots=True, eq=False)
class _Origin:
    """The server's version that a replica is a copy of, where a stream can resume.

    Attributes:
        point: lineage and step of the server's table.
        schema: the plain schema of the stream.
        applier: has applied the messages so far.
        node: the replica's place in its own history. The origin is valid only while the replica is there.
    """

    point: ResumePoint
    schema: pa.Schema
    applier: MessageApplier
    node: UpdateNode


class Content:
    """One table as a subscriber sees it, over any number of streams.

    Pure, and not locked: the caller locks.

    While a stream delivers its first snapshot, or one with other columns, the previous content stays in view. Then the
    new content replaces it in one update. The table object stays the same over lost connections; it is replaced when
    the columns change, and between a window and the whole table.

    A stream of a server of this project may resume from the content of an earlier stream. Its first message then is an
    update and not a snapshot.

    Args:
        graph: the update graph for the replicas.
        name: the name of the replicas.
        onto: the replica of an ended subscription. If it has the same columns, the first content is applied to it as a
            difference; its attributes and keys stay.

    Attributes:
        wanted: the window that was requested last; None before the first stream.
        table_size: rows of the whole table on the server.
        step: the server's step of the last message; -1 before.
        resumed: the number of streams that resumed.
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
        self._lineage = ""
        self._earlier: _Origin | None = None  # where the present stream may resume; None from its first message on
        self.table_size = 0
        self.step = -1
        self.resumed = 0

    @property
    def is_complete(self) -> bool:
        """Whether anything is in view yet."""
        return self._table is not None

    @property
    def is_settled(self) -> bool:
        """Whether the content in view is that of the wanted window."""
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
        lineage: str = "",
        resumes: bool = False,
    ) -> None:
        """Begin a new stream.

        Args:
            schema: the plain schema of the stream.
            window: the requested window.
            dialect: the dialect of its viewport messages.
            attributes: table attributes of the stream.
            key_columns: key columns of the stream.
            lineage: the lineage of the table on the server; empty when the server does not tell.
            resumes: whether the request named :meth:`resume_point`.

        Raises:
            SchemaMismatchError: the table has other columns than in the first stream.
        """
        if self._schema is not None and not self._schema.equals(schema):
            raise SchemaMismatchError(
                f"Table '{self._name}' has other columns than when it was subscribed to: {_columns(schema)} instead of "
                f"{_columns(self._schema)}. Subscribe again."
            )
        self._schema = schema
        self._lineage = lineage
        self._earlier = self._origin() if resumes else None
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
        """Apply the next message of the present stream.

        Returns:
            The change of the content in view; None for no change, and for the first content.

        Raises:
            WireFormatError: the message contradicts earlier ones; the stream cannot be used any more.
        """
        if self._applier is None or self.wanted is None:
            raise InternalError("A message came before a stream was begun.")
        earlier, self._earlier = self._earlier, None
        if earlier is not None and not message.metadata.is_snapshot:
            self._resume(earlier, message.metadata)
        applier = self._applier
        if applier.table is self._table:
            applier.table.origin = None  # not valid while the message is applied
        applier.apply(message)
        if applier.table is not self._table:
            if not applier.shows(self.wanted):
                return None
            self._show(applier)
        self.table_size, self.step = applier.table_size, applier.step
        update = self._update(is_snapshot=message.metadata.is_snapshot)
        if self._lineage and self._schema is not None:
            point = ResumePoint(self._lineage, self.step)
            self.table.origin = _Origin(point, self._schema, applier, self.version.node)
        return update

    def resume_point(self, view: View, dialect: Dialect) -> ResumePoint:
        """Return the point that a stream with ``view`` can resume from.

        The point is empty when the stream must begin with a snapshot.
        """
        origin = self._origin()
        if origin is None or origin.applier.dialect is not dialect:
            return ResumePoint()
        try:
            window = view.window(origin.schema, self._name)
        except BarrageError:  # the request fails at the server, unless the table has changed there
            return ResumePoint()
        return origin.point if origin.applier.shows(window) else ResumePoint()

    def _origin(self) -> _Origin | None:
        """The origin of the replica in view, if it is known and still valid."""
        table = self._onto if self._table is None else self._table
        origin = None if table is None else table.origin
        if table is None or not isinstance(origin, _Origin) or origin.node is not table.version.node:
            return None
        return origin

    def _resume(self, earlier: _Origin, metadata: UpdateMetadata) -> None:
        """Resume from the content in view, of which ``metadata`` describes an update."""
        step = earlier.point.step
        if metadata.first_seq > step + 1 or metadata.last_seq < step or self._origin() is not earlier:
            raise UnavailableError("The server went on from another point than the one that is here.")
        self._applier, self._table = earlier.applier, earlier.applier.table
        self.resumed += 1

    def _show(self, applier: MessageApplier) -> None:
        shown, fresh = self._onto if self._table is None else self._table, applier.table
        if shown is not None and shown.schema.equals(fresh.schema) and shown.is_window == fresh.is_window:
            if shown is not self._onto:
                shown.restate(fresh.traits, fresh.key_columns)
            shown.apply(difference(shown.version, fresh.version))
            self._table = shown
        else:
            self._table = fresh
        applier.adopt(self._table)  # whose origin refers to the applier

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
    """Return the update from one version to another with the same columns.

    Rows with the same key in both are compared cell by cell and bit by bit, and modified where they differ. Nulls equal
    nulls; the bytes under them are ignored.
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
    """Find the rows of ``stayed`` that differ in a column, and their new values.

    Reads ``READ_ROWS`` rows at a time, to bound memory.
    """
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
    """Return the row changes of :func:`difference`, without the values."""
    update = difference(before, after)
    nothing = (RowSet.empty(), None)
    modified = tuple(update.modified.get(number, nothing)[0] for number in range(len(after.schema)))
    return TableUpdate(update.added, update.removed, update.shifted, modified)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
