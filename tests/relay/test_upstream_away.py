"""The upstream goes away and comes back: what subscribers see stays, then exactly the difference goes to them."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from argon2 import PasswordHasher

import barrage_server as bs
from barrage_server.engine import KeyedTable, Table, TableUpdate
from barrage_server.flight.sockets import shut_all
from barrage_server.rowset import RowSet
from barrage_server.server.translate import error_counts
from tests.relay.conftest import Upstream
from tests.waiting import until

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])


def _rows(*keys: int, text: str = "x") -> pa.Table:
    return pa.table({"key": list(keys), "text": [text] * len(keys)}, schema=SCHEMA)


def _quotes(server: bs.Server, *keys: int, text: str = "x") -> KeyedTable:
    table = server.keyed_table("quotes", SCHEMA, key=["key"])
    table.upsert(_rows(*keys, text=text))
    return table


@pytest.fixture
def followed(upstream: Upstream, relay: bs.Server) -> bs.FollowedTable:
    """Rows 1, 2 and 3 of ``quotes``."""
    _quotes(upstream.server, 1, 2, 3)
    return relay.follow(f"{upstream.uri}/quotes", interval_ms=1, max_delay=0.1)


@pytest.fixture
def live(relay: bs.Server, followed: bs.FollowedTable) -> Iterator[bs.LiveTable]:
    """A subscriber of the relay."""
    with bs.connect(relay.uri) as client, client.subscribe("quotes", interval_ms=1) as live:
        yield live


def test_the_difference_goes_to_subscribers_in_one_update(
    upstream: Upstream, followed: bs.FollowedTable, live: bs.LiveTable
) -> None:
    updates: queue.Queue[bs.Update] = queue.Queue()
    live.on_update(updates.put)
    table = followed.table
    upstream.stop()
    followed.wait_for(bs.FollowedState.RECONNECTING, 20)
    assert isinstance(followed.error, bs.UnavailableError)
    assert "could not be reached again" not in str(followed.error)
    assert live.state is bs.LiveState.LIVE
    assert live.size == 3
    server = bs.Server(port=upstream.port)
    with server:
        quotes = server.keyed_table("quotes", SCHEMA, key=["key"])
        with server.cycle():
            quotes.upsert(_rows(1, 2))
            quotes.upsert(_rows(7, 8, text="new"))
        followed.wait_live(20)
        update = updates.get(timeout=20)
        while live.size != 4:  # the table may have been seen while it was still empty
            update = update.then(updates.get(timeout=20))
        assert followed.table is table
        assert (update.added, update.removed) == (RowSet.from_range(3, 3), RowSet.empty())
        assert update.modified == {"key": RowSet.from_range(2, 2), "text": RowSet.from_range(2, 2)}
        quotes.delete({"key": [1]})
        live.wait_until(lambda view: view.to_arrow().equals(quotes.to_arrow()))
        assert followed.statistics().connections == 2
        assert live.state is bs.LiveState.LIVE
    followed.close()


def test_nothing_is_told_when_nothing_differs(
    upstream: Upstream, followed: bs.FollowedTable, live: bs.LiveTable
) -> None:
    messages: queue.Queue[bs.Update] = queue.Queue()
    live.on_update(messages.put)
    step = followed.table.version.step
    assert shut_all(upstream.server.port)
    until(lambda: followed.statistics().connections == 2)
    assert followed.table.version.step == step
    assert messages.empty()
    upstream.server.table("quotes").upsert(_rows(4))  # type: ignore[attr-defined]
    assert messages.get(timeout=20).added == RowSet.from_range(3, 3)


def test_an_upstream_that_is_killed(relay: bs.Server) -> None:
    """SIGKILL: no goodbye, and nothing is left of it but its port."""
    first, uri = _serve_in_a_process(0)
    try:
        with bs.connect(uri) as client:
            client.publish("quotes", _rows(1, 2, 3), key=["key"])
        followed = relay.follow(f"{uri}/quotes", interval_ms=1, max_delay=0.1)
    finally:
        first.send_signal(signal.SIGKILL)
        first.communicate(timeout=30)
    followed.wait_for(bs.FollowedState.RECONNECTING, 30)
    assert followed.table.size == 3
    second, again = _serve_in_a_process(int(uri.rpartition(":")[2]))
    try:
        assert again == uri
        with bs.connect(uri) as client:
            client.publish("quotes", _rows(2, 3, 4, text="new"), key=["key"])
        until(lambda: followed.table.to_arrow().equals(_rows(2, 3, 4, text="new")), 30)
        followed.wait_live(30)
    finally:
        second.send_signal(signal.SIGTERM)
        second.communicate(timeout=30)


def _serve_in_a_process(port: int) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from barrage_server.cli import main; main()",
            "serve",
            "--port",
            str(port),
            "--allow-anonymous",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_a_table_that_is_dropped_upstream_stays_and_is_waited_for(
    upstream: Upstream, followed: bs.FollowedTable, live: bs.LiveTable
) -> None:
    table = followed.table
    upstream.server.drop("quotes")
    followed.wait_for(bs.FollowedState.MISSING, 20)
    assert isinstance(followed.error, bs.UnknownTableError)
    assert followed.table is table
    assert live.size == 3
    _quotes(upstream.server, 3, 4)
    live.wait_until(lambda view: view.to_arrow().equals(_rows(3, 4)), timeout=30)
    followed.wait_live(20)
    assert followed.table is table
    assert followed.error is None


def test_a_table_that_comes_back_with_other_columns_takes_the_place_of_the_old_one(
    upstream: Upstream, relay: bs.Server, followed: bs.FollowedTable, live: bs.LiveTable
) -> None:
    before = followed.table
    upstream.server.drop("quotes")
    followed.wait_for(bs.FollowedState.MISSING, 20)
    upstream.server.append_table("quotes", pa.schema([("other", pa.int8())])).append({"other": [1]})
    with pytest.raises(bs.UnknownTableError, match="dropped"):
        list(live.updates(timeout=30))
    followed.wait_live(20)
    assert followed.table is not before
    assert relay.table("quotes") is followed.table
    with bs.connect(relay.uri) as client:
        until(lambda: client.snapshot("quotes").to_pydict() == {"other": [1]})
    assert relay.table("quotes").name == "quotes"


def test_a_table_that_comes_back_with_other_keys_or_promises_is_another_one(
    upstream: Upstream, followed: bs.FollowedTable
) -> None:
    """Subscribers have been told of the keys, and that the rows are (or are not) flat, when they came."""
    assert "IsFlat" not in followed.table.attributes
    for kind, keys in (("keyed", ("text",)), ("append", ())):
        before = followed.table
        upstream.server.drop("quotes")
        followed.wait_for(bs.FollowedState.MISSING, 20)
        with bs.connect(upstream.uri) as client:
            client.create_table("quotes", SCHEMA, kind=kind, key=keys or None)
        followed.wait_live(20)
        assert followed.table is not before
        assert followed.table.key_columns == keys
        assert ("IsFlat" in followed.table.attributes) is (kind == "append")


def test_an_upstream_that_changes_its_token_is_tried_on(upstream: Upstream, relay: bs.Server) -> None:
    upstream.stop()
    with bs.Server(port=upstream.port, token="first") as server:
        _quotes(server, 1)
        followed = relay.follow(f"{upstream.uri}/quotes", token="first", interval_ms=1, max_delay=0.1)
    with bs.Server(port=upstream.port, token="second"):
        followed.wait_for(bs.FollowedState.REFUSED, 20)
        assert isinstance(followed.error, bs.AuthenticationError)
        assert followed.table.size == 1
    with bs.Server(port=upstream.port, token="first") as server:
        _quotes(server, 1, 2)
        followed.wait_live(20)
        until(lambda: followed.table.size == 2)
    followed.close()


def test_a_replica_that_failed_in_a_cycle_is_made_anew(
    upstream: Upstream, followed: bs.FollowedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before: Table = followed.table

    def fail(operations: object) -> TableUpdate:
        raise RuntimeError("a fault of the table")

    monkeypatch.setattr(before, "apply_operations", fail)
    upstream.server.table("quotes").upsert(_rows(4))  # type: ignore[attr-defined]
    until(lambda: followed.statistics().connections == 2)
    assert followed.table is not before
    assert followed.table.to_arrow().equals(_rows(1, 2, 3, 4))
    upstream.server.table("quotes").upsert(_rows(5))  # type: ignore[attr-defined]
    until(lambda: followed.table.size == 5)


def test_closing_while_the_upstream_is_away_is_quick(upstream: Upstream, relay: bs.Server) -> None:
    _quotes(upstream.server, 1)
    followed = relay.follow(f"{upstream.uri}/quotes", max_delay=60)
    upstream.stop()
    followed.wait_for(bs.FollowedState.RECONNECTING, 20)
    followed.close()
    assert followed.state is bs.FollowedState.CLOSED
    assert not relay.tables()


def test_the_log_says_that_an_upstream_came_back_empty(
    upstream: Upstream, followed: bs.FollowedTable, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.stop()
    followed.wait_for(bs.FollowedState.RECONNECTING, 20)
    with bs.Server(port=upstream.port) as server:
        server.keyed_table("quotes", SCHEMA, key=["key"])
        until(lambda: any("came back empty; what was here, 3 rows, is gone" in text for text in caplog.messages))
    followed.close()


@pytest.mark.parametrize("way", ["token", "password"])
def test_a_relay_whose_credentials_were_revoked_says_so_while_it_tries_on(
    tmp_path: Path, relay: bs.Server, way: str
) -> None:
    path = tmp_path / "credentials.toml"
    hashed = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash("right")
    secret = "[[tokens]]\ntoken = 'right'" if way == "token" else f"[[users]]\npassword = '{hashed}'"
    ann, bob = f"{secret}\nname = 'ann'\n", "[[tokens]]\nname = 'bob'\ntoken = 'other'\n"
    path.write_text(ann + bob)
    shown: dict[str, Any] = {"token": "right"} if way == "token" else {"user": "ann", "password": "right"}
    with bs.Server(token=bs.CredentialFile(path)) as server:
        _quotes(server, 1)
        followed = relay.follow(f"{server.uri}/quotes", interval_ms=1, max_delay=0.05, **shown)
        path.write_text(bob)
        followed.wait_for(bs.FollowedState.REFUSED, 20)
        refusals = error_counts().get("AuthenticationError", 0)
        until(lambda: error_counts()["AuthenticationError"] > refusals + 3)
        assert "These credentials have expired or were revoked" in str(followed.error)
        path.write_text(ann + bob)
        followed.wait_live(20)
        assert followed.error is None
    followed.close()
