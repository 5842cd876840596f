"""The credentials of a client, and the token that the server issues for them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow.flight as flight

from barrage_server.errors import InvalidRequestError
from barrage_server.flight.authorization import AUTHORIZATION, BEARER, basic, bearer

__all__ = ["HeaderReader", "Login"]

# Deephaven names a way to log in by the class that checks it.
_PRE_SHARED_KEY: Final = "io.deephaven.authentication.psk.PskAuthenticationHandler"
_ANONYMOUS: Final = "Anonymous"
_REMEMBERED: Final = 16


class Login:
    """The ``authorization`` header of one connection. Safe for threads.

    The header has the credentials until the server answers with a token, as Deephaven servers do, and some servers for
    basic credentials; then it has the newest token. When the server refuses a token, the header has the credentials
    again.

    Args:
        token: a shared secret: the bearer token of a server, or the pre-shared key of a Deephaven server.
        user: a user's name, with ``password``.
        password: the user's password.
        authorization: the whole header, for any other way to log in.
        is_deephaven: whether ``token`` is tried as a pre-shared key before it is tried as a bearer token.
        has_certificate: whether the connection shows a certificate, which without other credentials is tried alone: a
            server that reads a header takes no notice of it.

    Raises:
        InvalidRequestError: several ways to log in at once.
    """

    def __init__(
        self,
        *,
        token: str | None = None,
        user: str | None = None,
        password: str | None = None,
        authorization: str | None = None,
        is_deephaven: bool = False,
        has_certificate: bool = False,
    ) -> None:
        if sum(way is not None for way in (token, user, authorization)) > 1:
            raise InvalidRequestError("Log in with a token, or with user and password, or with a header of your own.")
        if token is not None and not token.strip():
            raise InvalidRequestError("The token is empty; pass the server's, or leave it out if the server has none.")
        if password is not None and user is None:
            raise InvalidRequestError("A password needs a user: pass user= as well, or the secret alone as token=.")
        if authorization is not None:
            ways = [authorization]
        elif user is not None:
            ways = [basic(user, password)]
        elif token is not None:
            ways = [bearer(token), f"{_PRE_SHARED_KEY} {token}"]
            if is_deephaven:
                ways.reverse()
        else:
            ways = ["", _ANONYMOUS] if has_certificate else [_ANONYMOUS]
        self._lock = threading.Lock()
        self._ways = ways
        self._way = 0
        self._session: str | None = None
        self._lost = 0
        self._superseded: deque[str] = deque(maxlen=_REMEMBERED)

    @property
    def header(self) -> str:
        """The present header; empty for none."""
        with self._lock:
            return self._session or self._ways[self._way]

    @property
    def has_session(self) -> bool:
        """Whether the server has given a token of its own."""
        with self._lock:
            return self._session is not None

    @property
    def session(self) -> str | None:
        """The header with the server's token; None before there is one."""
        with self._lock:
            return self._session

    @property
    def sessions_lost(self) -> int:
        """The number of refused tokens, which identifies the present session."""
        with self._lock:
            return self._lost

    def received(self, values: Iterable[str | bytes]) -> None:
        """Take the headers of an answer; late ones do not replace a newer token."""
        for value in values:
            text = value.decode("latin-1") if isinstance(value, bytes) else value
            with self._lock:
                if text.startswith(BEARER) and text != self._session and text not in self._superseded:
                    if self._session is not None:
                        self._superseded.append(self._session)
                    self._session = text

    def refused(self, shown: str) -> bool:
        """Record that the server refused ``shown``; return whether to try :attr:`header`."""
        with self._lock:
            if shown in self._ways:
                return self._session is not None
            if shown == self._session:  # the server has restarted, or the session has expired
                self._session = None
                self._lost += 1
                self._superseded.append(shown)
            return True

    def next_way(self) -> bool:
        """Switch to the next way to show the credentials; False back at the first."""
        with self._lock:
            self._way = (self._way + 1) % len(self._ways)
            return self._way != 0


class HeaderReader(flight.ClientMiddlewareFactory):  # type: ignore[misc]  # pyarrow has no types
    """Passes the tokens in a server's answers to a :class:`Login`."""

    def __init__(self, login: Login) -> None:
        super().__init__()
        self._login = login

    def start_call(self, info: flight.CallInfo) -> flight.ClientMiddleware:  # noqa: ARG002  (Flight calls it so)
        """Watch one call."""
        return _Answers(self._login)


class _Answers(flight.ClientMiddleware):  # type: ignore[misc]  # pyarrow has no types
    """Reads the headers of one call's answer, or the trailers of its error."""

    def __init__(self, login: Login) -> None:
        super().__init__()
        self._login = login

    def received_headers(self, headers: Mapping[str, Iterable[str | bytes]]) -> None:
        self._login.received(headers.get(AUTHORIZATION, ()))
