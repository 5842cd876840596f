"""The answer to a viewport that moves: the most frequent message of a table that is scrolled through.

It is the message of :func:`~barrage_server.subscription.message.change_message`, made by a shorter path where it is one
batch whose metadata differs from that of an earlier answer in a few bytes only.
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

_MOST_FRAMES: Final = 32  # of one subscriber: encoded row sets differ in length from place to place
_MOST_SET_BYTES: Final = 64  # of an encoded row set in a frame that is kept
# Bounds in bytes of app_metadata: of the message, and of each row.
_METADATA_BYTES: Final = 512
_BYTES_PER_ROW: Final = 16


class ViewportMoves:
    """The answers to one subscriber whose viewport, one range of positions, moves.

    Args:
        encoder: how messages are written.

    """

    def __init__(self, encoder: MessageEncoder) -> None:
        self._encoder = encoder
        writer = encoder.writer
        self._is_usual = (
            encoder.dialect is Dialect.KEY_SPACE and encoder.view.is_plain and writer.sends_values_as_they_are
        )
        self._most_rows = writer.first_batch_rows
        self._columns: tuple[int, ...] | None = None  # of the frames
        self._frames: dict[tuple[int, int], MovedFrame] = {}  # by the lengths of their row sets, encoded

    def message(self, old: Window, new: Window, version: TableVersion) -> MovedMessage | None:
        """The answer to a subscriber that is up to date with ``version`` in its ``old`` window; ``None`` where
        :func:`~barrage_server.subscription.message.change_message` must make it.
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
    """The answer to one move; see :class:`~barrage_server.subscription.message.EncodedMessage`."""

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
        """``rows``: the rows that the old window lacks. ``version``: without the later history."""
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
        """The record batch with its ``app_metadata``; several where it would be too large."""
        encoder, rows = self._encoder, self._rows
        source = RowSource(self._version, encoder.view, self._new.columns, rows, ())
        arrays = source.read_adds(0, rows.size)
        nbytes = sum([array.get_total_buffer_size() for array in arrays])
        if not encoder.writer.fits(rows.size, nbytes, _METADATA_BYTES + _BYTES_PER_ROW * rows.size):
            return self._as_change().batches()
        return iter(((encoder.writer.batch(arrays, rows.size), self._app_metadata()),))

    def ipc_messages(self) -> Iterator[tuple[bytes, bytes | None, list[Any]]]:
        """The same as raw messages."""
        return self._as_change().ipc_messages()

    def flight_data(self) -> Iterator[bytes]:
        """The same as serialized ``FlightData``."""
        return self._as_change().flight_data()

    def encapsulated(self) -> Iterator[tuple[bytes | None, bytes]]:
        """The same for web pages; see :func:`~barrage_server.subscription.message.encapsulated_messages`."""
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
