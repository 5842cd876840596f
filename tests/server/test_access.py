"""Every call by every right, at every port: what a principal may not do is refused, what it may not see is unknown."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from barrage_proto import console_pb2, deephaven_pb2, flight_pb2, partitionedtable_pb2, table_pb2
from barrage_proto import deephaven_pb2 as proto
from google.protobuf.message import Message

from barrage_server.deephaven.operations import CALLS
from barrage_server.errors import (
    AuthenticationError,
    BarrageError,
    ForbiddenError,
    NotFoundError,
    UnknownTableError,
)
from barrage_server.flight.errors import error_of, from_flight, to_flight
from barrage_server.plan.json_form import plan_to_json
from barrage_server.plan.operation import EmptyTable, Head
from barrage_server.plan.plan import NamedTable, Plan, Step
from barrage_server.server import Principal, Right, Role, Server
from barrage_server.server.access import AccessControl
from barrage_server.server.actions import list_actions
from barrage_server.server.catalog import Catalog
from barrage_server.wire.commit_messages import (
    AbortRequest,
    CommitPart,
    CommitRequest,
    KeepRequest,
    LastBatchRequest,
    StageEnd,
    StageRequest,
)
from barrage_server.wire.metadata import SubscriptionRequest
from barrage_server.wire.page_messages import PAGE_COMMAND, ExchangeKind
from barrage_server.wire.plan_messages import BindRequest, OperateResult, ReleaseRequest
from barrage_server.wire.protocol import CreateRequest, DropRequest, PutOptions, TableKind
from barrage_server.wire.tickets import export_ticket, scope_ticket
from tests.server.conftest import DEEPHAVEN, FLIGHT, address
from tests.server.follower import QUICK, Follower
from tests.waiting import until

SCHEMA = pa.schema([("x", pa.int64())])
ROWS = pa.table({"x": [1]}, SCHEMA)
VISIBLE, HIDDEN, ABSENT = "visible", "secret", "absent"
ROLES = {
    **{f"only {right}": Role(["vis*"], [right]) for right in Right},
    "all": Role(["vis*"], list(Right)),
    "elsewhere": Role(["other_*"], list(Right)),
    "nothing": Role([], list(Right)),
}
HOLDERS = [*ROLES, "no role", "a role that is not defined"]


def principal_of(credentials: Any) -> Principal:
    if credentials.scheme != "bearer":
        raise AuthenticationError("Show a token.")
    return Principal("someone", [] if credentials.secret == "no role" else [credentials.secret])


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(token=principal_of, roles=ROLES, deephaven_port=0, console=True) as server:
        yield server


@pytest.fixture(autouse=True)
def tables(server: Server) -> None:
    """The tables that calls are about, made anew: some calls drop or change theirs."""
    for table in server.tables():
        server.drop(table.name)
    for name in (VISIBLE, HIDDEN):
        server.append_table(name, SCHEMA).append({"x": [1, 2, 3]})


@dataclass
class Caller:
    """One client with a token, at one port."""

    flight: fl.FlightClient
    channel: grpc.Channel
    token: str

    @property
    def options(self) -> fl.FlightCallOptions:
        return fl.FlightCallOptions(headers=[(b"authorization", f"Bearer {self.token}".encode())], timeout=20)

    def action(self, name: str, body: bytes = b"") -> list[bytes]:
        return [result.body.to_pybytes() for result in self.flight.do_action(fl.Action(name, body), self.options)]

    def put(self, descriptor: fl.FlightDescriptor, *metadata: bytes, schema: pa.Schema = SCHEMA) -> bytes:
        writer, reader = self.flight.do_put(descriptor, schema, self.options)
        answer = b""
        try:
            for entry in metadata[:1]:
                writer.write_metadata(entry)
            writer.write_table(ROWS)
            for entry in metadata[1:]:
                writer.write_metadata(entry)
            writer.done_writing()
            buffer = reader.read()
            answer = b"" if buffer is None else buffer.to_pybytes()
        finally:
            writer.close()
        return answer

    def stage(self, name: str) -> bytes:
        descriptor = fl.FlightDescriptor.for_command(b"barrage.stage")
        return self.put(descriptor, StageRequest("me", name, 1, "0").to_json(), StageEnd(1).to_json())

    def exchange(self, request: bytes) -> None:
        writer, reader = self.flight.do_exchange(fl.FlightDescriptor.for_command(b"dphn"), self.options)
        try:
            writer.write_metadata(request)
            reader.read_chunk()
            reader.cancel()
        finally:
            with suppress(fl.FlightCancelledError):
                writer.close()

    def look(self, **what: str) -> None:
        """Open a stream of a page; what it ends with is raised as the error of a call."""
        writer, reader = self.flight.do_exchange(fl.FlightDescriptor.for_command(PAGE_COMMAND), self.options)
        try:
            for message in (
                {"type": "hello", "version": 1},
                {"type": "open", "stream": 1, "first": 0, "count": 1, **what},
            ):
                writer.write_metadata(json.dumps(message).encode())
            told: dict[str, Any] = {"type": ""}
            while told["type"] not in ("opened", "ended"):
                frame = reader.read_chunk().app_metadata.to_pybytes()
                told = json.loads(frame[1:]) if frame[0] == ExchangeKind.TEXT else told
            if told["type"] == "ended":
                raise to_flight(error_of(told["error"], told["text"]))
        finally:
            reader.cancel()
            with suppress(pa.ArrowException, OSError):
                writer.close()

    def call(self, method: str, request: Any, answer: Any = None) -> Any:
        """Make a call to its end; or give its first answer, of that class."""
        stream: Any = self.channel.unary_stream(method)(
            request.SerializeToString(), timeout=20, metadata=(("authorization", f"Bearer {self.token}"),)
        )
        try:
            return answer.FromString(next(iter(stream))) if answer is not None else list(stream)
        finally:
            stream.cancel()


Made = Callable[[Caller, str], Any]


@dataclass
class Line:
    """What a call needs, in the order in which it is checked.

    Attributes:
        call: makes it for a table of that name.
        needs: the rights on the table; ``None``: the call is about no table; empty: any right.
        somewhere: a right that the caller must have on any table.
        everything: whether it takes every right on all tables, which none of these callers has.
    """

    call: Made
    needs: tuple[Right, ...] | None = ()
    somewhere: Right | None = None
    everything: bool = False


def plan(name: str) -> bytes:
    """A plan about the table of that name; its JSON is a ticket and a command, too."""
    return plan_to_json(Plan((Step(Head(1), (NamedTable(name),)),), (0,)))


def operated(caller: Caller, name: str) -> None:
    """The error of an output is raised as that of a call is."""
    (answer,) = caller.action("barrage.operate", plan(name))
    (output,) = OperateResult.from_json(answer).outputs
    if output.error is not None:
        raise to_flight(error_of(output.error, output.text or ""))


def bound(caller: Caller, name: str) -> None:
    """Give a table of the caller's own that name; a caller that may read nothing has none."""
    ticket = f"r/{32 * 'x'}"
    with suppress(pa.ArrowException, OSError):
        (answer,) = caller.action("barrage.operate", plan_to_json(Plan((Step(EmptyTable(1)),), (0,))))
        ticket = OperateResult.from_json(answer).outputs[0].ticket or ticket
    caller.action("barrage.bind", BindRequest(ticket, name).to_json())


