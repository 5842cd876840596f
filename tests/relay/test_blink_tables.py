"""Rows of a blink table pass a relay once: none is missed while it is connected, and none comes twice."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.engine import BlinkTable, DerivedTable
from tests.engine.operators import OneRow, attached, count
from tests.relay.conftest import Upstream
from tests.waiting import until

SCHEMA = pa.schema([("x", pa.int64()), ("text", pa.string())])


def _rows(*numbers: int) -> dict[str, list[object]]:
    return {"x": list(numbers), "text": ["x"] * len(numbers)}


@pytest.fixture
def events(upstream: Upstream) -> BlinkTable:
    return upstream.server.blink_table("events", SCHEMA)


@pytest.fixture
def followed(upstream: Upstream, relay: bs.Server, events: BlinkTable) -> bs.FollowedTable:
    return relay.follow(f"{upstream.uri}/events", interval_ms=1, max_delay=0.1)


class Heard:
    """What a subscriber of the relay has got."""

    def __init__(self, uri: str, name: str = "events", interval_ms: int = 1) -> None:
        self.numbers: list[int] = []
        self.client = bs.connect(uri)
        self.live = self.client.subscribe(name, interval_ms=interval_ms, on_update=self._add)

    def _add(self, update: bs.Update) -> None:
        self.numbers += update.added_values(["x"])["x"].to_pylist()


@pytest.fixture
def quick(relay: bs.Server, followed: bs.FollowedTable) -> Iterator[Heard]:
    heard = Heard(relay.uri)
    with heard.client:
        yield heard


@pytest.fixture
def slow(relay: bs.Server, followed: bs.FollowedTable) -> Iterator[Heard]:
    """Looks far less often than the table blinks."""
    heard = Heard(relay.uri, interval_ms=250)
    with heard.client:
        yield heard


def test_every_row_once_however_slow_the_subscriber(events: BlinkTable, quick: Heard, slow: Heard) -> None:
    sent: list[int] = []
    for number in range(200):
        numbers = range(number * 10, number * 10 + number % 4)
        events.append({"x": list(numbers), "text": ["x"] * len(numbers)})
        sent += numbers
    until(lambda: len(quick.numbers) >= len(sent) and len(slow.numbers) >= len(sent), 30)
    assert quick.numbers == slow.numbers == sent


def test_it_is_a_blink_table_here_too(events: BlinkTable, relay: bs.Server, followed: bs.FollowedTable) -> None:
    events.append(_rows(1, 2))
    until(lambda: followed.statistics().updates)
    assert followed.table.attributes["BlinkTable"] is True
    until(lambda: followed.table.size == 2)
    relay.append_table("other", SCHEMA).append(_rows(5))  # any cycle here lets the rows blink out
    assert followed.table.size == 0


def test_rows_go_with_those_upstream(
    upstream: Upstream, events: BlinkTable, relay: bs.Server, followed: bs.FollowedTable
) -> None:
    """At rest it has the rows that the upstream has, though no cycle of the relay's own runs."""
    with bs.connect(relay.uri) as client, client.subscribe("events", viewport=range(10), interval_ms=1) as live:
        events.append(_rows(1, 2))
        until(lambda: followed.table.size == 2)
        until(lambda: len(live) == 2)
        upstream.server.append_table("other", SCHEMA).append(_rows(5))
        assert events.size == 0
        until(lambda: followed.table.size == 0)
        until(lambda: len(live) == 0)


def test_rows_of_before_a_lost_connection_go(
    upstream: Upstream, followed: bs.FollowedTable, relay: bs.Server, quick: Heard
) -> None:
    """They would stay as the last ones when later ones were lost."""
    upstream.server.blink_table("events", SCHEMA).append(_rows(1, 2))
    until(lambda: quick.numbers == [1, 2])
    assert followed.table.size == 2
    upstream.stop()
    followed.wait_for(bs.FollowedState.RECONNECTING, 20)
    assert followed.table.size == 2
    upstream.start().blink_table("events", SCHEMA)
    followed.wait_live(20)
    assert followed.table.size == 0
    until(lambda: len(quick.live) == 0)
    assert quick.live.state is bs.LiveState.LIVE


def test_no_other_publisher_writes_to_it(relay: bs.Server, followed: bs.FollowedTable) -> None:
    with bs.connect(relay.uri) as client:
        with pytest.raises(bs.UnsupportedOperationError, match="follows another one"):
            client.publish("events", _rows(1))
        with pytest.raises(bs.AlreadyExistsError):
            client.create_table("events", SCHEMA, kind="blink")
    with pytest.raises(bs.UnsupportedOperationError):
        followed.table.append(_rows(1))  # type: ignore[attr-defined]
    with pytest.raises(bs.AlreadyExistsError):
        relay.blink_table("events", SCHEMA)


def test_after_a_restart_it_goes_on_with_what_is_new(
    upstream: Upstream, followed: bs.FollowedTable, quick: Heard
) -> None:
    upstream.server.blink_table("events", SCHEMA).append(_rows(1, 2))
    until(lambda: quick.numbers == [1, 2])
    table = followed.table
    upstream.stop()
    followed.wait_for(bs.FollowedState.RECONNECTING, 20)
    events = upstream.start().blink_table("events", SCHEMA)
    followed.wait_live(20)
    assert followed.table is table
    events.append(_rows(3))
    until(lambda: quick.numbers == [1, 2, 3])
    assert quick.live.state is bs.LiveState.LIVE


def test_a_relay_of_a_relay_of_some_columns(relay: bs.Server, followed: bs.FollowedTable, events: BlinkTable) -> None:
    with bs.Server() as far:
        far.follow(f"{relay.uri}/events", name="far", interval_ms=1, columns=["x"])
        heard = Heard(far.uri, "far")
        with heard.client:
            for number in range(20):
                events.append(_rows(number))
            until(lambda: heard.numbers == list(range(20)))
            assert heard.live.schema.names == ["x"]


def test_a_blink_table_that_comes_back_as_another_kind(upstream: Upstream, followed: bs.FollowedTable) -> None:
    before = followed.table
    upstream.server.drop("events")
    followed.wait_for(bs.FollowedState.MISSING, 20)
    upstream.server.append_table("events", SCHEMA).append(_rows(7))
    followed.wait_live(20)
    assert followed.table is not before
    until(lambda: followed.table.size == 1)
    upstream.server.drop("events")
    followed.wait_for(bs.FollowedState.MISSING, 20)
    upstream.server.blink_table("events", SCHEMA)
    followed.wait_live(20)
    assert followed.table.attributes["BlinkTable"] is True


def test_a_table_that_a_failed_cycle_has_spoilt_is_made_anew(
    relay: bs.Server, followed: bs.FollowedTable, events: BlinkTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that cannot be shown any more do not go by unnoticed; a fault in a table beside it spoils nothing."""
    before = followed.table
    assert isinstance(before, BlinkTable)
    broken = attached(DerivedTable([before], "broken", OneRow(count, good_runs=0)))
    events.append(_rows(0))
    until(lambda: broken.failure is not None)
    assert before.failure is None
    with monkeypatch.context() as patch:
        patch.setattr(before, "apply_operations", lambda _: 1 / 0)
        events.append(_rows(1))
        until(lambda: before.failure is not None)
    until(lambda: followed.statistics().connections == 2)
    assert followed.table is not before
    heard = Heard(relay.uri)
    with heard.client:
        events.append(_rows(2))
        until(lambda: heard.numbers == [2])
