"""The three kinds of DoPut: rows for a table, staged rows, ticking publications."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import pyarrow as pa

from barrage_server.engine import ReplicaTable
from barrage_server.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    PublishError,
    UnavailableError,
    WireFormatError,
)
from barrage_server.log import count, note
from barrage_server.publish import Target, publish_rows
from barrage_server.publish.incoming import replica_update
from barrage_server.server.checks import checked
from barrage_server.server.server_state import ServerState
from barrage_server.server.upload import Message, UploadSource, UploadStream
from barrage_server.wire.commit_messages import StageEnd, StageRequest
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
)
from barrage_server.wire.raw import COMMAND_DESCRIPTOR, PATH_DESCRIPTOR, Descriptor
from barrage_server.wire.reader import IncomingMessage, MessageReader
from barrage_server.wire.tickets import name_of_path, name_of_ticket
from barrage_server.wire.wrapper import is_barrage

__all__ = ["take_put"]

logger = logging.getLogger("barrage_server.server")

_BROKE_OFF: Final = "The staged batch broke off before its end; it is dropped. Stage it again."


def take_put(server_state: ServerState, source: UploadSource) -> None:
    """Run one ``DoPut`` to its end.

    Raises:
        BarrageError: the error for the client. No rows of a plain or staged put are applied then.

    """
    upload = UploadStream(server_state, source)
    with upload.admitted():
        messages, descriptor = upload.messages(), source.descriptor
        if descriptor.type == COMMAND_DESCRIPTOR and descriptor.command == STAGE_COMMAND:
            _stage(upload, messages)
            return
        first = next(messages, None)
        if first is not None and first[1] is not None and is_barrage(first[1]):
            _publish(upload, first[1], messages)
        else:
            _put(upload, first, messages)


def _put(upload: UploadStream, first: Message | None, messages: Iterator[Message]) -> None:
    """Apply rows after all of them have arrived."""
    server_state, name = upload.server_state, _name(upload.source.descriptor)
    note(table=name)
    upload.aims_at(name)
    schema = upload.source.schema()
    options = _options(schema, first[1] if first is not None else None)
    batches = upload.collect(schema, [] if first is None else chain([first], messages))
    target = Target(name, options.mode, options.key, options.kind, options.capacity)
    with upload.making() as check_new:
        rows, table = publish_rows(
            server_state.catalog,
            target,
            schema,
            batches,
            limit=server_state.limits.put_bytes,
            check_new=check_new,
        )
    note(step=table.version.step)
    server_state.counters.published("put", rows)
    logger.info("%s put %s into %s", upload.peer, count(rows, "rows"), name)
    upload.reply(PutResult(name, rows, table.version.step).to_json())


def _stage(upload: UploadStream, messages: Iterator[Message]) -> None:
    """Stage rows for a later commit."""
    server_state, ends = upload.server_state, list[StageEnd]()
    limit = server_state.limits.staging.entry_bytes
    token: str | None = None
    try:
        first = next(messages, None)
        if first is None:
            upload.check_complete()
            raise PublishError(_BROKE_OFF)
        if first[1] is None:
            raise WireFormatError("The first message of a staged batch must have a stage request with it.")
        request = StageRequest.from_json(first[1])
        note(table=request.table)
        upload.aims_at(request.table)
        schema = upload.source.schema()
        refusal = (
            f"One staged batch may have {limit:,} bytes (staging.entry_bytes), and this has more. Commit more often."
        )
        intake = Intake(schema, limit, refusal)
        user = upload.source.principal.owner
        server_state.committer.check_stage(request, user)
        token = server_state.staging.open(request, schema, server_state.clock(), user)
        for plain, nbytes in checked(_staged_rows(first[0], messages, ends), intake, server_state.checks):
            server_state.staging.add(token, plain, server_state.clock(), nbytes)
        upload.check_complete()
        if not ends:
            raise PublishError(_BROKE_OFF)
        result = server_state.staging.seal(token, ends[0].rows, server_state.clock())
        server_state.committer.staged(request, token)
    except BaseException:
        if token is not None:
            server_state.staging.drop([token])
        raise
    upload.reply(result.to_json())


def _publish(upload: UploadStream, app_metadata: bytes, messages: Iterator[Message]) -> None:
    """Apply updates as they arrive."""
    request = decode_message(app_metadata)
    if not isinstance(request, PublicationRequest):
        raise InvalidRequestError(f"DoPut takes publication requests, not {type(request).__name__}.")
    catalog = upload.server_state.catalog
    name = name_of_ticket(request.ticket) if request.ticket else _name(upload.source.descriptor)
    note(table=name)
    upload.aims_at(name)
    schema = upload.source.schema()
    reader = MessageReader(
        schema,
        use_deephaven_nulls=request.use_deephaven_nulls,
        max_update_bytes=upload.server_state.limits.put_bytes,
    )
    upload.let_idle()
    updates = 0
    table: ReplicaTable | None = None

    def reply() -> None:
        step = -1 if table is None else table.version.step
        upload.reply(PublicationResult(name, updates, step).to_json())

    with catalog.publisher(name):
        for batch, metadata in messages:
            if batch is None and metadata == FLUSH:
                if not reader.is_complete:
                    raise WireFormatError("A flush came in the middle of an update.")
                reply()
                continue
            message = reader.feed(batch, metadata)
            if message is not None:
                table = _apply(upload, name, reader.schema, table, message)
                updates += 1
                upload.server_state.counters.published("update", message.metadata.included_rows.size)
                if updates == 1:  # tells the publisher that the table exists now
                    reply()
    note(step=-1 if table is None else table.version.step)
    logger.info("%s published %s of %s", upload.peer, count(updates, "updates"), name)
    reply()


def _apply(
    upload: UploadStream, name: str, schema: pa.Schema, table: ReplicaTable | None, message: IncomingMessage
) -> ReplicaTable:
    catalog = upload.server_state.catalog
    if table is not None and catalog.find(name) is not table:
        raise UnavailableError(f"Table '{name}' was dropped while it was being published.")
    if table is not None:
        table.apply(replica_update(table, message))
        return table
    with upload.making() as check_new:
        table, is_there = catalog.replica(name, schema)
        if not is_there:
            check_new({name: schema})
        table.apply(replica_update(table, message))
        if not is_there and catalog.offer(table) is not table:
            raise AlreadyExistsError(f"Table '{name}' was made by another publisher meanwhile; use another name.")
    return table


def _name(descriptor: Descriptor) -> str:
    if descriptor.type != PATH_DESCRIPTOR:
        raise InvalidRequestError('DoPut needs a path descriptor with the table\'s name: ["scope", name] or [name].')
    return name_of_path(descriptor.path)


def _staged_rows(
    first: pa.RecordBatch | None, messages: Iterable[Message], ends: list[StageEnd]
) -> Iterator[pa.RecordBatch]:
    """The rows of a staged batch; its end mark is appended to ``ends``."""
    if first is not None and first.num_rows:
        yield first
    for batch, metadata in messages:
        if ends:
            raise PublishError("Something came after the end of a staged batch; stage it again.")
        if metadata is not None:
            ends.append(StageEnd.from_json(metadata))
        if batch is not None and batch.num_rows:
            yield batch


def _options(schema: pa.Schema, app_metadata: bytes | None) -> PutOptions:
    """The options in the app_metadata or the schema; other app_metadata is ignored."""
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
