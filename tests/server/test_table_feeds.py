"""Feeds of tables: one for each client family, and a wake-up for each subscriber."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
import pytest

from barrage_server.engine import AppendTable, UpdateGraph
from barrage_server.server.dispatcher import Dispatcher
from barrage_server.server.table_feeds import TableFeeds
from barrage_server.subscription import SubscriptionLimits
from barrage_server.wire.families import ClientFamily

SCHEMA = pa.schema([("a", pa.uint8()), ("b", pa.struct([("x", pa.int8())]))])


@pytest.fixture
def feeds() -> Iterator[TableFeeds]:
    dispatcher = Dispatcher()
    yield TableFeeds(dispatcher, SubscriptionLimits())
    dispatcher.close()


def test_each_family_has_a_feed_of_its_own(feeds: TableFeeds) -> None:
    """Streams of one family share it, and with it their messages; all of them count."""
    table, other = (AppendTable(UpdateGraph(), name, SCHEMA) for name in "to")
    plain, again = feeds.join(table), feeds.join(table, ClientFamily.ARROW)
    java = feeds.join(table, ClientFamily.JAVA)
    assert plain is again
    assert plain.feed is not java.feed
    assert (plain.table, java.table) == (table, table)
    assert plain.feed.schema.names == ["a", "b"]
    assert java.feed.schema.names == ["a"]
    assert (feeds.count(table), feeds.count(other)) == (3, 0)
    assert feeds.feed(table, ClientFamily.JAVA) is java.feed
    for following in (plain, again, java):
        feeds.leave(following)
    assert feeds.count(table) == 0


def test_a_single_answer_needs_no_followers(feeds: TableFeeds) -> None:
    """The feed is one of its own, and of the right family."""
    table = AppendTable(UpdateGraph(), "t", SCHEMA)
    feed = feeds.feed(table, ClientFamily.TICKING)
    assert feed.schema.field("a").type == pa.int16()
    assert feed is not feeds.feed(table, ClientFamily.TICKING)
    assert feeds.feed(table).schema.names == ["a", "b"]
    assert feeds.count(table) == 0


def test_every_family_hears_of_changes(feeds: TableFeeds) -> None:
    """While it has subscribers."""
    table = AppendTable(UpdateGraph(), "t", SCHEMA)
    plain, java = feeds.join(table), feeds.join(table, ClientFamily.JAVA)
    table.append({"a": [1], "b": [None]})
    assert (plain.signal.serial, java.signal.serial) == (1, 1)
    feeds.leave(plain)
    table.append({"a": [1], "b": [None]})
    assert (plain.signal.serial, java.signal.serial) == (1, 2)
    feeds.leave(java)
    table.append({"a": [1], "b": [None]})
    assert java.signal.serial == 2


def test_the_log_warns_once_of_columns_that_are_left_out(feeds: TableFeeds, caplog: pytest.LogCaptureFixture) -> None:
    """For each table and family, however often they come back; plain clients miss nothing."""
    tables = [AppendTable(UpdateGraph(), name, SCHEMA) for name in "to"]
    with caplog.at_level(logging.WARNING, "barrage_server.server"):
        for _ in range(2):
            for table in tables:
                feeds.feed(table)
                feeds.leave(feeds.join(table))
                feeds.feed(table, ClientFamily.JAVA)
                feeds.leave(feeds.join(table, ClientFamily.JAVA))
        feeds.feed(tables[0], ClientFamily.TICKING)
    assert [record.getMessage() for record in caplog.records] == [
        f"{family} clients get {name} without the columns that they have no type for: b (struct<x: int8>)"
        for family, name in [("JAVA", "t"), ("JAVA", "o"), ("TICKING", "t")]
    ]
