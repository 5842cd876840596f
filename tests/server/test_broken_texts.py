"""Half of a surrogate pair in a request is refused at once, and every text of an error can be sent."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import barrage_server as bs
from barrage_server.errors import BarrageError, InvalidRequestError, UnknownTableError
from barrage_server.flight.errors import decode_end, encode_end, from_flight, tagged_text, to_flight
from barrage_server.log import encodable
from barrage_server.server.deephaven.call import Status
from barrage_server.server.server_state import ServerState
from barrage_server.server.web.front import close_reason
from barrage_server.wire.protocol import PUT_OPTIONS_KEY
from tests.server.conftest import address, endpoints
from tests.server.web.page_client import greeted

HALF = "\ud800"
SCHEMA = pa.schema([("x", pa.int64())])
ENCODED = base64.b64encode(SCHEMA.serialize()).decode()
BATCH = {"publisher": "p", "table": "t", "batch": 1, "tokens": []}
REQUESTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("drop", {"table": HALF}),
    ("drop", {HALF: "t"}),
    ("create", {"table": HALF, "schema": ENCODED}),
    ("create", {"table": "u", "schema": ENCODED, "kind": "keyed", "key": [HALF]}),
    ("create", {"table": "u", "schema": ENCODED, "kind": HALF}),
    ("last_batch", {"publisher": "p", "table": HALF}),
    ("abort", {"tokens": [], "table": HALF}),
    ("keep", {"tokens": [], "table": HALF}),
    ("commit", {**BATCH, "publisher": HALF}),
    ("commit", {**BATCH, "table": HALF}),
    ("commit", {**BATCH, "table": "u", "schema": ENCODED, "key": [HALF]}),
    ("commit", {**BATCH, "schema": ENCODED, "order_by": HALF}),
    ("bind", {"table": HALF, "ticket": "r/1"}),
    ("release", {"tickets": [HALF]}),
    ("health", {HALF: 1}),
    ("statistics", {HALF: 1}),
    ("functions", {HALF: 1}),
    ("operate", {HALF: 1}),
    ("operate", {"operations": [{"verb": HALF, "inputs": [{"table": "t"}]}]}),
    ("operate", {"operations": [{"verb": "view", HALF: 1, "inputs": [{"table": "t"}], "columns": ["x"]}]}),
    ("operate", {"operations": [{"verb": "view", "inputs": [{"table": HALF}], "columns": ["x"]}]}),
    ("operate", {"operations": [{"verb": "view", "inputs": [{HALF: "t"}], "columns": ["x"]}]}),
    ("operate", {"operations": [{"verb": "view", "inputs": [{"table": "t"}], "columns": [HALF]}]}),
    ("operate", {"operations": [{"verb": "where", "inputs": [{"table": "t"}], "conditions": [f"x = `{HALF}`"]}]}),
)
TOKEN = "t"
IN_TIME = fl.FlightCallOptions(timeout=20)
LOGGED_IN = fl.FlightCallOptions(timeout=20, headers=[(b"authorization", b"Bearer t")])


def refusal(client: fl.FlightClient, action: str, body: bytes, options: fl.FlightCallOptions = IN_TIME) -> BarrageError:
    with pytest.raises((pa.ArrowException, fl.FlightError)) as caught:
        list(client.do_action(fl.Action(f"barrage.{action}", body), options))
    return from_flight(caught.value)


@pytest.mark.parametrize("with_roles", [False, True])
def test_a_request_with_half_a_pair_is_refused_at_once(endpoint: str, with_roles: bool) -> None:
    roles = {"r": bs.Role(["t*"], list(bs.Right))}
    access: dict[str, Any] = {"token": TOKEN, "roles": roles, "default_roles": ["r"]} if with_roles else {}
    options = LOGGED_IN if with_roles else IN_TIME
    with bs.Server(**endpoints(endpoint), **access) as server, fl.connect(address(server, endpoint)) as client:
        server.append_table("t", SCHEMA)
        for action, fields in REQUESTS:
            error = refusal(client, action, json.dumps(fields).encode(), options)
            assert isinstance(error, InvalidRequestError | UnknownTableError), (action, fields, error)
        for body in (
            b'{"table":"\xed\xa0\x80"}',
            json.dumps({"table": HALF}, ensure_ascii=False).encode("utf-16", "surrogatepass"),
        ):
            assert "not valid UTF-8" in str(refusal(client, "drop", body, options))
        for body in (b'{"table":"\\ud83d\\ude00"}', '{"table":"\U0001f600"}'.encode()):
            assert "\U0001f600" in str(refusal(client, "drop", body, options)) or with_roles
        assert [table.name for table in server.tables()] == ["t"]


def test_options_of_a_put_with_half_a_pair_are_refused(endpoint: str) -> None:
    with bs.Server(**endpoints(endpoint)) as server, fl.connect(address(server, endpoint)) as client:
        schema = SCHEMA.with_metadata({PUT_OPTIONS_KEY: json.dumps({"key": [HALF]})})
        with pytest.raises((pa.ArrowException, fl.FlightError), match="not valid UTF-8"):
            writer, _ = client.do_put(fl.FlightDescriptor.for_path("u"), schema, IN_TIME)
            writer.done_writing()
            writer.close()
        assert list(server.tables()) == []


def test_a_page_is_told_of_half_a_pair_and_goes_on() -> None:
    queries: tuple[tuple[str, dict[str, Any]], ...] = ((HALF, {}), ("t", {"where": [HALF]}))
    with bs.Server(web_port=0) as server:
        server.append_table("t", SCHEMA).append({"x": [1]})
        with greeted(server) as client:
            for stream, (table, query) in enumerate(queries, 1):
                view = client.open(stream, table, **query)
                client.settle(view, lambda it: it.ended)
                assert view.ended is not None
                assert view.ended["error"] in ("UnknownTableError", "InvalidRequestError")
            view = client.open(9, "t")
            client.settle(view, lambda it: it.updates)
            assert view.rows() == [(1,)]


def test_no_text_of_an_error_is_unsendable() -> None:
    error = UnknownTableError(f"There is no table '{HALF}'.")
    told = "There is no table '\\ud800'."
    assert tagged_text(error) == f"{told} [UnknownTableError]"
    assert str(to_flight(error)) == f"{told} [UnknownTableError]"
    assert Status.of("NOT_FOUND", str(error)).text == Status(5, str(error)).text == told
    assert str(decode_end(encode_end(error))) == told
    assert close_reason(str(error)) == told
    assert encodable("\U0001f600") == "\U0001f600"


def test_an_error_of_a_handler_with_half_a_pair_ends_the_call(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: object) -> None:
        raise UnknownTableError(HALF)

    with bs.Server(**endpoints(endpoint)) as server, fl.connect(address(server, endpoint)) as client:
        monkeypatch.setattr(ServerState, "drop", failing)
        error = refusal(client, "drop", b'{"table":"t"}')
        assert isinstance(error, UnknownTableError)
        assert "\\ud800" in str(error)
