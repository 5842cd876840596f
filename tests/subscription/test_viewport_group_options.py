"""A member of a viewport group is sent exactly what it would be sent alone, whatever it and the others ask for."""

from __future__ import annotations

import random
from enum import Enum
from typing import Any

import pyarrow as pa
import pytest
from barrage_flatbuf.BarrageMessageType import BarrageMessageType
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, Subscription, TableFeed, viewport_change
from barrage_server.subscription.viewport_group import GroupMessage
from barrage_server.wire.arrow_message import BatchHeader
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest, UpdateMetadata
from barrage_server.wire.raw import decode_flight_data, decode_ragged_batch
from barrage_server.wire.row_messages import row_messages
from barrage_server.wire.wrapper import unwrap, wrap
from tests.subscription.follower import make_row, make_table, to_table


class Form(Enum):
    """In which form a message is taken."""

    BATCHES = "record batches"
    BYTES = "bytes for Flight"
    PAGE = "bytes for a page"


Sent = tuple[list[pa.Array], int, bytes | None]
"""Columns, rows and app_metadata of a batch."""

ROWS = 60
MEMBERS = 10

viewports = st.one_of(
    st.builds(lambda first, size: RowSet.from_range(first, first + size), st.integers(0, ROWS + 5), st.integers(0, 50)),
    st.just(RowSet.empty()),
    st.just(RowSet.from_range(0, (1 << 63) - 2)),
    st.builds(RowSet.from_keys, st.lists(st.integers(0, ROWS + 5), min_size=1, max_size=4)),
)
options = st.builds(
    SubscriptionOptions,
    min_update_interval_ms=st.just(1),
    batch_size=st.sampled_from([0, -1, 1, 2, 7, 1000]),
    max_message_size=st.sampled_from([0, 1, 2200, 2600, 3500, 100_000]),
    preview_list_length_limit=st.sampled_from([0, 1, 2]),
    use_deephaven_nulls=st.booleans(),
    columns_as_list=st.just(True),
)
asked = st.tuples(st.none() | st.lists(st.integers(0, 6), min_size=1, max_size=7), viewports, st.booleans())


def subscribe(feed: TableFeed, request: SubscriptionRequest, dialect: Dialect, lengths: LengthMode) -> Subscription:
    subscription = Subscription(feed, request, dialect=dialect, lengths=lengths)
    wake_at: float | None = 0.0
    while wake_at is not None:
        wake_at = subscription.poll(0.0).wake_at
    return subscription


def sent(subscription: Subscription, now: float, form: Form) -> tuple[list[Sent], set[type]]:
    """What is due, in batches or in bytes, and how it was made."""
    messages = subscription.poll(now).messages
    kinds = {type(message) for message in messages} | {type(getattr(message, "_message", None)) for message in messages}
    if form is Form.BATCHES:
        return [
            (batch.columns, batch.num_rows, word) for message in messages for batch, word in message.batches()
        ], kinds
    if form is Form.PAGE:
        frames = [frame for message in messages for frame in message.encapsulated()]
        again = [frame for message in messages for frame in message.encapsulated()]
        assert frames == again, "what has been taken is made anew"
        batches = [pa.ipc.read_record_batch(data, subscription.wire_schema) for _, data in frames]
        words = [None if word is None else wrap(BarrageMessageType.BarrageUpdateMetadata, word) for word, _ in frames]
        return [(batch.columns, batch.num_rows, word) for batch, word in zip(batches, words, strict=True)], kinds
    parts = [decode_flight_data(data) for message in messages for data in message.flight_data()]
    return [
        (
            decode_ragged_batch(part.data_header, part.data_body or b"", subscription.wire_schema),
            BatchHeader.decode(part.data_header).length,
            part.app_metadata or None,
        )
        for part in parts
    ], kinds


