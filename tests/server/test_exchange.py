"""DoExchange: subscriptions and snapshots over a real connection, with nothing of the client room."""

from __future__ import annotations

import json
import time
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.engine import KeyedTable
from barrage_server.errors import (
    BarrageError,
    InvalidRequestError,
    LimitError,
    UnknownColumnError,
    UnknownTableError,
    WireFormatError,
)
from barrage_server.flight.errors import from_flight
from barrage_server.rowset import RowSet
from barrage_server.server import Limits, Server
from barrage_server.server.streams import Streams
from barrage_server.subscription import SubscriptionLimits
from barrage_server.wire.metadata import PublicationRequest, SnapshotRequest, SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.reader import IncomingMessage, MessageReader
from tests.server.conftest import SCHEMA, address, endpoints
from tests.server.follower import DPHN, QUICK, Follower
from tests.waiting import until

FAILURES = (pa.ArrowException, OSError)
QUOTES = SubscriptionRequest(b"s/quotes", options=QUICK)
KEY_SPACE = fl.FlightCallOptions(headers=[(b"barrage-viewport", b"key-space")])
FLATTENED = fl.FlightCallOptions(headers=[(b"barrage-viewport", b"flattened")])


class Stream:
    """One DoExchange, message by message."""

    def __init__(
        self,
        client: fl.FlightClient,
        descriptor: fl.FlightDescriptor = DPHN,
        options: fl.FlightCallOptions | None = None,
    ) -> None:
        self.writer, self.reader = client.do_exchange(descriptor, options)
        self._decoder: MessageReader | None = None

    def send(self, request: Any) -> None:
        self.writer.write_metadata(request if isinstance(request, bytes) else request.encode())

    def message(self) -> IncomingMessage:
        while True:
            chunk = self.reader.read_chunk()
            if self._decoder is None:
                self._decoder = MessageReader(self.reader.schema)
            metadata = None if chunk.app_metadata is None else chunk.app_metadata.to_pybytes()
            message = self._decoder.feed(chunk.data, metadata)
            if message is not None:
                return message

    def values(self) -> list[list[Any]]:
        return [column.to_pylist() for column in self.message().add_columns]

    def close(self) -> None:
        self.reader.cancel()
        with pytest.raises(FAILURES):
            self.writer.close()


def viewport(first: int, last: int, **options: Any) -> SubscriptionRequest:
    return SubscriptionRequest(b"s/quotes", viewport=RowSet.from_range(first, last), options=QUICK, **options)


def refused(client: fl.FlightClient, *requests: Any, options: fl.FlightCallOptions | None = None) -> BarrageError:
    stream: Stream | None = None
    with pytest.raises(FAILURES) as caught:
        stream = Stream(client, options=options)  # which fails at once when a header is refused quickly
        for request in requests:
            stream.send(request)
        while True:
            stream.reader.read_chunk()
    assert "Traceback" not in str(caught.value)
    if stream is not None:
        with pytest.raises(FAILURES):
            stream.writer.close()
    return from_flight(caught.value)


def test_a_follower_keeps_up_with_every_kind_of_change(client: fl.FlightClient, quotes: KeyedTable) -> None:
    """``wait`` fails unless the replica gets the content of the table after each change."""
    with Follower(client, "quotes") as follower:
        follower.wait(lambda follower: follower.content() == [["A", 1.0], ["B", 2.0]])
        quotes.upsert({"sym": ["C", "A"], "price": [3.0, 1.5]})
        follower.wait(lambda follower: follower.content() == [["A", 1.5], ["B", 2.0], ["C", 3.0]])
        quotes.delete({"sym": ["B"]})
        follower.wait(lambda follower: follower.content() == [["A", 1.5], ["C", 3.0]])
        quotes.replace({"sym": ["D"], "price": [4.0]})
        follower.wait(lambda follower: [row[0] for row in follower.content()] == ["D"])


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize("nulls", [False, True])
def test_options_of_the_stream_are_heeded(
    client: fl.FlightClient, quotes: KeyedTable, as_list: bool, nulls: bool
) -> None:
    options = SubscriptionOptions(
        use_deephaven_nulls=nulls, columns_as_list=as_list, min_update_interval_ms=1, batch_size=1
    )
    quotes.upsert({"sym": [None, "X"], "price": [7.0, None]})
    with Follower(client, "quotes", options) as follower:
        expected = [["A", 1.0], ["B", 2.0], [None, 7.0], ["X", None]]
        follower.wait(lambda follower: follower.content() == expected)


