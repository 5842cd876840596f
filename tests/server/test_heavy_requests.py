"""Requests that take long, or that are answered faster than they are read, hold up none but their own stream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.rowset import RowSet
from barrage_server.server import Limits, Server, exchange_state
from barrage_server.server.exchange_state import ExchangeState
from barrage_server.server.streams import Stream as OpenStream
from barrage_server.server.streams import Streams
from barrage_server.subscription import snapshot_message
from barrage_server.wire.metadata import SnapshotRequest, SubscriptionRequest
from tests.server.conftest import DEEPHAVEN, GRPC, address, endpoints
from tests.server.deephaven.test_grpc_endpoint import log_in
from tests.server.follower import QUICK
from tests.server.test_exchange import Stream
from tests.waiting import until

ROWS = 100_000
SCATTERED = RowSet.from_keys(np.arange(0, ROWS, 2))


@pytest.fixture
def big(server: Server) -> Iterator[Server]:
    table = server.append_table("big", pa.schema([("x", pa.int64())]))
    table.append({"x": np.arange(ROWS)})
    yield server


def heavy_requests() -> dict[str, Any]:
    return {
        "scattered viewport": SubscriptionRequest(b"s/big", None, SCATTERED, QUICK),
        "reverse viewport": SubscriptionRequest(b"s/big", None, SCATTERED, QUICK, reverse_viewport=True),
        "wide viewport": SubscriptionRequest(b"s/big", None, RowSet.from_range(0, ROWS - 1), QUICK),
        "whole table": SubscriptionRequest(b"s/big", None, None, QUICK),
        "snapshot": SnapshotRequest(b"s/big"),
        "snapshot of scattered rows": SnapshotRequest(b"s/big", None, SCATTERED),
    }


@pytest.fixture
def released(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when a stream has left the server's list."""
    event, release = threading.Event(), Streams.release

    def noted(self: Streams, stream: OpenStream) -> None:
        release(self, stream)
        event.set()

    monkeypatch.setattr(Streams, "release", noted)
    return event


@pytest.mark.parametrize("kind", heavy_requests())
def test_what_takes_long_does_not_run_on_the_event_loop(
    big: Server, kind: str, monkeypatch: pytest.MonkeyPatch, released: threading.Event
) -> None:
    threads: dict[str, set[str]] = {}

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def note(*arguments: Any) -> Any:
            threads.setdefault(name, set()).add(threading.current_thread().name)
            return function(*arguments)

        return note

    request = heavy_requests()[kind]
    is_long = len(request.encode()) > 1024
    if is_long:
        monkeypatch.setattr(ExchangeState, "read", noted("read", ExchangeState.read))
    monkeypatch.setattr(ExchangeState, "serve", noted("serve", ExchangeState.serve))
    monkeypatch.setattr(ExchangeState, "due", noted("due", ExchangeState.due))
    with fl.connect(address(big, DEEPHAVEN)) as client:
        stream = Stream(client)
        stream.send(request)
        assert len(stream.message().add_columns[0]) > 0
        stream.reader.cancel()
    assert released.wait(30)
    assert set(threads) == {"serve", "due"} | ({"read"} if is_long else set())
    assert "barrage-deephaven" not in set().union(*threads.values())


