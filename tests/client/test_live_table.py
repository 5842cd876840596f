"""Live tables against a real server: content, updates, windows, waiting, and their end."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.client import KEEP
from barrage_server.client import live as live_module
from barrage_server.client.view import View
from barrage_server.client.view_change import changed_view
from barrage_server.engine import UpdateGraph
from barrage_server.rowset import RowSet
from tests.waiting import until

SCHEMA = pa.schema([("sym", pa.string()), ("price", pa.float64()), ("size", pa.int32())])
DIALECTS = ["key-space", "flattened"]


def _rows(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    return pa.table({"sym": [f"s{n}" for n in numbers], "price": numbers * 0.5, "size": numbers.astype("int32")})


def _sizes(live: bs.LiveTable) -> list[int]:
    found: list[int] = live.to_arrow(["size"])["size"].to_pylist()
    return found


def test_subscribe_returns_with_the_content_and_follows(server: bs.Server, client: bs.Client) -> None:
    trades = server.append_table("trades", SCHEMA)
    trades.append(_rows(0, 3))
    with client.subscribe("trades", interval_ms=1) as live:
        assert live.state == "live"
        assert live.to_arrow().equals(_rows(0, 3).cast(live.schema))
        assert live.schema.equals(SCHEMA)
        assert (live.size, live.table_size, len(live)) == (3, 3, 3)
        assert live.row_set == RowSet.flat(3)
        assert live.step == server.graph.step
        trades.append(_rows(3, 2))
        live.wait_until(lambda table: table.size == 5)
        assert _sizes(live) == [0, 1, 2, 3, 4]
        assert "rows=5" in repr(live)
    assert live.state.is_final
    assert _sizes(live) == [0, 1, 2, 3, 4]


def test_updates_tell_what_was_and_what_is(server: bs.Server, client: bs.Client) -> None:
    quotes = server.keyed_table("quotes", SCHEMA, key=["sym"])
    quotes.upsert(_rows(0, 3))
    with client.subscribe("quotes", interval_ms=1) as live:
        updates = live.updates(timeout=20)
        assert live.key_columns == ("sym",)
        with server.cycle():
            quotes.upsert({"sym": ["s1"], "price": [9.0], "size": pa.array([1], pa.int32())})
            quotes.delete({"sym": ["s0"]})
            quotes.upsert(_rows(7, 1))
        update = next(updates)
        assert (update.added.size, update.removed.size, update.is_snapshot) == (1, 1, False)
        assert update.modified == {"sym": RowSet.empty(), "price": RowSet.from_keys([1]), "size": RowSet.empty()}
        assert update.removed_values().to_pylist() == _rows(0, 1).to_pylist()
        assert update.added_values().to_pylist() == _rows(7, 1).to_pylist()
        assert update.modified_values("price")["price"].to_pylist() == [9.0]
        assert update.modified_previous_values("price")["price"].to_pylist() == [0.5]
        assert update.modified_previous_values().to_pylist() == _rows(1, 1).to_pylist()
        assert update.step == server.graph.step


def test_what_comes_between_two_loops_is_not_lost(server: bs.Server, client: bs.Client) -> None:
    trades = server.append_table("trades", SCHEMA)
    with client.subscribe("trades", interval_ms=1) as live:
        trades.append(_rows(0, 1))
        live.wait_until(lambda table: table.size == 1)
        assert next(live.updates(timeout=20)).added == RowSet.flat(1)
        for number in range(1, 4):
            trades.append(_rows(number, 1))
        live.wait_until(lambda table: table.size == 4)
        assert [update.added for update in live.updates(timeout=0.05)] == [RowSet.from_range(1, 3)]


def test_iteration_ends_when_nothing_comes_and_when_closed(server: bs.Server, client: bs.Client) -> None:
    server.append_table("trades", SCHEMA)
    live = client.subscribe("trades")
    assert list(live.updates(timeout=0.01)) == []
    waiting = threading.Thread(target=lambda: list(live.updates()))
    waiting.start()
    live.close()
    waiting.join(10)
    assert not waiting.is_alive()


def test_callbacks_get_every_update_until_removed(server: bs.Server, client: bs.Client) -> None:
    trades = server.append_table("trades", SCHEMA)
    seen: queue.Queue[bs.Update] = queue.Queue()
    with client.subscribe("trades", interval_ms=1) as live:
        remove = live.on_update(seen.put)
        trades.append(_rows(0, 2))
        assert seen.get(timeout=20).added == RowSet.flat(2)
        remove()
        trades.append(_rows(2, 1))
        live.wait_until(lambda table: table.size == 3)
        assert seen.empty()


def test_a_callback_that_fails_is_logged_and_stays(
    server: bs.Server, client: bs.Client, caplog: pytest.LogCaptureFixture
) -> None:
    trades = server.append_table("trades", SCHEMA)
    calls: queue.Queue[int] = queue.Queue()

    def fail(update: bs.Update) -> None:
        calls.put(update.added.size)
        raise RuntimeError("the callback's own fault")

    with client.subscribe("trades", interval_ms=1) as live:
        live.on_update(fail)
        for number in range(2):
            trades.append(_rows(number, 1))
            assert calls.get(timeout=20) == 1
        assert live.state is bs.LiveState.LIVE
    assert "a callback of table 'trades' failed" in caplog.text


def test_a_callback_must_not_wait_for_its_own_subscription(server: bs.Server, client: bs.Client) -> None:
    trades = server.append_table("trades", SCHEMA)
    trades.append(_rows(0, 9))
    outcome: queue.Queue[object] = queue.Queue()

    def move(update: bs.Update) -> None:
        try:
            live.set_viewport(range(2))
        except bs.UnsupportedOperationError as error:
            outcome.put(error)
            live.set_viewport(range(2), wait=False)

    with client.subscribe("trades", viewport=range(5), reverse=True, interval_ms=1) as live:
        remove = live.on_update(move)
        trades.append(_rows(9, 1))
        assert "wait=False" in str(outcome.get(timeout=20))
        remove()
        live.wait_until(lambda table: table.size == 2)
        assert _sizes(live) == [8, 9]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_window_moves_in_both_directions(server: bs.Server, client: bs.Client, dialect: str) -> None:
    trades = server.append_table("trades", SCHEMA)
    trades.append(_rows(0, 100))
    with client.subscribe("trades", viewport=range(10, 15), dialect=dialect, interval_ms=1) as live:
        assert _sizes(live) == [10, 11, 12, 13, 14]
        assert (live.size, live.table_size) == (5, 100)
        live.set_viewport(range(12, 18))
        assert _sizes(live) == [12, 13, 14, 15, 16, 17]
        live.set_viewport(range(3), reverse=True)
        assert _sizes(live) == [97, 98, 99]
        assert live.is_reverse
        trades.append(_rows(100, 2))
        live.wait_until(lambda table: _sizes(table) == [99, 100, 101])
        assert live.table_size == 102
        live.set_viewport(range(95, 1000), reverse=False)
        assert _sizes(live) == list(range(95, 102))
        live.set_viewport([0, 50, 5])
        assert _sizes(live) == [0, 5, 50]
        live.set_viewport(range(500, 600))
        assert (live.size, live.viewport) == (0, RowSet.from_range(500, 599))
        live.set_viewport(range(0))
        assert live.size == 0


@pytest.mark.parametrize("dialect", DIALECTS)
def test_columns_change_with_the_window(server: bs.Server, client: bs.Client, dialect: str) -> None:
    server.append_table("trades", SCHEMA).append(_rows(0, 50))
    with client.subscribe("trades", ["size"], range(5), dialect=dialect) as live:
        assert live.schema.names == ["size"]
        table = live.table
        live.set_viewport(range(2, 4), ["price", "sym"])
        assert live.schema.names == ["sym", "price"]
        assert live.to_arrow().to_pylist() == _rows(2, 2).select(["sym", "price"]).to_pylist()
        live.set_viewport(range(3, 5), ["price"])
        assert live.to_arrow().to_pylist() == _rows(3, 2).select(["price"]).to_pylist()
        live.set_viewport(range(1), None)
        assert live.to_arrow().to_pylist() == _rows(0, 1).to_pylist()
        live.set_viewport(range(1, 2), KEEP)
        assert live.schema.names == SCHEMA.names
        assert live.table is not table


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_left_out_stays_as_it_is(server: bs.Server, client: bs.Client, dialect: str) -> None:
    server.append_table("trades", SCHEMA).append(_rows(0, 50))
    with client.subscribe("trades", ["size"], range(5), dialect=dialect, reverse=True) as live:
        live.set_viewport(range(2))
        assert (live.is_reverse, live.to_arrow().to_pydict()) == (True, {"size": [48, 49]})
        live.set_viewport(reverse=False)
        assert live.to_arrow().to_pydict() == {"size": [0, 1]}
        live.set_viewport(columns=["sym", "size"])
        assert (live.schema.names, _sizes(live)) == (["sym", "size"], [0, 1])
        live.set_viewport()
        assert (live.schema.names, _sizes(live)) == (["sym", "size"], [0, 1])
        with pytest.raises(bs.InvalidRequestError, match="A stop needs a start"):
            live.set_viewport(stop=5)  # type: ignore[call-overload]
        with pytest.raises(bs.InvalidRequestError, match="Columns are given once"):
            live.set_viewport(range(2), ["sym"], columns=["size"])  # type: ignore[call-overload]


def test_threads_that_change_different_things_change_both(
    server: bs.Server, client: bs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is about to change the view has the other wait, which would be lost otherwise."""
    begun, done, other = threading.Event(), threading.Event(), threading.get_ident()

    def is_held_up() -> bool:
        """Whether the other thread waits for a lock in the call."""
        frame = sys._current_frames()[other]
        called_by = frame.f_back
        return (
            frame.f_code.co_name == "__enter__" and called_by is not None and called_by.f_code.co_name == "set_viewport"
        )

    def slowly(*arguments: Any) -> View:
        view = changed_view(*arguments)
        if not begun.is_set():
            begun.set()
            until(lambda: done.is_set() or is_held_up())
        return view

    server.append_table("trades", SCHEMA).append(_rows(0, 50))
    with client.subscribe("trades", viewport=range(2)) as live, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(live_module, "changed_view", slowly)
        first = pool.submit(live.set_viewport, range(5, 7), wait=False)
        assert begun.wait(20)
        live.set_viewport(columns=["sym"], wait=False)
        done.set()
        first.result(20)
        live.set_viewport()
        assert live.to_arrow().to_pydict() == {"sym": ["s5", "s6"]}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_window_becomes_the_whole_table_and_back(server: bs.Server, client: bs.Client, dialect: str) -> None:
    trades = server.append_table("trades", SCHEMA)
    trades.append(_rows(0, 20))
    with client.subscribe("trades", viewport=range(5), dialect=dialect, interval_ms=1) as live:
        table = live.table
        updates = live.updates(timeout=20)
        live.set_viewport(None)
        assert _sizes(live) == list(range(20))
        update = next(updates)
        assert (update.is_snapshot, update.added.size, update.removed.size) == (True, 15, 0)
        trades.append(_rows(20, 1))
        live.wait_until(lambda table: table.size == 21)
        live.set_viewport(None, ["price"])
        assert live.schema.names == ["price"]
        live.set_viewport(range(3), None, reverse=True)
        assert _sizes(live) == [18, 19, 20]
        live.set_viewport(range(4))
        assert live.table is not table
        assert live.state is bs.LiveState.LIVE


