"""The page over TLS, and through a connection that breaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme

import barrage_server as bs
from tests.browser.tab import Tab
from tests.live.proxy import Proxy

SCHEMA = {"key": "int64", "name": "string"}


@pytest.fixture
def context_options() -> dict[str, Any]:
    """The browser knows no authority for the certificate."""
    return {"ignore_https_errors": True}


@pytest.fixture
def server() -> Iterator[bs.Server]:
    certificate = trustme.CA().issue_cert("127.0.0.1")
    chain = b"".join(part.bytes() for part in certificate.cert_chain_pems)
    with bs.Server(
        web_port=0, tls_certificate=chain, tls_key=certificate.private_key_pem.bytes(), token="secret"
    ) as made:
        yield made


def test_a_table_ticks_over_tls_and_comes_back(tab: Tab, server: bs.Server) -> None:
    table = server.keyed_table("t", SCHEMA, key="key")
    table.upsert({"key": list(range(1000)), "name": [f"row {number}" for number in range(1000)]})
    assert (server.web_uri or "").startswith("https://")
    tab.may_lose_connections = True
    sockets: list[str] = []
    tab.page.on("websocket", lambda socket: sockets.append(socket.url))
    with Proxy(urlsplit(server.web_uri or "").port or 0) as proxy:
        tab.open(f"https://127.0.0.1:{proxy.port}", "t", token="secret", row="500")
        assert 500 in tab.agrees(table).rows
        assert "secret" not in tab.page.url
        table.upsert({"key": [500, 501], "name": ["changed", None]})
        tab.agrees(table)
        proxy.cut()
        table.upsert({"key": [502], "name": ["while it was away"]})
        assert 500 in tab.agrees(table).rows
    assert {urlsplit(url).scheme for url in sockets} == {"wss"}
