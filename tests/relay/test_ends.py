"""What is left after the end: nothing. And subscribers hear what has really happened."""

from __future__ import annotations

import gc
import threading
import weakref

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.engine import KeyedTable
from barrage_server.flight.sockets import shut_all
from tests.relay.conftest import Upstream
from tests.waiting import until

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])


@pytest.fixture
def quotes(upstream: Upstream) -> KeyedTable:
    table = upstream.server.keyed_table("quotes", SCHEMA, key=["key"])
    table.upsert({"key": [1, 2], "text": ["a", "b"]})
    return table


def _own_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("barrage-")}


def _until_connected(followed: bs.FollowedTable, count: int) -> None:
    until(lambda: followed.statistics().connections == count)


def test_closing_the_relay_ends_its_streams_and_threads(upstream: Upstream, quotes: KeyedTable) -> None:
    before = _own_threads()
    with bs.Server() as relay:
        following = [relay.follow(f"{upstream.uri}/quotes", name=f"copy {number}") for number in range(5)]
        assert len(upstream.server.statistics().subscriptions) == 5
        assert any(name.startswith("barrage-follow-copy") for name in _own_threads())
    assert {followed.state for followed in following} == {bs.FollowedState.CLOSED}
    until(lambda: not upstream.server.statistics().subscriptions)
    until(lambda: _own_threads() <= before | {"barrage-dispatcher"})
    for followed in following:
        followed.close()


def test_subscribers_are_told_that_the_relay_ends_and_not_that_the_table_is_dropped(
    upstream: Upstream, quotes: KeyedTable
) -> None:
    """So they wait for the relay to come back."""
    relay = bs.Server()
    relay.follow(f"{upstream.uri}/quotes")
    with bs.connect(relay.uri) as client, client.subscribe("quotes") as live:
        states: list[bs.LiveState] = []
        live.on_state(states.append)
        relay.close()
        until(lambda: bs.LiveState.RECONNECTING in states)
        assert live.size == 2


@pytest.mark.parametrize("first", ["upstream", "relay"])
def test_either_side_may_go_first(upstream: Upstream, quotes: KeyedTable, first: str) -> None:
    with bs.Server() as relay:
        followed = relay.follow(f"{upstream.uri}/quotes", max_delay=0.1)
        with bs.connect(relay.uri) as client, client.subscribe("quotes"):
            if first == "upstream":
                upstream.stop()
                followed.wait_for(bs.FollowedState.RECONNECTING, 20)
            relay.close()
    assert followed.state is bs.FollowedState.CLOSED


def test_coming_and_going_leaves_nothing_behind(upstream: Upstream, relay: bs.Server, quotes: KeyedTable) -> None:
    threads = _own_threads()
    tables = []
    for _ in range(10):
        with relay.follow(f"{upstream.uri}/quotes") as followed:
            tables.append(weakref.ref(followed.table))
    del followed
    until(lambda: not upstream.server.statistics().subscriptions)
    until(lambda: _own_threads() <= threads | {"barrage-dispatcher"})
    gc.collect()
    assert [table() for table in tables] == [None] * 10
    assert not relay.followed


def test_lost_connections_leave_nothing_behind(upstream: Upstream, relay: bs.Server, quotes: KeyedTable) -> None:
    followed = relay.follow(f"{upstream.uri}/quotes", interval_ms=1, max_delay=0.05)
    threads = _own_threads()
    for count in range(2, 12):
        assert shut_all(upstream.server.port)
        _until_connected(followed, count)
    until(lambda: len(upstream.server.statistics().subscriptions) == 1)
    assert _own_threads() <= threads | {"barrage-dispatcher"}


def test_a_relay_holds_one_replica(upstream: Upstream, relay: bs.Server) -> None:
    """What the table takes here is what it takes in the replica of any client, also after lost connections."""
    rows = upstream.server.keyed_table("big", SCHEMA, key=["key"])
    count = 50_000
    rows.upsert({"key": list(range(count)), "text": ["text"] * count})
    followed = relay.follow(f"{upstream.uri}/big", interval_ms=1, max_delay=0.05)
    with bs.connect(upstream.uri) as client, client.subscribe("big") as live:
        alone = live.table.nbytes
    del client, live
    table = followed.table
    assert table.nbytes <= alone
    assert shut_all(upstream.server.port)
    until(lambda: followed.statistics().connections == 2)
    assert followed.table is table
    assert table.nbytes <= alone
    gc.collect()
    assert sum(type(entry) is type(table) and entry.size == count for entry in gc.get_objects()) == 1


def test_figures_go_on_while_tables_come_and_go(upstream: Upstream, relay: bs.Server, quotes: KeyedTable) -> None:
    over = threading.Event()
    failures: list[BaseException] = []

    def look() -> None:
        while not over.is_set():
            try:
                relay.statistics()
                [repr(followed) for followed in relay.followed]
            except BaseException as error:
                failures.append(error)
                return

    thread = threading.Thread(target=look)
    thread.start()
    for _ in range(10):
        relay.follow(f"{upstream.uri}/quotes").close()
    over.set()
    thread.join()
    assert not failures
