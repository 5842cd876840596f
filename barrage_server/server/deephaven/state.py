"""The state that the services of one endpoint share."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa
from barrage_proto import deephaven_pb2 as proto

from barrage_server.engine import Table
from barrage_server.engine.restricted import source_of
from barrage_server.errors import BarrageError, InvalidRequestError, NotFoundError
from barrage_server.log import note
from barrage_server.server.access import Right
from barrage_server.server.authentication import Authentication, Credentials
from barrage_server.server.bound_names import BoundNames
from barrage_server.server.deephaven.sessions import Session, Sessions
from barrage_server.server.log_ins import LogIns
from barrage_server.server.plans import computed_table
from barrage_server.server.principal import Principal
from barrage_server.server.server_state import ServerState
from barrage_server.server.table_schema import has_at_most
from barrage_server.server.workers import Workers
from barrage_server.wire.families import ClientFamily
from barrage_server.wire.tickets import (
    ApplicationTicket,
    ExportTicket,
    PlanTicket,
    ResultTicket,
    SessionTicket,
    SharedTicket,
    name_of_path,
    name_of_ticket,
    parse_computed,
    parse_path,
    parse_ticket,
)

if TYPE_CHECKING:
    from barrage_server.server.console.console import Console

__all__ = ["EndpointState", "exported_number"]

Result = TypeVar("Result")

_WORKERS: Final = 32
"""Threads for calls that would block the event loop."""
_WRITERS: Final = 256
"""Threads for calls that may wait for a cycle, or for seconds until there is room in the journal."""
_LIGHT_COLUMNS: Final = 256
"""Most columns of a table whose schema the event loop may encode."""
_PLAN_THREADS: Final = 8
"""Threads that compute tables for clients."""
_HEAVY_THREADS: Final = 2
"""Threads for long requests. They are few, so that short calls find other threads free."""
_NOTHING_SHARED: Final = (
    "Nothing is shared under this ticket. Its publisher must have published it, and still be there."
)


class EndpointState:
    """Sessions, and the tables that they can name.

    Args:
        server_state: the server's state.

    Attributes:
        authentication: turns credentials into principals.
        shared: tables that sessions have shared, by the bytes of their tickets.
        names: gives names to tables of clients.
        console: runs scripts; None where that is off.
        stopping: set when the endpoint is about to close.
        workers: threads for short calls that would block the event loop.
        writers: threads for calls that may wait for a cycle, or for the disk.
        heavy: threads for long requests.
        plans: threads for the computation of tables.
    """

    def __init__(self, server_state: ServerState) -> None:
        self.server_state: Final = server_state
        self.authentication: Final[Authentication] = server_state.authentication
        limits = server_state.limits
        self.sessions: Final = Sessions(
            limits.session_seconds,
            limits.sessions,
            limits.exports,
            server_state.clock,
            self._forget,
            self.authentication.holds,
            limits.sessions_per_caller,
            server_state.export_counts,
        )
        self._log_ins = LogIns(limits.failed_log_ins, server_state.clock)
        self.shared: dict[bytes, tuple[Session, Table]] = {}
        self.names: Final = BoundNames(server_state)
        self.console: Final = _console(server_state, self.names) if server_state.has_console else None
        self.private: Final = server_state.private
        self._light: weakref.WeakKeyDictionary[Table, bool] = weakref.WeakKeyDictionary()
        self.stopping: Final = asyncio.Event()
        self.workers: Final = Workers(_WORKERS, "barrage-deephaven-worker")
        self.writers: Final = Workers(_WRITERS, "barrage-deephaven-writer")
        self.heavy: Final = Workers(_HEAVY_THREADS, "barrage-requests")
        self.plans: Final = Workers(_PLAN_THREADS, "barrage-plans")

    async def principal(self, credentials: Credentials, peer: str) -> Principal:
        """The caller at ``peer`` with these credentials.

        Raises:
            AuthenticationError: they are missing or wrong.
            LimitError: the address has shown too many wrong ones.
        """
        with self._log_ins.attempt(credentials, peer):
            quick = self.authentication.quick(credentials)
            return quick if quick is not None else await self.workers.run(self.authentication.principal, credentials)

    async def resolve(self, session: Session, ticket: bytes, *rights: Right, awaiting: int | None = None) -> Table:
        """The table of a ticket, for a caller with these rights, when it is exported.

        The tickets of a plain Flight client are names, results of plans, and plans. ``awaiting`` is the number of the
        export that is made from the table, if any.

        Raises:
            InvalidRequestError: the ticket is invalid, or names an unknown export.
            NotFoundError: there is no such table, or the caller has no right on it.
            ForbiddenError: the caller lacks one of the rights.
        """
        computed = parse_computed(ticket)
        if computed is not None:
            return await self.computed(session, computed)
        if session.is_plain:
            return await self._named(session, name_of_ticket(ticket), *rights)
        return await self.resolve_parsed(session, parse_ticket(ticket), *rights, ticket=ticket, awaiting=awaiting)

    async def computed(self, session: Session, ticket: ResultTicket | PlanTicket) -> Table:
        """The table of a result's ticket. Raises the errors of :func:`computed_table`."""
        return await self.plans.run_while_wanted(partial(computed_table, self.server_state, session.principal, ticket))

    async def resolve_path(self, session: Session, path: Sequence[str | bytes], *rights: Right) -> Table:
        """The table at the path of a descriptor. Raises the errors of :meth:`resolve`."""
        if session.is_plain:
            return await self._named(session, name_of_path(path), *rights)
        return await self.resolve_parsed(session, parse_path(path), *rights)

    async def resolve_parsed(
        self, session: Session, parsed: SessionTicket, *rights: Right, ticket: bytes = b"", awaiting: int | None = None
    ) -> Table:
        """The table of a parsed ticket. Arguments and errors are as for :meth:`resolve`."""
        access, principal = self.server_state.access, session.principal
        match parsed:
            case ExportTicket(number):
                table = await session.exports.resolve(number, awaiting)
                self.private.check(principal, table, *rights)  # they may have changed since it was exported
                return table
            case SharedTicket(identifier):
                published = self.shared.get(identifier)
                if published is not None and published[1] in self.private:
                    with suppress(BarrageError):  # its text would name tables that the caller may not know
                        self.private.check(principal, published[1], *rights)
                        return published[1]
                    raise NotFoundError(_NOTHING_SHARED)
                name = _bare_name(ticket) if published is None else published[1].name
                found = self.server_state.catalog.find(name) if published is None else source_of(published[1])
                if found is not None and access.rights(principal, name):
                    access.check(principal, name, *rights)
                    # the part that this caller may see, not the publisher's
                    if access.restricts:
                        seen = await self.workers.run(access.part, principal, found)
                    else:
                        seen = access.part(principal, found)
                    if seen is not None:
                        return seen
                raise NotFoundError(_NOTHING_SHARED)
            case ApplicationTicket(text):
                raise NotFoundError(f"There are no applications here, and so no '{text}'. Tables are in the scope.")
            case name:
                return await self._named(session, name, *rights)

    async def _named(self, session: Session, name: str, *rights: Right) -> Table:
        access = self.server_state.access
        if access.takes_long(session.principal, name):
            note(table=name)
            return await self.workers.run(access.get, session.principal, name, *rights)
        return access.get(session.principal, name, *rights)

    async def listed(self, session: Session) -> tuple[Table, ...]:
        """The tables that the caller may list, as it sees them."""
        access = self.server_state.access
        if access.restricts:
            return await self.workers.run(access.tables, session.principal)
        return access.tables(session.principal)

    def export(self, session: Session, ticket: bytes, table: Table) -> None:
        """Give a table the export ticket that a client has chosen."""
        session.exports.define(exported_number(ticket), table)

    def is_light(self, table: Table) -> bool:
        """Whether a table has few columns, so that the event loop may encode its schema."""
        light = self._light.get(table)
        if light is None:
            light = self._light[table] = has_at_most(table.schema, _LIGHT_COLUMNS, 10 * _LIGHT_COLUMNS)
        return light

    async def schema(self, table: Table, family: ClientFamily) -> pa.Schema:
        """The schema of a table as a client of this family gets it."""
        return await self._by_columns(table, lambda: self._schema(table, family))

    async def schema_bytes(self, table: Table, family: ClientFamily) -> bytes:
        """The schema for a client of this family, as an encapsulated IPC message."""
        return await self._by_columns(table, lambda: self._schema(table, family).serialize().to_pybytes())

    def _schema(self, table: Table, family: ClientFamily) -> pa.Schema:
        return self.server_state.feeds.feed(table, family).schema

    async def _by_columns(self, table: Table, work: Callable[[], Result]) -> Result:
        return work() if self.is_light(table) else await self.heavy.run(work)

    async def creation(self, ticket: bytes, table: Table, family: ClientFamily) -> proto.ExportedTableCreationResponse:
        """The description of the table of ``ticket`` for a client."""
        return proto.ExportedTableCreationResponse(
            result_id=proto.TableReference(ticket=proto.Ticket(ticket=ticket)),
            success=True,
            schema_header=await self.schema_bytes(table, family),
            is_static=not table.is_refreshing,
            size=table.version.size,
        )

    def configuration(self) -> Mapping[str, proto.ConfigValue]:
        """The configuration that clients get at log-in, by deephaven-core's names."""
        milliseconds = int(self.server_state.limits.session_seconds * 1000)
        values = {
            "http.session.durationMs": str(milliseconds),
            "barrage.version": "1.0.0",
            "web.flattenViewports": "false",
        }
        return {name: proto.ConfigValue(string_value=value) for name, value in values.items()}

    def _forget(self, session: Session) -> None:
        for identifier, (publisher, _) in tuple(self.shared.items()):
            if publisher is session:
                del self.shared[identifier]


def _console(server_state: ServerState, names: BoundNames) -> Console:
    from barrage_server.server.console.console import Console  # only where it is switched on

    return Console(server_state, names)


def exported_number(ticket: bytes) -> int:
    """The number of an export ticket.

    Raises:
        InvalidRequestError: it is another ticket.
    """
    parsed = parse_ticket(ticket)
    if not isinstance(parsed, ExportTicket):
        raise InvalidRequestError("A result needs an export ticket: 'e' and a number of four bytes.")
    return parsed.number


def _bare_name(ticket: bytes) -> str:
    try:
        return name_of_ticket(ticket)
    except InvalidRequestError:
        return ""