def test_answers_that_are_not_read_are_not_made(big: Server, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few wait; further requests stay unread until those have gone, and then all are answered."""
    made: list[object] = []
    make = snapshot_message

    def count(*arguments: Any) -> Any:
        made.append(arguments)
        return make(*arguments)

    monkeypatch.setattr(exchange_state, "snapshot_message", count)
    asked = 200
    with fl.connect(address(big, endpoint)) as client:
        stream = Stream(client)
        for _ in range(asked):
            stream.send(SnapshotRequest(b"s/big"))
        counts: list[int] = []

        def settled() -> bool:
            counts.append(len(made))
            return counts[-1] > 0 and len(counts) > 60 and counts[-60] == counts[-1]

        until(settled, 60)
        assert len(made) < asked / 2
        for _ in range(asked):
            assert len(stream.message().add_columns[0]) == ROWS
        assert len(made) == asked
        stream.reader.cancel()


def test_a_client_that_goes_while_its_request_is_served_leaves_nothing(
    big: Server, monkeypatch: pytest.MonkeyPatch, released: threading.Event
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    serve = ExchangeState.serve

    def slow(self: ExchangeState, *arguments: Any) -> None:
        begun.set()
        assert go_on.wait(30)
        serve(self, *arguments)

    monkeypatch.setattr(ExchangeState, "serve", slow)
    with fl.connect(address(big, DEEPHAVEN)) as client:
        stream = Stream(client)
        stream.send(heavy_requests()["scattered viewport"])
        assert begun.wait(30)
        stream.reader.cancel()
        assert released.wait(30)
        go_on.set()
        with fl.connect(address(big, DEEPHAVEN)) as other:  # behind the first on those threads
            further = [Stream(other) for _ in range(4)]
            for each in further:
                each.send(heavy_requests()["scattered viewport"])
            for each in further:
                each.message()
                each.reader.cancel()
    until(lambda: all(not entry.subscribers for entry in big.statistics().tables))


FLIGHT_SERVICE = "/arrow.flight.protocol.FlightService"
DEEPHAVEN_SERVICE = "/io.deephaven.proto.backplane.grpc"
BOUNDS = {
    f"{FLIGHT_SERVICE}/Handshake": (9_000, "header_bytes"),
    f"{FLIGHT_SERVICE}/DoAction": (7_000, "request_bytes"),
    f"{FLIGHT_SERVICE}/DoGet": (5_000, "call_bytes"),
    f"{FLIGHT_SERVICE}/GetFlightInfo": (5_000, "call_bytes"),
    f"{FLIGHT_SERVICE}/GetSchema": (5_000, "call_bytes"),
    f"{FLIGHT_SERVICE}/ListFlights": (5_000, "call_bytes"),
}
BOUNDS_OF_DEEPHAVEN = {
    f"{DEEPHAVEN_SERVICE}.SessionService/Release": (5_000, "call_bytes"),
    f"{DEEPHAVEN_SERVICE}.TableService/Batch": (5_000, "call_bytes"),
    f"{DEEPHAVEN_SERVICE}.TableService/Update": (5_000, "call_bytes"),
    f"{DEEPHAVEN_SERVICE}.TableService/CreateInputTable": (5_000, "call_bytes"),
    f"{DEEPHAVEN_SERVICE}.PartitionedTableService/PartitionBy": (5_000, "call_bytes"),
    f"{DEEPHAVEN_SERVICE}.ApplicationService/ListFields": (5_000, "call_bytes"),
    "/io.deephaven.proto.backplane.script.grpc.ConsoleService/ExecuteCommand": (5_000, "call_bytes"),
}


@pytest.mark.parametrize(
    ("endpoint", "method"),
    [
        *((GRPC, method) for method in BOUNDS),
        *((DEEPHAVEN, method) for method in [*BOUNDS, *BOUNDS_OF_DEEPHAVEN]),
    ],
)
def test_a_request_beyond_its_bound_is_refused_undecoded(endpoint: str, method: str) -> None:
    """Decoding keeps all threads waiting. These bytes are damaged, which is told of those within the bound only."""
    nbytes, name = {**BOUNDS, **BOUNDS_OF_DEEPHAVEN}[method]
    limits = Limits(call_bytes=5_000, request_bytes=7_000, header_bytes=9_000)
    with Server(limits=limits, **endpoints(endpoint)) as server:
        place = address(server, endpoint).removeprefix("grpc://")
        with grpc.insecure_channel(place) as channel:
            metadata: Any = [] if method.endswith("/Handshake") else [("authorization", "Anonymous")]
            if endpoint == DEEPHAVEN and metadata:
                metadata = [("authorization", log_in(channel)[1])]

            def refusal(size: int) -> Any:
                open_call: Any = channel.stream_stream(method)
                call = open_call(iter([b"\xff" * size]), timeout=30, metadata=metadata)
                with pytest.raises(grpc.RpcError) as caught:
                    list(call)
                return caught.value

            within, beyond = refusal(nbytes), refusal(nbytes + 2_000)
    assert within.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert beyond.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert f"has {nbytes + 2_000:,} bytes, and {nbytes:,} are the most ({name})" in beyond.details()
