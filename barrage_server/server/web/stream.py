"""One stream of a page: a window of a table that is followed, or read once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeVarTuple

from barrage_server.engine import Table
from barrage_server.errors import BarrageError
from barrage_server.rowset import RowSet
from barrage_server.server.bundled_exchange import BundledExchange
from barrage_server.server.exchange_state import ExchangeState, MessageFormat
from barrage_server.server.loop_calls import LoopCalls
from barrage_server.server.principal import Principal
from barrage_server.server.server_state import ServerState
from barrage_server.server.stall import StallWatch
from barrage_server.subscription import Dialect
from barrage_server.subscription.feed import Message
from barrage_server.subscription.window import check_columns
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.families import ClientFamily
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.page_messages import (
    UNKNOWN_AGE,
    FrameKind,
    Move,
    Open,
    OpenKind,
    columns_message,
    frame,
    schema_frame,
)
from barrage_server.wire.reading import ReadingReport

__all__ = ["PageStream"]

Arguments = TypeVarTuple("Arguments")

_MOST_UNPAINTED: Final = 2
"""Most updates that a page has not acknowledged: one that it paints, and one on its way."""
_WIDE: Final = 64
"""Most columns of a table whose stream numbers all columns."""
_FORMAT: Final = MessageFormat(Dialect.FLATTENED, LengthMode.RAGGED, ClientFamily.BROWSER)


class PageStream(BundledExchange[bytes | str]):
    """One stream of a page: a window of a table, followed or read once.

    Args:
        server_state: the server's state.
        principal: the caller.
        peer: the client's address.
        stall: the watch over the client's progress in taking frames.
        calls: schedules calls on the event loop of the pages.
        opening: the request of the page.
        deliver: called on the event loop with frames to write; :meth:`took` must be called for them.
        ended: called on the event loop when the stream ends, with the reason.
    """

    def __init__(
        self,
        server_state: ServerState,
        principal: Principal,
        peer: str,
        stall: StallWatch,
        calls: LoopCalls,
        opening: Open,
        deliver: Callable[[PageStream, list[bytes | str]], object],
        ended: Callable[[PageStream, BarrageError | None], object],
    ) -> None:
        super().__init__(server_state, principal, peer, _FORMAT, stall)
        self.number: Final = opening.stream
        self._calls = calls
        self._is_once = opening.kind is OpenKind.SNAPSHOT
        self._interval = 0 if opening.interval is None else opening.interval
        self._deliver = deliver
        self._tell_ended = ended
        self._is_settled = False
        self.exchange_state.report(ReadingReport(messages=0, unread=_MOST_UNPAINTED))
        self._latest = self.exchange_state  # of the last request; an earlier one may have messages to send
        self._chosen: tuple[int, ...] | None = None
        self._is_paused = False
        self._told_at = -math.inf  # the time of the newest change in the last message

    @property
    def table(self) -> Table | None:
        """The table of the stream; ``None`` before the first request."""
        return self._latest.table

    def request(self, window: Open | Move, columns: tuple[int, ...] | None) -> SubscriptionRequest:
        """The request for a window, and for columns by their numbers in the stream."""
        return SubscriptionRequest(
            b"",
            columns=columns,
            viewport=RowSet.from_range(window.first, window.first + window.count - 1),
            options=SubscriptionOptions(columns_as_list=True, min_update_interval_ms=self._interval),
            reverse_viewport=window.reverse,
        )

    def ask(self, window: Open | Move, table: Table) -> None:
        """Follow ``table`` in a window, or move the window.

        May be called on any thread, one call at a time.

        Raises:
            InvalidRequestError: the window names a column that the table lacks.
            UnknownTableError: the table was dropped meanwhile.
        """
        self._has_asked = True
        columns = window.columns
        if len(table.schema) <= _WIDE:
            self._follow(self.exchange_state, self.request(window, columns), table)
            return
        # For the stream, a wide table has only the columns in view: each message would name all others.
        columns = check_columns(columns, len(table.schema))
        request = self.request(window, None)
        if columns == self._chosen:
            self._follow(self._latest, request, table)
            return
        self._chosen = columns
        state = ExchangeState(self.server_state, self.scheduled, replace(_FORMAT, columns=columns))
        state.report(ReadingReport(messages=0, unread=_MOST_UNPAINTED))
        state.pause(paused=self._is_paused)
        self._latest = state
        try:
            self._follow(state, request, table)
        except BaseException:
            state.close()
            raise
        self.replace(state)

    def _follow(self, state: ExchangeState, request: SubscriptionRequest, table: Table) -> None:
        was_subscription = state.is_subscription
        state.serve(request, table)
        self.served(request, table, was_subscription)

    def painted(self, updates: int) -> None:
        """Note that the page has painted ``updates`` updates: it may get more."""
        if self._latest.report(ReadingReport(messages=updates)):
            self.server_state.dispatcher.wake(self.scheduled)

    def pause(self, *, paused: bool) -> None:
        """Pause or resume the making of updates."""
        self._is_paused = paused
        self._latest.pause(paused=paused)
        self.server_state.dispatcher.wake(self.scheduled)

    # On a thread of the dispatcher.

    def opening(self) -> list[bytes | str]:
        """The numbers of the batches' columns if these are a part, and the schema."""
        columns = self.exchange_state.columns
        told = [] if columns is None else [columns_message(self.number, columns)]
        return [*told, schema_frame(self.number, self.exchange_state.schema)]

    def pieces_of(self, message: Message) -> Iterator[bytes | str]:
        """The frames of an update."""
        age = self._age()
        if message.is_snapshot:
            age = UNKNOWN_AGE
        kind = FrameKind.UPDATE
        for metadata, batch in message.encapsulated():
            yield frame(self.number, kind, age, metadata, batch)
            kind = FrameKind.FURTHER

    def after_turn(self) -> None:
        """End a stream for a snapshot that was sent."""
        if self._is_once:
            self.on_loop(self._end_if_read)

    def _age(self) -> int:
        """Milliseconds since the newest change of an update."""
        changed_at, told = self.scheduled.signal.changed_at, self._told_at
        self._told_at = changed_at
        if changed_at in (told, -math.inf):  # the change in the table is not signalled yet
            return 0
        return max(0, int((self.server_state.clock() - changed_at) * 1000))

    def call_on_loop(self, function: Callable[[*Arguments], object], *arguments: *Arguments) -> None:
        """Call a function on the event loop; close calls of all pages share a wake-up."""
        self._calls.soon(function, *arguments)

    # On the event loop.

    def take(self, bundle: list[bytes | str]) -> None:
        """Pass the frames to the page."""
        if not self._is_settled:
            self._deliver(self, bundle)

    def delivered(self) -> None:
        """Note that the page has taken the frames."""
        self.took()
        if self._is_once:
            self._end_if_read()

    def _end_if_read(self) -> None:
        if self.has_begun and self.is_answered:
            self.settle(None)

    def settle(self, error: BarrageError | None) -> None:
        """End the stream with that reason."""
        self.make_no_more()
        if not self._is_settled:
            self._is_settled = True
            self._tell_ended(self, error)
