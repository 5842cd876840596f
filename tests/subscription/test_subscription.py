"""The subscription state machine: what is sent, when, and what subscribers share.

No thread, no clock: time is an argument.
"""

from __future__ import annotations

import random
import weakref
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, Table, UpdateGraph
from barrage_server.errors import InvalidRequestError, UnknownColumnError
from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, Subscription, SubscriptionLimits, TableFeed
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest, UpdateMetadata

SCHEMA = pa.schema([("name", pa.string()), ("value", pa.int64())])
OPTIONS = SubscriptionOptions(min_update_interval_ms=100, columns_as_list=True)
REQUEST = SubscriptionRequest(ticket=b"s/t", options=OPTIONS)


def subscribe(
    feed: TableFeed, request: SubscriptionRequest = REQUEST, dialect: Dialect = Dialect.KEY_SPACE
) -> Subscription:
    return Subscription(feed, request, dialect=dialect, lengths=LengthMode.PADDED)


def rows(*values: int, name: str = "n") -> dict[str, Any]:
    return {"name": [f"{name}{value}" for value in values], "value": list(values)}


def append_table(count: int = 0) -> AppendTable:
    table = AppendTable(UpdateGraph(), "t", SCHEMA)
    if count:
        table.append(rows(*range(count)))
    return table


def metadata(subscription: Subscription, now: float) -> list[UpdateMetadata]:
    return [message.metadata for message in subscription.poll(now).messages]


def viewport(first: int, last: int, **changes: Any) -> SubscriptionRequest:
    return replace(REQUEST, viewport=RowSet.from_range(first, last), **changes)


def test_the_first_message_is_the_snapshot_of_everything() -> None:
    """All rows, no viewport, and the table's size."""
    subscription = subscribe(TableFeed(append_table(3)))
    (first,) = metadata(subscription, 0.0)
    assert first.is_snapshot
    assert first.effective_viewport is None
    assert (first.added_rows, first.added_rows_included, first.table_size) == (RowSet.flat(3), RowSet.flat(3), 3)
    assert subscription.poll(0.0).messages == []


def test_an_empty_table_has_a_snapshot_too() -> None:
    """A subscriber of an empty table learns that it is empty."""
    (first,) = metadata(subscribe(TableFeed(append_table())), 0.0)
    assert first.is_snapshot
    assert (first.added_rows, first.table_size) == (RowSet.empty(), 0)


def test_updates_wait_for_the_interval_and_are_coalesced() -> None:
    """At most one message per interval; an update after an idle time goes at once."""
    table = append_table(1)
    subscription = subscribe(TableFeed(table))
    subscription.poll(10.0)
    table.append(rows(1))
    waiting = subscription.poll(10.01)
    assert waiting.messages == []
    assert waiting.wake_at is not None
    assert 10.1 <= waiting.wake_at < 10.3
    table.append(rows(2))
    (update,) = metadata(subscription, waiting.wake_at)
    assert not update.is_snapshot
    assert update.added_rows == RowSet.from_range(1, 2)
    assert (update.first_seq, update.last_seq) == (2, 3)
    assert subscription.poll(99.0).wake_at is None
    table.append(rows(3))
    assert len(metadata(subscription, 99.0)) == 1


def test_what_is_wanted_at_once_does_not_wait_for_the_interval() -> None:
    """However often it is wanted at the same time, and also where subscribers share the versions of a tick."""
    table = append_table(1)
    feed = TableFeed(table)
    subscription, other = subscribe(feed), subscribe(feed)
    subscription.poll(10.0)
    other.poll(10.0)
    for number in range(1, 5):
        table.append(rows(number))
        assert subscription.poll(10.01).messages == []
        assert len(subscription.poll(10.01, at_once=True).messages) == 1
        assert subscription.statistics().sent_step == table.version.step
        assert other.poll(10.01).messages == []


def test_a_subscriber_that_keeps_up_is_served_once_per_interval() -> None:
    """Ticks do not drift: ten intervals, ten messages."""
    table = append_table()
    subscription = subscribe(TableFeed(table))
    sent = 0
    wake: float | None = None
    for millisecond in range(2000):
        table.append(rows(millisecond))
        now = 5.0 + millisecond / 1000
        if wake is None or now >= wake:
            poll = subscription.poll(now)
            sent += len(poll.messages)
            wake = poll.wake_at
    assert 19 <= sent <= 21