def test_messages_of_several_tables_in_one_cycle_have_one_step(
    server: Server, client: fl.FlightClient, quotes: KeyedTable
) -> None:
    trades = server.append_table("trades", SCHEMA)
    with Follower(client, "quotes") as one, Follower(client, "trades") as other:
        for follower in (one, other):
            follower.wait(lambda follower: follower.messages)
        with server.cycle():
            quotes.upsert({"sym": ["C"], "price": [3.0]})
            trades.append({"sym": ["C"], "price": [3.0]})
        for follower in (one, other):
            follower.wait(lambda follower: len(follower.messages) == 2)
        assert one.messages[1].metadata.last_seq == other.messages[1].metadata.last_seq == server.graph.step


def test_updates_within_the_interval_travel_together(client: fl.FlightClient, quotes: KeyedTable) -> None:
    options = SubscriptionOptions(min_update_interval_ms=300)
    with Follower(client, "quotes", options) as follower:
        follower.wait(lambda follower: follower.messages)
        begun = time.monotonic()
        for price in range(50):
            quotes.upsert({"sym": ["A"], "price": [float(price)]})
        follower.wait(lambda follower: follower.content()[0] == ["A", 49.0])
        intervals = (time.monotonic() - begun) / 0.3  # more than one if the writes are slow
        assert len(follower.messages) <= 3 + intervals


def test_a_large_snapshot_grows_in_parts(endpoint: str) -> None:
    limits = SubscriptionLimits(snapshot_part_cells=100)
    with Server(subscriptions=limits, **endpoints(endpoint)) as server, fl.connect(address(server, endpoint)) as client:
        server.append_table("long", pa.schema([("v", pa.int64())])).append({"v": list(range(1000))})
        with Follower(client, "long") as follower:
            follower.wait(lambda follower: len(follower.rows) == 1000)
            assert len(follower.messages) == 10


def test_a_viewport_moves_in_both_dialects(client: fl.FlightClient, server: Server) -> None:
    quotes = server.append_table("quotes", SCHEMA)
    quotes.append({"sym": [str(row) for row in range(100)], "price": [float(row) for row in range(100)]})
    for options in (None, KEY_SPACE, FLATTENED):
        stream = Stream(client, options=options)
        stream.send(viewport(0, 1))
        assert stream.values() == [["0", "1"], [0.0, 1.0]]
        stream.send(viewport(1, 2))
        assert stream.values() == [["2"], [2.0]]
        stream.send(viewport(0, 1, reverse_viewport=True))
        assert stream.values() == [["98", "99"], [98.0, 99.0]]
        stream.send(viewport(0, 1, reverse_viewport=True, columns=(1,)))
        message = stream.message()
        assert message.metadata.effective_column_set == (1,)
        stream.close()


def test_the_dialect_shows_in_the_row_keys(client: fl.FlightClient, quotes: KeyedTable) -> None:
    quotes.delete({"sym": ["A"]})  # the one row left has the key 1
    for options, key in ((KEY_SPACE, 1), (FLATTENED, 0)):
        stream = Stream(client, options=options)
        stream.send(viewport(0, 9))
        assert stream.message().metadata.included_rows == RowSet.from_range(key, key)
        stream.close()


@pytest.mark.parametrize("header", [b"sideways", b"", b"flat"])
def test_an_unknown_dialect_is_refused(client: fl.FlightClient, quotes: KeyedTable, header: bytes) -> None:
    options = fl.FlightCallOptions(headers=[(b"barrage-viewport", header)])
    error = refused(client, QUOTES, options=options)
    assert type(error) is InvalidRequestError
    assert "'key-space' or 'flattened'" in str(error)


def test_a_viewport_beyond_the_table_is_empty_until_the_table_grows(
    client: fl.FlightClient, quotes: KeyedTable
) -> None:
    stream = Stream(client)
    stream.send(viewport(2, 10))
    assert stream.values() == [[], []]
    quotes.upsert({"sym": ["C"], "price": [3.0]})
    assert stream.values() == [["C"], [3.0]]
    stream.close()


@pytest.mark.parametrize(
    "descriptor",
    [
        DPHN,
        fl.FlightDescriptor.for_path("scope", "quotes"),
        fl.FlightDescriptor.for_command(b""),
        fl.FlightDescriptor.for_command(b"anything"),
    ],
)
def test_the_descriptor_does_not_matter_when_the_request_has_a_ticket(
    client: fl.FlightClient, quotes: KeyedTable, descriptor: fl.FlightDescriptor
) -> None:
    stream = Stream(client, descriptor)
    stream.send(QUOTES)
    assert stream.values() == [["A", "B"], [1.0, 2.0]]
    stream.close()


