"""The JSON messages of publishing."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barrage_server.errors import WireFormatError
from barrage_server.wire import commit_messages, protocol
from barrage_server.wire.arrow_message import read_schema
from barrage_server.wire.commit_messages import (
    AbortRequest,
    AbortResult,
    CommitPart,
    CommitRequest,
    CommitResult,
    KeepRequest,
    KeepResult,
    LastBatchRequest,
    LastBatchResult,
    StageEnd,
    StageRequest,
    StageResult,
)
from barrage_server.wire.json_message import parse_object
from barrage_server.wire.protocol import (
    CreateRequest,
    DropRequest,
    PublicationResult,
    PublishMode,
    PutOptions,
    PutResult,
    TableKind,
)

SCHEMA = pa.schema([pa.field("k", pa.int64(), metadata={"unit": "m"})], metadata={"a": "b"})
MESSAGES: list[Any] = [
    StageRequest("query", "table", 3, "attempt"),
    StageRequest("query", "table", 3, "attempt", "epoch"),
    StageEnd(12),
    StageResult("token", 12),
    CommitRequest("query", "table", 0),
    CommitRequest(
        "query",
        "tablé",
        7,
        PublishMode.UPSERT,
        ("one", "two"),
        ("k",),
        "time",
        SCHEMA,
        TableKind.RING,
        100,
    ),
    CommitRequest("query", "table", 0, epoch="epoch", takeover=True, allow_gap=True, expected_last=-1),
    CommitRequest(
        "query",
        batch=0,
        tables=(
            CommitPart("t", tokens=("one",)),
            CommitPart("u", PublishMode.UPSERT, ("two",), ("k",), "time", SCHEMA, TableKind.RING, 100),
        ),
    ),
    CommitResult(True, False, 5, 7, 1 << 40),
    AbortRequest(("one",)),
    AbortRequest((), "query", "table", 0),
    AbortResult(1),
    KeepRequest(("one",)),
    KeepRequest((), "query", "table", 0),
    KeepResult(3, 600_000),
    LastBatchRequest("query", "table"),
    LastBatchRequest("query", "table", "epoch", takeover=True),
    LastBatchResult(None),
    LastBatchResult(0),
    CreateRequest("table", SCHEMA),
    CreateRequest("table", SCHEMA, TableKind.KEYED, ("k",)),
    DropRequest("table"),
    PutOptions(),
    PutOptions(PublishMode.REPLACE, ("k",), TableKind.KEYED, 5),
    PutResult("table", 3, 9),
    PublicationResult("table", 3, -1),
]


def test_every_message_is_among_those_tested() -> None:
    public = [*protocol.__all__, *commit_messages.__all__]
    named = {name for name in public if name.endswith(("Request", "Result", "End", "Options"))}
    assert named == {type(message).__name__ for message in MESSAGES}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_there_and_back(message: Any) -> None:
    assert type(message).from_json(message.to_json()) == message


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_nulls_are_left_out(message: Any) -> None:
    assert None not in json.loads(message.to_json()).values()


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_requests_refuse_unknown_fields_and_results_ignore_them(message: Any) -> None:
    """What a client asks for and a server does not know must not be passed over in silence."""
    fields = json.loads(message.to_json())
    if isinstance(message, PutOptions):
        fields["barrage"]["added_later"] = 1
    data = json.dumps({**fields, "added_later": 1}).encode()
    if type(message).__name__.endswith(("Request", "Options")):
        with pytest.raises(WireFormatError, match=r"unknown field 'added_later'\. There are: "):
            type(message).from_json(data)
    else:
        assert type(message).from_json(data) == message


@pytest.mark.parametrize("data", [b'{"barrage": {"keys": ["a"]}}', b'{"barrage": {"kye": ["a"]}}'])
def test_a_misspelt_option_is_recognised(data: bytes) -> None:
    with pytest.raises(
        WireFormatError, match=r"put options: barrage has an unknown field '\w+'\. Did you mean 'key'\?"
    ):
        PutOptions.from_json(data)


def test_fields_beside_the_put_options_are_the_users_own() -> None:
    assert PutOptions.from_json(b'{"note": 1, "barrage": {"mode": "append"}}') == PutOptions(PublishMode.APPEND)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
@given(wrong=st.none() | st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2), data=st.data())
def test_wrong_values_are_refused_by_name(message: Any, wrong: Any, data: st.DataObject) -> None:
    fields = json.loads(message.to_json())
    if fields:
        fields[data.draw(st.sampled_from(sorted(fields)))] = wrong
    try:
        type(message).from_json(json.dumps(fields).encode())
    except WireFormatError as error:
        assert str(error)


@given(st.binary(max_size=30))
def test_noise(noise: bytes) -> None:
    for message in MESSAGES:
        with pytest.raises(WireFormatError, match=r"JSON"):
            message.from_json(noise + b"\xff")


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        (CommitRequest, b'{"table": "t", "batch": 1, "tokens": []}', "commit request: publisher is missing"),
        (CommitRequest, b'{"publisher": "p", "table": "t", "batch": true, "tokens": []}', "batch must be a 64-bit"),
        (CommitRequest, b'{"publisher": "p", "table": "t", "batch": 9223372036854775808, "tokens": []}', "64-bit"),
        (
            CommitRequest,
            b'{"publisher": "p", "table": "t", "batch": 1, "tokens": [], "mode": "x"}',
            "mode must be one of 'append', .*, not 'x'",
        ),
        (
            CommitRequest,
            b'{"publisher": "p", "table": "t", "batch": 1, "tokens": [], "kind": "x"}',
            "kind must be one of 'append', .* or null, not 'x'",
        ),
        (CommitRequest, b'{"publisher": "p", "table": "t", "batch": 1, "tokens": [], "schema": "x"}', "Arrow schema"),
        (CommitRequest, b'{"publisher": "p", "table": "t", "batch": 1, "tokens": [], "capacity": 0}', "positive"),
        (CommitRequest, b'{"publisher": "p", "table": "t", "batch": 1, "tokens": "abc"}', "tokens must be a list"),
        (CreateRequest, b'{"table": "t"}', "schema is missing; it must be base64"),
        (StageEnd, b'{"rows": 1}', "end is missing; it must be true or false"),
        (StageEnd, b'{"end": false, "rows": 1}', "must be true"),
        (AbortRequest, b'{"batch": 1, "table": "t"}', "publisher is missing; it must be a string"),
        (AbortRequest, b'{"batch": 1, "publisher": "p"}', "table is missing; it must be a string"),
        (CommitRequest, b'{"publisher": "p", "table": "t", "batch": 1}', "tokens is missing; it must be a list"),
        (StageEnd, b'{"end": true, "rows": -1}', "negative"),
        (PutOptions, b'{"barrage": 3}', "must be an object or null, not 3"),
        (DropRequest, b"[1]", "expected a JSON object, got a list"),
    ],
)
def test_texts_say_what_is_wrong(kind: Any, data: bytes, text: str) -> None:
    with pytest.raises(WireFormatError, match=text):
        kind.from_json(data)


def test_metadata_of_other_tools_are_not_put_options() -> None:
    """app_metadata that is JSON but not ours belongs to the user."""
    assert PutOptions.from_json(b'{"note": 1}') is None


def test_put_options_in_the_schema() -> None:
    options = PutOptions(key=("k",))
    assert PutOptions.from_schema_metadata(options.to_schema_metadata()) == options


def test_schemas_travel_with_their_metadata() -> None:
    got = CreateRequest.from_json(CreateRequest("t", SCHEMA).to_json())
    assert got.schema.equals(SCHEMA, check_metadata=True)


def test_a_schema_with_texts_that_are_none_is_refused() -> None:
    """Names are decoded when they are asked for, which would be long after it was checked."""
    data = pa.schema([("name", pa.string())]).serialize().to_pybytes()
    text = base64.b64encode(data.replace(b"name", b"na\xa3e")).decode()
    for decode in (CreateRequest.from_json, CommitRequest.from_json):
        fields = {"table": "t", "publisher": "p", "batch": 0, "tokens": [], "schema": text}
        known = fields if decode == CommitRequest.from_json else {"table": "t", "schema": text}
        with pytest.raises(WireFormatError, match="not an Arrow schema"):
            decode(json.dumps(known).encode())
    with pytest.raises(WireFormatError, match="UTF-8"):
        read_schema(data.replace(b"name", b"na\xa3e"))


def test_json_beyond_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barrage_server.wire.json_message.MAX_JSON_BYTES", 10)
    with pytest.raises(WireFormatError, match="more than the 10 allowed"):
        parse_object(b'{"a": "0123456789"}', "a test")


def test_actions_are_named_after_the_project() -> None:
    actions = [value for name, value in vars(protocol).items() if name.endswith("_ACTION")]
    assert len(actions) == len(set(actions)) == 9
    assert all(action.startswith("barrage.") for action in actions)
