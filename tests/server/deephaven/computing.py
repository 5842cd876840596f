"""A Deephaven client that has the server compute, over raw calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
from barrage_proto import console_pb2, table_pb2
from barrage_proto import deephaven_pb2 as proto

from barrage_server.wire.tickets import export_ticket, scope_ticket
from tests.server.deephaven.test_grpc_endpoint import log_in
from tests.server.follower import Follower

PACKAGE = "/io.deephaven.proto.backplane.grpc"
Operation = table_pb2.BatchTableRequest.Operation
Creation = proto.ExportedTableCreationResponse


def scope(name: str) -> proto.TableReference:
    """A table of the catalog."""
    return proto.TableReference(ticket=proto.Ticket(ticket=scope_ticket(name)))


def export(number: int) -> proto.TableReference:
    """An export of the session."""
    return proto.TableReference(ticket=result(number))


def result(number: int) -> proto.Ticket:
    """The ticket of an export."""
    return proto.Ticket(ticket=export_ticket(number))


def offset(number: int) -> proto.TableReference:
    """The result of an operation of the same batch."""
    return proto.TableReference(batch_offset=number)


class Computing:
    """A session of one client.

    Args:
        place: host and port.
        header: its credentials.

    """

    def __init__(self, place: str, header: str = "Anonymous") -> None:
        self.channel = grpc.insecure_channel(place)
        self.flight = fl.FlightClient(f"grpc://{place}")
        self.bearer = log_in(self.channel, header)[1]

    def start(self, method: str, request: Any, timeout: float = 30.0) -> Any:
        """A call of the service of tables that is under way."""
        multi: Any = self.channel.unary_stream(f"{PACKAGE}.TableService/{method}")
        return multi(request.SerializeToString(), timeout=timeout, metadata=(("authorization", self.bearer),))

    def partitioned(self, method: str, request: Any) -> Creation:
        """The answer of a call of the service of partitioned tables; an empty one of PartitionBy."""
        unary: Any = self.channel.unary_unary(f"{PACKAGE}.PartitionedTableService/{method}")
        answer = unary(request.SerializeToString(), timeout=30, metadata=(("authorization", self.bearer),))
        return Creation.FromString(answer)

    def call(self, method: str, request: Any) -> list[Creation]:
        """The answers of a call."""
        return [Creation.FromString(answer) for answer in self.start(method, request)]

    def batch(self, *operations: Any) -> tuple[list[Creation], grpc.RpcError | None]:
        """The answers of a batch, and the error that it ends with."""
        answers: list[Creation] = []
        try:
            for answer in self.start("Batch", table_pb2.BatchTableRequest(ops=operations)):
                answers.append(Creation.FromString(answer))
        except grpc.RpcError as error:
            return answers, error
        return answers, None

    def where(self, number: int, source: Any, filters: Sequence[str]) -> list[Creation]:
        """The rows of a table for which filters hold."""
        request = table_pb2.UnstructuredFilterTableRequest(
            result_id=result(number), source_id=source, filters=list(filters)
        )
        return self.call("UnstructuredFilter", request)

    def read(self, number: int) -> pa.Table:
        """The content of an export."""
        options = fl.FlightCallOptions(headers=[(b"authorization", self.bearer.encode())], timeout=30)
        return self.flight.do_get(fl.Ticket(export_ticket(number)), options).read_all()

    def bind(self, number: int, name: str) -> None:
        """Give an export a name."""
        self.bind_ticket(export_ticket(number), name)

    def bind_ticket(self, ticket: bytes, name: str) -> None:
        """Give the table of a ticket a name."""
        request = console_pb2.BindTableToVariableRequest(variable_name=name, table_id=proto.Ticket(ticket=ticket))
        method: Any = self.channel.unary_unary(
            "/io.deephaven.proto.backplane.script.grpc.ConsoleService/BindTableToVariable"
        )
        method(request.SerializeToString(), timeout=10, metadata=(("authorization", self.bearer),))

    def follow(self, number: int) -> Follower:
        """A subscription to an export."""
        headers = [(b"authorization", self.bearer.encode())]
        return Follower(self.flight, "", headers=headers, ticket=export_ticket(number))

    def release(self, number: int) -> None:
        """Release an export."""
        request = proto.ReleaseRequest(id=result(number))
        self._session("Release", request)

    def close(self) -> None:
        """End the session."""
        self._session("CloseSession", proto.HandshakeRequest())
        self.disconnect()

    def disconnect(self) -> None:
        """Vanish."""
        self.flight.close()
        self.channel.close()

    def _session(self, method: str, request: Any) -> None:
        self.channel.unary_unary(f"{PACKAGE}.SessionService/{method}")(
            request.SerializeToString(), timeout=10, metadata=(("authorization", self.bearer),)
        )


def numbers(table: pa.Table, column: str = "n") -> Iterator[Any]:
    """The values of a column."""
    yield from table[column].to_pylist()