def test_both_dialects_show_the_same_while_the_table_ticks(server: bs.Server, client: bs.Client) -> None:
    quotes = server.keyed_table("quotes", SCHEMA, key=["sym"])
    quotes.upsert(_rows(0, 30))
    lives = [
        client.subscribe("quotes", viewport=range(4, 12), reverse=reverse, dialect=dialect, interval_ms=1)
        for dialect in DIALECTS
        for reverse in (False, True)
    ]
    for round_ in range(20):
        with server.cycle():
            quotes.delete({"sym": [f"s{round_}"]})
            quotes.upsert(_rows(30 + round_, 2))
            quotes.upsert({"sym": ["s25"], "price": [float(round_)], "size": pa.array([25], pa.int32())})
    expected = quotes.to_arrow()
    forward = expected.slice(4, 8)
    backward = expected.slice(expected.num_rows - 12, 8)
    for live, rows in zip(lives, [forward, backward, forward, backward], strict=True):
        live.wait_until(lambda table, rows=rows: table.to_arrow().equals(rows))  # type: ignore[misc]
        live.close()


def test_the_replica_can_be_listened_to(server: bs.Server, client: bs.Client) -> None:
    trades = server.append_table("trades", SCHEMA)
    with client.subscribe("trades", interval_ms=1) as live:
        heard: queue.Queue[int] = queue.Queue()
        live.table.add_listener(lambda update, before, after: heard.put(update.added.size))
        trades.append(_rows(0, 4))
        assert heard.get(timeout=20) == 4
        assert live.table.graph is client.graph
        assert live.attributes == live.table.attributes


