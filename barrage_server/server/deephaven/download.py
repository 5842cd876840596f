"""One DoGet stream of the gRPC endpoint: the batches of one version.

A thread prepares their headers and names their buffers, which copies nothing. The event loop joins one message at a
time for gRPC, which copies it once more. Joining on the thread would take a change of threads for each message, which
costs more than the copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

import pyarrow as pa

from barrage_server.engine import Table
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState
from barrage_server.server.download import DownloadStream, parts
from barrage_server.wire.arrow_message import encode_batch_header
from barrage_server.wire.empty import empty_array
from barrage_server.wire.layout import take_apart
from barrage_server.wire.raw import flight_data_pieces, joined, schema_flight_data

__all__ = ["RawDownload"]

_AHEAD: Final = 32
"""Messages prepared at a time where that copies nothing."""


class RawDownload(DownloadStream):
    """Messages that are sent one by one, as the client takes them; those that follow are prepared meanwhile."""

    def __init__(self, state: EndpointState, call: Call, session: Session, table: Table, schema: pa.Schema) -> None:
        super().__init__(state.server_state, session.principal, call.peer, table, schema, call.stall)
        self._state = state
        self._call = call

    async def run(self) -> None:
        """Send all batches. Raises the error for the client."""
        self.server_state.streams.admit(self)
        try:
            await self._send(await self._state.run(schema_flight_data, self.schema))
            messages = self._messages()
            ahead = _AHEAD if self.version.is_frozen else 1
            following = asyncio.ensure_future(self._state.run(_taken, messages, 1))
            try:
                while prepared := await following:
                    following = asyncio.ensure_future(self._state.run(_taken, messages, ahead))
                    for pieces in prepared:
                        message = joined(pieces)
                        self.count(1, len(message))
                        await self._send(message)
            finally:
                following.cancel()
        finally:
            self.server_state.streams.release(self)

    async def _send(self, message: bytes) -> None:
        self.check()
        await self._call.write(message)

    def _messages(self) -> Iterator[list[Any]]:
        """The pieces of at least one message: Deephaven's clients require a batch of an empty table, too."""
        empty = True
        for batch in self.version.batches():
            for part in parts(batch):
                empty = False
                yield _pieces(part)
        if empty:
            yield _pieces(_no_rows(self.schema))


def _taken(messages: Iterator[list[Any]], count: int) -> list[list[Any]]:
    return list(islice(messages, count))


def _pieces(batch: pa.RecordBatch) -> list[Any]:
    apart = take_apart(batch.columns)
    header = encode_batch_header(batch.num_rows, apart.nodes, apart.spans, apart.size)
    return flight_data_pieces(header, None, apart.body)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([empty_array(field.type) for field in schema], schema=schema)