def test_a_path_names_the_table_when_the_request_does_not(client: fl.FlightClient, quotes: KeyedTable) -> None:
    stream = Stream(client, fl.FlightDescriptor.for_path("quotes"))
    stream.send(SubscriptionRequest(b"", options=QUICK))
    assert stream.values() == [["A", "B"], [1.0, 2.0]]
    stream.close()


def test_the_schema_says_what_the_table_is(client: fl.FlightClient, quotes: KeyedTable) -> None:
    stream = Stream(client)
    stream.send(QUOTES)
    assert stream.reader.schema.field("sym").metadata[b"deephaven:type"] == b"java.lang.String"
    stream.close()


def test_a_snapshot_is_answered_and_the_stream_ends_when_the_client_has_said_all(
    client: fl.FlightClient, quotes: KeyedTable
) -> None:
    stream = Stream(client)
    for window in (None, RowSet.from_range(1, 1)):
        stream.send(SnapshotRequest(b"s/quotes", viewport=window))
        message = stream.message()
        assert message.metadata.is_snapshot
        assert message.metadata.added_rows == RowSet.flat(2)
        assert message.metadata.included_rows == (window if window is not None else RowSet.flat(2))
    stream.writer.done_writing()
    with pytest.raises(StopIteration):
        stream.reader.read_chunk()
    stream.writer.close()


def test_a_stream_without_any_request_ends_quietly(server: Server, client: fl.FlightClient) -> None:
    stream = Stream(client)
    stream.writer.done_writing()
    with pytest.raises(StopIteration):
        stream.reader.read_chunk()
    stream.writer.close()
    until(lambda: not server.statistics().subscriptions)


SECOND = SubscriptionRequest(b"s/other", options=QUICK)


@pytest.mark.parametrize(
    ("requests", "kind"),
    [
        ([SubscriptionRequest(b"s/quotse", options=QUICK)], UnknownTableError),
        ([SubscriptionRequest(b"", options=QUICK)], InvalidRequestError),
        ([SubscriptionRequest(b"e\1\0\0\0", options=QUICK)], InvalidRequestError),
        ([SubscriptionRequest(b"s/quotes", columns=(7,), options=QUICK)], UnknownColumnError),
        (
            [SubscriptionRequest(b"s/quotes", options=SubscriptionOptions(min_update_interval_ms=-1))],
            InvalidRequestError,
        ),
        ([SnapshotRequest(b"s/quotse")], UnknownTableError),
        ([SnapshotRequest(b"s/quotes", columns=(7,))], UnknownColumnError),
        ([PublicationRequest(b"s/quotes")], InvalidRequestError),
        ([b"dphn"], WireFormatError),
        ([b"\0" * 64], WireFormatError),
        ([b"not a message at all, but quite long, so that something may be found in it"], WireFormatError),
        ([QUOTES, viewport(0, 1)], InvalidRequestError),
        ([viewport(0, 1), QUOTES], InvalidRequestError),
        ([viewport(0, 1), viewport(0, 1, columns=(9,))], UnknownColumnError),
        ([QUOTES, SECOND], InvalidRequestError),
        ([QUOTES, SnapshotRequest(b"s/quotes")], InvalidRequestError),
        ([SnapshotRequest(b"s/quotes"), QUOTES], InvalidRequestError),
        ([SnapshotRequest(b"s/quotes"), SnapshotRequest(b"s/other")], InvalidRequestError),
        ([QUOTES, b"junk"], WireFormatError),
    ],
)
def test_bad_requests_end_their_stream_with_a_typed_error_and_no_other(
    server: Server, client: fl.FlightClient, quotes: KeyedTable, requests: list[Any], kind: type[BarrageError]
) -> None:
    server.append_table("other", SCHEMA)
    with Follower(client, "quotes") as follower:
        follower.wait(lambda follower: follower.messages)
        error = refused(client, *requests)
        assert type(error) is kind, error
        quotes.upsert({"sym": ["A"], "price": [99.0]})
        follower.wait(lambda follower: follower.content()[0] == ["A", 99.0])
    until(lambda: not server.statistics().subscriptions)


def test_rows_in_an_exchange_are_refused(client: fl.FlightClient, quotes: KeyedTable) -> None:
    writer, reader = client.do_exchange(DPHN)
    with pytest.raises(FAILURES) as caught:
        writer.begin(SCHEMA)
        writer.write_batch(pa.record_batch({"sym": ["A"], "price": [1.0]}, schema=SCHEMA))
        reader.read_chunk()
    assert type(from_flight(caught.value)) is InvalidRequestError
    with pytest.raises(FAILURES):
        writer.close()


