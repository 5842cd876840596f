"""The answer to a snapshot request: one message of one version."""

from __future__ import annotations

from barrage_server.engine.version import TableVersion
from barrage_server.rowset import RowSetShiftData
from barrage_server.subscription.feed import TableFeed
from barrage_server.subscription.message import Dialect, EncodedMessage, MessageEncoder
from barrage_server.subscription.window import Window, check_columns
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.metadata import SnapshotRequest, UpdateMetadata

__all__ = ["snapshot_message"]


def snapshot_message(
    feed: TableFeed, request: SnapshotRequest, version: TableVersion, lengths: LengthMode
) -> EncodedMessage:
    """Make the message with the requested rows and columns, as of ``version``.

    Row sets are in key space: ``added_rows`` has the whole table, ``added_rows_included`` the requested rows.

    Raises:
        UnknownColumnError: the request names a column that the table lacks.

    """
    columns = check_columns(request.columns, len(feed.schema))
    window = Window(columns, request.viewport, request.viewport is not None and request.reverse_viewport)
    rows = window.keys(version.row_set)
    metadata = UpdateMetadata(
        first_seq=version.step,
        last_seq=version.step,
        is_snapshot=True,
        effective_viewport=window.positions,
        effective_reverse_viewport=window.reverse,
        effective_column_set=None if request.columns is None else columns,
        added_rows=version.row_set,
        shift_data=RowSetShiftData.empty(),
        added_rows_included=rows,
    )
    encoder = MessageEncoder(feed.schema, feed.view, request.options, Dialect.KEY_SPACE, lengths)
    return encoder.encode(metadata, version, columns, rows, ())