def path(name: str) -> fl.FlightDescriptor:
    return fl.FlightDescriptor.for_path("scope", name)


FREE = Line(lambda caller, name: None, None)
"""Carries no name of a table; has a test of its own where it lists some."""

FLIGHT_LINES: dict[str, list[Line]] = {
    "Handshake": [FREE],
    "ListFlights": [Line(lambda caller, name: list(caller.flight.list_flights(b"", caller.options)), None)],
    "GetFlightInfo": [
        Line(lambda caller, name: caller.flight.get_flight_info(path(name), caller.options)),
        Line(
            lambda caller, name: caller.flight.get_flight_info(
                fl.FlightDescriptor.for_command(plan(name)), caller.options
            ),
            (Right.READ,),
        ),
    ],
    "GetSchema": [
        Line(lambda caller, name: caller.flight.get_schema(path(name), caller.options)),
        Line(
            lambda caller, name: caller.flight.get_schema(fl.FlightDescriptor.for_command(plan(name)), caller.options),
            (Right.READ,),
        ),
    ],
    "DoGet": [
        Line(
            lambda caller, name: caller.flight.do_get(fl.Ticket(scope_ticket(name)), caller.options).read_all(),
            (Right.READ,),
        ),
        Line(
            lambda caller, name: caller.flight.do_get(fl.Ticket(plan(name)), caller.options).read_all(), (Right.READ,)
        ),
    ],
    "DoPut": [
        Line(lambda caller, name: caller.put(path(name)), (Right.PUBLISH,)),
        Line(lambda caller, name: caller.stage(name), (Right.PUBLISH,)),
    ],
    "DoExchange": [
        Line(
            lambda caller, name: caller.exchange(SubscriptionRequest(scope_ticket(name), options=QUICK).encode()),
            (Right.READ,),
        ),
        Line(
            lambda caller, name: caller.exchange(SubscriptionRequest(plan(name), options=QUICK).encode()),
            (Right.READ,),
        ),
        Line(lambda caller, name: caller.look(table=name), (Right.READ,)),
        Line(lambda caller, name: caller.look(ticket=base64.b64encode(plan(name)).decode()), (Right.READ,)),
    ],
    "DoAction": [FREE],  # ACTION_LINES
    "ListActions": [Line(lambda caller, name: caller.flight.list_actions(caller.options), None)],
}
ACTION_LINES: dict[str, list[Line]] = {
    "barrage.commit": [
        Line(
            lambda caller, name: caller.action(
                "barrage.commit", CommitRequest("me", name, 0, tokens=(), schema=SCHEMA).to_json()
            ),
            (Right.PUBLISH,),
        ),
        Line(
            lambda caller, name: caller.action(
                "barrage.commit",
                CommitRequest("me", batch=0, tables=(CommitPart(name, schema=SCHEMA),)).to_json(),
            ),
            (Right.PUBLISH,),
        ),
    ],
    "barrage.keep": [
        Line(
            lambda caller, name: caller.action(
                "barrage.keep", KeepRequest(publisher="me", table=name, batch=1).to_json()
            ),
            (Right.PUBLISH,),
        ),
        Line(
            lambda caller, name: caller.action("barrage.keep", KeepRequest(("some token",)).to_json()),
            None,
            Right.PUBLISH,
        ),
    ],
    "barrage.abort": [
        Line(
            lambda caller, name: caller.action(
                "barrage.abort", AbortRequest(publisher="me", table=name, batch=1).to_json()
            ),
            (Right.PUBLISH,),
        ),
        Line(
            lambda caller, name: caller.action("barrage.abort", AbortRequest(("some token",)).to_json()),
            None,
            Right.PUBLISH,
        ),
    ],
    "barrage.last_batch": [
        Line(
            lambda caller, name: caller.action("barrage.last_batch", LastBatchRequest("me", name).to_json()),
            (Right.PUBLISH,),
        )
    ],
    "barrage.create": [
        Line(
            lambda caller, name: caller.action(
                "barrage.create", CreateRequest(name, SCHEMA, TableKind.APPEND).to_json()
            ),
            (Right.CREATE,),
        )
    ],
    "barrage.drop": [
        Line(lambda caller, name: caller.action("barrage.drop", DropRequest(name).to_json()), (Right.DROP,))
    ],
    "barrage.statistics": [Line(lambda caller, name: caller.action("barrage.statistics"), None, Right.STATISTICS)],
    "barrage.health": [Line(lambda caller, name: caller.action("barrage.health"), None)],
    "barrage.tables": [Line(lambda caller, name: caller.action("barrage.tables"), None)],
    "barrage.operate": [Line(operated, (Right.READ,))],
    "barrage.bind": [Line(bound, (Right.CREATE, Right.PUBLISH))],
    "barrage.release": [
        Line(lambda caller, name: caller.action("barrage.release", ReleaseRequest((name,)).to_json()), None)
    ],
    "barrage.functions": [Line(lambda caller, name: caller.action("barrage.functions"), None)],
}