class Reader:
    """A subscriber that is served as a dispatcher does: at a change if it may be, otherwise when it is due."""

    def __init__(self, feed: TableFeed, now: float) -> None:
        self.subscription = subscribe(feed)
        self.sent: list[tuple[float, Any]] = []
        self.wake_at: float | None = None
        self._not_before = self._tick = 0.0
        self._waited = False
        self.serve(now)

    def serve(self, now: float) -> None:
        poll = self.subscription.poll(now, waited=self._waited)
        self.sent += [(now, message) for message in poll.messages]
        self.wake_at, self._not_before, self._tick = poll.wake_at, poll.not_before, poll.tick
        self._waited = False

    def changed(self, now: float) -> None:
        if self.wake_at is None and now < self._not_before:
            self.wake_at, self._waited = self._tick, True
        elif self.wake_at is None:
            self.serve(now)

    @property
    def times(self) -> list[float]:
        return [time for time, _ in self.sent]


def run_readers(readers: list[Reader], until: float, *, lateness: float = 0.0) -> None:
    """Serve all that is due before ``until``, the earliest first, each ``lateness`` seconds after the one before."""
    while True:
        waiting = [reader for reader in readers if reader.wake_at is not None and reader.wake_at < until]
        if not waiting:
            return
        now = min(reader.wake_at or 0.0 for reader in waiting)
        for number, reader in enumerate(reader for reader in waiting if reader.wake_at == now):
            reader.serve(now + number * lateness)


@pytest.mark.parametrize("others", [0, 1, 7])
def test_sparse_rows_wait_for_no_tick(others: int) -> None:
    """Rows more than an interval apart are sent at once, whatever the time and the number of subscribers."""
    table = append_table(1)
    feed = TableFeed(table)
    readers = [Reader(feed, 10.0 + 0.013 * number) for number in range(1 + others)]
    now = 10.3
    published = []
    for number in range(20):
        published.append(now)
        table.append(rows(number))
        for reader in readers:
            reader.changed(now)
        assert all(reader.times[1:] == published for reader in readers)
        now += 0.101 + 0.017 * number
        run_readers(readers, now)


@pytest.mark.parametrize("others", [0, 1, 7])
def test_a_row_soon_after_another_waits_for_the_rest_of_the_interval(others: int) -> None:
    table = append_table(1)
    feed = TableFeed(table)
    readers = [Reader(feed, 10.0) for _ in range(1 + others)]
    for now in (11.03, 12.07, 13.0999):
        for publish in (now, now + 0.001, now + 0.09):
            run_readers(readers, publish)
            table.append(rows(1))
            for reader in readers:
                reader.changed(publish)
        run_readers(readers, now + 0.9)
        for reader in readers:
            assert reader.times[-2:] == [now, pytest.approx(now + 0.1)]


def test_subscribers_that_are_behind_meet_at_ticks() -> None:
    """They join at different times; when they have been behind once, all send the very same messages, on time."""
    table = append_table(1)
    feed = TableFeed(table)
    readers: list[Reader] = []
    for step in range(1000):
        now = 10.0 + step * 0.0073
        if step % 3 == 0 and len(readers) < 30:
            readers.append(Reader(feed, now))
        run_readers(readers, now, lateness=0.0001)
        table.append(rows(step))
        for reader in readers:
            reader.changed(now)
    late = [[(time, message) for time, message in reader.sent if time > 11.25] for reader in readers]
    assert len(late[0]) >= 55
    for (time, message), *others in zip(*late, strict=False):
        assert all(other is message for _, other in others)
        assert all(other == pytest.approx(time, abs=0.01) for other, _ in others)
    for sent in late:
        gaps = [after - before for (before, _), (after, _) in pairwise(sent)]
        assert gaps == pytest.approx([0.1] * len(gaps), abs=0.004)


@pytest.mark.parametrize("seed", range(5))
def test_no_two_updates_are_closer_than_an_interval(seed: int) -> None:
    """A change waits two intervals at most, whenever it comes and however many subscribers there are."""
    chance = random.Random(seed)
    table = append_table(1)
    feed = TableFeed(table)
    readers: list[Reader] = []
    now, published = 10.0, []
    for _ in range(400):
        now += chance.choice([0.0, 0.001, 0.02, 0.05, 0.099, 0.1, 0.101, 0.3, chance.random() / 5])
        run_readers(readers, now)
        if chance.random() < 0.05:
            readers.append(Reader(feed, now))
            continue
        table.append(rows(1))
        published.append(now)
        for reader in readers:
            reader.changed(now)
    run_readers(readers, now + 1)
    assert len(readers) > 5
    for reader in readers:
        updates = reader.times
        assert min(after - before for before, after in pairwise(updates)) > 0.1 - 1e-9
        for time in published:
            if time > updates[0]:
                assert next(sent for sent in updates if sent >= time) - time < 0.2


