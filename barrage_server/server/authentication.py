"""Credentials and the principals that they prove, independent of endpoints."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, runtime_checkable

from barrage_server.arguments import shown as repr_of
from barrage_server.arguments import unbroken
from barrage_server.errors import AuthenticationError, InvalidRequestError
from barrage_server.log import Throttle
from barrage_server.public import public
from barrage_server.server.principal import ANONYMOUS, OPEN, SHARED, Principal

__all__ = [
    "CERTIFICATE",
    "REFUSED",
    "AnyOf",
    "AnyToken",
    "Authentication",
    "Authenticator",
    "Certificates",
    "CredentialStore",
    "Credentials",
    "SharedTokens",
    "as_authenticator",
    "named_roles",
    "refused",
]

logger = logging.getLogger("barrage_server.server")

CERTIFICATE: Final = "client certificate"
"""Scheme of credentials that are the identity of a client certificate, which TLS has checked.

No header can have this scheme: the scheme of a header ends at its first space.
"""
REFUSED: Final = (
    "The token is missing or wrong. In Python pass token=, or user= and password=; other clients send it in the "
    "header 'authorization: Bearer <token>'."
)
"""The text of the error for missing, wrong and expired credentials alike."""
_SHOWN: Final = 60
"""Most characters of a name in the reason of a refusal."""
_ANY_CERTIFICATE: Final = "any certificate"
_OWN: Final = "own:"
_MISTAKES: Final = Throttle(20, 0.2)
"""Log of authenticators that return something else: strangers can cause calls of them."""


def refused(reason: str = "") -> AuthenticationError:
    """The error for refused credentials, with a reason for the log."""
    error = AuthenticationError(REFUSED)
    error.reason = reason
    return error


@public
@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials of one call.

    Attributes:
        scheme: ``basic``, ``bearer``, ``psk`` for a pre-shared key, or another first word of the header, in lower case;
            ``anonymous`` without a header.
        user: the user name of ``basic``, else empty.
        secret: the password of ``basic``, or the text after the scheme.

    """

    scheme: str
    user: str
    secret: str

    def __repr__(self) -> str:
        return f"<Credentials {self.scheme} {self.user!r}>"


Authenticator = Callable[[Credentials], str | Principal]
"""Returns the caller or its name, or raises :class:`~barrage_server.errors.AuthenticationError`."""


@runtime_checkable
class CredentialStore(Protocol):
    """An :data:`Authenticator` whose credentials can be revoked.

    Its methods may be called from any thread.
    """

    def __call__(self, credentials: Credentials) -> Principal:
        """The caller, which may take long to decide.

        Raises:
            AuthenticationError: the credentials are missing or wrong.

        """

    def quick(self, credentials: Credentials) -> Principal | None:
        """The caller; ``None`` when deciding takes too long for an event loop."""

    def holds(self, principal: Principal) -> bool:
        """Whether the credentials of ``principal`` are not revoked; expiry aside."""

    def refresh(self, *, force: bool = False) -> None:
        """Read changed credentials again, or all with ``force``.

        Called about once a second. Must be quick.
        """


@runtime_checkable
class NamesRoles(Protocol):
    """An :data:`Authenticator` that knows which roles its callers may have."""

    @property
    def named_roles(self) -> frozenset[str]:
        """The names of the roles."""


@runtime_checkable
class Rereadable(Protocol):
    """An :data:`Authenticator` that reads its credentials again atomically."""

    def __call__(self, credentials: Credentials) -> Principal:
        """The caller; AuthenticationError when the credentials are missing or wrong."""

    def reread(self) -> tuple[frozenset[str], Callable[[], None]]:
        """Read all credentials again, without applying them.

        Returns:
            The names of the roles that the new credentials have, and a function that applies them, which cannot fail.

        Raises:
            InvalidRequestError: the credentials cannot be read, or are wrong; the text says why.

        """


def named_roles(authenticate: Authenticator | None) -> frozenset[str]:
    """The names of the roles that credentials are known to have."""
    return authenticate.named_roles if isinstance(authenticate, NamesRoles) else frozenset()


class SharedTokens:
    """A :class:`CredentialStore` of tokens that callers share.

    A caller shows one as a bearer token, or as the password of any user.

    Args:
        tokens: the tokens.
        roles: the roles of their holders.

    Raises:
        InvalidRequestError: a token is empty or blank, and would accept callers without credentials.

    """

    def __init__(self, tokens: Sequence[str], roles: Collection[str] = ()) -> None:
        for token in tokens:
            if not token.strip():
                raise InvalidRequestError(
                    "An empty token protects nothing: a caller that shows none has it. Choose one, or leave it out."
                )
        self._roles = frozenset(roles)
        self._tokens = [
            (
                token.encode(),
                Principal("token", self._roles, None, f"{SHARED}:" + hashlib.sha256(token.encode()).hexdigest()),
            )
            for token in tokens
        ]

    def __call__(self, credentials: Credentials) -> Principal:
        """The caller; AuthenticationError when the token is missing or wrong."""
        shown = b"" if credentials.scheme == CERTIFICATE else credentials.secret.encode("utf-8", "replace")
        found: Principal | None = None
        for token, principal in self._tokens:  # all of them, so that the time tells nothing about the token
            if hmac.compare_digest(shown, token):
                found = principal
        if found is None:
            raise AuthenticationError(REFUSED)
        return replace(found, name=credentials.user) if credentials.user.strip() else found

    quick = __call__

    def holds(self, principal: Principal) -> bool:
        """Whether the token of ``principal`` is one of these and has the same roles."""
        return principal.role_names == self._roles and any(
            principal.credential == known.credential for _, known in self._tokens
        )

    def refresh(self, *, force: bool = False) -> None:
        """Nothing changes."""


