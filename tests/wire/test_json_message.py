"""Dataclasses as JSON: what their fields say is what is written and what is read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.errors import LimitError, WireFormatError
from barrage_server.typed_json import REQUIRED, AtLeast
from barrage_server.wire.json_message import MOST_VALUES, JsonMessage, parse_object

SCHEMA = pa.schema([("a", pa.int64())])


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Part:
    """The name of its field is that by which objects name their class, where they may be of several."""

    kind: str
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Sample(JsonMessage):
    """One field of each type, with and without a default."""

    message_name: ClassVar[str] = "sample"

    text: str
    number: int
    flag: bool
    names: tuple[str, ...]
    colour: Colour
    schema: pa.Schema
    size: Annotated[int, AtLeast(2, "size must be 2 or more")] | None = None
    note: str = "none"
    sent: int = field(default=0, metadata=REQUIRED)
    secret: str = field(default="-", repr=False)
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer(JsonMessage):
    message_name: ClassVar[str] = "answer"
    refuses_others: ClassVar[bool] = False

    text: str | None = None


GOOD: dict[str, Any] = json.loads(Sample("x", 1, True, ("a",), Colour.RED, SCHEMA).to_json())
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(min_size=1)
SAMPLES = st.builds(
    Sample,
    TEXT,
    INT64,
    st.booleans(),
    st.lists(st.text()).map(tuple),
    st.sampled_from(Colour),
    st.just(SCHEMA),
    st.none() | st.integers(2, 2**63 - 1),
    TEXT,
    INT64,
    TEXT,
    st.lists(st.builds(Part, TEXT, st.none() | TEXT)).map(tuple),
)


@given(SAMPLES)
def test_what_is_written_is_read(sample: Sample) -> None:
    assert Sample.from_json(sample.to_json()) == sample


def test_fields_stand_under_their_names() -> None:
    assert {name: value for name, value in GOOD.items() if name != "schema"} == {
        "text": "x",
        "number": 1,
        "flag": True,
        "names": ["a"],
        "colour": "red",
        "note": "none",
        "sent": 0,
        "secret": "-",
        "parts": [],
    }


@pytest.mark.parametrize("name", ["text", "number", "flag", "names", "colour", "schema", "sent"])
def test_a_field_without_a_default_is_required(name: str) -> None:
    """So is one that is marked; a null is as good as nothing."""
    for fields in ({**GOOD, name: None}, {key: value for key, value in GOOD.items() if key != name}):
        with pytest.raises(WireFormatError, match=f"sample: {name} is missing; it must be "):
            Sample.from_json(json.dumps(fields).encode())


@pytest.mark.parametrize("name", ["size", "note"])
def test_a_null_means_the_default(name: str) -> None:
    fields = {**GOOD, "size": 5, "note": "some", name: None}
    assert getattr(Sample.from_json(json.dumps(fields).encode()), name) == {"size": None, "note": "none"}[name]


@pytest.mark.parametrize(
    ("name", "wrong", "text"),
    [
        ("text", "", "sample: text must be a string that is not empty, not ''."),
        ("text", 3, "sample: text must be a string that is not empty, not 3."),
        ("number", 1.0, "sample: number must be a 64-bit integer, not 1.0."),
        ("number", True, "sample: number must be a 64-bit integer, not True."),
        ("number", 2**63, "sample: number must be a 64-bit integer, not 9223372036854775808."),
        ("flag", 1, "sample: flag must be true or false, not 1."),
        ("names", "ab", "sample: names must be a list, not 'ab'."),
        ("names", ["a", 1], "sample: names[1] must be a string, not 1."),
        ("colour", "green", "sample: colour must be one of 'red', 'blue', not 'green'."),
        ("schema", "x", "sample: schema: not an Arrow schema; send base64 of the encapsulated IPC message"),
        ("schema", "", "sample: schema must be base64 of the Arrow schema's IPC message, not ''."),
        ("size", 1, "size must be 2 or more, not 1."),
        ("note", [], "sample: note must be a string that is not empty, not []."),
        ("secret", 5, "sample: secret must be a string that is not empty."),
        ("parts", [3], "sample: parts[0] must be an object, not 3."),
        ("parts", [{"kind": ""}], "sample: parts[0].kind must be a string that is not empty, not ''."),
        ("parts", [{"kid": "x"}], "sample: parts[0] has an unknown field 'kid'. Did you mean 'kind'?"),
        ("other", 1, "sample has an unknown field 'other'. Did you mean 'note'?"),
    ],
)
def test_errors_name_the_field(name: str, wrong: object, text: str) -> None:
    with pytest.raises(WireFormatError) as caught:
        Sample.from_json(json.dumps({**GOOD, name: wrong}).encode())
    assert str(caught.value) == text


def test_answers_may_say_more() -> None:
    assert Answer.from_json(b'{"text": "x", "later": 1}') == Answer("x")
    assert Answer().to_json() == b"{}"


@pytest.mark.parametrize("value", ["[]", "{}", "1"])
def test_a_request_of_very_many_values_is_refused_unread(value: str) -> None:
    """No thread runs while JSON is read. A server may answer with as many: the client has asked for them."""
    listed = f"[{','.join([value] * MOST_VALUES)}]"
    with pytest.raises(LimitError, match=rf"^sample: it may have {MOST_VALUES:,} values"):
        Sample.from_json(f'{{"text": {listed}'.encode())  # cut off, which is told of what is read
    assert Answer.from_json(f'{{"text": "x", "later": {listed}}}'.encode()) == Answer("x")


def test_a_long_text_is_one_value() -> None:
    text = "x" * (1 << 22)
    assert Sample.from_json(json.dumps({**GOOD, "text": text}).encode()).text == text


@pytest.mark.parametrize(
    "data",
    [
        rb'{"a":"\ud800"}',
        rb'{"\uDFFF":1}',
        rb'{"a":[["\uDe00\uD83d"]]}',
        b'{"a":"\xed\xa0\x80"}',
        '{"a":"\ud800"}',
        r'{"a":"\ud800"}',
        '{"a":"\ud800"}'.encode("utf-16", "surrogatepass"),
    ],
)
def test_half_a_surrogate_pair_in_a_request_is_refused(data: bytes | str) -> None:
    with pytest.raises(WireFormatError, match="a request: not valid UTF-8"):
        parse_object(data, "a request", is_request=True)


def test_whole_pairs_are_decoded_in_each_form() -> None:
    for data in (rb'{"a":"\ud83d\ude00"}', '{"a":"\U0001f600"}', '{"a":"\U0001f600"}'.encode()):
        assert parse_object(data, "a request", is_request=True) == {"a": "\U0001f600"}
    assert parse_object(rb'{"a":"\\ud800"}', "a request", is_request=True) == {"a": r"\ud800"}
