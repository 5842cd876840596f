"""A live table that comes back goes on from where it was: at every port, after a cut and after a restart."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

import barrage_server as bs
from barrage_server.engine import UpdateNode
from barrage_server.server.resumption import Resumption
from barrage_server.subscription import Dialect
from barrage_server.wire.metadata import SubscriptionOptions, SubscriptionRequest
from barrage_server.wire.reader import MessageReader
from barrage_server.wire.resume import LINEAGE_KEY, ResumePoint
from barrage_server.wire.tickets import DPHN, scope_ticket
from tests.live.proxy import Proxy
from tests.server.conftest import ENDPOINTS, address, endpoints
from tests.waiting import until

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])
QUICK = bs.RetryPolicy(first_delay=0.02, max_delay=0.2, deadline=60)
SERVE = """
import sys, barrage_server as bs
with bs.Server(port=int(sys.argv[1]), data_dir=sys.argv[2], fsync="os") as server:
    print(server.port, flush=True)
    sys.stdin.read()
"""


def rows(*keys: int, text: str = "x") -> dict[str, list[Any]]:
    return {"key": list(keys), "text": [text] * len(keys)}


@pytest.fixture(params=ENDPOINTS)
def endpoint(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextmanager
def behind_proxy(server: bs.Server, endpoint: str) -> Iterator[tuple[Proxy, bs.Client]]:
    port = int(address(server, endpoint).rpartition(":")[2])
    with Proxy(port) as proxy, bs.connect(f"grpc://127.0.0.1:{proxy.port}", retry=QUICK, timeout=30) as client:
        yield proxy, client


def content(live: bs.LiveTable) -> tuple[list[int], list[dict[str, Any]]]:
    return live.row_set.keys().tolist(), live.to_arrow().to_pylist()


def caught_up(live: bs.LiveTable, table: Any) -> None:
    live.wait_until(lambda live: live.step == table.version.step and live.state is bs.LiveState.LIVE, timeout=30)


VIEWS: dict[str, dict[str, Any]] = {
    "full": {},
    "columns": {"columns": ["text"]},
    "viewport": {"viewport": range(100, 150)},
    "reverse": {"viewport": range(20), "reverse": True},
    "flattened": {"viewport": range(100, 150), "dialect": Dialect.FLATTENED},
}


def test_after_a_cut_one_update_follows_and_no_snapshot(endpoint: str) -> None:
    with bs.Server(**endpoints(endpoint)) as server, behind_proxy(server, endpoint) as (proxy, client):
        table = server.keyed_table("t", SCHEMA, key="key")
        table.upsert(rows(*range(1000)))
        lives = {name: client.subscribe("t", interval_ms=1, **view) for name, view in VIEWS.items()}
        told: dict[str, list[bs.Update]] = {name: [] for name in VIEWS}
        for name, live in lives.items():
            live.on_update(told[name].append)
        for number in range(3):
            before = {name: live.table for name, live in lives.items()}
            proxy.cut()
            table.upsert(rows(5, 120, 2000 + number, text=f"new {number}"))
            table.delete({"key": [number, 101 + number, 999 - number]})
            table.upsert(rows(130, text=f"newer {number}"))
            for live in lives.values():
                caught_up(live, table)
            for name, live in lives.items():
                with client.subscribe("t", interval_ms=1, **VIEWS[name]) as fresh:
                    assert content(live) == content(fresh), name
                assert live.resumed == number + 1, name
                assert live.table is before[name]
        for name, updates in told.items():
            assert updates, name
            assert not any(update.is_snapshot for update in updates), name
            assert all(update.before is not update.after for update in updates)
        assert server.statistics().retained_bytes > 0


def test_a_cut_without_changes_is_no_update(endpoint: str) -> None:
    with bs.Server(**endpoints(endpoint)) as server, behind_proxy(server, endpoint) as (proxy, client):
        table = server.append_table("t", SCHEMA)
        table.append(rows(1, 2))
        with client.subscribe("t", interval_ms=1) as live:
            told: list[bs.Update] = []
            live.on_update(told.append)
            proxy.cut()
            live.wait_until(lambda live: live.resumed == 1, timeout=30)
            table.append(rows(3))
            caught_up(live, table)
            assert [update.added.size for update in told] == [1]


def drop_and_make_again(server: bs.Server) -> None:
    server.drop("t")
    server.keyed_table("t", SCHEMA, key="key").upsert(rows(*range(500, 1600)))


def exchange(server: bs.Server) -> None:
    """Another table of the same name is registered."""
    server.drop("t")
    server.add_table("t", bs.table(pa.table(rows(*range(5)), schema=SCHEMA), key="key"))


@pytest.mark.parametrize("happens", [drop_and_make_again, exchange])
def test_another_table_of_the_name_is_not_gone_on_from(happens: Callable[[bs.Server], None], endpoint: str) -> None:
    with bs.Server(**endpoints(endpoint)) as server, behind_proxy(server, endpoint) as (proxy, client):
        table = server.keyed_table("t", SCHEMA, key="key")
        table.upsert(rows(*range(1000)))
        with client.subscribe("t", interval_ms=1) as live:
            caught_up(live, table)
            proxy.stall()
            happens(server)
            proxy.cut()
            proxy.resume()
            caught_up(live, server.table("t"))
            live.wait_until(lambda live: live.size == server.table("t").size, timeout=30)
            assert live.to_arrow() == server.table("t").to_arrow()
            assert live.resumed == 0


def test_without_retained_bytes_a_snapshot_follows() -> None:
    with bs.Server(limits=bs.Limits(retain_bytes=0)) as server, behind_proxy(server, ENDPOINTS[0]) as (proxy, client):
        table = server.keyed_table("t", SCHEMA, key="key")
        table.upsert(rows(*range(1000)))
        with client.subscribe("t", interval_ms=1) as live:
            told: list[bs.Update] = []
            live.on_update(told.append)
            proxy.cut()
            table.upsert(rows(5, text="new"))
            caught_up(live, table)
            assert live.resumed == 0
            assert [update.is_snapshot for update in told] == [True]
            assert live.to_arrow() == table.to_arrow()


NO_POINTS = [
    "",
    "?",
    " ",
    "a",
    "a b",
    "a -1",
    "{lineage} 99999999999999999999999",
    "{lineage} 1000000",
    "{lineage} 0",
    "{lineage}x 2",
    "x{lineage} 2",
    "0/1/2 2",
    "// 2",
    "a" * 5000 + " 2",
    "{lineage} 2 2",
    "{lineage}\t2",
    "\u00ff\u00fe 2",
    "{lineage} \u0663",
]


def test_a_point_that_is_none_leads_to_a_snapshot(endpoint: str) -> None:
    with bs.Server(**endpoints(endpoint)) as server, fl.connect(address(server, endpoint)) as client:
        table = server.keyed_table("t", SCHEMA, key="key")
        table.upsert(rows(1))
        table.upsert(rows(2))
        schema, is_snapshot = _first(client, b"?")
        assert is_snapshot
        lineage = schema.metadata[LINEAGE_KEY].decode()
        for point in NO_POINTS:
            header = point.format(lineage=lineage).encode()
            try:
                assert _first(client, header)[1], point
            except (fl.FlightError, pa.ArrowException):  # gRPC does not send such a header
                assert any(not 32 <= byte < 127 for byte in header), point
            assert _first(client, f"{lineage} 2".encode())[1] is False


def test_a_point_is_rebuilt_beside_the_event_loop(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may take as long as a snapshot; other clients need the loop."""
    on_loop: list[bool] = []
    rebuild = Resumption.resume

    def noted(self: Resumption, point: ResumePoint, *others: Any) -> UpdateNode | None:
        if point.lineage:
            try:
                asyncio.get_running_loop()
                on_loop.append(True)
            except RuntimeError:
                on_loop.append(False)
        return rebuild(self, point, *others)

    monkeypatch.setattr(Resumption, "resume", noted)
    with bs.Server(**endpoints(endpoint)) as server, behind_proxy(server, endpoint) as (proxy, client):
        table = server.keyed_table("t", SCHEMA, key="key")
        table.upsert(rows(*range(100)))
        with client.subscribe("t", viewport=range(10), interval_ms=1) as live:
            proxy.cut()
            table.upsert(rows(5, text="new"))
            live.wait_until(lambda live: live["text"].to_pylist()[5] == "new", timeout=30)
            assert live.resumed == 1
    assert on_loop == [False] * len(on_loop) != []


