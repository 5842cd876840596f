"""Conversion of published Barrage updates to updates of a replica."""

from __future__ import annotations

from barrage_server.engine import ReplicaTable, ReplicaUpdate
from barrage_server.errors import WireFormatError
from barrage_server.rowset import RowSet, RowSetShiftData
from barrage_server.wire.reader import IncomingMessage

__all__ = ["replica_update"]


def replica_update(table: ReplicaTable, message: IncomingMessage) -> ReplicaUpdate:
    """The update of ``table`` that ``message`` describes.

    A snapshot replaces the content.

    Raises:
        WireFormatError: the message has values of some of its rows only, as for a viewport; a publication covers whole
            tables.
    """
    metadata = message.metadata
    added = metadata.added_rows if metadata.added_rows is not None else RowSet.empty()
    if metadata.added_rows_included is not None and metadata.added_rows_included != added:
        raise WireFormatError(
            f"A publication must carry all rows that it adds: {added.size} are named, and "
            f"{metadata.added_rows_included.size} come with values."
        )
    for number, values in enumerate(message.add_columns):
        if added and len(values) != added.size:
            raise WireFormatError(
                f"A publication must carry all columns: {added.size} rows are added, and column "
                f"'{table.schema.names[number]}' has {len(values)} values."
            )
    modified = {
        number: (rows, values)
        for number, (rows, values) in enumerate(zip(metadata.modified_rows or (), message.mod_columns, strict=False))
        if rows
    }
    if metadata.is_snapshot:
        return ReplicaUpdate(added=added, removed=table.version.row_set, columns=message.add_columns)
    return ReplicaUpdate(
        added=added,
        removed=metadata.removed_rows if metadata.removed_rows is not None else RowSet.empty(),
        shifted=metadata.shift_data if metadata.shift_data is not None else RowSetShiftData.empty(),
        columns=message.add_columns,
        modified=modified,
    )
