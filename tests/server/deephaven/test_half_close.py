"""A client that asks for a snapshot and half-closes at once is answered completely, and then its stream ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
import pytest

from barrage_server.server import Server, bundled_exchange
from barrage_server.server.deephaven.grpc_endpoint import GrpcCall
from barrage_server.server.exchange_state import Due, ExchangeState
from barrage_server.wire.metadata import SnapshotRequest
from barrage_server.wire.raw import encode_flight_data

ROWS = 200_000
REQUEST = SnapshotRequest(b"s/t").encode()


@pytest.fixture
def channel() -> Iterator[Any]:
    with Server(deephaven_port=0) as server:
        server.append_table("t", pa.schema([("n", pa.int64())])).append({"n": np.arange(ROWS)})
        assert server.deephaven_uri is not None
        with grpc.insecure_channel(
            server.deephaven_uri.removeprefix("dh+plain://"), options=[("grpc.max_receive_message_length", -1)]
        ) as channel:
            yield channel


def _answer(channel: Any) -> list[bytes]:
    call = channel.stream_stream("/arrow.flight.protocol.FlightService/DoExchange")
    requests = iter([encode_flight_data(b"", REQUEST, None)])
    return list(call(requests, metadata=[("authorization", "Anonymous")], timeout=30))


def _is_whole(answer: list[bytes]) -> bool:
    return len(answer) > 1 and sum(map(len, answer)) > ROWS * 8


def test_an_answer_that_fills_its_last_bundle_ends_the_stream(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn after it finds nothing left to write."""
    monkeypatch.setattr(bundled_exchange, "_BUNDLE_BYTES", 1)
    assert _is_whole(_answer(channel))


def test_a_half_close_while_the_answer_is_made(channel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer has been taken from where answers wait, and is not yet where those to write are."""
    taken, seen = threading.Event(), threading.Event()
    read, due = GrpcCall.read, ExchangeState.due

    async def late(call: GrpcCall) -> bytes | None:
        message = await read(call)
        if message is None:
            assert await asyncio.to_thread(taken.wait, 10)
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, seen.set)  # when the stream has acted on it
        return message

    def slow(state: ExchangeState, now: float) -> Due:
        answers = due(state, now)
        if answers.messages:
            taken.set()
            assert seen.wait(10)
        return answers

    monkeypatch.setattr(GrpcCall, "read", late)
    monkeypatch.setattr(ExchangeState, "due", slow)
    assert _is_whole(_answer(channel))
