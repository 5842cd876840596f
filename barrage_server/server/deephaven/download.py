"""One DoGet stream of the Deephaven door: the batches of one version, each made when the client can take it."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from barrage_server.engine import TableVersion
from barrage_server.errors import BarrageError
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.state import DoorState
from barrage_server.server.download import parts
from barrage_server.wire.arrow_message import encode_batch_header
from barrage_server.wire.empty import empty_array
from barrage_server.wire.layout import take_apart
from barrage_server.wire.raw import encode_flight_data, schema_flight_data

__all__ = ["RawDownload"]


class RawDownload:
    """It holds its version, so what is read does not change, and it is watched like every other stream."""

    kind = "download"

    def __init__(self, state: DoorState, call: Call, version: TableVersion, schema: pa.Schema) -> None:
        self.peer = call.peer
        self._state = state
        self._hub = state.hub
        self._call = call
        self._version = version.detached()  # a slow reader must not keep later history alive
        self._schema = schema
        self._since: float | None = None
        self._ending: BarrageError | None = None

    async def run(self) -> None:
        """Send everything. Raises what the client is to be told."""
        self._hub.streams.admit(self)
        try:
            await self._send(await self._state.run(schema_flight_data, self._schema))
            messages = self._messages()
            while (message := await self._state.run(next, messages, None)) is not None:
                await self._send(message)
        finally:
            self._hub.streams.release(self)

    def overdue(self, now: float) -> str | None:
        """Why the connection should be ended now."""
        since, limit = self._since, self._hub.limits.slow_client_seconds
        if since is not None and now - since >= limit:
            return f"the client did not take a batch for {now - since:.1f} s"
        return None

    def end(self, error: BarrageError) -> None:
        """Have no more batches sent."""
        self._ending = error

    async def _send(self, message: bytes) -> None:
        if self._ending is not None:
            raise self._ending
        self._since = self._hub.clock()
        await self._call.write(message)
        self._since = None

    def _messages(self) -> Iterator[bytes]:
        """At least one: Deephaven's clients want a batch of an empty table, too."""
        empty = True
        for batch in self._version.batches():
            for part in parts(batch):
                empty = False
                yield _flight_data(part)
        if empty:
            yield _flight_data(_no_rows(self._schema))


def _flight_data(batch: pa.RecordBatch) -> bytes:
    apart = take_apart(batch.columns)
    header = encode_batch_header(batch.num_rows, apart.nodes, apart.spans, apart.size)
    return encode_flight_data(header, None, apart.body)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([empty_array(field.type) for field in schema], schema=schema)
