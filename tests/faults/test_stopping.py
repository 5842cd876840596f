"""SIGTERM and Ctrl-C end a server's process in bounded time, whatever its clients do.

A server that did not end by itself within its time would be ended by a watch in the process, with another exit status
than 0: the status says that it did.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as connect_web
from websockets.typing import Subprotocol

import barrage_server as bs
from barrage_server.cli.boundary import EXIT_INTERRUPTED, EXIT_SUCCESS, EXIT_TERMINATED
from barrage_server.wire.metadata import SubscriptionRequest
from barrage_server.wire.page_messages import SUBPROTOCOL
from tests.faults.clients import BLOBS, MANY_BYTES, SUBSCRIBE_BLOBS
from tests.server.follower import DPHN, QUICK
from tests.server.web.flight_page import FlightSocket
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)
SOON = 120.0
"""Seconds; far more than needed on a shared machine."""
MAIN = "from barrage_server.cli import main; main()"


class Served(NamedTuple):
    """A ``serve`` in a process of its own, and its URIs."""

    process: subprocess.Popen[str]
    flight: str
    grpc: str
    web: str
    page: str
    http: str

    def figures(self) -> dict[str, Any]:
        with bs.connect(self.flight) as client:
            return client.statistics()

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; the exit status, and the log."""
        self.process.send_signal(number)
        _, log = self.process.communicate(timeout=SOON)
        return self.process.returncode, log


Start = Callable[..., Served]


def begin(*flags: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "serve", "--port", "0", *flags],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("BARRAGE_")},
            "PYTHONPATH": os.pathsep.join(sys.path),
            "BARRAGE_ALLOW_ANONYMOUS": "true",
            **variables,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def held() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def start(held: ExitStack) -> Start:
    def start(*flags: str, **variables: str) -> Served:
        every = ("--deephaven-port", "0", "--deephaven-web-port", "0", "--http-port", "0")
        process = begin(*every, *flags, **variables)
        held.callback(process.communicate)
        held.callback(process.kill)
        assert process.stdout is not None
        flight, deephaven, web, page, http = (process.stdout.readline().strip() for _ in range(5))
        return Served(process, flight, deephaven.replace("dh+plain", "grpc"), web, page, http)

    return start


def own(uri: str) -> fl.FlightClient:
    """A client with a connection of its own."""
    return fl.connect(uri, generic_options=[("grpc.use_local_subchannel_pool", 1)])


def _stalled(served: Served) -> Iterator[object]:
    for uri in (served.flight, served.grpc):
        client = own(uri)
        writer, reader = client.do_exchange(DPHN)
        writer.write_metadata(SUBSCRIBE_BLOBS)
        yield client, writer, reader
    until(lambda: all(entry["writing_seconds"] > 0 for entry in _subscriptions(served, 2)), SOON)


