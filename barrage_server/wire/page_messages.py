"""What a page sends, over a websocket or a Flight exchange: small JSON objects; and the heads of binary frames to it.

``docs/protocol.md`` describes them all, those of the server included. A message that is none of these is an error, and
so is a field that a message does not have.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Annotated, Final, TypeAlias, get_args

import pyarrow as pa

from barrage_server.errors import WireFormatError
from barrage_server.typed_json import MAY_BE_EMPTY, AtLeast
from barrage_server.wire.json_message import MESSAGES, JsonMessage, parse_object

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
"""The command of the descriptor of a Flight exchange that is a page's."""
PAGE_VERSION: Final = 1
MOST_TEXT_BYTES: Final = 64 << 10
"""Of a text frame from a page."""
UNKNOWN_AGE: Final = (1 << 32) - 1
"""In place of an age: the frame is no news."""

_HEAD: Final = struct.Struct("<IB3xII")
_MOST_STREAM: Final = (1 << 31) - 1
_MOST_ROW: Final = (1 << 53) - 1
"""The largest number that a page counts exactly."""


class OpenKind(StrEnum):
    """What a stream is for: ``follow`` a window of a table, or get one ``snapshot`` of it."""

    FOLLOW = "follow"
    SNAPSHOT = "snapshot"


class ExchangeKind(IntEnum):
    """The first byte of a message to a page over Flight: the rest is a text frame, a binary frame, or the reason of the
    end of the exchange.
    """

    TEXT = 0
    BINARY = 1
    END = 2


class FrameKind(IntEnum):
    """What a binary frame carries: the schema of a stream, an update, or a further record batch of that update."""

    SCHEMA = 0
    UPDATE = 1
    FURTHER = 2


_STREAM = Annotated[int, AtLeast(1, "stream must be 1 or more")]
_COUNT = Annotated[int, AtLeast(0, "a number of rows or updates must be 0 or more")]


@dataclass(frozen=True, slots=True)
class Hello(JsonMessage):
    """The first message. ``version``: of this protocol. ``token``: ``None`` for none; the password of ``user`` with
    one.
    """

    message_name = "hello"

    version: int
    token: str | None = field(default=None, repr=False)
    user: str | None = None


@dataclass(frozen=True, slots=True)
class _Window(JsonMessage):
    """Rows from ``first`` on, counted from the end when ``reverse``; ``columns`` by number, ``None`` for all."""

    stream: _STREAM
    first: _COUNT
    count: _COUNT
    reverse: bool = False
    columns: tuple[int, ...] | None = None

    def check(self) -> None:
        """Raise WireFormatError when a number is larger than a page counts."""
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
    """Picks the rows whose cell in ``column`` is the one that a page writes as ``equals``; ``None``: null."""

    column: str
    equals: Annotated[str, MAY_BE_EMPTY] | None = None


@dataclass(frozen=True, slots=True)
class Plot:
    """Asks for the points of a plot, as the operation ``downsample`` makes them.

    Attributes:
        ys: the columns that are plotted.
        pixels: the width.
        x: the column that they are plotted over; ``None``: the position of rows.
        first: where the range begins, as the text of a number in the unit of the column, or of a time.
        last: where it ends.
        tail_rows: only the last rows, in number.
        tail_x: only the rows so far before the last one.

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
    """Opens a stream about a table, or about what is computed from it.

    Attributes:
        table: its name; ``None`` with a ticket.
        ticket: its Flight ticket, in base64.
        kind: what the stream is for.
        interval: milliseconds between updates; ``None``: the server's default.
        where: conditions that rows must meet, each a formula.
        filters: cells that rows must have.
        sort: the order of the rows, most significant first; empty: the table's.
        plot: the stream is about the points of this plot.

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
        """Raise WireFormatError when a number is larger than a page counts, or it does not say one table."""
        _Window.check(self)
        if (self.table is None) == (self.ticket is None):
            raise WireFormatError("'open' has a table or a ticket, and not both.")
        if self.ticket is not None:
            self.ticket_bytes()

    def ticket_bytes(self) -> bytes:
        """The ticket. WireFormatError when it is not base64."""
        try:
            return base64.b64decode(self.ticket or "", validate=True)
        except (binascii.Error, ValueError):
            raise WireFormatError("ticket must be base64.") from None