def test_too_long_a_request_is_refused(endpoint: str) -> None:
    with (
        Server(limits=Limits(request_bytes=1000), **endpoints(endpoint)) as server,
        fl.connect(address(server, endpoint)) as client,
    ):
        assert type(refused(client, b"x" * 1001)) is LimitError


def test_too_many_subscriptions_are_refused_until_one_leaves(endpoint: str) -> None:
    with (
        Server(limits=Limits(subscriptions=2), **endpoints(endpoint)) as server,
        fl.connect(address(server, endpoint)) as client,
    ):
        server.append_table("quotes", SCHEMA)
        with Follower(client, "quotes") as first, Follower(client, "quotes") as second:
            for follower in (first, second):
                follower.wait(lambda follower: follower.messages)
            error = refused(client, QUOTES)
            assert type(error) is LimitError
            assert "2 subscriptions" in str(error)
        until(lambda: not server.statistics().subscriptions)
        with Follower(client, "quotes") as third:
            third.wait(lambda follower: follower.messages)


def test_a_blink_table_starts_empty_and_shows_every_row_once(server: Server, client: fl.FlightClient) -> None:
    """``wait`` fails unless exactly the rows after the subscription come, in order."""
    events = server.blink_table("events", SCHEMA)
    events.append({"sym": ["before"], "price": [0.0]})
    with Follower(client, "events") as follower:
        follower.wait(lambda follower: follower.messages)
        for number in range(20):
            events.append({"sym": [str(number)], "price": [float(number)]})

        def seen(follower: Follower) -> bool:
            rows = [row for message in follower.messages for row in message.add_columns[0].to_pylist()]
            return rows == [str(number) for number in range(20)]

        follower.wait(seen)


def test_many_subscribers_get_every_last_update(server: Server, client: fl.FlightClient, quotes: KeyedTable) -> None:
    followers = [Follower(client, "quotes") for _ in range(40)]
    for follower in followers:
        follower.wait(lambda follower: follower.messages)
    for price in range(100):
        quotes.upsert({"sym": ["A"], "price": [float(price)]})
    for follower in followers:
        follower.wait(lambda follower: follower.content()[0] == ["A", 99.0])
    assert server.statistics().writer_threads <= 42  # three, unless the machine is very busy
    for follower in followers:
        follower.close()
    until(lambda: not server.statistics().subscriptions)
    until(lambda: server.statistics().tables[0].subscribers == 0)


def test_gauges_of_a_stream(server: Server, client: fl.FlightClient, quotes: KeyedTable) -> None:
    stream = Stream(client)
    stream.send(viewport(0, 0, columns=(1,)))
    stream.message()
    gauges = until(lambda: next(iter(server.statistics().subscriptions), None))
    assert gauges.table == "quotes"
    assert gauges.peer.startswith("127.0.0.1:")
    assert (gauges.messages, gauges.rows, gauges.viewport_rows, gauges.columns) == (1, 1, 1, 1)
    assert gauges.interval_ms == 1
    stream.close()


def test_the_log_tells_of_streams_in_one_line_each(
    client: fl.FlightClient, quotes: KeyedTable, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "barrage_server")
    with Follower(client, "quotes") as follower:
        follower.wait(lambda follower: follower.messages)
    until(lambda: "left quotes after 1 message, 2 rows" in caplog.text)
    assert "subscribes to quotes" in caplog.text


def test_statistics_are_plain_values(server: Server, quotes: KeyedTable) -> None:
    figures = server.statistics()
    assert [(table.name, table.kind, table.rows) for table in figures.tables] == [("quotes", "keyed", 2)]
    json.dumps(figures.uptime_seconds)
    assert figures.subscriptions == ()


def test_a_table_that_was_made_anew_is_not_the_one_of_the_stream(
    client: fl.FlightClient, server: Server, quotes: KeyedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request may come before the drop has met its stream: the client hears of the drop then, too."""
    with Follower(client, "quotes") as follower:
        follower.wait(lambda follower: follower.messages)
        with monkeypatch.context() as patch:
            patch.setattr(Streams, "open", lambda *_: ())
            server.drop("quotes")
        server.append_table("quotes", SCHEMA)
        follower.send(SubscriptionRequest(b"s/quotes", viewport=RowSet.from_range(0, 1), options=QUICK))
        assert isinstance(follower.wait_ended(), UnknownTableError)