def test_a_large_snapshot_grows_in_parts_of_one_version() -> None:
    """Each part names all rows and includes its own; the viewport grows and is absent at the end; ticks wait."""
    table = append_table(10)
    subscription = subscribe(TableFeed(table, SubscriptionLimits(snapshot_part_cells=8)))
    parts = []
    while True:
        poll = subscription.poll(1.0)
        parts += [message.metadata for message in poll.messages]
        table.append(rows(100))
        if parts[-1].effective_viewport is None:
            break
        assert poll.wake_at == 1.0
    assert [part.added_rows for part in parts] == [RowSet.flat(10)] * 3
    assert [part.effective_viewport for part in parts] == [RowSet.flat(4), RowSet.flat(8), None]
    assert [part.added_rows_included for part in parts] == [
        RowSet.from_range(0, 3),
        RowSet.from_range(4, 7),
        RowSet.from_range(8, 9),
    ]
    assert {part.last_seq for part in parts} == {1}
    assert (subscription.statistics().messages, subscription.statistics().rows) == (3, 10)
    (update,) = metadata(subscription, 2.0)
    assert update.added_rows == RowSet.from_range(10, 12)


def test_scrolling_sends_only_rows_that_come_into_view() -> None:
    """A changed viewport is answered at once, as a snapshot, with the rows that the subscriber lacks."""
    table = append_table(50)
    for dialect, added, removed in (
        (Dialect.KEY_SPACE, RowSet.from_range(10, 14), RowSet.empty()),
        (Dialect.FLATTENED, RowSet.from_range(5, 9), RowSet.from_range(0, 4)),
    ):
        subscription = subscribe(TableFeed(table), viewport(0, 9), dialect)
        (first,) = metadata(subscription, 0.0)
        assert first.effective_viewport == RowSet.flat(10)
        subscription.change(viewport(5, 14))
        (answer,) = metadata(subscription, 0.0)
        assert answer.is_snapshot
        assert answer.effective_viewport == RowSet.from_range(5, 14)
        assert (answer.added_rows, answer.removed_rows) == (added, removed)
        assert subscription.poll(0.0).messages == []


def test_a_change_brings_what_happened_before_it_first() -> None:
    """The subscriber is brought up to date in its old window, then given the new one: both of one version."""
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["name"])
    table.upsert(rows(*range(20)))
    subscription = subscribe(TableFeed(table), viewport(0, 4))
    subscription.poll(0.0)
    table.delete({"name": ["n1"]})
    subscription.change(viewport(3, 7))
    update, snapshot = metadata(subscription, 0.001)
    assert (update.is_snapshot, snapshot.is_snapshot) == (False, True)
    assert update.removed_rows == RowSet.from_range(1, 1)
    assert update.added_rows_included == RowSet.from_range(5, 5), "a scoped row: not new, but new in the window"
    assert snapshot.added_rows == RowSet.from_range(6, 8)
    assert update.last_seq == snapshot.last_seq == 2


def test_new_columns_bring_all_rows_again() -> None:
    """Rows that the subscriber has without the new column are sent once more; fewer columns cost nothing."""
    subscription = subscribe(TableFeed(append_table(9)), viewport(0, 4, columns=(0,)))
    subscription.poll(0.0)
    subscription.change(viewport(2, 5, columns=(0, 1)))
    (more,) = metadata(subscription, 0.0)
    assert more.added_rows == RowSet.from_range(2, 5)
    assert more.effective_column_set == (0, 1)
    subscription.change(viewport(2, 5, columns=(1,)))
    (fewer,) = metadata(subscription, 0.0)
    assert fewer.added_rows == RowSet.empty()


def test_an_update_outside_the_viewport_still_tells_the_size() -> None:
    """A viewport subscriber hears of every update, with the rows of its window only."""
    table = append_table(20)
    subscription = subscribe(TableFeed(table), viewport(0, 4), Dialect.FLATTENED)
    subscription.poll(0.0)
    table.append(rows(1, 2))
    (update,) = metadata(subscription, 1.0)
    assert (update.added_rows, update.removed_rows, update.table_size) == (RowSet.empty(), RowSet.empty(), 22)


