"""Lost connections: the live table stays, says so, and comes back with one update."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from argon2 import PasswordHasher

import barrage_server as bs
from barrage_server.rowset import RowSet
from tests.live.proxy import Proxy
from tests.ports import free_port
from tests.waiting import until

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])
IDLE = 64
"""Bytes that an idle connection sends at most: a ping, an acknowledgement. A request is longer."""
QUICK = bs.RetryPolicy(first_delay=0.02, max_delay=0.2, deadline=60)


def _rows(*keys: int, text: str = "x") -> pa.Table:
    return pa.table({"key": list(keys), "text": [text] * len(keys)}, schema=SCHEMA)


def _serve(port: int, *keys: int, text: str = "x") -> bs.Server:
    server = bs.Server(host="127.0.0.1", port=port)
    server.add_table("t", bs.table(_rows(*keys, text=text), key=["key"]))  # with its rows: a client may be quick
    return server


@pytest.mark.parametrize("dialect", list(bs.Dialect))
def test_a_server_that_restarts_is_found_again(dialect: bs.Dialect) -> None:
    port = free_port()
    states: queue.Queue[bs.LiveState] = queue.Queue()
    with _serve(port, 1, 2, 3) as first:
        client = bs.connect(first.uri, retry=QUICK, timeout=30)
        whole = client.subscribe("t", interval_ms=1)
        window = client.subscribe("t", viewport=range(2), reverse=True, dialect=dialect, interval_ms=1)
        whole.on_state(states.put)
        table = whole.table
    assert states.get(timeout=20) is bs.LiveState.RECONNECTING
    assert whole.size == 3
    updates = whole.updates(timeout=30)
    with client, _serve(port, 2, 3, 4, text="new") as second:
        update = next(updates)
        assert update.is_snapshot
        assert update.removed.is_empty
        assert update.modified == {"key": RowSet.flat(3), "text": RowSet.flat(3)}
        assert states.get(timeout=20) is bs.LiveState.LIVE
        assert whole.to_arrow().equals(_rows(2, 3, 4, text="new"))
        assert whole.table is table
        second.table("t").upsert(_rows(5))  # type: ignore[attr-defined]
        whole.wait_until(lambda view: view.size == 4)
        window.wait_until(lambda view: view.to_arrow()["key"].to_pylist() == [4, 5])
        window.set_viewport(range(3), reverse=False)
        assert window.to_arrow()["key"].to_pylist() == [2, 3, 4]


def test_a_subscription_survives_that_its_idle_connection_is_closed_just_now() -> None:
    """Servers and proxies close what stood idle; a request that crosses that on the way is made once more."""
    with (
        bs.Server(port=0) as server,
        Proxy(int(server.uri.rpartition(":")[2])) as proxy,
        bs.connect(f"grpc://127.0.0.1:{proxy.port}") as client,
        ThreadPoolExecutor(1) as pool,
    ):
        server.keyed_table("t", SCHEMA, key=["key"]).upsert(_rows(1, 2))
        proxy.stall()
        subscribing = pool.submit(client.subscribe, "t")
        until(lambda: proxy.held > IDLE, what="the request is on its way")
        proxy.cut()
        proxy.resume()
        with subscribing.result(60) as live:
            assert live.size == 2


def test_a_table_that_comes_later_than_its_server_is_waited_for() -> None:
    port = free_port()
    with _serve(port, 1) as first:
        client = bs.connect(first.uri, retry=QUICK)
        live = client.subscribe("t")
    with client, bs.Server(host="127.0.0.1", port=port) as second:
        second.append_table("other", SCHEMA)
        live.wait_until(lambda view: view.state is bs.LiveState.RECONNECTING)
        assert bs.connect(second.uri).tables()[0].name == "other"
        second.keyed_table("t", SCHEMA, key=["key"]).upsert(_rows(7, 8))
        live.wait_until(lambda view: view.size == 2, timeout=30)


def test_a_view_that_is_asked_for_meanwhile_is_what_comes_back() -> None:
    port = free_port()
    with _serve(port, *range(10)) as first:
        client = bs.connect(first.uri, retry=QUICK)
        live = client.subscribe("t", viewport=range(2))
    live.wait_until(lambda view: view.state is bs.LiveState.RECONNECTING)
    with pytest.raises(bs.DeadlineError):
        live.set_viewport(range(5, 8), ["key"], timeout=0.05)
    with client, _serve(port, *range(10)):
        live.wait_until(lambda view: view.to_arrow().to_pydict() == {"key": [5, 6, 7]}, timeout=30)


def test_a_table_that_comes_back_with_other_columns_ends_it() -> None:
    port = free_port()
    with _serve(port, 1) as first:
        client = bs.connect(first.uri, retry=QUICK)
        live = client.subscribe("t")
    with client, bs.Server(host="127.0.0.1", port=port) as second:
        second.append_table("t", pa.schema([("other", pa.int8())]))
        with pytest.raises(bs.SchemaMismatchError, match="Subscribe again"):
            list(live.updates(timeout=30))
        assert live.state is bs.LiveState.FAILED
        assert live.size == 1


def test_without_retries_the_first_loss_is_final() -> None:
    with _serve(0, 1) as server:
        client = bs.connect(server.uri, retry=bs.RetryPolicy.never())
        live = client.subscribe("t")
    with client, pytest.raises(bs.UnavailableError, match="could not be reached again"):
        list(live.updates(timeout=30))


def test_closing_while_the_connection_is_lost_is_quick() -> None:
    with _serve(0, 1) as server:
        client = bs.connect(server.uri, retry=bs.RetryPolicy(first_delay=50, max_delay=60))
        live = client.subscribe("t")
    live.wait_until(lambda view: view.state is bs.LiveState.RECONNECTING)
    client.close()
    assert live.state is bs.LiveState.CLOSED


def test_no_server_at_the_address() -> None:
    with pytest.raises(bs.UnavailableError, match="No connection to grpc://127"):
        bs.connect(f"grpc://127.0.0.1:{free_port()}", timeout=5)


def test_a_server_that_is_not_there_yet_is_waited_for() -> None:
    port = free_port()
    servers: list[bs.Server] = []
    starter = threading.Timer(0.3, lambda: servers.append(_serve(port, 1)))
    starter.start()
    try:
        with bs.connect(f"127.0.0.1:{port}", wait=30) as client:
            assert client.table("t").size <= 1
    finally:
        starter.join()
        for server in servers:
            server.close()


@pytest.mark.parametrize("uri", ["", "http://here:80", "grpc://", "nonsense://here"])
def test_addresses_are_checked(uri: str) -> None:
    with pytest.raises(bs.InvalidRequestError, match="grpc://host:port"):
        bs.connect(uri)


def test_the_token_is_sent_and_its_lack_is_told() -> None:
    with bs.Server(host="127.0.0.1", port=0, token="secret") as server:
        server.append_table("t", SCHEMA)
        for token in (None, "wrong"):
            with pytest.raises(bs.AuthenticationError):
                bs.connect(server.uri, token=token)
        with bs.connect(server.uri, token="secret") as client, client.subscribe("t") as live:
            assert live.size == 0


@pytest.mark.parametrize("front", ["pyarrow", "grpc"])
@pytest.mark.parametrize("way", ["token", "password"])
def test_a_changed_entry_of_valid_credentials_ends_no_live_table(tmp_path: Path, front: str, way: str) -> None:
    path = tmp_path / "credentials.toml"
    entry = "[[tokens]]\ntoken = 'right'\n"
    if way == "password":
        entry = f"[[users]]\npassword = '{PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash('right')}'\n"
    path.write_text(f"{entry}name = 'ann'\n")
    with bs.Server(port=0, front=front, token=bs.CredentialFile(path)) as server:
        table = server.append_table("t", SCHEMA)
        if way == "password":
            client = bs.connect(server.uri, retry=QUICK, user="ann", password="right")
        else:
            client = bs.connect(server.uri, retry=QUICK, token="right")
        with client, client.subscribe("t") as live:
            states: queue.Queue[bs.LiveState] = queue.Queue()
            live.on_state(states.put)
            path.write_text(f"{entry}name = 'ann'\nexpires = 2100-01-01T00:00:00Z\n")
            assert states.get(timeout=20) is bs.LiveState.RECONNECTING
            assert states.get(timeout=20) is bs.LiveState.LIVE
            table.append({"key": [1], "text": ["a"]})
            live.wait_until(lambda live: live.size == 1, timeout=20)
            path.write_text("[[tokens]]\nname = 'bob'\ntoken = 'other'\n")
            assert states.get(timeout=20) is bs.LiveState.RECONNECTING
            assert states.get(timeout=20) is bs.LiveState.FAILED
            with pytest.raises(bs.AuthenticationError, match=r"^These credentials have expired or were revoked"):
                live.wait_until(lambda live: live.size == 2, timeout=20)
            assert live.error is not None and "The token is missing or wrong" in str(live.error.__cause__)


FRONTS = pytest.mark.parametrize("front", [{"front": "pyarrow"}, {"front": "grpc"}, {"deephaven_port": 0}], ids=str)


def _revoked(path: Path, *, revoke: bool) -> None:
    """A file of credentials with those of ann, or without."""
    tokens = {"bob": "other"} if revoke else {"ann": "right", "bob": "other"}
    path.write_text("".join(f"[[tokens]]\nname = '{name}'\ntoken = '{token}'\n" for name, token in tokens.items()))


@FRONTS
def test_without_retries_the_error_is_that_of_the_credentials_and_the_log_names_their_holder(
    tmp_path: Path, front: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "credentials.toml"
    _revoked(path, revoke=False)
    with bs.Server(token=bs.CredentialFile(path), **front) as server:
        server.append_table("t", SCHEMA)
        uri = server.deephaven_uri or server.uri
        with bs.connect(uri, token="right", retry=bs.RetryPolicy.never()) as client, client.subscribe("t") as live:
            _revoked(path, revoke=True)
            with pytest.raises(bs.AuthenticationError, match=r"^These credentials have expired or were revoked"):
                live.wait_until(lambda live: live.size == 1, timeout=20)
    assert any(
        "These credentials have expired or were revoked" in line and "(those of 'ann' were revoked or changed)" in line
        for line in caplog.messages
    )


@FRONTS
def test_a_publication_whose_credentials_were_revoked_says_so(tmp_path: Path, front: dict[str, Any]) -> None:
    path = tmp_path / "credentials.toml"
    _revoked(path, revoke=False)
    with bs.Server(token=bs.CredentialFile(path), **front) as server, bs.Server() as local:
        uri = server.deephaven_uri or server.uri
        table = local.append_table("t", SCHEMA)
        with bs.connect(uri, token="right") as client:
            publication = client.publish_live("p", table)
            _revoked(path, revoke=True)
            until(lambda: not publication.is_open, 20)
            with pytest.raises(bs.AuthenticationError, match="credentials") as caught:
                publication.close()
            if front == {"front": "pyarrow"}:  # which cuts the connection, and can send no reason
                assert isinstance(caught.value.__cause__, bs.UnavailableError)
            else:
                assert str(caught.value).startswith("These credentials have expired or were revoked")
