"""Authentication over Flight: bearer tokens, and the handshakes that issue them.

Every call passes :class:`AuthMiddlewareFactory`, which refuses all unknown credentials. The server has no sessions:
a bearer token carries its principal and its expiry, signed with a key that lives as long as the server.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import pyarrow.flight as fl
from itsdangerous import BadData, URLSafeSerializer

from barrage_server.errors import AuthenticationError, BarrageError
from barrage_server.flight.authorization import AUTHORIZATION
from barrage_server.server.authentication import CERTIFICATE, Authentication, Credentials
from barrage_server.server.principal import UNAUTHENTICATED, Principal
from barrage_server.server.strangers import Strangers
from barrage_server.server.translate import UNKNOWN_PEER, boundary
from barrage_server.wire.resume import RESUME_HEADER

__all__ = [
    "AuthMiddleware",
    "AuthMiddlewareFactory",
    "HandshakeHandler",
    "TokenSigner",
    "from_payload",
    "parse_authorization",
]

MIDDLEWARE = "barrage"
_VIEWPORT_HEADER = "barrage-viewport"
# Deephaven's clients name the class that checks a pre-shared key.
_SCHEMES = {"io.deephaven.authentication.psk.pskauthenticationhandler": "psk"}


class TokenSigner:
    """Makes and checks signed bearer tokens.

    Args:
        lifetime: seconds for which a token is valid.
        clock: wall time in seconds.

    """

    def __init__(self, lifetime: float = 12 * 3600.0, clock: Callable[[], float] = time.time) -> None:
        self._serializer = URLSafeSerializer(secrets.token_bytes(32), signer_kwargs={"digest_method": hashlib.sha256})
        self._lifetime = lifetime
        self._clock = clock

    def issue(self, principal: Principal) -> str:
        """A token for ``principal``, valid no longer than its credentials."""
        until = self._clock() + self._lifetime
        if principal.expires is not None:
            until = min(until, principal.expires)
        held = [principal.name, sorted(principal.role_names), principal.expires, principal.credential]
        return self._serializer.dumps([until, *held])

    def principal_of(self, token: str) -> Principal | None:
        """The principal of a token; ``None`` when it was not made here, or has expired."""
        try:
            until, name, roles, expires, credential = self._serializer.loads(token)
        except BadData:
            return None
        return Principal(name, roles, expires, credential) if self._clock() < until else None


class AuthMiddleware(fl.ServerMiddleware):  # type: ignore[misc]  # pyarrow has no types
    """The headers of one call: the caller, its viewport dialect, its resume point."""

    resume: str | None = None

    def __init__(
        self,
        principal: Principal,
        viewport: str | None,
        bearer: str | None,
        refusal: AuthenticationError | None = None,
        by_certificate: Callable[[str], Principal] | None = None,
    ) -> None:
        super().__init__()
        self.principal = principal
        self.viewport = viewport
        self._bearer = bearer
        self._refusal = refusal
        self._by_certificate = by_certificate

    def check(self, identity: str = "") -> None:
        """Raise AuthenticationError unless the credentials are valid.

        Args:
            identity: the identity of the client's certificate; empty without one. Used when the headers have no
                credentials.

        """
        if self._by_certificate is not None:
            self.principal = self._by_certificate(identity)
        elif self._refusal is not None:
            raise self._refusal

    def sending_headers(self) -> dict[str, str]:
        """The bearer token, for a caller that showed other credentials."""
        return {} if self._bearer is None else {AUTHORIZATION: f"Bearer {self._bearer}"}


# Methods whose handlers may refuse credentials: they know the caller's address for the log. Other methods are refused
# before: Flight waits there for the caller's first message, or sends errors of handlers as unknown ones.
_TOLD_BY_HANDLER: Final = frozenset(
    {
        fl.FlightMethod.LIST_FLIGHTS,
        fl.FlightMethod.GET_FLIGHT_INFO,
        fl.FlightMethod.DO_GET,
        fl.FlightMethod.DO_ACTION,
        fl.FlightMethod.LIST_ACTIONS,
    }
)


class AuthMiddlewareFactory(fl.ServerMiddlewareFactory):  # type: ignore[misc]  # pyarrow has no types
    """Authenticates every call; calls without valid credentials get UNAUTHENTICATED.

    Handlers of calls must call :meth:`AuthMiddleware.check` first: only they know the peer of most calls, and its
    certificate.

    Args:
        authentication: checks credentials.
        signer: makes and checks bearer tokens.
        strangers: bounds handshakes.
        certificates: whether TLS requires a client certificate.

    """

    def __init__(
        self, authentication: Authentication, signer: TokenSigner, strangers: Strangers, *, certificates: bool = False
    ) -> None:
        super().__init__()
        self._certificates = certificates
        self._authentication = authentication
        self._signer = signer
        self._strangers = strangers

    def start_call(self, info: fl.CallInfo, headers: Mapping[str, Sequence[str | bytes]]) -> AuthMiddleware:
        """Check the headers of a call. Header names are in lower case."""
        with boundary("authentication", UNKNOWN_PEER):
            lower = {name.lower(): values for name, values in headers.items()}
            middleware = self._checked(info, lower)
            middleware.resume = _text(lower.get(RESUME_HEADER))
            return middleware

    def _checked(self, info: fl.CallInfo, lower: Mapping[str, Sequence[str | bytes]]) -> AuthMiddleware:
        viewport = _text(lower.get(_VIEWPORT_HEADER))
        header = _text(lower.get(AUTHORIZATION))
        if info.method == fl.FlightMethod.HANDSHAKE and header is None:
            self._strangers.check_room()
            return AuthMiddleware(UNAUTHENTICATED, viewport, None)  # credentials come in the handshake itself
        shown = header if header is not None else _bearer_of(lower.get("auth-token-bin"))
        if shown is None and self._certificates:
            return AuthMiddleware(UNAUTHENTICATED, viewport, None, by_certificate=self._of_certificate)
        try:
            return self._admit(info, shown, viewport)
        except AuthenticationError as error:
            if info.method not in _TOLD_BY_HANDLER:
                raise
            return AuthMiddleware(UNAUTHENTICATED, viewport, None, error)

    def _of_certificate(self, identity: str) -> Principal:
        return self._authentication.principal(Credentials(CERTIFICATE, identity, identity))

    def _admit(self, info: fl.CallInfo, shown: str | None, viewport: str | None) -> AuthMiddleware:
        credentials = parse_authorization(shown, lenient=self._authentication.is_open)
        principal = self._signer.principal_of(credentials.secret) if credentials.scheme == "bearer" else None
        if principal is not None:
            self._authentication.check(principal)
            return AuthMiddleware(principal, viewport, None)
        principal = self._authentication.principal(credentials)
        hands_out = credentials.scheme == "basic" or info.method == fl.FlightMethod.HANDSHAKE
        return AuthMiddleware(principal, viewport, self._signer.issue(principal) if hands_out else None)


class HandshakeHandler(fl.ServerAuthHandler):  # type: ignore[misc]  # pyarrow has no types
    """The older log-in of Flight: credentials in the payload of a ``Handshake``.

    The payload is the shared token, or ``user:password``, or Flight's ``BasicAuth`` message. The client sends the token
    of the answer in the header ``auth-token-bin``.
    """

    def __init__(self, authentication: Authentication, signer: TokenSigner, strangers: Strangers) -> None:
        super().__init__()
        self._authentication = authentication
        self._signer = signer
        self._strangers = strangers

    def authenticate(self, outgoing: fl.ServerAuthSender, incoming: fl.ServerAuthReader) -> None:
        """Answer one handshake."""
        with boundary("the handshake", UNKNOWN_PEER):
            try:
                with self._strangers.handshake():
                    payload = bytes(incoming.read())
            except (StopIteration, OSError):
                return  # an empty handshake: its credentials are in the header, for AuthMiddlewareFactory
            if payload:
                principal = self._authentication.principal(from_payload(payload))
                outgoing.write(self._signer.issue(principal).encode())

    def is_valid(self, token: bytes) -> bytes:  # noqa: ARG002  (Flight calls it so)
        """Accept the token: :class:`AuthMiddlewareFactory` checks it in every call."""
        return b""


def parse_authorization(header: str | None, *, lenient: bool = False) -> Credentials:
    """Parse an ``authorization`` header.

    Args:
        header: its value; ``None`` without.
        lenient: whether damaged basic credentials count as none.

    Raises:
        AuthenticationError: the header is damaged.

    """
    if not header:
        return Credentials("anonymous", "", "")
    scheme, _, secret = header.strip().partition(" ")
    scheme, secret = scheme.lower(), secret.strip()
    scheme = _SCHEMES.get(scheme, scheme)
    if scheme != "basic":
        return Credentials(scheme, "", secret)
    try:
        user, _, password = base64.b64decode(secret, validate=True).decode().partition(":")
    except ValueError as error:  # no base64, no ASCII, or no UTF-8 in it
        if lenient:
            return Credentials(scheme, "", "")
        raise AuthenticationError("The header 'authorization: Basic' must carry base64 of user:password.") from error
    return Credentials(scheme, user, password)


def from_payload(payload: bytes) -> Credentials:
    """Parse a handshake's payload: ``BasicAuth``, ``user:password``, or a token."""
    try:
        basic = fl.BasicAuth.deserialize(payload)
        if basic.password:
            return Credentials("basic", _plain(basic.username), _plain(basic.password))
    except (ValueError, OSError, BarrageError):
        pass  # not a BasicAuth message: text then
    user, colon, password = payload.decode("utf-8", "replace").partition(":")
    return Credentials("basic", user, password) if colon else Credentials("bearer", "", user)


def _plain(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _text(values: Sequence[str | bytes] | None) -> str | None:
    return _plain(values[0]) if values else None


def _bearer_of(values: Sequence[str | bytes] | None) -> str | None:
    token = _text(values)
    return f"Bearer {token}" if token else None
