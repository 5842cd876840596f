"""The port for websockets: plain requests, origins, TLS, and addresses."""

from __future__ import annotations

import asyncio
import socket
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from barrage_server.errors import InvalidRequestError, UnavailableError
from barrage_server.server.deephaven.web_endpoint import WebEndpoint
from tests.server.deephaven.web_client import WebClient, bounded, echo, serving


class TestHttp:
    @pytest.mark.parametrize(
        ("path", "status", "says"),
        [
            ("/", 200, "dh.CoreClient"),
            ("/?x=y", 200, "dh.CoreClient"),
            ("/jsapi/dh-core.js", 404, "not shipped here"),
            ("/ide/", 404, "nothing here but websockets"),
        ],
    )
    def test_plain_http_requests_are_told_what_this_is(self, path: str, status: int, says: str) -> None:
        async def body() -> None:
            async with serving(echo) as (_, url):
                got, text = await asyncio.to_thread(fetch, url.replace("ws:", "http:") + path)
                assert (got, says in text) == (status, True)

        bounded(body)

    def test_other_subprotocols_are_refused(self) -> None:
        async def body() -> None:
            async with serving(echo) as (_, url):
                with pytest.raises(InvalidStatus) as refused:
                    async with connect(url, subprotocols=[Subprotocol("grpc-websockets")], proxy=None):
                        pass
                assert refused.value.response.status_code == 400

        bounded(body)

    @pytest.mark.parametrize("allowed", [(), "https://other.example"])
    def test_without_credentials_pages_of_strangers_are_refused(self, allowed: str | tuple[str, ...]) -> None:
        async def body() -> None:
            async with serving(echo, origins=allowed) as (_, url):
                with pytest.raises(InvalidStatus) as refused:
                    async with WebClient.at(url, origin="https://elsewhere.example"):
                        pass
                assert refused.value.response.status_code == 403
                assert b"deephaven_web_origins" in (refused.value.response.body or b"")
                for origin in (None, "http://localhost:3000"):
                    async with WebClient.at(url, origin=origin) as client:
                        assert (await client.call("a/b", b"x")).messages == [b"x"]

        bounded(body)

    def test_with_credentials_pages_of_any_origin_may_connect_because_a_browser_adds_none(self) -> None:
        async def body() -> None:
            async with serving(echo) as (_, url), WebClient.at(url, origin="https://elsewhere.example") as client:
                assert (await client.call("a/b", b"x")).messages == [b"x"]

        bounded(body)


def fetch(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


class TestListening:
    def test_it_serves_tls_and_leaves_no_key_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        authority = trustme.CA()
        certificate = authority.issue_cert("127.0.0.1")
        chain = b"".join(part.bytes() for part in certificate.cert_chain_pems)
        trusting = ssl.create_default_context()
        authority.configure_trust(trusting)

        async def body() -> None:
            front = WebEndpoint(echo)
            port = await front.start("127.0.0.1", 0, (chain, certificate.private_key_pem.bytes()))
            try:
                assert list(tmp_path.iterdir()) == []
                async with WebClient.at(f"wss://127.0.0.1:{port}", tls=trusting) as client:
                    assert (await client.call("a/b", b"x")).messages == [b"x"]
            finally:
                await front.stop(0)

        bounded(body)

    @pytest.mark.parametrize("damage", [lambda pem: b"nonsense", lambda pem: pem[:100], lambda pem: b""])
    def test_a_certificate_that_cannot_be_used_is_refused(
        self, damage: Callable[[bytes], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        certificate = trustme.CA().issue_cert("127.0.0.1")

        async def body() -> None:
            with pytest.raises(InvalidRequestError, match="TLS"):
                await WebEndpoint(echo).start(
                    "127.0.0.1",
                    0,
                    (certificate.cert_chain_pems[0].bytes(), damage(certificate.private_key_pem.bytes())),
                )

        bounded(body)
        assert list(tmp_path.iterdir()) == []

    def test_a_port_that_is_taken_is_said_to_be(self) -> None:
        async def body() -> None:
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                taken.listen()
                with pytest.raises(UnavailableError, match="in use"):
                    await WebEndpoint(echo).start("127.0.0.1", taken.getsockname()[1])

        bounded(body)

    def test_a_name_with_several_addresses_gets_one_free_port(self) -> None:
        async def body() -> None:
            front = WebEndpoint(echo)
            port = await front.start("localhost", 0)
            try:
                async with WebClient.at(f"ws://localhost:{port}") as client:
                    assert (await client.call("a/b", b"x")).messages == [b"x"]
            finally:
                await front.stop(0)

        bounded(body)