class Certificates:
    """A :class:`CredentialStore` that accepts every checked client certificate.

    Args:
        roles: the roles of their holders.

    """

    def __init__(self, roles: Collection[str] = ()) -> None:
        self._roles = frozenset(roles)

    def __call__(self, credentials: Credentials) -> Principal:
        """The caller; AuthenticationError when it has not shown a certificate."""
        if credentials.scheme != CERTIFICATE or not credentials.secret.strip():
            raise AuthenticationError(REFUSED)
        return Principal(credentials.secret, self._roles, None, _ANY_CERTIFICATE)

    quick = __call__

    def holds(self, principal: Principal) -> bool:
        """Whether ``principal`` showed a certificate, and its roles are the same."""
        return principal.credential == _ANY_CERTIFICATE and principal.role_names == self._roles

    def refresh(self, *, force: bool = False) -> None:
        """Nothing changes."""


class AnyOf:
    """A :class:`CredentialStore` that accepts what any of its authenticators accepts.

    Args:
        authenticators: at least one; the first that accepts the credentials names the caller.
        default_roles: roles of callers for which an authenticator returns only a name.

    """

    def __init__(self, authenticators: Sequence[Authenticator], default_roles: Collection[str] = ()) -> None:
        self._authenticators = tuple(authenticators)
        self._roles = frozenset(default_roles)

    def __call__(self, credentials: Credentials) -> Principal:
        """The caller; AuthenticationError when no authenticator accepts it."""
        reasons: list[str] = []
        for authenticate in self._authenticators:
            try:
                return self._principal(authenticate(credentials))
            except AuthenticationError as error:
                reasons.append(error.reason)
        raise refused("; ".join(filter(None, reasons)))

    def quick(self, credentials: Credentials) -> Principal | None:
        """The caller; ``None`` when deciding takes too long for an event loop."""
        takes_long = False
        reasons: list[str] = []
        for authenticate in self._authenticators:
            try:
                if isinstance(authenticate, CredentialStore):
                    found = authenticate.quick(credentials)
                else:
                    found = self._principal(authenticate(credentials))
            except AuthenticationError as error:
                reasons.append(error.reason)
                continue
            if found is not None:
                return found
            takes_long = True
        if takes_long:
            return None
        raise refused("; ".join(filter(None, reasons)))

    def holds(self, principal: Principal) -> bool:
        """Whether the authenticator that accepted ``principal`` still does."""
        stores = [store for store in self._authenticators if isinstance(store, CredentialStore)]
        return any(store.holds(principal) for store in stores)

    def refresh(self, *, force: bool = False) -> None:
        """Have all stores read changed credentials again."""
        for store in self._authenticators:
            if isinstance(store, CredentialStore):
                store.refresh(force=force)

    def reread(self) -> tuple[frozenset[str], Callable[[], None]]:
        """Have all read their credentials again, to be applied together."""
        return _reread(self._authenticators)

    @property
    def named_roles(self) -> frozenset[str]:
        """The names of the roles of all authenticators."""
        return frozenset().union(*map(named_roles, self._authenticators))

    def _principal(self, found: str | Principal) -> Principal:
        return found if isinstance(found, Principal) else Principal(_name(found), self._roles)


def _name(found: object) -> str:
    """The name that an authenticator has returned.

    Raises:
        AuthenticationError: it is no text, which the log says.

    """
    if not isinstance(found, str):
        text = (
            "a caller was refused: a function of token= has returned a value of the type %s; it returns the caller's "
            "name or a bs.Principal, or raises bs.AuthenticationError"
        )
        _MISTAKES.log(logger, logging.ERROR, text, type(found).__name__)
        raise AuthenticationError(REFUSED)
    return found.strip() or ANONYMOUS


def _reread(authenticators: Sequence[Authenticator]) -> tuple[frozenset[str], Callable[[], None]]:
    """:meth:`Rereadable.reread` of several authenticators; others are refreshed."""
    roles: set[str] = set()
    steps: list[Callable[[], None]] = []
    for authenticate in authenticators:
        if isinstance(authenticate, Rereadable):
            found, apply = authenticate.reread()
            roles |= found
            steps.append(apply)
        else:
            roles |= named_roles(authenticate)
            if isinstance(authenticate, CredentialStore):
                steps.append(partial(authenticate.refresh, force=True))

    def apply_all() -> None:
        for step in steps:
            step()

    return frozenset(roles), apply_all


