"""The state machine of one subscription stream."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from barrage_server.engine.update import UpdateNode, added_since, coalesce_nodes
from barrage_server.engine.version import TableVersion
from barrage_server.errors import InvalidRequestError
from barrage_server.rowset import RowSet
from barrage_server.subscription.feed import BuiltMessage, Message, TableFeed
from barrage_server.subscription.message import (
    Dialect,
    EncodedMessage,
    MessageEncoder,
    blink_message,
    change_message,
    initial_message,
    update_message,
)
from barrage_server.subscription.moved_viewport import ViewportMoves
from barrage_server.subscription.quiet_update import QuietUpdates, keeps_view
from barrage_server.subscription.window import Window, check_columns
from barrage_server.wire.batches import BATCH_ROWS, LengthMode
from barrage_server.wire.metadata import SubscriptionRequest

__all__ = ["Poll", "Subscription", "SubscriptionStatistics"]

# Subscribers with intervals of at least this many seconds send at common ticks, so that they can share messages.
_SHORTEST_TICK = 0.005
# Seconds without a message, while the table ticks, after which the history of a subscriber is folded. Longer than usual
# intervals, because subscribers at one point of the history share coalesced updates until then. A little less than the
# time between two calls of Subscription.tidy.
_FOLD_SECONDS = 0.8
# The same while the client takes nothing: it uses no shared update, and folding a few cycles takes less time at once.
_STUCK_FOLD_SECONDS = 0.15


class Poll(NamedTuple):
    """The messages to send now, and the time of the next poll.

    Times are in seconds of the caller's clock.

    Attributes:
        messages: the messages, in the order of sending.
        wake_at: time at which more is due; ``None`` for the next change of the table.
        not_before: time before which nothing is due, unless the request changes.
        tick: time at which changes before ``not_before`` are due; later changes are due at once.

    """

    messages: list[Message]
    wake_at: float | None
    not_before: float = -math.inf
    tick: float = -math.inf


@dataclass(frozen=True, slots=True)
class SubscriptionStatistics:
    """Gauges of one subscription.

    Attributes:
        table: the table's name.
        messages: number of messages returned so far.
        rows: number of rows with values in these messages.
        sent_step: the step up to which all changes were sent; -1 before the first snapshot is complete.
        behind: cycles of the graph since then (some may not have changed the table).
        interval_ms: the update interval, in milliseconds.
        viewport_rows: rows in the window; ``None`` for a full subscription.
        columns: number of subscribed columns.

    """

    table: str
    messages: int
    rows: int
    sent_step: int
    behind: int
    interval_ms: float
    viewport_rows: int | None
    columns: int


class Subscription:
    """The state machine of one subscription stream.

    It keeps no data and no queue, only the point of the table's history up to which its subscriber is up to date.
    Messages are computed when the subscriber can take them, so a slow subscriber gets fewer and larger messages. All
    methods may be called from any thread.

    Args:
        feed: the table, with the state that its subscribers share.
        request: the first request of the stream.
        dialect: how messages name the rows of a viewport.
        lengths: how the endpoint writes columns that differ in length.
        since: the point at which an earlier subscription with this request ended, as a node of
            :meth:`~barrage_server.subscription.history.History.since`. The subscription then begins with the update
            since that point, which may be empty, unless a snapshot is smaller.

    Raises:
        UnknownColumnError: the request names a column that the table lacks.
        InvalidRequestError: an option is out of its range.

    """

    def __init__(
        self,
        feed: TableFeed,
        request: SubscriptionRequest,
        *,
        dialect: Dialect,
        lengths: LengthMode,
        since: UpdateNode | None = None,
    ) -> None:
        self._feed = feed
        self._table = feed.table
        self._blinks = feed.table.traits.is_blink
        self._interval = self._interval_of(request)
        self._encoder = MessageEncoder(feed.schema, feed.view, request.options, dialect, lengths)
        self._columns = (request.columns, check_columns(request.columns, len(feed.schema)))  # as requested; numbers
        self._window = self._window_of(request)
        self._moves = ViewportMoves(self._encoder)
        self._quiet = QuietUpdates(self._encoder)
        self._lock = threading.Lock()
        self._node: UpdateNode | None = None
        self._growing: tuple[TableVersion, int, UpdateNode] | None = None  # snapshot: version, rows sent, later history
        self._folded_at = -math.inf  # time of the last message, or of the last fold of the history
        self._change: Window | None = None
        self._not_before = -math.inf  # earliest time of the next update
        self._tick = -math.inf  # time of the next update, if the table changes before ``_not_before``
        self._waits = False  # whether it has changed before
        self._folded_to = -1  # the step up to which the history is folded; no message can end before it
        self._unsent = RowSet.empty()
        # Of a full subscription of a blink table: the end of ``_unsent``, the rows that the last message added, and
        # whether all of them had left the table by then.
        self._counted: UpdateNode | None = None
        self._shown = RowSet.empty()
        self._lingers = False
        self._messages = 0
        self._rows = 0
        self._closed = False
        self._resumes = since is not None and not self._blinks and self._is_cheap(since)
        if since is not None and self._resumes:
            self._node = since
            self._folded_to = self._table.version.step
        self._group = feed.join(self._window, self._encoder)

    @property
    def wire_schema(self) -> pa.Schema:
        """The schema on the wire, at the beginning of the stream."""
        return self._encoder.writer.schema

    @property
    def window(self) -> Window:
        """The window of the last request."""
        return self._change or self._window

    def change(self, request: SubscriptionRequest) -> None:
        """Apply a further request of the stream, which the next :meth:`poll` answers.

        Of several requests before that poll, only the last one is answered.

        Raises:
            InvalidRequestError: the change needs another stream. The subscription continues unchanged.

        """
        window = self._window_of(request)
        with self._lock:
            if window.is_full != self._window.is_full:
                raise InvalidRequestError(
                    "A stream cannot change between a full subscription and a viewport. "
                    "Open another stream for the other kind."
                )
            if window.is_full and window.columns != self._window.columns:
                raise InvalidRequestError(
                    "The columns of a full subscription cannot change on its stream. "
                    "Open another stream, or use a viewport."
                )
            self._change = window
            self._interval = self._interval_of(request)

    def poll(self, now: float, *, at_once: bool = False, waited: bool = False) -> Poll:
        """Return the messages that are due at ``now``.

        Args:
            now: seconds of a monotonic clock, not before the last poll.
            at_once: whether changes are due regardless of the interval.
            waited: whether the table changed before ``not_before`` of the last poll, without a poll then.

        """
        with self._lock:
            if self._closed:
                return Poll([], None)
            messages: list[Message] = []
            before = self._node
            if self._node is None:
                messages.append(self._next_part(now))
            elif self._resumes:  # at once, also without changes, because the subscriber waits for it
                self._resumes = False
                messages.append(self._update(self._table.version))
                self._wait_after(now)
                if self._change is not None:
                    messages.extend(self._answer_change(now))
            elif self._change is not None:
                messages.extend(self._answer_change(now))
            elif self._is_behind(self._node):
                self._waits = self._waits or waited or now < self._not_before
                if at_once:
                    messages.append(self._update(self._table.version))
                    self._wait_after(now)
                elif now >= self._due:
                    messages.append(self._update_of_tick(now))
            if messages or self._node is not before:
                self._folded_at = now
            for message in messages:
                self._messages += 1
                self._rows += message.row_count
            if self._growing is not None or self._change is not None:
                return Poll(messages, now)  # the next part, or the answer of a request before the first message
            stale = self._node is not None and self._is_behind(self._node)
            self._waits = self._waits or (stale and now < self._not_before)
            return Poll(messages, self._due if stale else None, self._not_before, self._tick)

    def tidy(self, now: float, *, stuck: bool = False) -> None:
        """Fold the history that the subscriber keeps alive, if it was not sent lately.

        Its client does not read, or has a long interval. To be called about once a second, more often if it is stuck.

        Args:
            now: a time of the clock of :meth:`poll`.
            stuck: whether the client takes nothing at present.

        """
        with self._lock:
            if now - self._folded_at < (_STUCK_FOLD_SECONDS if stuck else _FOLD_SECONDS):
                return
            if self._growing is not None:
                version, start, node = self._growing
                node, end = self._feed.fold(node, now)
                if end.step > version.step:
                    self._folded_at = now
                    version.compact()
                    self._growing = (version, start, node)
                    self._folded_to = end.step
            elif self._node is not None:
                node, end = self._feed.fold(self._node, now)
                if end.step > self._node.step:
                    self._folded_at = now
                    if self._counted is not None:
                        self._unsent = self._unsent | added_since(self._counted, end)
                        self._counted = end
                    self._node = node
                    self._folded_to = end.step

    def close(self) -> None:
        """Leave the group; later polls return no messages."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._node = self._growing = self._counted = None
                self._feed.leave(self._group)

    def statistics(self) -> SubscriptionStatistics:
        """Return the current gauges."""
        with self._lock:
            sent = -1 if self._node is None else self._node.step
            version = self._table.version
            return SubscriptionStatistics(
                table=self._table.name,
                messages=self._messages,
                rows=self._rows,
                sent_step=sent,
                behind=max(0, version.step - sent),
                interval_ms=self._interval * 1000,
                viewport_rows=None if self._window.is_full else self._window.count(version.size),
                columns=len(self._window.columns),
            )

    def _is_cheap(self, since: UpdateNode) -> bool:
        """Whether the update since a node has fewer values than a snapshot."""
        if not self._window.is_full:
            return True  # the update has at most the rows in view
        version, columns = self._table.version, len(self._window.columns)
        update = coalesce_nodes(since, version.node)
        modified = self._encoder.modified(update)
        values = columns * update.added.size + sum(modified[number].size for number in self._window.columns)
        return values < columns * version.size or not values

    def _next_part(self, now: float) -> EncodedMessage:
        """Make the next part of the first snapshot; all parts are of one version."""
        if self._growing is None:
            version, start = self._table.version, 0
            node = version.node
        else:
            version, start, node = self._growing
        blink = self._blinks and self._window.is_full
        rows = RowSet.empty() if blink else self._window.keys(version.row_set)
        stop = rows.size
        if self._window.is_full:
            stop = min(stop, start + self._part_rows())
        message = initial_message(self._encoder, self._window, version, rows, start, stop)
        if stop < rows.size:
            # Detached: later parts read the same version, and the node has the later history.
            self._growing = (version if start else version.detached(), stop, node)
        else:
            self._growing = None
            self._node = node
            self._counted = node if blink else None
            self._wait_after(now)
        return message

    def _part_rows(self) -> int:
        """Return the rows in a part of the first snapshot, if large whole batches."""
        rows = max(1, self._feed.limits.snapshot_part_cells // max(1, len(self._window.columns)))
        return rows if rows < BATCH_ROWS else rows - rows % BATCH_ROWS

    def _answer_change(self, now: float) -> list[Message]:
        """Make the update of the old window, then the answer to the change.

        Both are of one version. The update is left out if it tells nothing about the old window, and the table has the
        same rows.
        """
        assert self._node is not None and self._change is not None
        version = self._table.version
        messages: list[Message] = []
        if version.step > self._node.step:
            update = coalesce_nodes(self._node, version.node)
            if update.added or not keeps_view(self._encoder, self._window, update, self._node.row_set, version):
                messages.append(self._update(version))
            self._node = version.node
            self._wait_after(now)
        moved = self._moves.message(self._window, self._change, version)
        messages.append(moved or change_message(self._encoder, self._window, self._change, version))
        before, self._window, self._change = self._window, self._change, None
        if before != self._window:
            only_moved = moved is not None
            self._group = self._feed.move(self._group, self._window, self._encoder, only_moved=only_moved)
        return messages

    def _update(self, version: TableVersion) -> Message:
        """Make one message of all changes between the subscriber's point and ``version``."""
        assert self._node is not None
        node, window = self._node, self._window
        first, gone, unsent = min(node.step + 1, version.step), self._shown, RowSet.empty()
        if self._blinks and window.is_full:
            unsent = (self._unsent | added_since(self._counted or node, version.node)) & version.readable
            self._shown, self._unsent, self._counted = unsent, RowSet.empty(), version.node
            self._lingers = bool(unsent) and version.row_set.is_disjoint(unsent)

        self._node = version.node
        group = self._group
        viewports = group.viewports
        known = None if viewports is None else viewports.known(group.seat, first, version.step)
        if known is not None and group.members < 2:  # the most frequent of many viewports
            return known

        def build() -> BuiltMessage:
            if known is not None:
                return known
            if self._blinks and window.is_full:
                return blink_message(self._encoder, window, gone, unsent, first, version)
            update = coalesce_nodes(node, version.node)
            if keeps_view(self._encoder, window, update, node.row_set, version):
                return self._quiet.message(window, update, node.row_set, first, version)
            if viewports is not None:
                shared = self._feed.shared_rows(update, version)
                message = None if shared is None else viewports.message(group.seat, shared, first, version)
                if message is not None:
                    return message
            return update_message(self._encoder, window, update, node.row_set, first, version)

        span = (node.step, version.step, gone, unsent)
        return group.message(span, build, self._feed.limits.shared_rows)

    def _is_behind(self, node: UpdateNode) -> bool:
        """Whether changes after ``node`` are not sent yet."""
        return self._table.version.step > node.step or self._lingers

    @property
    def _due(self) -> float:
        """The time at which unsent changes are due.

        Changes after a whole interval without changes are due at once. Otherwise the subscriber waits for the tick that
        it shares with others.
        """
        return self._tick if self._waits else self._not_before

    def _update_of_tick(self, now: float) -> Message:
        """Make the update that is due.

        It counts as sent at the time at which it was due, so that lateness does not add up.
        """
        assert self._node is not None
        time, version = now, self._table.version
        if self._waits and now < self._tick + self._interval:
            time = self._tick
        if self._interval >= _SHORTEST_TICK:
            tick, shared = self._feed.tick_at(self._interval, self._due, time)
            if shared.step > self._node.step and shared.step >= self._folded_to:
                time, version = tick, shared
        message = self._update(version)
        self._wait_after(time)
        return message

    def _wait_after(self, time: float) -> None:
        """Set the times of the next update, after an update at ``time``."""
        self._not_before = self._tick = time + self._interval
        self._waits = False
        if self._interval >= _SHORTEST_TICK:
            self._tick = self._feed.tick_after(self._interval, self._not_before)

    def _interval_of(self, request: SubscriptionRequest) -> float:
        limits = self._feed.limits
        wanted = request.options.min_update_interval_ms
        if wanted < 0:
            raise InvalidRequestError(f"An update interval cannot be {wanted} ms; use 0 for the server's default.")
        return max(wanted or limits.default_interval_ms, limits.min_interval_ms) / 1000

    def _window_of(self, request: SubscriptionRequest) -> Window:
        asked, columns = self._columns
        if request.columns is not asked:  # otherwise the same object, by which a move is recognised
            columns = check_columns(request.columns, len(self._feed.schema))
            self._columns = (request.columns, columns)
        return Window(columns, request.viewport, request.viewport is not None and request.reverse_viewport)
