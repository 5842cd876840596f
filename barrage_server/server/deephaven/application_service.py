"""Names of tables: Deephaven's ApplicationService."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from barrage_proto import deephaven_pb2 as proto

from barrage_server.engine import Table
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.service import Methods, read_request
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState
from barrage_server.wire.tickets import scope_ticket

__all__ = ["ApplicationService", "table_fields"]

_PACKAGE: Final = "/io.deephaven.proto.backplane.grpc"
_SCOPE: Final = "scope"


class ApplicationService:
    """Lists the tables that the caller may list, then their changes."""

    def __init__(self, state: EndpointState) -> None:
        self._state = state

    def methods(self) -> Methods:
        """The handlers by method name."""
        return {f"{_PACKAGE}.ApplicationService/ListFields": self._list_fields}

    async def _list_fields(self, call: Call, session: Session) -> None:
        """Send the names of all tables, then those created and dropped.

        The first message is sent at once, even without tables. The call lasts until the client cancels it.
        """
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
                    await self._state.workers.run(access.call_functions, session.principal)
                now = {table.name: table for table in access.named(session.principal)}
                created = [name for name, table in now.items() if known.get(name) is not table]
                removed = [name for name, table in known.items() if now.get(name) is not table]
                known = now
                if created or removed or first:
                    first = False
                    update = proto.FieldsChangeUpdate(created=table_fields(created), removed=table_fields(removed))
                    await call.write(update.SerializeToString())
                await changed.wait()
        finally:
            stop()


def table_fields(names: Iterable[str]) -> list[proto.FieldInfo]:
    """The messages that describe tables of the scope."""
    return [
        proto.FieldInfo(
            typed_ticket=proto.TypedTicket(ticket=proto.Ticket(ticket=scope_ticket(name)), type="Table"),
            field_name=name,
            application_name=_SCOPE,
            application_id=_SCOPE,
        )
        for name in names
    ]
