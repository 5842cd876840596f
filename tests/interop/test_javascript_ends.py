"""Deephaven's JavaScript API, unmodified: log-ins, refusals, and pages that reconnect or leave nothing behind."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import trustme

from barrage_server import AuthenticationError, Server
from barrage_server.server import Limits
from barrage_server.server.authentication import Credentials
from barrage_server.subscription import SubscriptionLimits
from tests.waiting import until

from .deephaven import PSK_TYPE
from .javascript import ANONYMOUS, JavaScript, Page, extract_api, nothing_left
from .peer import PeerError

pytestmark = pytest.mark.interop

SCHEMA = pa.schema([("n", pa.int32())])


def web(**options: Any) -> Server:
    """A server for pages that tells of changes soon."""
    options = {"deephaven_web_port": 0, "subscriptions": SubscriptionLimits(default_interval_ms=1), **options}
    return Server(**options)


def url_of(server: Server) -> str:
    assert server.deephaven_web_uri is not None
    return server.deephaven_web_uri


def login(user: str, password: str) -> dict[str, str]:
    return {"type": "password", "user": user, "token": password}


@pytest.fixture
def server() -> Iterator[Server]:
    with web() as server:
        yield server
        until(lambda: nothing_left(server))


@pytest.fixture
def page(javascript: JavaScript, server: Server) -> Iterator[Page]:
    with javascript.connect(url_of(server)) as page:
        yield page


# Log-ins.


@pytest.mark.parametrize(
    "credentials",
    [
        login("ann", "secret"),
        {"type": PSK_TYPE, "token": "secret"},
        {"type": "Bearer", "token": "secret"},
    ],
    ids=["password", "psk", "bearer"],
)
def test_a_client_with_the_token_logs_in(javascript: JavaScript, credentials: Mapping[str, str]) -> None:
    with web(token="secret") as server:
        server.append_table("t", SCHEMA).append({"n": [1]})
        with javascript.connect(url_of(server), credentials) as page:
            assert page.open("t").snapshot(0, 1) == {"n": [1]}
            assert server.statistics().sessions == 1
        until(lambda: nothing_left(server))


@pytest.mark.parametrize(
    "credentials",
    [ANONYMOUS, login("ann", "wrong"), {"type": PSK_TYPE, "token": "wrong"}],
    ids=["anonymous", "password", "psk"],
)
def test_a_client_without_it_is_refused_and_may_retry(javascript: JavaScript, credentials: Mapping[str, str]) -> None:
    with web(token="secret") as server:
        with pytest.raises(PeerError):
            javascript.connect(url_of(server), credentials)
        assert server.statistics().sessions == 0
        javascript.connect(url_of(server), {"type": PSK_TYPE, "token": "secret"}).disconnect()
        until(lambda: nothing_left(server))


def test_credentials_are_for_the_application_to_judge(javascript: JavaScript) -> None:
    seen: list[Credentials] = []

    def judge(credentials: Credentials) -> str:
        seen.append(credentials)
        if credentials.user == "ann":
            return "Ann"
        raise AuthenticationError("Only Ann may come in.")

    with web(token=judge) as server:
        server.append_table("t", SCHEMA).append({"n": [1]})
        with javascript.connect(url_of(server), login("ann", "pässword: %")) as page:
            assert (seen[-1].scheme, seen[-1].secret) == ("basic", "pässword: %")
            page.open("t").look(0, 1).until({"n": [1]}, size=1)
            assert [gauges.user for gauges in server.statistics().subscriptions] == ["Ann"]
        with pytest.raises(PeerError):
            javascript.connect(url_of(server), login("bob", "x"))


def test_over_tls(tmp_path: Path) -> None:
    """With https in its address, the API takes websockets when it is asked to."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    identity = b"".join(part.bytes() for part in certificate.cert_chain_pems), certificate.private_key_pem.bytes()
    (tmp_path / "api").mkdir()
    javascript = JavaScript(
        extract_api(tmp_path / "api"), tmp_path / "storage", NODE_EXTRA_CA_CERTS=str(tmp_path / "authority.pem")
    )
    with web(tls_certificate=identity[0], tls_key=identity[1]) as server:
        try:
            table = server.append_table("t", SCHEMA)
            assert url_of(server).startswith("https://")
            with javascript.connect(url_of(server), options={"useWebsockets": True}) as page:
                view = page.open("t").look(0, 5)
                table.append({"n": [1, 2]})
                view.until({"n": [1, 2]}, size=2)
            until(lambda: nothing_left(server))
            assert javascript.faults() == []
        finally:
            javascript.close()


# What is there, and what is not.


def test_pages_hear_of_tables_that_come_and_go(server: Server, page: Page) -> None:
    server.append_table("a", SCHEMA)
    page.watch()
    assert page.fields() == {"created": ["a"], "updated": [], "removed": []}
    server.keyed_table("b", SCHEMA, key=["n"])
    assert page.fields() == {"created": ["b"], "updated": [], "removed": []}
    server.drop("a")
    assert page.fields() == {"created": [], "updated": [], "removed": ["a"]}


def test_a_table_that_comes_later_is_waited_for(server: Server, page: Page) -> None:
    timer = threading.Timer(0.2, lambda: server.append_table("late", SCHEMA).append({"n": [1]}))
    timer.start()
    assert page.open("late").size == 1
    timer.join()


