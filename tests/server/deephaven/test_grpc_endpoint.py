"""The gRPC port as any gRPC tool sees it: health, reflection, calls that are not there, errors that say what to do."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from importlib import metadata
from typing import Any

import grpc
import pyarrow as pa
import pytest
from barrage_proto import console_pb2, flight_pb2, partitionedtable_pb2
from barrage_proto import deephaven_pb2 as proto
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

import barrage_server as bs
from barrage_server.errors import DependencyError, InvalidRequestError, UnavailableError
from barrage_server.server import Limits, Server
from barrage_server.server.deephaven.call import Call, Status
from barrage_server.server.deephaven.grpc_endpoint import GrpcCall, call_handler
from tests.waiting import until

REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
CONFIG = "/io.deephaven.proto.backplane.grpc.ConfigService/GetConfigurationConstants"
SERVICES = {
    "arrow.flight.protocol.FlightService",
    "io.deephaven.proto.backplane.grpc.ApplicationService",
    "io.deephaven.proto.backplane.grpc.ConfigService",
    "io.deephaven.proto.backplane.grpc.InputTableService",
    "io.deephaven.proto.backplane.grpc.PartitionedTableService",
    "io.deephaven.proto.backplane.grpc.SessionService",
    "io.deephaven.proto.backplane.grpc.TableService",
    "io.deephaven.proto.backplane.script.grpc.ConsoleService",
}


def connect(server: Server) -> Any:
    assert server.deephaven_uri is not None
    return grpc.insecure_channel(server.deephaven_uri.removeprefix("dh+plain://"))


@pytest.fixture
def channel() -> Iterator[Any]:
    with Server(deephaven_port=0) as server, connect(server) as channel:
        yield channel


def reflect(channel: Any, **request: str) -> Any:
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)
    (answer,) = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(**request)]), timeout=10)
    return answer


@pytest.mark.parametrize("front", ["pyarrow", "grpc"])
@pytest.mark.parametrize("method", ["DoGet", "DoPut", "GetFlightInfo", "DoAction"])
def test_a_call_that_sends_nothing_ends(front: str, method: str) -> None:
    """It is counted nowhere until its first message."""
    ended = threading.Event()

    def nothing() -> Iterator[bytes]:
        ended.wait(30)
        yield from ()

    limits = Limits(idle_stream_seconds=0.2)
    with Server(front=front, limits=limits, deephaven_port=0) as server:
        uri = str(server.uri if front == "grpc" else server.deephaven_uri).partition("://")[2]
        with grpc.insecure_channel(uri) as channel:
            open_call: Any = channel.stream_stream(f"/arrow.flight.protocol.FlightService/{method}")
            call = open_call(nothing(), timeout=20)
            with pytest.raises(grpc.RpcError) as caught:
                list(call)
            ended.set()
        assert "sent no message within 0.2 s" in str(caught.value.details())


class OtherError(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "is_told"),
    [(grpc.aio.InternalError("reset"), False), (asyncio.CancelledError(), False), (OtherError(), True), (None, True)],
)
def test_a_call_that_its_client_resets_within_an_operation_is_not_a_fault_in_the_log(
    channel: Any, caplog: pytest.LogCaptureFixture, error: BaseException | None, is_told: bool
) -> None:
    """gRPC would log a traceback for it, as often as a stranger likes."""
    assert channel is not None
    exc_info = None if error is None else (type(error), error, None)
    logging.getLogger("grpc._cython.cygrpc").error("what gRPC says", exc_info=exc_info)
    assert ("what gRPC says" in caplog.text) == is_told


def test_health_says_that_the_whole_and_each_service_is_there(channel: Any) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    for name in ("", *SERVICES):
        answer = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=10)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING
    with pytest.raises(grpc.RpcError) as caught:
        stub.Check(health_pb2.HealthCheckRequest(service="nope"), timeout=10)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


def test_health_is_told_when_the_server_goes() -> None:
    server = Server(deephaven_port=0)
    with connect(server) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=10)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        server.close()
        with pytest.raises(grpc.RpcError):
            while True:
                assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.mark.parametrize("method", ["/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch", REFLECTION])
def test_a_long_request_that_needs_no_credentials_is_refused_undecoded(channel: Any, method: str) -> None:
    for size, code in ((65_536, grpc.StatusCode.INVALID_ARGUMENT), (65_537, grpc.StatusCode.RESOURCE_EXHAUSTED)):
        with pytest.raises(grpc.RpcError) as caught:
            list(channel.stream_stream(method)(iter([b"\xff" * size]), timeout=10))
        assert caught.value.code() is code


def test_reflection_describes_every_call(channel: Any) -> None:
    listed = {entry.name for entry in reflect(channel, list_services="").list_services_response.service}
    assert listed == SERVICES | {"grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}
    for name in listed:
        described = reflect(channel, file_containing_symbol=name).file_descriptor_response.file_descriptor_proto
        assert any(name.rpartition(".")[2].encode() in file for file in described)


@pytest.mark.parametrize(
    "method",
    ["/io.deephaven.proto.backplane.grpc.TableService/SeekRow", "/arrow.flight.protocol.FlightService/PollFlightInfo"],
)
def test_a_call_that_is_not_there_says_what_this_server_is(channel: Any, method: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(method)(b"", timeout=10)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "docs/queries.md" in str(caught.value.details())


def test_an_unknown_service_is_unimplemented(channel: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary("/other.Service/Call")(b"", timeout=10)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("request_bytes", [b"\xff\xff", b"\x0a\x05ab"])
def test_a_damaged_request_is_refused(channel: Any, request_bytes: bytes) -> None:
    method = "/io.deephaven.proto.backplane.grpc.TableService/FetchTable"
    with pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(method)(request_bytes, timeout=10)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "Traceback" not in str(caught.value.details())


def log_in(channel: Any, authorization: str = "Anonymous") -> tuple[proto.ConfigurationConstantsResponse, str]:
    """What the server says of itself, and the header for later calls."""
    call = channel.unary_unary(CONFIG)
    data, answered = call.with_call(b"", timeout=10, metadata=[("authorization", authorization)])
    headers = dict(answered.initial_metadata())
    return proto.ConfigurationConstantsResponse.FromString(data), headers["authorization"]


def test_a_log_in_gives_a_bearer_and_says_how_long_it_lasts(channel: Any) -> None:
    answer, bearer = log_in(channel)
    assert answer.config_values["http.session.durationMs"].string_value == "300000"
    assert bearer.startswith("Bearer ")
    assert log_in(channel, bearer)[1] == bearer
    assert log_in(channel)[1] != bearer


def test_a_session_ends_when_its_client_has_been_silent_for_its_time() -> None:
    with Server(deephaven_port=0, limits=Limits(session_seconds=0.5)) as server, connect(server) as channel:
        _, bearer = log_in(channel)
        assert server.statistics().sessions == 1
        until(lambda: server.statistics().sessions == 0)
        with pytest.raises(grpc.RpcError) as caught:
            log_in(channel, bearer)
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_no_more_sessions_than_the_server_allows() -> None:
    with Server(deephaven_port=0, limits=Limits(sessions=2)) as server, connect(server) as channel:
        bearers = [log_in(channel)[1] for _ in range(2)]
        with pytest.raises(grpc.RpcError) as caught:
            log_in(channel)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        close = channel.unary_unary("/io.deephaven.proto.backplane.grpc.SessionService/CloseSession")
        close(b"", timeout=10, metadata=[("authorization", bearers[0])])
        log_in(channel)


def test_calls_that_show_their_credentials_each_time_leave_no_session_behind() -> None:
    with Server(deephaven_port=0) as server, connect(server) as channel:
        get = channel.unary_unary("/io.deephaven.proto.backplane.grpc.SessionService/Release")
        for _ in range(3):
            get(proto.ReleaseRequest(id=proto.Ticket(ticket=b"e\1\0\0\0")).SerializeToString(), timeout=10)
        assert server.statistics().sessions == 0


def test_a_port_in_use_is_told_and_nothing_is_left_open() -> None:
    with Server(deephaven_port=0) as first:
        assert first.deephaven_uri is not None
        port = int(first.deephaven_uri.rpartition(":")[2])
        with pytest.raises(UnavailableError, match=r"deephaven_port= \(--deephaven-port on"):
            Server(deephaven_port=port)


def test_without_the_ports_there_is_no_address() -> None:
    with Server() as server:
        assert server.deephaven_uri is None
        assert server.deephaven_web_uri is None


def test_the_endpoint_asks_for_a_token_where_the_server_has_one() -> None:
    with Server(deephaven_port=0, token="secret") as server, connect(server) as channel:
        for header in ("Anonymous", "Bearer nope", "Basic bWU6bm9wZQ==", "Basic ???", "X secret2"):
            with pytest.raises(grpc.RpcError) as caught:
                log_in(channel, header)
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        psk = "io.deephaven.authentication.psk.PskAuthenticationHandler"
        for header in ("Bearer secret", f"{psk} secret", "Basic bWU6c2VjcmV0"):
            log_in(channel, header)


def test_our_own_client_follows_through_this_endpoint_as_well() -> None:
    schema = pa.schema([("sym", pa.string()), ("price", pa.float64())])
    with Server(deephaven_port=0) as server:
        quotes = server.keyed_table("quotes", schema, key=["sym"])
        quotes.upsert({"sym": ["A", "B"], "price": [1.0, None]})
        assert server.deephaven_uri is not None
        with bs.connect(server.deephaven_uri) as client:
            assert [info.name for info in client.tables()] == ["quotes"]
            with client.subscribe("quotes", viewport=range(2), interval_ms=1) as live:
                quotes.upsert({"sym": ["A"], "price": [3.0]})
                until(lambda: live.to_arrow().to_pydict() == {"sym": ["A", "B"], "price": [3.0, None]})


def test_a_missing_package_is_named_as_an_installer_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module that is not found is called ``google``, and no package is."""
    installed = metadata.distribution

    def distribution(name: str) -> metadata.Distribution:
        if name in {"grpcio", "protobuf"}:
            raise metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(metadata, "distribution", distribution)
    for name in [name for name in sys.modules if name.startswith("barrage_server.server.deephaven.")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("google.protobuf", "google.protobuf.message"):
        monkeypatch.setitem(sys.modules, name, None)
    needs = r"needs grpcio and protobuf, which are not installed\. Run: pip install 'grpcio>=\S+' 'protobuf>=\S+'$"
    with pytest.raises(DependencyError, match=needs):
        Server(deephaven_port=0)


def test_the_deephaven_ports_keep_to_this_machine_unless_allowed() -> None:
    with pytest.raises(InvalidRequestError):
        Server("0.0.0.0", deephaven_port=0)


def unary_methods() -> list[str]:
    """The calls that begin with one request of a message of their own."""
    services = [
        service
        for module in (proto, flight_pb2, console_pb2, partitionedtable_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
    ]
    methods = [method for service in services for method in service.methods]
    return [
        f"/{method.containing_service.full_name}/{method.name}"
        for method in methods
        if not method.full_name.endswith(("FlightService.DoPut", "FlightService.DoExchange"))
        and method.input_type.fields
    ]


GRPC_METHODS = [
    *(f"/grpc.health.v1.Health/{name}" for name in ("Check", "Watch", "List")),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
]


@pytest.mark.parametrize("method", GRPC_METHODS[:3])
def test_a_call_of_grpc_s_own_without_a_request_ends(channel: Any, method: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        list(channel.stream_stream(method)(iter([]), timeout=20))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("method", [*unary_methods(), *GRPC_METHODS])
def test_a_damaged_request_of_any_call_is_refused(channel: Any, method: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is the client's fault, and said to be; the log tells of none of the server's."""
    with pytest.raises(grpc.RpcError) as caught:
        list(channel.stream_stream(method)(iter([b"\x0a\xff\xff\xff\xff"]), timeout=20))
    if method.endswith("/CloseSession"):  # done before the request is read
        return
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, caught.value
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_connection_that_breaks_within_a_message_is_no_fault_of_the_server() -> None:
    """gRPC's own errors of a broken connection become ours, which name the client."""

    class Broken:
        async def read(self) -> bytes:
            raise grpc.aio.InternalError("broken")

        async def write(self, _message: bytes) -> None:
            raise grpc.aio.UsageError("broken")

        async def send_initial_metadata(self, _metadata: object) -> None:
            raise grpc.aio.InternalError("broken")

        def invocation_metadata(self) -> None:
            return None

        def peer(self) -> str:
            return "peer"

    async def body() -> None:
        call = GrpcCall("/a/b", Broken())  # type: ignore[arg-type]
        for operation in (call.read(), call.write(b""), call.send_headers([])):
            with pytest.raises(UnavailableError, match="connection"):
                await operation

    asyncio.run(body())


def test_a_call_whose_connection_broke_waits_to_be_cancelled() -> None:
    """A status that cannot be sent gRPC would log as a fault of the server."""

    class Broken:
        async def read(self) -> bytes:
            raise grpc.aio.InternalError("broken")

        def invocation_metadata(self) -> None:
            return None

        def peer(self) -> str:
            return "peer"

        def set_code(self, _code: grpc.StatusCode) -> None:
            pass

        set_details = set_code

    async def body() -> None:
        ran = asyncio.Event()

        async def service(call: Call) -> Status:
            with suppress(UnavailableError):
                await call.read()
            ran.set()
            return Status.of("UNAVAILABLE", "gone")

        handling = asyncio.ensure_future(call_handler("/a/b", service)(None, Broken()))
        await ran.wait()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not handling.done()
        handling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await handling

    asyncio.run(body())


@pytest.mark.parametrize("call", ["AddTableToInputTable", "DeleteTableFromInputTable"])
def test_a_table_is_added_to_another_within_the_limit_of_an_upload(call: str) -> None:
    """The request is a few bytes whatever the table has, and may name one table twice, which would double it."""
    with Server(limits=Limits(put_bytes=10_000), deephaven_port=0) as server, connect(server) as channel:
        table = server.append_table("t", pa.schema([("n", pa.int64())]))
        table.append({"n": range(100_000)})
        ticket = proto.Ticket(ticket=b"s/t")
        request = proto.AddTableRequest(input_table=ticket, table_to_add=ticket).SerializeToString()
        method = channel.unary_unary(f"/io.deephaven.proto.backplane.grpc.InputTableService/{call}")
        with pytest.raises(grpc.RpcError, match="10,000 bytes"):
            method(request, timeout=20)
        assert table.size == 100_000


def test_a_server_that_closes_under_many_calls_prints_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    """gRPC's own tasks of calls that have not begun print one when they are cancelled."""
    asked = flight_pb2.Action(type="barrage.health").SerializeToString()

    def call(channel: Any, has_called: threading.Event, is_over: threading.Event) -> None:
        act = channel.unary_stream("/arrow.flight.protocol.FlightService/DoAction")
        while not is_over.is_set():
            with suppress(grpc.RpcError, ValueError):  # of a closed channel
                for answers in [act(asked, timeout=5) for _ in range(20)]:
                    next(answers)
            has_called.set()

    for _ in range(30):
        with Server(front="grpc") as server, ExitStack() as held:
            events = [(threading.Event(), threading.Event()) for _ in range(3)]
            channels = [held.enter_context(grpc.insecure_channel(f"127.0.0.1:{server.port}")) for _ in events]
            threads = [
                threading.Thread(target=call, args=(channel, *both), daemon=True)
                for channel, both in zip(channels, events, strict=True)
            ]
            for thread in threads:
                thread.start()
            for has_called, _ in events:
                assert has_called.wait(30)
            server.close(0)
            for _, is_over in events:
                is_over.set()
            for channel in channels:
                channel.close()
            for thread in threads:
                thread.join(30)
    assert "Traceback" not in capfd.readouterr().err
