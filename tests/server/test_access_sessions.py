"""Roles that show parts of tables, for clients with sessions at the Deephaven port."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from barrage_proto import console_pb2, table_pb2
from barrage_proto import deephaven_pb2 as proto

import barrage_server as bs
from barrage_server.server import Role, Server
from barrage_server.wire.tickets import export_ticket
from tests.server.access_calls import CONSOLE, PACKAGE, ticket
from tests.server.conftest import DEEPHAVEN, address, endpoints
from tests.server.quotes import EU, ROLES, ROWS, SCHEMA, SEEN, holder

EXPORT = f"{PACKAGE}.SessionService/ExportFromTicket"
DESCRIBE = f"{PACKAGE}.TableService/GetExportedTableCreationResponse"


class Sessions:
    """Callers with sessions at the Deephaven port."""

    def __init__(self, server: Server) -> None:
        self.channel: Any = grpc.insecure_channel(address(server, DEEPHAVEN).removeprefix("grpc://"))

    def log_in(self, token: str) -> tuple[tuple[str, str], ...]:
        call = self.channel.unary_unary(f"{PACKAGE}.SessionService/NewSession").with_call(
            proto.HandshakeRequest().SerializeToString(), timeout=20, metadata=(("authorization", f"Bearer {token}"),)
        )
        return (("authorization", dict(call[1].initial_metadata())["authorization"]),)

    def call(self, method: str, request: Any, session: Any, answer: Any = None) -> Any:
        found = self.channel.unary_unary(method)(request.SerializeToString(), timeout=20, metadata=session)
        return None if answer is None else answer.FromString(found)

    def refusal(self, method: str, request: Any, session: Any) -> str:
        with pytest.raises(grpc.RpcError) as caught:
            self.call(method, request, session)
        return str(caught.value.details())


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(token=holder, roles=ROLES, **endpoints(DEEPHAVEN)) as server:
        server.keyed_table("quotes", SCHEMA, key="sym").upsert(ROWS)
        yield server


@pytest.mark.parametrize(("token", "names"), [("failing", []), ("cheap", ["quotes"]), ("eu", ["quotes"])])
def test_fields_are_listed_where_something_is_shown(sessions: Sessions, token: str, names: list[str]) -> None:
    listing = sessions.channel.unary_stream(f"{PACKAGE}.ApplicationService/ListFields")
    call = listing(proto.ListFieldsRequest().SerializeToString(), metadata=sessions.log_in(token), timeout=30)
    try:
        update = proto.FieldsChangeUpdate.FromString(next(call))
    finally:
        call.cancel()
    assert [field.field_name for field in update.created] == names


@pytest.fixture
def sessions(server: Server) -> Iterator[Sessions]:
    made = Sessions(server)
    yield made
    made.channel.close()


def test_an_export_is_of_the_part(server: Server, sessions: Sessions) -> None:
    """Its size and columns, rows under its ticket; and it ends with what the role shows."""
    session = sessions.log_in("eu")
    result = proto.Ticket(ticket=export_ticket(1))
    fetch = proto.FetchTableRequest(source_id=proto.TableReference(ticket=ticket("quotes")), result_id=result)
    for answer in (
        sessions.call(f"{PACKAGE}.TableService/FetchTable", fetch, session, proto.ExportedTableCreationResponse),
        sessions.call(DESCRIBE, result, session, proto.ExportedTableCreationResponse),
    ):
        assert answer.size == 2
        assert pa.ipc.read_schema(pa.py_buffer(answer.schema_header)).names == SEEN
    with fl.connect(address(server, DEEPHAVEN)) as client:
        options = fl.FlightCallOptions(headers=[(key.encode(), value.encode()) for key, value in session])
        assert client.do_get(fl.Ticket(export_ticket(1)), options).read_all().to_pylist() == EU
        server.reload(roles=ROLES | {"eu": Role(["quotes"], ["list", "read"], where="region == 'US'")})
        with pytest.raises((pa.ArrowException, OSError), match="has changed"):
            client.do_get(fl.Ticket(export_ticket(1)), options).read_all()


@pytest.mark.parametrize("successor", [None, SCHEMA, pa.schema([("other", pa.int64())])])
@pytest.mark.parametrize("token", ["all", "names"])
def test_an_export_of_a_dropped_table_ends_with_what_the_role_shows(
    server: Server, sessions: Sessions, token: str, successor: pa.Schema | None
) -> None:
    """Whatever there is by its name since."""
    session = sessions.log_in(token)
    request = proto.ExportRequest(source_id=ticket("quotes"), result_id=proto.Ticket(ticket=export_ticket(1)))
    sessions.call(EXPORT, request, session)
    server.drop("quotes")
    if successor is not None:
        server.append_table("quotes", successor)
    server.reload(roles=ROLES | {token: ROLES["eu"]})
    with fl.connect(address(server, DEEPHAVEN)) as client:
        options = fl.FlightCallOptions(headers=[(key.encode(), value.encode()) for key, value in session])
        with pytest.raises((pa.ArrowException, OSError), match="has changed"):
            client.do_get(fl.Ticket(export_ticket(1)), options).read_all()
    assert "has changed" in sessions.refusal(DESCRIBE, proto.Ticket(ticket=export_ticket(1)), session)


def test_a_shared_ticket_shows_each_caller_its_own_part(sessions: Sessions) -> None:
    """Neither more than it may see, when one that sees all shares it, nor less."""
    for owner, shared in (("all", b"hall"), ("eu", b"heu")):
        request = proto.PublishRequest(source_id=ticket("quotes"), result_id=proto.Ticket(ticket=shared))
        sessions.call(f"{PACKAGE}.SessionService/PublishFromTicket", request, sessions.log_in(owner))
        for token, size in {"eu": 2, "all": 4, "us": 2}.items():
            found = sessions.call(
                DESCRIBE, proto.Ticket(ticket=shared), sessions.log_in(token), proto.ExportedTableCreationResponse
            )
            names = pa.ipc.read_schema(pa.py_buffer(found.schema_header)).names
            assert (found.size, names) == (size, SCHEMA.names if token == "all" else SEEN)
        hidden = sessions.log_in("broken")
        told = [
            sessions.refusal(DESCRIBE, proto.Ticket(ticket=one), hidden).replace(one.decode(), "")
            for one in (shared, b"hnone")
        ]
        assert told[0] == told[1]


def test_a_part_cannot_be_bound_to_a_name(server: Server, sessions: Sessions) -> None:
    """Not while its table is served, nor when it was dropped: another role could see all of it by that name."""
    session = sessions.log_in("eu+feed")
    request = proto.ExportRequest(source_id=ticket("quotes"), result_id=proto.Ticket(ticket=export_ticket(1)))
    sessions.call(EXPORT, request, session)
    bind = console_pb2.BindTableToVariableRequest(variable_name="mine", table_id=proto.Ticket(ticket=export_ticket(1)))
    assert "has one name" in sessions.refusal(f"{CONSOLE}/BindTableToVariable", bind, session)
    server.drop("quotes")
    assert "has one name" in sessions.refusal(f"{CONSOLE}/BindTableToVariable", bind, session)
    assert server.tables() == ()


def test_rows_of_an_input_table_come_from_the_part(server: Server, sessions: Sessions) -> None:
    session = sessions.log_in("names+feed")
    make = proto.CreateInputTableRequest(
        result_id=proto.Ticket(ticket=export_ticket(1)),
        source_table_id=proto.TableReference(ticket=ticket("quotes")),
        kind=proto.CreateInputTableRequest.InputTableKind(
            in_memory_append_only=proto.CreateInputTableRequest.InputTableKind.InMemoryAppendOnly()
        ),
    )
    answer = sessions.call(
        f"{PACKAGE}.TableService/CreateInputTable", make, session, proto.ExportedTableCreationResponse
    )
    assert pa.ipc.read_schema(pa.py_buffer(answer.schema_header)).names == ["sym"]
    add = proto.AddTableRequest(input_table=proto.Ticket(ticket=export_ticket(1)), table_to_add=ticket("quotes"))
    sessions.call(f"{PACKAGE}.InputTableService/AddTableToInputTable", add, session)
    size = sessions.call(DESCRIBE, proto.Ticket(ticket=export_ticket(1)), session, proto.ExportedTableCreationResponse)
    assert size.size == 4


@pytest.mark.parametrize("hidden", [0, 50_000])
def test_hidden_rows_do_not_count_for_the_size_of_a_call(hidden: int) -> None:
    """Rows of a part go into an input table if they themselves are few enough."""
    with Server(token=holder, roles=ROLES, deephaven_port=0, limits=bs.Limits(put_bytes=100_000)) as server:
        table = server.append_table("quotes", SCHEMA)
        table.append(ROWS)
        other = {"sym": ["b"] * hidden, "region": ["US"] * hidden, "price": [1.0] * hidden, "secret": [7] * hidden}
        table.append(pa.table(other, SCHEMA))
        sessions = Sessions(server)
        session = sessions.log_in("eu+feed")
        mine = proto.Ticket(ticket=export_ticket(1))
        make = proto.CreateInputTableRequest(
            result_id=mine,
            source_table_id=proto.TableReference(ticket=ticket("quotes")),
            kind=proto.CreateInputTableRequest.InputTableKind(
                in_memory_append_only=proto.CreateInputTableRequest.InputTableKind.InMemoryAppendOnly()
            ),
        )
        sessions.call(f"{PACKAGE}.TableService/CreateInputTable", make, session, proto.ExportedTableCreationResponse)
        add = proto.AddTableRequest(input_table=mine, table_to_add=ticket("quotes"))
        sessions.call(f"{PACKAGE}.InputTableService/AddTableToInputTable", add, session)
        assert sessions.call(DESCRIBE, mine, session, proto.ExportedTableCreationResponse).size == 2
        first = proto.Ticket(ticket=export_ticket(2))
        head = table_pb2.HeadOrTailRequest(
            result_id=first, source_id=proto.TableReference(ticket=ticket("quotes")), num_rows=1
        )
        sessions.call(f"{PACKAGE}.TableService/Head", head, session, proto.ExportedTableCreationResponse)
        one = proto.AddTableRequest(input_table=mine, table_to_add=first)
        sessions.call(f"{PACKAGE}.InputTableService/AddTableToInputTable", one, session)
        assert sessions.call(DESCRIBE, mine, session, proto.ExportedTableCreationResponse).size == 3
        table.append(pa.table(other | {"region": ["EU"] * hidden}, SCHEMA))
        if hidden:
            told = sessions.refusal(f"{PACKAGE}.InputTableService/AddTableToInputTable", add, session)
            assert "put_bytes" in told
        sessions.channel.close()
