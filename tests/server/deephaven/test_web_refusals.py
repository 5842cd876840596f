"""What is wrong, too large, or of a hidden table is told at the web port as at the others, and changes nothing."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import unquote

import grpc
import pyarrow as pa
import pytest
from barrage_proto import deephaven_pb2, flight_pb2

import barrage_server as bs
from tests.server.deephaven.web_client import PATIENCE, Answer, WebClient

SCHEMA = pa.schema([("v", pa.int64())])
FLIGHT = "arrow.flight.protocol.FlightService"
INVALID = grpc.StatusCode.INVALID_ARGUMENT.value[0]
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
NOT_FOUND = grpc.StatusCode.NOT_FOUND.value[0]


def call(server: bs.Server, method: str, *messages: Any, **headers: str) -> Answer:
    """The whole answer to a call of Flight over a websocket."""

    async def run() -> Answer:
        place = (server.deephaven_web_uri or "").partition("://")[2]
        async with asyncio.timeout(PATIENCE), WebClient.at(f"ws://{place}") as client:
            stream = await client.open(f"{FLIGHT}/{method}", **headers)
            for message in messages:
                await client.send(stream, message.SerializeToString())
            await client.finish(stream)
            return await client.answers[stream].end()

    return asyncio.run(run())


def told(answer: Answer) -> str:
    return unquote((answer.trailers or {}).get("grpc-message", ""))


def messages_of(*batches: pa.RecordBatch, name: str = "t") -> list[Any]:
    """An upload: schema, dictionaries and batches."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    made = [
        flight_pb2.FlightData(
            data_header=message.metadata.to_pybytes(),
            data_body=b"" if message.body is None else message.body.to_pybytes(),
        )
        for message in pa.ipc.MessageReader.open_stream(sink.getvalue())
    ]
    made[0].flight_descriptor.CopyFrom(flight_pb2.FlightDescriptor(type="PATH", path=[name]))
    return made


def plain(*values: int) -> pa.RecordBatch:
    return pa.record_batch({"v": list(values)}, SCHEMA)


def test_a_batch_before_its_dictionary_is_refused_and_the_table_goes_on() -> None:
    with bs.Server(deephaven_web_port=0) as server:
        table = server.append_table("t", {"text": "string"})
        schema, dictionary, batch = messages_of(pa.record_batch({"text": pa.array(["a", "b"]).dictionary_encode()}))
        refused = call(server, "DoPut", schema, batch)
        assert refused.status == INVALID
        assert "WireFormatError" in told(refused)
        assert table.size == 0
        assert call(server, "DoPut", schema, dictionary, batch).status == 0
        assert table.to_arrow()["text"].to_pylist() == ["a", "b"]


def test_an_upload_that_is_too_large_is_refused_and_nothing_of_it_is_kept() -> None:
    with bs.Server(deephaven_web_port=0, limits=bs.Limits(put_bytes=100)) as server:
        refused = call(server, "DoPut", *messages_of(*(plain(*range(10)) for _ in range(5))))
        assert refused.status == EXHAUSTED
        assert "LimitError" in told(refused)
        assert server.tables() == ()
        assert call(server, "DoPut", *messages_of(plain(1))).status == 0
        assert server.table("t").size == 1


def test_a_request_that_is_too_large_is_refused() -> None:
    with bs.Server(deephaven_web_port=0, limits=bs.Limits(request_bytes=100)) as server:
        for length, status in ((101, EXHAUSTED), (20, INVALID)):
            action = flight_pb2.Action(type="barrage.abort", body=b" " * length)
            answer = call(server, "DoAction", action)
            assert answer.status == status, told(answer)


@pytest.mark.parametrize("method", ["DoGet", "GetFlightInfo", "DoPut"])
def test_a_hidden_table_is_like_one_that_does_not_exist(method: str) -> None:
    roles = {"reader": bs.Role(["visible"], ["list", "read"])}
    with bs.Server(token="good", roles=roles, default_roles=["reader"], deephaven_web_port=0) as server:
        server.append_table("secret", SCHEMA).append({"v": [7]})
        answers = []
        for name in ("secret", "absent"):
            requests: dict[str, list[Any]] = {
                "DoGet": [flight_pb2.Ticket(ticket=f"s/{name}".encode())],
                "GetFlightInfo": [flight_pb2.FlightDescriptor(type="PATH", path=["scope", name])],
                "DoPut": messages_of(plain(1), name=name),
            }
            answer = call(server, method, *requests[method], authorization="Bearer good")
            answers.append((answer.status, told(answer).replace(name, "NAME"), answer.messages))
        assert answers[0] == answers[1]
        assert answers[0][0] not in (0, None)
        assert answers[0][2] == []
        assert server.table("secret").size == 1


@pytest.mark.parametrize("scheme", ["Basic", "Bearer", "io.deephaven.authentication.psk.PskAuthenticationHandler", "é"])
@pytest.mark.parametrize("method", ["ListFlights", "Handshake"])
def test_credentials_in_other_letters_are_refused_and_the_log_has_no_fault(
    method: str, scheme: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrapped = deephaven_pb2.WrappedAuthenticationRequest(type=scheme, payload=b"\xff\xe9")
    asked = flight_pb2.HandshakeRequest(payload=wrapped.SerializeToString())
    with bs.Server(token="é", deephaven_web_port=0) as server:
        answers = [call(server, method, asked, authorization=f"{scheme} \xff\xe9")]
        if method == "Handshake":
            answers.append(call(server, method, asked))
    assert [answer.status for answer in answers] == [grpc.StatusCode.UNAUTHENTICATED.value[0]] * len(answers)
    assert not [record for record in caplog.records if record.exc_info]
