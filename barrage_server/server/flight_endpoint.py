"""The Arrow Flight endpoint: it dispatches each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow.flight as fl

from barrage_server.engine import Table
from barrage_server.errors import InvalidRequestError, UnavailableError
from barrage_server.flight.sockets import peer_name
from barrage_server.log import note
from barrage_server.server.access import Right
from barrage_server.server.actions import check_empty, list_actions, run_action
from barrage_server.server.auth import MIDDLEWARE, AuthMiddleware, AuthMiddlewareFactory, HandshakeHandler
from barrage_server.server.download import Download
from barrage_server.server.exchange import Exchange
from barrage_server.server.flight_source import FlightSource
from barrage_server.server.plan_actions import flight_schema
from barrage_server.server.plans import computed_table
from barrage_server.server.principal import Principal
from barrage_server.server.put import take_put
from barrage_server.server.server_state import ServerState
from barrage_server.server.translate import boundary
from barrage_server.wire.page_messages import PAGE_COMMAND
from barrage_server.wire.protocol import TABLES_ACTION
from barrage_server.wire.tickets import name_of_path, name_of_ticket, parse_computed, path_of_name, scope_ticket

__all__ = ["SAME_CONNECTION", "FlightEndpoint", "TlsIdentity"]

SAME_CONNECTION = "arrow-flight-reuse-connection://?"
"""Arrow's location for the connection that the client already has."""

TlsIdentity = tuple[bytes, bytes]
"""Certificate chain and private key, PEM."""


