"""A DoPut of the gRPC endpoint: messages are received while those before are decoded, few of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pyarrow as pa

from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.upload import PutStream
from barrage_server.server.limits import Limits
from barrage_server.server.principal import Principal
from barrage_server.wire.arrow_message import encode_batch_header
from barrage_server.wire.layout import take_apart
from barrage_server.wire.raw import encode_flight_data, schema_flight_data

SCHEMA = pa.schema([("a", pa.int64())])
ROWS = 1 << 17
"""Rows of a message of one mebibyte."""
MESSAGES = 20
MOST_AHEAD = 4
"""Messages of which the server receives no more."""


def message(number: int) -> bytes:
    apart = take_apart([pa.array([number] * ROWS)])
    header = encode_batch_header(ROWS, apart.nodes, apart.spans, apart.size)
    return encode_flight_data(header, None, apart.body)


class Publisher(Call):
    """Has all messages ready, and counts those that were received."""

    method, metadata, peer = "/arrow.flight.protocol.FlightService/DoPut", {}, "peer"

    def __init__(self) -> None:
        self._messages = [schema_flight_data(SCHEMA), *map(message, range(MESSAGES))]
        self.received = -1  # without the schema

    async def read(self) -> bytes | None:
        await asyncio.sleep(0)
        if self.received == MESSAGES:
            return None
        self.received += 1
        return self._messages[self.received]

    async def confirm_end(self) -> None:
        pass

    async def send_headers(self, headers: Sequence[tuple[str, str]]) -> None:
        pass

    async def write(self, message: bytes) -> None:
        pass


def test_messages_are_received_ahead_and_no_more_than_four_mebibytes() -> None:
    """However long their decoding takes; and all of them come, in their order."""

    async def body() -> None:
        publisher = Publisher()
        stream = PutStream(publisher, Principal("me"), Limits())
        await stream.open()
        messages = stream.messages()
        most = 0
        for taken in range(1, MESSAGES + 1):
            batch, _ = await asyncio.to_thread(next, messages)
            assert batch is not None
            assert (batch.num_rows, batch.column(0).unique().to_pylist()) == (ROWS, [taken - 1])
            for _ in range(100):
                await asyncio.sleep(0)
            most = max(most, publisher.received - taken)
        assert most == MOST_AHEAD
        assert await asyncio.to_thread(next, messages, None) is None

    asyncio.run(asyncio.wait_for(body(), 60))
