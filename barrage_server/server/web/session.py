"""The protocol state of one page: its open streams, and the valid messages.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from barrage_server.errors import LimitError, WireFormatError
from barrage_server.server.limits import Limits
from barrage_server.wire.page_messages import (
    PAGE_VERSION,
    Health,
    Hello,
    Move,
    Open,
    PageMessage,
    Ping,
    parse_page_message,
)

__all__ = ["PageLimits", "PageSession"]


@dataclass(frozen=True, slots=True)
class PageLimits:
    """The limits of one page.

    Attributes:
        streams: most streams at a time.
        rows: most rows in view of one stream.
        columns: most columns in view of one stream.
        cells: most cells in view of all streams.
    """

    streams: int = 16
    rows: int = 10_000
    columns: int = 500
    cells: int = 100_000

    @classmethod
    def of(cls, limits: Limits) -> PageLimits:
        """The limits of a page, among those of a server."""
        return cls(limits.page_streams, limits.page_rows, limits.page_columns, limits.page_cells)


class PageSession:
    """Reads the messages of one page, in order.

    An invalid message, or one at the wrong time, is an error that ends the connection. Exceeding a limit is a
    LimitError of one stream alone.

    Args:
        limits: the limits of the page.
    """

    def __init__(self, limits: PageLimits) -> None:
        self.limits = limits
        self._has_greeted = False
        self._last = 0  # the highest number of a stream so far
        self._cells: dict[int, int] = {}  # in view, by stream

    @property
    def streams(self) -> int:
        """The number of open streams."""
        return len(self._cells)

    def receive(self, text: str) -> PageMessage | None:
        """Parse a message of the page.

        Returns:
            The message; ``None`` for a message to a stream that has ended, which the page may not know yet.

        Raises:
            WireFormatError: the message is invalid, or invalid now; the connection must end.
        """
        message = parse_page_message(text)
        if isinstance(message, Hello):
            if self._has_greeted:
                raise WireFormatError("There is one 'hello', at the beginning.")
            if message.version != PAGE_VERSION:
                raise WireFormatError(
                    f"This server speaks version {PAGE_VERSION} of the protocol, and the page {message.version}. "
                    f"Reload the page."
                )
            self._has_greeted = True
            return message
        if not self._has_greeted:
            raise WireFormatError("The first message is 'hello'.")
        if isinstance(message, Open):
            if message.stream <= self._last:
                raise WireFormatError("A stream has a higher number than those before it.")
            self._last = message.stream
        elif not isinstance(message, Ping | Health):
            if message.stream > self._last:
                raise WireFormatError(f"Stream {message.stream} was never opened.")
            if message.stream not in self._cells:
                return None
        return message

    def begin(self, stream: int) -> None:
        """Count a stream that opens, with nothing in view.

        Raises:
            LimitError: the page may open no further one.
        """
        if len(self._cells) >= self.limits.streams:
            raise LimitError(f"One page has {self.limits.streams:,} streams at most (page_streams); close one.")
        self._cells[stream] = 0

    def look(self, message: Open | Move, columns: int) -> None:
        """Count the cells in view of a stream.

        Args:
            message: the window of the stream.
            columns: columns of the table.

        Raises:
            LimitError: there are too many; nothing has changed.
        """
        limits = self.limits
        width = columns if message.columns is None else len(message.columns)
        if message.count > limits.rows:
            raise LimitError(f"A stream shows {limits.rows:,} rows at most (page_rows), not {message.count:,}.")
        if width > limits.columns:
            raise LimitError(f"A stream shows {limits.columns:,} columns at most (page_columns), not {width:,}.")
        cells = message.count * width
        others = sum(self._cells.values()) - self._cells.get(message.stream, 0)
        if others + cells > limits.cells:
            raise LimitError(f"A page shows {limits.cells:,} cells at most (page_cells), not {others + cells:,}.")
        self._cells[message.stream] = cells

    def ended(self, stream: int) -> None:
        """Forget a stream that has ended."""
        self._cells.pop(stream, None)
