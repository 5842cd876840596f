"""Messages of a page over a websocket or a Flight exchange, and frames to a page.

Messages are small JSON objects. Unknown messages and unknown fields are errors. ``docs/protocol.md`` describes all
messages, also of the server.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Annotated, Final, TypeAlias, get_args

import pyarrow as pa

from barrage_server.errors import WireFormatError
from barrage_server.typed_json import MAY_BE_EMPTY, AtLeast
from barrage_server.wire.json_message import MESSAGES, JsonMessage, json_text, parse_object

__all__ = [
    "MOST_TEXT_BYTES",
    "PAGE_COMMAND",
    "PAGE_VERSION",
    "SUBPROTOCOL",
    "UNKNOWN_AGE",
    "Ack",
    "CellFilter",
    "CellRequest",
    "Close",
    "ExchangeKind",
    "FrameKind",
    "Health",
    "Hello",
    "Move",
    "Open",
    "OpenKind",
    "PageMessage",
    "Pause",
    "Ping",
    "Plot",
    "Resume",
    "SortKey",
    "columns_message",
    "frame",
    "parse_page_message",
    "schema_frame",
]

SUBPROTOCOL: Final = "barrage-page.1"
PAGE_COMMAND: Final = b"barrage.page"
"""The command in the descriptor of a page's Flight exchange."""
PAGE_VERSION: Final = 1
MOST_TEXT_BYTES: Final = 64 << 10
"""The most bytes of a text frame from a page."""
UNKNOWN_AGE: Final = (1 << 32) - 1
"""The age of a frame that reports no change."""

_HEAD: Final = struct.Struct("<IB3xII")
_MOST_STREAM: Final = (1 << 31) - 1
_MOST_ROW: Final = (1 << 53) - 1
"""The largest number that a page counts exactly."""


class OpenKind(StrEnum):
    """The purpose of a stream: to ``follow`` a window, or get one ``snapshot`` of it."""

    FOLLOW = "follow"
    SNAPSHOT = "snapshot"


class ExchangeKind(IntEnum):
    """The first byte of a message to a page over Flight.

    The rest is a text frame, a binary frame, or the reason of the end of the exchange.
    """

    TEXT = 0
    BINARY = 1
    END = 2


class FrameKind(IntEnum):
    """The content of a binary frame.

    It is the schema of a stream, an update, or a further record batch of that update.
    """

    SCHEMA = 0
    UPDATE = 1
    FURTHER = 2


_STREAM = Annotated[int, AtLeast(1, "stream must be 1 or more")]
_COUNT = Annotated[int, AtLeast(0, "a number of rows or updates must be 0 or more")]


@dataclass(frozen=True, slots=True)
class Hello(JsonMessage):
    """The first message.

    Attributes:
        version: the version of this protocol.
        token: the token, or the password of ``user``; ``None`` for none.
        user: the user's name; ``None`` for a log-in by token.

    """

    message_name = "hello"

    version: int
    token: str | None = field(default=None, repr=False)
    user: str | None = None


@dataclass(frozen=True, slots=True)
class _Window(JsonMessage):
    """The window of a stream.

    Attributes:
        stream: the number of the stream.
        first: position of the first row.
        count: the number of rows.
        reverse: whether positions count from the end of the table.
        columns: numbers of the columns; ``None`` for all.

    """

    stream: _STREAM
    first: _COUNT
    count: _COUNT
    reverse: bool = False
    columns: tuple[int, ...] | None = None

    def check(self) -> None:
        """Raise WireFormatError for a number that a page cannot count exactly."""
        if self.stream > _MOST_STREAM or max(self.first, self.count) > _MOST_ROW:
            raise WireFormatError("stream must be below 2^31, first and count below 2^53.")


