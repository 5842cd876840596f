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
from tests.server.follower import until

PACKAGE = "/io.deephaven.proto.backplane.grpc"


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(deephaven_port=0) as server:
        server.append_table("t", pa.schema([("n", pa.int64())]))
        yield server


@pytest.fixture
def channel(server: Server) -> Iterator[Any]:
    assert server.deephaven_uri is not None
    with grpc.insecure_channel(server.deephaven_uri.removeprefix("dh+plain://")) as channel:
        yield channel


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


def test_a_session_is_closed_even_if_its_client_does_not_wait_for_the_answer(
    server: Server, channel: Any
) -> None:
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
