"""Runs the calls of Deephaven clients, from the session to the status."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from barrage_server.errors import AuthenticationError, DeadlineError, LimitError, WireFormatError
from barrage_server.flight.authorization import AUTHORIZATION
from barrage_server.flight.errors import tagged_text
from barrage_server.log import note, serving_call
from barrage_server.server.auth import parse_authorization
from barrage_server.server.authentication import CERTIFICATE, Credentials
from barrage_server.server.deephaven.call import Call, RequestBound, Status
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState
from barrage_server.server.principal import UNAUTHENTICATED
from barrage_server.server.translate import safe_error
from barrage_server.wire.families import ClientFamily

__all__ = [
    "HANDSHAKE",
    "DeephavenService",
    "Handler",
    "Methods",
    "parse_request",
    "read_request",
    "shown_credentials",
    "unary",
]

logger = logging.getLogger("barrage_server.server")

Handler = Callable[[Call, Session], Awaitable[None]]
Methods = dict[str, Handler]
"""Handlers by full method name."""

_BEARER: Final = "bearer"
HANDSHAKE: Final = "/arrow.flight.protocol.FlightService/Handshake"
_ACTION: Final = "/arrow.flight.protocol.FlightService/DoAction"
# Calls that need no credentials: their answer is no secret, or their messages carry credentials.
_OPEN: Final = frozenset(
    {
        "/io.deephaven.proto.backplane.grpc.ConfigService/GetAuthenticationConstants",
        HANDSHAKE,
    }
)
# Calls that open a session for a caller with credentials and without a session. Any other call gets a session that ends
# with the call, so that a client that does not keep its token leaves nothing behind.
_OPENING: Final = frozenset(
    {
        "/io.deephaven.proto.backplane.grpc.ConfigService/GetConfigurationConstants",
        "/io.deephaven.proto.backplane.grpc.SessionService/NewSession",
    }
)
# The first call of a Java client for a table.
_BEGINNING: Final = _OPENING | {"/io.deephaven.proto.backplane.grpc.TableService/Batch"}
# Deephaven's Java client disconnects as soon as it has sent this, perhaps before the request is read.
_CLOSING: Final = "/io.deephaven.proto.backplane.grpc.SessionService/CloseSession"

_ENVELOPE_BYTES: Final = 1024
"""Bytes of a request around its content: an action's body and a ticket's plan have bounds of their own."""

Request = TypeVar("Request", bound=Message)


class Service(Protocol):
    """A group of calls."""

    def methods(self) -> Methods:
        """The handlers by method name."""


class DeephavenService:
    """All calls of the endpoint, by method name.

    It is a :data:`~barrage_server.server.deephaven.call.Service`.

    Args:
        state: the state of the endpoint.
        services: the groups of calls.
    """

    def __init__(self, state: EndpointState, *services: Service) -> None:
        self._state = state
        self._methods: Methods = {}
        self._open_calls = 0
        for service in services:
            self._methods.update(service.methods())

    @property
    def names(self) -> list[str]:
        """The names of the services, for reflection and health."""
        return sorted({method.split("/")[1] for method in self._methods})

    async def __call__(self, call: Call) -> Status:
        """Run one call to its end."""
        with serving_call(call.peer):
            return await self._serve(call)

    async def _serve(self, call: Call) -> Status:
        handler = self._methods.get(call.method)
        doing = call.method.rpartition("/")[2]
        if handler is None:
            return Status.of("UNIMPLEMENTED", self.unknown_text(call))
        session: Session | None = None
        task = asyncio.current_task()
        assert task is not None
        try:
            session, is_new = await self.session(call)
            note(principal=session.principal.name)
            if call.method not in _OPEN:
                call.let_in()
                self._state.server_state.request_rate.admit(session.principal)
            if call.method == _CLOSING:
                self._state.sessions.close(session)  # before anything is awaited
            else:
                session.calls.add(task)
            if (token := self.answer_token(session, is_new=is_new)) is not None:
                await call.send_headers([(AUTHORIZATION, f"Bearer {token}")])
            call.request_bound = self._request_bound(call.method)
            if call.method in _OPEN and call.method != HANDSHAKE:
                await self._bounded(handler, call, session)
            else:
                await handler(call, session)
        except asyncio.CancelledError:
            if session is None or not session.is_closed:
                raise
            if task.uncancel():
                raise
            if self._state.stopping.is_set():  # with another status a client would not reconnect
                return Status.of("UNAVAILABLE", "The server is shutting down.")
            return self._ended(session, doing, call.peer)
        except Exception as error:  # the boundary: the client gets a status with a safe text
            safe = safe_error(error, doing, call.peer)
            return Status.of(safe.code, tagged_text(safe))
        finally:
            if session is not None:
                session.calls.discard(task)
        return Status.OK

    def _ended(self, session: Session, doing: str, peer: str) -> Status:
        """The status of a call whose session has ended, with the reason if it is known."""
        try:
            if session.principal is not UNAUTHENTICATED:
                self._state.authentication.check(session.principal)
        except AuthenticationError as error:
            safe = safe_error(error, doing, peer)
            return Status.of(safe.code, tagged_text(safe))
        return Status.of("UNAUTHENTICATED", "The session has ended.")

    def _request_bound(self, method: str) -> RequestBound:
        limits = self._state.server_state.limits
        if method in _OPEN:  # the caller may have no credentials
            return RequestBound(limits.header_bytes, "header_bytes")
        if method == _ACTION:  # its body is one field
            return RequestBound(limits.request_bytes, "request_bytes")
        return RequestBound(limits.call_bytes, "call_bytes")

    async def _bounded(self, handler: Handler, call: Call, session: Session) -> None:
        """Run a call that needs no credentials. Their number and time are limited."""
        limits = self._state.server_state.limits
        if self._open_calls >= limits.handshakes:
            raise LimitError(
                f"This server runs {limits.handshakes} calls without credentials (handshakes), and no more. Try again."
            )
        self._open_calls += 1
        try:
            async with asyncio.timeout(limits.handshake_seconds):
                await handler(call, session)
        except TimeoutError:
            raise DeadlineError(
                f"The call did not end within {limits.handshake_seconds:g} s (handshake_seconds)."
            ) from None
        finally:
            self._open_calls -= 1

    def unknown_text(self, call: Call) -> str:
        """The text for a caller of an unknown method."""
        return (
            f"There is no {call.method.strip('/')} here: docs/deephaven.md lists the calls that there are, and "
            f"docs/queries.md the operations on tables."
        )

    def answer_token(self, session: Session, *, is_new: bool) -> str | None:
        """The token for the headers of an answer; None without one."""
        if session.token and (is_new or self._state.sessions.find(session.token) is session):
            return session.token
        return None

    async def session(self, call: Call) -> tuple[Session, bool]:
        """The caller's session, and whether this call opened it.

        Raises:
            AuthenticationError: credentials are missing or wrong, or the session has ended.
        """
        sessions = self._state.sessions
        header = call.metadata.get(AUTHORIZATION)
        if call.method in _OPEN and (header is None or call.method == HANDSHAKE):
            return sessions.guest(UNAUTHENTICATED), False
        is_open = self._state.authentication.is_open
        credentials = shown_credentials(call, header, lenient=is_open)
        opens = call.method in _OPENING
        if credentials.scheme == _BEARER:
            session = sessions.find(credentials.secret)
            if session is not None:
                return session, False
            if is_open:
                # A Deephaven server keeps the session of its URIs forever, and cannot log in again. It would be locked
                # out when this server restarts; where no credentials are required, it gets another session.
                opens = call.family is ClientFamily.JAVA and call.method in _BEGINNING
                if not opens:
                    raise AuthenticationError("This session is not known, or it has ended. Log in again.")
        session = sessions.guest(await self._state.principal(credentials, call.peer))
        if not opens:
            return session, False
        sessions.open(session)
        logger.info("%s of %s has logged in by %s", session.principal.name, call.peer, credentials.scheme)
        return session, True


def shown_credentials(call: Call, header: str | None, *, lenient: bool) -> Credentials:
    """The credentials of a call: those in its header, else its certificate.

    Raises:
        AuthenticationError: the header is damaged.
    """
    if header is None and call.identity:
        return Credentials(CERTIFICATE, call.identity, call.identity)
    return parse_authorization(header, lenient=lenient)


async def read_request(call: Call, kind: type[Request]) -> Request:
    """The one request of a call.

    Raises:
        WireFormatError: there is none, or it is damaged.
        LimitError: it is longer than the call's bound.
        DeadlineError: it does not come in time.
    """
    data = await call.read_first()
    if data is None:
        raise WireFormatError(f"The call {call.method} came without a request.")
    return parse_request(call, kind, data)


def parse_request(call: Call, kind: type[Request], data: bytes) -> Request:
    """The request in ``data``.

    Raises:
        WireFormatError: it is damaged.
        LimitError: it is longer than the call's bound.
    """
    bound = call.request_bound
    if len(data) > bound.nbytes + _ENVELOPE_BYTES:
        raise LimitError(
            f"The request of {call.method} has {len(data):,} bytes, and {bound.nbytes:,} are the most ({bound.limit}). "
            f"Send less at once."
        )
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise WireFormatError(f"The request of {call.method} is not a {kind.DESCRIPTOR.name}.") from error


def unary(kind: type[Request], function: Callable[[Call, Session, Request], Awaitable[Message]]) -> Handler:
    """A handler for a call with one request and one response."""

    async def handler(call: Call, session: Session) -> None:
        response: Any = await function(call, session, await read_request(call, kind))
        await call.write(response.SerializeToString())

    return handler
