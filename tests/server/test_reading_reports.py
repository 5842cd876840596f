"""A reader that says what it has read is sent few, large, current messages, however slow it is."""

from __future__ import annotations

import pyarrow.flight as fl
import pytest

from barrage_server.engine import KeyedTable
from barrage_server.errors import WireFormatError
from barrage_server.flight.errors import from_flight
from barrage_server.server import Server
from barrage_server.wire.metadata import SubscriptionRequest
from barrage_server.wire.reading import ReadingReport
from tests.server.follower import QUICK
from tests.server.test_exchange import FAILURES, Stream
from tests.waiting import until

QUOTES = SubscriptionRequest(b"s/quotes", options=QUICK)


def test_reports_are_read_as_they_were_written() -> None:
    for report in (ReadingReport(3), ReadingReport(0, 4), ReadingReport(1 << 40, 1)):
        assert ReadingReport.decode(report.encode()) == report
    assert ReadingReport.decode(QUOTES.encode()) is None


@pytest.mark.parametrize(
    "damaged",
    [b"", b"{", b"[]", b"{}", b'{"messages": -1}', b'{"messages": 0, "unread": 0}', b'{"messages": 0, "window": 1}'],
)
def test_damaged_reports_end_their_stream(client: fl.FlightClient, quotes: KeyedTable, damaged: bytes) -> None:
    with pytest.raises(WireFormatError):
        ReadingReport.decode(b"barrage-read:" + damaged)
    stream = Stream(client)
    stream.send(QUOTES)
    stream.message()
    stream.send(b"barrage-read:" + damaged)
    with pytest.raises(FAILURES) as caught:
        while True:
            stream.message()
    assert isinstance(from_flight(caught.value), WireFormatError)


def test_a_report_that_is_too_long_is_refused_unparsed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read on the event loop, where every other client waits."""
    longest = ReadingReport((1 << 63) - 1, (1 << 63) - 1)
    assert ReadingReport.decode(longest.encode()) == longest

    def parse(*_: object, **__: object) -> dict[str, object]:
        raise AssertionError("parsed")

    monkeypatch.setattr("barrage_server.wire.json_message.parse_object", parse)
    with pytest.raises(WireFormatError, match="bytes at most"):
        ReadingReport.decode(longest.encode() + b" " * 256)


@pytest.mark.parametrize("ahead", [1, 3])
def test_no_more_than_that_is_sent_ahead(
    server: Server, client: fl.FlightClient, quotes: KeyedTable, ahead: int
) -> None:
    stream = Stream(client)
    stream.send(ReadingReport(0, ahead))
    stream.send(QUOTES)
    until(lambda: server.statistics().subscriptions)

    def sent() -> int:
        return server.statistics().subscriptions[0].messages

    until(lambda: sent() == 1)
    for number in range(100):
        quotes.upsert({"sym": ["A"], "price": [float(number)]})
        if number < ahead:
            until(lambda number=number: sent() == min(ahead, number + 2))  # type: ignore[misc]
    assert sent() == ahead
    steps: list[int] = []
    while not steps or steps[-1] < quotes.version.step:
        message = stream.message()
        steps.append(message.metadata.last_seq or 0)
        stream.send(ReadingReport(1))
    assert len(steps) == ahead + 1
    assert message.mod_columns[1].to_pylist() == [99.0]
    for number in range(20):  # and goes on
        quotes.upsert({"sym": ["B"], "price": [float(number)]})
        message = stream.message()
        stream.send(ReadingReport(1))
        assert message.mod_columns[1].to_pylist() == [float(number)]
    stream.reader.cancel()


def test_a_plain_reader_bounds_what_its_channel_keeps_unread(server: Server, quotes: KeyedTable) -> None:
    """The two options of docs/limits.md: what a reader is behind by comes in few messages, without a word from it."""
    cycles = 600
    options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 16_384)]
    with fl.FlightClient(server.uri, generic_options=options) as slow, fl.FlightClient(server.uri) as quick:
        behind, prompt = Stream(slow), Stream(quick)
        for stream in (behind, prompt):
            stream.send(QUOTES)
            stream.message()
        for number in range(cycles):
            quotes.upsert({"sym": ["A"], "price": [float(number)]})
            while (prompt.message().metadata.last_seq or 0) < quotes.version.step:
                pass
        steps: list[int] = []
        while not steps or steps[-1] < quotes.version.step:
            steps.append(behind.message().metadata.last_seq or 0)
        assert len(steps) < cycles / 4
        for stream in (behind, prompt):
            stream.reader.cancel()
