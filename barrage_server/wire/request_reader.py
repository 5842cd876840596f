"""Decoding the requests of one stream, most of which move the viewport only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from barrage_flatbuf.BarrageMessageType import BarrageMessageType

from barrage_server.errors import WireFormatError
from barrage_server.rowset import RowSet, decode_row_set
from barrage_server.wire.metadata import BarrageMessage, decode_message
from barrage_server.wire.requests import SubscriptionRequest, viewport_span
from barrage_server.wire.wrapper import unwrap

__all__ = ["RequestReader"]

_MOST_BYTES: Final = 1 << 12
"""The most bytes of a request that is kept; longer ones are always decoded in full."""
_MOST_FRAMES: Final = 8
"""The most requests that are kept: encoded viewports differ in length."""


class RequestReader:
    """Decodes the requests of one stream.

    Of a request that moves the viewport only, nothing else is decoded; its other fields are the objects of the previous
    request.
    """

    __slots__ = ("_frames", "_last")

    def __init__(self) -> None:
        # By the length of the request. Because of padding, requests of one length may have viewports of two.
        self._frames: dict[int, list[_Frame]] = {}
        self._last: SubscriptionRequest | None = None  # the last one decoded in full, without its viewport

    def read(self, data: bytes) -> BarrageMessage:
        """Decode app_metadata. Raises what :func:`decode_message` does."""
        for frame in self._frames.get(len(data), ()):
            if frame.is_around(data):
                return frame.request.moved(decode_row_set(data[frame.start : frame.stop]))
        message = decode_message(data)
        if isinstance(message, SubscriptionRequest):
            message = self._known(message)
            self._keep(data, message)
        return message

    def _known(self, message: SubscriptionRequest) -> SubscriptionRequest:
        """Reuse the fields of the last request where only the viewport differs."""
        last = self._last
        if last is not None and message.viewport is not None and last.moved(message.viewport) == message:
            return last.moved(message.viewport)
        self._last = message.moved(RowSet.EMPTY)
        return message

    def _keep(self, data: bytes, message: SubscriptionRequest) -> None:
        frame = _frame(data, message)
        if frame is not None:
            if sum(map(len, self._frames.values())) >= _MOST_FRAMES:
                self._frames.clear()
            self._frames.setdefault(len(data), []).append(frame)


@dataclass(frozen=True, slots=True)
class _Frame:
    """A request and its bytes, with the viewport from ``start`` to ``stop``."""

    request: SubscriptionRequest
    data: bytes
    start: int
    stop: int

    def is_around(self, data: bytes) -> bool:
        """Whether ``data``, of the same length, differs in the viewport only."""
        known, start, stop = self.data, self.start, self.stop
        return data[:start] == known[:start] and data[stop:] == known[stop:]


def _frame(data: bytes, request: SubscriptionRequest) -> _Frame | None:
    """Make the frame of a request, if the viewport is present and shares no bytes."""
    if request.viewport is None or len(data) > _MOST_BYTES:
        return None
    start, stop = viewport_span(data)
    still = request.moved(RowSet.EMPTY)
    for byte in (b"\x00", b"\xff"):
        try:
            kind, changed = unwrap(data[:start] + byte * (stop - start) + data[stop:])
            if kind != BarrageMessageType.BarrageSubscriptionRequest:
                return None
            if SubscriptionRequest.decode_payload(changed, viewport=RowSet.EMPTY) != still:
                return None
        except WireFormatError:
            return None
    return _Frame(request, data, start, stop)
