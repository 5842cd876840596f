"""Tables that clients make and write rows into: Deephaven's InputTableService."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from barrage_proto import deephaven_pb2 as proto

from barrage_server.engine import AppendTable, BlinkTable, KeyedTable, SourceTable
from barrage_server.engine.restricted import source_of
from barrage_server.errors import LimitError, WireFormatError
from barrage_server.publish import apply_rows
from barrage_server.server.access import Right
from barrage_server.server.catalog import Catalog
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.service import Methods, unary
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState
from barrage_server.wire.arrow_message import read_schema
from barrage_server.wire.protocol import PublishMode

__all__ = ["InputTableService", "make_input_table"]

_PACKAGE: Final = "/io.deephaven.proto.backplane.grpc"


class InputTableService:
    """Adds and deletes rows of input tables, from tables that clients uploaded."""

    def __init__(self, state: EndpointState) -> None:
        self._state = state

    def methods(self) -> Methods:
        """The handlers by method name."""
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

        def apply() -> None:
            # A short request can name any number of rows. The bytes of a table count those of all that it is made of.
            batches, size = [], 0
            for batch in rows.batches():
                size += batch.nbytes
                if size > limit:
                    raise too_many
                batches.append(batch)
            apply_rows(table, mode, rows.schema, batches)

        await self._state.writers.run(apply)


def make_input_table(
    catalog: Catalog, name: str, request: proto.CreateInputTableRequest, source: pa.Schema | None
) -> SourceTable:
    """Make the input table of a request.

    Its schema is ``source``, the schema of another table, or without one the request's own.
    """
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
