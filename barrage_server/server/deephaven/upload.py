"""One DoPut stream of the Deephaven endpoint.

:mod:`barrage_server.server.put` applies the rows. It blocks on reading, so it runs on a thread; this module is its
source.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections import deque
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from typing import Any, Final, TypeVar

import pyarrow as pa
from barrage_proto import flight_pb2

from barrage_server.engine import AppendTable, Table
from barrage_server.errors import BarrageError, UnavailableError, WireFormatError
from barrage_server.server.deephaven.call import Call
from barrage_server.server.limits import Limits
from barrage_server.server.principal import Principal
from barrage_server.server.server_state import ServerState
from barrage_server.server.upload import RawMessage, UploadStream
from barrage_server.wire.arrow_message import DICTIONARY_BATCH, header_type
from barrage_server.wire.dictionaries import DictionaryDecoder, has_dictionaries
from barrage_server.wire.protocol import STAGE_COMMAND
from barrage_server.wire.raw import (
    COMMAND_DESCRIPTOR,
    Descriptor,
    FlightDataParts,
    decode_flight_data,
    decode_ragged_batch,
    decode_schema_message,
)
from barrage_server.wire.soundness import check_readable, check_schema

__all__ = ["PutStream", "reason", "take_export"]

Result = TypeVar("Result")

_AHEAD_BYTES: Final = 4 << 20
"""Bytes of messages for the thread at which reading stops, until the thread has taken half of them."""
_OVERHEAD: Final = 200
"""Bytes that a message counts for besides its own."""
_LIGHT_BYTES: Final = 1 << 12
"""Most bytes of a schema that the event loop decodes itself."""


class PutStream:
    """The :class:`~barrage_server.server.upload.UploadSource` of a gRPC call.

    :meth:`open` must be called on the event loop first. The rest belongs to the thread that takes the upload, which
    checks the rows.

    Args:
        call: the call.
        principal: the caller.
        limits: those of the server. The limit of the whole stream bounds one batch, and all dictionaries together, when
            they are decompressed.
    """

    def __init__(self, call: Call, principal: Principal, limits: Limits) -> None:
        self.peer = call.peer
        self.principal = principal
        self.descriptor = Descriptor()
        self._call = call
        self._limits = limits
        self._limit, self._setting = limits.put_bytes, "put_bytes"
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()  # guards the next six
        self._waiting: concurrent.futures.Future[Any] | None = None
        self._reading: concurrent.futures.Future[None] | None = None
        self._ahead: deque[bytes | BaseException | None] = deque()  # None: there are no more
        self._ahead_bytes = 0
        self._is_full = False  # reading has stopped
        self._cancelled = False
        self._has_room = asyncio.Event()
        self._first: FlightDataParts | None = None
        self._schema: pa.Schema | None = None
        self._schema_header = b""
        self._decoder: DictionaryDecoder | None = None

    async def open(self) -> Descriptor:
        """Read the first message: the descriptor and the schema of the rows.

        Raises:
            WireFormatError: it is no such message.
            DeadlineError: it does not come in time.
        """
        message = await self._call.read_first()
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
        self.descriptor = first.descriptor or Descriptor()
        if self.descriptor.type == COMMAND_DESCRIPTOR and self.descriptor.command == STAGE_COMMAND:
            self._limit, self._setting = self._limits.staging.entry_bytes, "staging.entry_bytes"
        return self.descriptor

    def cancel(self) -> None:
        """End a call that is cancelled: a waiting reader gets no message."""
        with self._changed:
            self._cancelled = True
            if self._waiting is not None:
                self._waiting.cancel()
            self._changed.notify_all()
        self.stop()

    def stop(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.cancel()

    def cut(self, error: BarrageError) -> bool:
        """End the call with that error. May be called on any thread."""
        with self._changed:
            self._ahead.appendleft(error)
            self._changed.notify_all()
        return True

    # On the thread that takes the upload.

    def is_cancelled(self) -> bool:
        """Whether the client has disconnected, or was cut off."""
        return self._cancelled

    def schema(self) -> pa.Schema:
        """The schema of the rows, checked."""
        check_schema(self._schema)
        return self._schema

    def messages(self) -> Iterator[RawMessage]:
        """The messages with content, until the client half-closes or disconnects."""
        first, self._first = self._first, None
        if first is not None and first.app_metadata:
            yield None, memoryview(first.app_metadata)
        assert self._schema is not None
        for data_type in self._schema.types:
            check_readable(data_type)
        with self._changed:
            if self._cancelled:
                return
            self._reading = asyncio.run_coroutine_threadsafe(self._read_ahead(), self._loop)
        while (message := self._next()) is not None:
            yield self._decoded(decode_flight_data(message))

    def reply(self, app_metadata: bytes) -> None:
        """Send a result.

        Raises:
            UnavailableError: the client has disconnected.
        """
        result = flight_pb2.PutResult(app_metadata=app_metadata)
        try:
            self._wait(self._call.write(result.SerializeToString()))
        except concurrent.futures.CancelledError as error:
            raise UnavailableError("The client has disconnected.") from error

    def _decoded(self, parts: FlightDataParts) -> RawMessage:
        metadata = memoryview(parts.app_metadata) if parts.app_metadata else None
        if not parts.data_header:
            return None, metadata
        header, body = parts.data_header, parts.data_body or b""
        if header_type(header) == DICTIONARY_BATCH:
            if self._decoder is None:
                self._decoder = DictionaryDecoder(self._schema_header, self._limit, self._setting)
            self._decoder.add(header, body)
            return None, metadata
        return self._batch(header, body), metadata

    def _next(self) -> bytes | None:
        """The next message; None after the last one, and when the call is over."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._ahead) or self._cancelled)
            if self._cancelled:
                return None
            message = self._ahead.popleft()
            self._ahead_bytes -= _weight(message)
            has_room = self._is_full and self._ahead_bytes <= _AHEAD_BYTES // 2
            if has_room:
                self._is_full = False
        if has_room:
            self._loop.call_soon_threadsafe(self._has_room.set)
        if isinstance(message, BaseException):
            raise message
        if message is None:  # the rows of a client that has disconnected must not count as complete
            with suppress(concurrent.futures.CancelledError):
                self._wait(self._call.confirm_end())
        return message

    # On the event loop again.

    async def _read_ahead(self) -> None:
        """Read messages while the thread processes earlier ones, within a bound of bytes."""
        while True:
            message: bytes | BaseException | None
            try:
                message = await self._call.read()
            except Exception as error:  # for the thread, which takes the upload
                message = error
            self._has_room.clear()
            with self._changed:
                self._ahead.append(message)
                self._ahead_bytes += _weight(message)
                self._is_full = is_full = self._ahead_bytes >= _AHEAD_BYTES
                self._changed.notify_all()
            if not isinstance(message, bytes):
                return
            if is_full:
                await self._has_room.wait()

    def _batch(self, header: bytes, body: bytes | memoryview) -> pa.RecordBatch:
        assert self._schema is not None
        try:
            if self._decoder is not None:
                return self._decoder.batch(header, body)
            if any(map(has_dictionaries, self._schema.types)):
                raise WireFormatError("A record batch came before its dictionaries.")
            columns = decode_ragged_batch(
                header, body, self._schema, check=False, most=self._limit, setting=self._setting
            )
            return pa.RecordBatch.from_arrays(columns, schema=self._schema)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise WireFormatError("What came is not an Arrow stream of the announced schema.") from error

    def _wait(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        with self._changed:
            if self._cancelled:
                coroutine.close()
                raise concurrent.futures.CancelledError
            self._waiting = future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result()


def _weight(message: bytes | BaseException | None) -> int:
    return _OVERHEAD + (len(message) if isinstance(message, bytes) else 0)


def take_export(server_state: ServerState, stream: PutStream, number: int) -> Table:
    """Receive rows for a table of the session without a name, and return the table.

    The first result is sent at once: Deephaven's Python client waits for one before it half-closes, and without rows it
    would get no other.

    Raises:
        BarrageError: the error for the client.
    """
    upload = UploadStream(server_state, stream)
    with upload.admitted():
        schema = server_state.catalog.schema_of_new(stream.schema())
        table = AppendTable(server_state.catalog.graph, f"export {number}", schema)
        upload.reply(b"")
        batches = upload.collect(stream.schema(), upload.messages())
        with table.graph.cycle():
            for batch in batches:
                table.append(batch)
    table.is_refreshing = False  # it gets no further rows, until it has a name
    return table


def reason(error: BaseException) -> BarrageError:
    """The error of an export, for the calls that use it."""
    return error if isinstance(error, BarrageError) else WireFormatError("The upload of this export broke off.")
