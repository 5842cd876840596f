"""TLS: traffic is encrypted with the server's certificate, and a client that does not trust it does not talk."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.flight as fl
import pytest
import trustme
from cryptography.hazmat.primitives import serialization

import barrage_server as bs
from barrage_server.errors import AuthenticationError, InvalidRequestError
from barrage_server.server import http_endpoint
from tests.server.conftest import DEEPHAVEN, FLIGHT
from tests.server.follower import Follower
from tests.waiting import until

SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(params=["pyarrow", "grpc"])
def server(authority: trustme.CA, request: pytest.FixtureRequest) -> Iterator[bs.Server]:
    issued = authority.issue_cert("localhost", "127.0.0.1")
    chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
    with bs.Server(
        tls_certificate=chain, tls_key=issued.private_key_pem.bytes(), token="secret", front=request.param
    ) as server:
        server.append_table("t", SCHEMA).append({"n": [1, 2, 3]})
        yield server


def test_a_client_that_trusts_the_certificate_follows_and_publishes(server: bs.Server, authority: trustme.CA) -> None:
    """Everything works over grpc+tls as it does without."""
    assert server.uri.startswith("grpc+tls://")
    with bs.connect(server.uri, token="secret", tls_root_certs=authority.cert_pem.bytes()) as client:
        with client.subscribe("t", interval_ms=1) as live:
            client.publish("t", pa.table({"n": [4]}))
            live.wait_until(lambda table: table.size == 4, timeout=10)
            assert live.to_arrow()["n"].to_pylist() == [1, 2, 3, 4]
        assert client.snapshot("t").num_rows == 4


def test_paths_of_pem_files_do_as_well_as_their_content(authority: trustme.CA, tmp_path: Path) -> None:
    """Server, client and relay take PEM and paths alike."""
    issued = authority.issue_cert("localhost", "127.0.0.1")
    chain, key, roots = tmp_path / "chain.pem", tmp_path / "key.pem", tmp_path / "roots.pem"
    chain.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(str(key))
    authority.cert_pem.write_to_path(str(roots))
    with bs.Server(tls_certificate=chain, tls_key=str(key)) as server, bs.Server() as relay:
        server.append_table("t", SCHEMA).append({"n": [1, 2, 3]})
        for source in (roots, str(roots), roots.read_text(), roots.read_bytes()):
            with bs.connect(server.uri, tls_root_certs=source) as client:
                assert client.snapshot("t").num_rows == 3
        relay.follow(f"{server.uri}/t", tls_root_certs=str(roots), wait=10)
        assert relay.table("t").size == 3


@pytest.mark.parametrize(
    "wrong", ["none.pem", b"none.pem", Path("none.pem"), "text\nof no PEM", "\0", "", 7, "empty.pem"]
)
def test_what_is_neither_pem_nor_a_file_with_it_is_refused_at_once(
    wrong: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same words at every place that takes certificates, before any connection is tried."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.pem").touch()
    with pytest.raises(bs.InvalidRequestError, match=r"^tls_root_certs.* PEM"):
        bs.connect("grpc+tls://127.0.0.1:1", tls_root_certs=wrong)
    with bs.Server() as relay, pytest.raises(bs.InvalidRequestError, match=r"^tls_root_certs.* PEM"):
        relay.follow("grpc+tls://127.0.0.1:1/t", tls_root_certs=wrong, wait=None)
    with pytest.raises(bs.InvalidRequestError, match=r"^tls_certificate.* PEM"):
        bs.Server(tls_certificate=wrong, tls_key=wrong)


UNFIT = {
    "the key of another certificate": {"key": "other key"},
    "a key with a password": {"key": "encrypted key"},
    "a certificate as key": {"key": "chain"},
    "junk as certificate": {"chain": "junk"},
    "junk as certificates to trust": {"roots": "junk"},
    "a key as certificates to trust": {"roots": "key"},
}
"""Which of the files is replaced by which other one."""


@pytest.mark.parametrize("unfit", UNFIT)
@pytest.mark.parametrize(
    "options",
    [
        {"front": "pyarrow"},
        {"front": "grpc"},
        {"front": "pyarrow", "web_port": 0, "deephaven_port": 0, "deephaven_web_port": 0, "http_port": 0},
    ],
    ids=["pyarrow", "grpc", "all"],
)
def test_files_that_cannot_serve_are_told_before_a_port_listens(
    authority: trustme.CA, unfit: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At every front in the same words; nothing says that a port is in use."""
    chain, key = identity(authority).values()
    files = {
        "chain": chain,
        "key": key,
        "roots": authority.cert_pem.bytes(),
        "other key": identity(authority)["tls_key"],
        "encrypted key": serialization.load_pem_private_key(key, None).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        ),
        "junk": b"-----BEGIN CERTIFICATE-----\njunk\n-----END CERTIFICATE-----\n",
    }
    taken = {name: files[UNFIT[unfit].get(name, name)] for name in ("chain", "key", "roots")}
    monkeypatch.setattr(http_endpoint, "listening_socket", lambda *_: pytest.fail("a port listens"))
    words = "^tls_client_root_certs takes PEM with" if "roots" in UNFIT[unfit] else "do not fit each other"
    with pytest.raises(InvalidRequestError, match=words):
        bs.Server(
            tls_certificate=taken["chain"],
            tls_key=taken["key"],
            tls_client_root_certs=taken["roots"],
            **options,
        )


