"""The end of a Deephaven session: whatever becomes of the answer, nothing of it is left."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pyarrow as pa
import pytest
from barrage_proto import deephaven_pb2 as proto

from barrage_server.server import Server
from barrage_server.wire.metadata import SubscriptionRequest
from barrage_server.wire.raw import encode_flight_data
from tests.waiting import until

PACKAGE = "/io.deephaven.proto.backplane.grpc"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(deephaven_port=0) as server:
        server.append_table("t", pa.schema([("n", pa.int64())]))
        yield server


@pytest.fixture
def channel(server: Server) -> Iterator[Any]:
    with _connect(server) as channel:
        yield channel


def _connect(server: Server, user_agent: str = "") -> Any:
    assert server.deephaven_uri is not None
    options = [("grpc.primary_user_agent", user_agent)]
    return grpc.insecure_channel(server.deephaven_uri.removeprefix("dh+plain://"), options=options)


def _session(channel: Any) -> list[tuple[str, str]]:
    """The header of a new session, which has one export."""
    config = channel.unary_unary(f"{PACKAGE}.ConfigService/GetConfigurationConstants")
    _, call = config.with_call(b"", metadata=[("authorization", "Anonymous")])
    header = [("authorization", dict(call.initial_metadata())["authorization"])]
    request = proto.FetchTableRequest(
        source_id=proto.TableReference(ticket=proto.Ticket(ticket=b"s/t")),
        result_id=proto.Ticket(ticket=b"e\1\0\0\0"),
    )
    channel.unary_unary(f"{PACKAGE}.TableService/FetchTable")(request.SerializeToString(), metadata=header)
    return header


def test_a_session_is_closed_even_if_its_client_does_not_wait_for_the_answer(server: Server, channel: Any) -> None:
    """Deephaven's Java client shuts its channel down right after the call: its request may never be read."""
    header = _session(channel)
    assert (server.statistics().sessions, server.statistics().exports) == (1, 1)
    released = threading.Event()

    def requests() -> Iterator[bytes]:
        released.wait(20)
        yield b""

    call = channel.stream_unary(f"{PACKAGE}.SessionService/CloseSession").future(requests(), metadata=header)
    until(lambda: server.statistics().sessions == 0)
    call.cancel()
    released.set()
    assert server.statistics().exports == 0


def test_a_closed_session_is_not_known_any_more(server: Server, channel: Any) -> None:
    header = _session(channel)
    close = channel.unary_unary(f"{PACKAGE}.SessionService/CloseSession")
    close(b"", metadata=header)
    assert server.statistics().sessions == 0
    for method in ("SessionService/CloseSession", "ConfigService/GetConfigurationConstants"):
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(f"{PACKAGE}.{method}")(b"", metadata=header)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_a_deephaven_server_gets_another_session_without_credentials(server: Server) -> None:
    """It holds on to the token of a session that it cannot renew: of a server of ours that has restarted since."""
    lost = (("authorization", "Bearer of another life"),)
    with _connect(server, "grpc-java/1.76.2") as java:
        for method, sessions in (("SessionService/Release", 0), ("TableService/Batch", 1)):
            call = java.unary_stream(f"{PACKAGE}.{method}")(b"", metadata=lost)
            header = dict(call.initial_metadata())
            assert call.code() is (grpc.StatusCode.OK if sessions else grpc.StatusCode.UNAUTHENTICATED)
            assert header.get("authorization", "").startswith("Bearer ") is bool(sessions)
            assert server.statistics().sessions == sessions
    with _connect(server) as other, pytest.raises(grpc.RpcError, match="Log in again"):
        next(iter(other.unary_stream(f"{PACKAGE}.TableService/Batch")(b"", metadata=lost)))


def test_a_deephaven_server_does_not_get_past_a_token() -> None:
    with Server(deephaven_port=0, token="secret") as server:
        with _connect(server, "grpc-java/1.76.2") as java:
            call = java.unary_stream(f"{PACKAGE}.TableService/Batch")(b"", metadata=(("authorization", "Bearer x"),))
            assert call.code() is grpc.StatusCode.UNAUTHENTICATED
        assert server.statistics().sessions == 0


def test_nothing_is_left_of_a_stream_whose_client_closes_its_session_and_hangs_up(server: Server) -> None:
    """Its call is cancelled twice, by the end of the session and by the end of the connection."""
    subscription = encode_flight_data(b"", SubscriptionRequest(b"s/t").encode(), None)
    for _ in range(20):
        channel = _connect(server)
        header = _session(channel)
        released = threading.Event()

        def requests(released: threading.Event = released) -> Iterator[bytes]:
            yield subscription
            released.wait(20)

        stream = channel.stream_stream("/arrow.flight.protocol.FlightService/DoExchange")(requests(), metadata=header)
        next(stream)
        channel.unary_unary(f"{PACKAGE}.SessionService/CloseSession").future(b"", metadata=header)
        channel.close()
        released.set()
    until(lambda: server.statistics().sessions == 0)
    until(lambda: not server.statistics().subscriptions)
