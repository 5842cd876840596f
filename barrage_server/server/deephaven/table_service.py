"""Tables by ticket, and tables computed from them: Deephaven's TableService."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import pyarrow as pa
from barrage_proto import deephaven_pb2 as proto
from barrage_proto import table_pb2
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from barrage_server.deephaven.operations import CALLS, planned
from barrage_server.engine import Table
from barrage_server.errors import (
    BarrageError,
    InvalidRequestError,
    LimitError,
    UnsupportedOperationError,
    WireFormatError,
)
from barrage_server.flight.errors import error_name, error_of, tagged_text
from barrage_server.server.access import Right
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.input_tables import make_input_table
from barrage_server.server.deephaven.service import Handler, Methods, read_request, unary
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState, exported_number
from barrage_server.server.translate import safe_error
from barrage_server.wire.tickets import export_ticket

__all__ = ["TableService"]

_PACKAGE: Final = "/io.deephaven.proto.backplane.grpc"
_SIZES_SECONDS: Final = 0.2
"""Least seconds between two reports of the sizes of exports to a client."""
_SCAN_SHARE: Final = 9
"""Pause after a scan of a session's exports, in multiples of the time of the scan."""

Creation: TypeAlias = proto.ExportedTableCreationResponse
Operation: TypeAlias = table_pb2.BatchTableRequest.Operation
Results: TypeAlias = Sequence[Table | BarrageError]
"""The results of a batch's operations so far: a table, or the error of a failed operation."""


