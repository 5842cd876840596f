"""A reader that remembers the layout of earlier messages gives what decoding each one anew gives."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.rowset import RowSet, RowSetShiftData
from barrage_server.wire import metadata_reader
from barrage_server.wire.metadata import BarrageMessage, UpdateMetadata, decode_message
from barrage_server.wire.metadata_reader import MetadataReader
from tests.wire.reading import read_or_none
from tests.wire.test_metadata import MESSAGES, updates

ROWS = RowSet.from_range(300, 399)
MOVED = UpdateMetadata(
    first_seq=7,
    last_seq=7,
    is_snapshot=True,
    effective_viewport=ROWS,
    effective_column_set=(0, 1),
    added_rows=ROWS,
    removed_rows=RowSet.empty(),
    shift_data=RowSetShiftData.empty(),
    added_rows_included=ROWS,
    modified_rows=(RowSet.empty(), RowSet.empty()),
    table_size=5000,
    num_add_batches=1,
    num_mod_batches=0,
)


@given(st.lists(MESSAGES, max_size=8))
def test_any_messages(messages: list[BarrageMessage]) -> None:
    reader = MetadataReader()
    for message in messages:
        assert reader.read(message.encode()) == message


@given(updates(), st.lists(st.tuples(st.integers(0, 700), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_messages(message: UpdateMetadata, changes: list[tuple[int, int]]) -> None:
    reader, data = MetadataReader(), bytearray(message.encode())
    for place, byte in changes:
        reader.read(message.encode())
        data[place % len(data)] = byte
        assert read_or_none(reader.read, bytes(data)) == read_or_none(decode_message, bytes(data))


@given(st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(0, 1 << 40), st.integers(0, 99)), max_size=8))
def test_messages_of_one_layout(moves: list[tuple[int, int, int]]) -> None:
    reader = MetadataReader()
    for first, step, changed in moves:
        rows = RowSet.from_range(first, first + 99)
        modified = RowSet.from_keys([first + changed])
        message = replace(
            MOVED,
            first_seq=step,
            last_seq=step + 1,
            effective_viewport=rows,
            added_rows=rows,
            added_rows_included=rows,
            modified_rows=(modified, modified),
        )
        assert reader.read(message.encode()) == decode_message(message.encode()) == message


def test_of_a_message_laid_out_as_an_earlier_one_only_its_row_sets_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = MetadataReader()
    reader.read(MOVED.encode())
    monkeypatch.setattr(metadata_reader, "decode_message", None)
    for first in (301, 350, 327):
        rows = RowSet.from_range(first, first + 99)
        message = replace(MOVED, last_seq=first, effective_viewport=rows, added_rows=rows, added_rows_included=rows)
        assert reader.read(message.encode()) == message


def test_a_sender_whose_layouts_never_come_twice_is_read_without_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = 0
    encode = UpdateMetadata.encode

    def counted(metadata: UpdateMetadata) -> bytes:
        nonlocal tried
        tried += 1
        return encode(metadata)

    reader, messages = MetadataReader(), []
    for count in range(200):
        rows = RowSet.from_keys(range(0, 3 * count + 3, 3))
        messages.append(replace(MOVED, added_rows=rows, added_rows_included=rows).encode())
    monkeypatch.setattr(UpdateMetadata, "encode", counted)
    for data in messages:
        assert reader.read(data) == decode_message(data)
    assert 0 < tried < 100
