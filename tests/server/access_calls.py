"""Each call at every port, with the rights that it takes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
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
)
from barrage_server.flight.errors import error_of, from_flight, to_flight
from barrage_server.plan.json_form import plan_to_json
from barrage_server.plan.operation import EmptyTable, Head
from barrage_server.plan.plan import NamedTable, Plan, Step
from barrage_server.server import Principal, Right, Role
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
from barrage_server.wire.protocol import CreateRequest, DropRequest, TableKind
from barrage_server.wire.tickets import export_ticket, scope_ticket
from tests.server.conftest import DEEPHAVEN, FLIGHT
from tests.server.follower import QUICK

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
    pytest.param(endpoint, line, id=f"{endpoint}-{name}-{number}")
    for endpoint, lines in (
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