PACKAGE = "/io.deephaven.proto.backplane.grpc"
CONSOLE = "/io.deephaven.proto.backplane.script.grpc.ConsoleService"
RESULT = proto.Ticket(ticket=export_ticket(1))


def ticket(name: str) -> proto.Ticket:
    return proto.Ticket(ticket=scope_ticket(name))


def reference(name: str) -> proto.TableReference:
    return proto.TableReference(ticket=ticket(name))


def deephaven(service: str, method: str, request: Callable[[str], Any]) -> Made:
    return lambda caller, name: caller.call(f"{service}/{method}", request(name))


def fetched(name: str) -> proto.FetchTableRequest:
    return proto.FetchTableRequest(source_id=reference(name), result_id=RESULT)


def computed(request: type[Message]) -> Callable[[str], Message]:
    """A request of an operation for a table, with nothing but the table."""

    def make(name: str) -> Message:
        given: dict[str, Any] = {"result_id": RESULT}
        for field in ("source_id", "left_id", "right_id", "base_id", "trigger_id"):
            if field in request.DESCRIPTOR.fields_by_name:
                given[field] = reference(name)
        if "source_ids" in request.DESCRIPTOR.fields_by_name:
            given["source_ids"] = [reference(name)]
        if "multi_join_inputs" in request.DESCRIPTOR.fields_by_name:
            given["multi_join_inputs"] = [table_pb2.MultiJoinInput(source_id=reference(name), columns_to_match=["n"])]
        if "range_match" in request.DESCRIPTOR.fields_by_name:
            given["range_match"] = "n <= n <= n"
        if "period_string" in request.DESCRIPTOR.fields_by_name:
            given["period_string"] = "PT1H"
        if "spec" in request.DESCRIPTOR.fields_by_name:
            given["spec"] = table_pb2.AggSpec(sum=table_pb2.AggSpec.AggSpecSum())
        return request(**given)

    return make