def _subscriptions(served: Served, number: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = served.figures()["subscriptions"]
    return found if len(found) == number else [{"writing_seconds": 0}]


def _half_closed(served: Served) -> Iterator[object]:
    for uri in (served.flight, served.grpc):
        client = own(uri)
        writer, reader = client.do_exchange(DPHN)
        writer.write_metadata(SubscriptionRequest(b"s/small", options=QUICK).encode())
        writer.done_writing()
        reader.read_chunk()
        yield client, writer, reader


def _silent_exchanges(served: Served) -> Iterator[object]:
    for uri in (served.flight, served.grpc):
        client = own(uri)
        yield client, *client.do_exchange(DPHN)


def _half_open_uploads(served: Served) -> Iterator[object]:
    for uri in (served.flight, served.grpc):
        client = own(uri)
        for descriptor in (fl.FlightDescriptor.for_path("mine"), fl.FlightDescriptor.for_command(b"barrage.stage")):
            writer, reader = client.do_put(descriptor, BLOBS)
            writer.write_batch(pa.record_batch({"blob": [b"x"]}, schema=BLOBS))
            yield client, writer, reader
    until(lambda: served.figures()["uploads"] >= 2, SOON)


def _unread_downloads(served: Served) -> Iterator[object]:
    for uri in (served.flight, served.grpc):
        client = own(uri)
        yield client, client.do_get(fl.Ticket(b"s/blobs"))
    until(lambda: served.figures()["downloads"] == 2, SOON)


def _idle_connections(served: Served) -> Iterator[object]:
    for uri in (served.flight, served.grpc, served.web, served.page, served.http):
        host, _, port = uri.partition("://")[2].rpartition(":")
        for _ in range(10):
            yield socket.create_connection((host, int(port)), timeout=SOON)
    for uri in (served.flight, served.grpc):
        client = own(uri)
        list(client.list_flights())
        yield client


def opened(uri: str, subprotocol: str) -> ClientConnection:
    """A websocket, for as long as it is referenced."""
    return connect_web(uri, subprotocols=[Subprotocol(subprotocol)], open_timeout=SOON).__enter__()


def _websockets(served: Served) -> Iterator[object]:
    for _ in range(5):
        yield opened(served.web.replace("http", "ws"), "grpc-websockets-multiplex")


def _pages(served: Served) -> Iterator[object]:
    """Pages that have opened a table, and read nothing any more."""
    for _ in range(3):
        page = opened(f"{served.page.replace('http', 'ws')}/live", SUBPROTOCOL)
        page.send('{"type":"hello","version":1}')
        page.send('{"type":"open","stream":1,"table":"blobs","first":0,"count":100}')
        yield page


def _pages_of_kernels(served: Served) -> Iterator[object]:
    """The same over Flight, and some that have said nothing."""
    for uri in (served.flight, served.grpc):
        for number in range(4):
            client = own(uri)
            page = FlightSocket(client, timeout=SOON)
            page.send('{"type":"hello","version":1}')
            if number < 3:
                page.send('{"type":"open","stream":1,"table":"blobs","first":0,"count":100}')
            yield client, page


CLIENTS: dict[str, Callable[[Served], Iterator[object]]] = {
    "stalled readers": _stalled,
    "pages": _pages,
    "pages of kernels": _pages_of_kernels,
    "half-closed readers": _half_closed,
    "silent exchanges": _silent_exchanges,
    "half-open uploads": _half_open_uploads,
    "unread downloads": _unread_downloads,
    "idle connections": _idle_connections,
    "websockets": _websockets,
}


def fill(served: Served) -> None:
    with bs.connect(served.flight) as client:
        client.publish("blobs", pa.table({"blob": MANY_BYTES}, schema=BLOBS))
        client.publish("small", {"n": [1]})


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
@pytest.mark.parametrize("which", [*CLIENTS, "all"])
def test_a_server_ends_by_itself_whatever_its_clients_do(
    start: Start, held: ExitStack, which: str, number: signal.Signals
) -> None:
    served = start("--stop-seconds", "60")
    fill(served)
    kept: list[object] = []
    for clients in CLIENTS.values() if which == "all" else [CLIENTS[which]]:
        for client in clients(served):
            if isinstance(client, socket.socket):
                held.enter_context(client)
            kept.append(client)
    code, log = served.end(number)
    assert code == (EXIT_SUCCESS if number == signal.SIGTERM else EXIT_INTERRUPTED), log
    assert "Traceback" not in log
    assert "does not end" not in log
    assert "closed grpc://" in log
    del kept


STUCK = """
import threading
import barrage_server.server.server as server
server.Server.close = lambda self, grace=2.0: threading.Event().wait()
"""


def test_a_server_that_hangs_is_ended_after_its_time_and_says_so(tmp_path: Path) -> None:
    """By a watch of its own, with an exit status that says that it did not end well."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{STUCK}{MAIN}", "serve", "--port", "0", "--allow-anonymous", "--stop-seconds", "0.2"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("grpc://")
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON) == EXIT_TERMINATED
    finally:
        process.kill()
        process.communicate(timeout=SOON)


def test_it_is_ready_until_it_stops_and_good_clients_are_told(start: Start) -> None:
    served = start()
    with urllib.request.urlopen(f"{served.http}/ready", timeout=SOON) as answer:
        assert answer.read() == b"ready\n"
    fill(served)
    once = bs.RetryPolicy(deadline=0.1)
    with bs.connect(served.flight, retry=once) as client, client.subscribe("small") as live:
        code, _ = served.end(signal.SIGTERM)
        assert code == EXIT_SUCCESS
        with pytest.raises(bs.UnavailableError):
            live.wait_until(lambda _: False, timeout=SOON)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{served.http}/health", timeout=SOON)


def test_sigterm_while_it_starts_is_no_failure(tmp_path: Path) -> None:
    """Service managers stop what has just begun, too."""
    config = tmp_path / "barrage.toml"
    config.write_text("".join(f'[[tables]]\nname = "t{n}"\ncolumns = {{ n = "int64" }}\n' for n in range(2000)))
    process = begin("--config", str(config), "--log-level", "info")
    try:
        assert process.stderr is not None
        assert "serving on" in process.stderr.readline()  # it listens, and its tables are made now
        process.send_signal(signal.SIGTERM)
        assert process.wait(SOON) == EXIT_SUCCESS
    finally:
        process.kill()
        process.communicate(timeout=SOON)


@pytest.mark.parametrize("abstract", [False, True], ids=["path", "abstract"])
def test_the_service_manager_is_told_that_it_is_ready_and_that_it_stops(
    start: Start, held: ExitStack, tmp_path: Path, abstract: bool
) -> None:
    if abstract and sys.platform != "linux":
        pytest.skip("only Linux has abstract sockets")
    address = f"@barrage-test-{os.getpid()}" if abstract else str(tmp_path / "notify")
    manager = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    manager.bind("\0" + address[1:] if abstract else address)
    manager.settimeout(SOON)
    served = start(NOTIFY_SOCKET=address)
    assert manager.recv(1000) == b"READY=1"
    assert not select.select([manager], [], [], 0)[0]
    code, _ = served.end(signal.SIGTERM)
    assert code == EXIT_SUCCESS
    assert manager.recv(1000) == b"STOPPING=1"


@pytest.mark.parametrize("address", ["", "nowhere", "/nowhere/at/all", "@nobody-listens"])
def test_a_service_manager_that_is_not_there_is_no_fault(start: Start, address: str) -> None:
    code, log = start(NOTIFY_SOCKET=address).end(signal.SIGTERM)
    assert (code, "Traceback" in log) == (EXIT_SUCCESS, False)


def test_a_log_in_json_is_one_object_per_line(start: Start) -> None:
    served = start("--log-format", "json")
    user, name = "x\n{}\r\u2028\x1b[31m", 'x", "level": "{}\\'
    for uri in (served.flight, served.grpc):
        with bs.connect(uri, user=user, password="any") as client:
            client.publish(name, {"n": [1]})
            with client.subscribe(name):
                pass
            with pytest.raises(bs.UnknownTableError):
                client.snapshot(f"{name} not")
    code, log = served.end(signal.SIGTERM)
    assert code == EXIT_SUCCESS
    entries = [json.loads(line) for line in log.splitlines()]
    assert all(entry.keys() >= {"time", "level", "logger", "message"} for entry in entries)
    about = [entry for entry in entries if entry.get("principal", "").startswith("x\\n{}")]
    assert {entry.get("principal") for entry in about} == {"x\\n{}\\r\\u2028\\x1b[31m"}
    assert {entry.get("table") for entry in about} >= {name}
    assert all(re.fullmatch("[0-9a-f]{16}", entry["request_id"]) for entry in about)
    assert all(entry["peer"].startswith("127.0.0.1:") for entry in about)


def test_a_log_in_text_has_the_request_id_at_the_end_of_the_line(start: Start) -> None:
    served = start()
    fill(served)
    with bs.connect(served.flight) as client, client.subscribe("small"):
        pass
    _, log = served.end(signal.SIGTERM)
    [line] = [line for line in log.splitlines() if "subscribes to small" in line]
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \S+ INFO barrage_server\.server: \S+ subscribes to small \[[0-9a-f]{16}\]", line
    )
