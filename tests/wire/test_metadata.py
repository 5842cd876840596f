"""Barrage messages: what goes in comes out, other readers agree, and damaged bytes only give WireFormatError."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from barrage_flatbuf.BarrageMessageWrapper import BarrageMessageWrapper
from barrage_flatbuf.BarrageSubscriptionRequest import BarrageSubscriptionRequest
from barrage_flatbuf.BarrageUpdateMetadata import BarrageUpdateMetadata
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from barrage_server.errors import WireFormatError
from barrage_server.rowset import RowSet, RowSetShiftData, encode_row_set, encode_shift_data
from barrage_server.wire.flat import FlatTable
from barrage_server.wire.metadata import (
    BarrageMessage,
    PublicationRequest,
    SnapshotRequest,
    SubscriptionOptions,
    SubscriptionRequest,
    UpdateMetadata,
    decode_message,
    is_barrage,
)
from barrage_server.wire.update_metadata import MetadataFrame
from barrage_server.wire.wrapper import unwrap, wrap
from tests.wire.arrays import INT64, ROW_SETS, shifts

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
COLUMNS = st.none() | st.sets(st.integers(0, 100)).map(lambda numbers: tuple(sorted(numbers)))
OPTIONS = st.builds(
    SubscriptionOptions,
    use_deephaven_nulls=st.booleans(),
    min_update_interval_ms=INT32,
    batch_size=INT32,
    max_message_size=INT32,
    columns_as_list=st.booleans(),
    preview_list_length_limit=INT64,
)
SNAPSHOT_OPTIONS = st.builds(
    SubscriptionOptions,
    use_deephaven_nulls=st.booleans(),
    batch_size=INT32,
    max_message_size=INT32,
    preview_list_length_limit=INT64,
)
SUBSCRIPTIONS = st.builds(
    SubscriptionRequest,
    st.binary(max_size=20),
    COLUMNS,
    st.none() | ROW_SETS,
    OPTIONS,
    st.booleans(),
    st.none() | st.binary(max_size=9),
)
SNAPSHOTS = st.builds(
    SnapshotRequest, st.binary(max_size=20), COLUMNS, st.none() | ROW_SETS, SNAPSHOT_OPTIONS, st.booleans()
)
PUBLICATIONS = st.builds(PublicationRequest, st.binary(max_size=20), st.booleans())
COUNTS = st.none() | st.tuples(st.integers(0, 1000), st.integers(1, 1000))


@st.composite
def updates(draw: st.DrawFn) -> UpdateMetadata:
    counts = draw(COUNTS)
    return UpdateMetadata(
        first_seq=draw(INT64),
        last_seq=draw(INT64),
        is_snapshot=draw(st.booleans()),
        effective_viewport=draw(st.none() | ROW_SETS),
        effective_reverse_viewport=draw(st.booleans()),
        effective_column_set=draw(COLUMNS),
        added_rows=draw(st.none() | ROW_SETS),
        removed_rows=draw(st.none() | ROW_SETS),
        shift_data=draw(st.none() | shifts()),
        added_rows_included=draw(st.none() | ROW_SETS),
        modified_rows=draw(st.none() | st.lists(ROW_SETS, max_size=6).map(tuple)),
        table_size=draw(st.integers(0, (1 << 63) - 1)),
        num_add_batches=None if counts is None else counts[0],
        num_mod_batches=None if counts is None else counts[1],
    )


MESSAGES: st.SearchStrategy[BarrageMessage] = st.one_of(updates(), SUBSCRIPTIONS, SNAPSHOTS, PUBLICATIONS)


class TestRoundTrip:
    """encode() and decode_message() are inverse."""

    @given(MESSAGES)
    def test_every_message(self, message: BarrageMessage) -> None:
        data = message.encode()
        assert is_barrage(data)
        assert decode_message(data) == message
        assert decode_message(memoryview(data)) == message

    def test_batch_counts_share_one_unknown(self) -> None:
        """Slots 12 and 13: both zero means unknown; one alone makes the other a known zero."""
        for given_counts, read in (((3, None), (3, 0)), ((None, 2), (0, 2)), ((0, 0), (None, None))):
            value = UpdateMetadata(num_add_batches=given_counts[0], num_mod_batches=given_counts[1])
            got = decode_message(value.encode())
            assert isinstance(got, UpdateMetadata)
            assert (got.num_add_batches, got.num_mod_batches) == read

    def test_counts_given_to_encode_win(self) -> None:
        got = decode_message(UpdateMetadata(num_add_batches=9).encode((1, 2)))
        assert got == UpdateMetadata(num_add_batches=1, num_mod_batches=2)

    def test_absent_and_empty_differ(self) -> None:
        for value in (None, RowSet.EMPTY):
            got = decode_message(UpdateMetadata(added_rows=value, modified_rows=None if value is None else ()).encode())
            assert isinstance(got, UpdateMetadata)
            assert got.added_rows == value
            assert got.modified_rows == (None if value is None else ())

    def test_included_rows_fall_back_to_added_rows(self) -> None:
        rows, some = RowSet.flat(9), RowSet.flat(3)
        assert UpdateMetadata(added_rows=rows).included_rows == rows
        assert UpdateMetadata(added_rows=rows, added_rows_included=some).included_rows == some
        assert UpdateMetadata().included_rows == RowSet.EMPTY

    def test_columns_with_equal_modified_rows_share_them(self) -> None:
        rows = RowSet.from_keys(np.arange(0, 4000, 2))
        one = UpdateMetadata(modified_rows=(rows,)).encode()
        many = UpdateMetadata(modified_rows=(rows,) * 100).encode()
        assert len(many) <= len(one) + 4 * 99
        assert decode_message(many) == UpdateMetadata(modified_rows=(rows,) * 100)

    @given(updates(), st.lists(st.binary(max_size=9), min_size=1, max_size=4), st.data())
    def test_halves_around_another_row_set_of_the_same_length(
        self, message: UpdateMetadata, rows: list[bytes], data: st.DataObject
    ) -> None:
        """Where the columns that had equal row sets have equal ones again, and no others do."""
        frame, column = MetadataFrame(message), data.draw(st.integers(0, len(rows) - 1))
        old = rows[column]
        new = data.draw(st.binary(min_size=len(old), max_size=len(old)))
        assume(new == old or new not in rows)
        before, after = frame.halves(rows, column)
        assert before + new + after == frame.around([new if each == old else each for each in rows])

    @given(updates())
    def test_the_size_estimate_is_no_more_than_a_few_times_off(self, message: UpdateMetadata) -> None:
        assert message.size_estimate() / 8 <= len(message.encode()) <= 10 * message.size_estimate()


class TestOtherReaders:
    """What flatc generates from the schema reads the same values, so that the layouts made by hand are right."""

    @given(updates())
    def test_update(self, message: UpdateMetadata) -> None:
        wrapper = BarrageMessageWrapper.GetRootAs(message.encode())
        assert wrapper.Magic() == 0x6E687064
        assert wrapper.MsgType() == 6
        table = BarrageUpdateMetadata.GetRootAs(wrapper.MsgPayloadAsNumpy().tobytes())
        assert (table.FirstSeq(), table.LastSeq()) == (message.first_seq, message.last_seq)
        assert table.TableSize() == message.table_size
        assert table.IsSnapshot() == message.is_snapshot
        assert table.EffectiveReverseViewport() == message.effective_reverse_viewport
        assert (table.NumAddBatches(), table.NumModBatches()) == (
            message.num_add_batches or 0,
            message.num_mod_batches or 0,
        )
        for rows, absent, data in (
            (message.effective_viewport, table.EffectiveViewportIsNone(), table.EffectiveViewportAsNumpy()),
            (message.added_rows, table.AddedRowsIsNone(), table.AddedRowsAsNumpy()),
            (message.removed_rows, table.RemovedRowsIsNone(), table.RemovedRowsAsNumpy()),
            (message.added_rows_included, table.AddedRowsIncludedIsNone(), table.AddedRowsIncludedAsNumpy()),
        ):
            assert absent == (rows is None)
            if rows is not None:
                assert data.tobytes() == encode_row_set(rows)
        if message.shift_data is not None:
            assert table.ShiftDataAsNumpy().tobytes() == encode_shift_data(message.shift_data)
        assert table.ModColumnNodesIsNone() == (message.modified_rows is None)
        for number, rows in enumerate(message.modified_rows or ()):
            assert table.ModColumnNodes(number).ModifiedRowsAsNumpy().tobytes() == encode_row_set(rows)

    @given(SUBSCRIPTIONS)
    def test_subscription(self, message: SubscriptionRequest) -> None:
        wrapper = BarrageMessageWrapper.GetRootAs(message.encode())
        assert wrapper.MsgType() == 5
        table = BarrageSubscriptionRequest.GetRootAs(wrapper.MsgPayloadAsNumpy().tobytes())
        assert bytes(table.Ticket(i) & 0xFF for i in range(table.TicketLength())) == message.ticket
        options = table.SubscriptionOptions()
        assert options.UseDeephavenNulls() == message.options.use_deephaven_nulls
        assert options.MinUpdateIntervalMs() == message.options.min_update_interval_ms
        assert options.PreviewListLengthLimit() == message.options.preview_list_length_limit


class TestDamage:
    """Bytes from the other side never give anything but a value or WireFormatError, and in good time."""

    @settings(max_examples=300)
    @given(MESSAGES, st.data())
    def test_changed_bytes(self, message: BarrageMessage, data: st.DataObject) -> None:
        """They are decoded, or refused with an error of the wire format and no other."""
        damaged = bytearray(message.encode())
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(damaged) - 1))
            damaged[at] = data.draw(st.integers(0, 255))
        cut = data.draw(st.integers(0, len(damaged)))
        for candidate in (bytes(damaged), bytes(damaged[:cut])):
            try:
                decode_message(candidate)
            except WireFormatError:
                continue

    @given(st.binary(max_size=200))
    def test_noise(self, noise: bytes) -> None:
        is_barrage(noise)
        with pytest.raises(WireFormatError):
            decode_message(noise)

    @given(st.binary(max_size=100))
    def test_noise_as_payload(self, noise: bytes) -> None:
        """It is decoded, or refused with an error of the wire format and no other."""
        for kind in (5, 6, 7, 8):
            try:
                decode_message(wrap(kind, noise))
            except WireFormatError:
                continue

    def test_wrong_magic_says_so(self) -> None:
        data = UpdateMetadata().encode().replace(b"dphn", b"xxxx")
        assert not is_barrage(data)
        with pytest.raises(WireFormatError, match="not a Barrage message: its magic is 0x78787878"):
            decode_message(data)

    def test_unknown_type_says_so(self) -> None:
        with pytest.raises(WireFormatError, match="type 42 is not handled"):
            decode_message(wrap(42, b""))

    def test_a_vector_longer_than_the_message(self) -> None:
        """A length of gigabytes is refused before anything is allocated."""
        data = bytearray(SubscriptionRequest(b"s/table").encode())
        at = data.index(b"s/table") - 4
        data[at : at + 4] = struct.pack("<I", 0x7FFF_FFFF)
        with pytest.raises(WireFormatError, match="longer than the message"):
            decode_message(bytes(data))

    def test_negative_table_size(self) -> None:
        with pytest.raises(WireFormatError, match="table_size"):
            decode_message(UpdateMetadata(table_size=-5).encode())

    def test_modified_rows_that_overlap(self) -> None:
        """Nodes within one another's bytes would let a small message cost the square of its length."""
        rows = encode_row_set(RowSet.from_keys(np.arange(0, 100_000, 2)))
        # Root, field list with slot 10 alone, table; the vector of two nodes, their field list, they; lengths, rows.
        head = struct.pack("<I", 36) + struct.pack("<2H14H", 32, 8, *([0] * 10), 4, 0, 0, 0) + struct.pack("<iI", 32, 4)
        nodes = struct.pack("<3I", 2, 16, 20)
        tables = struct.pack("<3H2x", 6, 8, 4) + struct.pack("<iIiI", 8, 16, 16, 4)
        payload = head + nodes + tables + struct.pack("<II", 4 + len(rows), len(rows)) + rows
        with pytest.raises(WireFormatError, match="overlap"):
            decode_message(wrap(6, payload))

    def test_unwrap_gives_type_and_payload(self) -> None:
        kind, payload = unwrap(wrap(6, b"12345678"))
        assert (kind, bytes(payload)) == (6, b"12345678")


def test_deephaven_needs_these_fields_present() -> None:
    """Its C++ client reads removed, shifts, added and nodes without asking whether they are there."""
    value = UpdateMetadata(
        added_rows=RowSet.EMPTY, removed_rows=RowSet.EMPTY, shift_data=RowSetShiftData.EMPTY, modified_rows=()
    )
    table = FlatTable.root(unwrap(value.encode())[1])
    assert all(table.has(slot) for slot in (6, 7, 8, 10))
