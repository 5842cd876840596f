"""A relay between Deephaven servers: it follows tables of one, which others of them, and our clients, follow here."""

from __future__ import annotations

import queue
import random
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.rowset import RowSet
from barrage_server.subscription import SubscriptionLimits
from tests.waiting import until

from .deephaven import DeephavenServer
from .remote import Remote

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

QUIET_POINTS = 40


@pytest.fixture
def relay() -> Iterator[bs.Server]:
    with bs.Server(deephaven_port=0, subscriptions=SubscriptionLimits(default_interval_ms=1)) as relay:
        yield relay


def _uri(deephaven: DeephavenServer, name: str) -> str:
    return f"{deephaven.uri}/scope/{name}"


def _same(found: pa.Table, expected: pa.Table) -> bool:
    return bool(found.schema.names == expected.schema.names and found.to_pylist() == expected.to_pylist())


def _reach(followed: bs.FollowedTable, step: int) -> None:
    until(lambda: followed.statistics().upstream_step >= step)


def _until_it_shows(live: bs.LiveTable, expected: pa.Table) -> None:
    until(lambda: _same(live.to_arrow(), expected))


def _collector(numbers: list[int]) -> Callable[[bs.Update], None]:
    return lambda update: numbers.extend(update.added_values()["X"].to_pylist())


def test_tables_of_a_deephaven_server_are_served_on(deephaven: DeephavenServer, relay: bs.Server) -> None:
    """Appended to, keyed, sorted (rows shift), removed from, a ring, grouped: equal here, and for a subscriber here, at
    every quiet point; with all column types.
    """
    chance = random.Random(1)
    names: list[str] = deephaven.peer.call("make_ticking", prefix="relayed_", seed=11)
    following = {name: relay.follow(_uri(deephaven, name), interval_ms=1) for name in names}
    with bs.connect(relay.uri) as client:
        lives = {name: client.subscribe(name, interval_ms=1) for name in names}
        windows = {name: client.subscribe(name, viewport=range(10), reverse=True, interval_ms=1) for name in names}
        for _ in range(QUIET_POINTS):
            steps = deephaven.peer.call("change_ticking", prefix="relayed_", times=chance.choice([1, 2, 5]))
            for name, followed in following.items():
                _reach(followed, steps[name])
                expected = deephaven.read(name)
                assert _same(followed.table.to_arrow(), expected), name
                last = expected.slice(max(0, expected.num_rows - 10))
                _until_it_shows(lives[name], expected)
                _until_it_shows(windows[name], last)
    for name, followed in following.items():
        assert followed.state is bs.FollowedState.LIVE
        assert followed.statistics().connections == 1
        assert not {"AppendOnly", "AddOnly"} & set(followed.table.attributes), name


def test_what_deephaven_says_of_a_table_is_passed_on_where_it_holds(
    deephaven: DeephavenServer, relay: bs.Server
) -> None:
    deephaven.execute(
        "from deephaven import dtypes, empty_table, input_table\n"
        'said_sorted = empty_table(5).update(["A = -ii", "B = ii"]).sort("A")\n'
        'said_keyed = input_table(col_defs={"K": dtypes.long, "V": dtypes.double}, key_cols="K")'
    )
    table = relay.follow(_uri(deephaven, "said_sorted")).table
    assert table.attributes["SortedColumns"] == "A=Ascending"
    some = relay.follow(_uri(deephaven, "said_sorted"), name="some", columns=["B"]).table
    assert "SortedColumns" not in some.attributes
    assert relay.follow(_uri(deephaven, "said_keyed")).table.key_columns == ("K",)


def _keyed(keys: list[int], texts: list[str]) -> str:
    """What makes the table ``quotes``; clients see it when it has its rows."""
    return (
        "from deephaven import dtypes, input_table, new_table\n"
        "from deephaven.column import long_col, string_col\n"
        'filling = input_table(col_defs={"K": dtypes.long, "S": dtypes.string}, key_cols="K")\n'
        f'filling.add(new_table([long_col("K", {keys}), string_col("S", {texts})]))\n'
        "quotes = filling\n"
        "del filling"
    )


