"""The requests of one stream, which usually differ from the previous one in their viewport only."""

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
"""Bytes. Longer requests are decoded in full each time, and not kept."""
_MOST_FRAMES: Final = 8
"""Requests that are kept: viewports, and the bytes around them, differ in length from place to place."""


class RequestReader:
    """Decodes the requests of one stream. Of one that moves the viewport only, nothing else is decoded.

    Its other fields are then the same objects as those of the request before.
    """

    __slots__ = ("_frames", "_last")

    def __init__(self) -> None:
        # By the length of the request. Viewports of two lengths may be in requests of one, which are padded.
        self._frames: dict[int, list[_Frame]] = {}
        self._last: SubscriptionRequest | None = None  # that was decoded in full, without its viewport

    def read(self, data: bytes) -> BarrageMessage:
        """The value in app_metadata; raises the errors of :func:`~barrage_server.wire.metadata.decode_message`."""
        for frame in self._frames.get(len(data), ()):
            if frame.is_around(data):
                return frame.request.moved(decode_row_set(data[frame.start : frame.stop]))
        message = decode_message(data)
        if isinstance(message, SubscriptionRequest):
            message = self._known(message)
            self._keep(data, message)
        return message

    def _known(self, message: SubscriptionRequest) -> SubscriptionRequest:
        """The same request, with the fields of the last one that was decoded where only the viewport differs."""
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
    """A request, and its bytes; those of its viewport are from ``start`` to ``stop``."""

    request: SubscriptionRequest
    data: bytes
    start: int
    stop: int

    def is_around(self, data: bytes) -> bool:
        """Whether ``data``, as long as the request, differs from it in the bytes of its viewport only."""
        known, start, stop = self.data, self.start, self.stop
        return data[:start] == known[:start] and data[stop:] == known[stop:]


def _frame(data: bytes, request: SubscriptionRequest) -> _Frame | None:
    """None where the viewport is absent, or shares its bytes with another field, which is legal but useless."""
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
