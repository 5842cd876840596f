"""The calls of plain Arrow Flight clients: no sessions, and a token in each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barrage_server.flight.authorization import AUTHORIZATION
from barrage_server.server.auth import TokenSigner
from barrage_server.server.authentication import Credentials
from barrage_server.server.deephaven.call import Call
from barrage_server.server.deephaven.flight_service import FlightService
from barrage_server.server.deephaven.service import (
    HANDSHAKE,
    DeephavenService,
    shown_credentials,
)
from barrage_server.server.deephaven.sessions import Session
from barrage_server.server.deephaven.state import EndpointState
from barrage_server.server.principal import UNAUTHENTICATED, Principal

__all__ = ["PlainService"]

_TOKEN_OF_HANDSHAKE: Final = "auth-token-bin"
_BASIC: Final = "basic"
_BEARER: Final = "bearer"


class PlainService(DeephavenService):
    """The calls of Arrow Flight, with the log-in of the Flight endpoint.

    Basic credentials and the handshake are answered with a signed bearer token, which the server does not keep.

    Args:
        state: the state of the endpoint.
        signer: makes and checks the tokens.
        location: returns the URI in listings.
    """

    def __init__(self, state: EndpointState, signer: TokenSigner, location: Callable[[], str]) -> None:
        self._state = state
        self._signer = signer
        self._flight = FlightService(state, location, self._log_in, self._issue)
        super().__init__(state, self._flight)

    def close(self) -> None:
        """Stop the upload threads."""
        self._flight.close()

    def unknown_text(self, call: Call) -> str:
        """The text for a caller of an unknown method."""
        return f"There is no {call.method.strip('/')} here: this port serves Arrow Flight."

    def answer_token(self, session: Session, *, is_new: bool) -> str | None:
        """A token for a caller that came with other credentials; None for others."""
        return self._issue(session) if is_new else None

    async def session(self, call: Call) -> tuple[Session, bool]:
        """A session for the length of the call, and whether to answer with a token."""
        sessions = self._state.sessions
        if call.method == HANDSHAKE:
            return sessions.guest(UNAUTHENTICATED, is_plain=True), False
        header = call.metadata.get(AUTHORIZATION)
        if header is None and (token := call.metadata.get(_TOKEN_OF_HANDSHAKE)):
            header = f"Bearer {token}"
        credentials = shown_credentials(call, header, lenient=self._state.authentication.is_open)
        principal = await self._log_in(credentials, call.peer)
        return sessions.guest(principal, is_plain=True), credentials.scheme == _BASIC

    async def _log_in(self, credentials: Credentials, peer: str) -> Principal:
        principal = self._signer.principal_of(credentials.secret) if credentials.scheme == _BEARER else None
        if principal is None:
            return await self._state.principal(credentials, peer)
        self._state.authentication.check(principal)
        return principal

    def _issue(self, session: Session) -> str:
        return self._signer.issue(session.principal)
