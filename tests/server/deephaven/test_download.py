"""A DoGet of the gRPC endpoint: each message is made while the one before is sent, and no more than that."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from barrage_server.engine import AppendTable, UpdateGraph
from barrage_server.errors import UnavailableError
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.download import RawDownload
from barrage_server.server.principal import Principal
from barrage_server.server.stall import StallWatch
from barrage_server.server.streams import Streams
from barrage_server.wire.raw import decode_flight_data, decode_ragged_batch, joined

SCHEMA = pa.schema([("a", pa.int64())])
ROWS = 1_000_000
MOST = (1 << 20) + (1 << 10)
"""Bytes of a message, its header included."""


class Client(Call):
    """Takes a message for each permit, and keeps it."""

    method, metadata, peer = "/arrow.flight.protocol.FlightService/DoGet", {}, "peer"

    def __init__(self) -> None:
        self.stall = StallWatch(time.monotonic)
        self.taken: list[bytes] = []
        self.offered = 0
        self.cancelled = 0
        self.permits = asyncio.Semaphore(0)
        self.error: Exception | None = None

    async def read(self) -> bytes | None:
        return None

    async def confirm_end(self) -> None:
        pass

    async def send_headers(self, headers: Sequence[tuple[str, str]]) -> None:
        pass

    async def write(self, message: bytes) -> None:
        self.offered += 1
        try:
            await self.permits.acquire()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        self.taken.append(message)


def run(body: Callable[[RawDownload, Client, Streams], Awaitable[None]]) -> None:
    table = AppendTable(UpdateGraph(), "t", SCHEMA)
    table.append(pa.record_batch([range(ROWS)], schema=SCHEMA))
    streams = Streams({})
    server_state: Any = SimpleNamespace(
        streams=streams, private=SimpleNamespace(needs=lambda _: ()), clock=time.monotonic
    )

    async def main() -> None:
        client = Client()
        state: Any = SimpleNamespace(server_state=server_state, workers=SimpleNamespace(run=asyncio.to_thread))
        session: Any = SimpleNamespace(principal=Principal("me"))
        await asyncio.wait_for(body(RawDownload(state, client, session, table, SCHEMA), client, streams), 60)
        assert not streams.open()

    asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


def test_every_row_comes_in_messages_of_a_megabyte() -> None:
    """Larger ones cost Arrow's clients fresh memory for each."""

    async def body(download: RawDownload, client: Client, _streams: Streams) -> None:
        for _ in range(100):
            client.permits.release()
        await download.run()
        assert max(map(len, client.taken)) <= MOST
        arrays = []
        for message in client.taken[1:]:  # after the schema
            parts = decode_flight_data(message)
            arrays += decode_ragged_batch(parts.data_header, parts.data_body or b"", SCHEMA)
        assert pa.chunked_array(arrays).to_pylist() == list(range(ROWS))

    run(body)


def test_one_message_is_made_while_another_is_sent() -> None:
    """And no third one, however long the client takes."""

    async def body(download: RawDownload, client: Client, _streams: Streams) -> None:
        running = asyncio.ensure_future(download.run())
        client.permits.release()  # for the schema
        await until(lambda: download.traffic[0] == 2)
        for _ in range(100):
            await asyncio.sleep(0)
        assert download.traffic[0] == 2
        assert (len(client.taken), client.offered) == (1, 2)
        client.permits.release()
        await until(lambda: download.traffic[0] == 3)
        assert (len(client.taken), client.offered) == (2, 3)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    run(body)


def test_a_stream_that_is_ended_sends_no_more() -> None:
    async def body(download: RawDownload, client: Client, _streams: Streams) -> None:
        running = asyncio.ensure_future(download.run())
        client.permits.release()
        await until(lambda: client.offered == 2)
        download.end(UnavailableError("ended"))
        client.permits.release()
        with pytest.raises(UnavailableError, match="ended"):
            await running
        assert client.offered == 2

    run(body)


def test_a_broken_connection_ends_the_stream() -> None:
    async def body(download: RawDownload, client: Client, _streams: Streams) -> None:
        running = asyncio.ensure_future(download.run())
        client.permits.release()
        await until(lambda: download.traffic[0] == 2)
        client.error = UnavailableError("broken")
        client.permits.release()
        with pytest.raises(UnavailableError, match="broken"):
            await running

    run(body)


async def failing_behind_a_message(
    download: RawDownload, client: Client, monkeypatch: pytest.MonkeyPatch
) -> asyncio.Future[None]:
    """Run a download whose second message of rows fails while the first one waits to be taken."""

    def fails_once_sent(pieces: list[Any]) -> bytes:
        if download.traffic[0] == 1:
            raise UnavailableError("failed")
        return joined(pieces)

    monkeypatch.setattr("barrage_server.server.deephaven.download.joined", fails_once_sent)
    running = asyncio.ensure_future(download.run())
    client.permits.release()
    await until(lambda: client.offered == 2)
    for _ in range(100):
        await asyncio.sleep(0)
    return running


def test_a_failure_is_reported_after_the_message_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """gRPC takes no status while a message is sent. The stream is watched until then."""

    async def body(download: RawDownload, client: Client, streams: Streams) -> None:
        running = await failing_behind_a_message(download, client, monkeypatch)
        assert not running.done()
        assert streams.open() == [download]
        client.permits.release()
        with pytest.raises(UnavailableError, match="failed"):
            await running
        assert len(client.taken) == 2

    run(body)


def test_a_client_that_goes_while_a_failure_waits_for_it_is_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream ends with what it was sending."""

    async def body(download: RawDownload, client: Client, _streams: Streams) -> None:
        running = await failing_behind_a_message(download, client, monkeypatch)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert client.cancelled == 1

    run(body)