class TableService:
    """Exports, describes and computes tables."""

    def __init__(self, state: EndpointState) -> None:
        self._state = state
        self._scans: Final = asyncio.Lock()

    def methods(self) -> Methods:
        """The handlers by method name."""
        service = f"{_PACKAGE}.TableService"
        computing = {f"{service}/{name}": self._unary(kind, request) for name, (kind, request) in CALLS.items()}
        return computing | {
            f"{service}/GetExportedTableCreationResponse": unary(proto.Ticket, self._describe),
            f"{service}/FetchTable": self._unary("fetch_table", proto.FetchTableRequest),
            f"{service}/ApplyPreviewColumns": self._unary("apply_preview_columns", proto.ApplyPreviewColumnsRequest),
            f"{service}/CreateInputTable": self._unary("create_input_table", proto.CreateInputTableRequest),
            f"{service}/Batch": self._batch,
            f"{service}/ExportedTableUpdates": self._sizes,
        }

    def _unary(self, kind: str, request: Any) -> Handler:
        return unary(request, partial(self._one, kind))

    async def _describe(self, call: Call, session: Session, request: proto.Ticket) -> Creation:
        table = await self._state.resolve(session, request.ticket)
        return await self._state.creation(request.ticket, table, call.family)

    async def _one(self, kind: str, call: Call, session: Session, request: Any) -> Creation:
        ticket = request.result_id.ticket
        table = await self._exported(session, exported_number(ticket), kind, request, ())
        return await self._state.creation(ticket, table, call.family)

    async def _batch(self, call: Call, session: Session) -> None:
        """Run operations in order, each of which may use the results of earlier ones.

        An operation fails alone. The call ends with the error of the first one that failed.
        """
        request = await read_request(call, table_pb2.BatchTableRequest)
        most = self._state.server_state.limits.batch_operations
        if len(request.ops) > most:
            raise LimitError(f"A batch has at most {most:,} operations (batch_operations), not {len(request.ops):,}.")
        results: list[Table | BarrageError] = []
        for operation in request.ops:
            await asyncio.sleep(0)  # other clients have their turns between operations
            ticket = b""
            try:
                ticket = _result_of(operation)
                results.append(await self._of_batch(session, operation, ticket, results))
            except Exception as error:  # the boundary of this operation; others go on
                results.append(safe_error(error, "Batch", call.peer))
            await self._tell(call, ticket, results)
        for result in results:
            if isinstance(result, BarrageError):
                raise result

    async def _of_batch(self, session: Session, operation: Operation, ticket: bytes, results: Results) -> Table:
        kind = operation.WhichOneof("op")
        if kind is None:
            raise UnsupportedOperationError(
                "The batch has an operation that is not known here. docs/queries.md lists those that there are."
            )
        request = getattr(operation, kind)
        if ticket:
            return await self._exported(session, exported_number(ticket), kind, request, results)
        return await self._made(session, None, kind, request, results)

    async def _tell(self, call: Call, ticket: bytes, results: Results) -> None:
        """Tell the client the result of the last operation, if it failed or has a ticket."""
        last = results[-1]
        if isinstance(last, BarrageError):
            reference = proto.TableReference(batch_offset=len(results) - 1)
            if ticket:
                reference = proto.TableReference(ticket=proto.Ticket(ticket=ticket))
            failure = Creation(result_id=reference, success=False, error_info=tagged_text(last))
            await call.write(failure.SerializeToString())
        elif ticket:
            creation = await self._state.creation(ticket, last, call.family)
            await call.write(creation.SerializeToString())

    async def _exported(self, session: Session, number: int, kind: str, request: Any, results: Results) -> Table:
        """Compute the result of an operation as the export of that number."""
        return await session.exports.make(number, lambda: self._made(session, number, kind, request, results))

    async def _made(self, session: Session, number: int | None, kind: str, request: Any, results: Results) -> Table:
        match kind:
            case "create_input_table":
                return await self._input_table(session, number, request, results)
            case "fetch_table" | "apply_preview_columns":
                # the options of subscriptions decide on previews of columns
                return await self._table(session, number, request.source_id, results)
        wanted = await self._state.heavy.run(planned, kind, request)
        inputs = [await self._table(session, number, reference, results) for reference in wanted.inputs]
        results_of = self._state.server_state.results
        return await self._state.plans.run_while_wanted(
            lambda is_gone: results_of.compute(session.principal, wanted.operation, inputs, is_gone)
        )

    async def _table(
        self, session: Session, number: int | None, reference: proto.TableReference, results: Results
    ) -> Table:
        if reference.WhichOneof("ref") != "batch_offset":
            return await self._state.resolve(session, reference.ticket.ticket, awaiting=number)
        offset = reference.batch_offset
        if not 0 <= offset < len(results):
            raise InvalidRequestError(
                f"Operation {offset} of the batch is none before this one: it can use results of earlier ones."
            )
        result = results[offset]
        if isinstance(result, BarrageError):
            raise error_of(
                error_name(result), f"Operation {offset} of the batch, which this one needs, failed: {result}"
            )
        return result

    async def _input_table(
        self, session: Session, number: int | None, request: proto.CreateInputTableRequest, results: Results
    ) -> Table:
        self._state.server_state.access.check_any(session.principal, Right.PUBLISH)
        source: pa.Schema | None = None
        if request.WhichOneof("definition") != "schema":
            source = (await self._table(session, number, request.source_table_id, results)).schema
        # on a thread: a schema may have many columns, and a blink table waits for a cycle to end
        catalog, name = self._state.server_state.catalog, f"input table {number or 0}"
        table = await self._state.writers.run(make_input_table, catalog, name, request, source)
        self._state.private.add(table)
        return table

    async def _sizes(self, call: Call, session: Session) -> None:
        """Send the sizes of the session's exports, now and as they change."""
        await read_request(call, proto.ExportedTableUpdatesRequest)
        changed = asyncio.Event()
        session.exports.listeners.add(changed.set)
        told: dict[int, int] = {}

        def may_see(table: Table) -> bool:
            try:
                self._state.private.check(session.principal, table)
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
                    continue  # ticking tables do not set ``changed``
        finally:
            session.exports.listeners.discard(changed.set)


def _result_of(operation: Operation) -> bytes:
    """The ticket for the result of an operation, which may be unknown here.

    Clients wait for the ticket of an unknown operation, too. Unknown operations have it in their first field, as a
    release request has its ticket (table.proto).
    """
    kind = operation.WhichOneof("op")
    if kind is not None:
        ticket: bytes = getattr(operation, kind).result_id.ticket
        return ticket
    unknown = UnknownFieldSet(operation)
    if len(unknown) and isinstance(unknown[0].data, bytes):
        try:
            return proto.ReleaseRequest.FromString(unknown[0].data).id.ticket
        except DecodeError as error:
            raise WireFormatError("An operation of the batch is damaged.") from error
    return b""