def test_only_the_last_of_several_changes_is_answered() -> None:
    """A viewport that the subscriber has left again costs nothing."""
    subscription = subscribe(TableFeed(append_table(50)), viewport(0, 4))
    subscription.poll(0.0)
    for first in (10, 20, 30):
        subscription.change(viewport(first, first + 4))
    (answer,) = metadata(subscription, 0.0)
    assert answer.added_rows == RowSet.from_range(30, 34)


def test_a_change_before_the_first_message_is_due_at_once() -> None:
    """Otherwise the stream would sleep until the table changes, and the subscriber would wait for its rows."""
    subscription = subscribe(TableFeed(append_table(50)), viewport(0, 4))
    subscription.change(viewport(10, 14))
    assert subscription.poll(0.0).wake_at == 0.0
    (answer,) = metadata(subscription, 0.0)
    assert answer.added_rows == RowSet.from_range(10, 14)
    assert subscription.poll(0.0).wake_at is None


def test_changes_that_need_another_stream_are_refused() -> None:
    """Full to viewport, viewport to full, other columns of a full one: refused, and the subscription goes on."""
    table = append_table(5)
    full, part = subscribe(TableFeed(table)), subscribe(TableFeed(table), viewport(0, 1))
    for subscription, request in (
        (full, viewport(0, 1)),
        (full, replace(REQUEST, columns=(0,))),
        (part, REQUEST),
        (full, replace(REQUEST, options=replace(OPTIONS, min_update_interval_ms=-1))),
    ):
        with pytest.raises(InvalidRequestError):
            subscription.change(request)
        assert len(subscription.poll(0.0).messages) <= 1
    with pytest.raises(UnknownColumnError):
        subscribe(TableFeed(table), replace(REQUEST, columns=(2,)))


def test_a_blink_subscriber_gets_every_row_once() -> None:
    """Rows that blinked between two messages are sent; those sent last are removed by the next message."""
    table = BlinkTable(UpdateGraph(), "t", SCHEMA)
    table.append(rows(0))
    subscription = subscribe(TableFeed(table))
    (first,) = metadata(subscription, 0.0)
    assert (first.added_rows, first.table_size) == (RowSet.empty(), 0)
    for value in (1, 2, 3):
        table.append(rows(value))
    (update,) = metadata(subscription, 1.0)
    assert (update.added_rows, update.removed_rows) == (RowSet.from_range(1, 3), RowSet.empty())
    table.append(rows(4))
    subscription.tidy(100.0)
    table.append(rows(5))
    (update,) = metadata(subscription, 102.0)
    assert (update.added_rows, update.removed_rows) == (RowSet.from_range(4, 5), RowSet.from_range(1, 3))


def test_rows_that_had_gone_when_they_were_sent_go_after_an_interval() -> None:
    """At rest a subscriber has no rows that the table has not, and no message says so twice."""
    table = BlinkTable(UpdateGraph(), "t", SCHEMA)
    other = AppendTable(table.graph, "other", SCHEMA)
    subscription = subscribe(TableFeed(table))
    subscription.poll(0.0)
    for value in (1, 2):
        table.append(rows(value))
    (update,) = metadata(subscription, 1.0)
    assert (update.added_rows, update.removed_rows) == (RowSet.from_range(0, 1), RowSet.empty())
    assert subscription.poll(2.0).messages == []  # the table has the last one still
    other.append(rows(3))
    (update,) = metadata(subscription, 3.0)
    assert (update.added_rows, update.removed_rows) == (RowSet.empty(), RowSet.from_range(0, 1))
    assert subscription.poll(4.0).messages == []
    assert subscription.poll(4.0).wake_at is None
    table.append(rows(4))
    other.append(rows(5))
    sent = subscription.poll(5.0)
    assert [message.metadata.added_rows for message in sent.messages] == [RowSet.from_range(2, 2)]
    assert sent.wake_at is not None
    assert 5.0 < sent.wake_at <= 5.2
    assert not subscription.poll(5.01).messages
    (update,) = metadata(subscription, sent.wake_at)
    assert (update.added_rows, update.removed_rows) == (RowSet.empty(), RowSet.from_range(2, 2))
    assert update.last_seq == table.version.step
    assert subscription.poll(7.0).messages == []