def test_a_growing_first_snapshot_is_complete_before_subscribe_returns(client: bs.Client, server: bs.Server) -> None:
    wide = pa.schema([(f"c{number}", pa.int8()) for number in range(40)])
    count = 500_000  # 20 M cells come in several parts
    table = server.append_table("wide", wide)
    table.append(pa.table({name: np.zeros(count, "int8") for name in wide.names}))
    with client.subscribe("wide") as live:
        assert live.size == count
        assert live.row_set == RowSet.flat(count)


def test_errors_of_requests_are_typed_and_harmless(server: bs.Server, client: bs.Client) -> None:
    server.append_table("trades", SCHEMA).append(_rows(0, 9))
    with pytest.raises(bs.UnknownTableError, match="nope"):
        client.subscribe("nope")
    with pytest.raises(bs.UnknownColumnError, match="sym, price, size"):
        client.subscribe("trades", ["nope"])
    with pytest.raises(bs.InvalidRequestError):
        client.subscribe("trades", "sym")
    with pytest.raises(bs.InvalidRequestError):
        client.subscribe("trades", [])
    with pytest.raises(bs.InvalidRequestError):
        client.subscribe("trades", interval_ms=-1)
    with pytest.raises(bs.InvalidRequestError):
        client.subscribe("trades", dialect="latin")
    with client.subscribe("trades", viewport=range(3)) as live:
        with pytest.raises(bs.UnknownColumnError, match="nope"):
            live.set_viewport(range(3), ["nope"])
        with pytest.raises(bs.UnknownColumnError):
            live.to_arrow(["nope"])
        assert live.state is bs.LiveState.LIVE
        live.set_viewport(range(2))
        assert _sizes(live) == [0, 1]


