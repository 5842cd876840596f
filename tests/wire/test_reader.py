"""Record batches to updates: counting, and what is refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

from barrage_server.errors import WireFormatError
from barrage_server.rowset import RowSet
from barrage_server.wire.metadata import SubscriptionRequest, UpdateMetadata
from barrage_server.wire.reader import IncomingMessage, MessageReader
from barrage_server.wire.schema import barrage_schema, list_schema

SCHEMA = barrage_schema(pa.schema([("a", pa.int64()), ("b", pa.string())]))


def batch(rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(rows), pa.int64()), pa.array(["x"] * rows, pa.string())], schema=SCHEMA)


def adds(rows: int, *, counts: tuple[int, int] | None = None) -> bytes:
    return UpdateMetadata(added_rows=RowSet.flat(rows)).encode(counts)


def mods(a: int, b: int) -> bytes:
    return UpdateMetadata(added_rows=RowSet.EMPTY, modified_rows=(RowSet.flat(a), RowSet.flat(b))).encode()


def fed(reader: MessageReader, *messages: tuple[pa.RecordBatch, bytes | None]) -> IncomingMessage | None:
    result = None
    for one, app_metadata in messages:
        assert result is None
        result = reader.feed(one, app_metadata)
    return result


class TestCounting:
    def test_rows_decide_without_batch_counts(self) -> None:
        got = fed(MessageReader(SCHEMA), (batch(3), adds(5)), (batch(2), None))
        assert got is not None
        assert got.add_columns[0].to_pylist() == [0, 1, 2, 0, 1]
        assert isinstance(got.add_columns[0], pa.ChunkedArray)

    def test_batch_counts_decide_when_there_are_any(self) -> None:
        """An empty batch that the count includes is waited for."""
        reader = MessageReader(SCHEMA)
        assert fed(reader, (batch(5), adds(5, counts=(2, 0)))) is None
        assert not reader.is_complete
        assert reader.feed(batch(0), None) is not None
        assert reader.is_complete

    def test_batch_counts_that_leave_rows_out(self) -> None:
        with pytest.raises(WireFormatError, match="2 added and 0 modified rows missing"):
            MessageReader(SCHEMA).feed(batch(3), adds(5, counts=(1, 0)))

    def test_adds_come_before_mods(self) -> None:
        data = UpdateMetadata(added_rows=RowSet.flat(1), modified_rows=(RowSet.flat(2), RowSet.flat(2))).encode()
        got = fed(MessageReader(SCHEMA), (batch(1), data), (batch(2), None))
        assert got is not None
        assert [len(column) for column in got.add_columns] == [1, 1]
        assert [len(column) for column in got.mod_columns] == [2, 2]

    def test_columns_of_different_lengths(self) -> None:
        reader = MessageReader(SCHEMA)
        columns = [pa.array([1], pa.int64()), pa.array(["p", "q", "r"])]
        got = reader.feed_columns(columns, 3, mods(1, 3))
        assert got is not None
        assert [column.to_pylist() for column in got.mod_columns] == [[1], ["p", "q", "r"]]

    def test_padding_is_cut_off(self) -> None:
        got = MessageReader(SCHEMA).feed(batch(3), mods(1, 3))
        assert got is not None
        assert [len(column) for column in got.mod_columns] == [1, 3]

    def test_an_update_without_rows(self) -> None:
        got = MessageReader(SCHEMA).feed(batch(0), UpdateMetadata(removed_rows=RowSet.flat(2)).encode())
        assert got is not None
        assert [len(column) for column in got.add_columns] == [0, 0]

    def test_included_rows_are_what_comes(self) -> None:
        data = UpdateMetadata(added_rows=RowSet.flat(50), added_rows_included=RowSet.flat(2)).encode()
        assert MessageReader(SCHEMA).feed(batch(2), data) is not None

    def test_a_message_without_anything_is_ignored(self) -> None:
        assert MessageReader(SCHEMA).feed(None, None) is None


class TestRefusals:
    def test_too_many_rows(self) -> None:
        with pytest.raises(WireFormatError, match="6 added rows where 5 are left"):
            MessageReader(SCHEMA).feed(batch(6), adds(5))
        with pytest.raises(WireFormatError, match="6 modified rows where 5 are left"):
            MessageReader(SCHEMA).feed(batch(6), mods(1, 5))

    def test_a_new_update_within_another(self) -> None:
        with pytest.raises(WireFormatError, match="before the last one was complete"):
            fed(MessageReader(SCHEMA), (batch(3), adds(5)), (batch(2), adds(2)))

    def test_rows_before_any_metadata(self) -> None:
        with pytest.raises(WireFormatError, match="before any update metadata"):
            MessageReader(SCHEMA).feed(batch(1), None)

    def test_metadata_without_rows(self) -> None:
        with pytest.raises(WireFormatError, match="without a record batch"):
            MessageReader(SCHEMA).feed(None, adds(1))

    def test_a_request_instead_of_an_update(self) -> None:
        with pytest.raises(WireFormatError, match="got a SubscriptionRequest"):
            MessageReader(SCHEMA).feed(batch(1), SubscriptionRequest(b"s/t").encode())

    def test_modified_rows_of_too_few_columns(self) -> None:
        with pytest.raises(WireFormatError, match="of 1 columns; the schema has 2"):
            MessageReader(SCHEMA).feed(batch(1), UpdateMetadata(modified_rows=(RowSet.flat(1),)).encode())

    def test_a_column_too_few(self) -> None:
        with pytest.raises(WireFormatError, match="1 columns; the schema has 2"):
            MessageReader(SCHEMA).feed_columns([pa.array([1])], 1, adds(1))

    def test_a_column_with_too_few_rows(self) -> None:
        with pytest.raises(WireFormatError, match="'b' has 1 added rows instead of 2"):
            MessageReader(SCHEMA).feed_columns([pa.array([1, 2]), pa.array(["x"])], 2, adds(2))
        with pytest.raises(WireFormatError, match="'b' has 1 modified rows instead of 2"):
            MessageReader(SCHEMA).feed_columns([pa.array([1, 2]), pa.array(["x"])], 2, mods(2, 2))

    @pytest.mark.parametrize("lists", [[[1], [2]], [None], []], ids=["two", "null", "none"])
    def test_a_list_column_that_is_not_one_list(self, lists: list[list[int] | None]) -> None:
        schema = list_schema(barrage_schema(pa.schema([("a", pa.int64())])))
        reader = MessageReader(schema)
        column = pa.array(lists, schema.field(0).type)
        with pytest.raises(WireFormatError, match="exactly one list"):
            reader.feed_columns([column], 1, adds(1))

    def test_offsets_that_lead_astray(self) -> None:
        """Checked on demand, because they could crash a reader of the texts."""
        offsets = pa.array([0, 1_000_000, 3], pa.int32()).buffers()[1]
        text = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"abc")])
        reader = MessageReader(SCHEMA)
        with pytest.raises(WireFormatError, match="overlap or overrun"):
            reader.feed(pa.RecordBatch.from_arrays([pa.array([1, 2]), text], schema=SCHEMA), adds(2))

    def test_list_offsets_that_lead_astray(self) -> None:
        offsets = pa.array([0, 1_000_000, 3], pa.int32()).buffers()[1]
        lists = pa.Array.from_buffers(pa.list_(pa.int64()), 2, [None, offsets], children=[pa.array([1, 2, 3])])
        schema = barrage_schema(pa.schema([("l", lists.type)]))
        with pytest.raises(WireFormatError, match="overlap or overrun"):
            MessageReader(schema).feed(pa.RecordBatch.from_arrays([lists], schema=schema), adds(2))


def test_lists_are_unwrapped_without_copying() -> None:
    schema = barrage_schema(pa.schema([("a", pa.int64())]))
    listed = list_schema(schema)
    values = pa.array(range(10))
    column = pa.Array.from_buffers(
        listed.field(0).type, 1, [None, pa.array([2, 6], pa.int32()).buffers()[1]], children=[values]
    )
    reader = MessageReader(listed)
    assert reader.schema.equals(schema, check_metadata=True)
    got = reader.feed(pa.RecordBatch.from_arrays([column], schema=listed), adds(4))
    assert got is not None
    assert got.add_columns[0].to_pylist() == [2, 3, 4, 5]
    assert got.add_columns[0].buffers()[1].address == values.buffers()[1].address + 2 * 8