@dataclass(frozen=True, slots=True)
class _OfStream(JsonMessage):
    stream: _STREAM


@dataclass(frozen=True, slots=True)
class Pause(_OfStream):
    """Asks for no updates of a stream until :class:`Resume`."""

    message_name = "pause"


@dataclass(frozen=True, slots=True)
class Resume(_OfStream):
    """Asks for updates again: one with all that has happened, then further ones."""

    message_name = "resume"


@dataclass(frozen=True, slots=True)
class Close(_OfStream):
    """Ends a stream."""

    message_name = "close"


@dataclass(frozen=True, slots=True)
class Ack(JsonMessage):
    """``updates`` of a stream were painted since the last of these."""

    message_name = "ack"

    stream: _STREAM
    updates: _COUNT


@dataclass(frozen=True, slots=True)
class CellRequest(JsonMessage):
    """Asks for the whole cell at a position of the stream's table. ``request`` comes back with the answer."""

    message_name = "cell"

    request: int
    stream: _STREAM
    row: _COUNT
    column: _COUNT


@dataclass(frozen=True, slots=True)
class Ping(JsonMessage):
    """Asks for an answer with the same number."""

    message_name = "ping"

    n: int


@dataclass(frozen=True, slots=True)
class Health(JsonMessage):
    """Asks for the state of the server once a second, from now on or (``on`` unset) no more."""

    message_name = "health"

    on: bool


PageMessage: TypeAlias = Health | Hello | Open | Move | Pause | Resume | Close | Ack | CellRequest | Ping
_MESSAGES: Final[dict[str, type[PageMessage]]] = {kind.message_name: kind for kind in get_args(PageMessage)}


def parse_page_message(text: str) -> PageMessage:
    """The message in a text frame.

    Raises:
        WireFormatError: it is none; says what is wrong.

    """
    if len(text) > MOST_TEXT_BYTES:
        raise WireFormatError(f"A message of a page has {MOST_TEXT_BYTES:,} bytes at most.")
    fields = parse_object(text, "a message of a page", is_request=True)
    name = MESSAGES.read(fields.pop("type", None), str, "a message of a page: type")
    kind = _MESSAGES.get(name)
    if kind is None:
        raise WireFormatError(f"A page sends no {name[:50]!r}; there are {', '.join(_MESSAGES)}.")
    return kind.of_fields(fields, f"'{name}'")


def frame(stream: int, kind: FrameKind, age_ms: int, metadata: bytes | None, message: bytes) -> bytes:
    """A binary frame to a page.

    Args:
        stream: the number of the stream.
        kind: what it carries.
        age_ms: milliseconds since the newest change in it; :data:`UNKNOWN_AGE`.
        metadata: the flatbuffer of the update's metadata; ``None`` on all but updates.
        message: an encapsulated Arrow message, which begins at a multiple of 8.

    """
    told = b"" if metadata is None else metadata
    padding = b"\0" * (-len(told) % 8)
    return b"".join((_HEAD.pack(stream, kind, len(told), min(age_ms, UNKNOWN_AGE)), told, padding, message))


def columns_message(stream: int, columns: Sequence[int]) -> str:
    """The text frame before the schema of a stream that has some columns of a wide table only: their numbers there.
    The stream begins anew with it, and numbers these columns from 0.
    """
    return json.dumps({"type": "columns", "stream": stream, "columns": list(columns)}, separators=(",", ":"))


def schema_frame(stream: int, schema: pa.Schema) -> bytes:
    """The first binary frame of a stream."""
    return frame(stream, FrameKind.SCHEMA, UNKNOWN_AGE, None, schema.serialize().to_pybytes())