def test_waiting_has_a_deadline(server: bs.Server, client: bs.Client) -> None:
    server.append_table("trades", SCHEMA)
    with client.subscribe("trades") as live:
        with pytest.raises(bs.DeadlineError, match="did not come true"):
            live.wait_until(lambda table: table.size == 1, timeout=0.02)
        with pytest.raises(bs.DeadlineError, match="no update"):
            live.wait_for_update(timeout=0.02)


def test_a_dropped_table_ends_the_subscription_with_its_error(server: bs.Server, client: bs.Client) -> None:
    trades = server.append_table("trades", SCHEMA)
    trades.append(_rows(0, 2))
    states: queue.Queue[bs.LiveState] = queue.Queue()
    with client.subscribe("trades") as live:
        live.on_state(states.put)
        client.drop("trades")
        with pytest.raises(bs.UnknownTableError):
            list(live.updates(timeout=20))
        assert states.get(timeout=20) is bs.LiveState.FAILED
        assert isinstance(live.error, bs.UnknownTableError)
        with pytest.raises(bs.UnknownTableError):
            live.set_viewport(range(3))
        with pytest.raises(bs.UnknownTableError):
            live.wait_until(lambda table: table.size == 9)
        assert live.size == 2


def test_closing_is_final_and_may_be_repeated(server: bs.Server, client: bs.Client) -> None:
    server.append_table("trades", SCHEMA)
    live = client.subscribe("trades")
    states: list[bs.LiveState] = []
    remove = live.on_state(states.append)
    client.close()
    client.close()
    live.close()
    remove()
    assert states == [bs.LiveState.CLOSED]
    assert list(live.updates()) == []
    with pytest.raises(bs.UnavailableError, match="closed"):
        live.set_viewport(range(3))
    with pytest.raises(bs.UnavailableError, match="closed"):
        client.tables()


def test_the_server_forgets_a_subscription_that_is_closed(server: bs.Server, client: bs.Client) -> None:
    server.append_table("trades", SCHEMA)
    lives = [client.subscribe("trades") for _ in range(5)]
    assert client.statistics()["tables"][0]["subscribers"] == 5
    threads = threading.active_count()
    for live in lives:
        live.close()
    assert threading.active_count() < threads
    until(lambda: client.statistics()["tables"][0]["subscribers"] == 0)


def test_ctrl_c_ends_a_wait_at_once(server: bs.Server, client: bs.Client) -> None:
    server.append_table("trades", SCHEMA)
    with client.subscribe("trades") as live:
        timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
        start = time.monotonic()
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            for _ in live.updates(timeout=60):
                raise AssertionError("nothing was published")
        assert time.monotonic() - start < 10
        timer.join()
        assert live.state is bs.LiveState.LIVE


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_says_that_it_has_no_subscription(server: bs.Server, client: bs.Client) -> None:
    server.append_table("trades", SCHEMA).append(_rows(0, 3))
    with client.subscribe("trades") as live:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                live.set_viewport(range(1))
                found = "no error"
            except bs.UnsupportedOperationError:
                found = f"refused, {live.size} rows"
            live.close()
            os.write(writing, found.encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as answers:
            assert answers.read() == "refused, 3 rows"
        assert os.waitpid(child, 0)[1] == 0
        live.set_viewport(range(1), wait=True)
        assert live.size == 1


def test_replicas_live_in_the_graph_that_is_given(server: bs.Server) -> None:
    source = server.append_table("source", pa.schema([("x", pa.int64())]))
    graph = UpdateGraph()
    with bs.connect(server.uri, graph=graph) as client, client.subscribe("source", interval_ms=1) as live:
        assert client.graph is graph
        assert live.table.graph is graph
        source.append({"x": [1]})
        live.wait_until(lambda view: view.size == 1)
        assert graph.step > 0
