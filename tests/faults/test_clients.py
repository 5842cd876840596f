"""Stalled, half-closed, cancelled and killed clients: each costs nothing to the others, and leaves nothing behind."""

from __future__ import annotations

import gc
import time
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.engine import AppendTable, KeyedTable, UpdateNode
from barrage_server.errors import SchemaMismatchError, UnavailableError, UnknownTableError
from barrage_server.rowset import RowSet, RowSetShiftData
from barrage_server.server import Limits, Server
from barrage_server.wire.commit_messages import StageRequest
from barrage_server.wire.metadata import PublicationRequest, SubscriptionOptions, SubscriptionRequest, UpdateMetadata
from tests.faults import clients
from tests.faults.clients import BLOBS, MANY_BYTES, SUBSCRIBE_BLOBS, stalled, where
from tests.faults.conftest import SCHEMA
from tests.server.follower import DPHN, QUICK, Follower
from tests.waiting import until

SUBSCRIBE_QUOTES = SubscriptionRequest(b"s/quotes", options=QUICK).encode()


@pytest.fixture
def blobs(server: Server) -> AppendTable:
    return server.append_table("blobs", BLOBS)


def follow_on(follower: Follower, quotes: KeyedTable, rounds: int = 30) -> list[float]:
    """Publish and wait for the arrival, again and again; seconds each."""
    waits = []
    for number in range(rounds):
        price = time.monotonic() + number
        began = time.monotonic()
        quotes.upsert({"sym": ["A"], "price": [price]})
        follower.wait(lambda follower: follower.content()[0] == ["A", price])  # noqa: B023
        waits.append(time.monotonic() - began)
    return sorted(waits)