def test_half_an_identity_is_refused() -> None:
    """A certificate without its key serves nothing."""
    with bs.Server() as running:
        for call in (bs.Server, running.reload):
            with pytest.raises(bs.InvalidRequestError, match=r"^tls_certificate needs tls_key"):
                call(tls_certificate="chain.pem")
            with pytest.raises(bs.InvalidRequestError, match=r"^tls_key needs tls_certificate"):
                call(tls_key="key.pem")


def test_a_client_that_does_not_trust_the_certificate_is_told(server: bs.Server) -> None:
    """Another authority's certificate is not enough: nothing is sent, and the error is a typed one."""
    other = trustme.CA().cert_pem.bytes()
    with pytest.raises(bs.UnavailableError):
        bs.connect(server.uri, token="secret", tls_root_certs=other, timeout=5).tables()


def test_a_client_without_tls_is_told(server: bs.Server) -> None:
    """Plain text at an encrypted port does not get through."""
    with pytest.raises(bs.UnavailableError):
        bs.connect(server.uri.replace("grpc+tls", "grpc"), token="secret", timeout=5).tables()


def identity(authority: trustme.CA) -> dict[str, Any]:
    issued = authority.issue_cert("localhost", "127.0.0.1")
    chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
    return {"tls_certificate": chain, "tls_key": issued.private_key_pem.bytes()}


def connect(
    server: bs.Server, endpoint: str, authority: trustme.CA, certificate: trustme.LeafCert | None
) -> fl.FlightClient:
    uri = server.uri if endpoint == FLIGHT else (server.deephaven_uri or "").replace("dh://", "grpc+tls://")
    own = {}
    if certificate is not None:
        chain = b"".join(part.bytes() for part in certificate.cert_chain_pems)
        own = {"cert_chain": chain, "private_key": certificate.private_key_pem.bytes()}
    return fl.connect(uri, tls_root_certs=authority.cert_pem.bytes(), **own)


QUICK = fl.FlightCallOptions(timeout=20)


@pytest.mark.parametrize("endpoint", [FLIGHT, DEEPHAVEN])
def test_a_client_certificate_is_a_way_in(authority: trustme.CA, endpoint: str) -> None:
    """By itself, with the name in it; a client without one, or with one of another authority, does not connect."""
    other = trustme.CA()
    with bs.Server(**identity(authority), tls_client_root_certs=authority.cert_pem.bytes(), deephaven_port=0) as server:
        table = server.append_table("t", SCHEMA)
        table.append({"n": [1]})
        with connect(server, endpoint, authority, authority.issue_cert("feed.example.com")) as client:
            assert len(list(client.list_flights(b"", QUICK))) == 1
            assert client.do_get(fl.Ticket(b"s/t"), QUICK).read_all().num_rows == 1
            with Follower(client, "t") as follower:
                follower.wait(lambda follower: follower.rows)
                assert [entry.user for entry in server.statistics().subscriptions] == ["feed.example.com"]
            header = (b"authorization", b"Bearer anything")
            with pytest.raises(fl.FlightUnauthenticatedError):
                list(client.list_flights(b"", fl.FlightCallOptions(headers=[header], timeout=20)))
        for certificate in (None, other.issue_cert("feed.example.com")):
            with (
                connect(server, endpoint, authority, certificate) as client,
                pytest.raises((pa.ArrowException, OSError)),
            ):
                list(client.list_flights(b"", fl.FlightCallOptions(timeout=5)))