AnyToken = str | Authenticator
"""A token that callers share, or an authenticator."""


def as_authenticator(
    token: AnyToken | Sequence[AnyToken] | None, default_roles: Collection[str] = ()
) -> Authenticator | None:
    """The authenticator for ``token``; ``None`` when every caller is accepted.

    Raises:
        InvalidRequestError: ``token`` is neither a string nor a function nor a sequence of these, or a string is blank.

    """
    if token is None:
        return None
    entries = tuple(token) if isinstance(token, list | tuple) else (token,)
    for entry in entries:
        if not isinstance(entry, str) and not callable(entry):
            raise InvalidRequestError(
                f"token must be a string or a function, or a list of these, not {repr_of(entry)}."
            )
        if isinstance(entry, str):
            unbroken(entry, "token")
    if not entries:
        raise InvalidRequestError("token must have at least one entry; leave it out to accept every caller.")
    tokens = [entry for entry in entries if isinstance(entry, str)]
    others = [entry for entry in entries if not isinstance(entry, str)]
    shared = [SharedTokens(tokens, default_roles)] if tokens else []
    every: list[Authenticator] = [*shared, *others]
    return every[0] if len(every) == 1 else AnyOf(every, default_roles)


class Authentication:
    """Turns credentials into principals, for all endpoints of a server.

    Methods may be called from any thread.

    Args:
        authenticate: checks credentials; ``None`` to accept every caller.
        default_roles: roles of callers whose credentials name none.
        clock: Unix time in seconds.

    """

    def __init__(
        self,
        authenticate: Authenticator | None = None,
        default_roles: Collection[str] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._authenticate = authenticate
        self._store = authenticate if isinstance(authenticate, CredentialStore) else None
        self._default_roles = frozenset(default_roles)
        self._clock = clock
        # credential of principals whose authenticator returns none; another one after each replacement
        self._own = f"{_OWN}{secrets.token_hex(4)}"

    @property
    def is_open(self) -> bool:
        """Whether every caller is accepted, with any credentials."""
        return self._authenticate is None

    @property
    def named_roles(self) -> frozenset[str]:
        """The names of the roles that credentials are known to have."""
        return named_roles(self._authenticate)

    @property
    def default_roles(self) -> frozenset[str]:
        """The roles of callers whose credentials name none."""
        return self._default_roles

    def principal(self, credentials: Credentials) -> Principal:
        """The caller with these credentials, which may take long to decide.

        Raises:
            AuthenticationError: the credentials are missing, wrong or expired.

        """
        if self._authenticate is None:
            return Principal(credentials.user.strip() or ANONYMOUS, self._default_roles, None, OPEN)
        return self._checked(self._authenticate(credentials))

    def quick(self, credentials: Credentials) -> Principal | None:
        """The caller; ``None`` when deciding takes too long for an event loop.

        Raises what :meth:`principal` does.
        """
        if self._store is None:
            return self.principal(credentials)
        found = self._store.quick(credentials)
        return None if found is None else self._checked(found)

    def holds(self, principal: Principal) -> bool:
        """Whether the credentials of ``principal`` are neither expired nor revoked."""
        if principal.is_expired(self._clock()):
            return False
        if principal.credential.startswith(_OWN):
            return principal.credential == self._own
        return self._store is None or self._store.holds(principal)

    def replace(self, authenticate: Authenticator, default_roles: Collection[str] = ()) -> None:
        """Replace the authenticator. Streams of callers that it does not accept end soon.

        Raises:
            InvalidRequestError: every caller is accepted, and clients were told that no log-in is required.

        """
        if self._authenticate is None:
            raise InvalidRequestError("This server accepts every caller; start it anew to require credentials.")
        self._authenticate = authenticate
        self._store = authenticate if isinstance(authenticate, CredentialStore) else None
        self._default_roles = frozenset(default_roles)
        self._own = f"{_OWN}{secrets.token_hex(4)}"

    def refresh(self, *, force: bool = False) -> None:
        """Read changed credentials again, or all with ``force``.

        Called about once a second.
        """
        if self._store is not None:
            self._store.refresh(force=force)

    def reread(self) -> tuple[frozenset[str], Callable[[], None]]:
        """Read all credentials again, without applying them; see :class:`Rereadable`."""
        return _reread([] if self._authenticate is None else [self._authenticate])

    def check(self, principal: Principal) -> None:
        """Raise AuthenticationError unless the credentials of ``principal`` still hold."""
        if not self.holds(principal):
            error = AuthenticationError("These credentials have expired or were revoked. Log in again.")
            how = "have expired" if principal.is_expired(self._clock()) else "were revoked or changed"
            error.reason = f"those of {principal.name[:_SHOWN]!r} {how}"
            raise error

    def _checked(self, found: str | Principal) -> Principal:
        if not isinstance(found, Principal):
            return Principal(_name(found), self._default_roles, None, self._own)
        if found.is_expired(self._clock()):
            raise refused(f"those of {found.name[:_SHOWN]!r} have expired")
        return found if found.credential else replace(found, credential=self._own)
