"""A subscriber that comes back gets the changes after its step, and nothing else: from any step that is retained."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from barrage_server.client.view import View
from barrage_server.engine import (
    AppendTable,
    BlinkTable,
    KeyedTable,
    ReplicaTable,
    ReplicaUpdate,
    TableUpdate,
    UpdateGraph,
    UpdateNode,
)
from barrage_server.engine.update import coalesce_all, coalesce_nodes
from barrage_server.errors import UnavailableError, WireFormatError
from barrage_server.rowset import RowSet
from barrage_server.subscription import (
    Dialect,
    Subscription,
    SubscriptionLimits,
    TableFeed,
    Window,
    message,
    subscription,
)
from barrage_server.subscription.history import History, TableHistory
from barrage_server.subscription.message import EncodedMessage
from barrage_server.subscription.moved_viewport import MovedMessage
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest, UpdateMetadata
from barrage_server.wire.resume import ResumePoint
from tests.properties.sources import SCHEMA, SOURCES, Source
from tests.properties.subscribers import Link, MessageFormat, Subscriber

NOW = 100.0
OPTIONS = SubscriptionOptions(min_update_interval_ms=1)
EVERYTHING = tuple(range(len(SCHEMA)))
WINDOWS = {
    "full": Window(EVERYTHING),
    "two columns": Window((0, 3)),
    "viewport": Window(EVERYTHING, RowSet.from_range(2, 7)),
    "reverse": Window(EVERYTHING, RowSet.from_range(0, 4), True),
    "scattered": Window((1, 4), RowSet.from_keys([0, 3, 4, 9])),
    "beyond": Window(EVERYTHING, RowSet.from_range(50, 60)),
}


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize("kind", dict.fromkeys(SOURCES))
def test_from_every_step_a_subscriber_comes_to_what_a_new_one_gets(
    kind: type[Source], window: Window, dialect: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content and row keys; each was cut off after another step, and comes back after all of them."""
    monkeypatch.setattr(Subscription, "_is_cheap", lambda *_: True)  # also where a snapshot would be smaller
    chance = random.Random(7)
    source = kind(UpdateGraph())
    source.change(chance)
    feed, history = TableFeed(source.table), History(300.0, 1 << 20)
    retained = history.join(source.table, NOW)
    message_format = MessageFormat(dialect, OPTIONS)
    cut_off: list[Subscriber] = []
    for _ in range(25):
        subscriber = Subscriber(feed, window, message_format)
        subscriber.settle(NOW)
        subscriber.take()
        subscriber.link.subscription.close()
        cut_off.append(subscriber)
        source.change(chance)
    resumed = 0
    for subscriber in cut_off:
        assert subscriber.come_back(lambda step: history.since(retained, step, NOW))
        subscriber.settle(NOW)
        subscriber.check()
        subscriber.take()
        resumed += subscriber.content.resumed
    assert resumed == len(cut_off)


def upserted(count: int, cycles: int, most_bytes: int = 1 << 20) -> tuple[KeyedTable, History, TableHistory]:
    """A table with ``count`` rows, of which each cycle changes one."""
    table = KeyedTable(UpdateGraph(), "t", pa.schema([("k", pa.int64()), ("v", pa.int64())]), ["k"])
    table.upsert({"k": list(range(count)), "v": [0] * count})
    history = History(300.0, most_bytes)
    retained = history.join(table, NOW)
    for cycle in range(cycles):
        table.upsert({"k": [cycle % count], "v": [cycle + 1]})
    return table, history, retained


def first_message(feed: TableFeed, since: UpdateNode | None, **window: RowSet) -> UpdateMetadata:
    request = SubscriptionRequest(b"s/t", None, window.get("viewport"), OPTIONS)
    subscription = Subscription(feed, request, dialect=Dialect.KEY_SPACE, lengths=LengthMode.PADDED, since=since)
    messages = subscription.poll(NOW).messages
    assert len(messages) == 1
    subscription.close()
    return messages[0].metadata


@pytest.mark.parametrize("viewport", [None, RowSet.flat(20)])
def test_the_update_begins_right_after_the_step_that_was_named(viewport: RowSet | None) -> None:
    table, history, retained = upserted(50, 10)
    feed = TableFeed(table)
    end = table.version.step
    for step in range(end - 10, end + 1):
        since = history.since(retained, step, NOW)
        metadata = first_message(feed, since, **({} if viewport is None else {"viewport": viewport}))
        assert not metadata.is_snapshot
        assert (metadata.first_seq, metadata.last_seq) == (min(step + 1, end), end)
        assert metadata.modified_rows is not None
        assert metadata.modified_rows[1].size == end - step