def scripting(method: str, request: Any) -> Line:
    """A call of the console, which runs any Python."""
    return Line(deephaven(CONSOLE, method, lambda name: request), None, everything=True)


SOURCES = {"EmptyTable", "TimeTable"}
COMPUTED: dict[str, list[Line]] = {
    f"{PACKAGE}.TableService/{method}": [
        Line(
            deephaven(f"{PACKAGE}.TableService", method, computed(request)),
            None if method in SOURCES else (Right.READ,),
            Right.READ if method in SOURCES else None,
        )
    ]
    for method, (_, request) in CALLS.items()
}

DEEPHAVEN_LINES: dict[str, list[Line]] = COMPUTED | {
    f"{PACKAGE}.ConfigService/GetAuthenticationConstants": [FREE],
    f"{PACKAGE}.ConfigService/GetConfigurationConstants": [FREE],
    f"{PACKAGE}.SessionService/NewSession": [FREE],
    f"{PACKAGE}.SessionService/RefreshSessionToken": [FREE],
    f"{PACKAGE}.SessionService/CloseSession": [FREE],
    f"{PACKAGE}.SessionService/Release": [FREE],
    f"{PACKAGE}.SessionService/TerminationNotification": [FREE],
    f"{PACKAGE}.SessionService/ExportFromTicket": [
        Line(
            deephaven(
                f"{PACKAGE}.SessionService",
                "ExportFromTicket",
                lambda name: proto.ExportRequest(source_id=ticket(name), result_id=RESULT),
            )
        )
    ],
    f"{PACKAGE}.SessionService/PublishFromTicket": [
        Line(
            deephaven(
                f"{PACKAGE}.SessionService",
                "PublishFromTicket",
                lambda name: proto.PublishRequest(source_id=ticket(name), result_id=proto.Ticket(ticket=b"hx")),
            ),
            (Right.READ,),
        )
    ],
    f"{PACKAGE}.ApplicationService/ListFields": [FREE],
    f"{CONSOLE}/GetConsoleTypes": [FREE],
    f"{CONSOLE}/StartConsole": [
        scripting("StartConsole", console_pb2.StartConsoleRequest(result_id=RESULT, session_type="python"))
    ],
    f"{CONSOLE}/ExecuteCommand": [
        scripting("ExecuteCommand", console_pb2.ExecuteCommandRequest(console_id=RESULT, code="1/0"))
    ],
    f"{CONSOLE}/CancelCommand": [scripting("CancelCommand", console_pb2.CancelCommandRequest(console_id=RESULT))],
    f"{CONSOLE}/SubscribeToLogs": [scripting("SubscribeToLogs", console_pb2.LogSubscriptionRequest())],
    f"{CONSOLE}/BindTableToVariable": [
        Line(
            deephaven(
                CONSOLE,
                "BindTableToVariable",
                lambda name: console_pb2.BindTableToVariableRequest(variable_name=name, table_id=ticket(name)),
            ),
            (Right.CREATE, Right.READ),
        ),
    ],
    f"{PACKAGE}.TableService/GetExportedTableCreationResponse": [
        Line(deephaven(f"{PACKAGE}.TableService", "GetExportedTableCreationResponse", ticket))
    ],
    f"{PACKAGE}.TableService/FetchTable": [Line(deephaven(f"{PACKAGE}.TableService", "FetchTable", fetched))],
    f"{PACKAGE}.TableService/ApplyPreviewColumns": [
        Line(
            deephaven(
                f"{PACKAGE}.TableService",
                "ApplyPreviewColumns",
                lambda name: proto.ApplyPreviewColumnsRequest(source_id=reference(name), result_id=RESULT),
            )
        )
    ],
    f"{PACKAGE}.TableService/CreateInputTable": [
        Line(
            deephaven(
                f"{PACKAGE}.TableService",
                "CreateInputTable",
                lambda name: proto.CreateInputTableRequest(
                    result_id=RESULT,
                    schema=SCHEMA.serialize().to_pybytes(),
                    kind=proto.CreateInputTableRequest.InputTableKind(
                        in_memory_append_only=proto.CreateInputTableRequest.InputTableKind.InMemoryAppendOnly()
                    ),
                ),
            ),
            None,
            Right.PUBLISH,
        )
    ],
    f"{PACKAGE}.TableService/Batch": [
        Line(
            deephaven(
                f"{PACKAGE}.TableService",
                "Batch",
                lambda name: table_pb2.BatchTableRequest(
                    ops=[table_pb2.BatchTableRequest.Operation(fetch_table=fetched(name))]
                ),
            )
        )
    ],
    f"{PACKAGE}.TableService/ExportedTableUpdates": [FREE],
    f"{PACKAGE}.PartitionedTableService/PartitionBy": [
        Line(
            deephaven(
                f"{PACKAGE}.PartitionedTableService",
                "PartitionBy",
                lambda name: partitionedtable_pb2.PartitionByRequest(
                    table_id=ticket(name), result_id=RESULT, key_column_names=["n"]
                ),
            ),
            (Right.READ,),
        )
    ],
    f"{PACKAGE}.PartitionedTableService/Merge": [
        Line(
            deephaven(
                f"{PACKAGE}.PartitionedTableService",
                "Merge",
                lambda name: partitionedtable_pb2.MergeRequest(partitioned_table=ticket(name), result_id=RESULT),
            )
        )
    ],
    f"{PACKAGE}.PartitionedTableService/GetTable": [
        Line(
            deephaven(
                f"{PACKAGE}.PartitionedTableService",
                "GetTable",
                lambda name: partitionedtable_pb2.GetTableRequest(
                    partitioned_table=ticket(name), key_table_ticket=ticket(name), result_id=RESULT
                ),
            )
        )
    ],
    f"{PACKAGE}.InputTableService/AddTableToInputTable": [
        Line(
            deephaven(
                f"{PACKAGE}.InputTableService",
                "AddTableToInputTable",
                lambda name: proto.AddTableRequest(input_table=ticket(name), table_to_add=ticket(name)),
            ),
            (Right.PUBLISH, Right.READ),
        )
    ],
    f"{PACKAGE}.InputTableService/DeleteTableFromInputTable": [
        Line(
            deephaven(
                f"{PACKAGE}.InputTableService",
                "DeleteTableFromInputTable",
                lambda name: proto.DeleteTableRequest(input_table=ticket(name), table_to_remove=ticket(name)),
            ),
            (Right.PUBLISH, Right.READ),
        )
    ],
}

