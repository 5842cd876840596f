"""Frames of ``grpc-websockets-multiplex``: many gRPC streams in one websocket.

Deephaven's JavaScript API uses it. This module is pure: frames to events, and answers to frames. A websocket carries
binary frames that begin with the number of a stream (int32, big-endian). Then follows, from the client (read off
dh-core.js 42.7, and deephaven-core's ``MultiplexedWebsocketTransport``):

- in the first frame the request's headers, as lines ``name: value`` that end in CR LF, with the method in
  ``grpc-websockets-path``;
- in further frames a zero byte and a piece of the grpc-web stream. A message is a zero byte, its length (uint32,
  big-endian) and its bytes, and may be cut anywhere, or share a frame with others;
- in the last frame, with the highest bit of the stream's number set, a byte 1: the client sends no more. It has no
  other way to cancel a call, so that this ends a subscription.

The server sends grpc-web frames with no byte before them: the headers, in a frame of their own (flag 0x80), then
messages, then the trailers (flag 0x80 as well), with the highest bit of the stream's number set. The stream number
0x7fffffff alone announces the end of the server; the client answers with the end of that stream.
"""

from __future__ import annotations

import struct
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from barrage_server.errors import BarrageError, LimitError, MessageTooLargeError, WireFormatError
from barrage_server.server.deephaven.call import Status

__all__ = [
    "GO_AWAY",
    "SUBPROTOCOL",
    "Demultiplexer",
    "Event",
    "GoAwayAcknowledged",
    "HalfClosed",
    "MessageReceived",
    "StreamBroken",
    "StreamOpened",
    "headers_frame",
    "message_frame",
    "trailers_frame",
]

SUBPROTOCOL: Final = "grpc-websockets-multiplex"
"""The name under which a client asks for this protocol in the websocket's handshake."""

_PATH_HEADER: Final = "grpc-websockets-path"
_STREAM: Final = struct.Struct(">I")
_PREFIX: Final = struct.Struct(">BI")
_FRAME: Final = struct.Struct(">IBI")
_END: Final = 0x8000_0000
_GO_AWAY_STREAM: Final = 0x7FFF_FFFF
_TEXT_FLAG: Final = 0x80
_MORE, _FINISH = 0, 1
# Header names begin with a visible character; a lower byte is the kind of the frame.
_FIRST_OF_TEXT: Final = 0x21
# gRPC percent-encodes the text of a status. dh-core.js 42.7 throws on encoded text, and the call then never ends for
# its caller; it cuts the text at a colon or line feed. So no text is sent that needs encoding.
_READABLE: Final = str.maketrans({":": ".", "%": " percent", "~": "-", "\n": " ", "\r": " ", "\t": " "})

GO_AWAY: Final = _STREAM.pack(_GO_AWAY_STREAM)
"""The frame that tells a client to open no more streams."""


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """A call has begun.

    Attributes:
        stream: number of the stream.
        method: full method name with a leading slash.
        headers: headers by lower-case name.

    """

    stream: int
    method: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """One whole message."""

    stream: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class HalfClosed:
    """The client sends no more on this stream."""

    stream: int


@dataclass(frozen=True, slots=True)
class StreamBroken:
    """The client sent invalid bytes on this stream; others are not affected."""

    stream: int
    error: BarrageError


@dataclass(frozen=True, slots=True)
class GoAwayAcknowledged:
    """The client opens no more streams."""


Event = StreamOpened | MessageReceived | HalfClosed | StreamBroken | GoAwayAcknowledged


