"""Subscribers that see fewer columns than there are, and some of them as other types (docs/types.md).

All numbers of columns, in requests and in messages, are those of what the subscriber sees.
"""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.engine import BlinkTable, KeyedTable, UpdateGraph
from barrage_server.errors import UnknownColumnError
from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, EncodedMessage, Subscription, TableFeed, Window, snapshot_message
from barrage_server.wire.arrow_message import BatchHeader
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.families import ClientFamily
from barrage_server.wire.metadata import SnapshotRequest, SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.raw import decode_flight_data
from barrage_server.wire.schema import key_columns
from tests.subscription.follower import (
    OPTIONS,
    SCHEMA,
    Follower,
    MessageFormat,
    as_seen,
    make_row,
    make_table,
    to_table,
)

SHOWN = ["key", "name", "price", "at", "tags"]
REQUEST = SubscriptionRequest(b"s/t", options=OPTIONS)
STOCK = [ClientFamily.TICKING, ClientFamily.JAVA, ClientFamily.JAVASCRIPT]


families = st.sampled_from(list(ClientFamily))
manners = st.builds(
    MessageFormat,
    families,
    st.sampled_from(list(Dialect)),
    st.booleans(),
    st.builds(
        SubscriptionOptions,
        use_deephaven_nulls=st.booleans(),
        min_update_interval_ms=st.just(1),
        batch_size=st.sampled_from([0, 2]),
        columns_as_list=st.booleans(),
    ),
)
positions = st.builds(lambda first, size: RowSet.from_range(first, first + size), st.integers(0, 9), st.integers(0, 9))


@given(st.lists(manners, min_size=1, max_size=3), st.data(), st.integers(0, 2**32 - 1))
def test_what_is_put_together_is_what_is_there(asked: list[MessageFormat], data: st.DataObject, seed: int) -> None:
    """Snapshots, updates and moving viewports, in all dialects and forms, for all families at once."""
    chance = random.Random(seed)
    table = make_table(data.draw(st.sampled_from([0, 5, 20])))
    followers = []
    for message_format in asked:
        feed = TableFeed(table, family=message_format.family)
        columns = data.draw(
            st.sets(st.integers(0, len(feed.schema) - 1), min_size=1).map(lambda found: tuple(sorted(found)))
        )
        followers.append(Follower(feed, Window(columns, data.draw(st.none() | positions)), message_format))
    now = 1.0
    for _ in range(data.draw(st.integers(1, 5))):
        for follower in followers:
            now = follower.settle(now)
            follower.check()
            if not follower.window.is_full and chance.random() < 0.5:
                follower.look_at(
                    replace(follower.window, positions=data.draw(positions), reverse=chance.random() < 0.5)
                )
        if chance.random() < 0.3:
            table.delete({"key": pa.array([chance.randrange(20)], pa.uint8())})
        table.upsert(to_table([make_row(chance.randrange(20), chance) for _ in range(chance.choice([1, 3, 9]))]))
    for follower in followers:
        follower.settle(now)
        follower.check()


def follow(family: ClientFamily, table: KeyedTable, raw: bool = True) -> Follower:
    feed = TableFeed(table, family=family)
    window = Window(tuple(range(len(feed.schema))))
    follower = Follower(feed, window, MessageFormat(family, Dialect.FLATTENED, raw, OPTIONS))
    follower.settle(0.0)
    return follower


@pytest.mark.parametrize("family", STOCK, ids=str)
def test_the_schema_is_what_is_shown(family: ClientFamily) -> None:
    """With the table's keys and attributes beside it, as far as its columns are there."""
    feed = TableFeed(make_table(), family=family)
    assert feed.schema.names == feed.view.schema.names == SHOWN
    assert feed.view.left_out == ("pair", "span")
    assert feed.schema.field("key").type == pa.int16()
    assert feed.schema.field("at").type == pa.timestamp("ns", "UTC")
    assert feed.schema.field("price").type == (pa.string() if family is ClientFamily.TICKING else pa.binary())
    assert key_columns(feed.schema) == ("key",)
    assert TableFeed(make_table()).schema.names == SCHEMA.names


def test_a_key_that_cannot_be_shown_is_not_named_as_one() -> None:
    schema = pa.schema([("span", pa.month_day_nano_interval()), ("value", pa.int64())])
    table = KeyedTable(UpdateGraph(), "t", schema, ["span"])
    assert key_columns(TableFeed(table, family=ClientFamily.JAVA).schema) == ()
    assert key_columns(TableFeed(table).schema) == ("span",)