def test_a_viewport_that_moved_leaves_no_message_of_the_place_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two with a viewport leaves while a message is made for both; the other one moves, and one comes back."""
    table, history, retained = upserted(50, 3)
    feed = TableFeed(table)

    def opened(first: int, since: UpdateNode | None = None) -> Subscription:
        request = SubscriptionRequest(b"s/t", None, RowSet.from_range(first, first + 9), OPTIONS)
        return Subscription(feed, request, dialect=Dialect.KEY_SPACE, lengths=LengthMode.PADDED, since=since)

    stays, leaves = opened(0), opened(0)
    for each in (stays, leaves):
        each.poll(NOW)
    step = table.version.step
    table.upsert({"k": list(range(50)), "v": [9] * 50})

    def update_message(*arguments: Any) -> EncodedMessage:
        leaves.close()
        return message.update_message(*arguments)

    monkeypatch.setattr(subscription, "update_message", update_message)
    assert stays.poll(NOW + 1).messages
    stays.change(SubscriptionRequest(b"s/t", None, RowSet.from_range(30, 39), OPTIONS))
    (moved,) = stays.poll(NOW + 2).messages
    assert isinstance(moved, MovedMessage)
    (update,) = opened(30, history.since(retained, step, NOW)).poll(NOW + 3).messages
    assert update.metadata.modified_rows is not None
    assert update.metadata.modified_rows[1] == RowSet.from_range(30, 39)


def test_a_subscriber_that_missed_nothing_gets_an_empty_update_at_once() -> None:
    table, history, retained = upserted(50, 3)
    metadata = first_message(TableFeed(table), history.since(retained, table.version.step, NOW))
    assert not metadata.is_snapshot
    assert metadata.added_rows == metadata.removed_rows == RowSet.EMPTY


def test_steps_that_are_not_retained_or_yet_to_come_are_unknown() -> None:
    table, history, retained = upserted(50, 3)
    first = retained.first
    for step in (first - 1, 0, -1, table.version.step + 1, 10**18):
        assert history.since(retained, step, NOW) is None
    assert history.since(retained, first, NOW) is not None


def test_the_history_is_forgotten_by_age() -> None:
    table, history, retained = upserted(50, 3)
    step = table.version.step
    history.tidy(NOW)
    history.tidy(NOW + 200)
    table.upsert({"k": [1], "v": [100]})
    history.tidy(NOW + 200)
    history.tidy(NOW + 301)
    assert history.since(retained, step - 1, NOW) is None
    assert history.since(retained, step, NOW) is not None
    history.tidy(NOW + 501)
    assert history.since(retained, step, NOW) is None
    assert history.nbytes == 0
    assert history.since(retained, table.version.step, NOW) is not None


def test_the_history_is_forgotten_by_bytes_the_oldest_of_all_tables_first() -> None:
    history = History(300.0, 40_000)
    tables = [AppendTable(UpdateGraph(), "t", pa.schema([("v", pa.int64())])) for _ in range(3)]
    held = [history.join(table, NOW) for table in tables]
    for number in range(300):
        tables[number % 3].append({"v": [number]})
        history.tidy(NOW)
        assert history.nbytes <= 40_000
    assert history.nbytes > 30_000
    kept = [table.version.step - retained.first for table, retained in zip(tables, held, strict=True)]
    assert max(kept) - min(kept) <= 1
    assert history.since(held[0], held[0].first, NOW) is not None


def test_updates_are_taken_up_before_they_hold_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two looks a cycle costs a count, but for every 256th, or earlier where row sets are large."""
    table, history, retained = upserted(50, 600)
    assert retained.pending == 600 - 2 * 256
    monkeypatch.setattr("barrage_server.subscription.history._PENDING_BYTES", 100_000)
    scattered, _, _ = upserted(20_000, 0)
    scattered.delete({"k": list(range(0, 20_000, 2))})
    assert history.join(scattered, NOW).batch < 10
    assert history.since(retained, retained.first, NOW) is not None
    assert retained.pending == 0
    assert table.version.step - retained.first == 600


def test_without_retained_bytes_only_a_subscriber_that_missed_nothing_comes_back() -> None:
    history = History(300.0, 0)
    table = AppendTable(UpdateGraph(), "t", pa.schema([("v", pa.int64())]))
    retained = history.join(table, NOW)
    table.append({"v": [1]})
    assert history.nbytes == 0
    assert history.since(retained, 0, NOW) is None
    assert history.since(retained, 1, NOW) is not None