CASES = [
    pytest.param(door, line, id=f"{door}-{name}-{number}")
    for door, lines in (
        (FLIGHT, FLIGHT_LINES | ACTION_LINES),
        (DEEPHAVEN, FLIGHT_LINES | ACTION_LINES | DEEPHAVEN_LINES),
    )
    for name, entries in lines.items()
    for number, line in enumerate(entries)
    if line is not FREE
]


DESCRIBED = {
    f"/{service.full_name}/{method.name}"
    for module in (flight_pb2, deephaven_pb2, console_pb2, partitionedtable_pb2, table_pb2)
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}
FLIGHT_SERVICE = "/arrow.flight.protocol.FlightService"
NAMING: list[Any] = [case for case in CASES if getattr(case.values[1], "needs", None) is not None]


def test_every_call_has_a_line() -> None:
    """The services are those of the descriptors, which the handlers implement."""
    flight = {f"{FLIGHT_SERVICE}/{name}" for name in FLIGHT_LINES}
    assert flight | set(DEEPHAVEN_LINES) == DESCRIBED
    assert {name for name, _ in list_actions()} == set(ACTION_LINES)


def test_the_lines_are_those_of_the_handlers(server: Server) -> None:
    service: Any = server._endpoints._deephaven
    flight = {f"{FLIGHT_SERVICE}/{name}" for name in FLIGHT_LINES}
    assert set(service._service._methods) == flight | set(DEEPHAVEN_LINES)
    assert (
        len(fl.FlightMethod.__members__) - 1 == len(FLIGHT_LINES) if hasattr(fl.FlightMethod, "__members__") else True
    )


