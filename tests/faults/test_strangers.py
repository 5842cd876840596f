"""Callers without credentials: what they may hold is bounded in number, bytes and time, and others go on."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

import barrage_server as bs
from barrage_server.server import Limits
from tests.waiting import until

FLIGHT = "/arrow.flight.protocol.FlightService"
CONSTANTS = "/io.deephaven.proto.backplane.grpc.ConfigService/GetAuthenticationConstants"
LIMITS = Limits(handshakes=3, handshake_seconds=0.2, message_bytes=1 << 20, half_message_bytes=4 << 20)


def channel(held: ExitStack, port: object) -> Any:
    own = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    return held.enter_context(grpc.insecure_channel(f"127.0.0.1:{port}", options=own))


def hold(held: ExitStack, stub: Any, method: str) -> Any:
    """A call that says nothing."""
    over = threading.Event()

    def nothing() -> Iterator[bytes]:
        over.wait()
        yield from ()

    silent = stub.stream_stream(method)(nothing())
    held.callback(silent.cancel)
    held.callback(over.set)
    return silent


@pytest.mark.parametrize("endpoint", ["Flight", "Deephaven", "gRPC"])
def test_handshakes_that_say_nothing_are_limited_and_end(endpoint: str) -> None:
    with ExitStack() as held:
        front = "grpc" if endpoint == "gRPC" else "pyarrow"
        server = held.enter_context(bs.Server(token="good", limits=LIMITS, deephaven_port=0, front=front))
        assert server.deephaven_uri is not None
        port = server.port if endpoint != "Deephaven" else server.deephaven_uri.rpartition(":")[2]
        silent = [hold(held, channel(held, port), f"{FLIGHT}/Handshake") for _ in range(6)]
        with bs.connect(f"grpc://127.0.0.1:{port}", token="good") as client:
            assert client.tables() == []
            for call in silent:
                with pytest.raises(grpc.RpcError):
                    list(call)
            assert client.tables() == [], "a connection that has shown credentials stays"
        until(lambda: server._endpoints.strangers.handshakes == 0)


def test_messages_at_the_grpc_port_are_bounded_and_not_read_without_credentials() -> None:
    with ExitStack() as held:
        server = held.enter_context(bs.Server(token="good", limits=LIMITS, deephaven_port=0))
        assert server.deephaven_uri is not None
        stub = channel(held, server.deephaven_uri.rpartition(":")[2])
        large = bytes(2 << 20)
        assert list(stub.stream_stream(CONSTANTS)(iter([large])))
        with pytest.raises(grpc.RpcError) as refused:
            list(stub.stream_stream(f"{FLIGHT}/DoAction")(iter([large])))
        assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError):
            list(stub.stream_stream(f"{FLIGHT}/DoAction")(iter([large]), metadata=[("authorization", "Bearer good")]))


def opening(headers: bytes) -> bytes:
    return struct.pack(">I", 0) + headers


def test_half_messages_on_websockets_are_bounded_in_bytes_and_time() -> None:
    """A stranger may send 64 KiB; all that have credentials may hold half messages up to a limit."""

    async def run(port: str) -> None:
        address = f"ws://127.0.0.1:{port}/"
        path = f"grpc-websockets-path: {CONSTANTS[1:]}\r\n".encode()
        stranger = await connect(address, subprotocols=["grpc-websockets-multiplex"], max_size=None)  # type: ignore[list-item]
        await stranger.send(opening(path))
        with pytest.raises(ConnectionClosed):
            await stranger.send(struct.pack(">I", 0) + b"\0" + bytes(1 << 18))
            while True:
                await asyncio.wait_for(stranger.recv(), 30)

    with bs.Server(token="good", limits=LIMITS, deephaven_web_port=0) as server:
        assert server.deephaven_web_uri is not None
        asyncio.run(run(server.deephaven_web_uri.rpartition(":")[2]))


def test_silent_connections_to_the_websocket_port_are_closed() -> None:
    with bs.Server(token="good", limits=LIMITS, deephaven_web_port=0) as server:
        assert server.deephaven_web_uri is not None
        address = ("127.0.0.1", int(server.deephaven_web_uri.rpartition(":")[2]))
        with ExitStack() as held:
            sockets = [held.enter_context(socket.create_connection(address)) for _ in range(20)]
            for one in sockets:
                one.settimeout(30)
                assert one.recv(1000) is not None  # an answer, or the end
        until(lambda: server.statistics().sessions == 0)


@pytest.mark.parametrize("front", ["pyarrow", "grpc"])
def test_every_call_of_flight_is_refused_without_credentials(front: str) -> None:
    """Also those whose handler has to ask: no handler may be without the question."""
    batch = pa.record_batch({"n": [1]})

    def put(client: fl.FlightClient) -> None:
        writer, _ = client.do_put(fl.FlightDescriptor.for_path("t"), batch.schema)
        writer.write_batch(batch)
        writer.close()

    calls: dict[str, Callable[[Any], object]] = {
        "list_flights": lambda client: list(client.list_flights()),
        "get_flight_info": lambda client: client.get_flight_info(fl.FlightDescriptor.for_path("t")),
        "get_schema": lambda client: client.get_schema(fl.FlightDescriptor.for_path("t")),
        "do_get": lambda client: client.do_get(fl.Ticket(b"s/t")).read_all(),
        "do_put": put,
        "do_exchange": lambda client: client.do_exchange(fl.FlightDescriptor.for_command(b"dphn"))[1].read_chunk(),
        "do_action": lambda client: list(client.do_action(("barrage.health", b""))),
        "list_actions": lambda client: list(client.list_actions()),
    }
    handlers = {name for name in dir(fl.FlightServerBase) if name.startswith(("do_", "get_", "list_", "poll_"))}
    assert handlers == set(calls), "a call that pyarrow has newly: it needs the question, and a place here"
    refusal = (fl.FlightUnauthenticatedError, OSError)  # the latter is what pyarrow makes of a refused get_schema
    with bs.Server(token="good", front=front) as server:
        server.append_table("t", batch.schema)
        for call in calls.values():
            with fl.connect(server.uri) as client, pytest.raises(refusal, match="token is missing"):
                call(client)
