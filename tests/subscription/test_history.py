"""What subscribers keep alive of a table's history is bounded, whatever they do: come, go, stall, or wait for long."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from barrage_server.engine import BlinkTable, KeyedTable, Table, UpdateGraph
from barrage_server.engine.update import UpdateNode
from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, Subscription, SubscriptionLimits, TableFeed
from barrage_server.subscription.history import History
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
REQUEST = SubscriptionRequest(b"s/t", None, None, SubscriptionOptions(min_update_interval_ms=100))
HOUR = replace(REQUEST, options=SubscriptionOptions(min_update_interval_ms=3_600_000))
CYCLES, KEPT = 400, 40


def keyed() -> KeyedTable:
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["k"])
    table.upsert({"k": list(range(100)), "v": [0] * 100})
    return table


def subscribe(feed: TableFeed, request: SubscriptionRequest = REQUEST) -> Subscription:
    return Subscription(feed, request, dialect=Dialect.KEY_SPACE, lengths=LengthMode.PADDED)


def begun(feed: TableFeed, now: float, request: SubscriptionRequest = REQUEST) -> Subscription:
    subscription = subscribe(feed, request)
    subscription.poll(now)
    return subscription


def nodes() -> int:
    gc.collect()
    return sum(type(found) is UpdateNode for found in gc.get_objects())


def run(table: Table, feed: TableFeed, polled: list[Subscription], others: list[Subscription]) -> int:
    """Let the table tick, ten cycles a second; how much longer the history is that is alive afterwards."""
    before = nodes()
    now = 10.0
    for cycle in range(CYCLES):
        now += 0.1
        if isinstance(table, KeyedTable):
            table.upsert({"k": [cycle % 100], "v": [cycle + 1]})
        elif isinstance(table, BlinkTable):
            table.append({"k": [cycle], "v": [cycle]})
        for subscription in polled:
            subscription.poll(now)
        if cycle % 10 == 9:
            feed.tidy(now)
            for subscription in (*polled, *others):
                subscription.tidy(now)
    return nodes() - before


def one_of_two_leaves(table: Table) -> int:
    feed = TableFeed(table)
    stays, leaves = (begun(feed, 1.0) for _ in range(2))
    assert isinstance(table, KeyedTable)
    table.upsert({"k": [1], "v": [-1]})
    for subscription in (stays, leaves):
        subscription.poll(9.0)
    leaves.close()
    return run(table, feed, [stays], [])


def the_last_with_an_interval_leaves(table: Table) -> int:
    feed = TableFeed(table)
    quick = [begun(feed, 1.0) for _ in range(2)]
    slow = [begun(feed, 1.0, replace(REQUEST, options=SubscriptionOptions(min_update_interval_ms=700)))] * 2
    assert isinstance(table, KeyedTable)
    table.upsert({"k": [1], "v": [-1]})
    for subscription in (*quick, *slow):
        subscription.poll(9.0)
    for subscription in set(slow):
        subscription.close()
    return run(table, feed, quick, [])


def intervals_of_an_hour(table: Table) -> int:
    feed = TableFeed(table)
    return run(table, feed, [begun(feed, 1.0, HOUR) for _ in range(3)], [])


def some_are_not_served(table: Table) -> int:
    """Their clients take nothing: a write is stuck, or waits for room."""
    feed = TableFeed(table)
    return run(table, feed, [begun(feed, 1.0)], [begun(feed, 1.0) for _ in range(3)])


def a_first_snapshot_is_stuck(table: Table) -> int:
    feed = TableFeed(table, SubscriptionLimits(snapshot_part_cells=20))
    growing = begun(feed, 1.0)
    gained = run(table, feed, [], [growing])
    now, rows = 1000.0, 0
    wake_at: float | None = now
    while wake_at is not None:
        poll = growing.poll(now)
        rows += sum(message.row_count for message in poll.messages)
        wake_at, now = poll.wake_at, now + 10.0
    assert rows >= 90 + 100  # the rest of the snapshot as it was, and every row of which the value has changed since
    return gained


@pytest.mark.parametrize(
    "scene",
    [
        one_of_two_leaves,
        the_last_with_an_interval_leaves,
        intervals_of_an_hour,
        some_are_not_served,
        a_first_snapshot_is_stuck,
    ],
)
def test_the_history_that_is_kept_alive_is_bounded(scene: Callable[[Table], int]) -> None:
    assert scene(keyed()) < KEPT


@pytest.mark.parametrize("request_of", [REQUEST, HOUR, replace(REQUEST, viewport=RowSet.from_range(0, 3))])
def test_that_of_a_blink_table_is_too(request_of: SubscriptionRequest) -> None:
    table = BlinkTable(UpdateGraph(), "t", SCHEMA)
    feed = TableFeed(table)
    assert run(table, feed, [], [begun(feed, 1.0, request_of)]) < KEPT


def test_members_that_come_late_to_a_tick_are_sent_what_there_is() -> None:
    """The version of a tick is forgotten after a while, also of one that lasts for an hour."""
    table = keyed()
    feed = TableFeed(table)
    first, late = (begun(feed, 1.0, HOUR) for _ in range(2))
    table.upsert({"k": [1], "v": [1]})
    assert [message.metadata.last_seq for message in first.poll(7200.0).messages] == [2]
    table.upsert({"k": [1], "v": [2]})
    feed.tidy(7300.0)
    assert [message.metadata.last_seq for message in late.poll(7300.0).messages] == [3]


def test_a_history_that_is_closed_keeps_nothing_of_its_table_alive() -> None:
    """Its table goes on without subscribers; what is still there of the history is in the order of all updates."""
    history = History(seconds=300.0, most_bytes=1 << 20)
    table, other = keyed(), keyed()
    left = history.join(table, 1.0)
    history.join(other, 1.0)
    other.upsert({"k": [1], "v": [-1]})  # its update comes first, so that the order keeps those behind it
    history.tidy(100.0)
    table.upsert({"k": [1], "v": [-1]})
    history.tidy(101.0)
    history.leave(left, 1.0)
    history.tidy(301.0)
    assert left.is_closed
    assert history.nbytes > 0
    before = nodes()
    for cycle in range(CYCLES):
        table.upsert({"k": [cycle % 100], "v": [cycle]})
    assert nodes() - before < KEPT
    assert history.since(left, left.first, 302.0) is None