def test_a_key_is_marked_under_the_name_that_is_shown() -> None:
    """A Deephaven server gets no column called ``k``."""
    table = KeyedTable(UpdateGraph(), "t", pa.schema([("column_k2", pa.int64()), ("k", pa.int64())]), ["k"])
    assert key_columns(TableFeed(table, family=ClientFamily.JAVA).schema) == ("column_k",)
    assert key_columns(TableFeed(table, family=ClientFamily.TICKING).schema) == ("k",)


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("family", STOCK, ids=str)
def test_a_change_of_what_is_not_shown_is_an_empty_update(family: ClientFamily, raw: bool) -> None:
    """No rows, and no row set of a column that is not there."""
    table = make_table(3)
    follower = follow(family, table, raw)
    row = make_row(1, random.Random(1)) | {"pair": {"x": 77}}
    table.upsert(to_table([row]))
    follower.settle(1.0)
    table.upsert(to_table([row | {"pair": {"x": 78}}]))
    (message,) = follower.subscription.poll(9.0).messages
    assert message.metadata.modified_rows == (RowSet.empty(),) * len(SHOWN)
    assert message.row_count == 0
    got = follower.read(message)
    assert [len(column) for column in (*got.add_columns, *got.mod_columns)] == [0] * 2 * len(SHOWN)


@pytest.mark.parametrize("family", STOCK, ids=str)
def test_modified_rows_are_named_by_the_columns_that_are_shown(family: ClientFamily) -> None:
    """The price is the table's fourth column, and the third of those shown."""
    table = make_table(4)
    follower = follow(family, table)
    rows = table.to_arrow().to_pylist()
    table.upsert(to_table([rows[2] | {"price": Decimal("9.99"), "span": (7, 7, 7)}]))
    (message,) = follower.subscription.poll(9.0).messages
    modified = message.metadata.modified_rows
    assert modified is not None
    assert [rows.size for rows in modified] == [0, 0, 1, 0, 0]
    (value,) = follower.read(message).mod_columns[2].to_pylist()
    assert value == ("9.99" if family is ClientFamily.TICKING else b"\x02\0\0\0\x03\xe7")


def test_columns_that_are_not_shown_cannot_be_asked_for() -> None:
    """The text says what there is for this client."""
    feed = TableFeed(make_table(), family=ClientFamily.JAVA)
    with pytest.raises(UnknownColumnError, match="number 5; the table has the columns 0 to 4"):
        Subscription(feed, replace(REQUEST, columns=(5,)), dialect=Dialect.FLATTENED, lengths=LengthMode.RAGGED)
    with pytest.raises(UnknownColumnError, match="number 5"):
        snapshot_message(feed, SnapshotRequest(b"s/t", columns=(5,)), feed.table.version, LengthMode.RAGGED)


@pytest.mark.parametrize("family", list(ClientFamily), ids=str)
def test_snapshots(family: ClientFamily) -> None:
    """Of some columns and rows, by the numbers of those shown."""
    table = make_table(9)
    feed = TableFeed(table, family=family)
    columns, viewport = (0, len(feed.schema) - 1), RowSet.from_range(2, 4)
    request = SnapshotRequest(b"s/t", columns=columns, viewport=viewport)
    message = snapshot_message(feed, request, table.version, LengthMode.RAGGED)
    assert isinstance(message, EncodedMessage)
    assert message.metadata.effective_column_set == columns
    message_format = MessageFormat(family, Dialect.KEY_SPACE, True, SubscriptionOptions())
    got = Follower(feed, Window(columns, viewport), message_format).read(message)
    expected = as_seen(feed, table.version, Window(columns, viewport))
    assert [len(column) for column in got.add_columns] == [3, *[0] * (len(feed.schema) - 2), 3]
    assert [got.add_columns[number].to_pylist() for number in columns] == [c.to_pylist() for c in expected.columns]


@pytest.mark.parametrize("family", STOCK, ids=str)
def test_blink_tables(family: ClientFamily) -> None:
    """Rows come and go with the columns that are shown."""
    table = BlinkTable(UpdateGraph(), "t", SCHEMA)
    feed = TableFeed(table, family=family)
    window = Window(tuple(range(len(SHOWN))))
    follower = Follower(feed, window, MessageFormat(family, Dialect.FLATTENED, True, OPTIONS))
    now = follower.settle(0.0)
    for count in (2, 3):
        table.append(to_table([make_row(key, random.Random(key)) for key in range(count)]))
        now = follower.settle(now)
        follower.check()
        assert follower.content.version.size == count


def test_a_table_of_which_nothing_can_be_shown_is_followed_all_the_same() -> None:
    """Its rows come and go; they have no cells."""
    schema = pa.schema([("pair", pa.struct([("x", pa.int8())]))])
    table = BlinkTable(UpdateGraph(), "t", schema)
    subscription = Subscription(
        TableFeed(table, family=ClientFamily.TICKING), REQUEST, dialect=Dialect.FLATTENED, lengths=LengthMode.RAGGED
    )
    subscription.poll(0.0)
    table.append({"pair": [{"x": 1}, None]})
    (message,) = subscription.poll(1.0).messages
    (data,) = message.flight_data()
    assert BatchHeader.decode(decode_flight_data(data).data_header).length == 2
