"""The fast path for answers to viewports that move.

The answer is the message of :func:`~barrage_server.subscription.message.change_message`. The fast path applies where it
is one batch whose metadata differs from that of an earlier answer in a few bytes only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from barrage_server.engine.version import TableVersion
from barrage_server.rowset import RowSet, encode_row_set
from barrage_server.subscription.message import Dialect, EncodedMessage, MessageEncoder, RowSource, change_message
from barrage_server.subscription.window import Window
from barrage_server.wire.metadata import UpdateMetadata
from barrage_server.wire.update_metadata import MovedFrame

__all__ = ["MovedMessage", "ViewportMoves"]

_MOST_FRAMES: Final = 32  # most frames of one subscriber: encoded row sets differ in length
_MOST_SET_BYTES: Final = 64  # most bytes of an encoded row set in a kept frame
# Upper bounds of the bytes of app_metadata: for the message, and for each row.
_METADATA_BYTES: Final = 512
_BYTES_PER_ROW: Final = 16


class ViewportMoves:
    """The answers to one subscriber that moves a viewport of one range.

    Args:
        encoder: the form of the messages.

    """

    def __init__(self, encoder: MessageEncoder) -> None:
        self._encoder = encoder
        writer = encoder.writer
        self._is_usual = (
            encoder.dialect is Dialect.KEY_SPACE and encoder.view.is_plain and writer.sends_values_as_they_are
        )
        self._most_rows = writer.first_batch_rows
        self._columns: tuple[int, ...] | None = None  # the columns of the frames
        self._frames: dict[tuple[int, int], MovedFrame] = {}  # by the lengths of their encoded row sets

    def message(self, old: Window, new: Window, version: TableVersion) -> MovedMessage | None:
        """Make the answer to a subscriber that is up to date in its ``old`` window.

        Returns:
            ``None`` where :func:`~barrage_server.subscription.message.change_message` must make it.

        """
        if not (self._is_usual and new.columns is old.columns and new.is_forward_run and old.is_forward_run):
            return None
        rows = new.keys(version.row_set) - old.keys(version.row_set)
        if not 0 < rows.size <= self._most_rows:
            return None
        if self._columns is not new.columns:
            self._columns, self._frames = new.columns, {}
        return MovedMessage(self._encoder, self._frames, old, new, version.detached(), rows)


class MovedMessage:
    """The answer to one move.

    Methods are those of :class:`~barrage_server.subscription.message.EncodedMessage`.

    Args:
        encoder: the form of the message.
        frames: the frames of the subscriber.
        old: the window before the move.
        new: the window after the move.
        version: the version to read, without later history.
        rows: the rows that the old window lacks.

    """

    __slots__ = ("_encoder", "_frames", "_new", "_old", "_rows", "_version")

    is_snapshot: Final = True

    def __init__(
        self,
        encoder: MessageEncoder,
        frames: dict[tuple[int, int], MovedFrame],
        old: Window,
        new: Window,
        version: TableVersion,
        rows: RowSet,
    ) -> None:
        self._encoder = encoder
        self._frames = frames
        self._old = old
        self._new = new
        self._version = version
        self._rows = rows

    @property
    def metadata(self) -> UpdateMetadata:
        """The decoded metadata of the message."""
        return self._as_change().metadata

    @property
    def row_count(self) -> int:
        """Number of rows with values."""
        return self._rows.size

    def batches(self) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
        """Return the record batch with its ``app_metadata``; several if it is too large."""
        encoder, rows = self._encoder, self._rows
        source = RowSource(self._version, encoder.view, self._new.columns, rows, ())
        arrays = source.read_adds(0, rows.size)
        nbytes = sum([array.get_total_buffer_size() for array in arrays])
        if not encoder.writer.fits(rows.size, nbytes, _METADATA_BYTES + _BYTES_PER_ROW * rows.size):
            return self._as_change().batches()
        return iter(((encoder.writer.batch(arrays, rows.size), self._app_metadata()),))

    def ipc_messages(self) -> Iterator[tuple[bytes, bytes | None, list[Any]]]:
        """Return raw messages."""
        return self._as_change().ipc_messages()

    def flight_data(self) -> Iterator[bytes]:
        """Return serialized ``FlightData``."""
        return self._as_change().flight_data()

    def encapsulated(self) -> Iterator[tuple[bytes | None, bytes]]:
        """Return the messages to web pages."""
        return self._as_change().encapsulated()

    def _app_metadata(self) -> bytes:
        assert self._new.positions is not None
        viewport, added = encode_row_set(self._new.positions), encode_row_set(self._rows)
        place = len(viewport), len(added)
        frame = self._frames.get(place)
        if frame is not None:
            return frame.around(self._version.step, self._version.size, viewport, added)
        data = self.metadata.encode((1, 0))
        if max(place) <= _MOST_SET_BYTES:
            if len(self._frames) >= _MOST_FRAMES:
                self._frames.clear()
            self._frames[place] = MovedFrame(data)
        return data

    def _as_change(self) -> EncodedMessage:
        return change_message(self._encoder, self._old, self._new, self._version)
