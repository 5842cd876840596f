"""Which messages of a page make sense: the rules, and any text at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barrage_server.errors import LimitError, WireFormatError
from barrage_server.server.limits import Limits
from barrage_server.server.web.session import PageLimits, PageSession
from barrage_server.wire.page_messages import MOST_TEXT_BYTES, Move, Open, parse_page_message

HELLO = '{"type":"hello","version":1}'


def text(kind: str, **fields: Any) -> str:
    return json.dumps({"type": kind, **fields})


def opening(stream: int = 1, **fields: Any) -> str:
    return text("open", **{"stream": stream, "table": "t", "first": 0, "count": 5, **fields})


def greeted(**limits: int) -> PageSession:
    session = PageSession(PageLimits(**limits))
    session.receive(HELLO)
    return session


def opened(session: PageSession, stream: int, count: int, columns: int) -> None:
    message = session.receive(opening(stream, count=count))
    assert isinstance(message, Open)
    session.begin(stream)
    session.look(message, columns)


def test_hello_comes_first_and_once() -> None:
    session = PageSession(PageLimits())
    with pytest.raises(WireFormatError):
        session.receive(opening())
    session.receive(HELLO)
    with pytest.raises(WireFormatError):
        session.receive(HELLO)


def test_what_comes_for_a_stream_that_has_ended_is_ignored() -> None:
    session = greeted()
    opened(session, 3, 5, 2)
    session.ended(3)
    assert session.receive(text("ack", stream=3, updates=1)) is None
    with pytest.raises(WireFormatError):
        session.receive(text("ack", stream=4, updates=1))


def test_numbers_of_streams_ascend() -> None:
    session = greeted()
    opened(session, 3, 5, 2)
    session.ended(3)
    for number in (3, 2):
        with pytest.raises(WireFormatError):
            session.receive(opening(number))


def test_cells_count_over_all_streams_and_come_back() -> None:
    session = greeted(cells=100)
    opened(session, 1, 10, 5)
    opened(session, 2, 10, 5)
    with pytest.raises(LimitError, match="page_cells"):
        opened(session, 3, 1, 1)
    session.ended(3)
    move = session.receive(text("move", stream=2, first=0, count=5))
    assert isinstance(move, Move)
    session.look(move, 5)
    session.ended(1)
    opened(session, 4, 15, 5)
    assert session.streams == 2


def test_streams_are_bounded() -> None:
    session = greeted(streams=2)
    opened(session, 1, 1, 1)
    opened(session, 2, 1, 1)
    with pytest.raises(LimitError, match="page_streams"):
        session.begin(3)


def test_the_limits_are_those_of_the_server() -> None:
    limits = Limits(page_streams=1, page_rows=2, page_columns=3, page_cells=4)
    assert PageLimits.of(limits) == PageLimits(1, 2, 3, 4)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [
    "stream",
    "table",
    "first",
    "count",
    "reverse",
    "columns",
    "kind",
    "interval",
    "updates",
    "request",
    "row",
    "n",
]
MESSAGES = st.builds(
    lambda kind, fields: json.dumps({"type": kind, **fields}),
    st.sampled_from(["hello", "open", "move", "pause", "resume", "close", "ack", "cell", "ping"]) | st.text(),
    st.dictionaries(st.sampled_from(FIELDS), JSON | st.integers(0, 20), max_size=8),
)


@given(st.text() | JSON.map(json.dumps) | MESSAGES)
def test_any_text_is_a_message_or_an_error_in_words(given_text: str) -> None:
    try:
        parse_page_message(given_text)
    except WireFormatError as error:
        assert str(error)


NUMBERS = (
    st.integers(-1, 20).map(str)
    | st.integers(10**9 - 3, 10**10).map(str)
    | st.integers(2**63 - 2, 2**64).map(str)
    | st.sampled_from(["01", "-0", "1.0", "1e0", "true", "null", '"1"', "[1]", "٣", "+1", ""])
)
GAPS = st.sampled_from(["", " ", "  ", "\n", "\u00a0"])


@given(NUMBERS, NUMBERS, GAPS, GAPS)
@example("1", "1", "", "")
@example("1", "1", " ", " ")
def test_the_usual_text_of_an_ack_reads_as_any_other(stream: str, updates: str, colon: str, comma: str) -> None:
    """The general path reads the other one, because of an escape."""
    told = {"type": '"ack"', "stream": stream, "updates": updates}
    usual = f",{comma}".join(f'"{name}":{colon}{value}' for name, value in told.items())
    escaped = usual.replace("type", r"typ\u0065")
    assert outcome(f"{{{usual}}}") == outcome(f"{{{escaped}}}")


def outcome(given_text: str) -> object:
    try:
        return parse_page_message(given_text)
    except WireFormatError as error:
        return str(error)


@pytest.mark.parametrize("length", [MOST_TEXT_BYTES + 1, 10 * MOST_TEXT_BYTES])
def test_long_texts_are_refused_unread(length: int) -> None:
    with pytest.raises(WireFormatError, match="at most"):
        parse_page_message("[" * length)


def test_a_token_is_in_no_representation() -> None:
    assert "hunter2" not in repr(parse_page_message(text("hello", version=1, token="hunter2")))
