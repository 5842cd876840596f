"""TLS: traffic is encrypted with the server's certificate, and a client that does not trust it does not talk."""

from __future__ import annotations

from collections.abc import Iterator

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


def test_a_client_that_does_not_trust_the_certificate_is_told(server: bs.Server) -> None:
    """Another authority's certificate is not enough: nothing is sent, and the error is a typed one."""
    other = trustme.CA().cert_pem.bytes()
    with pytest.raises(bs.UnavailableError):
        bs.connect(server.uri, token="secret", tls_root_certs=other, timeout=5).tables()


def test_a_client_without_tls_is_told(server: bs.Server) -> None:
    """Plain text at an encrypted port does not get through."""
    with pytest.raises(bs.UnavailableError):
        bs.connect(server.uri.replace("grpc+tls", "grpc"), token="secret", timeout=5).tables()
