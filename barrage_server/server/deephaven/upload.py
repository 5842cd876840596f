"""One DoPut stream of the Deephaven door.

What a stream of rows is for, and how it is applied, is the business of :class:`barrage_server.server.put.Upload`. It
reads and waits like a Flight handler, so it runs on a thread, and here it is given what it reads from.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.flight as fl
from barrage_proto import flight_pb2

from barrage_server.engine import AppendTable, Table
from barrage_server.errors import BarrageError, WireFormatError
from barrage_server.server.deephaven.call import Call
from barrage_server.server.hub import Hub
from barrage_server.server.limits import Limits
from barrage_server.server.put import Upload
from barrage_server.wire.arrow_message import DICTIONARY_BATCH, header_type
from barrage_server.wire.dictionaries import DictionaryDecoder
from barrage_server.wire.protocol import STAGE_COMMAND
from barrage_server.wire.raw import (
    Descriptor,
    FlightDataParts,
    decode_flight_data,
    decode_ragged_batch,
    decode_schema_message,
)

__all__ = ["ExportUpload", "PutStream"]

Result = TypeVar("Result")

_PATH: Final = 1
_COMMAND: Final = 2
_NEWS_SECONDS: Final = 0.05
_LIGHT_BYTES: Final = 1 << 12
"""A longer schema is read on another thread than the event loop's."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A message as Flight's reader gives it."""

    data: pa.RecordBatch | None
    app_metadata: pa.Buffer | None


class PutStream:
    """A call that carries rows, in the shape in which a Flight handler sees one: context, reader and writer in one.

    :meth:`open` must be called on the event loop first; the rest belongs to the thread that takes the upload, which
    checks the rows.

    Args:
        call: the call.
        limits: those of the server. One batch, and all dictionaries together, may have no more bytes when they are
            decompressed than all that the stream may carry.

    """

    def __init__(self, call: Call, limits: Limits) -> None:
        self._call = call
        self._limits = limits
        self._limit = limits.put_bytes
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: concurrent.futures.Future[Any] | None = None
        self._cancelled = False
        self._first: FlightDataParts | None = None
        self._schema: pa.Schema | None = None
        self._schema_header = b""
        self._decoder: DictionaryDecoder | None = None
        self.descriptor = fl.FlightDescriptor.for_path()

    async def open(self) -> Descriptor:
        """Read the first message: what the rows are for, and their schema.

        Raises:
            WireFormatError: it is no such message.

        """
        message = await self._call.read()
        if message is None:
            raise WireFormatError("A DoPut stream must begin with an Arrow schema.")
        self._first = first = decode_flight_data(message)
        self._schema_header = bytes(first.data_header)
        if not first.data_header:
            raise WireFormatError("A DoPut stream must begin with an Arrow schema.")
        if len(first.data_header) <= _LIGHT_BYTES:
            self._schema = decode_schema_message(first.data_header)
        else:
            self._schema = await asyncio.to_thread(decode_schema_message, first.data_header)
        descriptor = first.descriptor or Descriptor()
        if descriptor.type == _COMMAND:
            self.descriptor = fl.FlightDescriptor.for_command(descriptor.command)
            if descriptor.command == STAGE_COMMAND:
                self._limit = self._limits.staging.entry_bytes
        elif descriptor.type == _PATH:
            self.descriptor = fl.FlightDescriptor.for_path(*descriptor.path)
        return descriptor

    def cancel(self) -> None:
        """The call is over: whoever waits for a message gets none."""
        with self._lock:
            self._cancelled = True
            if self._waiting is not None:
                self._waiting.cancel()

    # The context of a Flight handler.

    def peer(self) -> str:
        """Whom it comes from."""
        return self._call.peer

    def is_cancelled(self) -> bool:
        """Whether the client has gone, or was cut off."""
        return self._cancelled

    # Its reader.

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._schema

    def read_chunk(self) -> Chunk:
        """The next message with anything in it; StopIteration when the client sends no more, or has gone."""
        if self._first is not None:
            first, self._first = self._first, None
            if first.app_metadata:
                return Chunk(None, pa.py_buffer(first.app_metadata))
        try:
            message = self._wait(self._read())
        except concurrent.futures.CancelledError:
            message = None
        if message is None:
            raise StopIteration
        parts = decode_flight_data(message)
        metadata = pa.py_buffer(parts.app_metadata) if parts.app_metadata else None
        if not parts.data_header:
            return Chunk(None, metadata)
        header, body = parts.data_header, parts.data_body or b""
        if header_type(header) == DICTIONARY_BATCH:
            if self._decoder is None:
                self._decoder = DictionaryDecoder(self._schema_header, self._limit)
            self._decoder.add(header, body)
            return Chunk(None, metadata)
        return Chunk(self._batch(header, body), metadata)

    async def _read(self) -> bytes | None:
        message = await self._call.read()
        if message is None:
            # A connection that broke ends the messages too, and is told of right behind: what came must not be taken
            # for everything before that.
            await asyncio.sleep(_NEWS_SECONDS)
        return message

    def _batch(self, header: bytes, body: bytes | memoryview) -> pa.RecordBatch:
        assert self._schema is not None
        try:
            if self._decoder is not None:
                return self._decoder.batch(header, body)
            columns = decode_ragged_batch(header, body, self._schema, check=False, most=self._limit)
            return pa.RecordBatch.from_arrays(columns, schema=self._schema)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise WireFormatError("What came is not an Arrow stream of the announced schema.") from error

    # Its writer.

    def write(self, app_metadata: pa.Buffer) -> None:
        """Send a result."""
        result = flight_pb2.PutResult(app_metadata=app_metadata.to_pybytes())
        try:
            self._wait(self._call.write(result.SerializeToString()))
        except concurrent.futures.CancelledError as error:
            raise OSError("the client has gone") from error

    def _wait(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        with self._lock:
            if self._cancelled:
                coroutine.close()
                raise concurrent.futures.CancelledError
            self._waiting = future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result()


class ExportUpload(Upload):
    """Rows for a table of the session's own, which has no name for others.

    The first result goes out at once: Deephaven's Python client waits for one before it half-closes, and with no rows
    it has nothing else to wait for.
    """

    def __init__(self, hub: Hub, stream: PutStream, number: int) -> None:
        super().__init__(hub, stream, stream.descriptor, stream, stream)
        self._number = number
        self.table: Table | None = None

    def run(self) -> None:
        """Take the stream to its end. Raises what the client is to be told."""
        self._hub.streams.admit(self)
        try:
            schema = self._hub.catalog.schema_of_new(self._schema())
            table = AppendTable(self._hub.catalog.graph, f"export {self._number}", schema)
            self._reply(b"")
            batches = self._collect(self._schema(), self._chunks())
            with table.graph.cycle():
                for batch in batches:
                    table.append(batch)
            self.table = table
        finally:
            self._hub.streams.release(self)


def reason(error: BaseException) -> BarrageError:
    """What made an export fail, for those who wait for it."""
    return error if isinstance(error, BarrageError) else WireFormatError("The upload of this export broke off.")
