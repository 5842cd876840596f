"""Deephaven's JavaScript API, unmodified, at the port of the page: as at its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
import trustme

from barrage_server import Server
from barrage_server.subscription import SubscriptionLimits
from tests.server.web.page_client import greeted
from tests.waiting import until

from .javascript import JavaScript, Page, extract_api, nothing_left
from .test_javascript_ends import login

pytestmark = pytest.mark.interop

SCHEMA = pa.schema([("n", pa.int32()), ("sym", pa.string())])


def served(web_port: int = 0) -> Server:
    """A server with no port for websockets but that of the page."""
    return Server(web_port=web_port, deephaven_port=0, subscriptions=SubscriptionLimits(default_interval_ms=1))


def web_uri(server: Server) -> str:
    assert server.web_uri is not None
    return server.web_uri


@pytest.fixture
def server() -> Iterator[Server]:
    with served() as server:
        yield server
        until(lambda: nothing_left(server))
        until(lambda: not server.statistics().results)


@pytest.fixture
def page(javascript: JavaScript, server: Server) -> Iterator[Page]:
    with javascript.connect(web_uri(server)) as page:
        yield page


def test_a_table_ticks_and_is_sorted_while_the_page_shows_it_too(server: Server, page: Page) -> None:
    rows = server.append_table("t", SCHEMA)
    rows.append({"n": [2, 3, 1], "sym": ["b", "a", "b"]})
    table, other = page.open("t"), page.open("t")
    whole, view = other.subscribe(), table.look(0, 9)
    view.until({"n": [2, 3, 1], "sym": ["b", "a", "b"]}, size=3)
    view.close()
    page.peer.call("sort", table=table.number, column="n", descending=True)
    view = table.look(0, 9)
    view.until({"n": [3, 2, 1], "sym": ["a", "b", "b"]}, size=3)
    with greeted(server) as own:
        shown = own.settle(own.open(1, "t"), lambda it: it.updates)
        rows.append({"n": [4, 0], "sym": ["c", "c"]})
        view.until({"n": [4, 3, 2, 1, 0], "sym": ["c", "a", "b", "b", "c"]}, size=5)
        whole.until({"n": [2, 3, 1, 4, 0], "sym": ["b", "a", "b", "c", "c"]})
        own.settle(shown, lambda it: it.size == 5)


def test_credentials_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    identity = b"".join(part.bytes() for part in certificate.cert_chain_pems), certificate.private_key_pem.bytes()
    (tmp_path / "api").mkdir()
    javascript = JavaScript(
        extract_api(tmp_path / "api"), tmp_path / "storage", NODE_EXTRA_CA_CERTS=str(tmp_path / "authority.pem")
    )
    with Server(
        web_port=0, deephaven_port=0, tls_certificate=identity[0], tls_key=identity[1], token="secret"
    ) as server:
        try:
            table = server.append_table("t", SCHEMA)
            credentials = login("ann", "secret")
            with javascript.connect(web_uri(server), credentials, options={"useWebsockets": True}) as page:
                view = page.open("t").look(0, 5)
                table.append({"n": [1, 2], "sym": ["a", None]})
                view.until({"n": [1, 2], "sym": ["a", None]}, size=2)
            until(lambda: nothing_left(server))
            assert javascript.faults() == []
        finally:
            javascript.close()


def test_a_server_that_is_started_anew_tells_its_clients_and_they_come_back(javascript_process: JavaScript) -> None:
    with served() as server:
        server.append_table("t", SCHEMA).append({"n": [1], "sym": ["a"]})
        page = javascript_process.connect(web_uri(server))
        page.open("t").look(0, 5).until({"n": [1], "sym": ["a"]}, size=1)
        closing = threading.Thread(target=server.close, kwargs={"grace": 20.0})
        closing.start()
        page.event("shutdown")
        page.event("disconnect")
        closing.join(10)
        assert not closing.is_alive(), "it does not wait for its grace"
    with served(int(web_uri(server).rpartition(":")[2])) as again:
        again.append_table("t", SCHEMA).append({"n": [2], "sym": ["b"]})
        page.event("reconnect")
        page.open("t").look(0, 5).until({"n": [2], "sym": ["b"]}, size=1)
        page.disconnect()
        until(lambda: nothing_left(again))
    javascript_process.faults()
