"""What a stream is sent comes in bundles; wherever one ends, the rest and what is due after it follow."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from barrage_server.server import Server, bundled_exchange
from barrage_server.server.deephaven.exchange import RawExchange
from barrage_server.subscription import SubscriptionLimits
from barrage_server.subscription.feed import Message
from barrage_server.wire.metadata import SubscriptionOptions
from tests.server.follower import Follower
from tests.waiting import until

SCHEMA = pa.schema([("n", pa.int64())])
OPTIONS = SubscriptionOptions(min_update_interval_ms=1, batch_size=10, columns_as_list=True)


@pytest.mark.parametrize("bundle_bytes", [1, 300, 1_000, 1 << 20])
def test_bundles_of_any_size(monkeypatch: pytest.MonkeyPatch, bundle_bytes: int) -> None:
    """With a first snapshot in parts, parts in batches, and updates that come while these are under way."""
    monkeypatch.setattr(bundled_exchange, "_BUNDLE_BYTES", bundle_bytes)
    limits = SubscriptionLimits(default_interval_ms=1, snapshot_part_cells=35)
    with Server(deephaven_port=0, subscriptions=limits) as server:
        table = server.append_table("t", SCHEMA)
        table.append({"n": [*range(100)]})
        assert server.deephaven_uri is not None
        with (
            fl.connect(server.deephaven_uri.replace("dh+plain", "grpc")) as client,
            Follower(client, "t", OPTIONS) as follower,
        ):
            follower.wait(lambda seen: len(seen.rows) == 100)
            for number in range(100, 300):
                table.append({"n": [number]})
            follower.wait(lambda seen: len(seen.rows) == 300)
            table.append({"n": [*range(300, 400)]})
            follower.wait(lambda seen: len(seen.rows) == 400)
            assert follower.content() == [[number] for number in range(400)]


def test_changes_do_not_wake_a_stream_whose_bundle_is_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Counter[RawExchange]()
    held: list[tuple[RawExchange, list[bytes]]] = []
    slow: list[RawExchange] = []
    run_turn, take = RawExchange.run_turn, RawExchange.take

    def counted(stream: RawExchange, now: float) -> float | None:
        turns[stream] += 1
        return run_turn(stream, now)

    def has(number: int, seen: Follower) -> bool:
        return number in seen.rows

    def taken(stream: RawExchange, bundle: list[bytes]) -> None:
        if stream in slow:
            held.append((stream, bundle))
        else:
            take(stream, bundle)

    monkeypatch.setattr(RawExchange, "run_turn", counted)
    monkeypatch.setattr(RawExchange, "take", taken)
    with Server(deephaven_port=0, subscriptions=SubscriptionLimits(default_interval_ms=1)) as server:
        table = server.append_table("t", SCHEMA)
        assert server.deephaven_uri is not None
        with (
            fl.connect(server.deephaven_uri.replace("dh+plain", "grpc")) as client,
            Follower(client, "t", OPTIONS) as first,
        ):
            first.wait(lambda seen: seen.messages)
            slow += turns
            with Follower(client, "t", OPTIONS) as other:

                def append(start: int, stop: int) -> None:
                    for number in range(start, stop):
                        table.append({"n": [number]})
                        other.wait(partial(has, number))

                append(0, 10)
                until(lambda: held)
                append(10, 20)
                before = turns[slow[0]]
                append(20, 50)
                assert turns[slow[0]] <= before + 1
                ((stream, bundle),) = held
                slow.clear()
                stream.on_loop(take, stream, bundle)
                first.wait(lambda seen: len(seen.rows) == 50)


def test_what_a_client_has_not_taken_is_freed_when_it_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits for the search for reference cycles, which a quiet server seldom makes."""
    held, freed = list[RawExchange](), list[RawExchange]()
    pieces_of = RawExchange.pieces_of

    def watched(stream: RawExchange, message: Message) -> Iterator[bytes]:
        try:
            yield from pieces_of(stream, message)
        finally:
            freed.append(stream)

    monkeypatch.setattr(bundled_exchange, "_BUNDLE_BYTES", 1)
    monkeypatch.setattr(RawExchange, "pieces_of", watched)
    monkeypatch.setattr(RawExchange, "take", lambda stream, bundle: held.append(stream))
    with Server(deephaven_port=0) as server:
        server.append_table("t", SCHEMA).append({"n": [*range(100)]})
        assert server.deephaven_uri is not None
        gc.disable()
        try:
            with fl.connect(server.deephaven_uri.replace("dh+plain", "grpc")) as client:
                with Follower(client, "t", OPTIONS):
                    until(lambda: held)
                    assert not freed
                until(lambda: freed == held)
        finally:
            gc.enable()
