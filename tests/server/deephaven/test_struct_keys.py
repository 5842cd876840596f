"""Input tables keyed by a struct, over raw calls: no stock client writes structs, but the protocol can."""

from __future__ import annotations

from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
from barrage_proto import deephaven_pb2 as proto

from barrage_server.server import Server
from barrage_server.wire.tickets import export_ticket
from tests.server.deephaven.test_grpc_endpoint import log_in

_PACKAGE = "/io.deephaven.proto.backplane.grpc"
WHERE = pa.struct([("x", pa.int64()), ("y", pa.string())])
SCHEMA = pa.schema([("at", WHERE), ("v", pa.int64())])


def test_rows_are_replaced_and_deleted_by_a_struct() -> None:
    with Server(deephaven_port=0) as server:
        place = (server.deephaven_uri or "").removeprefix("dh+plain://")
        with grpc.insecure_channel(place) as channel, fl.FlightClient(f"grpc://{place}") as flight:
            bearer = log_in(channel)[1]
            options = fl.FlightCallOptions(headers=[(b"authorization", bearer.encode())], timeout=10)

            def call(method: str, request: Any) -> None:
                channel.unary_unary(f"{_PACKAGE}.{method}")(
                    request.SerializeToString(), timeout=10, metadata=(("authorization", bearer),)
                )

            def upload(number: int, at: list[Any], v: list[int]) -> proto.Ticket:
                rows = pa.table({"at": pa.array(at, WHERE), "v": v}, SCHEMA)
                writer, _ = flight.do_put(fl.FlightDescriptor.for_path("export", str(number)), SCHEMA, options)
                with writer:
                    writer.write_table(rows)
                return proto.Ticket(ticket=export_ticket(number))

            table = proto.Ticket(ticket=export_ticket(1))
            kind = proto.CreateInputTableRequest.InputTableKind()
            kind.in_memory_key_backed.key_columns.append("at")
            call(
                "TableService/CreateInputTable",
                proto.CreateInputTableRequest(result_id=table, schema=SCHEMA.serialize().to_pybytes(), kind=kind),
            )
            nulls = {"x": None, "y": None}
            for rows in (
                upload(2, [{"x": 1, "y": "a"}, None, nulls], [1, 2, 3]),
                upload(3, [{"x": 1, "y": "a"}, {"x": 1, "y": None}], [10, 4]),
            ):
                request = proto.AddTableRequest(input_table=table, table_to_add=rows)
                call("InputTableService/AddTableToInputTable", request)
            gone = upload(9, [None], [0])
            call(
                "InputTableService/DeleteTableFromInputTable",
                proto.DeleteTableRequest(input_table=table, table_to_remove=gone),
            )
            found = flight.do_get(fl.Ticket(export_ticket(1)), options).read_all()
            assert sorted(found["v"].to_pylist()) == [3, 4, 10]
