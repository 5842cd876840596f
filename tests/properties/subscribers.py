"""A subscriber and its server side, joined by a wire in memory that can be as slow as one likes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from barrage_server.client.content import Content
from barrage_server.client.cursor import Cursor
from barrage_server.client.update import Update
from barrage_server.client.view import View
from barrage_server.engine import TableVersion, UpdateGraph, UpdateNode
from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, Subscription, TableFeed, Window
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.reader import MessageReader
from barrage_server.wire.schema import table_attributes
from tests.properties.sources import Row, rows_of

KeyedRows = dict[int, Row]


class Link:
    """One stream: requests on their way to the server, messages on their way back."""

    def __init__(
        self, feed: TableFeed, request: SubscriptionRequest, dialect: Dialect, since: UpdateNode | None = None
    ) -> None:
        self.subscription = Subscription(feed, request, dialect=dialect, lengths=LengthMode.PADDED, since=since)
        self.reader = MessageReader(
            self.subscription.wire_schema, use_deephaven_nulls=request.options.use_deephaven_nulls
        )
        self.requests: deque[SubscriptionRequest] = deque()
        self.messages: deque[Iterator[tuple[pa.RecordBatch, bytes | None]]] = deque()

    def serve(self, now: float) -> float | None:
        """The server's turn: it takes the requests, and sends what is due."""
        while self.requests:
            self.subscription.change(self.requests.popleft())
        poll = self.subscription.poll(now)
        self.messages.extend(message.batches() for message in poll.messages)
        return poll.wake_at


@dataclass(frozen=True)
class MessageFormat:
    """How a subscriber wants to be served."""

    dialect: Dialect
    options: SubscriptionOptions


class Subscriber:
    """Follows a table, and checks every update that it is given against what it knew before."""

    def __init__(self, feed: TableFeed, window: Window, message_format: MessageFormat) -> None:
        self.feed = feed
        self.message_format = message_format
        self.window = window
        self.content = Content(UpdateGraph(), "t")
        self.cursor = Cursor()
        self.known: KeyedRows | None = None
        self.known_columns: tuple[int, ...] = ()
        self.link = self._open()

    def _request(self, window: Window) -> SubscriptionRequest:
        return SubscriptionRequest(
            b"s/t", window.columns, window.positions, self.message_format.options, window.reverse
        )

    def _open(self, since: UpdateNode | None = None) -> Link:
        link = Link(self.feed, self._request(self.window), self.message_format.dialect, since)
        self.content.begin(
            self.feed.table.schema,
            self.window,
            self.message_format.dialect,
            attributes=table_attributes(link.subscription.wire_schema),
            lineage="lineage",
            resumes=since is not None,
        )
        return link

    def lose_connection(self) -> None:
        """All that is on its way is lost, and a new stream begins."""
        self.link.subscription.close()
        self.link = self._open()

    def come_back(self, since: Callable[[int], UpdateNode | None]) -> bool:
        """Lose the connection, and go on from what is here, if ``since`` knows a node of that step; whether it does."""
        names = tuple(self.feed.table.schema.names[number] for number in self.window.columns)
        view = View(self.window.positions, self.window.reverse, names)
        point = self.content.resume_point(view, self.message_format.dialect)
        self.link.subscription.close()
        node = since(point.step) if point.lineage else None
        self.link = self._open(node)
        return node is not None

    def look_at(self, window: Window) -> None:
        """Ask for another window; on a new stream where the present one cannot change that much."""
        before, self.window = self.window, window
        if window.is_full != before.is_full or (window.is_full and window.columns != before.columns):
            self.lose_connection()
        else:
            self.content.wanted = window
            self.link.requests.append(self._request(window))

    def receive(self) -> bool:
        """Take the next message off the wire; whether there was one."""
        if not self.link.messages:
            return False
        batches = list(self.link.messages.popleft())
        taken = [self.link.reader.feed(batch, metadata) for batch, metadata in batches]
        assert all(message is None for message in taken[:-1])
        message = taken[-1]
        assert message is not None
        update = self.content.apply(message)
        if update is not None:
            self._check_bounds(update)
            self.cursor.offer(update)
        return True

    def take(self) -> None:
        """Read the update that has gathered, and check it: what was known, changed by it, must be what is there now."""
        if self.known is None:
            if not self.content.is_complete:
                return
            self.cursor = Cursor()  # the first look: the present content is the beginning
            self._learn()
            return
        update = self.cursor.take()
        if update is not None:
            before = keyed_rows(update.before)
            assert before == self.known, "the update does not begin where the last one ended"
            after = keyed_rows(update.after)
            assert replay(before, update) == after
            self._learn()
            assert after == self.known
        assert self.known == keyed_rows(self.content.version), "something changed without an update"

    def _learn(self) -> None:
        self.known = keyed_rows(self.content.version)

    def settle(self, now: float) -> float:
        """Serve and receive until both sides have nothing to say; the time it is then."""
        while True:
            wake_at = self.link.serve(now)
            received = False
            while self.receive():
                received = True
            now += 1.0
            if not received and wake_at is None and not self.link.requests:
                return now

    def check(self) -> None:
        """At a quiet point: what is in view is the table's, cell by cell."""
        table = self.feed.table
        assert self.content.is_settled
        keys = self.window.keys(table.version.row_set)
        expected = table.version.to_table(self.window.columns, rows=keys)
        shown = self.content.version
        assert shown.schema.names == expected.schema.names
        assert rows_of(shown.to_table()) == rows_of(expected)
        assert self.content.table_size == table.size
        flattened = self.message_format.dialect is Dialect.FLATTENED and not self.window.is_full
        assert shown.row_set == (RowSet.flat(keys.size) if flattened else keys)

    @staticmethod
    def _check_bounds(update: Update) -> None:
        change = update.change
        stayed = change.survivors(update.before.row_set)
        assert update.before.row_set.is_superset(update.removed)
        assert stayed.is_disjoint(update.added)
        assert all(stayed.is_superset(rows) for rows in change.modified)
        assert stayed | update.added == update.after.row_set


def keyed_rows(version: TableVersion) -> KeyedRows:
    return dict(zip(version.row_set.keys().tolist(), rows_of(version.to_table()), strict=True))


def replay(before: KeyedRows, update: Update) -> KeyedRows:
    """``before`` changed by ``update``, in plain Python, with the values that the update gives."""
    names = update.after.schema.names
    rows = dict(before)
    removed = update.removed.keys().tolist()
    assert [rows.pop(key) for key in removed] == rows_of(update.removed_values())
    if update.shifted.size:
        keys = list(rows)
        moved = update.shifted.apply_keys(keys).tolist()
        rows = {new: rows[old] for old, new in zip(keys, moved, strict=True)}
    rows |= dict(zip(update.added.keys().tolist(), rows_of(update.added_values()), strict=True))
    for number, name in enumerate(names):
        changed = update.modified[name].keys().tolist()
        old, new = rows_of(update.modified_previous_values(name)), rows_of(update.modified_values(name))
        for key, was, value in zip(changed, old, new, strict=True):
            assert rows[key][number] == was[0]
            rows[key] = (*rows[key][:number], value[0], *rows[key][number + 1 :])
    return rows


def reversed_manner(message_format: MessageFormat) -> MessageFormat:
    """The same, in the other dialect."""
    other = Dialect.FLATTENED if message_format.dialect is Dialect.KEY_SPACE else Dialect.KEY_SPACE
    return replace(message_format, dialect=other)
