"""TLS: traffic is encrypted with the server's certificate, and a client that does not trust it does not talk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trustme

import barrage_server as bs

SCHEMA = pa.schema([("n", pa.int64())])


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def server(authority: trustme.CA) -> Iterator[bs.Server]:
    issued = authority.issue_cert("localhost", "127.0.0.1")
    chain = b"".join(part.bytes() for part in issued.cert_chain_pems)
    with bs.Server(tls=(chain, issued.private_key_pem.bytes()), token="secret") as server:
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
    with bs.Server(tls=(chain, str(key))) as server, bs.Server() as relay:
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
    with pytest.raises(bs.InvalidRequestError, match=r"^tls \(certificate chain\).* PEM"):
        bs.Server(tls=(wrong, wrong))


def test_half_an_identity_is_refused() -> None:
    """A certificate without its key serves nothing."""
    half: Any = ("chain.pem",)
    with pytest.raises(bs.InvalidRequestError, match="tls is a pair"):
        bs.Server(tls=half)


def test_a_client_that_does_not_trust_the_certificate_is_told(server: bs.Server) -> None:
    """Another authority's certificate is not enough: nothing is sent, and the error is a typed one."""
    other = trustme.CA().cert_pem.bytes()
    with pytest.raises(bs.UnavailableError):
        bs.connect(server.uri, token="secret", tls_root_certs=other, timeout=5).tables()


def test_a_client_without_tls_is_told(server: bs.Server) -> None:
    """Plain text at an encrypted port does not get through."""
    with pytest.raises(bs.UnavailableError):
        bs.connect(server.uri.replace("grpc+tls", "grpc"), token="secret", timeout=5).tables()
