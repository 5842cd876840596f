"""One stream of a page: a window of a table that is followed, or read once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from barrage_server.engine import Table
from barrage_server.errors import BarrageError
from barrage_server.rowset import RowSet
from barrage_server.server.bundled_exchange import BundledExchange
from barrage_server.server.exchange_state import MessageFormat
from barrage_server.server.principal import Principal
from barrage_server.server.server_state import ServerState
from barrage_server.server.stall import StallWatch
from barrage_server.subscription import Dialect
from barrage_server.subscription.feed import Message
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.families import ClientFamily
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.page_messages import (
    UNKNOWN_AGE,
    FrameKind,
    Move,
    Open,
    OpenKind,
    frame,
    schema_frame,
)
from barrage_server.wire.reading import ReadingReport

__all__ = ["PageStream"]

_MOST_UNPAINTED: Final = 2
"""Updates that a page has not acknowledged: one that it paints, and one on its way."""
_FORMAT: Final = MessageFormat(Dialect.FLATTENED, LengthMode.RAGGED, ClientFamily.BROWSER)


class PageStream(BundledExchange):
    """See the module.

    Args:
        server_state: the server's state.
        principal: the caller.
        peer: the client's address.
        stall: the watch over the websocket.
        opening: what the page has asked for.
        deliver: is given frames to write, on the event loop, and must have :meth:`took` called.
        ended: is told, on the event loop, that the stream ends, and why.

    """

    def __init__(
        self,
        server_state: ServerState,
        principal: Principal,
        peer: str,
        stall: StallWatch,
        opening: Open,
        deliver: Callable[[PageStream, list[bytes]], object],
        ended: Callable[[PageStream, BarrageError | None], object],
    ) -> None:
        super().__init__(server_state, principal, peer, _FORMAT, stall)
        self.number: Final = opening.stream
        self._is_once = opening.kind is OpenKind.SNAPSHOT
        self._interval = 0 if opening.interval is None else opening.interval
        self._deliver = deliver
        self._tell_ended = ended
        self._is_settled = False
        self.exchange_state.report(ReadingReport(messages=0, unread=_MOST_UNPAINTED))

    def request(self, window: Open | Move) -> SubscriptionRequest:
        """The request for a window."""
        return SubscriptionRequest(
            b"",
            columns=window.columns,
            viewport=RowSet.from_range(window.first, window.first + window.count - 1),
            options=SubscriptionOptions(columns_as_list=True, min_update_interval_ms=self._interval),
            reverse_viewport=window.reverse,
        )

    def ask(self, window: Open | Move, table: Table) -> None:
        """Follow ``table`` in a window, or move the window. May be called on any thread, one call at a time.

        Raises:
            InvalidRequestError: the window names a column that the table lacks.
            UnknownTableError: the table was dropped meanwhile.

        """
        request = self.request(window)
        was_subscription = self.exchange_state.is_subscription
        self._has_asked = True
        self.exchange_state.serve(request, table)
        self.served(request, table, was_subscription)

    def painted(self, updates: int) -> None:
        """The page has painted so many updates: there may be more."""
        self.exchange_state.report(ReadingReport(messages=updates))
        self.server_state.dispatcher.wake(self.scheduled)

    def pause(self, *, paused: bool) -> None:
        """Have no updates made, or have them made again."""
        self.exchange_state.pause(paused=paused)
        self.server_state.dispatcher.wake(self.scheduled)

    # On a thread of the dispatcher.

    def opening(self) -> bytes:
        """The schema of the batches."""
        return schema_frame(self.number, self.exchange_state.schema)

    def pieces_of(self, message: Message) -> Iterator[bytes]:
        """The frames of an update."""
        age = UNKNOWN_AGE if message.is_snapshot else self._age()
        kind = FrameKind.UPDATE
        for metadata, batch in message.encapsulated():
            yield frame(self.number, kind, age, metadata, batch)
            kind = FrameKind.FURTHER

    def after_turn(self) -> None:
        """End a stream that was for a snapshot and has sent it."""
        if self._is_once:
            self.on_loop(self._end_if_read)

    def _age(self) -> int:
        """Milliseconds since the table changed last, as far as the stream was told."""
        age = self.server_state.clock() - self.scheduled.signal.changed_at
        return UNKNOWN_AGE if age > UNKNOWN_AGE / 1000 else max(0, int(age * 1000))

    # On the event loop.

    def take(self, bundle: list[bytes]) -> None:
        """Have the frames written."""
        if not self._is_settled:
            self._deliver(self, bundle)

    def delivered(self) -> None:
        """The page has taken the frames."""
        self.took()
        if self._is_once:
            self._end_if_read()

    def _end_if_read(self) -> None:
        if self.has_begun and self.is_answered:
            self.settle(None)

    def settle(self, error: BarrageError | None) -> None:
        """End the stream, with that reason."""
        self.make_no_more()
        if not self._is_settled:
            self._is_settled = True
            self._tell_ended(self, error)