def test_a_deephaven_server_that_restarts(relay: bs.Server) -> None:
    """What subscribers see stays, then the difference goes to them."""
    first = DeephavenServer()
    second: DeephavenServer | None = None
    try:
        first.execute(_keyed([1, 2, 3], ["a", "b", "c"]))
        followed = relay.follow(_uri(first, "quotes"), interval_ms=1, max_delay=0.5)
        table = followed.table
        with bs.connect(relay.uri) as client:
            updates: queue.Queue[bs.Update] = queue.Queue()
            live = client.subscribe("quotes", interval_ms=1, on_update=updates.put)
            second = first.restarted()
            assert followed.state is not bs.FollowedState.LIVE
            assert live.to_arrow().to_pydict() == {"K": [1, 2, 3], "S": ["a", "b", "c"]}
            assert live.state is bs.LiveState.LIVE
            second.execute(_keyed([1, 3], ["a", "new"]))
            followed.wait_live(60)
            update = updates.get(timeout=20)
            assert live.to_arrow().to_pydict() == {"K": [1, 3], "S": ["a", "new"]}
            assert followed.table is table
            assert (update.added, update.removed) == (RowSet.empty(), RowSet.from_range(2, 2))
            assert update.modified_rows == RowSet.from_range(1, 1)
            second.execute('quotes.add(new_table([long_col("K", [9]), string_col("S", ["more"])]))')
            live.wait_until(lambda view: view.size == 3)
            assert followed.statistics().connections == 2
    finally:
        first.close()
        if second is not None:
            second.close()


def test_every_row_of_a_blink_table_comes_once(deephaven: DeephavenServer, relay: bs.Server) -> None:
    """Also to subscribers that look less often than the table blinks, on either side of the relay."""
    deephaven.execute(
        "from deephaven import dtypes, new_table\n"
        "from deephaven.column import long_col\n"
        "from deephaven.stream.table_publisher import table_publisher\n"
        'relayed_blink, relayed_publisher = table_publisher("relayed_blink", {"X": dtypes.long})'
    )
    followed = relay.follow(_uri(deephaven, "relayed_blink"), name="blink", interval_ms=20)
    assert followed.table.attributes["BlinkTable"] is True
    found: dict[int, list[int]] = {1: [], 100: []}
    with bs.connect(relay.uri) as client:
        for interval, numbers in found.items():
            client.subscribe("blink", interval_ms=interval, on_update=_collector(numbers))
        for number in range(40):
            deephaven.execute(f'relayed_publisher.add(new_table([long_col("X", [{2 * number}, {2 * number + 1}])]))')
        until(lambda: all(len(numbers) >= 80 for numbers in found.values()))
    assert found == {interval: list(range(80)) for interval in found}


def test_a_deephaven_server_follows_the_relay_of_a_table(deephaven: DeephavenServer, relay: bs.Server) -> None:
    """There and back again: what the server computes from its own table, and from the one that went through the relay,
    is the same, and its validator has nothing against any update.
    """
    (name,) = (name for name in deephaven.peer.call("make_ticking", prefix="back_", seed=12) if name.endswith("sorted"))
    columns = ["K", "A", "S", "D", "Text", "Double", "Instant", "Longs"]
    followed = relay.follow(_uri(deephaven, name), name="back", interval_ms=1, columns=columns)
    remote = Remote(deephaven, relay)
    table = remote.subscribe("back")
    validator = remote.validated(table)
    for _ in range(QUIET_POINTS):
        step = deephaven.peer.call("change_ticking", prefix="back_", times=2)[name]
        _reach(followed, step)
        expected = deephaven.content(f"{name}.view({columns!r})").to_pylist()
        remote.wait_for(f"{table}.view({columns!r})", expected)
    assert not deephaven.evaluate(f"{validator}.hasFailed()")
    remote.close()


def test_what_is_wrong_is_told_at_once(deephaven: DeephavenServer, relay: bs.Server) -> None:
    with pytest.raises(bs.UnknownTableError, match="no table 'nowhere' on the Deephaven server"):
        relay.follow(_uri(deephaven, "nowhere"))
    with pytest.raises(bs.UnavailableError, match="No connection to dh\\+plain://127"):
        relay.follow("dh+plain://127.0.0.1:1/scope/t", timeout=10)
    assert not relay.followed


def test_a_variable_that_is_deleted_there_does_not_end_what_it_named(
    deephaven: DeephavenServer, relay: bs.Server
) -> None:
    """Deephaven keeps a table while it has subscribers."""
    deephaven.execute(_keyed([1], ["a"]))
    followed = relay.follow(_uri(deephaven, "quotes"), interval_ms=1)
    deephaven.execute("kept = quotes; del quotes")
    deephaven.execute('kept.add(new_table([long_col("K", [2]), string_col("S", ["b"])]))')
    until(lambda: followed.table.size == 2)
    assert followed.state is bs.FollowedState.LIVE
