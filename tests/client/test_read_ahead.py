"""Callbacks that take their time get few, large, current updates: never a replay of all that came meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

import barrage_server as bs
from barrage_server.client import read_ahead, subscription_worker
from barrage_server.client.read_ahead import ReadAhead
from barrage_server.engine import Table
from barrage_server.errors import UnavailableError
from barrage_server.rowset import RowSet
from barrage_server.wire.metadata import UpdateMetadata
from barrage_server.wire.reader import IncomingMessage
from tests.waiting import until

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])


def message(value: int) -> IncomingMessage:
    rows = RowSet.empty()
    metadata = UpdateMetadata(first_seq=value, last_seq=value, added_rows=rows, removed_rows=rows)
    return IncomingMessage(metadata, (pa.array([value]),), ())


class Source:
    """A stream that gives what a test lets it give."""

    def __init__(self) -> None:
        self.given = 0
        self._allowed = threading.Semaphore(0)
        self._ended = False

    def allow(self, count: int) -> None:
        self._allowed.release(count)

    def end(self) -> None:
        self._ended = True
        self._allowed.release()

    def __iter__(self) -> Iterator[IncomingMessage]:
        while True:
            assert self._allowed.acquire(timeout=30)
            if self._ended:
                raise UnavailableError("over")
            self.given += 1
            yield message(self.given)


def steps(turn: list[IncomingMessage]) -> list[int | None]:
    return [entry.metadata.last_seq for entry in turn]


def test_a_turn_is_one_message_until_reading_ahead_begins() -> None:
    source = Source()
    ahead = ReadAhead(iter(source), "reader", source.end)
    source.allow(100)
    assert [steps(ahead.turn()) for _ in range(3)] == [[1], [2], [3]]
    ahead.start()
    until(lambda: source.given == 100)
    taken = ahead.turn()
    while len(taken) < 97:
        taken += ahead.turn()
    assert steps(taken) == list(range(4, 101))
    ahead.close()


def test_what_ends_the_stream_comes_after_its_last_message() -> None:
    source = Source()
    ahead = ReadAhead(iter(source), "reader", source.end)
    ahead.start()
    source.allow(2)
    until(lambda: source.given == 2)
    source.end()
    taken: list[int | None] = []
    with pytest.raises(UnavailableError, match="over"):
        while True:
            taken += steps(ahead.turn())
    assert taken == [1, 2]
    ahead.close()


def test_what_is_read_ahead_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "MOST_BYTES", 10 * read_ahead.MESSAGE_BYTES)
    source = Source()
    ahead = ReadAhead(iter(source), "reader", source.end)
    ahead.start()
    source.allow(100)
    taken: list[int | None] = []
    while len(taken) < 100:
        turn = steps(ahead.turn())
        assert len(turn) <= 11
        taken += turn
    assert taken == list(range(1, 101))
    ahead.close()


@pytest.fixture
def _slow_callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every callback counts as one that takes its time."""
    monkeypatch.setattr(subscription_worker, "SLOW_SECONDS", 0.0)


def has_sent_all(server: bs.Server, table: Table) -> bool:
    (gauges,) = server.statistics().subscriptions
    return gauges.sent_step == table.version.step


@pytest.mark.usefixtures("_slow_callbacks")
@pytest.mark.parametrize("endpoint", ["flight", "deephaven"])
def test_what_comes_while_a_callback_runs_is_one_update(endpoint: str) -> None:
    with bs.Server(deephaven_port=0) as server:
        table = server.keyed_table("t", SCHEMA, key=["k"])
        table.upsert({"k": list(range(50)), "v": [0] * 50})
        uri = server.uri if endpoint == "flight" else server.deephaven_uri or ""
        with bs.connect(uri) as client, client.subscribe("t", interval_ms=1) as live:
            seen: list[tuple[int, int]] = []
            gate, inside = threading.Event(), threading.Event()

            def callback(update: bs.Update) -> None:
                seen.append((update.step, update.modified["v"].size))
                if len(seen) == 2:
                    inside.set()
                    assert gate.wait(60)

            live.on_update(callback)
            table.upsert({"k": [0], "v": [1]})
            until(lambda: len(seen) == 1)
            table.upsert({"k": [0], "v": [2]})
            assert inside.wait(30)

            for number in range(50):  # each in a message of its own
                table.upsert({"k": [number], "v": [100 + number]})
                until(lambda: has_sent_all(server, table))
            gate.set()
            until(lambda: seen[-1][0] == table.version.step)
            assert len(seen) <= 10
            assert max(rows for _, rows in seen) >= 5
            assert live.to_arrow().column("v").to_pylist() == [100 + number for number in range(50)]


def test_a_slow_callback_of_a_blink_table_gets_every_row() -> None:
    with bs.Server() as server:
        table = server.blink_table("t", SCHEMA)
        with bs.connect(server.uri) as client, client.subscribe("t", interval_ms=1) as live:
            found: list[int] = []
            gate = threading.Event()

            def callback(update: bs.Update) -> None:
                assert gate.wait(60)
                found.extend(update.added_values()["v"].to_pylist())

            live.on_update(callback)
            for number in range(40):
                table.append({"k": [number], "v": [number]})
                until(lambda: has_sent_all(server, table))
            gate.set()
            until(lambda: len(found) == 40)
            assert found == list(range(40))


@pytest.mark.usefixtures("_slow_callbacks")
def test_a_subscription_that_reads_ahead_comes_back_and_closes() -> None:
    server = bs.Server()
    table = server.keyed_table("t", SCHEMA, key=["k"])
    table.upsert({"k": [1], "v": [0]})
    port = server.port
    with bs.connect(server.uri) as client:
        live = client.subscribe("t", interval_ms=1)
        live.on_update(lambda update: None)
        for number in range(5):
            table.upsert({"k": [1], "v": [number + 1]})
            live.wait_until(lambda live, number=number: live.to_arrow()["v"].to_pylist() == [number + 1])  # type: ignore[misc]
        names = {thread.name for thread in threading.enumerate()}
        assert "barrage-t-reader" in names
        server.close()
        with bs.Server(port=port) as again:
            again.keyed_table("t", SCHEMA, key=["k"]).upsert({"k": [1], "v": [77]})
            live.wait_until(lambda live: live.to_arrow()["v"].to_pylist() == [77], timeout=60)
            live.close()
            until(lambda: "barrage-t-reader" not in {thread.name for thread in threading.enumerate()})
