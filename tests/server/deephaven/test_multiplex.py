"""Frames of grpc-websockets-multiplex: many gRPC streams in one websocket."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.errors import LimitError, MessageTooLargeError, WireFormatError
from barrage_server.server.deephaven.call import Status
from barrage_server.server.deephaven.multiplex import (
    GO_AWAY,
    Demultiplexer,
    Event,
    GoAwayAcknowledged,
    HalfClosed,
    MessageReceived,
    StreamBroken,
    StreamOpened,
    headers_frame,
    message_frame,
    trailers_frame,
)

END = 0x8000_0000


def number(stream: int) -> bytes:
    return struct.pack(">I", stream)


def opening(stream: int, path: str = "pkg.Service/Method", **headers: str) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in {"grpc-websockets-path": path, **headers}.items())
    return number(stream) + lines.encode()


def piece(stream: int, data: bytes) -> bytes:
    return number(stream) + b"\0" + data


def finish(stream: int) -> bytes:
    return number(stream | END) + b"\1"


def framed(message: bytes) -> bytes:
    return struct.pack(">BI", 0, len(message)) + message


def demultiplexer(message_bytes: int = 1000, **limits: int) -> Demultiplexer:
    return Demultiplexer(message_bytes=message_bytes, **limits)


def opened(*streams: int, message_bytes: int = 1000) -> Demultiplexer:
    multiplexed = demultiplexer(message_bytes)
    for stream in streams:
        multiplexed.receive(opening(stream))
    return multiplexed


class TestOpening:
    def test_the_first_frame_has_the_method_and_the_headers_in_lower_case(self) -> None:
        frame = opening(7, "io.deephaven.Config/Get", Authorization="Bearer x:y", empty="")
        assert demultiplexer().receive(frame) == [
            StreamOpened(7, "/io.deephaven.Config/Get", {"authorization": "Bearer x:y", "empty": ""})
        ]

    def test_of_a_header_that_comes_twice_the_first_value_counts(self) -> None:
        frame = opening(0) + b"a: 1\r\nA: 2\r\n"
        [event] = demultiplexer().receive(frame)
        assert isinstance(event, StreamOpened)
        assert event.headers == {"a": "1"}

    @pytest.mark.parametrize(
        "frame",
        [
            b"",
            number(1),
            number(1) + b"\x02",
            number(1) + b"no-colon\r\n",
            number(1) + b": no name\r\n",
            number(1) + b"authorization: x\r\n",
            number(1) + b"grpc-websockets-path: \r\n",
            number(1 | END) + b"grpc-websockets-path: a/b\r\n",
            piece(1, framed(b"x")),
            finish(1),
            number(0x7FFF_FFFF) + b"grpc-websockets-path: a/b\r\n",
            number(0xFFFF_FFFF) + b"\0",
        ],
    )
    def test_a_connection_that_begins_otherwise_is_damaged(self, frame: bytes) -> None:
        with pytest.raises(WireFormatError):
            demultiplexer().receive(frame)

    def test_a_stream_that_is_open_cannot_be_opened(self) -> None:
        with pytest.raises(WireFormatError, match="opened again"):
            opened(3).receive(opening(3))

    def test_headers_have_a_limit(self) -> None:
        with pytest.raises(WireFormatError, match="100 bytes"):
            demultiplexer(header_bytes=100).receive(opening(1, a="x" * 100))

    def test_one_stream_too_many_is_refused_and_what_it_sends_ignored(self) -> None:
        multiplexed = demultiplexer(streams=1)
        multiplexed.receive(opening(1))
        [event] = multiplexed.receive(opening(2))
        assert isinstance(event, StreamBroken)
        assert (event.stream, type(event.error)) == (2, LimitError)
        assert multiplexed.receive(piece(2, framed(b"x"))) == []
        assert multiplexed.receive(finish(2)) == []
        multiplexed.receive(finish(1))
        assert isinstance(multiplexed.receive(opening(3))[0], StreamOpened)


class TestMessages:
    def test_a_message_may_be_empty(self) -> None:
        assert opened(1).receive(piece(1, framed(b""))) == [MessageReceived(1, b"")]

    def test_two_messages_may_share_a_frame(self) -> None:
        assert opened(1).receive(piece(1, framed(b"ab") + framed(b"c"))) == [
            MessageReceived(1, b"ab"),
            MessageReceived(1, b"c"),
        ]

    def test_streams_do_not_disturb_each_other(self) -> None:
        multiplexed = opened(1, 2)
        assert multiplexed.receive(piece(1, framed(b"first")[:7])) == []
        assert multiplexed.receive(piece(2, framed(b"second"))) == [MessageReceived(2, b"second")]
        assert multiplexed.receive(finish(2)) == [HalfClosed(2)]
        assert multiplexed.receive(piece(1, framed(b"first")[7:])) == [MessageReceived(1, b"first")]
        assert multiplexed.open == {1}

    @given(st.lists(st.binary(max_size=40), max_size=6), st.data())
    def test_messages_may_be_cut_anywhere(self, messages: list[bytes], data: st.DataObject) -> None:
        stream = b"".join(map(framed, messages))
        cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)) | {0, len(stream)})
        multiplexed = opened(9)
        events: list[Event] = []
        for start, end in itertools.pairwise(cuts):
            events += multiplexed.receive(piece(9, stream[start:end]))
        assert events == [MessageReceived(9, message) for message in messages]
        assert multiplexed.pending_bytes == 0
        assert multiplexed.receive(finish(9)) == [HalfClosed(9)]
        assert multiplexed.open == frozenset()

    def test_a_message_has_a_limit_that_its_length_alone_exceeds(self) -> None:
        multiplexed = opened(1, 2, message_bytes=10)
        [event] = multiplexed.receive(piece(1, struct.pack(">BI", 0, 11)))
        assert isinstance(event, StreamBroken)
        assert isinstance(event.error, MessageTooLargeError)
        assert multiplexed.receive(piece(2, framed(b"0123456789"))) == [MessageReceived(2, b"0123456789")]

    def test_messages_that_have_begun_share_one_limit(self) -> None:
        multiplexed = opened(1, 2, message_bytes=10)
        assert multiplexed.receive(piece(1, framed(b"0123456789")[:-1])) == []
        [event] = multiplexed.receive(piece(2, framed(b"0123456789")[:-1]))
        assert isinstance(event, StreamBroken)
        assert (event.stream, type(event.error)) == (2, MessageTooLargeError)
        assert multiplexed.pending_bytes == 14
        assert multiplexed.receive(piece(1, b"9")) == [MessageReceived(1, b"0123456789")]
        assert multiplexed.pending_bytes == 0

    def test_compressed_messages_break_their_stream_after_those_before(self) -> None:
        multiplexed = opened(1)
        first, second = multiplexed.receive(piece(1, framed(b"x") + b"\1\0\0\0\0"))
        assert first == MessageReceived(1, b"x")
        assert isinstance(second, StreamBroken)
        assert multiplexed.receive(piece(1, framed(b"y"))) == []

    def test_a_message_cut_short_breaks_its_stream(self) -> None:
        multiplexed = opened(1)
        multiplexed.receive(piece(1, framed(b"xy")[:-1]))
        [event] = multiplexed.receive(finish(1))
        assert isinstance(event, StreamBroken)
        assert isinstance(event.error, WireFormatError)
        assert multiplexed.pending_bytes == 0


class TestEnds:
    def test_what_comes_after_the_server_has_ended_a_stream_is_ignored(self) -> None:
        multiplexed = opened(1)
        multiplexed.receive(piece(1, framed(b"xy")[:-1]))
        multiplexed.forget(1)
        assert multiplexed.pending_bytes == 0
        assert multiplexed.receive(piece(1, b"y")) == []
        assert multiplexed.receive(finish(1)) == []

    @pytest.mark.parametrize(
        "frame", [number(1 | END) + b"\1x", number(1 | END) + b"\0", number(1) + b"\1", number(1) + b"\x20"]
    )
    def test_an_end_says_so_twice_and_nothing_else(self, frame: bytes) -> None:
        with pytest.raises(WireFormatError):
            opened(1).receive(frame)

    def test_the_client_acknowledges_that_the_server_goes_away(self) -> None:
        assert bytes.fromhex("7fffffff") == GO_AWAY
        assert demultiplexer().receive(bytes.fromhex("ffffffff01")) == [GoAwayAcknowledged()]


class TestAnswers:
    def test_headers_come_first(self) -> None:
        block = b"authorization: Bearer x\r\n"
        expected = number(5) + b"\x80" + struct.pack(">I", len(block)) + block
        assert headers_frame(5, [("authorization", "Bearer x")]) == expected
        assert headers_frame(5, []) == number(5) + bytes.fromhex("8000000000")

    def test_a_header_is_one_line(self) -> None:
        with pytest.raises(WireFormatError):
            headers_frame(5, [("a", "x\r\nb: y")])

    def test_then_messages(self) -> None:
        assert message_frame(5, b"xyz") == number(5) + framed(b"xyz")

    def test_then_trailers_that_end_the_stream(self) -> None:
        assert trailers_frame(5, Status.OK) == number(5 | END) + b"\x80\0\0\0\x10grpc-status: 0\r\n"

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("There is no table 'x'.", "There is no table 'x'."),
            ("Send it so: 'a: b', 100%.", "Send it so - 'a - b', 100 percent."),
            ("at 12:30\r\n~", "at 12.30  -"),
            ("täble 表 ①", "table ? 1"),
        ],
    )
    def test_the_text_of_a_status_stays_readable(self, text: str, shown: str) -> None:
        expected = f"grpc-status: 5\r\ngrpc-message: {shown}\r\n".encode()
        assert trailers_frame(5, Status(5, text))[9:] == expected

    @given(st.text(st.characters()))
    def test_the_text_of_a_status_has_only_what_the_api_does_not_decode(self, text: str) -> None:
        lines = trailers_frame(5, Status(13, text))[9:].split(b"\r\n")
        assert lines[0] == b"grpc-status: 13"
        if text:
            value = lines[1].removeprefix(b"grpc-message: ")
            assert all(0x20 <= byte < 0x7E for byte in value)
            assert not {*value} & {*b":%"}


@given(st.lists(st.binary(max_size=30), max_size=20))
def test_damage_never_raises_anything_else(frames: list[bytes]) -> None:
    multiplexed = opened(1, 2)
    for frame in frames:
        try:
            multiplexed.receive(frame)
        except WireFormatError:
            return
    assert multiplexed.pending_bytes <= 1005
