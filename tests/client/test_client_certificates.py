"""A client with a certificate of its own, for servers that require one: ``connect`` and ``follow``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

import barrage_server as bs
from barrage_server.pem import read_identity

TLS = "grpc+tls://127.0.0.1:1"


class Issuer:
    """An authority for a server and for its clients."""

    def __init__(self) -> None:
        self.authority = trustme.CA()
        self.roots = self.authority.cert_pem.bytes()

    def pair(self, *names: str) -> tuple[bytes, bytes]:
        """A certificate chain, and its private key."""
        issued = self.authority.issue_cert(*names)
        return b"".join(part.bytes() for part in issued.cert_chain_pems), issued.private_key_pem.bytes()

    def client(self, name: str) -> dict[str, Any]:
        """The arguments of a client."""
        chain, key = self.pair(name)
        return {"tls_root_certs": self.roots, "tls_certificate": chain, "tls_key": key}


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture(params=["pyarrow", "grpc"])
def server(issuer: Issuer, request: pytest.FixtureRequest) -> Iterator[bs.Server]:
    """A server that requires client certificates, with a table of three rows."""
    tls = issuer.pair("127.0.0.1")
    with bs.Server(
        tls_certificate=tls[0],
        tls_key=tls[1],
        tls_client_root_certs=issuer.roots,
        front=request.param,
        deephaven_port=0,
    ) as server:
        server.append_table("t", {"n": "int64"}).append({"n": [1, 2, 3]})
        yield server


@pytest.mark.parametrize("port", ["uri", "deephaven_uri"])
def test_a_client_with_a_certificate_is_known_by_its_name(server: bs.Server, issuer: Issuer, port: str) -> None:
    """Every way of calling shows it: Flight's, and with sessions gRPC's beside them."""
    with bs.connect(getattr(server, port), **issuer.client("feed.example.com")) as client:
        with client.subscribe("t", interval_ms=1) as live:
            assert [entry.user for entry in server.statistics().subscriptions] == ["feed.example.com"]
            client.publish("t", {"n": [4]})
            live.wait_until(lambda table: table.size == 4, timeout=20)
        assert client.table("t").where("n > 2").to_arrow().to_pydict() == {"n": [3, 4]}


def test_text_and_paths_mean_the_same(server: bs.Server, issuer: Issuer, tmp_path: Path) -> None:
    chain, key = issuer.pair("feed.example.com")
    files = tmp_path / "chain.pem", tmp_path / "key.pem"
    for file, text in zip(files, (chain, key), strict=True):
        file.write_bytes(text)
    for given in ((chain, key), (chain.decode(), key.decode()), files, tuple(map(str, files))):
        with bs.connect(server.uri, tls_root_certs=issuer.roots, tls_certificate=given[0], tls_key=given[1]) as client:
            assert client.snapshot("t").num_rows == 3


@pytest.mark.parametrize("port", ["uri", "deephaven_uri"])
def test_a_relay_shows_its_certificate_upstream(server: bs.Server, issuer: Issuer, port: str) -> None:
    uri = getattr(server, port)
    path = "t" if port == "uri" else "scope/t"
    with bs.Server() as relay:
        followed = relay.follow(f"{uri}/{path}", "copy", **issuer.client("relay.example.com"), wait=20)
        assert relay.table("copy").size == 3
        assert [entry.user for entry in server.statistics().subscriptions] == ["relay.example.com"]
        assert "PRIVATE" not in repr(followed)


@pytest.mark.parametrize("port", ["uri", "deephaven_uri"])
def test_without_a_certificate_or_with_a_foreign_one_the_error_names_it(
    server: bs.Server, issuer: Issuer, port: str
) -> None:
    foreign = Issuer().client("feed.example.com") | {"tls_root_certs": issuer.roots}
    for given in ({"tls_root_certs": issuer.roots}, foreign):
        with pytest.raises(bs.UnavailableError, match=r"want a client certificate \(tls_certificate=, tls_key=\)"):
            bs.connect(getattr(server, port), **given)


def test_one_of_the_pair_is_not_enough(issuer: Issuer) -> None:
    chain, key = issuer.pair("feed.example.com")
    with bs.Server() as relay:
        for call in (lambda **given: bs.connect(TLS, **given), lambda **given: relay.follow(f"{TLS}/t", **given)):
            with pytest.raises(bs.InvalidRequestError, match=r"^tls_certificate needs tls_key"):
                call(tls_certificate=chain)
            with pytest.raises(bs.InvalidRequestError, match=r"^tls_key needs tls_certificate") as told:
                call(tls_key=key)
            assert "PRIVATE" not in str(told.value)


@pytest.mark.parametrize(
    ("uri", "advice"),
    [
        ("grpc://127.0.0.1:1", "as in grpc\\+tls://127.0.0.1:1;"),
        ("127.0.0.1:1", "as in grpc\\+tls://127.0.0.1:1;"),
        ("dh+plain://127.0.0.1:1", "as in dh://127.0.0.1:1;"),
    ],
)
def test_an_address_without_tls_is_refused(issuer: Issuer, uri: str, advice: str) -> None:
    given = issuer.client("feed.example.com")
    with pytest.raises(bs.InvalidRequestError, match=rf"^tls_certificate and tls_key are for .*TLS, {advice}"):
        bs.connect(uri, **given)
    path = "scope/t" if uri.startswith("dh") else "t"
    with bs.Server() as relay, pytest.raises(bs.InvalidRequestError, match=advice):
        relay.follow(f"{uri}/{path}", **given, wait=None)


def test_a_socket_of_this_machine_has_no_tls(issuer: Issuer) -> None:
    with pytest.raises(bs.InvalidRequestError, match="which this address cannot have"):
        bs.connect("grpc+unix:///tmp/nothing", **issuer.client("feed.example.com"))


def test_a_pair_that_does_not_fit_is_refused_before_it_is_shown(issuer: Issuer) -> None:
    chain, _ = issuer.pair("feed.example.com")
    _, key = issuer.pair("other.example.com")
    for wrong in ((chain, key), (key, chain), (chain, chain)):
        with pytest.raises(bs.InvalidRequestError, match=r"^tls_certificate and tls_key do not fit each other") as told:
            bs.connect(TLS, tls_certificate=wrong[0], tls_key=wrong[1])
        assert "BEGIN" not in str(told.value)


def test_a_damaged_key_is_in_no_error(issuer: Issuer, tmp_path: Path) -> None:
    """Text without its first line could be a path; what it says is kept."""
    chain, key = issuer.pair("feed.example.com")
    damaged = key.decode().partition("\n")[2]
    texts: list[Any] = [damaged, damaged.encode(), damaged[:60], 7]
    for wrong in texts:
        with pytest.raises(bs.InvalidRequestError, match=r"^tls_key takes PEM text or the path") as told:
            bs.connect(TLS, tls_certificate=chain, tls_key=wrong)
        assert damaged[:30] not in str(told.value)
    missing = tmp_path / "none.pem"
    with pytest.raises(bs.InvalidRequestError, match=r"none\.pem.* cannot be read: No such file"):
        read_identity(chain, missing)
    missing.write_text("hunter2")
    with pytest.raises(bs.InvalidRequestError, match=r"none\.pem.* has no PEM text") as told:
        read_identity(chain, missing)
    assert "hunter2" not in str(told.value)