def calling(server: Server, door: str, holder: str) -> Caller:
    place = address(server, door)
    return Caller(fl.connect(place), grpc.insecure_channel(place.removeprefix("grpc://")), holder)


@pytest.fixture
def connected(server: Server) -> Iterator[Callable[[str, str], Caller]]:
    made: list[Caller] = []

    def connect(door: str, holder: str) -> Caller:
        made.append(calling(server, door, holder))
        return made[-1]

    yield connect
    for caller in made:
        caller.flight.close()
        caller.channel.close()


def outcome(call: Made, caller: Caller, name: str) -> tuple[type[BarrageError] | None, str]:
    """The error of a call, and its text; nothing when it was allowed, whatever it came to then."""
    try:
        call(caller, name)
    except grpc.RpcError as error:
        found = from_flight(fl.FlightInternalError(error.details()))
    except (pa.ArrowException, OSError) as error:
        found = from_flight(error)
    else:
        return None, ""
    return type(found), str(found)


Connect = Callable[[str, str], Caller]


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize(("door", "line"), CASES)
def test_a_call_is_allowed_by_its_rights_alone(connected: Connect, door: str, line: Line, holder: str) -> None:
    caller = connected(door, holder)
    role = ROLES.get(holder, Role([], []))
    held = frozenset(Right(right) for right in role.rights)
    on_table = held if "vis*" in role.tables else frozenset()
    kind, text = outcome(line.call, caller, VISIBLE)
    if line.everything:
        assert kind is ForbiddenError
        assert "every right on all tables" in text
    elif line.needs is None:
        if line.somewhere is None or line.somewhere in held:
            assert kind is None, text
        else:
            assert kind is ForbiddenError
            assert f"The right '{line.somewhere}' is missing" in text
    elif not on_table:
        assert kind is UnknownTableError, text
    elif missing := [right for right in line.needs if right not in on_table]:
        assert kind is ForbiddenError, text
        assert f"The right '{missing[0]}' on table '{VISIBLE}' is missing" in text
    else:
        assert kind not in (ForbiddenError, UnknownTableError, NotFoundError), text


@pytest.mark.parametrize("holder", ["all", "elsewhere", "no role"])
@pytest.mark.parametrize(("door", "line"), NAMING)
def test_a_hidden_table_is_like_one_that_does_not_exist(
    connected: Connect, server: Server, door: str, line: Line, holder: str
) -> None:
    caller = connected(door, holder)
    hidden, absent = outcome(line.call, caller, HIDDEN), outcome(line.call, caller, ABSENT)
    assert hidden[0] is UnknownTableError
    assert hidden == (absent[0], absent[1].replace(ABSENT, HIDDEN))
    assert ABSENT not in [table.name for table in server.tables()]
    assert server.table(HIDDEN).size == 3