def test_a_stalled_client_is_evicted_and_delays_no_other(
    server: Server, client: fl.FlightClient, quotes: KeyedTable, blobs: AppendTable
) -> None:
    with Follower(client, "quotes") as follower:
        follower.wait(lambda follower: follower.messages)
        held = [stalled(server) for _ in range(5)]
        until(lambda: len(server.statistics().subscriptions) == 6)
        began = time.monotonic()
        blobs.append({"blob": MANY_BYTES})
        assert time.monotonic() - began < 1.0  # publishing does not wait for subscribers
        until(lambda: any(gauges.writing_seconds > 0 for gauges in server.statistics().subscriptions))
        waits = follow_on(follower, quotes)
        assert waits[len(waits) // 2] < 0.5
        until(lambda: server.statistics().evicted >= 5)
        until(lambda: len(server.statistics().subscriptions) == 1)
        follow_on(follower, quotes, rounds=3)
        assert follower.error is None
    del held


def test_a_client_that_is_slow_but_reads_is_kept_and_catches_up(server: Server, blobs: AppendTable) -> None:
    with clients.connect(server) as slow:
        writer, reader = slow.do_exchange(DPHN)
        writer.write_metadata(SUBSCRIBE_BLOBS)
        received = messages = 0
        published = 0
        for _ in range(8):
            blobs.append({"blob": MANY_BYTES[:8]})
            published += 8
            while received < published - 6:  # stays some MiB behind all the time
                chunk = reader.read_chunk()
                messages += chunk.app_metadata is not None
                received += chunk.data.num_rows
        while received < published:
            chunk = reader.read_chunk()
            messages += chunk.app_metadata is not None
            received += chunk.data.num_rows
        assert server.statistics().evicted == 0
        assert messages <= 10
        reader.cancel()
    until(lambda: not server.statistics().subscriptions)


def test_what_a_stalled_client_misses_is_not_kept(server: Server, blobs: AppendTable) -> None:
    """Hundreds of updates later there is still one message under way, and one will cover all the rest."""
    held = stalled(server)
    blobs.append({"blob": MANY_BYTES})
    until(lambda: any(gauges.writing_seconds > 0 for gauges in server.statistics().subscriptions))
    for _ in range(200):
        blobs.append({"blob": [b"x"]})
    (gauges,) = server.statistics().subscriptions
    assert gauges.messages <= 2
    assert gauges.behind >= 200
    until(lambda: not server.statistics().subscriptions)
    del held


@pytest.mark.parametrize("front", clients.FRONTS)
def test_neither_a_reading_nor_a_stalled_client_keeps_history_alive(front: str) -> None:
    """What a client lacks is folded into one step: the number of steps kept does not follow the number of updates."""
    with (
        Server(limits=Limits(slow_client_seconds=60.0), **clients.FRONTS[front]) as server,
        clients.connect(server) as client,
    ):
        blobs = server.append_table("blobs", BLOBS)
        held = stalled(server)
        with Follower(client, "blobs") as follower:
            until(lambda: len(server.statistics().subscriptions) == 2)
            blobs.append({"blob": MANY_BYTES})
            until(lambda: any(gauges.writing_seconds > 1 for gauges in server.statistics().subscriptions))
            for _ in range(5000):
                blobs.append({"blob": [b"x"]})
            follower.wait(lambda follower: len(follower.rows) == 5000 + len(MANY_BYTES))

        def steps_kept() -> int:
            return sum(type(entry) is UpdateNode for entry in gc.get_objects())  # not isinstance: asks dead proxies

        until(lambda: steps_kept() < 1000)
        until(lambda: len(server.statistics().subscriptions) == 1)  # the one that reads has ended
        held[2].cancel()


def test_a_stalled_reader_of_a_whole_table_is_evicted(server: Server, blobs: AppendTable) -> None:
    blobs.append({"blob": MANY_BYTES * 2})
    with clients.connect(server) as client:
        reader = client.do_get(fl.Ticket(b"s/blobs"))
        until(lambda: server.statistics().evicted == 1)
        until(lambda: server.statistics().downloads == 0)
        with pytest.raises((pa.ArrowException, OSError)):
            reader.read_all()


def test_a_half_closed_client_is_still_served_and_ends_when_it_cancels(
    server: Server, client: fl.FlightClient, quotes: KeyedTable
) -> None:
    with Follower(client, "quotes") as follower:
        follower.wait(lambda follower: follower.messages)
        follower.half_close()
        follow_on(follower, quotes)
        began = time.monotonic()
        follower.cancel()
        until(lambda: not server.statistics().subscriptions)
        assert time.monotonic() - began < 1.0


def test_a_half_closed_client_gets_the_status_when_its_table_is_dropped(
    server: Server, client: fl.FlightClient, quotes: KeyedTable
) -> None:
    writer, reader = client.do_exchange(DPHN)
    writer.write_metadata(SUBSCRIBE_QUOTES)
    writer.done_writing()
    reader.read_chunk()
    server.drop("quotes")
    with pytest.raises(pa.ArrowKeyError, match=r"dropped. \[UnknownTableError\]"):
        while True:
            reader.read_chunk()
    with pytest.raises(pa.ArrowKeyError):
        writer.close()


def test_a_cancelled_client_is_gone_in_half_a_second(
    server: Server, client: fl.FlightClient, quotes: KeyedTable
) -> None:
    times = []
    for _ in range(5):
        with Follower(client, "quotes") as follower:
            follower.wait(lambda follower: follower.messages)
            began = time.monotonic()
            follower.cancel()
            until(lambda: not server.statistics().subscriptions)
            times.append(time.monotonic() - began)
    assert min(times) < 0.5


def test_a_client_that_is_cancelled_amid_a_large_message_is_gone_too(server: Server, blobs: AppendTable) -> None:
    _client, _writer, reader = stalled(server)
    blobs.append({"blob": MANY_BYTES})
    until(lambda: any(gauges.writing_seconds > 0 for gauges in server.statistics().subscriptions))
    reader.cancel()
    until(lambda: not server.statistics().subscriptions)
    assert server.statistics().evicted == 0


@pytest.mark.parametrize("busy", [False, True])
def test_a_killed_subscriber_leaves_nothing_behind(
    server: Server, client: fl.FlightClient, quotes: KeyedTable, busy: bool
) -> None:
    with clients.process(clients.SUBSCRIBE, server, SUBSCRIBE_QUOTES) as victim, Follower(client, "quotes") as follower:
        follower.wait(lambda follower: follower.messages)
        assert len(server.statistics().subscriptions) == 2
        if busy:
            follow_on(follower, quotes, rounds=5)
        victim.kill()
        follow_on(follower, quotes, rounds=5)
        until(lambda: len(server.statistics().subscriptions) == 1)
        follow_on(follower, quotes, rounds=5)


def test_a_killed_stalled_subscriber_leaves_nothing_behind(server: Server, blobs: AppendTable) -> None:
    with clients.process(clients.SUBSCRIBE_AND_STALL, server, SUBSCRIBE_BLOBS) as victim:
        blobs.append({"blob": MANY_BYTES})
        until(lambda: any(gauges.writing_seconds > 0 for gauges in server.statistics().subscriptions))
        victim.kill()
        until(lambda: not server.statistics().subscriptions)


def test_a_killed_reader_leaves_nothing_behind(server: Server, blobs: AppendTable) -> None:
    blobs.append({"blob": MANY_BYTES * 2})
    with clients.process(clients.GET, server, "s/blobs") as victim:
        assert server.statistics().downloads == 1
        victim.kill()
        until(lambda: server.statistics().downloads == 0)


# Publishers.


@pytest.mark.parametrize("name", ["quotes", "new"])
def test_of_a_put_whose_publisher_is_killed_nothing_is_applied(server: Server, quotes: KeyedTable, name: str) -> None:
    step = server.graph.step
    with clients.process(clients.PUT, server, name) as victim:
        until(lambda: server.statistics().uploads == 1)
        victim.kill()
        until(lambda: server.statistics().uploads == 0)
    assert server.graph.step == step
    assert [table.name for table in server.tables()] == ["quotes"]


def test_what_a_killed_publisher_has_staged_is_dropped(server: Server, quotes: KeyedTable) -> None:
    request = StageRequest("query", "quotes", 1, "attempt").to_json()
    with clients.process(clients.STAGE, server, request) as victim:
        until(lambda: server.statistics().staging.entries == 1)
        victim.kill()
        until(lambda: server.statistics().uploads == 0)
    assert server.statistics().staging.entries == 0
    assert quotes.size == 2


def test_of_a_publication_that_is_killed_the_last_whole_update_stays(server: Server) -> None:
    empty: dict[str, Any] = {
        "removed_rows": RowSet.empty(),
        "shift_data": RowSetShiftData.empty(),
        "modified_rows": (RowSet.empty(),),
    }
    first = UpdateMetadata(is_snapshot=True, added_rows=RowSet.flat(3), **empty).encode()
    second = UpdateMetadata(added_rows=RowSet.from_range(3, 5), **empty).encode()
    with clients.process(clients.PUBLISH, server, PublicationRequest(b"s/feed").encode(), first, second) as victim:
        until(lambda: server.tables())
        victim.kill()
        until(lambda: server.statistics().uploads == 0)
    assert server.table("feed").to_arrow().to_pydict() == {"n": [1, 2, 3]}


def test_a_put_that_sends_nothing_is_cut_off(server: Server, client: fl.FlightClient) -> None:
    writer, reader = client.do_put(fl.FlightDescriptor.for_path("mine"), SCHEMA)
    until(lambda: server.statistics().evicted == 1)
    until(lambda: server.statistics().uploads == 0)
    with pytest.raises((pa.ArrowException, OSError)):
        writer.done_writing()
        reader.read()
        writer.close()
    assert server.tables() == ()


def test_a_publication_may_be_silent(server: Server, client: fl.FlightClient) -> None:
    writer, reader = client.do_put(fl.FlightDescriptor.for_path("feed"), SCHEMA)
    writer.write_metadata(PublicationRequest(b"s/feed").encode())
    with pytest.raises(AssertionError):
        until(lambda: server.statistics().evicted, timeout=2.0)
    writer.done_writing()
    assert reader.read() is not None
    writer.close()


# Other things that happen.


def test_a_table_that_comes_back_with_another_schema_is_another_table(
    server: Server, client: fl.FlightClient, quotes: KeyedTable
) -> None:
    with Follower(client, "quotes") as follower:
        follower.wait(lambda follower: follower.messages)
        server.drop("quotes")
        again = server.append_table("quotes", pa.schema([("n", pa.int64())]))
        assert type(follower.wait_ended()) is UnknownTableError
        with pytest.raises(SchemaMismatchError):
            again.append({"sym": ["A"], "price": [1.0]})
        with Follower(client, "quotes") as other:
            other.wait(lambda follower: follower.messages)
            again.append({"n": [1]})
            other.wait(lambda follower: follower.content() == [[1]])


def test_a_deaf_client_of_a_dropped_table_is_cut_off(server: Server, quotes: KeyedTable) -> None:
    with clients.connect(server) as client:
        writer, reader = client.do_exchange(DPHN)
        writer.write_metadata(SUBSCRIBE_QUOTES)
        reader.read_chunk()
        server.drop("quotes")
        until(lambda: not server.statistics().subscriptions)
        with pytest.raises((pa.ArrowException, OSError)):
            while True:
                reader.read_chunk()


def test_messages_stay_below_the_size_that_a_client_can_take(server: Server, blobs: AppendTable) -> None:
    """A client with a limit of 4 MiB receives all rows: waiting for them fails when a message exceeds the limit."""
    limit = 4 << 20
    blobs.append({"blob": MANY_BYTES[:16]})
    options = SubscriptionOptions(min_update_interval_ms=1, max_message_size=limit)
    with (
        fl.connect(
            where(server),
            generic_options=[("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", limit)],
        ) as client,
        Follower(client, "blobs", options) as follower,
    ):
        follower.wait(lambda follower: len(follower.rows) == 16)
        blobs.append({"blob": MANY_BYTES[:16]})
        follower.wait(lambda follower: len(follower.rows) == 32)


def test_a_stream_that_is_opened_while_the_server_closes_is_refused() -> None:
    server = Server(limits=Limits(goodbye_seconds=0.2))
    server.append_table("quotes", SCHEMA)
    with clients.connect(server) as client, Follower(client, "quotes") as follower:
        follower.wait(lambda follower: follower.messages)
        server.close()
        assert type(follower.wait_ended()) is UnavailableError


@pytest.mark.slow
def test_a_thousand_subscribers_of_one_table_are_all_served() -> None:
    """Each gets the snapshot and an update, from fewer than 50 writer threads."""
    with Server() as server, fl.connect(server.uri) as client:
        quotes = server.keyed_table("quotes", SCHEMA, key=["sym"])
        quotes.upsert({"sym": ["A", "B"], "price": [1.0, 2.0]})
        _thousand(server, client, quotes)


def _thousand(server: Server, client: fl.FlightClient, quotes: KeyedTable) -> None:
    request = SubscriptionRequest(b"s/quotes", options=SubscriptionOptions(min_update_interval_ms=100)).encode()
    streams = []
    for _ in range(1000):
        writer, reader = client.do_exchange(DPHN)
        writer.write_metadata(request)
        streams.append((writer, reader))
    for _, reader in streams:
        assert reader.read_chunk().data.num_rows == 2
    assert len(server.statistics().subscriptions) == 1000
    quotes.upsert({"sym": ["C"], "price": [3.0]})
    for _, reader in streams:
        assert reader.read_chunk().data.num_rows == 1
    assert server.statistics().writer_threads < 50
    for _, reader in streams:
        reader.cancel()
    until(lambda: not server.statistics().subscriptions)