class FlightEndpoint(fl.FlightServerBase):  # type: ignore[misc]  # pyarrow has no types
    """The Flight service. It serves from its construction.

    Args:
        location: the address to listen on.
        server_state: the server's state; must be complete.
        auth: checks every call.
        handshake: Flight's handshake.
        let_in: called with the peer of each call with valid credentials.
        advertised: returns the URI in listings, or ``None`` for clients to keep their connection.
        tls: certificate and key, for ``grpc+tls``.
        client_roots: certificates to trust for clients, PEM; every client must then present a certificate. Flight's
            older handshake is off then, because Flight tells the identity of a certificate only without it.

    """

    def __init__(
        self,
        location: str,
        server_state: ServerState,
        auth: AuthMiddlewareFactory,
        handshake: HandshakeHandler,
        let_in: Callable[[str], None],
        advertised: Callable[[], str | None],
        tls: TlsIdentity | None,
        client_roots: bytes | None = None,
    ) -> None:
        self._server_state = server_state
        self._advertised = advertised
        self._let_in = let_in
        self._client_roots = client_roots
        super().__init__(
            location,
            auth_handler=handshake if client_roots is None else None,
            tls_certificates=None if tls is None else [tls],
            middleware={MIDDLEWARE: auth},
            **({} if client_roots is None else {"verify_client": True, "root_certificates": client_roots}),
        )

    def let_go(self) -> None:
        """Release the server's state after the shutdown.

        pyarrow before 26 never frees a Flight server.
        """
        del self._server_state, self._advertised, self._let_in

    def list_flights(self, context: fl.ServerCallContext, criteria: bytes) -> Iterator[fl.FlightInfo]:
        """The tables that the caller may list and whose names start with ``criteria``."""
        with self._serving("ListFlights", context) as (call, _):
            self._check_open()
            prefix = bytes(criteria or b"").decode("utf-8", "replace")
            return iter([self._info(table) for table in self._listed(call) if table.name.startswith(prefix)])

    def get_flight_info(self, context: fl.ServerCallContext, descriptor: fl.FlightDescriptor) -> fl.FlightInfo:
        """The description of one table, by path, or by a command for a result."""
        with self._serving("GetFlightInfo", context) as (call, _):
            table = self._table_of(call.principal, descriptor, context)
            command = descriptor.command
            if parse_computed(command or b"") is None:
                return self._info(table)
            return self._info(table, descriptor, command)

    def get_schema(self, context: fl.ServerCallContext, descriptor: fl.FlightDescriptor) -> fl.SchemaResult:
        """The schema of one table, by path or command."""
        with self._serving("GetSchema", context) as (call, _):
            return fl.SchemaResult(flight_schema(self._table_of(call.principal, descriptor, context)))

    def do_get(self, context: fl.ServerCallContext, ticket: fl.Ticket) -> fl.FlightDataStream:
        """The current content of a table."""
        with self._serving("DoGet", context) as (call, peer):
            self._check_open()
            computed = parse_computed(ticket.ticket)
            if computed is not None:
                table = computed_table(self._server_state, call.principal, computed, context.is_cancelled)
            else:
                table = self._server_state.access.get(call.principal, name_of_ticket(ticket.ticket), Right.READ)
            note(step=table.version.step)
            download = Download(self._server_state, call.principal, peer, table, flight_schema(table))
            return fl.RecordBatchStream(download.reader())

    def do_put(
        self,
        context: fl.ServerCallContext,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.FlightMetadataWriter,
    ) -> None:
        """Take rows for a table."""
        with self._serving("DoPut", context) as (call, _):
            take_put(self._server_state, FlightSource(context, call.principal, descriptor, reader, writer))

    def do_exchange(
        self,
        context: fl.ServerCallContext,
        descriptor: fl.FlightDescriptor,
        reader: fl.MetadataRecordBatchReader,
        writer: fl.MetadataRecordBatchWriter,
    ) -> None:
        """Serve a stream of subscription or snapshot requests, or a page."""
        with self._serving("DoExchange", context) as (call, _):
            if descriptor.command == PAGE_COMMAND:
                from barrage_server.server.page_exchange import PageExchange  # which a server may never need

                PageExchange(self._server_state, call, context, reader, writer).run()
                return
            Exchange(self._server_state, call, context, descriptor, reader, writer).run()

    def list_actions(self, context: fl.ServerCallContext) -> list[tuple[str, str]]:
        """The actions of ``do_action``."""
        with self._serving("ListActions", context):
            return list_actions()

    def do_action(self, context: fl.ServerCallContext, action: fl.Action) -> Iterator[bytes]:
        """Run one action; return its results."""
        with self._serving(f"action {action.type[:50]}", context) as (call, _):
            self._check_open()
            if action.type == TABLES_ACTION:
                check_empty(bytes(action.body or b""), "tables request")
                return iter([self._info(table).serialize() for table in self._listed(call)])
            body = action.body.to_pybytes() if action.body else b""
            result = run_action(self._server_state, call.principal, action.type, body, context.is_cancelled)
            return iter([result])

    @contextmanager
    def _serving(self, doing: str, context: fl.ServerCallContext) -> Iterator[tuple[AuthMiddleware, str]]:
        """The context of every call: translates errors and checks credentials.

        Yields:
            The headers of the call, and its peer.

        """
        peer = peer_name(context.peer())
        with boundary(doing, peer):
            call = context.get_middleware(MIDDLEWARE)
            assert isinstance(call, AuthMiddleware)
            call.check("" if self._client_roots is None else _identity(context))
            note(principal=call.principal.name)
            self._let_in(peer)
            self._server_state.request_rate.admit(call.principal)
            yield call, peer

    def _check_open(self) -> None:
        if self._server_state.streams.closing:
            raise UnavailableError("The server is shutting down; connect again later.")

    def _listed(self, call: AuthMiddleware) -> tuple[Table, ...]:
        return self._server_state.access.tables(call.principal)

    def _table_of(self, principal: Principal, descriptor: fl.FlightDescriptor, context: fl.ServerCallContext) -> Table:
        self._check_open()
        computed = parse_computed(descriptor.command or b"")
        if computed is not None:
            return computed_table(self._server_state, principal, computed, context.is_cancelled)
        if descriptor.descriptor_type != fl.DescriptorType.PATH:
            raise InvalidRequestError('Name a table by the path ["scope", name] or [name], or a plan by a command.')
        return self._server_state.access.get(principal, name_of_path(descriptor.path))

    def _info(
        self, table: Table, descriptor: fl.FlightDescriptor | None = None, ticket: bytes | None = None
    ) -> fl.FlightInfo:
        """The description of a table of the catalog, or of a result with its own ticket."""
        uri = self._advertised()
        ticket = scope_ticket(table.name) if ticket is None else ticket
        return fl.FlightInfo(
            flight_schema(table),
            fl.FlightDescriptor.for_path(*path_of_name(table.name)) if descriptor is None else descriptor,
            [fl.FlightEndpoint(ticket, [uri if uri is not None else SAME_CONNECTION])],
            total_records=table.size,
            total_bytes=-1,
            app_metadata=self._server_state.facts_of(table),
        )


def _identity(context: fl.ServerCallContext) -> str:
    identity = context.peer_identity()
    return identity.decode("utf-8", "replace") if isinstance(identity, bytes) else str(identity)
