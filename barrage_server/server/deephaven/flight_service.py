"""Arrow Flight over plain gRPC, where columns of a batch may differ in length.

Messages are bytes, which :mod:`barrage_server.wire.raw` encodes and decodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from barrage_proto import deephaven_pb2, flight_pb2
from google.protobuf.message import DecodeError

from barrage_server.engine import Table
from barrage_server.errors import (
    BarrageError,
    DeadlineError,
    InvalidRequestError,
    LimitError,
    UnavailableError,
)
from barrage_server.flight.authorization import AUTHORIZATION
from barrage_server.log import note
from barrage_server.server.access import Right
from barrage_server.server.actions import CHANGING_ACTIONS, check_empty, list_actions, run_action
from barrage_server.server.auth import from_payload, parse_authorization
from barrage_server.server.authentication import Credentials
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.download import RawDownload
from barrage_server.server.deephaven.exchange import RawExchange
from barrage_server.server.deephaven.service import Methods, parse_request, read_request, unary
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState
from barrage_server.server.deephaven.upload import PutStream, reason, take_export
from barrage_server.server.principal import Principal
from barrage_server.server.put import take_put
from barrage_server.server.workers import Workers
from barrage_server.wire.families import ClientFamily
from barrage_server.wire.plan_messages import OPERATE_ACTION
from barrage_server.wire.protocol import TABLES_ACTION
from barrage_server.wire.raw import PATH_DESCRIPTOR
from barrage_server.wire.tickets import (
    ExportTicket,
    SessionTicket,
    parse_computed,
    parse_path,
    path_of_name,
    scope_ticket,
)

__all__ = ["FlightService"]

Result = TypeVar("Result")

_SERVICE: Final = "/arrow.flight.protocol.FlightService"
_REFUSING: Final = 4
"""Threads beyond the limit of uploads, to refuse further uploads."""
_PER_HANDSHAKE: Final = 25
"""Divisor of the server's limit of handshakes. There are fewer here, because each may hold a whole message."""


