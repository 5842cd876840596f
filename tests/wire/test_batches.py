"""Updates to record batches: cuts, counts, sizes, forms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.errors import LimitError, MessageTooLargeError
from barrage_server.rowset import RowSet
from barrage_server.wire import batches
from barrage_server.wire.arrow_message import BatchHeader
from barrage_server.wire.batches import MessageWriter, OutgoingMessage
from barrage_server.wire.metadata import SubscriptionOptions, UpdateMetadata, decode_message
from barrage_server.wire.raw import decode_flight_data, decode_ragged_batch, encode_flight_data
from barrage_server.wire.reader import IncomingMessage, MessageReader
from barrage_server.wire.schema import barrage_schema, list_schema
from tests.wire.arrays import typed_values

LISTED = SubscriptionOptions(columns_as_list=True)


def record_batches(
    message: OutgoingMessage, schema: pa.Schema, options: SubscriptionOptions
) -> Iterator[tuple[pa.RecordBatch, bytes | None]]:
    return MessageWriter(schema, options).record_batches(message)


def ipc_messages(
    message: OutgoingMessage, schema: pa.Schema, options: SubscriptionOptions
) -> Iterator[tuple[bytes, bytes | None, list[Any]]]:
    return MessageWriter(schema, options).ipc_messages(message)


def outgoing(
    adds: Sequence[pa.Array], mods: Sequence[pa.Array] = (), metadata: UpdateMetadata | None = None
) -> OutgoingMessage:
    """A message of these columns, with row keys from 0."""
    count = max((len(column) for column in adds), default=0)
    described = metadata or UpdateMetadata(
        added_rows=RowSet.flat(count), modified_rows=tuple(RowSet.flat(len(column)) for column in mods)
    )

    def read_mods(column: int, start: int, stop: int) -> pa.Array:
        assert stop <= len(mods[column])
        return mods[column].slice(start, stop - start)

    def read_adds(start: int, stop: int) -> list[pa.Array]:
        return [column.slice(min(start, len(column)), stop - start) for column in adds]

    return OutgoingMessage(described, count, read_adds, tuple(map(len, mods)), read_mods)


def schema_of(columns: Sequence[pa.Array]) -> pa.Schema:
    return barrage_schema(pa.schema([(f"c{number}", column.type) for number, column in enumerate(columns)]))


def received(message: OutgoingMessage, schema: pa.Schema, options: SubscriptionOptions) -> IncomingMessage:
    """The message sent as record batches and read again."""
    writer = MessageWriter(schema, options)
    reader = MessageReader(writer.schema, use_deephaven_nulls=options.use_deephaven_nulls)
    results = [reader.feed(batch, app_metadata) for batch, app_metadata in writer.record_batches(message)]
    assert results[-1] is not None
    assert all(result is None for result in results[:-1])
    return results[-1]


def received_raw(message: OutgoingMessage, schema: pa.Schema, options: SubscriptionOptions) -> IncomingMessage:
    """The message sent as serialized FlightData and read again."""
    writer = MessageWriter(schema, options)
    reader = MessageReader(writer.schema, use_deephaven_nulls=options.use_deephaven_nulls)
    result = None
    for message_parts in writer.ipc_messages(message):
        assert result is None
        parts = decode_flight_data(encode_flight_data(*message_parts))
        assert parts.data_body is not None
        columns = decode_ragged_batch(parts.data_header, parts.data_body, writer.schema)
        result = reader.feed_columns(columns, BatchHeader.decode(parts.data_header).length, parts.app_metadata)
    assert result is not None
    return result


def counts_of(app_metadata: bytes | None) -> tuple[int | None, int | None]:
    assert app_metadata is not None
    metadata = decode_message(app_metadata)
    assert isinstance(metadata, UpdateMetadata)
    return metadata.num_add_batches, metadata.num_mod_batches


def lengths(message: OutgoingMessage, schema: pa.Schema, options: SubscriptionOptions) -> list[int]:
    return [BatchHeader.decode(header).length for header, _, _ in ipc_messages(message, schema, options)]


NUMBERS = pa.array(np.arange(200_000))
SCHEMA = schema_of([NUMBERS])
TEXTS = pa.array([f"text {number:06}" for number in range(10_000)])


class TestCuts:
    """Added rows first, then modified rows; 65536 at a time, unless the receiver says otherwise. Of added ones 4096
    come first, then 16384 at a time up to 262144.
    """

    @pytest.mark.parametrize(
        ("batch_size", "expected"),
        [
            (0, [4096, 12288, *[16384] * 11, 3392]),
            (-1, [200_000]),
            (100_000, [100_000, 100_000]),
            (150_000, [150_000, 50_000]),
        ],
    )
    def test_added_rows(self, batch_size: int, expected: list[int]) -> None:
        assert lengths(outgoing([NUMBERS]), SCHEMA, SubscriptionOptions(batch_size=batch_size)) == expected

    def test_many_added_rows(self) -> None:
        """What a receiver that takes nothing lets its sender make is small."""
        numbers = pa.array(np.arange(400_000))
        expected = [4096, 12288, *[16384] * 15, 65536, 65536, 400_000 - 6 * 65536]
        assert lengths(outgoing([numbers]), SCHEMA, SubscriptionOptions()) == expected

    def test_modified_rows(self) -> None:
        message = outgoing([NUMBERS.slice(0, 5)], [NUMBERS.slice(0, 70_000)])
        assert lengths(message, SCHEMA, SubscriptionOptions()) == [5, 65536, 4464]

    def test_every_column_is_cut_at_the_same_offsets(self) -> None:
        """wire-captured: with 2 and 5 modified rows and batch_size 2 the nodes are [2,2], [0,2], [0,1]."""
        columns = [NUMBERS.slice(0, 0), NUMBERS.slice(0, 2), NUMBERS.slice(0, 5)]
        message = outgoing([column.slice(0, 0) for column in columns], columns)
        sent = list(ipc_messages(message, schema_of(columns), SubscriptionOptions(batch_size=2)))
        nodes = [BatchHeader.decode(header).nodes.cast("q").tolist()[::2] for header, _, _ in sent]
        assert nodes == [[0, 2, 2], [0, 0, 2], [0, 0, 1]]

    def test_no_rows_are_one_batch_without_rows(self) -> None:
        for options in (SubscriptionOptions(), LISTED):
            sent = list(record_batches(outgoing([NUMBERS.slice(0, 0)]), SCHEMA, options))
            assert len(sent) == 1
            assert sent[0][1] is not None
            assert received(outgoing([NUMBERS.slice(0, 0)]), SCHEMA, options).metadata.added_rows == RowSet.EMPTY

    def test_metadata_come_with_the_first_batch_alone(self) -> None:
        sent = list(record_batches(outgoing([NUMBERS], [NUMBERS]), SCHEMA, SubscriptionOptions()))
        assert [app_metadata is not None for _, app_metadata in sent] == [True] + [False] * (len(sent) - 1)

    def test_rows_are_read_as_batches_are_asked_for(self) -> None:
        read: list[tuple[int, int]] = []

        def read_adds(start: int, stop: int) -> list[pa.Array]:
            read.append((start, stop))
            return [NUMBERS.slice(start, stop - start)]

        message = OutgoingMessage(UpdateMetadata(added_rows=RowSet.flat(200_000)), 200_000, read_adds, (), _never)
        stream = record_batches(message, SCHEMA, SubscriptionOptions())
        next(stream)
        assert read == [(0, 4096)]


def _never(column: int, start: int, stop: int) -> Any:
    raise AssertionError("nothing is modified")


class TestCounts:
    """num_add_batches and num_mod_batches where they are known beforehand."""

    def test_small_updates(self) -> None:
        message = outgoing([TEXTS.slice(0, 9)], [TEXTS.slice(0, 3)])
        sent = list(record_batches(message, schema_of([TEXTS]), LISTED))
        assert counts_of(sent[0][1]) == (1, 1)

    def test_rows_of_known_width(self) -> None:
        sent = list(record_batches(outgoing([NUMBERS], [NUMBERS]), SCHEMA, LISTED))
        assert counts_of(sent[0][1]) == (14, 4)
        assert len(sent) == 18

    def test_many_rows_of_unknown_width(self) -> None:
        sent = list(record_batches(outgoing([TEXTS]), schema_of([TEXTS]), LISTED))
        assert counts_of(sent[0][1]) == (None, None)

    @given(rows=st.integers(0, 300), batch_size=st.integers(-1, 60), limit=st.integers(0, 4000), text=st.booleans())
    def test_counts_are_true(self, rows: int, batch_size: int, limit: int, text: bool) -> None:
        column = TEXTS if text else NUMBERS
        options = SubscriptionOptions(batch_size=batch_size, max_message_size=limit)
        message = outgoing([column.slice(0, rows)], [column.slice(0, rows // 2)])
        sent = list(record_batches(message, schema_of([column]), options))
        adds, mods = counts_of(sent[0][1])
        if adds is not None and mods is not None:
            assert adds + mods == len(sent)
        elif not text:
            assert rows == 0


class TestSizes:
    """max_message_size is kept by cutting further."""

    @given(rows=st.integers(1, 2000), limit=st.integers(1, 20_000), listed=st.booleans(), text=st.booleans())
    def test_no_message_with_several_rows_is_larger(self, rows: int, limit: int, listed: bool, text: bool) -> None:
        column = TEXTS if text else NUMBERS
        options = SubscriptionOptions(max_message_size=limit, columns_as_list=listed)
        for message_parts in ipc_messages(outgoing([column.slice(0, rows)]), schema_of([column]), options):
            body = sum(memoryview(piece).nbytes for piece in message_parts[2])
            assert len(encode_flight_data(*message_parts)) <= limit or body <= 32

    def test_one_row_that_is_larger_goes_alone(self) -> None:
        column = pa.array(["x" * 10_000, "y", "z"])
        message, options = outgoing([column]), SubscriptionOptions(max_message_size=5000)
        assert lengths(message, schema_of([column]), options)[0] == 1
        assert received(message, schema_of([column]), options).add_columns[0].to_pylist() == column.to_pylist()

    def test_one_row_above_the_protocols_limit_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(batches, "HARD_MESSAGE_BYTES", 5000)
        column = pa.array(["x" * 10_000])
        with pytest.raises(MessageTooLargeError, match="one row has"):
            list(record_batches(outgoing([column]), schema_of([column]), SubscriptionOptions(max_message_size=20_000)))

    def test_large_metadata_leave_less_room_for_the_first_batch(self) -> None:
        rows = RowSet.from_keys(np.arange(0, 40_000, 2))
        message = outgoing([NUMBERS.slice(0, 20_000)], metadata=UpdateMetadata(added_rows=rows))
        sent = list(ipc_messages(message, SCHEMA, SubscriptionOptions(max_message_size=100_000, batch_size=-1)))
        assert all(len(encode_flight_data(*parts)) <= 100_000 for parts in sent)
        assert len(sent) > 2


class TestForms:
    def test_lists_hold_each_column_without_copying(self) -> None:
        sent = list(record_batches(outgoing([NUMBERS.slice(100, 50)]), SCHEMA, LISTED))
        batch = sent[0][0]
        assert batch.num_rows == 1
        assert batch.schema.equals(list_schema(SCHEMA), check_metadata=True)
        assert batch.column(0).values.buffers()[1].address == NUMBERS.buffers()[1].address

    def test_columns_that_were_not_asked_for(self) -> None:
        """Empty lists, or padding with nulls where columns must be even, or nothing in raw messages."""
        columns = [NUMBERS.slice(0, 3), TEXTS.slice(0, 0)]
        schema = schema_of(columns)
        listed, _ = next(record_batches(outgoing(columns), schema, LISTED))
        assert [len(column.values) for column in listed.columns] == [3, 0]
        even, _ = next(record_batches(outgoing(columns), schema, SubscriptionOptions()))
        assert even.column(1).to_pylist() == [None] * 3
        header, _, _ = next(ipc_messages(outgoing(columns), schema, SubscriptionOptions()))
        assert BatchHeader.decode(header).nodes.cast("q").tolist() == [3, 0, 0, 0]

    def test_uneven_modified_rows_are_padded_and_cut_again(self) -> None:
        columns = [NUMBERS.slice(0, 2), TEXTS.slice(0, 5), NUMBERS.slice(0, 0)]
        message = outgoing([column.slice(0, 0) for column in columns], columns)
        got = received(message, schema_of(columns), SubscriptionOptions(batch_size=2))
        assert [column.to_pylist() for column in got.mod_columns] == [column.to_pylist() for column in columns]

    def test_previews_and_nulls_in_band(self) -> None:
        column = pa.array([[1, None, 3], None, [4]])
        options = SubscriptionOptions(preview_list_length_limit=2, use_deephaven_nulls=True)
        got = received_raw(outgoing([column]), schema_of([column]), options)
        assert got.add_columns[0].to_pylist() == [[1, None], None, [4]]


@given(st.data(), st.booleans(), st.integers(-1, 9), st.sampled_from([0, 1, 700, 5000]))
def test_everything_arrives(data: st.DataObject, listed: bool, batch_size: int, limit: int) -> None:
    """Columns of any types, lengths modified rows, any options, both ways of sending."""
    kinds = data.draw(st.lists(typed_values(), min_size=1, max_size=3))
    rows = data.draw(st.integers(0, 20))
    schema = schema_of([pa.array([], kind) for kind, _ in kinds])
    adds = [pa.array(data.draw(st.lists(values, min_size=rows, max_size=rows)), kind) for kind, values in kinds]
    mods = [pa.array(data.draw(st.lists(values, max_size=12)), kind) for kind, values in kinds]
    options = SubscriptionOptions(columns_as_list=listed, batch_size=batch_size, max_message_size=limit)
    for receive in (received, received_raw):
        got = receive(outgoing(adds, mods), schema, options)
        assert got.metadata.added_rows == RowSet.flat(rows)
        for ours, theirs in zip((*adds, *mods), (*got.add_columns, *got.mod_columns), strict=True):
            whole = theirs.combine_chunks() if isinstance(theirs, pa.ChunkedArray) else theirs
            assert whole.equals(ours)


def test_rows_that_are_too_large_for_one_array_are_read_in_halves() -> None:
    column, most = pa.array([str(number) for number in range(11)]), 3

    def limited(start: int, stop: int) -> pa.Array:
        if stop - start > most:
            raise LimitError("too large")
        return column.slice(start, stop - start)

    rows = RowSet.flat(len(column))
    metadata = UpdateMetadata(added_rows=rows, modified_rows=(rows,))
    message = OutgoingMessage(
        metadata,
        len(column),
        lambda start, stop: [limited(start, stop)],
        (len(column),),
        lambda _, start, stop: limited(start, stop),
    )
    found = received(message, schema_of([column]), LISTED)
    assert found.add_columns[0].to_pylist() == column.to_pylist()
    assert found.mod_columns[0].to_pylist() == column.to_pylist()
    most = 0
    with pytest.raises(LimitError):
        received(message, schema_of([column]), LISTED)


def test_numbers_computed_from_rows_too_large_for_one_array_come_in_as_many_batches_as_are_told() -> None:
    """Their number is told before they are read, as they all have the same width."""
    column, most = pa.array(range(11)), 3

    def limited(start: int, stop: int) -> pa.Array:
        if stop - start > most:
            raise LimitError("too large")
        return column.slice(start, stop - start)

    rows = RowSet.flat(len(column))
    message = OutgoingMessage(
        UpdateMetadata(added_rows=rows, modified_rows=(rows,)),
        len(column),
        lambda start, stop: [limited(start, stop)],
        (len(column),),
        lambda _, start, stop: limited(start, stop),
    )
    for options in (LISTED, SubscriptionOptions()):
        sent = list(record_batches(message, schema_of([column]), options))
        metadata = decode_message(sent[0][1] or b"")
        assert isinstance(metadata, UpdateMetadata)
        assert len(sent) == 2
        found = received(message, schema_of([column]), options)
        assert found.add_columns[0].to_pylist() == found.mod_columns[0].to_pylist() == column.to_pylist()
