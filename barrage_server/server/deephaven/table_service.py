"""Tables by ticket: the part of Deephaven's TableService and InputTableService that computes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from barrage_proto import deephaven_pb2 as proto
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, SourceTable, Table
from barrage_server.engine.restricted import RestrictedTable, source_of
from barrage_server.errors import (
    BarrageError,
    InvalidRequestError,
    LimitError,
    UnsupportedOperationError,
    WireFormatError,
)
from barrage_server.flight.errors import tagged_text
from barrage_server.publish import apply_rows
from barrage_server.server.access import Right
from barrage_server.server.catalog import Catalog
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.service import Methods, read_request, unary
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState, exported_number
from barrage_server.wire.arrow_message import read_schema
from barrage_server.wire.protocol import PublishMode
from barrage_server.wire.tickets import export_ticket

__all__ = ["InputTableService", "TableService"]

_PACKAGE: Final = "/io.deephaven.proto.backplane.grpc"
_BATCH_BYTES: Final = 4 << 20
"""Most bytes of a batch. Decoding many short operations occupies the event loop."""
_SIZES_SECONDS: Final = 0.2
_SCAN_SHARE: Final = 9
"""The time of a look at the exports of a session, multiplied, that passes before that at another one's."""
"""Least seconds between two reports of the sizes of exports to a client."""

Creation = proto.ExportedTableCreationResponse
Operation = proto.BatchTableRequest.Operation
ResultRequest = proto.FetchTableRequest | proto.ApplyPreviewColumnsRequest | proto.CreateInputTableRequest


class TableService:
    """Gives tables export tickets, and describes them."""

    def __init__(self, state: EndpointState) -> None:
        self._state = state
        self._scans: Final = asyncio.Lock()

    def methods(self) -> Methods:
        """Its handlers."""
        service = f"{_PACKAGE}.TableService"
        return {
            f"{service}/GetExportedTableCreationResponse": unary(proto.Ticket, self._describe),
            f"{service}/FetchTable": unary(proto.FetchTableRequest, self._one),
            f"{service}/ApplyPreviewColumns": unary(proto.ApplyPreviewColumnsRequest, self._one),
            f"{service}/CreateInputTable": unary(proto.CreateInputTableRequest, self._one),
            f"{service}/Batch": self._batch,
            f"{service}/ExportedTableUpdates": self._sizes,
        }

    async def _describe(self, call: Call, session: Session, request: proto.Ticket) -> Creation:
        table = await self._state.resolve(session, request.ticket)
        return await self._state.creation(request.ticket, table, call.family)

    async def _one(self, call: Call, session: Session, request: ResultRequest) -> Creation:
        return await self._run(call, session, request, ())

    async def _batch(self, call: Call, session: Session) -> None:
        """Operations in order; each may refer to the result of one before it."""
        request = await read_request(call, proto.BatchTableRequest, _BATCH_BYTES)
        results: list[Table] = []
        for operation in request.ops:
            await asyncio.sleep(0)  # other clients have their turns between two of them
            result = b""
            try:
                result = _result_of(operation)
                single = _of(operation)
                creation = await self._run(call, session, single, results)
                results.append(await session.exports.resolve(exported_number(result)))
            except BarrageError as error:
                reference = proto.TableReference(ticket=proto.Ticket(ticket=result))
                failure = Creation(result_id=reference, success=False, error_info=tagged_text(error))
                await call.write(failure.SerializeToString())
                raise
            await call.write(creation.SerializeToString())

    async def _run(self, call: Call, session: Session, request: ResultRequest, results: Sequence[Table]) -> Creation:
        if isinstance(request, proto.CreateInputTableRequest):
            table = await self._input_table(session, request, results)
        else:
            # columns are previewed, where they have to be, in the subscription's own options
            table = await self._table(session, request.source_id, results)
        ticket = request.result_id.ticket
        self._state.export(session, ticket, table)
        return await self._state.creation(ticket, table, call.family)

    async def _table(self, session: Session, reference: proto.TableReference, results: Sequence[Table]) -> Table:
        if reference.WhichOneof("ref") == "batch_offset":
            if not 0 <= reference.batch_offset < len(results):
                raise InvalidRequestError(f"Operation {reference.batch_offset} of the batch is none before this one.")
            return results[reference.batch_offset]
        return await self._state.resolve(session, reference.ticket.ticket)

    async def _input_table(
        self, session: Session, request: proto.CreateInputTableRequest, results: Sequence[Table]
    ) -> Table:
        self._state.server_state.access.check_any(session.principal, Right.PUBLISH)
        source: pa.Schema | None = None
        if request.WhichOneof("definition") != "schema":
            source = (await self._table(session, request.source_table_id, results)).schema
        name = f"input table {exported_number(request.result_id.ticket)}"
        # on a thread: a schema may have many columns, and a blink table waits for a cycle to end
        table = await self._state.run(_make, self._state.server_state.catalog, name, request, source)
        self._state.private.add(table)
        return table

    async def _sizes(self, call: Call, session: Session) -> None:
        """The sizes of the session's exports, now and as they change."""
        await read_request(call, proto.ExportedTableUpdatesRequest)
        changed = asyncio.Event()
        session.exports.listeners.add(changed.set)
        told: dict[int, int] = {}

        def may_see(table: Table) -> bool:
            if table in self._state.private:
                return True
            try:
                self._state.server_state.access.check_table(session.principal, table)
            except BarrageError:
                return False
            return True

        try:
            while not self._state.stopping.is_set():
                async with self._scans:
                    changed.clear()
                    began = asyncio.get_running_loop().time()
                    tables = session.exports.tables()
                    seen = {table: may_see(table) for table in set(tables.values())}
                    sizes = {number: table.version.size for number, table in tables.items() if seen[table]}
                    await asyncio.sleep(_SCAN_SHARE * (asyncio.get_running_loop().time() - began))
                for number, size in sizes.items():
                    if told.get(number) != size:
                        ticket = proto.Ticket(ticket=export_ticket(number))
                        message = proto.ExportedTableUpdateMessage(export_id=ticket, size=size)
                        await call.write(message.SerializeToString())
                told = sizes
                try:
                    await asyncio.wait_for(changed.wait(), _SIZES_SECONDS)
                except TimeoutError:
                    continue  # tables tick without a word to this session
        finally:
            session.exports.listeners.discard(changed.set)