def test_a_client_that_does_not_ask_is_told_nothing(endpoint: str) -> None:
    with bs.Server(**endpoints(endpoint)) as server, fl.connect(address(server, endpoint)) as client:
        server.keyed_table("t", SCHEMA, key="key").upsert(rows(1))
        schema, is_snapshot = _first(client, None)
        assert is_snapshot
        assert LINEAGE_KEY not in (schema.metadata or {})


def _first(client: fl.FlightClient, point: bytes | None) -> tuple[pa.Schema, bool]:
    """The schema of a subscription, and whether its first message is a snapshot."""
    headers = [(b"barrage-viewport", b"key-space")]
    if point is not None:
        headers.append((b"barrage-resume", point))
    options = fl.FlightCallOptions(headers=headers, timeout=30)
    writer, reader = client.do_exchange(fl.FlightDescriptor.for_command(DPHN), options)
    request = SubscriptionRequest(scope_ticket("t"), options=SubscriptionOptions(columns_as_list=True))
    writer.write_metadata(request.encode())
    messages = MessageReader(reader.schema)
    try:
        while True:
            chunk = reader.read_chunk()
            if chunk.data is not None:
                message = messages.feed(chunk.data, chunk.app_metadata.to_pybytes())
                if message is not None:
                    return reader.schema, message.metadata.is_snapshot
    finally:
        reader.cancel()
        with suppress(fl.FlightError):
            writer.close()