STEPS: dict[str, Callable[[AccessControl, Principal, str], object]] = {
    "get": lambda access, holder, name: access.get(holder, name, Right.READ),
    "find": AccessControl.find,
    "check": lambda access, holder, name: access.check(holder, name, Right.READ),
    "takes_long": AccessControl.takes_long,
    "check_publish": AccessControl.check_publish,
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("roles", [["elsewhere"], ["part"], []])
def test_a_hidden_table_takes_the_same_steps_as_one_that_does_not_exist(
    server: Server, step: str, roles: list[str]
) -> None:
    """So that no time tells of it, but that of steps within libraries."""
    parts = Role(["vis*"], ["list", "read"], where="x > 1")
    server_state: Any = server._server_state
    access = AccessControl(server_state.catalog, {"elsewhere": ROLES["elsewhere"], "part": parts})
    holder = Principal("someone", roles)

    def steps(name: str) -> list[str]:
        made: list[str] = []

        def note(frame: Any, event: str, _argument: object) -> None:
            if event == "call" and "barrage_server" in frame.f_code.co_filename:
                made.append(frame.f_code.co_qualname)

        sys.setprofile(note)
        try:
            STEPS[step](access, holder, name)
        except BarrageError as error:
            made.append(f"{type(error).__name__}: {str(error).replace(name, '')}")
        finally:
            sys.setprofile(None)
        return made

    steps("another")  # what is computed once
    found = steps(HIDDEN)
    assert found == steps(ABSENT)
    assert found


@pytest.mark.parametrize("door", [FLIGHT, DEEPHAVEN])
def test_listings_suggestions_and_figures_have_what_is_allowed(connected: Connect, server: Server, door: str) -> None:
    server.append_table("other_one", SCHEMA)

    def names(caller: Caller) -> list[list[str]]:
        flights = caller.flight.list_flights(b"", caller.options)
        tables = [fl.FlightInfo.deserialize(result) for result in caller.action("barrage.tables")]
        return [[info.descriptor.path[1].decode() for info in infos] for infos in (flights, tables)]

    seen = {"only list": [VISIBLE], "only read": [], "all": [VISIBLE], "elsewhere": ["other_one"], "no role": []}
    for holder, expected in seen.items():
        caller = connected(door, holder)
        assert names(caller) == [expected, expected], holder
        assert f'"tables":{len(expected)}'.encode() in caller.action("barrage.health")[0].replace(b" ", b"")
        _, text = outcome(FLIGHT_LINES["DoGet"][0].call, caller, "other_on")
        # a name of its own role is not there; one of no role is unknown, whatever is like it
        assert ("other_one" in text) == (holder == "elsewhere")
    with Follower(connected(door, "all").flight, VISIBLE, headers=[(b"authorization", b"Bearer all")]) as follower:
        follower.wait(lambda follower: follower.rows)
        for holder, expected in {"only statistics": [VISIBLE], "elsewhere": ["other_one"]}.items():
            (figures,) = connected(door, holder).action("barrage.statistics")
            assert (VISIBLE.encode() in figures) == (VISIBLE in expected)
            assert (b"other_one" in figures) == ("other_one" in expected)
            assert HIDDEN.encode() not in figures


def test_listed_fields_are_those_that_may_be_listed(connected: Connect) -> None:
    for holder, expected in {"only list": [VISIBLE], "only read": [], "elsewhere": [], "all": [VISIBLE]}.items():
        update = connected(DEEPHAVEN, holder).call(
            f"{PACKAGE}.ApplicationService/ListFields", proto.ListFieldsRequest(), proto.FieldsChangeUpdate
        )
        assert [field.field_name for field in update.created] == expected


@pytest.mark.parametrize("door", [FLIGHT, DEEPHAVEN])
def test_making_a_table_by_rows_takes_the_right_to_make_it(connected: Connect, server: Server, door: str) -> None:
    """By plain rows, and by a commit."""
    commit = ACTION_LINES["barrage.commit"][0].call
    for call in (FLIGHT_LINES["DoPut"][0].call, commit):
        kind, text = outcome(call, connected(door, "only publish"), "visible too")
        assert kind is ForbiddenError
        assert "the right 'create' on it is missing" in text
        assert outcome(call, connected(door, "all"), "visible too") == (None, "")
        server.drop("visible too")


@pytest.mark.parametrize("door", [FLIGHT, DEEPHAVEN])
def test_options_in_a_schema_do_not_lead_elsewhere(connected: Connect, server: Server, door: str) -> None:
    """Whatever a publisher says of its rows, the name decides."""
    schema = SCHEMA.with_metadata({b"barrage:put": PutOptions(mode=None).to_json()})
    caller = connected(door, "all")
    with pytest.raises((pa.ArrowException, OSError)) as caught:
        caller.put(path(HIDDEN), schema=schema)
    assert type(from_flight(caught.value)) is UnknownTableError


def test_a_shared_ticket_does_not_lead_to_what_is_hidden(server: Server) -> None:
    """A session with the right shares a table; for others its ticket is one under which nothing is shared."""
    place = address(server, DEEPHAVEN).removeprefix("grpc://")
    with grpc.insecure_channel(place) as channel:
        calls: Any = channel

        def log_in(token: str) -> tuple[tuple[str, str], ...]:
            call: Any = calls.unary_unary(f"{PACKAGE}.SessionService/NewSession").with_call(
                proto.HandshakeRequest().SerializeToString(),
                timeout=20,
                metadata=(("authorization", f"Bearer {token}"),),
            )
            return (("authorization", dict(call[1].initial_metadata())["authorization"]),)

        def call(method: str, request: Any, session: tuple[tuple[str, str], ...]) -> str:
            try:
                calls.unary_unary(method)(request.SerializeToString(), timeout=20, metadata=session)
            except grpc.RpcError as error:
                return str(error.details())
            return ""

        owner, other, peer = log_in("all"), log_in("elsewhere"), log_in("only read")
        share = proto.PublishRequest(source_id=ticket(VISIBLE), result_id=proto.Ticket(ticket=b"hone"))
        assert call(f"{PACKAGE}.SessionService/PublishFromTicket", share, owner) == ""

        def export(shared: bytes, session: tuple[tuple[str, str], ...]) -> str:
            request = proto.ExportRequest(source_id=proto.Ticket(ticket=shared), result_id=RESULT)
            return call(f"{PACKAGE}.SessionService/ExportFromTicket", request, session)

        assert export(b"hone", other) == export(b"htwo", other) != ""
        assert export(b"hone", peer) == ""


@pytest.mark.parametrize("door", [FLIGHT, DEEPHAVEN])
def test_streams_end_with_the_rights_that_they_take(door: str) -> None:
    """A subscription ends soon after its role has changed; one that is still allowed goes on."""
    roles = {"reader": Role(["*"], ["read"]), "other": Role(["*"], ["read"])}
    with Server(token=principal_of, roles=roles, deephaven_port=0) as server:
        table = server.append_table("t", SCHEMA)
        table.append({"x": [1]})
        with fl.connect(address(server, door)) as client:
            following = {
                role: Follower(client, "t", headers=[(b"authorization", f"Bearer {role}".encode())]) for role in roles
            }
            for follower in following.values():
                follower.wait(lambda follower: follower.rows)
            server.reload(roles={"reader": Role(["t"], ["list"]), "other": Role(["t"], ["read"])})
            until(lambda: following["reader"].ended)
            assert type(following["reader"].error) is ForbiddenError
            table.append({"x": [2]})
            following["other"].wait(lambda follower: len(follower.rows) == 2)
            server.reload(roles={"other": Role(["u"], ["read"])})
            until(lambda: following["other"].ended)
            assert type(following["other"].error) is UnknownTableError
            for follower in following.values():
                follower.close()


def test_without_roles_everything_is_allowed(server: Server) -> None:
    access = AccessControl(Catalog(server.graph))
    anyone = Principal("anyone")
    assert access.is_open
    assert access.rights(anyone, "t") == frozenset(Right)
    access.check(anyone, "t", *Right)
    access.check_publish(anyone, "t")
    access.check_any(anyone, Right.STATISTICS)


@pytest.mark.parametrize(
    ("pattern", "fitting", "other"),
    [
        ("fx", ["fx"], ["fx1", "afx", "FX", ""]),
        ("fx_*", ["fx_", "fx_eur", "fx_\n"], ["fx", "a fx_eur"]),
        ("*", ["anything", "a\nb"], []),
        ("t?", ["t1", "tt"], ["t", "t12"]),
        ("t[ab]", ["ta", "tb"], ["tc", "t[ab]"]),
        ("a.b", ["a.b"], ["axb"]),
        ("a|b", ["a|b"], ["a", "b"]),
    ],
)
def test_patterns_match_whole_names(server: Server, pattern: str, fitting: list[str], other: list[str]) -> None:
    access = AccessControl(Catalog(server.graph), {"r": Role([pattern, "zz"], ["read"])})
    holder = Principal("p", ["r"])
    assert [name for name in [*fitting, *other] if access.allows(holder, name, Right.READ)] == fitting