def test_what_is_retained_is_counted_as_large_as_it_is() -> None:
    """Row sets that are a small part of a large array do not keep it."""
    table, history, _ = upserted(200_000, 0, 1 << 30)
    chance = random.Random(1)
    for cycle in range(5):
        keys = sorted(chance.sample(range(200_000), 10_000))
        table.upsert({"k": keys, "v": [cycle + 1] * len(keys)})
        table.delete({"k": keys[:10]})
        table.upsert({"k": keys[:10], "v": [0] * 10})
    history.tidy(NOW)
    assert 5 * 10_000 * 2 < history.nbytes < 5 * 10_000 * 20


def listeners(table: KeyedTable) -> int:
    return len(table.listeners)


def test_a_table_without_subscribers_is_watched_for_as_long_as_they_may_come_back() -> None:
    table, history, retained = upserted(50, 3)
    assert listeners(table) == 1
    history.leave(retained, NOW)
    history.tidy(NOW + 299)
    assert listeners(table) == 1
    history.tidy(NOW + 300)
    assert listeners(table) == 0
    assert history.nbytes == 0
    again = history.join(table, NOW + 301)
    assert history.since(again, table.version.step, NOW + 301) is not None


def test_a_snapshot_is_sent_where_it_is_smaller() -> None:
    table, history, retained = upserted(10, 1)
    step = table.version.step
    table.upsert({"k": list(range(9)), "v": [77] * 9})
    feed = TableFeed(table)
    assert not first_message(feed, history.since(retained, step, NOW)).is_snapshot
    table.replace({"k": list(range(100, 110)), "v": [0] * 10})
    assert first_message(feed, history.since(retained, step, NOW)).is_snapshot


def test_a_long_history_of_a_small_table_is_not_worth_its_time() -> None:
    _, history, retained = upserted(3, 2_500, 1 << 30)
    assert history.since(retained, retained.first, NOW) is None
    assert history.since(retained, retained.first + 1_000, NOW) is not None


def test_a_blink_table_has_nothing_to_resume() -> None:
    table = BlinkTable(UpdateGraph(), "t", pa.schema([("v", pa.int64())]))
    table.append({"v": [1]})
    history = History(300.0, 1 << 20)
    retained = history.join(table, NOW)
    table.append({"v": [2]})
    assert first_message(TableFeed(table), history.since(retained, 1, NOW)).is_snapshot


def test_a_request_for_another_viewport_is_answered_after_the_update() -> None:
    """The update comes first, although the other viewport was asked for before it was sent."""
    table, history, retained = upserted(50, 5)
    window = Window((0, 1), RowSet.flat(20))
    since = history.since(retained, table.version.step - 2, NOW)
    request = SubscriptionRequest(b"s/t", window.columns, window.positions, OPTIONS)
    link = Link(TableFeed(table), request, Dialect.KEY_SPACE, since)
    link.subscription.change(request.moved(RowSet.from_range(10, 30)))
    first, second = link.subscription.poll(NOW).messages
    assert (first.metadata.is_snapshot, second.metadata.is_snapshot) == (False, True)
    assert second.metadata.effective_viewport == RowSet.from_range(10, 30)


def test_those_who_come_back_from_one_step_share_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The update is coalesced once, and is one object for all of them, so that they share rows and messages as well."""
    table, history, retained = upserted(50, 100)
    works: list[int] = []

    def counted(updates: Sequence[TableUpdate], after: RowSet) -> tuple[TableUpdate, RowSet]:
        works.append(len(updates))
        return coalesce_all(updates, after)

    monkeypatch.setattr("barrage_server.subscription.history.coalesce_all", counted)
    first, other = (history.since(retained, retained.first, NOW) for _ in range(2))
    assert first is not None and other is not None
    assert works == [100]
    version = table.version
    assert coalesce_nodes(first, version.node) is coalesce_nodes(other, version.node)
    table.upsert({"k": [0], "v": [-1]})
    assert coalesce_nodes(first, table.version.node).modified[1].size == 50
    late = history.since(retained, retained.first, NOW)
    assert late is not None
    assert works == [100]
    assert coalesce_nodes(late, table.version.node).modified[1].size == 50


@pytest.mark.parametrize("viewport", [None, RowSet.flat(20)])
def test_those_who_come_back_from_one_step_do_not_wait_for_each_other(
    viewport: RowSet | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of them has coalesced up to a later version, while another one still sends an earlier one."""
    table, history, retained = upserted(50, 10)
    feed = TableFeed(table)
    step = retained.first
    slow, quick = (history.since(retained, step, NOW) for _ in range(2))
    assert slow is not None and quick is not None
    slow_version = table.version
    for value in (-1, -2):
        table.upsert({"k": [0], "v": [value]})
        later = history.since(retained, step, NOW)
        window = {} if viewport is None else {"viewport": viewport}
        for node in (quick, later):
            assert first_message(feed, node, **window).last_seq == table.version.step
        assert coalesce_nodes(slow, slow_version.node).modified[1].size == 10


