"""An update that leaves a viewport as it was: it has the bytes of the general path, and is made anew only once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import KeyedTable, UpdateGraph
from barrage_server.engine.update import coalesce_nodes
from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, Subscription, TableFeed, Window
from barrage_server.subscription.message import MessageEncoder, update_message
from barrage_server.subscription.quiet_update import QuietMessage, QuietUpdates, keeps_view
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest, UpdateMetadata

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64()), ("s", pa.string())])
ROWS = 200
LISTS = SubscriptionOptions(columns_as_list=True, min_update_interval_ms=1)


def _rows(keys: list[int], value: float) -> pa.RecordBatch:
    texts = [f"{value}-{key}" for key in keys]
    return pa.record_batch([keys, [value + key for key in keys], texts], schema=SCHEMA)


def _keyed() -> KeyedTable:
    table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["k"])
    table.upsert(_rows(list(range(ROWS)), 0.0))
    return table


CHANGES = st.lists(
    st.tuples(st.sampled_from(["upsert", "upsert", "delete"]), st.sets(st.integers(0, ROWS + 60), max_size=12)),
    min_size=1,
    max_size=4,
)


@settings(deadline=None)
@given(
    st.lists(CHANGES, min_size=1, max_size=5),
    st.integers(0, ROWS + 20),
    st.integers(1, 60),
    st.booleans(),
    st.sets(st.sampled_from([0, 1, 2]), min_size=1),
    st.builds(SubscriptionOptions, columns_as_list=st.booleans(), batch_size=st.sampled_from([0, 5])),
    st.sampled_from(Dialect),
    st.sampled_from(LengthMode),
)
def test_it_has_the_bytes_of_any_update_that_changes_nothing_in_view(
    cycles: list[list[tuple[str, set[int]]]],
    first: int,
    count: int,
    reverse: bool,
    columns: set[int],
    options: SubscriptionOptions,
    dialect: Dialect,
    lengths: LengthMode,
) -> None:
    table = _keyed()
    feed = TableFeed(table)
    encoder = MessageEncoder(feed.schema, feed.view, options, dialect, lengths)
    window = Window(tuple(sorted(columns)), RowSet.from_range(first, first + count - 1), reverse)
    quiet = QuietUpdates(encoder)
    for number, changes in enumerate(cycles):
        before = table.version.node
        for kind, keys in changes:
            if kind == "delete":
                table.delete({"k": sorted(keys)})
            else:
                table.upsert(_rows(sorted(keys), number + 0.5))
        update, version = coalesce_nodes(before, table.version.node), table.version
        general = update_message(encoder, window, update, before.row_set, before.step + 1, version)
        if not keeps_view(encoder, window, update, before.row_set, version):
            continue
        message = quiet.message(window, update, before.row_set, before.step + 1, version)
        assert list(message.flight_data()) == list(general.flight_data())
        assert list(message.encapsulated()) == list(general.encapsulated())
        if encoder.carries_ragged or lengths is LengthMode.PADDED:
            found, wanted = list(message.batches()), list(general.batches())
            assert [(batch.serialize(), data) for batch, data in found] == [
                (batch.serialize(), data) for batch, data in wanted
            ]
        assert (message.row_count, message.is_snapshot) == (general.row_count, general.is_snapshot) == (0, False)
        assert list(message.metadata.encode((0, 0))) == list(general.metadata.encode((0, 0)))


def test_what_changes_a_view_and_what_does_not() -> None:
    table = _keyed()
    feed = TableFeed(table)
    encoder = MessageEncoder(feed.schema, feed.view, LISTS, Dialect.KEY_SPACE, LengthMode.PADDED)

    def leaves(window: Window, *changes: tuple[str, Any]) -> bool:
        before = table.version.node
        for kind, rows in changes:
            getattr(table, kind)(rows)
        update = coalesce_nodes(before, table.version.node)
        return keeps_view(encoder, window, update, before.row_set, table.version)

    window = Window((0, 1), RowSet.from_range(50, 59))
    assert leaves(window, ("upsert", _rows([49, 60], 1.0)))
    assert not leaves(window, ("upsert", _rows([49, 55], 2.0)))
    assert leaves(Window((0,), window.positions), ("upsert", _rows([55], 3.0)))  # its key is what it was
    assert leaves(window, ("upsert", _rows([ROWS], 4.0)))
    assert not leaves(replace(window, reverse=True), ("upsert", _rows([ROWS + 1], 5.0)))
    assert not leaves(Window((0,), RowSet.from_range(ROWS, ROWS + 9)), ("upsert", _rows([ROWS + 2], 6.0)))
    assert not leaves(window, ("delete", {"k": [1]}))
    assert not leaves(Window((0, 1, 2)), ("upsert", _rows([49], 7.0)))


def _subscription(table: KeyedTable) -> Subscription:
    subscription = Subscription(TableFeed(table), _request(0, 10), dialect=Dialect.KEY_SPACE, lengths=LengthMode.PADDED)
    subscription.poll(0.0)
    return subscription


def _request(first: int, count: int) -> SubscriptionRequest:
    return SubscriptionRequest(b"", viewport=RowSet.from_range(first, first + count - 1), options=LISTS)


def test_later_ones_encode_no_metadata_and_make_no_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    table = _keyed()
    subscription = _subscription(table)
    batches = []
    for number in range(4):
        table.upsert(_rows([100 + number], 1.0))
        (message,) = subscription.poll(number + 1.0).messages
        assert isinstance(message, QuietMessage)
        ((batch, data),) = message.batches()
        assert data is not None
        batches.append(batch)
        monkeypatch.setattr(UpdateMetadata, "encode", None)
    assert all(batch is batches[0] for batch in batches)


def test_a_move_is_one_message_where_the_old_window_was_left_alone() -> None:
    table = _keyed()
    subscription = _subscription(table)
    table.upsert(_rows([100, 150], 1.0))
    subscription.change(_request(90, 20))
    (moved,) = subscription.poll(0.5).messages
    assert moved.is_snapshot
    assert moved.metadata.last_seq == table.version.step
    ((batch, _),) = moved.batches()
    assert batch.column("v")[0].values.to_pylist()[10] == 101.0
    assert not subscription.poll(2.0).messages  # it has all
    table.upsert(_rows([95], 2.0))
    (update,) = subscription.poll(3.0).messages
    assert update.metadata.first_seq == table.version.step
    assert update.row_count == 1


def test_a_move_tells_first_of_new_rows_and_of_values_in_the_old_window() -> None:
    table = _keyed()
    subscription = _subscription(table)
    table.upsert(_rows([ROWS], 1.0))  # out of view, but a row key that the client has to know
    subscription.change(_request(90, 20))
    update, moved = subscription.poll(0.5).messages
    assert update.metadata.added_rows == RowSet.from_range(ROWS, ROWS)
    table.upsert(_rows([95], 1.0))
    subscription.change(_request(92, 20))
    update, moved = subscription.poll(1.0).messages
    assert (update.row_count, moved.row_count) == (1, 2)
