"""Time tables: rows by the clock, their arguments, and what is left when no reference remains."""

from __future__ import annotations

import gc
import time
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

import barrage_server as bs
from barrage_server.clock import Clock
from barrage_server.engine import UpdateGraph
from barrage_server.engine.alias import own
from barrage_server.engine.time_table import BlinkTimeTable, TimeTable
from barrage_server.errors import InvalidRequestError, LimitError, UnsupportedOperationError
from tests.waiting import until

PERIOD = 20_000_000


def moments(table: bs.Table) -> list[int]:
    return [int(value) for value in table.to_arrow()["Timestamp"].cast("int64").to_pylist()]


def test_a_row_for_each_period_that_has_passed() -> None:
    table = TimeTable(UpdateGraph(), "t", 1_000, 10)
    table.advance(999)
    assert moments(table) == []
    table.advance(1_000)
    table.advance(1_009)
    assert moments(table) == [1_000]
    table.advance(1_035)
    assert moments(table) == [1_000, 1_010, 1_020, 1_030]
    assert table.next_at == 1_040


def test_a_blink_table_has_the_rows_of_its_last_cycle() -> None:
    table = BlinkTimeTable(UpdateGraph(), "t", 1_000, 10)
    table.advance(1_015)
    assert moments(table) == [1_000, 1_010]
    table.advance(1_020)
    assert moments(table) == [1_020]


def test_much_that_is_due_comes_in_several_cycles() -> None:
    table = TimeTable(UpdateGraph(), "t", 0, 1)
    table.advance(1_500_000)
    assert 0 < table.size < 1_500_000
    table.advance(1_500_000)
    assert table.size == 1_500_001


def test_it_ticks_by_itself_at_whole_periods() -> None:
    table = bs.time_table(PERIOD)
    before = time.time_ns()
    assert table.size == 1
    until(lambda: table.size >= 4)
    found = moments(table)
    assert all(after - first == PERIOD for first, after in pairwise(found))
    assert found[0] % PERIOD == 0 and found[0] <= before
    assert found[-1] <= time.time_ns()


@pytest.mark.parametrize("period", [timedelta(days=1), pd.Timedelta("24h"), np.timedelta64(1, "D")])
def test_its_period_is_any_duration(period: Any) -> None:
    assert moments(bs.time_table(period, "2024-06-15T10:00:00Z"))[:2] == [
        1_718_445_600_000_000_000,
        1_718_532_000_000_000_000,
    ]


@pytest.mark.parametrize(
    "start",
    [
        1_718_445_600_000_000_000,
        "2024-06-15T10:00:00Z",
        datetime(2024, 6, 15, 12, tzinfo=timezone(timedelta(hours=2))),
        pd.Timestamp("2024-06-15T10:00:00Z"),
        np.datetime64("2024-06-15T10:00"),
    ],
)
def test_it_starts_when_it_is_told(start: Any) -> None:
    table = bs.time_table("PT24H", start)
    assert moments(table)[:2] == [1_718_445_600_000_000_000, 1_718_532_000_000_000_000]
    assert moments(bs.time_table("PT24H", 1 << 61)) == []


def test_a_blink_table_begins_with_the_last_moment() -> None:
    table = bs.time_table("PT24H", 0, blink_table=True)
    assert table.size == 1
    assert table.traits.is_blink


def test_tables_are_computed_from_it() -> None:
    table = bs.time_table(PERIOD)
    odd = table.update("n = ii").where("n % 2 == 1")
    until(lambda: odd.size >= 2)
    assert odd.to_arrow()["n"].to_pylist()[:2] == [1, 3]


def test_a_server_serves_it() -> None:
    with bs.Server(port=0) as server:
        server.add_table("clock", bs.time_table(PERIOD, graph=server.graph))
        with bs.connect(server.uri) as client, client.subscribe("clock") as live:
            live.wait_until(lambda live: live.size >= 4, 30)
            with pytest.raises(UnsupportedOperationError):
                client.append("clock", live.to_arrow())


def test_it_ends_when_nobody_holds_it() -> None:
    clock = Clock()
    table = TimeTable(UpdateGraph(), "t", time.time_ns(), PERIOD)
    clock.add(table)
    assert len(clock) == 1
    del table

    def is_gone() -> bool:
        gc.collect()
        return len(clock) == 0

    until(is_gone)


def test_one_whose_graph_is_closed_ends_and_others_go_on() -> None:
    clock, closed, going = Clock(), UpdateGraph(), UpdateGraph()
    now = time.time_ns()
    stopped, ticking = TimeTable(closed, "a", now, PERIOD), TimeTable(going, "b", now, PERIOD)
    closed.close()
    clock.add(stopped)
    clock.add(ticking)
    until(lambda: len(clock) == 1 and ticking.size >= 2)
    assert stopped.size == 0


def test_one_that_fails_is_seen_to_fail_and_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, graph, now = Clock(), UpdateGraph(), time.time_ns()
    broken, ticking = TimeTable(graph, "a", now, PERIOD), TimeTable(graph, "b", now, PERIOD)
    follower, other = own(broken), own(ticking)

    def fail(_now: int) -> None:
        raise MemoryError

    monkeypatch.setattr(broken, "advance", fail)
    clock.add(broken)
    clock.add(ticking)
    until(lambda: follower.failure is not None and ticking.size >= 2)
    assert len(clock) == 1
    assert other.failure is None


def test_one_whose_only_follower_fails_ends() -> None:
    graph = UpdateGraph()
    table = TimeTable(graph, "a", time.time_ns(), PERIOD)
    graph.fail(own(table), LimitError("It is too large."))
    clock = Clock()
    clock.add(table)
    until(lambda: len(clock) == 0)


def test_one_can_begin_years_ago() -> None:
    start = time.time_ns() - 2_000_000 * 10**9
    table = bs.time_table("PT1S", start)
    assert table.size >= 2_000_001
    assert moments(table.tail(1)) == [start + (table.size - 1) * 10**9]


def test_too_many_rows_at_once_are_refused() -> None:
    with pytest.raises(LimitError, match="rows right away"):
        bs.time_table(1_000, 0)
    with pytest.raises(InvalidRequestError, match="period"):
        bs.time_table(999)
