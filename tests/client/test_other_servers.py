"""What answers at an address is told apart when the client is made: another program, another port, another server."""

from __future__ import annotations

import http.server
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pyarrow as pa
import pyarrow.flight as fl
import pytest
import trustme

import barrage_server as bs


class OtherFlightServer(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """A server of Arrow Flight that knows no Barrage."""

    def list_actions(self, context: fl.ServerCallContext) -> list[fl.ActionType]:
        return []


@pytest.fixture
def other_flight() -> Iterator[int]:
    with OtherFlightServer("grpc://127.0.0.1:0") as server:
        yield server.port


@pytest.fixture
def web_server() -> Iterator[int]:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            serving.join(30)


def test_a_program_that_speaks_no_grpc_is_told_at_once(web_server: int) -> None:
    """Waiting for the server does not help, so it is not done."""
    started = time.monotonic()
    with pytest.raises(bs.InvalidRequestError, match=rf"at grpc://127\.0\.0\.1:{web_server} does not speak gRPC"):
        bs.connect(f"grpc://127.0.0.1:{web_server}", wait=600)
    assert time.monotonic() - started < 60


def test_a_banner_of_another_protocol_is_told_at_once() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")
                connection.recv(1)

        greeting = threading.Thread(target=greet)
        greeting.start()
        with pytest.raises(bs.InvalidRequestError, match="does not speak gRPC"):
            bs.connect(f"127.0.0.1:{listener.getsockname()[1]}", wait=600)
        greeting.join(30)


@pytest.mark.parametrize("scheme", ["grpc+tls", "dh"])
def test_tls_to_a_port_without_it_is_told_at_once(scheme: str) -> None:
    with bs.Server(deephaven_port=0) as server:
        port = server.port if scheme == "grpc+tls" else str(server.deephaven_uri).rpartition(":")[2]
        with pytest.raises(bs.InvalidRequestError, match="does not use TLS: write grpc://"):
            bs.connect(f"{scheme}://127.0.0.1:{port}", wait=600)


def test_no_tls_to_a_port_with_it_is_hinted_at() -> None:
    issued = trustme.CA().issue_cert("127.0.0.1")
    identity = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    with (
        bs.Server(tls_certificate=identity[0], tls_key=identity[1]) as server,
        pytest.raises(bs.UnavailableError, match=r"is it a port for TLS"),
    ):
        bs.connect(f"grpc://127.0.0.1:{server.port}")


def test_a_certificate_that_is_not_trusted_is_named() -> None:
    issued = trustme.CA().issue_cert("127.0.0.1")
    identity = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    with (
        bs.Server(tls_certificate=identity[0], tls_key=identity[1]) as server,
        pytest.raises(bs.UnavailableError, match="the certificate is not trusted"),
    ):
        bs.connect(server.uri, tls_root_certs=trustme.CA().cert_pem.bytes())


def test_a_certificate_for_another_name_is_told() -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    identity = issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()
    with (
        bs.Server(tls_certificate=identity[0], tls_key=identity[1]) as server,
        pytest.raises(bs.UnavailableError, match="a name that the certificate is"),
    ):
        bs.connect(server.uri, tls_root_certs=authority.cert_pem.bytes())


def test_a_port_for_browsers_is_hinted_at() -> None:
    with bs.Server(deephaven_web_port=0) as server:
        uri = str(server.deephaven_web_uri)
        with pytest.raises(bs.InvalidRequestError, match=r"write grpc://"):
            bs.connect(uri)
        with pytest.raises(bs.UnavailableError, match="or for browsers"):
            bs.connect(uri.replace("http", "grpc"))


def test_a_deephaven_address_of_another_flight_server_is_refused(other_flight: int) -> None:
    with pytest.raises(bs.InvalidRequestError, match=rf"not a Deephaven server: write grpc://127.0.0.1:{other_flight}"):
        bs.connect(f"dh+plain://127.0.0.1:{other_flight}")


def test_a_flight_server_without_barrage_says_so_when_it_is_asked(other_flight: int) -> None:
    """It may well have what the plain calls of Flight need."""
    with (
        bs.connect(f"grpc://127.0.0.1:{other_flight}") as client,
        pytest.raises(bs.UnsupportedOperationError, match="knows no Barrage"),
        client.subscribe("quotes"),
    ):
        pass


@pytest.mark.parametrize("deephaven_port", [False, True])
@pytest.mark.parametrize("scheme", ["grpc", "dh+plain"])
def test_either_way_of_writing_finds_a_server_of_this_project(scheme: str, deephaven_port: bool) -> None:
    """Both ports, written in both ways, serve the same."""
    with bs.Server(deephaven_port=0) as server:
        server.append_table("t", pa.schema([("n", pa.int64())])).append({"n": [1]})
        port = str(server.deephaven_uri).rpartition(":")[2] if deephaven_port else server.port
        with bs.connect(f"{scheme}://127.0.0.1:{port}") as client, client.subscribe("t") as live:
            assert live.to_arrow().to_pydict() == {"n": [1]}
