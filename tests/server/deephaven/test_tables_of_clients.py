"""Tables that Deephaven clients have made are freed when no client and no name holds them any more."""

from __future__ import annotations

import gc
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from barrage_proto import deephaven_pb2 as proto

from barrage_server.engine import Table
from barrage_server.server import Limits, Server
from barrage_server.wire.tickets import export_ticket
from tests.server.deephaven.raw_session import PACKAGE, SCHEMA, Kind, Session
from tests.waiting import until


def tables(server: Server) -> int:
    gc.collect()
    return sum(issubclass(type(found), Table) and found.graph is server.graph for found in gc.get_objects())


@pytest.mark.parametrize("end", ["close", "release"])
def test_tables_of_all_kinds_are_freed(end: str) -> None:
    with Server(deephaven_port=0) as server:
        place = (server.deephaven_uri or "").removeprefix("dh+plain://")
        server.append_table("own", SCHEMA)
        with grpc.insecure_channel(place) as channel, fl.FlightClient(f"grpc://{place}") as flight:
            session = Session(channel, flight)
            made = [
                session.upload(),
                session.input_table(Kind(blink=Kind.Blink())),
                session.input_table(Kind(in_memory_append_only=Kind.InMemoryAppendOnly())),
                session.input_table(Kind(in_memory_key_backed=Kind.InMemoryKeyBacked(key_columns=["x"]))),
            ]
            assert tables(server) == 1 + len(made)
            for number, ticket in enumerate(made):
                session.bind(f"bound_{number}", ticket)
            more = [session.upload(), session.input_table(Kind(blink=Kind.Blink()))]
            for number, ticket in enumerate(more):
                session.share(b"%d" % number, ticket)
            assert tables(server) == 1 + len(made) + len(more)
            if end == "release":
                for ticket in (*made, *more):
                    session.release(ticket)
                until(lambda: tables(server) == 1 + len(made) + len(more))  # by name, or shared
            session.close()
            until(lambda: tables(server) == 1 + len(made))
            for number in range(len(made)):
                server.drop(f"bound_{number}")
            until(lambda: tables(server) == 1)


def test_a_name_is_given_anew_and_the_table_before_is_freed() -> None:
    with Server(deephaven_port=0) as server:
        place = (server.deephaven_uri or "").removeprefix("dh+plain://")
        with grpc.insecure_channel(place) as channel, fl.FlightClient(f"grpc://{place}") as flight:
            session = Session(channel, flight)
            for _ in range(3):
                ticket = session.upload()
                session.bind("t", ticket)
                session.release(ticket)
            until(lambda: tables(server) == 1)


def test_a_name_that_is_given_anew_counts_with_its_new_columns_only() -> None:
    with Server(deephaven_port=0, limits=Limits(tables=1, total_columns=3)) as server:
        place = (server.deephaven_uri or "").removeprefix("dh+plain://")
        with grpc.insecure_channel(place) as channel, fl.FlightClient(f"grpc://{place}") as flight:
            session = Session(channel, flight)

            def bind(width: int) -> None:
                session.bind("t", session.upload(pa.schema([(f"c{number}", pa.int64()) for number in range(width)])))

            for width in (1, 3, 2, 3):
                bind(width)
            with pytest.raises(grpc.RpcError, match="total_columns") as caught:
                bind(4)
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert server.table("t").schema.names == ["c0", "c1", "c2"]


def test_no_more_tables_than_a_session_may_hold_and_nothing_is_left_of_those_beyond() -> None:
    with Server(deephaven_port=0, limits=Limits(exports=2)) as server:
        place = (server.deephaven_uri or "").removeprefix("dh+plain://")
        server.append_table("own", SCHEMA)
        with grpc.insecure_channel(place) as channel, fl.FlightClient(f"grpc://{place}") as flight:
            session = Session(channel, flight)
            made = [session.upload(), session.upload()]
            for kind in (Kind(blink=Kind.Blink()), Kind(in_memory_append_only=Kind.InMemoryAppendOnly())):
                with pytest.raises(grpc.RpcError) as caught:
                    session.input_table(kind)
                assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            with pytest.raises(pa.ArrowException, match="2 exports"):
                session.upload()
            until(lambda: tables(server) == 1 + len(made))
            for number in range(2):
                session.share(b"%d" % number, made[0])
            with pytest.raises(grpc.RpcError, match="shares 2"):
                session.share(b"x", made[0])
            session.release(made[0])
            session.input_table(Kind(blink=Kind.Blink()))


def test_a_call_without_a_session_shares_nothing() -> None:
    with Server(deephaven_port=0) as server:
        place = (server.deephaven_uri or "").removeprefix("dh+plain://")
        server.append_table("own", SCHEMA)
        with grpc.insecure_channel(place) as channel:
            share: Any = channel.unary_unary(f"{PACKAGE}.SessionService/PublishFromTicket")
            request = proto.PublishRequest(
                source_id=proto.Ticket(ticket=b"s/own"), result_id=proto.Ticket(ticket=b"hello")
            )
            with pytest.raises(grpc.RpcError, match="belongs to none"):
                share(request.SerializeToString(), timeout=10)


def test_the_schema_of_an_input_table_is_checked() -> None:
    deep = pa.int64()
    for _ in range(100):
        deep = pa.list_(deep)
    damaged = pa.schema([("naam", pa.int64())]).serialize().to_pybytes().replace(b"naam", b"\xff\xfe\xfd\xfc")
    with Server(deephaven_port=0) as server:
        place = (server.deephaven_uri or "").removeprefix("dh+plain://")
        with grpc.insecure_channel(place) as channel, fl.FlightClient(f"grpc://{place}") as flight:
            session = Session(channel, flight)
            for schema in (damaged, pa.schema([("a", deep)]).serialize().to_pybytes(), b"no schema", b""):
                request = proto.CreateInputTableRequest(
                    result_id=proto.Ticket(ticket=export_ticket(77)),
                    schema=schema,
                    kind=Kind(in_memory_append_only=Kind.InMemoryAppendOnly()),
                )
                with pytest.raises(grpc.RpcError) as caught:
                    session.call(f"{PACKAGE}.TableService/CreateInputTable", request)
                assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, schema
