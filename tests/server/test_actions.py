"""DoAction and ListActions."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.engine import KeyedTable, RingTable
from barrage_server.errors import (
    AlreadyExistsError,
    BarrageError,
    FencedError,
    KeyMismatchError,
    LimitError,
    LostBatchesError,
    NotFoundError,
    PublishError,
    UnknownTableError,
    WireFormatError,
)
from barrage_server.flight.errors import from_flight
from barrage_server.server import Limits, Server, assembly
from barrage_server.wire.commit_messages import CommitRequest, StageEnd, StageRequest, StageResult
from barrage_server.wire.json_message import schema_to_base64
from barrage_server.wire.protocol import CreateRequest, PublishMode, TableKind
from tests.server.conftest import SCHEMA, address, endpoints
from tests.server.follower import Follower


def act(client: fl.FlightClient, name: str, body: Any = b"") -> Any:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    (result,) = client.do_action((name, data))
    return json.loads(result.body.to_pybytes())


def refused(client: fl.FlightClient, name: str, body: Any = b"") -> BarrageError:
    with pytest.raises((pa.ArrowException, OSError)) as caught:
        act(client, name, body)
    return from_flight(caught.value)


def test_every_action_is_listed_with_a_description(client: fl.FlightClient) -> None:
    actions = {action.type: action.description for action in client.list_actions()}
    assert set(actions) == {
        f"barrage.{name}"
        for name in (
            *("commit", "abort", "keep", "last_batch", "create", "drop", "statistics", "health", "tables"),
            *("operate", "release", "bind", "functions"),
        )
    }
    assert all(actions.values())


def test_health_says_that_it_serves(client: fl.FlightClient, quotes: KeyedTable) -> None:
    assert act(client, "barrage.health") == {"status": "serving", "step": 1, "tables": 1}


def test_tables_are_listed_as_flights_are(client: fl.FlightClient, quotes: KeyedTable) -> None:
    found = [
        fl.FlightInfo.deserialize(result.body.to_pybytes()) for result in client.do_action(("barrage.tables", b""))
    ]
    assert found == list(client.list_flights())
    assert [info.total_records for info in found] == [2]


def test_tables_are_made_once(server: Server, client: fl.FlightClient) -> None:
    ring = CreateRequest("recent", SCHEMA, TableKind.RING, capacity=5).to_json()
    for _ in range(2):
        act(client, "barrage.create", ring)
    table = server.table("recent")
    assert isinstance(table, RingTable)
    assert table.capacity == 5
    other = CreateRequest("recent", SCHEMA, TableKind.RING, capacity=6).to_json()
    error = refused(client, "barrage.create", other)
    assert type(error) is AlreadyExistsError
    assert "its capacity is 5 rows" in str(error)
    keyed = CreateRequest("k", SCHEMA, TableKind.KEYED, ("sym",)).to_json()
    act(client, "barrage.create", keyed)
    assert server.table("k").key_columns == ("sym",)


def test_dropping_ends_the_streams_that_follow(server: Server, client: fl.FlightClient, quotes: KeyedTable) -> None:
    with Follower(client, "quotes") as follower:
        follower.wait(lambda follower: follower.messages)
        act(client, "barrage.drop", {"table": "quotes"})
        error = follower.wait_ended()
        assert type(error) is UnknownTableError
        assert "dropped" in str(error)
    assert type(refused(client, "barrage.drop", {"table": "quotes"})) is UnknownTableError
    assert server.tables() == ()


def test_a_table_of_the_same_name_starts_with_an_empty_ledger(server: Server, client: fl.FlightClient) -> None:
    body = CommitRequest("query", "t", 0, schema=SCHEMA).to_json()
    assert act(client, "barrage.commit", body)["committed"]
    assert act(client, "barrage.last_batch", {"publisher": "query", "table": "t"}) == {
        "last_batch": 0,
        "takes_gaps": False,
    }
    act(client, "barrage.drop", {"table": "t"})
    assert act(client, "barrage.last_batch", {"publisher": "query", "table": "t"}) == {"takes_gaps": False}
    assert act(client, "barrage.commit", body)["committed"]


def test_a_blink_table_takes_batches_without_those_before(server: Server, client: fl.FlightClient) -> None:
    server.blink_table("blink", SCHEMA)
    asked = {"publisher": "query", "table": "blink"}
    assert act(client, "barrage.last_batch", asked) == {"takes_gaps": True}
    body = CommitRequest("query", "blink", 7, schema=SCHEMA).to_json()
    assert act(client, "barrage.commit", body)["committed"]
    assert act(client, "barrage.last_batch", asked) == {"last_batch": 7, "takes_gaps": True}


def test_a_client_with_many_names_does_not_flood_the_log_with_refused_batches(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(assembly, "_REFUSED_BATCHES", (5, 0.0))
    with Server() as server, fl.connect(server.uri) as client:
        for number in range(20):
            body = CommitRequest(f"p{number}", "t", 5, schema=SCHEMA).to_json()
            assert type(refused(client, "barrage.commit", body)) is LostBatchesError
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [line for line in lines if "batches 0 to 4 are missing" in line] == lines
    assert len(lines) == 5


def test_a_new_epoch_of_a_used_name_is_refused_unless_told(client: fl.FlightClient) -> None:
    first = {"publisher": "query", "table": "t", "epoch": "a"}
    act(client, "barrage.commit", {**first, "batch": 0, "tokens": [], "schema": schema_to_base64(SCHEMA)})
    second = {**first, "epoch": "b"}
    assert type(refused(client, "barrage.last_batch", second)) is FencedError
    assert type(refused(client, "barrage.commit", {**second, "batch": 0, "tokens": []})) is FencedError
    assert act(client, "barrage.last_batch", {**second, "takeover": True}) == {"takes_gaps": False}
    taking = {**second, "batch": 0, "tokens": [], "schema": schema_to_base64(SCHEMA), "takeover": True}
    assert act(client, "barrage.commit", taking)["committed"]
    assert type(refused(client, "barrage.commit", {**first, "batch": 1, "tokens": []})) is FencedError
    assert act(client, "barrage.last_batch", {"publisher": "query", "table": "t"}) == {
        "last_batch": 0,
        "takes_gaps": False,
    }


def test_what_is_staged_is_kept_by_token_and_by_batch(server: Server, client: fl.FlightClient) -> None:
    rows = pa.record_batch({name: [] for name in SCHEMA.names}, schema=SCHEMA)
    writer, answers = client.do_put(fl.FlightDescriptor.for_command(b"barrage.stage"), SCHEMA)
    with writer:
        writer.write_with_metadata(rows, StageRequest("query", "t", 3, "x").to_json())
        writer.write_metadata(StageEnd(0).to_json())
        writer.done_writing()
        token = StageResult.from_json(answers.read().to_pybytes()).token
    assert act(client, "barrage.keep", {"tokens": [token, "unknown"]}) == {"kept": 1, "expiry_ms": 600_000}
    assert act(client, "barrage.keep", {"publisher": "query", "table": "t", "batch": 3})["kept"] == 1
    assert act(client, "barrage.keep", {"publisher": "query", "table": "t", "batch": 4})["kept"] == 0


def test_a_second_sink_with_other_keys_is_refused(client: fl.FlightClient) -> None:
    first = CommitRequest("one", "t", 0, PublishMode.UPSERT, key=("sym",), schema=SCHEMA).to_json()
    second = CommitRequest("two", "t", 0, PublishMode.UPSERT, key=("price",), schema=SCHEMA).to_json()
    act(client, "barrage.commit", first)
    error = refused(client, "barrage.commit", second)
    assert type(error) is KeyMismatchError
    assert "has the key sym" in str(error)


def test_statistics_are_json(client: fl.FlightClient, quotes: KeyedTable) -> None:
    with Follower(client, "quotes") as follower:
        follower.wait(lambda follower: follower.messages)
        figures = act(client, "barrage.statistics")
        assert figures["tables"][0]["rows"] == 2
        assert figures["tables"][0]["subscribers"] == 1
        (subscription,) = figures["subscriptions"]
        assert subscription["table"] == "quotes"
        assert (subscription["messages"], subscription["rows"], subscription["behind"]) == (1, 2, 0)
        assert subscription["nbytes"] > 0


@pytest.mark.parametrize(
    ("name", "body", "kind"),
    [
        ("barrage.commmit", b"", NotFoundError),
        ("", b"", NotFoundError),
        ("barrage.commit", b"", WireFormatError),
        ("barrage.commit", b"\xff", WireFormatError),
        ("barrage.commit", {"publisher": "q"}, WireFormatError),
        ("barrage.commit", {"publisher": "q", "table": "t", "batch": "0", "tokens": []}, WireFormatError),
        ("barrage.commit", {"publisher": "q", "table": "t", "batch": 0, "tokens": ["x"]}, PublishError),
        ("barrage.commit", {"publisher": "q", "table": "t", "batch": 0, "tokens": [], "mode": "x"}, WireFormatError),
        ("barrage.create", {"table": "t"}, WireFormatError),
        ("barrage.create", {"table": "t", "schema": "AAAA"}, WireFormatError),
        ("barrage.drop", {"table": 3}, WireFormatError),
        ("barrage.drop", {"table": "nope"}, UnknownTableError),
        ("barrage.abort", {"tokens": "x"}, WireFormatError),
        ("barrage.commit", {"publisher": "q", "batch": 0, "tokens": []}, WireFormatError),
        ("barrage.commit", {"publisher": "q", "table": "t", "batch": 3, "tokens": []}, LostBatchesError),
        ("barrage.commit", {"publisher": "q" * 5000, "table": "t", "batch": 0, "tokens": []}, WireFormatError),
        (
            "barrage.commit",
            {"publisher": "q", "table": "t", "batch": 0, "tokens": [], "epoch": "e" * 5000},
            WireFormatError,
        ),
        ("barrage.keep", {"publisher": "q", "batch": 1}, WireFormatError),
        ("barrage.keep", {"tokens": "x"}, WireFormatError),
        ("barrage.last_batch", {}, WireFormatError),
        ("barrage.statistics", b"[", WireFormatError),
    ],
)
def test_actions_that_make_no_sense(client: fl.FlightClient, name: str, body: Any, kind: type[BarrageError]) -> None:
    assert type(refused(client, name, body)) is kind


@pytest.mark.parametrize("name", ["barrage.health", "barrage.statistics", "barrage.tables"])
def test_actions_without_fields_refuse_fields(client: fl.FlightClient, name: str) -> None:
    for body in ({"a": 1}, b" " * 100_000, b"[]"):
        error = refused(client, name, body)
        assert type(error) is WireFormatError
    assert "unknown field 'a'. There are: none." in str(refused(client, name, {"a": 1}))
    assert list(client.do_action((name, b"{}"))) is not None


def test_aborting_what_is_not_there_is_no_error(client: fl.FlightClient) -> None:
    assert act(client, "barrage.abort", {"tokens": ["gone"]}) == {"dropped": 0}


def test_too_large_a_body_is_refused(endpoint: str) -> None:
    with (
        Server(limits=Limits(request_bytes=100), **endpoints(endpoint)) as server,
        fl.connect(address(server, endpoint)) as client,
    ):
        assert type(refused(client, "barrage.abort", b" " * 101)) is LimitError


@pytest.mark.parametrize("action", ["drop", "commit", "create", "keep", "last_batch", "release", "bind"])
def test_a_body_of_very_many_values_is_refused_at_every_endpoint(client: fl.FlightClient, action: str) -> None:
    """No thread of the server runs while JSON is read, and so it is not read: this one is cut off in the end."""
    error = refused(client, f"barrage.{action}", b'{"table": [' + b"[]," * 200_000)
    assert type(error) is LimitError and "it may have 200,000 values" in str(error)
    assert act(client, "barrage.health")["status"] == "serving"
