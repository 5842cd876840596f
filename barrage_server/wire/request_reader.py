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


class RequestReader:
    """Decodes the requests of one stream. Of one that moves the viewport of the last, it decodes the viewport only."""

    __slots__ = ("_frame",)

    def __init__(self) -> None:
        self._frame: _Frame | None = None

    def read(self, data: bytes) -> BarrageMessage:
        """The value in app_metadata; raises the errors of :func:`~barrage_server.wire.metadata.decode_message`."""
        frame = self._frame
        if frame is not None and frame.is_around(data):
            return frame.request.moved(decode_row_set(data[frame.start : frame.stop]))
        message = decode_message(data)
        self._frame = _frame(data, message) if isinstance(message, SubscriptionRequest) else None
        return message


@dataclass(frozen=True, slots=True)
class _Frame:
    """A request, and its bytes; those of its viewport are from ``start`` to ``stop``."""

    request: SubscriptionRequest
    data: bytes
    start: int
    stop: int

    def is_around(self, data: bytes) -> bool:
        """Whether ``data`` differs from the request in the bytes of its viewport only."""
        known, start, stop = self.data, self.start, self.stop
        return len(data) == len(known) and data[:start] == known[:start] and data[stop:] == known[stop:]


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
