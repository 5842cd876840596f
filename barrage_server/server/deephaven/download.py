"""One DoGet stream of the gRPC endpoint: the batches of one version.

A thread prepares the headers and names the buffers. That copies no values, unless they were overwritten. The event loop
joins one message for gRPC, which copies it once more, while gRPC sends the previous one. Joining on the thread would
take a change of threads per message, which costs more than the copy.
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
"""Messages prepared at a time if that copies nothing."""
_COPIED_AHEAD: Final = 4
"""Messages prepared at a time if that copies values. A change of threads per message would cost more than the copy."""


class RawDownload(DownloadStream):
    """Sends messages one by one, and prepares the next ones meanwhile.

    At most two messages are joined at a time: the one that gRPC sends, and the next.
    """

    def __init__(self, state: EndpointState, call: Call, session: Session, table: Table, schema: pa.Schema) -> None:
        super().__init__(state.server_state, session.principal, call.peer, table, schema, call.stall)
        self._state = state
        self._call = call
        self._sending: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Send all batches. Raises the error for the client."""
        self.server_state.streams.admit(self)
        try:
            await self._send(await self._state.workers.run(schema_flight_data, self.schema))
            messages = self._messages()
            ahead = _AHEAD if self.version.is_frozen else _COPIED_AHEAD
            following = asyncio.ensure_future(self._state.workers.run(_taken, messages, 1))
            try:
                while prepared := await following:
                    following = asyncio.ensure_future(self._state.workers.run(_taken, messages, ahead))
                    for pieces in prepared:
                        message = joined(pieces)
                        self.count(1, len(message))
                        await self._send(message)
                        del message  # before the next one is joined
            finally:
                following.cancel()
            await self._sent()
        except asyncio.CancelledError:
            self._stop_sending()
            raise
        finally:
            try:
                await self._settled()
            except asyncio.CancelledError:  # meanwhile
                self._stop_sending()
                await self._settled()
                raise
            finally:
                self.server_state.streams.release(self)

    async def _send(self, message: bytes) -> None:
        """Begin to send a message when gRPC has taken the previous one."""
        await self._sent()
        self.check()
        self._sending = asyncio.ensure_future(self._call.write(message))
        await asyncio.sleep(0)  # it begins before the next message is joined

    async def _sent(self) -> None:
        """Return when gRPC has taken the last message. Raises the error of sending it."""
        if self._sending is not None:
            sending, self._sending = self._sending, None
            await sending

    def _stop_sending(self) -> None:
        if self._sending is not None:
            self._sending.cancel()

    async def _settled(self) -> None:
        """Return when nothing is being sent, because gRPC takes no status meanwhile."""
        if self._sending is not None:
            await asyncio.wait([self._sending])
            if not self._sending.cancelled():
                self._sending.exception()  # marked as seen: another error is reported

    def _messages(self) -> Iterator[list[Any]]:
        """The pieces of each message: an empty table has one, too, as clients require."""
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
