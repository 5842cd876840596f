"""Mutated requests of a real client are thrown at a live server, which a well-behaved subscriber keeps following.

Two ways in: as app_metadata through pyarrow.flight, which reaches our decoder whatever it is; and as the raw bytes of
the calls, which reaches Arrow's.
"""

from __future__ import annotations

import json
import logging
import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.engine import KeyedTable
from barrage_server.errors import BarrageError, InternalError
from barrage_server.flight.errors import from_flight
from barrage_server.server import Server
from barrage_server.wire.commit_messages import CommitRequest, StageEnd, StageRequest
from barrage_server.wire.metadata import PublicationRequest, UpdateMetadata
from barrage_server.wire.protocol import CreateRequest, PutOptions
from barrage_server.wire.raw import decode_flight_data
from tests.faults import clients
from tests.faults.conftest import SCHEMA
from tests.fuzz import protobuf
from tests.fuzz.mutations import damaged_bytes
from tests.server.follower import DPHN, Follower
from tests.waiting import until

grpc: Any = import_module("grpc")  # it has no types

GOLDEN = Path(__file__).parent.parent / "golden"
CASES = int(os.environ.get("FUZZ_CASES", "400"))
BATCHES = 8
FAILURES = (pa.ArrowException, OSError)


def golden_requests() -> list[bytes]:
    """Every message that a client sent in the captured scenarios: a serialized FlightData."""
    found = []
    for manifest in sorted(GOLDEN.glob("*/manifest.json")):
        content = json.loads(manifest.read_text())
        if content["rpc"] == "DoExchange":
            sent = (message["file"] for message in content["messages"] if message["dir"] == "out")
            found += [(manifest.parent / name).read_bytes() for name in sent]
    return found


def golden_names() -> set[str]:
    """The tables that those requests are about."""
    manifests = [json.loads(path.read_text()) for path in GOLDEN.glob("*/manifest.json")]
    return {(content.get("ticket") or "").removeprefix("s/") for content in manifests} - {""}


@pytest.fixture
def served(server: Server, quotes: KeyedTable) -> Server:
    for name in golden_names():
        server.append_table(name, SCHEMA).append({"sym": [str(row) for row in range(50)], "price": [1.0] * 50})
    return server


@pytest.fixture
def watched(
    served: Server, client: fl.FlightClient, quotes: KeyedTable, caplog: pytest.LogCaptureFixture
) -> Iterator[Follower]:
    """A subscriber that must not notice anything. At the end nothing may be left open, and no fault be in the log."""
    step = served.graph.step
    with Follower(client, "quotes") as follower:
        follower.wait(lambda follower: follower.messages)
        yield follower
        quotes.upsert({"sym": ["A"], "price": [-1.0]})
        follower.wait(lambda follower: follower.content()[0] == ["A", -1.0])
        assert follower.error is None
        until(lambda: len(served.statistics().subscriptions) == 1)
    until(lambda: not served.statistics().uploads)
    assert served.graph.step >= step
    faults = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert faults == []


def outcome(call: Callable[[], Any]) -> BarrageError | None:
    """What a call ends with. A fault of the server is not among what may happen."""
    try:
        call()
    except FAILURES as error:
        assert "Traceback" not in str(error)
        ours = from_flight(error)
        assert type(ours) is not InternalError, ours
        return ours
    return None


def exchange(client: fl.FlightClient, *requests: bytes) -> None:
    writer, reader = client.do_exchange(DPHN, fl.FlightCallOptions(timeout=20))
    try:
        for request in requests:
            writer.write_metadata(request)
        writer.done_writing()
        reader.read_chunk()
    except StopIteration:
        return
    finally:
        reader.cancel()
        with suppress(fl.FlightCancelledError):
            writer.close()


