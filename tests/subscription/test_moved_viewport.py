"""The short path for viewports that move gives the bytes of the general one, or leaves the message to it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barrage_server.engine import AppendTable, KeyedTable, UpdateGraph
from barrage_server.rowset import RowSet
from barrage_server.subscription import Dialect, TableFeed, Window
from barrage_server.subscription.message import EncodedMessage, MessageEncoder, change_message
from barrage_server.subscription.moved_viewport import MovedMessage, ViewportMoves
from barrage_server.wire.batches import LengthMode
from barrage_server.wire.metadata import SubscriptionOptions, UpdateMetadata

SCHEMA = pa.schema(
    [("k", pa.int64()), ("v", pa.float64()), ("s", pa.string()), ("b", pa.bool_()), ("l", pa.list_(pa.int32()))]
)
ROWS = 400
ALL = tuple(range(len(SCHEMA)))
LISTS = SubscriptionOptions(columns_as_list=True)


def _rows(keys: list[int]) -> pa.RecordBatch:
    return pa.record_batch(
        [
            pa.array(keys, pa.int64()),
            pa.array([None if key % 7 == 0 else key / 2 for key in keys], pa.float64()),
            pa.array([None if key % 5 == 0 else "s" * (key % 11) for key in keys], pa.string()),
            pa.array([key % 3 == 0 for key in keys], pa.bool_()),
            pa.array([None if key % 4 == 0 else [key] * (key % 6) for key in keys], pa.list_(pa.int32())),
        ],
        schema=SCHEMA,
    )


def _table(*, keyed: bool, removed: frozenset[int] = frozenset()) -> AppendTable | KeyedTable:
    if not keyed:
        table = AppendTable(UpdateGraph(), "t", SCHEMA)
        table.append(_rows(list(range(ROWS))))
        return table
    keyed_table = KeyedTable(UpdateGraph(), "t", SCHEMA, ["k"])
    keyed_table.upsert(_rows(list(range(ROWS))))
    if removed:
        keyed_table.delete({"k": sorted(removed)})
    return keyed_table


def _encoder(
    feed: TableFeed, options: SubscriptionOptions = LISTS, dialect: Dialect = Dialect.KEY_SPACE
) -> MessageEncoder:
    return MessageEncoder(feed.schema, feed.view, options, dialect, LengthMode.PADDED)


def _run(first: int, count: int, columns: tuple[int, ...] = ALL) -> Window:
    return Window(columns, RowSet.from_range(first, first + count - 1))


def _batches(message: EncodedMessage | MovedMessage) -> list[tuple[pa.RecordBatch, bytes | None]]:
    return list(message.batches())


def _check_equal(message: MovedMessage, expected: EncodedMessage) -> None:
    found, wanted = _batches(message), _batches(expected)
    assert [data for _, data in found] == [data for _, data in wanted]
    for (one, _), (other, _) in zip(found, wanted, strict=True):
        assert one.serialize() == other.serialize()
        assert one.schema.equals(other.schema, check_metadata=True)
    assert (message.row_count, message.is_snapshot) == (expected.row_count, expected.is_snapshot)
    assert message.metadata == expected.metadata
    assert list(message.flight_data()) == list(expected.flight_data())


WINDOWS = st.builds(
    lambda first, count, apart, reverse: Window(
        (), RowSet.from_ranges([first, first + count + apart], [first + count - 1, first + count + apart]), reverse
    ),
    st.integers(0, ROWS + 50),
    st.integers(1, 120),
    st.sampled_from([0, 0, 0, 3]),
    st.sampled_from([False, False, False, True]),
)
OPTIONS = st.builds(
    SubscriptionOptions,
    columns_as_list=st.booleans(),
    batch_size=st.sampled_from([0, 0, 20, -1]),
    max_message_size=st.sampled_from([0, 0, 1, 5000]),
    use_deephaven_nulls=st.booleans(),
    preview_list_length_limit=st.sampled_from([0, 2]),
)


@settings(deadline=None)
@given(
    st.lists(WINDOWS, min_size=2, max_size=8),
    OPTIONS,
    st.sampled_from(Dialect),
    st.booleans(),
    st.frozensets(st.integers(0, ROWS - 1), max_size=30),
    st.sets(st.sampled_from(ALL), min_size=1),
)
def test_any_moves_of_any_subscriber(
    windows: list[Window],
    options: SubscriptionOptions,
    dialect: Dialect,
    keyed: bool,
    removed: frozenset[int],
    chosen: set[int],
) -> None:
    table = _table(keyed=keyed, removed=removed)
    feed = TableFeed(table)
    encoder = _encoder(feed, options, dialect)
    moves, columns = ViewportMoves(encoder), tuple(sorted(chosen))
    old, *others = (replace(window, columns=columns) for window in windows)
    for number, new in enumerate(others):
        message = moves.message(old, new, table.version)
        if message is not None:
            _check_equal(message, change_message(encoder, old, new, table.version))
        old = new
        if number % 3 == 1:  # steps and sizes differ, too
            more = _rows([ROWS + number])
            table.append(more) if isinstance(table, AppendTable) else table.upsert(more)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_later_move_encodes_no_metadata_anew(monkeypatch: pytest.MonkeyPatch, keyed: bool) -> None:
    table = _table(keyed=keyed)
    feed = TableFeed(table)
    encoder = _encoder(feed)
    moves = ViewportMoves(encoder)
    windows = [_run(first, 50) for first in (0, 200, 300, 230)]
    expected = [_batches(change_message(encoder, old, new, table.version)) for old, new in pairwise(windows)]
    found = []
    for old, new in pairwise(windows):
        message = moves.message(old, new, table.version)
        assert message is not None
        found.append([(batch.to_pydict(), data) for batch, data in _batches(message)])
        monkeypatch.setattr(UpdateMetadata, "encode", None)
    assert found == [[(batch.to_pydict(), data) for batch, data in batches] for batches in expected]


def _is_short(table: AppendTable, old: Window, new: Window, encoder: MessageEncoder) -> bool:
    return ViewportMoves(encoder).message(old, new, table.version) is not None


def test_what_the_short_path_leaves_to_the_general_one() -> None:
    table = _table(keyed=False)
    assert isinstance(table, AppendTable)
    feed = TableFeed(table)
    usual = _encoder(feed)
    old, new = _run(0, 50), _run(100, 50)
    assert _is_short(table, old, new, usual)
    assert not _is_short(table, old, replace(new, columns=(0, 1)), usual)
    assert not _is_short(table, old, replace(new, reverse=True), usual)
    assert not _is_short(table, old, Window(ALL, RowSet.from_keys([1, 3])), usual)
    assert not _is_short(table, old, _run(5, 10), usual)  # no row is missing
    assert not _is_short(table, old, _run(ROWS, 10), usual)
    assert not _is_short(table, old, new, _encoder(feed, replace(LISTS, batch_size=10)))
    assert not _is_short(table, old, new, _encoder(feed, replace(LISTS, use_deephaven_nulls=True)))
    assert not _is_short(table, old, new, _encoder(feed, replace(LISTS, preview_list_length_limit=1)))
    assert not _is_short(table, old, new, _encoder(feed, dialect=Dialect.FLATTENED))


def test_a_message_above_its_limit_is_cut() -> None:
    table = _table(keyed=False)
    encoder = _encoder(TableFeed(table), replace(LISTS, max_message_size=5000))
    message = ViewportMoves(encoder).message(_run(0, 10), _run(10, 300), table.version)
    assert message is not None
    assert len(_batches(message)) > 1
    _check_equal(message, change_message(encoder, _run(0, 10), _run(10, 300), table.version))