@pytest.mark.parametrize("endpoint", [FLIGHT, DEEPHAVEN])
def test_an_entry_gives_a_certificate_its_roles_and_takes_them(
    authority: trustme.CA, endpoint: str, tmp_path: Path
) -> None:
    path = tmp_path / "credentials.toml"
    entry = "[[certificates]]\nidentity = 'feed.example.com'\nname = 'feed'\nroles = ['reader']\n"
    path.write_text(entry)
    roles = {"reader": bs.Role(["t"], ["list", "read"])}
    with bs.Server(
        **identity(authority),
        tls_client_root_certs=authority.cert_pem.bytes(),
        token=[bs.CredentialFile(path), "shared"],
        roles=roles,
        deephaven_port=0,
    ) as server:
        for name in ("t", "u"):
            server.append_table(name, SCHEMA).append({"n": [1]})
        with connect(server, endpoint, authority, authority.issue_cert("unknown.example.com")) as client:
            with pytest.raises(fl.FlightUnauthenticatedError):
                list(client.list_flights(b"", QUICK))
            for scheme in (b"client certificate", b"certificate", b"Bearer"):  # saying so is not showing it
                header = (b"authorization", scheme + b" feed.example.com")
                with pytest.raises(fl.FlightUnauthenticatedError):
                    list(client.list_flights(b"", fl.FlightCallOptions(headers=[header], timeout=20)))
            # what the headers have comes before the certificate
            header = (b"authorization", b"Bearer shared")
            assert list(client.list_flights(b"", fl.FlightCallOptions(headers=[header], timeout=20))) == []
        with connect(server, endpoint, authority, authority.issue_cert("feed.example.com")) as client:
            assert [info.descriptor.path[1] for info in client.list_flights(b"", QUICK)] == [b"t"]
            follower = Follower(client, "t")
            follower.wait(lambda follower: follower.rows)
            path.write_text(entry.replace("feed.", "other."))
            until(lambda: follower.ended)
            assert type(follower.error) is AuthenticationError
            follower.close()


PORTS: dict[str, tuple[dict[str, Any], Callable[[bs.Server], str | None]]] = {
    "Flight, grpc": ({"front": "grpc"}, lambda server: server.uri),
    "Deephaven": ({"deephaven_port": 0}, lambda server: server.deephaven_uri),
    "Deephaven, web": ({"deephaven_web_port": 0}, lambda server: server.deephaven_web_uri),
    "page": ({"web_port": 0}, lambda server: server.web_uri),
    "page and Deephaven": ({"web_port": 0, "deephaven_port": 0}, lambda server: server.web_uri),
}
"""The ports that can present another certificate, and their addresses."""


def shows(uri: str | None, roots: trustme.CA) -> bool:
    """Whether the certificate that a new connection gets is one of that authority."""
    place = urlsplit(uri or "")
    assert place.hostname is not None
    context = ssl.create_default_context(cadata=roots.cert_pem.bytes().decode())
    context.set_alpn_protocols(["h2", "http/1.1"])
    with socket.create_connection((place.hostname, place.port or 0), timeout=20) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=place.hostname):
                return True
        except ssl.SSLCertVerificationError:
            return False


@pytest.mark.parametrize("port", PORTS)
def test_certificates_are_exchanged_while_the_server_runs(authority: trustme.CA, port: str) -> None:
    """At every port but one of pyarrow, for new connections; a pair that does not fit changes nothing."""
    other = trustme.CA()
    options, uri = PORTS[port]
    with bs.Server(**identity(authority), **options) as server:
        assert shows(uri(server), authority)
        for _ in range(2):
            with pytest.raises(InvalidRequestError, match="do not fit"):
                server.reload(**(identity(authority) | {"tls_certificate": identity(other)["tls_certificate"]}))
            assert shows(uri(server), authority)
        server.reload(**identity(other))
        assert shows(uri(server), other)
        assert not shows(uri(server), authority)


def test_a_connection_outlives_the_exchange_of_certificates(authority: trustme.CA) -> None:
    with (
        bs.Server(**identity(authority), front="grpc") as server,
        connect(server, FLIGHT, authority, None) as client,
    ):
        table = server.append_table("t", SCHEMA)
        with Follower(client, "t") as follower:
            server.reload(**identity(trustme.CA()))
            table.append({"n": [1]})
            follower.wait(lambda follower: follower.rows)


def test_a_port_of_pyarrow_keeps_its_certificate_and_the_log_tells(
    authority: trustme.CA, caplog: pytest.LogCaptureFixture
) -> None:
    other = trustme.CA()
    with bs.Server(**identity(authority), front="pyarrow", web_port=0) as server:
        with pytest.raises(InvalidRequestError, match="do not fit"):
            server.reload(**(identity(authority) | {"tls_certificate": identity(other)["tls_certificate"]}))
        server.reload(**identity(other))
        assert shows(server.uri, authority)
        assert shows(server.web_uri, other)
        assert f"{server.uri} keeps its certificate" in caplog.text


def test_a_server_without_tls_takes_no_certificate(authority: trustme.CA) -> None:
    with bs.Server() as server, pytest.raises(InvalidRequestError, match="has no TLS"):
        server.reload(**identity(authority))


def test_client_certificates_need_tls(authority: trustme.CA) -> None:
    with pytest.raises(InvalidRequestError, match="tls_client_root_certs is for a server with tls_certificate"):
        bs.Server(tls_client_root_certs=authority.cert_pem.bytes())