class InputTableService:
    """Rows into tables that take them, from a table that the client has uploaded."""

    def __init__(self, state: EndpointState) -> None:
        self._state = state

    def methods(self) -> Methods:
        """Its handlers."""
        service = f"{_PACKAGE}.InputTableService"
        return {
            f"{service}/AddTableToInputTable": unary(proto.AddTableRequest, self._add),
            f"{service}/DeleteTableFromInputTable": unary(proto.DeleteTableRequest, self._delete),
        }

    async def _add(self, _call: Call, session: Session, request: proto.AddTableRequest) -> proto.AddTableResponse:
        await self._apply(session, request.input_table.ticket, request.table_to_add.ticket, None)
        return proto.AddTableResponse()

    async def _delete(
        self, _call: Call, session: Session, request: proto.DeleteTableRequest
    ) -> proto.DeleteTableResponse:
        await self._apply(session, request.input_table.ticket, request.table_to_remove.ticket, PublishMode.DELETE)
        return proto.DeleteTableResponse()

    async def _apply(self, session: Session, target: bytes, source: bytes, mode: PublishMode | None) -> None:
        table = source_of(await self._state.resolve(session, target, Right.PUBLISH))
        rows_of = await self._state.resolve(session, source, Right.READ)
        rows, limit = rows_of.version, self._state.server_state.limits.put_bytes
        too_many = LimitError(
            f"One call may carry {limit:,} bytes of rows (put_bytes), and '{rows_of.name}' has more. Send them "
            f"in parts."
        )
        # a few bytes of request name as many rows as there are, of the table itself as well
        is_part = isinstance(rows_of, RestrictedTable)
        if not is_part and rows_of.nbytes > limit:
            raise too_many

        def apply() -> None:
            batches, size = [], 0
            for batch in rows.batches():
                size += batch.nbytes
                if is_part and size > limit:  # its storage has hidden rows, too
                    raise too_many
                batches.append(batch)
            apply_rows(table, mode, rows.schema, batches)

        await self._state.run(apply)


def _make(catalog: Catalog, name: str, request: proto.CreateInputTableRequest, source: pa.Schema | None) -> SourceTable:
    """The input table that a request describes: of the schema of another table, or of its own."""
    schema = source
    if schema is None:
        try:
            schema = read_schema(request.schema)
        except WireFormatError as error:
            raise WireFormatError("The schema of the input table is no Arrow schema message.") from error
    graph, schema = catalog.graph, catalog.schema_of_new(schema)
    kind = request.kind.WhichOneof("kind")
    if kind == "in_memory_key_backed":
        return KeyedTable(graph, name, schema, list(request.kind.in_memory_key_backed.key_columns), is_input=True)
    if kind == "blink":
        return BlinkTable(graph, name, schema, is_input=True)
    return AppendTable(graph, name, schema, is_input=True)


def _result_of(operation: Operation) -> bytes:
    """The ticket that the result shall have, also of an operation that this server does not know: clients look for it.

    Those that it does not know have it in their first field, as a release has what it releases (table.proto).
    """
    kind = operation.WhichOneof("op")
    if kind is not None:
        request: ResultRequest = getattr(operation, kind)
        return request.result_id.ticket
    unknown = UnknownFieldSet(operation)
    if len(unknown) and isinstance(unknown[0].data, bytes):
        try:
            return proto.ReleaseRequest.FromString(unknown[0].data).id.ticket
        except DecodeError as error:
            raise WireFormatError("An operation of the batch is damaged.") from error
    return b""


def _of(operation: Operation) -> ResultRequest:
    kind = operation.WhichOneof("op")
    if kind is not None:
        request: ResultRequest = getattr(operation, kind)
        return request
    raise UnsupportedOperationError(
        "This server computes nothing for its clients; of a batch it runs fetch_table, apply_preview_columns and "
        "create_input_table."
    )
