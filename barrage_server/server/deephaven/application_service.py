"""Names of tables: the ApplicationService, and the one call of the ConsoleService that binds a name."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from barrage_proto import console_pb2
from barrage_proto import deephaven_pb2 as proto

from barrage_server.engine import Table
from barrage_server.engine.alias import alias
from barrage_server.engine.restricted import source_of
from barrage_server.errors import AlreadyExistsError
from barrage_server.server.access import Right
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.service import Methods, read_request, unary
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState
from barrage_server.wire.tickets import scope_ticket

__all__ = ["ApplicationService", "ConsoleService"]

_PACKAGE: Final = "/io.deephaven.proto.backplane.grpc"
_CONSOLE: Final = "/io.deephaven.proto.backplane.script.grpc.ConsoleService"
_SCOPE: Final = "scope"


class ApplicationService:
    """Lists the tables that the caller may list, and notifies of new and dropped ones."""

    def __init__(self, state: EndpointState) -> None:
        self._state = state

    def methods(self) -> Methods:
        """Its handlers."""
        return {f"{_PACKAGE}.ApplicationService/ListFields": self._list_fields}

    async def _list_fields(self, call: Call, session: Session) -> None:
        """All tables, at once, even if there are none; then what changes, until the client hangs up."""
        await read_request(call, proto.ListFieldsRequest)
        access, loop = self._state.server_state.access, asyncio.get_running_loop()
        changed = asyncio.Event()
        stop = access.watch(lambda: loop.call_soon_threadsafe(changed.set))
        known: dict[str, Table] = {}
        first = True
        try:
            while not self._state.stopping.is_set():
                changed.clear()
                if access.restricts:
                    await self._state.run(access.call_functions, session.principal)
                now = {table.name: table for table in access.named(session.principal)}
                created = [name for name, table in now.items() if known.get(name) is not table]
                removed = [name for name, table in known.items() if now.get(name) is not table]
                known = now
                if created or removed or first:
                    first = False
                    update = proto.FieldsChangeUpdate(created=_fields(created), removed=_fields(removed))
                    await call.write(update.SerializeToString())
                await changed.wait()
        finally:
            stop()


class ConsoleService:
    """Without a script engine: a name for a table that a client has uploaded."""

    def __init__(self, state: EndpointState) -> None:
        self._state = state

    def methods(self) -> Methods:
        """Its handlers."""
        return {
            f"{_CONSOLE}/GetConsoleTypes": unary(console_pb2.GetConsoleTypesRequest, self._types),
            f"{_CONSOLE}/BindTableToVariable": unary(console_pb2.BindTableToVariableRequest, self._bind),
        }

    async def _types(
        self, _call: Call, _session: Session, _request: console_pb2.GetConsoleTypesRequest
    ) -> console_pb2.GetConsoleTypesResponse:
        return console_pb2.GetConsoleTypesResponse()

    async def _bind(
        self, _call: Call, session: Session, request: console_pb2.BindTableToVariableRequest
    ) -> console_pb2.BindTableToVariableResponse:
        """Bind a table to a name. A name bound by a client may be bound again; names of the server's tables may not."""
        state, name = self._state, request.variable_name
        access = state.server_state.access
        access.check(session.principal, name, Right.CREATE)
        table = await state.resolve(session, request.table_id.ticket, Right.READ)
        catalog = state.server_state.catalog
        there = catalog.find(name)
        if there is source_of(table):
            return console_pb2.BindTableToVariableResponse()
        # a part of a table never gets a name, even when the table has lost its own: then it would be the whole
        if table not in state.private:
            raise AlreadyExistsError(
                f"This table is, or was, served as '{table.name}', and a table has one name. Name a result of it: "
                f"table.view([...]), or table.where([])."
            )
        if table in state.server_state.results:
            table = alias(table, name)  # the result of an operation may have other users
        elif not table.is_refreshing:
            table.is_refreshing = True  # from now on callers with the right to publish may append to the upload
        if there is None:
            state.server_state.check_new(session.principal, [name])
        else:
            if state.bound.get(name) is not there:
                raise AlreadyExistsError(f"There is a table '{name}' on the server; choose another name.")
            access.check(session.principal, name, Right.DROP)
            await state.run(state.server_state.drop, name)  # it may wait for a cycle to end
        catalog.add(table, name)
        state.bound[name] = table
        state.private.discard(table)
        return console_pb2.BindTableToVariableResponse()


def _fields(names: Iterable[str]) -> list[proto.FieldInfo]:
    return [
        proto.FieldInfo(
            typed_ticket=proto.TypedTicket(ticket=proto.Ticket(ticket=scope_ticket(name)), type="Table"),
            field_name=name,
            application_name=_SCOPE,
            application_id=_SCOPE,
        )
        for name in names
    ]