@pytest.mark.parametrize("seed", range(BATCHES))
def test_mutated_requests_in_app_metadata(served: Server, watched: Follower, seed: int) -> None:
    chance = random.Random(seed)
    originals = [decode_flight_data(request).app_metadata for request in golden_requests()]
    requests = [request for request in originals if request]
    refused = 0
    with clients.connect(served) as client:
        for _ in range(CASES // BATCHES):
            first = chance.choice(requests)
            sent = (
                [damaged_bytes(first, chance)]
                if chance.random() < 0.7
                else [first, damaged_bytes(chance.choice(requests), chance)]
            )
            refused += outcome(lambda: exchange(client, *sent)) is not None  # noqa: B023
    assert refused


@pytest.mark.parametrize("seed", range(BATCHES))
def test_mutated_calls_as_raw_bytes(served: Server, watched: Follower, seed: int) -> None:
    chance = random.Random(1000 + seed)
    requests = golden_requests()
    put = _raw_put()
    with grpc.insecure_channel(f"127.0.0.1:{served.port}") as channel:
        for _ in range(CASES // BATCHES):
            method = chance.choice(
                ["DoExchange", "DoPut", "DoGet", "DoAction", "GetFlightInfo", "GetSchema", "ListFlights"]
            )
            if method in ("DoExchange", "DoPut"):
                originals = put if method == "DoPut" else [chance.choice(requests), chance.choice(requests)]
                messages = [damaged_bytes(entry, chance) if chance.random() < 0.6 else entry for entry in originals]
                call = channel.stream_stream(f"/arrow.flight.protocol.FlightService/{method}")(
                    iter(messages), timeout=20
                )
            else:
                payload = damaged_bytes(chance.choice([b"\x0a\x08s/quotes", *requests])[:200], chance)
                call = channel.unary_stream(f"/arrow.flight.protocol.FlightService/{method}")(payload, timeout=20)
            try:
                next(call, None)
            except grpc.RpcError as error:
                assert "Traceback" not in (error.details() or "")
                assert error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED, (method, error.details())
            finally:
                call.cancel()


def _raw_put() -> list[bytes]:
    """The messages of a DoPut as they are on the wire."""
    batch = pa.record_batch({"sym": ["A"], "price": [1.0]}, schema=SCHEMA)

    def flight_data(message: Any, prefix: bytes = b"") -> bytes:
        parts = prefix + protobuf.field(2, message.metadata.to_pybytes())
        return parts + protobuf.field(1000, message.body.to_pybytes()) if message.body is not None else parts

    path = protobuf.field(1, b"\x08\x01" + protobuf.field(3, b"fuzzed"))
    stream = pa.ipc.MessageReader.open_stream(_stream_of(batch))
    schema, rows = stream.read_next_message(), stream.read_next_message()
    return [flight_data(schema, path), flight_data(rows), flight_data(rows)]


def _stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


ACTIONS = {
    "barrage.commit": CommitRequest("query", "quotes", 0, tokens=("x",), key=("sym",), schema=SCHEMA).to_json(),
    "barrage.create": CreateRequest("made", SCHEMA).to_json(),
    "barrage.abort": b'{"tokens":["a","b"]}',
    "barrage.last_batch": b'{"publisher":"query","table":"quotes"}',
    "barrage.drop": b'{"table":"nothing here"}',
    "barrage.statistics": b"{}",
    "barrage.health": b"{}",
}


def test_mutated_actions(served: Server, watched: Follower) -> None:
    """``outcome`` checks that each call ends with an answer or an error of ours, ``watched`` that the server lives."""
    chance = random.Random(2000)
    with clients.connect(served) as client:
        for _ in range(CASES):
            name, body = chance.choice(list(ACTIONS.items()))
            sent = damaged_bytes(body, chance)
            outcome(lambda: list(client.do_action((name, sent))))  # noqa: B023


def test_mutated_publishing(served: Server, watched: Follower) -> None:
    """``outcome`` checks that each call ends with an answer or an error of ours, ``watched`` that the server lives."""
    chance = random.Random(3000)
    rows = pa.record_batch({"sym": ["A", "B"], "price": [1.0, 2.0]}, schema=SCHEMA)
    update = UpdateMetadata(is_snapshot=True).encode()
    firsts = {
        "stage": StageRequest("query", "quotes", 1, "attempt").to_json(),
        "options": PutOptions(key=("sym",)).to_json(),
        "publication": PublicationRequest(b"s/feed").encode(),
    }
    with clients.connect(served) as client:
        for number in range(CASES // 2):
            kind, first = chance.choice(list(firsts.items()))
            descriptor = (
                fl.FlightDescriptor.for_command(b"barrage.stage")
                if kind == "stage"
                else fl.FlightDescriptor.for_path(f"fuzzed{number}")
            )
            last = {"stage": StageEnd(2).to_json(), "publication": update}.get(kind, b"{}")

            def put() -> None:
                writer, reader = client.do_put(descriptor, SCHEMA)  # noqa: B023
                try:
                    writer.write_metadata(damaged_bytes(first, chance))  # noqa: B023
                    writer.write_with_metadata(rows, damaged_bytes(last, chance))  # noqa: B023
                    writer.done_writing()
                    reader.read()
                finally:
                    writer.close()

            outcome(put)
