"""One DoGet stream of the gRPC endpoint: the batches of one version, each made while the one before is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pyarrow as pa

from barrage_server.engine import Table
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState
from barrage_server.server.download import DownloadStream, parts
from barrage_server.wire.arrow_message import encode_batch_header
from barrage_server.wire.empty import empty_array
from barrage_server.wire.layout import take_apart
from barrage_server.wire.raw import encode_flight_data, schema_flight_data

__all__ = ["RawDownload"]


class RawDownload(DownloadStream):
    """Messages that are made one by one, each while the client takes the one before."""

    def __init__(self, state: EndpointState, call: Call, session: Session, table: Table, schema: pa.Schema) -> None:
        has_name = table not in state.private
        super().__init__(state.server_state, session.principal, call.peer, table, schema, call.stall, has_name=has_name)
        self._state = state
        self._call = call

    async def run(self) -> None:
        """Send all batches. Raises the error for the client."""
        self.server_state.streams.admit(self)
        try:
            await self._send(await self._state.run(schema_flight_data, self.schema))
            messages = self._messages()
            following = asyncio.ensure_future(self._state.run(next, messages, None))
            try:
                while (message := await following) is not None:
                    following = asyncio.ensure_future(self._state.run(next, messages, None))
                    self.count(1, len(message))
                    await self._send(message)
            finally:
                following.cancel()
        finally:
            self.server_state.streams.release(self)

    async def _send(self, message: bytes) -> None:
        self.check()
        await self._call.write(message)

    def _messages(self) -> Iterator[bytes]:
        """At least one: Deephaven's clients require a batch of an empty table, too."""
        empty = True
        for batch in self.version.batches():
            for part in parts(batch):
                empty = False
                yield _flight_data(part)
        if empty:
            yield _flight_data(_no_rows(self.schema))


def _flight_data(batch: pa.RecordBatch) -> bytes:
    apart = take_apart(batch.columns)
    header = encode_batch_header(batch.num_rows, apart.nodes, apart.spans, apart.size)
    return encode_flight_data(header, None, apart.body)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([empty_array(field.type) for field in schema], schema=schema)
