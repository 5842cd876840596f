"""Tables of many columns: their bound, and that they delay their own callers only."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from barrage_proto import deephaven_pb2 as proto

from barrage_server.errors import LimitError
from barrage_server.flight.errors import from_flight
from barrage_server.rowset import RowSet
from barrage_server.server import Limits, Server, table_feeds
from barrage_server.server.deephaven import input_tables
from barrage_server.server.table_schema import has_at_most
from barrage_server.subscription import TableFeed
from barrage_server.wire.arrow_message import read_schema
from barrage_server.wire.metadata import SnapshotRequest, SubscriptionRequest
from barrage_server.wire.protocol import CREATE_ACTION, CreateRequest, TableKind
from barrage_server.wire.tickets import export_ticket
from tests.server.conftest import DEEPHAVEN, address, endpoints
from tests.server.deephaven.test_grpc_endpoint import log_in
from tests.server.follower import QUICK
from tests.server.test_exchange import FAILURES, Stream

MOST = 20
TABLES = "/io.deephaven.proto.backplane.grpc.TableService"
WIDE = pa.schema([(f"c{number}", pa.int64()) for number in range(1000)])


def nested(count: int) -> pa.DataType:
    return pa.struct([(f"f{number}", pa.int8()) for number in range(count)])


TOO_WIDE = {
    "columns": pa.schema([(f"c{number}", pa.int8()) for number in range(MOST + 1)]),
    "fields of a struct": pa.schema([("s", nested(MOST))]),
    "fields of lists of structs": pa.schema([("x", pa.list_(nested(MOST - 1)))]),
    "fields of dictionary values": pa.schema([("x", pa.dictionary(pa.int8(), nested(MOST)))]),
    "metadata": pa.schema([("x", pa.int8())], metadata={f"k{number}": "" for number in range(10 * MOST + 1)}),
    "metadata of a column": pa.schema(
        [pa.field("x", pa.int8(), metadata={f"k{number}": "" for number in range(10 * MOST + 1)})]
    ),
}
JUST_RIGHT = {
    "columns": pa.schema([(f"c{number}", pa.int8()) for number in range(MOST)]),
    "fields of a struct": pa.schema([("s", nested(MOST - 1))]),
    "metadata": pa.schema([("x", pa.int8())], metadata={f"k{number}": "" for number in range(10 * MOST)}),
}


@pytest.fixture
def narrow(request: pytest.FixtureRequest) -> Iterator[Server]:
    chosen = endpoints(request.getfixturevalue("endpoint") if "endpoint" in request.fixturenames else DEEPHAVEN)
    with Server(limits=Limits(columns=MOST), **chosen) as server:
        yield server


@pytest.mark.parametrize("kind", TOO_WIDE)
def test_what_is_too_wide_is_counted_at_every_depth(kind: str) -> None:
    assert not has_at_most(TOO_WIDE[kind], MOST, 10 * MOST)
    assert has_at_most(TOO_WIDE[kind], 10 * MOST, 100 * MOST)


@pytest.mark.parametrize("kind", JUST_RIGHT)
def test_as_many_columns_as_are_allowed_make_a_table(narrow: Server, kind: str) -> None:
    assert narrow.append_table("t", JUST_RIGHT[kind]).schema.equals(JUST_RIGHT[kind])


@pytest.mark.parametrize("kind", TOO_WIDE)
def test_no_call_makes_a_table_of_too_many_columns(narrow: Server, endpoint: str, kind: str) -> None:
    schema = TOO_WIDE[kind]
    with pytest.raises(LimitError, match=r"\(columns\)"):
        narrow.append_table("t", schema)
    with fl.connect(address(narrow, endpoint)) as client:
        with pytest.raises(FAILURES) as caught:
            body = CreateRequest("t", schema, TableKind.APPEND).to_json()
            list(client.do_action(fl.Action(CREATE_ACTION, body)))
        assert isinstance(from_flight(caught.value), LimitError)
        if pa.types.is_dictionary(schema.types[0]):
            return  # which Flight does not write without rows
        with pytest.raises(FAILURES) as caught:
            writer, reader = client.do_put(fl.FlightDescriptor.for_path("scope", "t"), schema)
            with writer:
                writer.write_table(schema.empty_table())
                writer.done_writing()
                reader.read()
        assert isinstance(from_flight(caught.value), LimitError)
    assert not narrow.tables()


@pytest.fixture
def channel(server: Server) -> Iterator[Any]:
    with grpc.insecure_channel(address(server, DEEPHAVEN).removeprefix("grpc://")) as channel:
        yield channel


def noted(threads: set[str], function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def note(*arguments: Any) -> Any:
        threads.add(threading.current_thread().name)
        return function(*arguments)

    return note


def test_wide_schemas_are_not_made_on_the_event_loop(
    server: Server, channel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.append_table("wide", WIDE)
    bearer = log_in(channel)[1]
    threads: set[str] = set()
    monkeypatch.setattr(table_feeds, "TableFeed", noted(threads, TableFeed))

    def call(method: str, request: Any) -> None:
        answer = proto.ExportedTableCreationResponse.FromString(
            channel.unary_unary(f"{TABLES}/{method}")(
                request.SerializeToString(), timeout=30, metadata=[("authorization", bearer)]
            )
        )
        assert len(pa.ipc.read_schema(pa.py_buffer(answer.schema_header))) == len(WIDE)

    def expect() -> None:
        assert threads
        assert "barrage-deephaven" not in threads
        threads.clear()

    source = proto.TableReference(ticket=proto.Ticket(ticket=b"s/wide"))
    call("FetchTable", proto.FetchTableRequest(result_id=proto.Ticket(ticket=export_ticket(1)), source_id=source))
    expect()
    call("GetExportedTableCreationResponse", proto.Ticket(ticket=export_ticket(1)))
    expect()
    with fl.connect(address(server, DEEPHAVEN)) as client:
        assert [len(info.schema) for info in client.list_flights()] == [len(WIDE)]
        expect()
        descriptor = fl.FlightDescriptor.for_path("scope", "wide")
        assert len(client.get_schema(descriptor).schema) == len(WIDE)
        expect()
        assert len(client.get_flight_info(descriptor).schema) == len(WIDE)
        expect()
        assert len(client.do_get(fl.Ticket(b"s/wide")).read_all().schema) == len(WIDE)
        expect()
        few = RowSet.from_range(0, 1)
        for request in (SubscriptionRequest(b"s/wide", None, few, QUICK), SnapshotRequest(b"s/wide", None, few)):
            stream = Stream(client)
            stream.send(request)
            stream.message()
            stream.reader.cancel()
            expect()


@pytest.mark.parametrize("kind", ["append", "key", "blink"])
def test_input_tables_are_not_made_on_the_event_loop(channel: Any, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Nor is their schema read there, short as it may be: it can be of many fields that share their bytes."""
    bearer = log_in(channel)[1]
    threads: set[str] = set()
    monkeypatch.setattr(input_tables, "read_schema", noted(threads, read_schema))
    request = proto.CreateInputTableRequest(
        result_id=proto.Ticket(ticket=export_ticket(1)), schema=WIDE.serialize().to_pybytes()
    )
    if kind == "append":
        request.kind.in_memory_append_only.SetInParent()
    elif kind == "blink":
        request.kind.blink.SetInParent()
    else:
        request.kind.in_memory_key_backed.key_columns.append("c0")
    channel.unary_unary(f"{TABLES}/CreateInputTable")(
        request.SerializeToString(), timeout=30, metadata=[("authorization", bearer)]
    )
    assert threads
    assert "barrage-deephaven" not in threads


def test_an_input_table_may_not_have_too_many_columns(narrow: Server) -> None:
    request = proto.CreateInputTableRequest(
        result_id=proto.Ticket(ticket=export_ticket(1)), schema=TOO_WIDE["columns"].serialize().to_pybytes()
    )
    request.kind.in_memory_append_only.SetInParent()
    with grpc.insecure_channel(address(narrow, DEEPHAVEN).removeprefix("grpc://")) as plain:
        channel: Any = plain
        bearer = log_in(channel)[1]
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(f"{TABLES}/CreateInputTable")(
                request.SerializeToString(), timeout=30, metadata=[("authorization", bearer)]
            )
    assert "(columns)" in str(caught.value.details())


def test_a_batch_of_very_many_operations_is_refused_undecoded(channel: Any) -> None:
    bearer = log_in(channel)[1]
    call = channel.unary_stream(f"{TABLES}/Batch")(
        b"\n\0" * (3 << 20), timeout=30, metadata=[("authorization", bearer)]
    )
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    assert "1,048,576 are the most (call_bytes)" in str(caught.value.details())