def following(table: KeyedTable, window: Window) -> Subscriber:
    subscriber = Subscriber(TableFeed(table), window, MessageFormat(Dialect.KEY_SPACE, OPTIONS))
    subscriber.settle(NOW)
    return subscriber


def point(subscriber: Subscriber) -> ResumePoint:
    window = subscriber.window
    names = tuple(subscriber.feed.table.schema.names[number] for number in window.columns)
    return subscriber.content.resume_point(View(window.positions, window.reverse, names), Dialect.KEY_SPACE)


@pytest.mark.parametrize("window", [Window((0, 1)), Window((0, 1), RowSet.flat(20))])
def test_there_is_no_point_after_a_message_that_was_applied_in_part(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, _, _ = upserted(50, 3)
    subscriber = following(table, window)
    assert point(subscriber).step == table.version.step
    table.upsert({"k": [1], "v": [-5]})
    subscriber.link.serve(NOW + 10)

    def breaks(*_: object) -> None:
        raise WireFormatError("broken off")

    monkeypatch.setattr(ReplicaTable, "apply", breaks)
    with pytest.raises(WireFormatError):
        subscriber.receive()
    assert point(subscriber) == ResumePoint()


def test_there_is_no_point_for_a_replica_that_was_changed_otherwise() -> None:
    table, _, _ = upserted(50, 3)
    subscriber = following(table, Window((0, 1)))
    replica = subscriber.content.table
    replica.apply(ReplicaUpdate(RowSet.EMPTY, RowSet.flat(1)))
    assert point(subscriber) == ResumePoint()


def test_there_is_no_point_for_another_window_or_a_part_of_a_snapshot() -> None:
    table, _, _ = upserted(50, 3)
    subscriber = following(table, Window((0, 1), RowSet.flat(20)))
    for other in (View(None, False, None), View(RowSet.flat(21), False, None), View(RowSet.flat(20), True, None)):
        assert subscriber.content.resume_point(other, Dialect.KEY_SPACE) == ResumePoint()
    assert subscriber.content.resume_point(View(RowSet.flat(20), False, ("k",)), Dialect.KEY_SPACE) == ResumePoint()
    assert subscriber.content.resume_point(View(RowSet.flat(20), False, None), Dialect.FLATTENED) == ResumePoint()
    in_parts = Subscriber(
        TableFeed(table, SubscriptionLimits(snapshot_part_cells=20)), Window((0, 1)), subscriber.message_format
    )
    in_parts.link.serve(NOW)
    in_parts.receive()
    assert point(in_parts) == ResumePoint()
    in_parts.settle(NOW)
    assert point(in_parts).step == table.version.step


@pytest.mark.parametrize("back", [1, -1])
def test_an_update_from_another_point_is_refused_and_changes_nothing(back: int) -> None:
    table, history, retained = upserted(50, 10)
    subscriber = following(table, Window((0, 1)))
    before = subscriber.content.version
    table.upsert({"k": [1, 2], "v": [-5, -6]})
    table.upsert({"k": [1, 2], "v": [-7, -8]})
    last = table.version.step
    assert subscriber.come_back(lambda step: history.since(retained, last if back < 0 else step - back, NOW))
    subscriber.link.serve(NOW)
    if back > 0:  # what overlaps is modified once more, to the same values
        subscriber.receive()
        subscriber.check()
        return
    with pytest.raises(UnavailableError, match="another point"):
        subscriber.receive()
    assert subscriber.content.version is before
    assert subscriber.come_back(lambda step: history.since(retained, step, NOW))
    subscriber.settle(NOW)
    subscriber.check()


def test_publishers_do_not_wait_while_a_point_is_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    table, history, retained = upserted(50, 3)
    step = retained.first
    rebuilding, published = threading.Event(), threading.Event()
    outcome: list[bool] = []

    def slow(updates: Sequence[TableUpdate], after: RowSet) -> tuple[TableUpdate, RowSet]:
        rebuilding.set()
        outcome.append(published.wait(30))
        return coalesce_all(updates, after)

    monkeypatch.setattr("barrage_server.subscription.history.coalesce_all", slow)
    with ThreadPoolExecutor(1) as pool:
        rebuilt = pool.submit(history.since, retained, step, NOW)
        assert rebuilding.wait(30)
        table.upsert({"k": [1], "v": [-1]})
        published.set()
        node = rebuilt.result(30)
    assert outcome == [True]
    assert node is not None
    assert coalesce_nodes(node, table.version.node).modified[1].size > 0
