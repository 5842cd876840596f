"""A session of a Deephaven client over raw calls, which holds tables of all kinds."""

from __future__ import annotations

from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
from barrage_proto import console_pb2
from barrage_proto import deephaven_pb2 as proto

from barrage_server.wire.tickets import export_ticket
from tests.server.deephaven.test_grpc_endpoint import log_in

PACKAGE = "/io.deephaven.proto.backplane.grpc"
_CONSOLE = "/io.deephaven.proto.backplane.script.grpc.ConsoleService"
Kind = proto.CreateInputTableRequest.InputTableKind
SCHEMA = pa.schema([("x", pa.int64())])


class Session:
    """One client's, over raw calls."""

    def __init__(self, channel: grpc.Channel, flight: fl.FlightClient) -> None:
        self._channel, self._flight = channel, flight
        self._bearer = log_in(channel)[1]
        self._exports = 0

    def call(self, method: str, request: Any) -> None:
        self._channel.unary_unary(method)(
            request.SerializeToString(), timeout=10, metadata=(("authorization", self._bearer),)
        )

    def _ticket(self) -> proto.Ticket:
        self._exports += 1
        return proto.Ticket(ticket=export_ticket(self._exports))

    def upload(self, schema: pa.Schema = SCHEMA) -> proto.Ticket:
        """Upload a table of three rows, of columns with int64 values."""
        ticket = self._ticket()
        options = fl.FlightCallOptions(headers=[(b"authorization", self._bearer.encode())], timeout=10)
        descriptor = fl.FlightDescriptor.for_path("export", str(self._exports))
        writer, _ = self._flight.do_put(descriptor, schema, options)
        with writer:
            writer.write_table(pa.table([[1, 2, 3]] * len(schema), schema=schema))
        return ticket

    def input_table(self, kind: Any) -> proto.Ticket:
        ticket = self._ticket()
        schema = SCHEMA.serialize().to_pybytes()
        self.call(
            f"{PACKAGE}.TableService/CreateInputTable",
            proto.CreateInputTableRequest(result_id=ticket, schema=schema, kind=kind),
        )
        return ticket

    def bind(self, name: str, ticket: proto.Ticket) -> None:
        self.call(
            f"{_CONSOLE}/BindTableToVariable",
            console_pb2.BindTableToVariableRequest(variable_name=name, table_id=ticket),
        )

    def share(self, identifier: bytes, ticket: proto.Ticket) -> None:
        shared = proto.Ticket(ticket=b"h" + identifier)
        self.call(
            f"{PACKAGE}.SessionService/PublishFromTicket", proto.PublishRequest(source_id=ticket, result_id=shared)
        )

    def release(self, ticket: proto.Ticket) -> None:
        self.call(f"{PACKAGE}.SessionService/Release", proto.ReleaseRequest(id=ticket))

    def close(self) -> None:
        self.call(f"{PACKAGE}.SessionService/CloseSession", proto.HandshakeRequest())
