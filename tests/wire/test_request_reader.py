"""A reader that remembers the last request gives what reading each one anew gives."""

from __future__ import annotations

import flatbuffers
import pytest
from barrage_flatbuf import BarrageSubscriptionRequest as RequestTable
from barrage_flatbuf.BarrageMessageType import BarrageMessageType
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.rowset import RowSet, encode_row_set
from barrage_server.wire import request_reader
from barrage_server.wire.metadata import BarrageMessage, SubscriptionOptions, SubscriptionRequest, decode_message
from barrage_server.wire.request_reader import RequestReader
from barrage_server.wire.wrapper import wrap
from tests.wire.reading import read_or_none
from tests.wire.test_metadata import SNAPSHOTS, SUBSCRIPTIONS

REQUEST = SubscriptionRequest(
    b"s/t", (0, 2), RowSet.from_range(300, 399), SubscriptionOptions(columns_as_list=True), False, b"token"
)


@given(st.lists(SUBSCRIPTIONS | SNAPSHOTS, max_size=8))
def test_any_requests(requests: list[BarrageMessage]) -> None:
    reader = RequestReader()
    for request in requests:
        assert reader.read(request.encode()) == request


@given(SUBSCRIPTIONS, st.lists(st.tuples(st.integers(0, 300), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_requests(request_: SubscriptionRequest, changes: list[tuple[int, int]]) -> None:
    reader, data = RequestReader(), bytearray(request_.encode())
    for place, byte in changes:
        reader.read(request_.encode())
        data[place % len(data)] = byte
        assert read_or_none(reader.read, bytes(data)) == read_or_none(decode_message, bytes(data))


def test_of_a_moved_viewport_nothing_else_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = RequestReader()
    reader.read(REQUEST.encode())
    monkeypatch.setattr(request_reader, "decode_message", None)
    for first in (301, 350, 327):
        moved = REQUEST.moved(RowSet.from_range(first, first + 99))
        assert reader.read(moved.encode()) == moved


def test_nor_where_viewports_differ_in_length_and_requests_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = RequestReader()
    near, far = (REQUEST.moved(RowSet.from_range(first, first + 99)) for first in (300, 70_000))
    assert len(encode_row_set(near.viewport or RowSet.EMPTY)) != len(encode_row_set(far.viewport or RowSet.EMPTY))
    assert len(near.encode()) == len(far.encode())
    assert [reader.read(request.encode()) for request in (near, far)] == [near, far]
    monkeypatch.setattr(request_reader, "decode_message", None)
    for first in (301, 70_350, 327, 90_000):
        moved = REQUEST.moved(RowSet.from_range(first, first + 99))
        assert reader.read(moved.encode()) == moved


@pytest.mark.parametrize("first", ["ticket", "token"])
def test_a_viewport_whose_bytes_are_something_else_as_well(first: str) -> None:
    """The format lets two fields share one vector."""

    def request(viewport: RowSet) -> bytes:
        builder = flatbuffers.Builder(64)
        shared = builder.CreateByteVector(encode_row_set(viewport))
        RequestTable.Start(builder)
        (RequestTable.AddTicket if first == "ticket" else RequestTable.AddSubscriptionToken)(builder, shared)
        RequestTable.AddViewport(builder, shared)
        builder.Finish(RequestTable.End(builder))
        return wrap(BarrageMessageType.BarrageSubscriptionRequest, bytes(builder.Output()))

    reader = RequestReader()
    for start in (5, 6, 7):
        rows = RowSet.from_range(start, start + 3)
        found = reader.read(request(rows))
        assert isinstance(found, SubscriptionRequest)
        assert found.viewport == rows
        assert (found.ticket if first == "ticket" else found.subscription_token) == encode_row_set(rows)