class FlightService:
    """The calls of Arrow Flight.

    Args:
        state: the endpoint's state.
        location: returns the URI in listings.
        log_in: returns the caller with these credentials at this address; by default the state's.
        keep: takes the session of a caller that has logged in by a handshake, and returns its token. By default the
            session stays open, and has a token of its own.

    """

    def __init__(
        self,
        state: EndpointState,
        location: Callable[[], str],
        log_in: Callable[[Credentials, str], Awaitable[Principal]] | None = None,
        keep: Callable[[Session], str] | None = None,
    ) -> None:
        self._state = state
        self._location = location
        self._log_in = state.principal if log_in is None else log_in
        self._keep = self._open_session if keep is None else keep
        self._handshakes = asyncio.Semaphore(max(1, state.server_state.limits.handshakes // _PER_HANDSHAKE))
        self._uploads = Workers(state.server_state.limits.uploads + _REFUSING, "barrage-upload")

    def methods(self) -> Methods:
        """The handlers by method name."""
        return {
            f"{_SERVICE}/Handshake": self._handshake,
            f"{_SERVICE}/ListFlights": self._list_flights,
            f"{_SERVICE}/GetFlightInfo": unary(flight_pb2.FlightDescriptor, self._get_flight_info),
            f"{_SERVICE}/GetSchema": unary(flight_pb2.FlightDescriptor, self._get_schema),
            f"{_SERVICE}/DoGet": self._do_get,
            f"{_SERVICE}/DoPut": self._do_put,
            f"{_SERVICE}/DoExchange": self._do_exchange,
            f"{_SERVICE}/DoAction": self._do_action,
            f"{_SERVICE}/ListActions": self._list_actions,
        }

    def close(self) -> None:
        """Stop the upload threads. Their calls were cut off before."""
        self._uploads.shutdown()

    async def _handshake(self, call: Call, session: Session) -> None:
        """Log a caller in by Flight's handshake.

        Credentials are in the header or the payload of the request, and the token in both of the answer.
        """
        header = call.metadata.get(AUTHORIZATION)
        credentials = parse_authorization(header) if header is not None else _from_payload(await self._payload(call))
        session.principal = await self._log_in(credentials, call.peer)
        note(principal=session.principal.name)
        call.let_in()
        token = self._keep(session)
        await call.send_headers([(AUTHORIZATION, f"Bearer {token}")])
        response = flight_pb2.HandshakeResponse(payload=token.encode())
        await call.write(response.SerializeToString())

    def _open_session(self, session: Session) -> str:
        self._state.sessions.open(session)
        return session.token

    async def _payload(self, call: Call) -> bytes:
        """Read the payload of a handshake, within limits of number and time."""
        limits = self._state.server_state.limits
        if self._handshakes.locked():
            raise LimitError(
                f"This server has {max(1, limits.handshakes // _PER_HANDSHAKE)} handshakes open, one for "
                f"{_PER_HANDSHAKE} of its limit of {limits.handshakes} (handshakes), and takes no more; "
                "try again later."
            )
        async with self._handshakes:
            try:
                data = await asyncio.wait_for(call.read(), limits.handshake_seconds)
            except TimeoutError:
                raise DeadlineError(
                    f"The handshake brought no credentials within {limits.handshake_seconds:g} s."
                ) from None
        return b"" if data is None else bytes(parse_request(call, flight_pb2.HandshakeRequest, data).payload)

    async def _list_flights(self, call: Call, session: Session) -> None:
        criteria = await read_request(call, flight_pb2.Criteria)
        prefix = criteria.expression.decode("utf-8", "replace")
        for table in await self._state.listed(session):
            if table.name.startswith(prefix):
                await call.write((await self._info(table)).SerializeToString())

    async def _get_flight_info(
        self, _call: Call, session: Session, request: flight_pb2.FlightDescriptor
    ) -> flight_pb2.FlightInfo:
        table = await self._table_of(session, request)
        if parse_computed(request.cmd) is not None:
            return await self._info(table, request, request.cmd)
        return await self._info(table, None if session.is_plain else request)

    async def _get_schema(
        self, _call: Call, session: Session, request: flight_pb2.FlightDescriptor
    ) -> flight_pb2.SchemaResult:
        table = await self._table_of(session, request)
        return flight_pb2.SchemaResult(schema=await self._state.schema_bytes(table, ClientFamily.ARROW))

    async def _do_get(self, call: Call, session: Session) -> None:
        request = await read_request(call, flight_pb2.Ticket)
        table = await self._state.resolve(session, request.ticket, Right.READ)
        note(table=table.name, step=table.version.step)
        schema = await self._state.schema(table, ClientFamily.ARROW)
        await RawDownload(self._state, call, session, table, schema).run()

    async def _do_put(self, call: Call, session: Session) -> None:
        stream = PutStream(call, session.principal, self._state.server_state.limits)
        descriptor = await stream.open()
        is_named = session.is_plain or descriptor.type != PATH_DESCRIPTOR
        target: SessionTicket | None = None if is_named else parse_path(descriptor.path)
        if isinstance(target, ExportTicket):
            await self._put_export(session, stream, target.number)
        else:
            await self._take(stream, partial(take_put, self._state.server_state, stream))

    async def _put_export(self, session: Session, stream: PutStream, number: int) -> None:
        self._state.server_state.access.check_any(session.principal, Right.PUBLISH)
        reserved = session.exports.reserve(number)
        try:
            table = await self._take(stream, partial(take_export, self._state.server_state, stream, number))
        except BaseException as error:
            # the client may have read the first result as success: calls that use the table get the error
            if not reserved.done():
                reserved.set_exception(reason(error))
            raise
        if not reserved.done():
            self._state.private.add(table)
            reserved.set_result(table)

    async def _take(self, stream: PutStream, take: Callable[[], Result]) -> Result:
        taken = asyncio.get_running_loop().run_in_executor(self._uploads, take)
        try:
            return await asyncio.shield(taken)
        except asyncio.CancelledError:
            stream.cancel()
            with suppress(BarrageError, asyncio.CancelledError):  # the client has disconnected
                await taken
            raise
        finally:
            stream.stop()

    async def _do_exchange(self, call: Call, session: Session) -> None:
        exchange = RawExchange(self._state, call, session)
        await exchange.run()
        if exchange.page_message is not None:
            from barrage_server.server.deephaven.page_exchange import RawPageExchange  # which a server may never need

            service = await self._state.workers.run(self._state.server_state.pages.service)
            await RawPageExchange(self._state, call, session, service, exchange.page_message).run()

    async def _do_action(self, call: Call, session: Session) -> None:
        action = await read_request(call, flight_pb2.Action)
        if action.type == TABLES_ACTION:
            check_empty(action.body, "tables request")
            for table in await self._state.listed(session):
                info = await self._info(table)
                await call.write(flight_pb2.Result(body=info.SerializeToString()).SerializeToString())
            return
        server_state, principal = self._state.server_state, session.principal
        if action.type == OPERATE_ACTION:  # may take long, and stops when the caller has disconnected
            body = await self._state.plans.run_while_wanted(
                partial(run_action, server_state, principal, action.type, action.body)
            )
        else:
            threads = self._state.writers if action.type in CHANGING_ACTIONS else self._state.workers
            body = await threads.run(run_action, server_state, principal, action.type, action.body)
        await call.write(flight_pb2.Result(body=body).SerializeToString())

    async def _list_actions(self, call: Call, _session: Session) -> None:
        for name, description in list_actions():
            await call.write(flight_pb2.ActionType(type=name, description=description).SerializeToString())

    async def _table_of(self, session: Session, descriptor: flight_pb2.FlightDescriptor) -> Table:
        if self._state.server_state.streams.closing:
            raise UnavailableError("The server is shutting down; connect again later.")
        computed = parse_computed(descriptor.cmd)
        if computed is not None:
            return await self._state.computed(session, computed)
        if descriptor.type != PATH_DESCRIPTOR:
            raise InvalidRequestError('Name a table by the path ["scope", name] or [name], or a plan by a command.')
        return await self._state.resolve_path(session, descriptor.path)

    async def _info(
        self, table: Table, descriptor: flight_pb2.FlightDescriptor | None = None, ticket: bytes | None = None
    ) -> flight_pb2.FlightInfo:
        if descriptor is None:
            descriptor = flight_pb2.FlightDescriptor(type="PATH", path=path_of_name(table.name))
        endpoint = flight_pb2.FlightEndpoint(
            ticket=flight_pb2.Ticket(ticket=scope_ticket(table.name) if ticket is None else ticket),
            location=[flight_pb2.Location(uri=self._location())],
        )
        return flight_pb2.FlightInfo(
            schema=await self._state.schema_bytes(table, ClientFamily.ARROW),
            flight_descriptor=descriptor,
            endpoint=[endpoint],
            total_records=table.version.size,
            total_bytes=-1,
            app_metadata=self._state.server_state.facts_of(table),
        )


def _from_payload(payload: bytes) -> Credentials:
    """The credentials in a handshake's payload, in Deephaven's or Flight's form."""
    try:
        wrapped = deephaven_pb2.WrappedAuthenticationRequest.FromString(payload)
    except DecodeError:
        return from_payload(payload)
    if not wrapped.type:
        return from_payload(payload)
    return parse_authorization(f"{wrapped.type} {wrapped.payload.decode('utf-8', 'replace')}".strip())
