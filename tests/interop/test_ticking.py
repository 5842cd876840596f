"""Deephaven's ticking Python client, unmodified: what its listeners hear is what the engine did."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server import Server
from barrage_server.subscription import SubscriptionLimits
from tests.properties.sources import SCHEMA, make_row, to_table
from tests.waiting import until

from .listener import Listener
from .peers.arrow_text import from_text
from .python_client import Pydeephaven
from .served import KINDS, served

pytestmark = pytest.mark.interop

CHANGES = 300


@pytest.mark.parametrize("kind", KINDS)
def test_every_update_is_the_servers_own(pydeephaven: Pydeephaven, kind: str) -> None:
    """Also where several changes become one update, as those of one interval do."""
    chance = random.Random(kind)
    limits = SubscriptionLimits(default_interval_ms=10)
    with Server(deephaven_port=0, subscriptions=limits) as server, served(kind, server) as source:
        pydeephaven.log_in(server)
        source.change(chance)
        source.settle()
        with Listener(pydeephaven, source.table) as listener:
            for _ in range(CHANGES):
                source.change(chance, chance.choice([1, 1, 1, 3]))
                if chance.random() < 0.7:
                    source.settle()
                    listener.catch_up()
            source.settle()
            listener.catch_up()
            source.source.check()
            assert listener.updates > CHANGES / 3
            assert listener.coalesced > 5
            assert listener.rows["added"] > CHANGES / 3
            assert (listener.rows["removed"] > CHANGES / 3) is (kind != "append")
            assert (listener.rows["modified"] > CHANGES / 3) is (kind in ("keyed", "replaced", "moving"))
            assert (listener.rows["moved"] > CHANGES / 3) is (kind == "moving")
        until(lambda: not server.statistics().subscriptions)
        pydeephaven.execute("session.close()")


def test_a_blink_table_shows_every_row_once(server: Server, client: Pydeephaven) -> None:
    table = server.blink_table("t", pa.schema([("n", pa.int64())]))
    shown: list[int] = []
    client.peer.call("start", name="listener", table="session.open_table('t')")
    client.peer.event("listener")
    for first in range(0, 300, 3):
        table.append({"n": [first, first + 1, first + 2]})
    last: list[int] = []
    while len(shown) < 300:
        update = client.peer.event("listener")["update"]
        assert len(update["removed"]["rows"]) == len(last)
        last = _numbers(update["added"]["cells"])
        assert _numbers(update["current"]) == last
        shown += last
    assert shown == list(range(300))
    client.peer.call("stop", name="listener")


def _numbers(cells: str | None) -> list[int]:
    return [] if cells is None else list(from_text(cells)["n"].to_pylist())


def test_columns_that_change_in_different_rows_and_more_of_them_than_fit_into_a_batch(
    server: Server, client: Pydeephaven
) -> None:
    """The client asks for batches of 4,096 rows, so each of these takes several, and columns end in different ones."""
    size = 10_000
    schema = pa.schema([("key", pa.int32()), ("a", pa.float64()), ("b", pa.string()), ("c", pa.int64())])
    table = server.keyed_table("t", schema, key=["key"])

    def rows(keys: range, a: float, b: str, c: int) -> dict[str, list[object]]:
        return {"key": [*keys], "a": [a] * len(keys), "b": [b] * len(keys), "c": [c] * len(keys)}

    table.upsert(rows(range(size), 0.0, "", 0))
    with Listener(client, table) as listener:
        listener.catch_up()
        with server.cycle():
            table.upsert(rows(range(9_000), 1.0, "", 0))
            table.upsert(rows(range(8_990, 8_995), 1.0, "five", 0))
            table.upsert(rows(range(3_000, 9_000), 1.0, "", 7))
        listener.catch_up()
        with server.cycle():
            table.delete({"key": [*range(0, size, 3)]})
            table.upsert(rows(range(size, size + 9_000), 2.0, "new", 2))
            table.upsert(rows(range(1, size, 3), 0.0, "", 3))
            table.upsert({"key": [2], "a": [None], "b": [None], "c": [None]})
        listener.catch_up()
        assert (listener.updates, listener.coalesced) == (2, 0)
        assert listener.rows["modified"] > 12_000


@pytest.mark.parametrize("part_cells", [1_000, 30_000])
def test_a_first_snapshot_in_parts(pydeephaven: Pydeephaven, part_cells: int) -> None:
    """The parts add up to the rows of the table, which ``catch_up`` compares."""
    limits = SubscriptionLimits(default_interval_ms=1, snapshot_part_cells=part_cells)
    with Server(deephaven_port=0, subscriptions=limits) as server:
        table = server.append_table("t", pa.schema([("n", pa.int64()), ("text", pa.string())]))
        table.append({"n": [*range(20_000)], "text": [str(number) for number in range(20_000)]})
        pydeephaven.log_in(server)
        with Listener(pydeephaven, table) as listener:
            table.append({"n": [-1], "text": [None]})
            listener.catch_up()
        pydeephaven.execute("session.close()")


def test_an_empty_table_and_one_that_is_emptied(server: Server, client: Pydeephaven) -> None:
    table = server.keyed_table("t", pa.schema([("key", pa.int64())]), key=["key"])
    with Listener(client, table) as listener:
        listener.take()
        for keys in ([1, 2], [], [3]):
            table.replace({"key": keys})
            listener.catch_up()
        assert listener.updates == 3


def test_several_listeners_of_one_table_and_one_of_another(server: Server, client: Pydeephaven) -> None:
    keyed = server.keyed_table("keyed", SCHEMA, key=["key"])
    appended = server.append_table("appended", SCHEMA)
    client.execute("opened = session.open_table('keyed')")
    chance = random.Random(3)
    with (
        Listener(client, keyed, "first", "opened") as first,
        Listener(client, keyed, "second", "opened") as second,
        Listener(client, keyed, "third") as third,
        Listener(client, appended, "other") as other,
    ):
        until(lambda: len(server.statistics().subscriptions) == 4)
        for _ in range(50):
            rows = to_table([make_row(chance) for _ in range(4)])
            with server.cycle():
                keyed.upsert(rows)
                appended.append(rows)
        for listener in (first, second, third, other):
            listener.catch_up()
        second.close()
        keyed.upsert(to_table([make_row(chance)]))
        first.catch_up()
        third.catch_up()


def test_a_listener_that_stops_leaves_nothing(server: Server, client: Pydeephaven) -> None:
    table = server.append_table("t", pa.schema([("n", pa.int64())]))
    for number in range(10):
        with Listener(client, table) as listener:
            table.append({"n": [number]})
            listener.catch_up()
    until(lambda: not server.statistics().subscriptions)
    assert client.evaluate("[thread.name for thread in threading.enumerate() if '_process_data' in thread.name]") == []
    until(lambda: server.statistics().exports == 0)


def test_a_listener_may_stop_itself(server: Server, client: Pydeephaven) -> None:
    server.append_table("t", pa.schema([("n", pa.int64())])).append({"n": [1]})
    client.execute("heard = []; opened = session.open_table('t')")
    client.execute("handle = listen(opened, lambda update: (heard.append(update), handle.stop()))")
    client.execute("handle.start(); handle._thread.join(20)")
    assert client.evaluate("[len(heard), handle._thread.is_alive()]") == [1, False]
    until(lambda: not server.statistics().subscriptions)


def test_the_listener_hears_that_its_table_was_dropped(server: Server, client: Pydeephaven) -> None:
    table = server.append_table("t", pa.schema([("n", pa.int64())]))
    with Listener(client, table) as listener:
        listener.take()
        server.drop("t")
        assert "Table 't' was dropped." in listener.error()
    until(lambda: not server.statistics().subscriptions)


def test_the_listener_hears_that_the_server_stops(pydeephaven: Pydeephaven) -> None:
    with Server(deephaven_port=0) as server:
        table = server.append_table("t", pa.schema([("n", pa.int64())]))
        pydeephaven.log_in(server)
        listener = Listener(pydeephaven, table)
        listener.take()
    assert "The server is shutting down" in listener.error()
    listener.close()


def test_the_listener_hears_that_its_session_has_ended(server: Server, client: Pydeephaven) -> None:
    table = server.append_table("t", pa.schema([("n", pa.int64())]))
    client.log_in(server, name="other")
    with Listener(client, table, opened="other.open_table('t')") as listener:
        listener.take()
        client.execute("other.session_service.close()")
        assert "The session has ended" in listener.error()
    client.execute("other.is_connected = False")
    until(lambda: not server.statistics().subscriptions)


def test_uploads_input_tables_and_bound_tables_tick(server: Server, client: Pydeephaven) -> None:
    client.execute("t = session.import_table(pa.table({'k': [1], 's': ['a']}))")
    client.peer.call("start", name="still", table="t")
    assert client.peer.event("still")["update"]["added"]["rows"] == [0]
    client.execute("i = session.input_table(schema=t.schema, key_cols='k'); session.bind_table('typed', i)")
    table = server.table("typed")
    with Listener(client, table) as listener, bs.connect(server.uri) as ours:
        with ours.subscribe("typed", interval_ms=1) as live:
            client.execute("i.add(t)")
            listener.catch_up()
            ours.upsert("typed", {"k": [2], "s": ["b"]})
            listener.catch_up()
            client.execute("i.delete(t)")
            listener.catch_up()
            live.wait_until(lambda view: view.to_arrow().to_pylist() == [{"k": 2, "s": "b"}])
        assert listener.updates == 3
    client.peer.call("stop", name="still")
