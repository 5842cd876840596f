"""What a client held of a table is freed with the last reference to it, and not at some later collection of garbage."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator

import pytest

import barrage_server as bs
from barrage_server.engine import ReplicaTable, Table
from tests.waiting import until

ROWS = 1000


@pytest.fixture
def table(server: bs.Server) -> bs.KeyedTable:
    made = server.keyed_table("t", {"k": "int64", "x": "float64"}, key="k")
    made.upsert({"k": range(ROWS), "x": [0.5] * ROWS})
    return made


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def whole(client: bs.Client, table: bs.KeyedTable) -> Table:
    with client.subscribe("t", interval_ms=1) as live:
        table.upsert({"k": [ROWS], "x": [1.5]})
        live.wait_until(lambda view: view.size == ROWS + 1)
        return live.table


def moved(client: bs.Client, table: bs.KeyedTable) -> Table:
    with client.subscribe("t", viewport=range(100), interval_ms=1) as live:
        live.set_viewport(range(50, 150))
        return live.table


def other_columns(client: bs.Client, table: bs.KeyedTable) -> Table:
    with client.subscribe("t", viewport=range(100), interval_ms=1) as live:
        live.set_viewport(range(50, 150), ["x"])
        return live.table


def resumed(client: bs.Client, table: bs.KeyedTable) -> Table:
    with client.subscribe("t", interval_ms=1) as live:
        first = live.table
    table.upsert({"k": [1], "x": [2.5]})
    with client.subscribe("t", interval_ms=1, onto=first) as live:
        assert live.table is first
        return first


def computed(client: bs.Client, table: bs.KeyedTable) -> Table:
    with client.table("t").where("k < 10").subscribe(interval_ms=1) as live:
        return live.table


@pytest.mark.parametrize("subscribed", [whole, moved, other_columns, resumed, computed])
def test_a_replica_is_freed_with_the_last_reference(
    server: bs.Server, table: bs.KeyedTable, subscribed: Callable[[bs.Client, bs.KeyedTable], Table]
) -> None:
    with bs.connect(server.uri, timeout=20) as client:
        replica = subscribed(client, table)
        assert isinstance(replica, ReplicaTable)
        assert replica.to_arrow().num_rows
        held = weakref.ref(replica)
        del replica
        until(lambda: held() is None, 10, "the end of the replica")
