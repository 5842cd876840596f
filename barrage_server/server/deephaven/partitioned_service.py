"""Tables partitioned by key: Deephaven's PartitionedTableService."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from barrage_proto import deephaven_pb2 as proto
from barrage_proto import partitionedtable_pb2

from barrage_server.engine import Table
from barrage_server.engine.partitioned import Constituents, constituents_of
from barrage_server.errors import InvalidRequestError, NotFoundError
from barrage_server.plan import agg
from barrage_server.plan.operation import AggregateBy, DropColumns, Snapshot, WhereIn
from barrage_server.plan.partition import merged_rows
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.service import Methods, unary
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState, exported_number

__all__ = ["PartitionedTableService"]

_SERVICE: Final = "/io.deephaven.proto.backplane.grpc.PartitionedTableService"
_COLUMN: Final = "__CONSTITUENT__"
"""The name of the column of constituents on a Deephaven server."""

Creation: TypeAlias = proto.ExportedTableCreationResponse
Compute: TypeAlias = Callable[..., Table]


class PartitionedTableService:
    """Partitions tables, and makes tables of their constituents.

    The export of a partitioned table is the table of its keys, with a column of constituents.
    """

    def __init__(self, state: EndpointState) -> None:
        self._state = state

    def methods(self) -> Methods:
        """The handlers by method name."""
        return {
            f"{_SERVICE}/PartitionBy": unary(partitionedtable_pb2.PartitionByRequest, self._partition_by),
            f"{_SERVICE}/Merge": unary(partitionedtable_pb2.MergeRequest, self._merge),
            f"{_SERVICE}/GetTable": unary(partitionedtable_pb2.GetTableRequest, self._get_table),
        }

    async def _partition_by(
        self, _call: Call, session: Session, request: partitionedtable_pb2.PartitionByRequest
    ) -> partitionedtable_pb2.PartitionByResponse:
        number = exported_number(request.result_id.ticket)
        keys = tuple(request.key_column_names)

        async def make() -> Table:
            if not keys:
                raise InvalidRequestError("key_column_names must not be empty: name at least one column.")
            source = await self._state.resolve(session, request.table_id.ticket, awaiting=number)
            if request.drop_keys and len(set(keys)) >= len(source.schema):
                raise InvalidRequestError(
                    f"Without its keys a constituent of '{source.name}' has no column: keep them."
                )
            operation = AggregateBy((agg.partition(_COLUMN, not request.drop_keys),), keys)
            return await self._computed(session, lambda compute: compute(operation, source))

        await session.exports.make(number, make)
        return partitionedtable_pb2.PartitionByResponse()

    async def _merge(self, call: Call, session: Session, request: partitionedtable_pb2.MergeRequest) -> Creation:
        number = exported_number(request.result_id.ticket)

        async def make() -> Table:
            parts = await self._constituents(session, request.partitioned_table, number)

            def merged(compute: Compute) -> Table:
                made = parts.table
                for operation in merged_rows(made.schema.names, parts.by, made.name, drop_keys=parts.drop_keys):
                    made = compute(operation, made)
                return made

            return await self._computed(session, merged)

        table = await session.exports.make(number, make)
        return await self._state.creation(request.result_id.ticket, table, call.family)

    async def _get_table(self, call: Call, session: Session, request: partitionedtable_pb2.GetTableRequest) -> Creation:
        number = exported_number(request.result_id.ticket)

        async def make() -> Table:
            parts = await self._constituents(session, request.partitioned_table, number)
            given = await self._state.resolve(session, request.key_table_ticket.ticket, awaiting=number)

            def constituent(compute: Compute) -> Table:
                key = compute(Snapshot(), given)
                if key.size != 1:
                    raise InvalidRequestError(f"The table of the key must have one row, and has {key.size:,}.")
                made = compute(WhereIn(parts.by), parts.table, key)
                if not made.size:
                    raise NotFoundError(f"There is no row of that key in '{parts.table.name}'.")
                return compute(DropColumns(parts.by), made) if parts.drop_keys else made

            return await self._computed(session, constituent)

        table = await session.exports.make(number, make)
        return await self._state.creation(request.result_id.ticket, table, call.family)

    async def _constituents(self, session: Session, ticket: proto.Ticket, awaiting: int) -> Constituents:
        """The constituents behind the ticket of a partitioned table.

        Raises:
            InvalidRequestError: the ticket is of another table.
        """
        table = await self._state.resolve(session, ticket.ticket, awaiting=awaiting)
        # a served table shows the cells of constituents, and not the rows behind them
        found = list(constituents_of(table).values()) if table in self._state.private else []
        if len(found) != 1:
            raise InvalidRequestError(
                "The ticket must be that of a partitioned table, which PartitionBy makes, or an aggregation with one "
                "column of constituents."
            )
        return found[0]

    async def _computed(self, session: Session, work: Callable[[Compute], Table]) -> Table:
        """Run ``work`` on a thread, with a function that computes operations."""
        results, principal = self._state.server_state.results, session.principal
        return await self._state.plans.run_while_wanted(
            lambda is_gone: work(lambda operation, *tables: results.compute(principal, operation, tables, is_gone))
        )