def values_of(message: Any) -> list[Any]:
    return [batch.column(1)[0].as_py() for batch, _ in message.batches()]


def test_subscribers_with_equal_requests_share_one_message() -> None:
    """Same columns, options and interval: one build, the very same batches. Others get their own."""
    table = append_table(3)
    feed = TableFeed(table)
    same = [subscribe(feed) for _ in range(3)]
    other = subscribe(feed, replace(REQUEST, columns=(1,)))
    for subscription in (*same, other):
        subscription.poll(0.0)
    table.append(rows(7))
    first = same[0].poll(1.01).messages[0]
    table.append(rows(8))
    rest = [subscription.poll(1.02).messages[0] for subscription in same[1:]]
    assert all(message is first for message in rest), "the version of a tick is the same for all"
    assert other.poll(1.03).messages[0] is not first
    (one,), (two,) = ([batch for batch, _ in message.batches()] for message in (first, rest[0]))
    assert one is two
    assert values_of(first) == [[7]]
    assert feed.subscriber_count == 4
    for subscription in (*same, other):
        subscription.close()
        subscription.close()
    assert feed.subscriber_count == 0


def test_a_stalled_subscriber_keeps_no_history() -> None:
    """Absorbing folds what it missed into one update, and says the same afterwards."""
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["name"])
    table.upsert(rows(*range(5)))
    feed = TableFeed(table)
    stalled, plain = subscribe(feed, viewport(1, 3)), subscribe(feed, viewport(1, 3))
    for subscription in (stalled, plain):
        subscription.poll(0.0)
    for value in range(30):
        table.upsert({"name": [f"n{value % 7}"], "value": [value + 100]})
        table.delete({"name": [f"n{(value + 3) % 7}"]})
        if value % 10 == 0:
            stalled.tidy(100.0 * (1 + value))
    assert metadata(stalled, 1.0) == metadata(plain, 1.0)


def test_subscribers_fold_their_history_up_to_one_point() -> None:
    """At one time, whatever the table does meanwhile; what is kept for others at that time is dropped later."""
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["name"])
    table.upsert(rows(0))
    feed = TableFeed(table)
    start = table.version.node
    table.upsert({"name": ["n0"], "value": [1]})
    end = table.version.node
    folded, reached = feed.fold(start, 1.0)
    assert reached is end
    assert folded is not start
    assert folded.next is None
    table.upsert({"name": ["n0"], "value": [2]})
    assert feed.fold(start, 1.0)[1] is end
    assert feed.fold(start, 2.0)[1] is table.version.node
    kept = weakref.ref(table.version.node)
    del folded, reached, start, end
    table.upsert({"name": ["n0"], "value": [3]})
    assert kept() is not None
    feed.tidy(3.0)
    assert kept() is None


def test_stalled_subscribers_each_get_what_they_have_missed() -> None:
    """They share what they keep; one that reads again, or leaves, changes nothing for the others."""
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["name"])
    table.upsert(rows(*range(5)))
    feed = TableFeed(table)
    pairs = []
    for value in range(4):
        pairs.append((subscribe(feed), subscribe(feed)))
        for subscription in pairs[-1]:
            subscription.poll(0.0)
        table.upsert({"name": [f"n{value}"], "value": [value + 100]})
    for number in range(1, 5):
        table.upsert({"name": [f"n{number}"], "value": [number + 200]})
        table.delete({"name": [f"n{number - 1}"]})
        feed.tidy(100.0 * number)
        for stalled, _ in reversed(pairs):
            stalled.tidy(100.0 * number)
        stalled, plain = pairs.pop(number % len(pairs))
        assert metadata(stalled, 100.0 * number + 50) == metadata(plain, 100.0 * number + 50)
        stalled.close()
        plain.close()


def test_statistics_say_how_far_a_subscriber_is() -> None:
    """Messages, rows, and how many cycles it is behind."""
    table: Table = append_table(5)
    subscription = subscribe(TableFeed(table), viewport(0, 2))
    assert subscription.statistics().sent_step == -1
    subscription.poll(0.0)
    assert isinstance(table, AppendTable)
    table.append(rows(1))
    gauges = subscription.statistics()
    assert (gauges.messages, gauges.rows, gauges.sent_step, gauges.behind) == (1, 3, 1, 1)
    assert (gauges.viewport_rows, gauges.columns, gauges.interval_ms) == (3, 2, 100)
