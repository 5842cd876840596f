"""PEM is given as text or as the file that holds it, wherever it is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme

import barrage_server as bs
from barrage_server.pem import read_certificates, read_pem
from barrage_server.spark import BarrageSink

PEM = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def test_text_and_files_mean_the_same(tmp_path: Path) -> None:
    file = tmp_path / "chain.pem"
    file.write_bytes(PEM)
    for given in (PEM, PEM.decode(), file, str(file), str(file).encode()):
        assert read_pem(given, "tls_root_certs") == PEM


def test_what_is_neither_is_refused_with_the_name_of_the_setting(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("no certificate")
    with pytest.raises(bs.InvalidRequestError, match=r"tls_root_certs.*has no PEM text"):
        read_pem(file, "tls_root_certs")
    with pytest.raises(bs.InvalidRequestError, match=r"tls_root_certs.*cannot be read: No such file"):
        read_pem(str(tmp_path / "nothing"), "tls_root_certs")
    for impossible in ("a\0b", "x" * 5000, "", b"\xff\xfe"):
        with pytest.raises(bs.InvalidRequestError, match=r"cannot be read"):
            read_pem(impossible, "tls_root_certs")
    with pytest.raises(bs.InvalidRequestError, match=r"takes PEM text or the path"):
        read_pem(7, "tls_root_certs")  # type: ignore[arg-type]


@pytest.mark.parametrize("given", ["key", "garbage"])
def test_certificates_to_trust_are_certificates(given: str) -> None:
    issued = trustme.CA().issue_cert("localhost")
    text = {"key": issued.private_key_pem.bytes(), "garbage": PEM}[given]
    with pytest.raises(bs.InvalidRequestError, match="tls_root_certs has no certificate that can be read"):
        bs.connect("grpc+tls://127.0.0.1:1", tls_root_certs=text)
    chain = issued.cert_chain_pems[0].bytes()
    for certificates in (chain, "# Grüße\n".encode() + chain, issued.private_key_pem.bytes() + chain):
        assert read_certificates(certificates, "tls_root_certs") == certificates


def test_server_client_relay_and_sink_take_files(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost", "127.0.0.1")
    chain, key, roots = (tmp_path / f"{name}.pem" for name in ("chain", "key", "roots"))
    chain.write_bytes(b"".join(part.bytes() for part in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    roots.write_bytes(authority.cert_pem.bytes())
    with bs.Server(tls_certificate=chain, tls_key=str(key)) as server:
        with bs.connect(server.uri, tls_root_certs=roots) as client:
            client.publish("t", {"n": [1]})
        with bs.Server() as relay:
            relay.follow(f"{server.uri}/t", tls_root_certs=str(roots))
        sink = BarrageSink(server.uri, table="t", tls_root_certs=str(roots))
        assert (sink.settings.tls_root_certs or "").encode() == roots.read_bytes()
