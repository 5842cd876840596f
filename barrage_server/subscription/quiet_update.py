"""Updates to a viewport in which nothing has changed.

They are the most frequent ones of a large table that ticks. Each is the message of
:func:`~barrage_server.subscription.message.update_message`, made by a shorter path: a batch without rows, and metadata
that differs from that of an earlier one in a few bytes only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from barrage_server.engine.update import TableUpdate
from barrage_server.engine.version import TableVersion
from barrage_server.rowset import RowSet, encode_row_set
from barrage_server.subscription.message import (
    Dialect,
    EncodedMessage,
    MessageEncoder,
    encapsulated_messages,
    update_message,
)
from barrage_server.subscription.window import Window
from barrage_server.wire.metadata import UpdateMetadata
from barrage_server.wire.raw import encode_flight_data
from barrage_server.wire.update_metadata import QuietFrame
from barrage_server.wire.wrapper import unwrap

__all__ = ["QuietMessage", "QuietUpdates", "keeps_view"]

_MOST_FRAMES: Final = 8  # most frames of one subscriber: encoded row sets differ in length
_MOST_SET_BYTES: Final = 64  # most bytes of an encoded row set in a kept frame
_NO_ROWS: Final = encode_row_set(RowSet.empty())


def keeps_view(
    encoder: MessageEncoder, window: Window, update: TableUpdate, before: RowSet, version: TableVersion
) -> bool:
    """Whether ``update`` changes neither the rows in view nor their values.

    ``False`` as well for updates that remove rows or shift them: to find out would take long.

    Args:
        encoder: the form of the messages.
        window: the subscriber's window; a full subscription sees every change.
        update: all changes since the subscriber's point in the history.
        before: the row set at that point.
        version: the version after the changes.

    """
    if window.is_full or update.removed or update.shifted.size:
        return False
    view = window.keys(version.row_set)
    if update.added and view != window.keys(before):
        return False
    modified = encoder.modified(update)
    seen: RowSet | None = None
    for number in window.columns:
        rows = modified[number]
        if rows is not seen and rows and not rows.is_disjoint(view):
            return False
        seen = rows
    return True


class QuietUpdates:
    """The updates to one subscriber that leave its viewport as it was.

    Args:
        encoder: the form of the messages.

    """

    def __init__(self, encoder: MessageEncoder) -> None:
        self._encoder = encoder
        self._names_rows = encoder.dialect is Dialect.KEY_SPACE  # whether messages name added rows out of view
        self._frames: dict[tuple[bool, int], QuietFrame] = {}  # by the direction, and the length of the added rows

    def message(
        self, window: Window, update: TableUpdate, before: RowSet, first_step: int, version: TableVersion
    ) -> QuietMessage | EncodedMessage:
        """Make the message about an update that leaves the view as it was.

        Args:
            window: the viewport.
            update: the changes, of which :func:`keeps_view` holds.
            before: the row set before them.
            first_step: the first step of the changes.
            version: the version after them.

        """
        added = encode_row_set(update.added) if update.added and self._names_rows else _NO_ROWS
        place = (window.reverse, len(added))
        frame = self._frames.get(place)
        if frame is None:
            message = update_message(self._encoder, window, update, before, first_step, version)
            if len(added) > _MOST_SET_BYTES:
                return message
            if len(self._frames) >= _MOST_FRAMES:
                self._frames.clear()
            frame = self._frames[place] = QuietFrame(message.metadata.encode((0, 0)))
        return QuietMessage(self._encoder, frame.around(first_step, version.step, version.size, added))


class QuietMessage:
    """A message without rows.

    Methods are those of :class:`~barrage_server.subscription.message.EncodedMessage`.
    """

    __slots__ = ("_app_metadata", "_encoder")

    is_snapshot: Final = False
    row_count: Final = 0

    def __init__(self, encoder: MessageEncoder, app_metadata: bytes) -> None:
        self._encoder = encoder
        self._app_metadata = app_metadata

    @property
    def metadata(self) -> UpdateMetadata:
        """The decoded metadata of the message."""
        return UpdateMetadata.decode_payload(unwrap(self._app_metadata)[1])

    def batches(self) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        """Return the record batch with its ``app_metadata``."""
        return iter(((self._encoder.writer.batch_without_rows(), self._app_metadata),))

    def ipc_messages(self) -> Iterator[tuple[bytes, bytes | None, list[Any]]]:
        """Return raw messages."""
        header, body = self._encoder.writer.ipc_without_rows()
        return iter(((header, self._app_metadata, body),))

    def flight_data(self) -> Iterator[bytes]:
        """Yield serialized ``FlightData``."""
        for header, app_metadata, body in self.ipc_messages():
            yield encode_flight_data(header, app_metadata, body)

    def encapsulated(self) -> Iterator[tuple[bytes | None, bytes]]:
        """Return the messages to web pages."""
        return encapsulated_messages(self.ipc_messages())