class Served:
    """A server with a data directory, as a process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-c", SERVE, str(self.port), str(self.folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self._gone()

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._gone()

    def _gone(self) -> None:
        self.process.wait(30)
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    server = Served(tmp_path / "data")
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()


@contextmanager
def followed(served: Served) -> Iterator[tuple[bs.Client, dict[str, bs.LiveTable]]]:
    """A client of the process, and live tables that have its first content."""
    with bs.connect(f"grpc://127.0.0.1:{served.port}", retry=QUICK, timeout=30) as client:
        client.create_table("t", SCHEMA, key="key")
        client.publish("t", rows(*range(1000)))
        client.publish("t", rows(1, text="new"))
        views = {name: VIEWS[name] for name in ("full", "viewport", "reverse")}
        yield client, {name: client.subscribe("t", interval_ms=1, **view) for name, view in views.items()}


def back(lives: dict[str, bs.LiveTable], client: bs.Client, text: str) -> None:
    """Return when all have what is published now."""
    client.publish("t", rows(110, 5, 999, text=text))
    for live in lives.values():
        live.wait_until(lambda live: text in live["text"].to_pylist(), timeout=30)
    expected = client.snapshot("t")
    assert lives["full"].to_arrow() == expected
    assert lives["viewport"].to_arrow() == expected.slice(100, 50)
    assert lives["reverse"].to_arrow() == expected.slice(len(expected) - 20)


@pytest.mark.parametrize("ends", [Served.kill, Served.close])
def test_after_a_restart_with_a_data_directory_an_update_follows(
    served: Served, ends: Callable[[Served], None]
) -> None:
    with followed(served) as (client, lives):
        for number in range(1, 3):
            step = client.publish("t", rows(number, text=f"before {number}"))
            assert step is not None
            lives["full"].wait_until(lambda live: f"before {number}" in live["text"].to_pylist(), timeout=30)  # noqa: B023
            ends(served)
            until(lambda: all(live.state is bs.LiveState.RECONNECTING for live in lives.values()), what="all are lost")
            served.start()
            for live in lives.values():
                live.wait_until(lambda live: live.state is bs.LiveState.LIVE, timeout=30)
            assert {live.resumed for live in lives.values()} == {number}
            back(lives, client, f"after {number}")


def test_a_client_that_was_away_comes_back_after_what_was_journalled_meanwhile(served: Served) -> None:
    """It misses changes, then the server is killed: what the recovery repeats is its history."""
    with (
        Proxy(served.port) as proxy,
        followed(served) as (writer, _),
        bs.connect(f"grpc://127.0.0.1:{proxy.port}", retry=QUICK, timeout=30) as client,
    ):
        live = client.subscribe("t", interval_ms=1)
        proxy.stall()
        writer.publish("t", rows(7, 8, 4000, text="missed"))
        writer.publish("t", pa.table({"key": [9]}), mode="delete")
        served.kill()
        proxy.cut()
        served.start()
        proxy.resume()
        live.wait_until(lambda live: live.resumed == 1 and live.state is bs.LiveState.LIVE, timeout=30)
        with bs.connect(f"grpc://127.0.0.1:{served.port}") as other:
            assert live.to_arrow() == other.snapshot("t")
        assert live.to_arrow()["text"].to_pylist().count("missed") == 3


def test_what_a_crash_has_lost_leads_to_a_snapshot(served: Served) -> None:
    """Subscribers saw steps that were not on disk: the same steps are others now."""
    with followed(served) as (client, lives):
        segment = max((served.folder / "journal").glob("*.log"))
        size = segment.stat().st_size
        client.publish("t", rows(3, 2000, text="lost"))
        for live in lives.values():
            live.wait_until(lambda live: live.table_size == 1001, timeout=30)
        served.kill()
        with segment.open("r+b") as file:
            file.truncate(size)
        served.start()
        with bs.connect(f"grpc://127.0.0.1:{served.port}") as other:
            other.publish("t", rows(4, text="instead"))
            back(lives, other, "after")
        assert {live.resumed for live in lives.values()} == {0}
        served.kill()  # from the new steps they come back as usual
        served.start()
        with bs.connect(f"grpc://127.0.0.1:{served.port}") as other:
            back(lives, other, "after that")
        assert {live.resumed for live in lives.values()} == {1}


def test_tables_in_memory_are_others_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with bs.Server(data_dir=folder) as server:
        port = server.port
        server.create_table("t", SCHEMA, key="key", durable=False)
        server.table("t").upsert(rows(1, 2))  # type: ignore[attr-defined]
        client = bs.connect(server.uri, retry=QUICK, timeout=30)
        live = client.subscribe("t", interval_ms=1)
    with client, bs.Server(port=port, data_dir=folder) as server:
        server.create_table("t", SCHEMA, key="key", durable=False)
        server.table("t").upsert(rows(1, 3))  # type: ignore[attr-defined]
        live.wait_until(lambda live: live["key"].to_pylist() == [1, 3], timeout=30)
        assert live.resumed == 0
