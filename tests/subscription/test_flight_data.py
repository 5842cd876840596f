"""Messages as bytes for endpoints that write their own gRPC: once for all who want the same."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from barrage_server.engine import AppendTable, KeyedTable, UpdateGraph
from barrage_server.subscription import Dialect, EncodedMessage, Subscription, TableFeed
from barrage_server.wire.arrow_message import BatchHeader
from barrage_server.wire.batches import LengthMode, MessageWriter
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.raw import decode_flight_data, decode_ragged_batch
from barrage_server.wire.reader import IncomingMessage, MessageReader

SCHEMA = pa.schema([("name", pa.string()), ("value", pa.int64())])
OPTIONS = SubscriptionOptions(min_update_interval_ms=100)


def subscribe(feed: TableFeed) -> Subscription:
    request = SubscriptionRequest(ticket=b"s/t", options=OPTIONS)
    return Subscription(feed, request, dialect=Dialect.FLATTENED, lengths=LengthMode.RAGGED)


def received(message: Any, schema: pa.Schema) -> IncomingMessage:
    reader, result = MessageReader(schema), None
    for data in message.flight_data():
        assert result is None
        parts = decode_flight_data(data)
        assert parts.data_body is not None
        columns = decode_ragged_batch(parts.data_header, parts.data_body, schema)
        result = reader.feed_columns(columns, BatchHeader.decode(parts.data_header).length, parts.app_metadata)
    assert result is not None
    return result


def test_the_bytes_say_what_the_message_says() -> None:
    """A snapshot, and modifications of one column only: the other one has no values."""
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["name"])
    table.upsert({"name": ["a", "b", "c"], "value": [1, 2, 3]})
    subscription = subscribe(TableFeed(table))
    (snapshot,) = subscription.poll(0.0).messages
    got = received(snapshot, subscription.wire_schema)
    assert [column.to_pylist() for column in got.add_columns] == [["a", "b", "c"], [1, 2, 3]]
    table.upsert({"name": ["b"], "value": [20]})
    (update,) = subscription.poll(1.0).messages
    got = received(update, subscription.wire_schema)
    assert [rows.size for rows in got.metadata.modified_rows or ()] == [0, 1]
    assert [column.to_pylist() for column in got.mod_columns] == [[], [20]]


def test_shared_bytes_are_made_once_and_without_record_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each form is built when it is first asked for, once, and neither builds the other."""
    built: list[str] = []

    def count(name: str) -> None:
        original = getattr(MessageWriter, name)

        def counted(writer: MessageWriter, message: Any) -> Any:
            built.append(name)
            return original(writer, message)

        monkeypatch.setattr(MessageWriter, name, counted)

    count("record_batches")
    count("ipc_messages")
    table = AppendTable(UpdateGraph(), "t", SCHEMA)
    feed = TableFeed(table)
    subscriptions = [subscribe(feed), subscribe(feed)]
    for subscription in subscriptions:
        subscription.poll(0.0)
    table.append({"name": ["a"], "value": [1]})
    first, second = (subscription.poll(1.0).messages[0] for subscription in subscriptions)
    assert not isinstance(first, EncodedMessage)
    (one,), (two,) = list(first.flight_data()), list(second.flight_data())
    assert one is two
    assert built == ["ipc_messages"]
    assert next(first.batches())[0] is next(second.batches())[0]
    assert built == ["ipc_messages", "record_batches"]