def check_same(one: list[Sent], other: list[Sent]) -> None:
    assert [length for _, length, _ in one] == [length for _, length, _ in other]
    for (columns, _, word), (others, _, other_word) in zip(one, other, strict=True):
        assert [len(column) for column in columns] == [len(column) for column in others]
        assert all(column.equals(its) for column, its in zip(columns, others, strict=True))
        assert (word is None) == (other_word is None)
        if word is not None and other_word is not None:
            assert UpdateMetadata.decode_payload(unwrap(word)[1]) == UpdateMetadata.decode_payload(
                unwrap(other_word)[1]
            )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(asked, min_size=2, max_size=MEMBERS),
    options,
    st.sampled_from(list(Dialect)),
    st.sampled_from(list(Form)),
    st.integers(0, 2**32 - 1),
)
def test_a_member_gets_what_it_would_get_alone(
    wishes: list[Any], chosen: SubscriptionOptions, dialect: Dialect, form: Form, seed: int
) -> None:
    chance = random.Random(seed)
    table = make_table(ROWS)
    feed = TableFeed(table)
    lengths = LengthMode.PADDED if form is Form.BATCHES else LengthMode.RAGGED
    requests = [
        SubscriptionRequest(b"s/t", None if columns is None else tuple(columns), viewport, chosen, reverse)
        for columns, viewport, reverse in (wishes * MEMBERS)[:MEMBERS]
    ]
    viewports = [subscribe(feed, request, dialect, lengths) for request in requests]
    alone = [subscribe(TableFeed(table), request, dialect, lengths) for request in requests]
    for step in range(1, 4):
        keys = chance.sample(range(ROWS), chance.choice([1, 9, 40]))
        table.upsert(to_table([make_row(key, chance) for key in keys]))
        for member, single in zip(viewports, alone, strict=True):
            check_same(sent(member, 10.0 * step, form)[0], sent(single, 10.0 * step, form)[0])


@pytest.mark.parametrize("chosen", [SubscriptionOptions(columns_as_list=True, batch_size=size) for size in (0, 7)])
def test_members_are_served_together_whatever_the_size_of_their_batches(chosen: SubscriptionOptions) -> None:
    """What :func:`test_a_member_gets_what_it_would_get_alone` compares is indeed cut out of one change."""
    table = make_table(ROWS)
    feed = TableFeed(table)
    requests = [
        SubscriptionRequest(b"s/t", None, RowSet.from_range(first, first + 30), chosen) for first in range(MEMBERS)
    ]
    viewports = [subscribe(feed, request, Dialect.KEY_SPACE, LengthMode.PADDED) for request in requests]
    chance = random.Random(2)
    table.upsert(to_table([make_row(key, chance) for key in range(ROWS)]))
    for member in viewports:
        assert GroupMessage in sent(member, 10.0, Form.BATCHES)[1]


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("reverse", [False, True])
def test_an_empty_viewport_does_no_harm_to_the_others(dialect: Dialect, reverse: bool) -> None:
    table = make_table(ROWS)
    feed = TableFeed(table)
    chosen = SubscriptionOptions(columns_as_list=True)
    wanted = [*(RowSet.from_range(first, first + 9) for first in range(MEMBERS)), RowSet.empty()]
    viewports = [
        subscribe(feed, SubscriptionRequest(b"s/t", None, viewport, chosen, reverse), dialect, LengthMode.PADDED)
        for viewport in wanted
    ]
    chance = random.Random(2)
    for step in range(3):
        table.upsert(to_table([make_row(key, chance) for key in range(ROWS)]))
        answers = [sent(member, 10.0 + step, Form.BATCHES)[0] for member in viewports]
        counts = [max(len(column[0]) for column in columns) for ((columns, _, _),) in answers]
        assert min(counts[:-1]) > 0
        assert counts[-1] == 0


def test_ipc_messages_are_encoded_together_if_most_members_take_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not where few take them, as of hidden pages, nor where they are large; what was not taken is not kept."""
    chosen = SubscriptionOptions(columns_as_list=True)
    encoded: list[int] = []

    def noted(batch: pa.RecordBatch) -> list[bytes]:
        encoded.append(batch.num_rows)
        return row_messages(batch)

    monkeypatch.setattr(viewport_change, "row_messages", noted)
    chance = random.Random(1)
    table = make_table(ROWS)
    feed = TableFeed(table)
    requests = [
        SubscriptionRequest(b"s/t", None, RowSet.from_range(first, first + 30), chosen) for first in range(MEMBERS)
    ]
    members = [subscribe(feed, request, Dialect.FLATTENED, LengthMode.RAGGED) for request in requests]

    def taken(step: int, count: int) -> int:
        encoded.clear()
        table.upsert(to_table([make_row(key, chance) for key in range(20, 25)]))
        for member in members[:count]:
            (message,) = member.poll(10.0 * step).messages
            list(message.encapsulated())
        return sum(encoded)

    assert [taken(step, MEMBERS) for step in (1, 2, 3)] == [0, MEMBERS, MEMBERS]
    assert [taken(step, MEMBERS // 2) for step in (4, 5, 6)] == [MEMBERS, 0, 0]
    assert [taken(step, MEMBERS) for step in (7, 8, 9)] == [0, 0, MEMBERS]
    # One that takes every other change only: what it lacks is encoded for it alone.
    assert [taken(step, MEMBERS - step % 2) for step in range(10, 16)] == [MEMBERS] * 6
    monkeypatch.setattr(viewport_change, "_PART_BYTES", 100)
    assert [taken(step, MEMBERS) for step in (16, 17)] == [0, 0]
