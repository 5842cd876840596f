"""A subscriber that puts together what it is sent, for tests of the subscription room alone."""

from __future__ import annotations

import random
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from barrage_server.client.content import Content
from barrage_server.engine import KeyedTable, TableVersion, UpdateGraph
from barrage_server.subscription import Dialect, Subscription, TableFeed, Window
from barrage_server.wire.arrow_message import BatchHeader
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.families import ClientFamily
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.raw import decode_flight_data, decode_ragged_batch
from barrage_server.wire.reader import IncomingMessage, MessageReader
from barrage_server.wire.schema import table_attributes

SCHEMA = pa.schema(
    [
        ("key", pa.uint8()),
        ("pair", pa.struct([("x", pa.int8())])),
        ("name", pa.string()),
        ("price", pa.decimal128(20, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("span", pa.month_day_nano_interval()),
        ("tags", pa.large_list(pa.uint32())),
    ]
)
OPTIONS = SubscriptionOptions(min_update_interval_ms=1)

Row = dict[str, Any]


def make_row(key: int, chance: random.Random) -> Row:
    return {
        "key": key,
        "pair": chance.choice([None, {"x": 1}, {"x": 2}]),
        "name": chance.choice([None, "a", "b"]),
        "price": chance.choice([None, Decimal("1.50"), Decimal("-2.25"), Decimal("123456789012.00")]),
        "at": chance.choice([None, 0, 1_700_000_000_000_000]),
        "span": chance.choice([None, (1, 2, 3)]),
        "tags": chance.choice([None, [], [1, None], [1 << 31]]),
    }


def to_table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def make_table(count: int = 0) -> KeyedTable:
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["key"])
    chance = random.Random(1)
    if count:
        table.upsert(to_table([make_row(key, chance) for key in range(count)]))
    return table


@dataclass(frozen=True)
class MessageFormat:
    """How a subscriber is served: as record batches, or as bytes."""

    family: ClientFamily
    dialect: Dialect
    raw: bool
    options: SubscriptionOptions


class Follower:
    """Puts together what it is sent."""

    def __init__(self, feed: TableFeed, window: Window, message_format: MessageFormat) -> None:
        self.feed, self.window, self.message_format = feed, window, message_format
        lengths = LengthMode.RAGGED if message_format.raw else LengthMode.PADDED
        self.subscription = Subscription(feed, self._request(), dialect=message_format.dialect, lengths=lengths)
        self.schema = self.subscription.wire_schema
        self.reader = MessageReader(self.schema, use_deephaven_nulls=message_format.options.use_deephaven_nulls)
        self.content = Content(UpdateGraph(), "t")
        self.content.begin(feed.view.schema, window, message_format.dialect, attributes=table_attributes(self.schema))

    def _request(self) -> SubscriptionRequest:
        window = self.window
        return SubscriptionRequest(
            b"s/t", window.columns, window.positions, self.message_format.options, window.reverse
        )

    def look_at(self, window: Window) -> None:
        self.window = self.content.wanted = window
        self.subscription.change(self._request())

    def settle(self, now: float) -> float:
        wake_at: float | None = now
        while wake_at is not None:
            poll = self.subscription.poll(now)
            for message in poll.messages:
                self.content.apply(self.read(message))
            wake_at, now = poll.wake_at, now + 1.0
        return now

    def read(self, message: Any) -> IncomingMessage:
        found = None
        if self.message_format.raw:
            for data in message.flight_data():
                assert found is None
                parts = decode_flight_data(data)
                assert parts.data_body is not None
                columns = decode_ragged_batch(parts.data_header, parts.data_body, self.schema)
                length = BatchHeader.decode(parts.data_header).length
                found = self.reader.feed_columns(columns, length, parts.app_metadata)
        else:
            for batch, metadata in message.batches():
                assert found is None
                found = self.reader.feed(batch, metadata)
        assert found is not None
        return found

    def check(self) -> None:
        """Cell by cell, in the subscriber's types."""
        version = self.feed.table.version
        expected = as_seen(self.feed, version, self.window)
        shown = self.content.version.to_table()
        assert shown.schema.names == expected.schema.names
        assert shown.schema.types == expected.schema.types
        assert shown.to_pydict() == expected.to_pydict()


def as_seen(feed: TableFeed, version: TableVersion, window: Window) -> pa.Table:
    """The rows in the window, read from the table at once and converted."""
    whole = version.to_table(rows=window.keys(version.row_set))
    view = feed.view
    names = [view.schema.names[number] for number in window.columns]
    columns = [view.convert(number, whole.column(view.sources[number]).combine_chunks()) for number in window.columns]
    return pa.table(columns, names=names)