@dataclass(frozen=True, slots=True)
class Move(_Window):
    """Changes the window of a stream."""

    message_name = "move"


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column to sort by."""

    column: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class CellFilter:
    """Selects the rows whose cell in ``column`` a page writes as ``equals``.

    ``None`` selects nulls.
    """

    column: str
    equals: Annotated[str, MAY_BE_EMPTY] | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """Requests the points of a plot, as the operation ``downsample`` makes them.

    Attributes:
        ys: the plotted columns.
        pixels: the width of the plot.
        x: the column of the horizontal axis; ``None`` for the position of rows.
        first: the start of the range, as the text of a number in the unit of ``x``, or of a time.
        last: the end of the range.
        tail_rows: plots this number of last rows only.
        tail_x: plots rows within this distance of ``x`` from the last row only.

    """

    ys: tuple[str, ...]
    pixels: int
    x: str | None = None
    first: str | None = None
    last: str | None = None
    tail_rows: int | None = None
    tail_x: str | None = None


@dataclass(frozen=True, slots=True)
class Open(_Window):
    """Opens a stream of a table, or of a table computed from it.

    Attributes:
        table: the table's name; ``None`` with a ticket.
        ticket: the table's Flight ticket, in base64.
        kind: the purpose of the stream.
        interval: milliseconds between updates; ``None`` for the server's default.
        where: conditions that rows must meet, each a formula.
        filters: cells that rows must have.
        sort: the order of the rows, most significant first; empty for the table's order.
        plot: a plot, whose points are the stream's table.

    """

    message_name = "open"

    table: str | None = None
    ticket: str | None = None
    kind: OpenKind = OpenKind.FOLLOW
    interval: Annotated[int, AtLeast(0, "interval must be 0 or more")] | None = None
    where: tuple[str, ...] = ()
    filters: tuple[CellFilter, ...] = ()
    sort: tuple[SortKey, ...] = ()
    plot: Plot | None = None

    def check(self) -> None:
        """Raise WireFormatError for a number beyond 2^53, or not exactly one table."""
        _Window.check(self)
        if (self.table is None) == (self.ticket is None):
            raise WireFormatError("'open' has a table or a ticket, and not both.")
        if self.ticket is not None:
            self.ticket_bytes()

    def ticket_bytes(self) -> bytes:
        """Decode the ticket; WireFormatError when it is not base64."""
        try:
            return base64.b64decode(self.ticket or "", validate=True)
        except ValueError:
            raise WireFormatError("ticket must be base64.") from None


@dataclass(frozen=True, slots=True)
class _OfStream(JsonMessage):
    stream: _STREAM


@dataclass(frozen=True, slots=True)
class Pause(_OfStream):
    """Stops the updates of a stream until :class:`Resume`."""

    message_name = "pause"


@dataclass(frozen=True, slots=True)
class Resume(_OfStream):
    """Resumes the updates of a stream, with one update of all changes since."""

    message_name = "resume"


@dataclass(frozen=True, slots=True)
class Close(_OfStream):
    """Ends a stream."""

    message_name = "close"


@dataclass(frozen=True, slots=True)
class Ack(JsonMessage):
    """Reports the number of updates of a stream painted since the last report."""

    message_name = "ack"

    stream: _STREAM
    updates: _COUNT


@dataclass(frozen=True, slots=True)
class CellRequest(JsonMessage):
    """Requests a whole cell of the stream's table; the answer repeats ``request``."""

    message_name = "cell"

    request: int
    stream: _STREAM
    row: _COUNT
    column: _COUNT


@dataclass(frozen=True, slots=True)
class Ping(JsonMessage):
    """Requests an answer with the same number."""

    message_name = "ping"

    n: int


@dataclass(frozen=True, slots=True)
class Health(JsonMessage):
    """Starts or stops reports of the server's state, once a second."""

    message_name = "health"

    on: bool


PageMessage: TypeAlias = Health | Hello | Open | Move | Pause | Resume | Close | Ack | CellRequest | Ping
_USUAL_ACK: Final = re.compile(r'\{"type": ?"ack", ?"stream": ?([1-9][0-9]{0,8}), ?"updates": ?(0|[1-9][0-9]{0,8})\}')
"""The most frequent message, as ``JSON.stringify`` and ``json.dumps`` write it."""
_MESSAGES: Final[dict[str, type[PageMessage]]] = {kind.message_name: kind for kind in get_args(PageMessage)}


def parse_page_message(text: str) -> PageMessage:
    """Parse the message in a text frame.

    Raises:
        WireFormatError: it is not a valid message.

    """
    if len(text) > MOST_TEXT_BYTES:
        raise WireFormatError(f"A message of a page has {MOST_TEXT_BYTES:,} bytes at most.")
    ack = _USUAL_ACK.fullmatch(text)
    if ack is not None:
        return Ack(int(ack[1]), int(ack[2]))
    fields = parse_object(text, "a message of a page", is_request=True, broken_texts=True)
    name = MESSAGES.read(fields.pop("type", None), str, "a message of a page: type")
    kind = _MESSAGES.get(name)
    if kind is None:
        raise WireFormatError(f"A page sends no {name[:50]!r}; there are {', '.join(_MESSAGES)}.")
    return kind.of_fields(fields, f"'{name}'")


def frame(stream: int, kind: FrameKind, age_ms: int, metadata: bytes | None, message: bytes) -> bytes:
    """Make a binary frame to a page.

    Args:
        stream: the number of the stream.
        kind: the content of the frame.
        age_ms: milliseconds since the newest change in the frame; :data:`UNKNOWN_AGE` without changes.
        metadata: the flatbuffer of the update's metadata; ``None`` for frames of other kinds.
        message: an encapsulated Arrow message, which begins at a multiple of 8.

    """
    told = b"" if metadata is None else metadata
    padding = b"\0" * (-len(told) % 8)
    return b"".join((_HEAD.pack(stream, kind, len(told), min(age_ms, UNKNOWN_AGE)), told, padding, message))


def columns_message(stream: int, columns: Sequence[int]) -> str:
    """Make the text frame that selects some columns of a wide table for a stream.

    It comes before the schema. The stream restarts with it, and numbers these columns from 0.

    Args:
        stream: the number of the stream.
        columns: the numbers of the columns in the table.

    """
    return json_text({"type": "columns", "stream": stream, "columns": list(columns)})


def schema_frame(stream: int, schema: pa.Schema) -> bytes:
    """Make the first binary frame of a stream."""
    return frame(stream, FrameKind.SCHEMA, UNKNOWN_AGE, None, schema.serialize().to_pybytes())