class Demultiplexer:
    """Parses the frames of one client to events.

    Args:
        message_bytes: most bytes of one message, and of all unfinished messages of all streams.
        header_bytes: most bytes of one call's headers.
        streams: streams open at a time.

    Attributes:
        message_bytes: as above; may be raised later.

    """

    def __init__(self, *, message_bytes: int, header_bytes: int = 64 << 10, streams: int = 1000) -> None:
        self.message_bytes = message_bytes
        self._header_bytes = header_bytes
        self._streams = streams
        self._open: dict[int, bytearray] = {}  # the beginning of a message that has not ended
        self._pending = 0
        self._highest = -1

    @property
    def open(self) -> frozenset[int]:
        """The numbers of the streams on which the client may send."""
        return frozenset(self._open)

    @property
    def pending_bytes(self) -> int:
        """Bytes kept of incomplete messages."""
        return self._pending

    def receive(self, frame: bytes) -> list[Event]:
        """The events of one frame.

        Raises:
            WireFormatError: it is damaged; the websocket cannot be read further.

        """
        if len(frame) <= _STREAM.size:
            raise WireFormatError(f"A frame needs a stream's number and something to say; this one has {len(frame)} B.")
        number = int(_STREAM.unpack_from(frame)[0])
        stream, ends = number & ~_END, bool(number & _END)
        kind = frame[_STREAM.size]
        if stream == _GO_AWAY_STREAM:
            if ends and kind == _FINISH:
                return [GoAwayAcknowledged()]
            raise WireFormatError(f"Stream {stream} is kept for the end of the connection.")
        if kind >= _FIRST_OF_TEXT and not ends:
            return [self._opened(stream, frame)]
        if ends != (kind == _FINISH) or kind not in (_MORE, _FINISH):
            raise WireFormatError(f"A frame of stream {stream} is neither headers, nor a message, nor its end.")
        if ends and len(frame) != _STREAM.size + 1:
            raise WireFormatError(f"The frame that ends stream {stream} carries something else.")
        if stream not in self._open:
            if stream > self._highest:
                raise WireFormatError(f"Stream {stream} begins without headers.")
            return []  # the server had ended it before the client knew
        return self._ended(stream) if ends else self._messages(stream, memoryview(frame)[_STREAM.size + 1 :])

    def forget(self, stream: int) -> None:
        """Ignore further frames of a stream that the server has ended, if it is open."""
        self._pending -= len(self._open.pop(stream, b""))

    def _opened(self, stream: int, frame: bytes) -> Event:
        if stream in self._open:
            raise WireFormatError(f"Stream {stream} is open, and is opened again.")
        if len(frame) - _STREAM.size > self._header_bytes:
            raise WireFormatError(f"The headers of a call may have {self._header_bytes} bytes.")
        headers = _parse_headers(frame[_STREAM.size :])
        path = headers.pop(_PATH_HEADER, "")
        if not path:
            raise WireFormatError(f"The headers of a call need {_PATH_HEADER}: the method that is called.")
        self._highest = max(self._highest, stream)
        if len(self._open) >= self._streams:
            return StreamBroken(
                stream,
                LimitError(f"One connection may have {self._streams} calls open at a time (calls_per_connection)."),
            )
        self._open[stream] = bytearray()
        return StreamOpened(stream, "/" + path.lstrip("/"), headers)

    def _ended(self, stream: int) -> list[Event]:
        if self._open[stream]:
            return [self._broken(stream, WireFormatError("The call's last message was cut short."))]
        self.forget(stream)
        return [HalfClosed(stream)]

    def _messages(self, stream: int, piece: memoryview) -> list[Event]:
        begun = self._open[stream]
        begun += piece
        self._pending += len(piece)
        events: list[Event] = []
        at = 0
        while len(begun) - at >= _PREFIX.size:
            flags, length = _PREFIX.unpack_from(begun, at)
            end = at + _PREFIX.size + length
            if flags:
                return [*events, self._broken(stream, WireFormatError(f"A message has the flags {flags:#04x}."))]
            if length > self.message_bytes:
                return [*events, self._broken(stream, self._too_large(length))]
            if end > len(begun):
                break
            events.append(MessageReceived(stream, bytes(memoryview(begun)[at + _PREFIX.size : end])))
            at = end
        del begun[:at]
        self._pending -= at
        if self._pending > self.message_bytes + _PREFIX.size:
            events.append(self._broken(stream, self._too_large(self._pending)))
        return events

    def _broken(self, stream: int, error: BarrageError) -> Event:
        self.forget(stream)
        return StreamBroken(stream, error)

    def _too_large(self, length: int) -> MessageTooLargeError:
        return MessageTooLargeError(
            f"A message of {length} bytes is more than the {self.message_bytes} that a connection takes at a time "
            f"(message_bytes, and less without credentials); send it in smaller ones."
        )


def headers_frame(stream: int, headers: Sequence[tuple[str, str]]) -> bytes:
    """The response's headers; the first frame of every answer.

    Raises:
        WireFormatError: a header is more than one line.

    """
    return _text_frame(stream, headers)


def message_frame(stream: int, message: bytes) -> bytes:
    """One message, whole."""
    return _FRAME.pack(stream, 0, len(message)) + message


def trailers_frame(stream: int, status: Status) -> bytes:
    """The status of the call; the last frame of every answer."""
    trailers = [("grpc-status", str(status.code))]
    if status.text:
        trailers.append(("grpc-message", _readable(status.text)))
    return _text_frame(stream | _END, trailers)


def _readable(text: str) -> str:
    """Reduce ``text`` to printable ASCII except ``:``, ``%`` and ``~``."""
    plain = unicodedata.normalize("NFKD", text.replace(": ", " - ")).translate(_READABLE)
    kept = "".join(character for character in plain if not unicodedata.combining(character))
    return "".join(character if " " <= character < "~" else "?" for character in kept)


def _text_frame(number: int, headers: Sequence[tuple[str, str]]) -> bytes:
    lines = [f"{name}: {value}" for name, value in headers]
    if any("\r" in line or "\n" in line for line in lines):
        raise WireFormatError("A header must be one line.")
    text = "".join(f"{line}\r\n" for line in lines).encode("latin-1", "replace")
    return _FRAME.pack(number, _TEXT_FLAG, len(text)) + text


def _parse_headers(data: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in data.decode("latin-1").split("\r\n"):
        if not line:
            continue
        name, colon, value = line.partition(":")
        if not colon or not name.strip():
            raise WireFormatError("The headers of a call must be lines of the form 'name: value'.")
        headers.setdefault(name.strip().lower(), value.strip())
    return headers
