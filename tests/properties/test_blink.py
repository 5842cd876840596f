"""A subscriber of a blink table gets every row exactly once, however late it reads, and shows the table at rest."""

from __future__ import annotations

import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.client.content import Content
from barrage_server.engine import AppendTable, BlinkTable, UpdateGraph
from barrage_server.subscription import Dialect, Subscription, TableFeed, Window
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.reader import MessageReader
from barrage_server.wire.schema import table_attributes

SCHEMA = pa.schema([("x", pa.int64())])


@given(st.lists(st.one_of(st.integers(0, 5), st.sampled_from(["serve", "compact"])), max_size=30), st.integers(0, 4))
def test_every_row_once(turns: list[int | str], before: int) -> None:
    table = BlinkTable(UpdateGraph(), "t", SCHEMA)
    table.append({"x": [-1] * before})
    subscription = Subscription(
        TableFeed(table),
        SubscriptionRequest(b"s/t", options=SubscriptionOptions(columns_as_list=True, min_update_interval_ms=1)),
        dialect=Dialect.KEY_SPACE,
        lengths=LengthMode.PADDED,
    )
    reader = MessageReader(subscription.wire_schema)
    content = Content(UpdateGraph(), "t")
    content.begin(SCHEMA, Window((0,)), Dialect.KEY_SPACE, attributes=table_attributes(subscription.wire_schema))
    received: list[int] = []
    now = 0.0

    def serve() -> None:
        for message in subscription.poll(now).messages:
            for batch, metadata in message.batches():
                whole = reader.feed(batch, metadata)
                update = None if whole is None else content.apply(whole)
                if update is not None:
                    received.extend(update.added_values()["x"].to_pylist())
                    assert content.version.to_table().equals(update.added_values())

    serve()
    assert content.version.size == 0
    sent: list[int] = []
    for turn in [*turns, "serve"]:
        now += 1.0
        if turn == "serve":
            serve()
        elif turn == "compact":
            subscription.tidy(math.inf)
        else:
            rows = list(range(len(sent), len(sent) + int(turn)))
            table.append({"x": pa.array(rows, pa.int64())})
            sent += rows
    assert received == sent
    AppendTable(table.graph, "other", SCHEMA).append({"x": [0]})  # any cycle
    for _ in range(2):
        now += 1.0
        serve()
    assert received == sent
    assert table.size == content.version.size == 0
    now += 1.0
    assert subscription.poll(now).messages == []
    assert content.table.attributes["BlinkTable"] is True
