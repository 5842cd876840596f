"""Log-in, sessions, and tickets: Deephaven's ConfigService and SessionService."""

from __future__ import annotations

from typing import Final

from barrage_proto import deephaven_pb2 as proto

from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.flight.authorization import AUTHORIZATION
from barrage_server.server.access import Right
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.service import Methods, unary
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState
from barrage_server.wire.tickets import ExportTicket, SharedTicket, parse_ticket

__all__ = ["ConfigService", "SessionService"]

_PACKAGE: Final = "/io.deephaven.proto.backplane.grpc"
# Names of Deephaven's classes that check credentials: its log-in page chooses by them.
_ANONYMOUS: Final = "io.deephaven.auth.AnonymousAuthenticationHandler"
_PRE_SHARED: Final = "io.deephaven.authentication.psk.PskAuthenticationHandler"


class ConfigService:
    """Log-in: the first call of clients, repeated to keep their session alive."""

    def __init__(self, state: EndpointState) -> None:
        self._state = state

    def methods(self) -> Methods:
        """The handlers by method name."""
        return {
            f"{_PACKAGE}.ConfigService/GetAuthenticationConstants": self._authentication,
            f"{_PACKAGE}.ConfigService/GetConfigurationConstants": unary(
                proto.ConfigurationConstantsRequest, self._configuration
            ),
        }

    async def _authentication(self, call: Call, _session: Session) -> None:
        """The available log-ins. The empty request is not read."""
        handlers = _ANONYMOUS if self._state.authentication.is_open else _PRE_SHARED
        values = {"AuthHandlers": proto.ConfigValue(string_value=handlers)}
        await call.write(proto.AuthenticationConstantsResponse(config_values=values).SerializeToString())

    async def _configuration(
        self, _call: Call, _session: Session, _request: proto.ConfigurationConstantsRequest
    ) -> proto.ConfigurationConstantsResponse:
        return proto.ConfigurationConstantsResponse(config_values=self._state.configuration())


class SessionService:
    """Exports, shared tickets, and the end of a session."""

    def __init__(self, state: EndpointState) -> None:
        self._state = state

    def methods(self) -> Methods:
        """The handlers by method name."""
        service = f"{_PACKAGE}.SessionService"
        return {
            f"{service}/NewSession": unary(proto.HandshakeRequest, self._new),
            f"{service}/RefreshSessionToken": unary(proto.HandshakeRequest, self._new),
            f"{service}/CloseSession": unary(proto.HandshakeRequest, self._close),
            f"{service}/Release": unary(proto.ReleaseRequest, self._release),
            f"{service}/ExportFromTicket": unary(proto.ExportRequest, self._export),
            f"{service}/PublishFromTicket": unary(proto.PublishRequest, self._publish),
            f"{service}/TerminationNotification": unary(
                proto.TerminationNotificationRequest, self._wait_for_termination
            ),
        }

    async def _new(self, _call: Call, session: Session, _request: proto.HandshakeRequest) -> proto.HandshakeResponse:
        milliseconds = int(self._state.server_state.limits.session_seconds * 1000)
        return proto.HandshakeResponse(
            metadata_header=AUTHORIZATION.encode(),
            session_token=f"Bearer {session.token}".encode(),
            token_expiration_delay_millis=milliseconds,
        )

    async def _close(
        self, _call: Call, _session: Session, _request: proto.HandshakeRequest
    ) -> proto.CloseSessionResponse:
        return proto.CloseSessionResponse()  # the session was closed when the call came

    async def _release(self, _call: Call, session: Session, request: proto.ReleaseRequest) -> proto.ReleaseResponse:
        ticket = parse_ticket(request.id.ticket)
        if isinstance(ticket, ExportTicket):  # shared tickets and the scope are not this client's to release
            session.exports.release(ticket.number)
            for command in session.consoles.pop(ticket.number, ()):
                if self._state.console is not None:
                    self._state.console.stop(command, "The console was released.")
        return proto.ReleaseResponse()

    async def _export(self, _call: Call, session: Session, request: proto.ExportRequest) -> proto.ExportResponse:
        table = await self._state.resolve(session, request.source_id.ticket)
        self._state.export(session, request.result_id.ticket, table)
        return proto.ExportResponse()

    async def _publish(self, _call: Call, session: Session, request: proto.PublishRequest) -> proto.PublishResponse:
        table = await self._state.resolve(session, request.source_id.ticket, Right.READ)
        result = parse_ticket(request.result_id.ticket)
        if not isinstance(result, SharedTicket):
            raise InvalidRequestError("A table is published under a shared ticket: 'h' and bytes of your choice.")
        if result.identifier in self._state.shared:
            raise InvalidRequestError("Something is shared under this ticket already; choose other bytes.")
        if not session.token or self._state.sessions.find(session.token) is not session:
            raise InvalidRequestError("What is shared ends with its session; this call belongs to none. Log in first.")
        limit = self._state.server_state.limits.exports
        if session.shared >= limit:
            raise LimitError(f"This session shares {limit:,} tables (exports), as many as it may.")
        session.shared += 1
        self._state.shared[result.identifier] = (session, table)
        return proto.PublishResponse()

    async def _wait_for_termination(
        self, _call: Call, _session: Session, _request: proto.TerminationNotificationRequest
    ) -> proto.TerminationNotificationResponse:
        await self._state.stopping.wait()
        return proto.TerminationNotificationResponse(reason="The server is shutting down.")
