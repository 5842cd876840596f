"""Many subscribers that each need a small part of a change: rows are read once for all."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import KeyedTable, TableVersion, UpdateGraph
from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, TableFeed, Window
from barrage_server.wire.families import ClientFamily
from barrage_server.wire.metadata import SubscriptionOptions
from tests.subscription.follower import Follower, MessageFormat, make_row, make_table, to_table

CROWD = 12
runs = st.builds(lambda first, size: RowSet.from_range(first, first + size), st.integers(0, 25), st.integers(0, 6))
windows = st.builds(
    lambda positions, reverse, columns: Window(tuple(sorted(columns)), positions, reverse),
    runs | st.builds(RowSet.from_keys, st.lists(st.integers(0, 25), min_size=1, max_size=4)),
    st.booleans(),
    st.sets(st.integers(0, 4), min_size=1),
)


@settings(max_examples=60)  # each example has many subscribers
@given(
    st.sampled_from(list(ClientFamily)),
    st.lists(
        st.tuples(windows, st.sampled_from(list(Dialect)), st.booleans(), st.booleans()),
        min_size=CROWD,
        max_size=CROWD,
    ),
    st.integers(0, 2**32 - 1),
)
def test_every_subscriber_sees_the_table(
    family: ClientFamily, asked: list[tuple[Window, Dialect, bool, bool]], seed: int
) -> None:
    """Rows that are only modified, and in between rows that come and go, in all forms and dialects."""
    chance = random.Random(seed)
    table = make_table(20)
    feed = TableFeed(table, family=family)
    options = {
        as_list: SubscriptionOptions(min_update_interval_ms=1, columns_as_list=as_list) for as_list in (False, True)
    }
    followers = [
        Follower(feed, window, MessageFormat(family, dialect, raw, options[as_list]))
        for window, dialect, raw, as_list in asked
    ]
    now = 1.0
    for _ in range(4):
        for follower in followers:
            now = max(now, follower.settle(now))
            follower.check()
        if chance.random() < 0.3:
            table.delete({"key": pa.array([chance.randrange(20)], pa.uint8())})
        elif chance.random() < 0.3:
            table.upsert(to_table([make_row(chance.randrange(20, 30), chance)]))
        for _ in range(chance.choice([1, 1, 2])):
            there = table.to_arrow().column("key").to_pylist()
            keys = chance.sample(there, min(len(there), chance.choice([1, 3, 9])))
            table.upsert(to_table([make_row(key, chance) for key in keys]))
    for follower in followers:
        follower.settle(now)
        follower.check()


def reads(monkeypatch: pytest.MonkeyPatch, viewports: int, changed: int) -> int:
    """Number of reads of a table when ``changed`` of its rows have changed, for a number of viewports of ten rows."""
    table = KeyedTable(UpdateGraph(), "t", pa.schema([("k", pa.int64()), ("v", pa.int64())]), ["k"])
    table.upsert({"k": list(range(10_000)), "v": [0] * 10_000})
    feed = TableFeed(table)
    message_format = MessageFormat(
        ClientFamily.ARROW,
        Dialect.KEY_SPACE,
        False,
        SubscriptionOptions(min_update_interval_ms=1, columns_as_list=True),
    )
    followers = [
        Follower(feed, Window((0, 1), RowSet.from_range(10 * number, 10 * number + 9)), message_format)
        for number in range(viewports)
    ]
    now = max(follower.settle(1.0) for follower in followers)
    count = 0
    read = TableVersion.read

    def counting(version: TableVersion, *arguments: Any) -> Any:
        nonlocal count
        count += 1
        return read(version, *arguments)

    table.upsert({"k": list(range(changed)), "v": [1] * changed})
    with monkeypatch.context() as patch:
        patch.setattr(TableVersion, "read", counting)
        for follower in followers:
            follower.settle(now)
    for follower in followers:
        follower.check()
    return count


def test_a_crowd_reads_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reads(monkeypatch, viewports=50, changed=500) == 1


def test_a_few_read_what_they_see(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reads(monkeypatch, viewports=3, changed=30) == 3


def test_a_crowd_does_not_read_what_hardly_anybody_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reads(monkeypatch, viewports=10, changed=9_000) == 10