def test_a_table_that_is_dropped_ends_its_viewports_and_subscriptions_with_a_word(server: Server, page: Page) -> None:
    server.append_table("t", SCHEMA).append({"n": [1]})
    table = page.open("t")
    view, whole = table.look(0, 5), table.subscribe()
    view.until({"n": [1]}, size=1)
    whole.until({"n": [1]})
    server.drop("t")
    for thing in (view, whole):
        assert "Table 't' was dropped." in thing.event("requestfailed")["text"]
    server.append_table("t", SCHEMA).append({"n": [2]})
    page.open("t").look(0, 5).until({"n": [2]}, size=1)


def test_what_cannot_be_computed_is_refused_with_a_word_and_the_table_stays(server: Server, page: Page) -> None:
    rows = server.append_table("t", SCHEMA)
    rows.append({"n": [2, 1]})
    table = page.open("t")
    page.peer.call("columns", table=table.number, added=["m = nope(n)"])
    assert "nope" in table.event("requestfailed")["text"]
    view = table.look(0, 5)
    view.until({"n": [2, 1]}, size=2)
    rows.append({"n": [3]})
    view.until({"n": [2, 1, 3]}, size=3)


# What is left.


def test_what_is_closed_leaves_nothing_while_the_page_stays(server: Server, page: Page) -> None:
    rows = server.append_table("t", SCHEMA)
    rows.append({"n": [1]})
    for _ in range(20):
        table = page.open("t")
        view, whole = table.look(0, 5), table.subscribe()
        view.until({"n": [1]}, size=1)
        whole.until({"n": [1]})
        assert len(server.statistics().subscriptions) == 2
        view.close()
        whole.close()
        table.close()
        until(lambda: not server.statistics().subscriptions)
    until(lambda: not server.statistics().exports)
    assert server.statistics().sessions == 1


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[JavaScript]:
    """A process of the API that a test may kill."""
    (tmp_path / "api").mkdir()
    javascript = JavaScript(extract_api(tmp_path / "api"), tmp_path / "storage")
    yield javascript
    javascript.close()


def test_a_page_that_vanishes_leaves_nothing(mortal: JavaScript) -> None:
    """Its streams end with its connection, its session when it was not used for its time."""
    with web(limits=Limits(session_seconds=1.5)) as server:
        server.append_table("t", SCHEMA).append({"n": [1]})
        table = mortal.connect(url_of(server)).open("t")
        table.look(0, 5).until({"n": [1]}, size=1)
        table.subscribe().until({"n": [1]})
        assert len(server.statistics().subscriptions) == 2
        mortal.peer.kill()
        until(lambda: not server.statistics().subscriptions)
        assert server.statistics().sessions == 1
        until(lambda: nothing_left(server))


def test_a_page_that_only_looks_stays_logged_in(javascript: JavaScript) -> None:
    with web(limits=Limits(session_seconds=1.0)) as server:
        rows = server.append_table("t", SCHEMA)
        with javascript.connect(url_of(server)) as page:
            view = page.open("t").look(0, 5)
            view.until({"n": []}, size=0)
            start = server.statistics().uptime_seconds
            until(lambda: server.statistics().uptime_seconds > start + 3)
            rows.append({"n": [1]})
            view.until({"n": [1]}, size=1)
            assert server.statistics().sessions == 1
        until(lambda: nothing_left(server))


# How it comes back. Viewports and subscriptions of the time before do not, with any server: they are opened anew.


class Wire:
    """A way to a server that can be cut."""

    def __init__(self, server: Server) -> None:
        self._target = int(url_of(server).rpartition(":")[2])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._let_in, daemon=True)]
        self._threads[0].start()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """End all connections, as a network does: without a word."""
        ends, self._ends = self._ends, []
        for end in ends:
            _shut(end)

    def close(self) -> None:
        _shut(self._listener)
        self.cut()
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    def _let_in(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            self._ends += [near, far]
            for source, sink in ((near, far), (far, near)):
                self._threads.append(threading.Thread(target=_carry, args=(source, sink), daemon=True))
                self._threads[-1].start()


def _carry(source: socket.socket, sink: socket.socket) -> None:
    with source:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            pass  # it was cut
        _shut(sink)


def _shut(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # it was shut before


def test_a_page_whose_connection_breaks_comes_back_with_its_session(javascript_process: JavaScript) -> None:
    with web() as server:
        wire = Wire(server)
        try:
            rows = server.append_table("t", SCHEMA)
            rows.append({"n": [1]})
            with javascript_process.connect(wire.url) as page:
                page.open("t").subscribe().until({"n": [1]})
                wire.cut()
                page.event("disconnect")
                until(lambda: not server.statistics().subscriptions)
                page.event("reconnect")
                assert server.statistics().sessions == 1
                table = page.open("t")
                view = table.look(0, 5)
                view.until({"n": [1]}, size=1)
                rows.append({"n": [2]})
                view.until({"n": [1, 2]}, size=2)
            until(lambda: nothing_left(server))
        finally:
            wire.close()
            javascript_process.faults()  # the API's own attempt to go on with the old subscription


def test_a_page_whose_server_is_started_anew_is_told_and_comes_back(javascript_process: JavaScript) -> None:
    with web() as server:
        server.append_table("t", SCHEMA).append({"n": [1]})
        page = javascript_process.connect(url_of(server))
        page.open("t").look(0, 5).until({"n": [1]}, size=1)
    page.event("shutdown")
    page.event("disconnect")
    with web(deephaven_web_port=int(url_of(server).rpartition(":")[2])) as again:
        again.append_table("t", SCHEMA).append({"n": [2]})
        page.event("reconnect")
        page.open("t").look(0, 5).until({"n": [2]}, size=1)
        page.disconnect()
        until(lambda: nothing_left(again))
    javascript_process.faults()
