"""A relay that was cut off from its upstream goes on from where it was, and so do its own subscribers."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.engine import KeyedTable
from barrage_server.flight.sockets import shut_all
from barrage_server.rowset import RowSet
from tests.live.proxy import Proxy
from tests.waiting import until

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])
QUICK = bs.RetryPolicy(first_delay=0.02, max_delay=0.2, deadline=60)
ROWS = 2000


def rows(*keys: int, text: str = "x") -> dict[str, list[Any]]:
    return {"key": list(keys), "text": [text] * len(keys)}


@pytest.fixture
def quotes() -> Iterator[tuple[bs.Server, KeyedTable]]:
    with bs.Server() as upstream:
        table = upstream.keyed_table("quotes", SCHEMA, key="key")
        table.upsert(rows(*range(ROWS)))
        yield upstream, table


def settled(live: bs.LiveTable, table: Any) -> None:
    live.wait_until(lambda live: live.to_arrow().equals(table.to_arrow()), timeout=30)


@pytest.mark.parametrize("columns", [None, ["text"]])
def test_one_update_follows_at_the_relay_and_at_its_subscribers(
    quotes: tuple[bs.Server, KeyedTable], columns: list[str] | None
) -> None:
    upstream, table = quotes
    with Proxy(upstream.port) as proxy, bs.Server() as relay:
        followed = relay.follow(f"grpc://127.0.0.1:{proxy.port}/quotes", columns=columns, interval_ms=1, max_delay=0.1)
        served = followed.table
        with bs.connect(relay.uri) as client, client.subscribe("quotes", interval_ms=1) as live:
            updates: queue.Queue[bs.Update] = queue.Queue()
            live.on_update(updates.put)
            for number in range(1, 3):
                proxy.cut()
                with upstream.cycle():
                    table.upsert(rows(5, text=f"new {number}"))
                    table.delete({"key": [number]})
                until(lambda: followed.statistics().connections == number + 1)  # noqa: B023
                update = updates.get(timeout=20)
                assert update.removed == RowSet.from_range(number, number)
                assert update.modified["text"] == RowSet.from_range(5, 5)
                assert not update.is_snapshot
                assert updates.empty()
                assert followed.table is served
                assert followed.statistics().resumed == number
                assert live.to_arrow() == table.to_arrow(columns)
                assert live.row_set == table.version.row_set
            assert live.resumed == 0  # it was not cut off itself


def test_a_subscriber_of_a_relay_comes_back_like_any_other(quotes: tuple[bs.Server, KeyedTable]) -> None:
    """Also when the relay was cut off from its upstream in between."""
    upstream, table = quotes
    with bs.Server() as relay, Proxy(relay.port) as proxy:
        followed = relay.follow(f"{upstream.uri}/quotes", interval_ms=1, max_delay=0.1)
        with (
            bs.connect(f"grpc://127.0.0.1:{proxy.port}", retry=QUICK) as client,
            client.subscribe("quotes", interval_ms=1) as live,
            client.subscribe("quotes", viewport=range(10), reverse=True, interval_ms=1) as last,
        ):
            proxy.stall()
            assert shut_all(upstream.port)
            until(lambda: followed.statistics().resumed == 1)
            table.upsert(rows(ROWS, 7, text="new"))
            until(lambda: followed.table.to_arrow().equals(table.to_arrow()))
            proxy.cut()
            proxy.resume()
            settled(live, table)
            last.wait_until(lambda last: last["key"].to_pylist()[-1] == ROWS, timeout=30)
            assert (live.resumed, last.resumed) == (1, 1)


def test_a_relay_goes_on_after_a_restart_of_an_upstream_with_a_data_directory(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with bs.Server(data_dir=folder) as upstream, bs.Server() as relay:
        port = upstream.port
        upstream.keyed_table("quotes", SCHEMA, key="key").upsert(rows(*range(ROWS)))
        followed = relay.follow(f"{upstream.uri}/quotes", interval_ms=1, max_delay=0.1)
        served = followed.table
        upstream.close()
        step = served.version.step
        with bs.Server(port=port, data_dir=folder) as again:
            followed.wait_live(30)
            until(lambda: followed.statistics().resumed == 1)
            assert followed.table is served
            assert served.version.step == step
            table = again.table("quotes")
            assert isinstance(table, KeyedTable)
            table.upsert(rows(1, text="new"))
            until(lambda: served.to_arrow().equals(table.to_arrow()))
            followed.close()
