"""Relays that follow each other: chains are served, cycles are refused."""

from __future__ import annotations

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.relay.attributes import ROUTE, forwarded, on_route, route_entry
from tests.relay.conftest import Upstream
from tests.waiting import until

SCHEMA = pa.schema([("key", pa.int64()), ("text", pa.string())])


def _route(server: bs.Server, name: str) -> tuple[str, ...]:
    return on_route(server.table(name).attributes)


def test_the_route_of_a_table_grows_with_each_relay(upstream: Upstream, relay: bs.Server) -> None:
    upstream.server.append_table("t", SCHEMA)
    relay.follow(f"{upstream.uri}/t", name="a,b")
    with bs.Server() as far:
        far.follow(f"{relay.uri}/a%2Cb", name="u")
        assert [entry.partition("/")[2] for entry in _route(far, "u")] == ["a%2Cb", "u"]
        assert _route(far, "u")[:1] == _route(relay, "a,b")


def test_a_copy_of_a_copy_may_go_back_to_where_it_came_from(upstream: Upstream, relay: bs.Server) -> None:
    """No cycle: three tables, each following the previous one."""
    rows = upstream.server.append_table("x", SCHEMA)
    relay.follow(f"{upstream.uri}/x", name="y", interval_ms=1)
    back = upstream.server.follow(f"{relay.uri}/y", name="z", interval_ms=1)
    rows.append({"key": [1], "text": ["a"]})
    until(lambda: back.table.to_arrow().equals(rows.to_arrow()))


def test_two_relays_that_wait_for_each_other_wait(upstream: Upstream, relay: bs.Server) -> None:
    here = relay.follow(f"{upstream.uri}/t", wait=None, max_delay=0.05)
    there = upstream.server.follow(f"{relay.uri}/t", wait=None, max_delay=0.05)
    for followed in (here, there):
        followed.wait_for(bs.FollowedState.MISSING, 20)
    assert not relay.tables()
    assert not upstream.server.tables()


def test_a_cycle_of_relays_that_closes_later_is_refused(upstream: Upstream, relay: bs.Server) -> None:
    """The upstream has restarted, and now follows the table that came from it."""
    upstream.server.append_table("t", SCHEMA).append({"key": [1], "text": ["a"]})
    followed = relay.follow(f"{upstream.uri}/t", max_delay=0.1)
    upstream.stop()
    upstream.start().follow(f"{relay.uri}/t", wait=20)
    followed.wait_for(bs.FollowedState.REFUSED, 20)
    assert isinstance(followed.error, bs.InvalidRequestError)
    assert "would be a cycle" in str(followed.error)
    assert followed.table.size == 1
    connections = followed.statistics().connections
    upstream.server.drop("t")
    upstream.server.append_table("t", SCHEMA)
    followed.wait_live(20)
    assert followed.statistics().connections == connections + 1


@pytest.mark.parametrize(
    ("attributes", "columns", "kept"),
    [
        ({"AppendOnly": True, "AddOnly": True, "IsFlat": True}, ["a"], {"IsFlat": True}),
        ({"RingCapacity": 5, "BlinkTable": True}, ["a"], {"RingCapacity": 5, "BlinkTable": True}),
        ({"SortedColumns": "a=Descending"}, ["a", "b"], {"SortedColumns": "a=Descending"}),
        ({"SortedColumns": "a=Descending,c=Ascending"}, ["a", "b"], {}),
        ({ROUTE: "x/y", "Description": "mine"}, [], {"Description": "mine"}),
    ],
)
def test_promises_that_hold_for_a_copy(attributes: dict[str, object], columns: list[str], kept: object) -> None:
    assert forwarded(attributes, columns) == kept


def test_an_entry_of_a_route_has_no_comma() -> None:
    assert route_entry("id", "a,b/c") == "id/a%2Cb%2Fc"
    assert on_route({}) == ()
    assert on_route({ROUTE: "one,two"}) == ("one", "two")
