"""The state of one DoExchange stream at any endpoint: requests, and messages due.

An endpoint reads requests and writes messages. It calls :meth:`ExchangeState.serve` for each request, and
:meth:`ExchangeState.due` in each turn of its stream.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import Final, NamedTuple

import pyarrow as pa

from barrage_server.engine import Table, UpdateNode
from barrage_server.engine.restricted import source_of
from barrage_server.errors import InvalidRequestError, UnknownTableError
from barrage_server.server.dispatcher import ScheduledTask
from barrage_server.server.server_state import ServerState
from barrage_server.server.statistics import SubscriptionGauges
from barrage_server.server.table_feeds import FeedEntry
from barrage_server.subscription import Dialect, Subscription, SubscriptionStatistics, snapshot_message
from barrage_server.subscription.feed import Message
from barrage_server.subscription.history import TableHistory
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.families import ClientFamily
from barrage_server.wire.metadata import SnapshotRequest, SubscriptionRequest
from barrage_server.wire.reading import ReadingReport
from barrage_server.wire.request_reader import RequestReader
from barrage_server.wire.resume import ResumePoint, with_lineage

__all__ = ["Due", "ExchangeState", "MessageFormat", "StreamRequest", "dialect_of", "is_light"]

StreamRequest = SubscriptionRequest | SnapshotRequest

_MOST_ANSWERS: Final = 4
"""Unsent answers to snapshot requests at which no more requests are read from a stream."""
_REST_SECONDS: Final = 60.0
"""Seconds between two turns of a stream whose client has reached its limit of unread updates."""
_LIGHT_CELLS: Final = 1 << 14
"""Cells in view up to which a request is answered at once, on the thread that read it."""


def is_light(request: StreamRequest, table: Table) -> bool:
    """Whether the answer costs no more than handing the request to another thread."""
    if request.viewport is None:
        return False
    columns = len(table.schema) if request.columns is None else len(request.columns)
    return request.viewport.size * columns <= _LIGHT_CELLS


@dataclass(frozen=True, slots=True)
class MessageFormat:
    """The form of messages to a client.

    Attributes:
        dialect: how messages name the rows of a viewport.
        lengths: how columns that differ in length are written.
        family: the family of the client, by its column types.
        resume: the point from which the client resumes, or could later; ``None`` for a client without that extension.
        columns: numbers of the columns that exist for the client; ``None``: all.

    """

    dialect: Dialect
    lengths: LengthMode
    family: ClientFamily = ClientFamily.ARROW
    resume: ResumePoint | None = None
    columns: tuple[int, ...] | None = None


class Due(NamedTuple):
    """Messages to write now, and the time of the next turn; ``None``: at a change."""

    messages: list[Message]
    wake_at: float | None = None


class ExchangeState:
    """The requests of one stream, its subscription, and its unsent answers.

    Args:
        server_state: the server's state.
        scheduled: the stream's task in the dispatcher.
        message_format: the form of messages to the client.

    Attributes:
        table: the table of the stream; ``None`` before the first request.
        schema: the schema with which the stream begins; ``None`` before the first request.

    """

    def __init__(self, server_state: ServerState, scheduled: ScheduledTask, message_format: MessageFormat) -> None:
        self._server_state = server_state
        self._scheduled = scheduled
        self._format = message_format
        self._requests = RequestReader()
        self._entry: FeedEntry | None = None
        self._history: TableHistory | None = None
        self._subscription: Subscription | None = None
        self._outbox: list[Message] = []
        self._has_room = threading.Condition()
        self._unread = 0  # updates that the client has not reported as read, while their number is bounded
        self._most_unread: float = math.inf
        self._is_paused = False
        self._rests = False  # whether it has rested since the last poll: changes may have waited for the client
        self._closed = False
        self._since = server_state.clock()
        self.table: Table | None = None
        self.schema: pa.Schema | None = None

    @property
    def is_subscription(self) -> bool:
        """Whether the stream is a subscription.

        A subscription continues when its client half-closes.
        """
        return self._subscription is not None

    @property
    def columns(self) -> tuple[int, ...] | None:
        """Numbers of the columns that exist for the client; ``None``: all."""
        return self._format.columns

    @property
    def may_resume(self) -> bool:
        """Whether the next request resumes: slow where much has changed since the point."""
        resume = self._format.resume
        return self._subscription is None and resume is not None and bool(resume.lineage)

    @property
    def has_answers(self) -> bool:
        """Whether there are answers to snapshot requests that :meth:`due` must return."""
        return bool(self._outbox)

    @property
    def is_full(self) -> bool:
        """Whether to read no further request before :meth:`due` has returned answers."""
        return len(self._outbox) >= _MOST_ANSWERS

    def wait_for_room(self, timeout: float) -> bool:
        """Wait up to ``timeout`` seconds until it is not full; return whether it is not."""
        if not self.is_full:
            return True
        with self._has_room:
            return self._has_room.wait_for(lambda: not self.is_full, timeout)

    def read(self, app_metadata: bytes) -> StreamRequest:
        """The request in a message of the stream.

        Raises:
            WireFormatError: the message is damaged.
            InvalidRequestError: it is a request that DoExchange does not take.

        """
        request = self._requests.read(app_metadata)
        if not isinstance(request, SubscriptionRequest | SnapshotRequest):
            kind = type(request).__name__
            raise InvalidRequestError(f"DoExchange takes subscription and snapshot requests, not {kind}.")
        return request

    def serve(self, request: StreamRequest, table: Table) -> None:
        """Apply one request about ``table``; its messages are :meth:`due` from now on.

        Raises:
            InvalidRequestError: the request contradicts earlier ones, or names unknown columns.
            UnknownTableError: the table was dropped, and its name belongs to another one.

        """
        if self.table is not None and self.table is not table:
            if self.table.name == table.name:
                raise UnknownTableError(f"Table '{table.name}' was dropped.")
            raise InvalidRequestError(f"This stream is about '{self.table.name}'; open another one for another table.")
        subscription = self._subscription
        try:
            if isinstance(request, SnapshotRequest):
                self._snapshot(request, table)
            elif subscription is not None:
                subscription.change(request)
            else:
                self._subscribe(request, table)
        finally:
            if self._closed:  # by another thread, while this one subscribed
                self._leave()

    def check_served(self, table: Table) -> None:
        """Raise UnknownTableError if ``table`` was dropped before this stream joined."""
        if self._server_state.catalog.find(table.name) is not source_of(table):
            raise UnknownTableError(f"Table '{table.name}' was dropped.")

    def due(self, now: float) -> Due:
        """The messages due at ``now``. The caller must write them in order."""
        messages = self._answers() if self._outbox else []
        subscription = self._subscription
        if subscription is None:
            return Due(messages)
        scheduled = self._scheduled
        if (self._most_unread < math.inf or self._is_paused) and self._begins_rest():
            scheduled.not_before = scheduled.tick = now + _REST_SECONDS  # a report, or the end of the pause, wakes it
            return Due(messages)
        poll = subscription.poll(now, waited=scheduled.waited and not self._rests)
        scheduled.waited = self._rests = False
        scheduled.not_before, scheduled.tick = poll.not_before, poll.tick
        if poll.messages and self._most_unread < math.inf:
            with self._has_room:
                self._unread += len(poll.messages)
        return Due(messages + poll.messages if messages else poll.messages, poll.wake_at)

    def _answers(self) -> list[Message]:
        """The answers to snapshot requests so far, for which there is room again."""
        with self._has_room:
            messages, self._outbox = self._outbox, []
            self._has_room.notify_all()
            return messages

    def report(self, report: ReadingReport) -> bool:
        """Apply a reading report of the client.

        Returns:
            Whether the stream has waited for the report, so that more may be :meth:`due`.

        """
        with self._has_room:
            if report.unread is not None:
                self._most_unread = report.unread
            self._unread = max(0, self._unread - report.messages)
            return self._rests and self._unread < self._most_unread

    def _begins_rest(self) -> bool:
        """Note that the stream rests, if it is paused or has too many unread updates."""
        with self._has_room:  # a later report then finds that the stream waits for it
            if self._is_resting:
                self._rests = True
                return True
        return False

    @property
    def _is_resting(self) -> bool:
        return self._is_paused or self._unread >= self._most_unread

    def pause(self, *, paused: bool) -> None:
        """Stop making updates, or continue with one update of all changes since."""
        self._is_paused = paused

    def tidy(self, now: float, *, stuck: bool = False) -> None:
        """Fold the history of a subscriber that got no update for a while.

        Args:
            now: seconds of the server's clock.
            stuck: whether the client takes nothing at present.

        """
        subscription = self._subscription
        if subscription is not None:
            subscription.tidy(now, stuck=stuck)

    def close(self) -> None:
        """Leave the feed of the table.

        A :meth:`serve` that runs on another thread leaves it too when it ends.
        """
        self._closed = True
        self._leave()

    def _leave(self) -> None:
        with self._has_room:
            entry, self._entry = self._entry, None
            history, self._history = self._history, None
            subscription, self._subscription = self._subscription, None
            self._outbox = []
            self.table = None  # a part of a table without other readers is freed at once, and follows it no longer
        if subscription is not None:
            subscription.close()
        if entry is not None:
            self._server_state.feeds.leave(entry)
        if history is not None:
            self._server_state.resumption.leave(history)

    def statistics(self) -> SubscriptionStatistics | None:
        """Figures of the subscription; ``None`` while there is none."""
        subscription = self._subscription
        return None if subscription is None else subscription.statistics()

    def gauges(
        self, *, peer: str, user: str, nbytes: int, batches: int, writing_since: float | None
    ) -> SubscriptionGauges | None:
        """Figures of the stream; ``None`` while it is not a subscription."""
        own = self.statistics()
        if own is None:
            return None
        now = self._server_state.clock()
        return SubscriptionGauges(
            table=own.table,
            peer=peer,
            user=user,
            messages=own.messages,
            rows=own.rows,
            nbytes=nbytes,
            batches=batches,
            sent_step=own.sent_step,
            behind=own.behind,
            interval_ms=own.interval_ms,
            viewport_rows=own.viewport_rows,
            columns=own.columns,
            writing_seconds=0.0 if writing_since is None else now - writing_since,
            open_seconds=now - self._since,
            rests=self._is_resting,
        )

    def _subscribe(self, request: SubscriptionRequest, table: Table) -> None:
        if self.table is not None:
            raise InvalidRequestError("This stream has answered snapshot requests; subscribe on a stream of its own.")
        message_format = self._format
        self._entry = self._server_state.feeds.join(table, message_format.family, message_format.columns)
        feed = self._entry.feed
        since: UpdateNode | None = None
        lineage, point, resumption = "", message_format.resume, self._server_state.resumption
        if point is not None and not table.traits.is_blink:
            lineage = resumption.lineage_text(table, feed.schema)
            self._history = resumption.join(table)
            since = resumption.resume(point, lineage, self._history)
        subscription = Subscription(
            feed, request, dialect=message_format.dialect, lengths=message_format.lengths, since=since
        )
        self.table, self.schema = table, subscription.wire_schema
        if point is not None:
            self.schema = with_lineage(self.schema, lineage)
        self._server_state.dispatcher.move(self._scheduled, self._entry.signal)
        self._subscription = subscription
        table.check_usable()  # again: a failure in between ended only the streams that were registered

    def _snapshot(self, request: SnapshotRequest, table: Table) -> None:
        if self._subscription is not None:
            raise InvalidRequestError("This stream is a subscription; ask for snapshots on a stream of their own.")
        feed = self._server_state.feeds.feed(table, self._format.family, self._format.columns)
        answer = snapshot_message(feed, request, table.version, self._format.lengths)
        with self._has_room:
            self._outbox.append(answer)
        self.table, self.schema = table, feed.schema


def dialect_of(header: str | None, default: Dialect) -> Dialect:
    """The dialect that a ``barrage-viewport`` header requests, or the default.

    Raises:
        InvalidRequestError: no dialect has that name.

    """
    if header is None:
        return default
    try:
        return Dialect(header.strip().lower())
    except ValueError:
        known = " or ".join(f"'{entry.value}'" for entry in Dialect)
        raise InvalidRequestError(f"The header barrage-viewport must be {known}, not '{header[:50]}'.") from None
