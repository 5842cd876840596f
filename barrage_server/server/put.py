"""One DoPut stream: rows for a table, rows to be staged, or a ticking publication."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.flight as fl

from barrage_server.engine import ReplicaTable
from barrage_server.errors import (
    AlreadyExistsError,
    BarrageError,
    InvalidRequestError,
    LimitError,
    PublishError,
    UnavailableError,
    WireFormatError,
)
from barrage_server.flight.sockets import peer_name
from barrage_server.log import count
from barrage_server.publish import Target, publish_rows
from barrage_server.publish.incoming import replica_update
from barrage_server.server.checks import checked
from barrage_server.server.hub import Hub
from barrage_server.wire.intake import Intake
from barrage_server.wire.metadata import PublicationRequest, decode_message
from barrage_server.wire.protocol import (
    FLUSH,
    PUT_OPTIONS_FIELD,
    PUT_OPTIONS_KEY,
    STAGE_COMMAND,
    PublicationResult,
    PutOptions,
    PutResult,
    StageEnd,
    StageRequest,
)
from barrage_server.wire.reader import IncomingMessage, MessageReader
from barrage_server.wire.soundness import check_schema
from barrage_server.wire.tickets import name_of_path, name_of_ticket
from barrage_server.wire.wrapper import is_barrage

__all__ = ["Upload"]

logger = logging.getLogger("barrage_server.server")

_BROKE_OFF: Final = "The staged batch broke off before its end; it is dropped. Stage it again."

Chunk = tuple[pa.RecordBatch | None, bytes | None]


class Upload:
    """A stream of rows from a publisher.

    A publisher that dies is told from one that has finished by Flight's cancellation mark; what the dead one sent is
    dropped.

    Args:
        hub: the server's state.
        context: Flight's view of the call.
        descriptor: what the rows are for.
        reader: where they come from.
        writer: where the result goes.

    """

    kind = "upload"

    def __init__(
        self,
        hub: Hub,
        context: fl.ServerCallContext,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.FlightMetadataWriter,
    ) -> None:
        self.peer = peer_name(context.peer())
        self._hub = hub
        self._context = context
        self._descriptor = descriptor
        self._reader = reader
        self._writer = writer
        self._touched = hub.clock()
        self._may_idle = False
        self._ending: BarrageError | None = None

    def run(self) -> None:
        """Take the stream to its end. Raises what the client is to be told; nothing is applied then."""
        self._hub.streams.admit(self)
        try:
            if self._descriptor.descriptor_type == fl.DescriptorType.CMD and self._descriptor.command == STAGE_COMMAND:
                self._stage()
                return
            chunks = self._chunks()
            first = next(chunks, None)
            if first is not None and first[1] is not None and is_barrage(first[1]):
                self._publication(first[1], chunks)
            else:
                self._rows(first, chunks)
        finally:
            self._hub.streams.release(self)

    def overdue(self, now: float) -> str | None:
        """Why the connection should be ended now."""
        if self._ending is not None:
            return str(self._ending)
        limit = self._hub.limits.idle_upload_seconds
        if not self._may_idle and now - self._touched >= limit:
            return f"nothing was sent for {limit:g} s"
        return None

    def end(self, error: BarrageError) -> None:
        """Have the connection ended: a handler that reads cannot be interrupted otherwise."""
        self._ending = error

    # Rows that are applied when all of them are there.

    def _rows(self, first: Chunk | None, chunks: Iterator[Chunk]) -> None:
        name = self._name()
        schema = self._schema()
        options = _options(schema, first[1] if first is not None else None)
        batches = self._collect(schema, [] if first is None else _chain(first, chunks))
        target = Target(name, options.mode, options.key, options.kind, options.capacity)
        rows, table = publish_rows(self._hub.catalog, target, schema, batches, limit=self._hub.limits.put_bytes)
        logger.info("%s put %s into %s", self.peer, count(rows, "rows"), name)
        self._reply(PutResult(name, rows, table.version.step).to_json())

    def _collect(self, schema: pa.Schema, chunks: Iterable[Chunk]) -> list[pa.RecordBatch]:
        """All rows of a stream that has come to its proper end, in plain form."""
        limit = self._hub.limits.put_bytes
        refusal = f"One DoPut may carry {limit:,} bytes, and this one has more. Send it in parts."
        received = (batch for batch, _ in chunks if batch is not None and batch.num_rows)
        batches = [plain for plain, _ in checked(received, Intake(schema, limit, refusal), self._hub.checks)]
        self._check_complete()
        return batches

    # Rows that wait for a commit.

    def _stage(self) -> None:
        chunks, ends = self._chunks(), list[StageEnd]()
        token: str | None = None
        try:
            first = next(chunks, None)
            if first is None:
                self._check_complete()
                raise PublishError(_BROKE_OFF)
            if first[1] is None:
                raise WireFormatError("The first message of a staged batch must have a stage request with it.")
            request, schema = StageRequest.from_json(first[1]), self._schema()
            intake = Intake(schema, *self._staged_limit())
            token = self._hub.staging.open(request, schema, self._hub.clock())
            received = _staged_rows(first[0], chunks, ends)
            for plain, nbytes in checked(received, intake, self._hub.checks):
                self._hub.staging.add(token, plain, self._hub.clock(), nbytes)
            self._check_complete()
            if not ends:
                raise PublishError(_BROKE_OFF)
            result = self._hub.staging.seal(token, ends[0].rows, self._hub.clock())
            self._hub.committer.staged(request, token)
        except BaseException:
            if token is not None:
                self._hub.staging.drop([token])
            raise
        self._reply(result.to_json())

    def _staged_limit(self) -> tuple[int, str]:
        limit = self._hub.limits.staging.entry_bytes
        return limit, f"One staged batch may have {limit:,} bytes, and this one has more. Commit more often."

    # Updates that are applied as they come.

    def _publication(self, app_metadata: bytes, chunks: Iterator[Chunk]) -> None:
        request = decode_message(app_metadata)
        if not isinstance(request, PublicationRequest):
            raise InvalidRequestError(f"DoPut takes publication requests, not {type(request).__name__}.")
        name = name_of_ticket(request.ticket) if request.ticket else self._name()
        schema = self._schema()
        reader = MessageReader(
            schema,
            use_deephaven_nulls=request.use_deephaven_nulls,
            max_update_bytes=self._hub.limits.put_bytes,
        )
        self._may_idle = True
        updates = 0
        table: ReplicaTable | None = None
        with self._hub.catalog.publisher(name):
            for batch, metadata in chunks:
                if batch is None and metadata == FLUSH:
                    if not reader.is_complete:
                        raise WireFormatError("A flush came in the middle of an update.")
                    self._reply_updates(name, updates, table)
                    continue
                message = reader.feed(batch, metadata)
                if message is not None:
                    table = self._apply(name, reader.schema, table, message)
                    updates += 1
                    if updates == 1:  # the publisher may now tell others that the table is there
                        self._reply_updates(name, updates, table)
        logger.info("%s published %d updates of %s", self.peer, updates, name)
        self._reply_updates(name, updates, table)

    def _apply(
        self, name: str, schema: pa.Schema, table: ReplicaTable | None, message: IncomingMessage
    ) -> ReplicaTable:
        if table is not None and self._hub.catalog.find(name) is not table:
            raise UnavailableError(f"Table '{name}' was dropped while it was being published.")
        is_there = True
        if table is None:
            table, is_there = self._hub.catalog.replica(name, schema)
        table.apply(replica_update(table, message))
        if not is_there and self._hub.catalog.offer(table) is not table:
            raise AlreadyExistsError(f"Table '{name}' was made by another publisher meanwhile; use another name.")
        return table

    def _reply_updates(self, name: str, updates: int, table: ReplicaTable | None) -> None:
        step = -1 if table is None else table.version.step
        self._reply(PublicationResult(name, updates, step).to_json())

    # What all three need.

    def _chunks(self) -> Iterator[Chunk]:
        """Messages until the client half-closes."""
        while True:
            try:
                chunk = self._reader.read_chunk()
            except StopIteration:
                return
            except (pa.ArrowException, OSError) as error:
                self._check_complete()
                raise WireFormatError(f"What came is not an Arrow stream of the announced schema: {error}") from error
            self._touched = self._hub.clock()
            metadata = chunk.app_metadata
            if metadata is not None and metadata.size > self._hub.limits.request_bytes:
                raise LimitError(f"A message has more than {self._hub.limits.request_bytes:,} bytes of app_metadata.")
            yield chunk.data, metadata.to_pybytes() if metadata is not None and metadata.size else None

    def _check_complete(self) -> None:
        if self._ending is not None:
            raise self._ending
        if self._context.is_cancelled():
            raise UnavailableError("The publisher broke off; nothing of what it sent is applied.")

    def _schema(self) -> pa.Schema:
        try:
            schema = self._reader.schema
        except (pa.ArrowException, OSError) as error:
            raise WireFormatError("A DoPut stream must begin with an Arrow schema.") from error
        check_schema(schema)
        return schema

    def _name(self) -> str:
        if self._descriptor.descriptor_type == fl.DescriptorType.PATH:
            return name_of_path(self._descriptor.path)
        raise InvalidRequestError('DoPut needs a path descriptor with the table\'s name: ["scope", name] or [name].')

    def _reply(self, metadata: bytes) -> None:
        try:
            self._writer.write(pa.py_buffer(metadata))
        except (pa.ArrowException, OSError):
            logger.info("%s was gone before it heard that its rows are in", self.peer)


def _staged_rows(
    first: pa.RecordBatch | None, chunks: Iterable[Chunk], ends: list[StageEnd]
) -> Iterator[pa.RecordBatch]:
    """The rows of a staged batch; what its sender says at their end goes to ``ends``."""
    if first is not None and first.num_rows:
        yield first
    for batch, metadata in chunks:
        if ends:
            raise PublishError("Something came after the end of a staged batch; stage it again.")
        if metadata is not None:
            ends.append(StageEnd.from_json(metadata))
        if batch is not None and batch.num_rows:
            yield batch


def _options(schema: pa.Schema, app_metadata: bytes | None) -> PutOptions:
    """What the publisher asks for; app_metadata that is no JSON object with our field is the publisher's own."""
    if (
        app_metadata is not None
        and app_metadata.lstrip()[:1] == b"{"
        and f'"{PUT_OPTIONS_FIELD}"'.encode() in app_metadata
    ):
        options = PutOptions.from_json(app_metadata)
        if options is not None:
            return options
    in_schema = (schema.metadata or {}).get(PUT_OPTIONS_KEY)
    return PutOptions() if in_schema is None else PutOptions.from_schema_metadata(in_schema)


def _chain(first: Chunk, rest: Iterator[Chunk]) -> Iterator[Chunk]:
    yield first
    yield from rest
