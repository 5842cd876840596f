"""Signed web tokens (JWT), as OpenID Connect providers issue them."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import urlsplit

from barrage_server.arguments import as_path, callback, names, seconds, shown, text
from barrage_server.errors import InvalidRequestError
from barrage_server.extras import missing_extra
from barrage_server.process import start_thread
from barrage_server.public import public
from barrage_server.server.authentication import Credentials, refused
from barrage_server.server.file_stamp import check_regular, file_stamp
from barrage_server.server.principal import Principal

__all__ = ["WebTokens"]

logger = logging.getLogger("barrage_server.server")

_ALGORITHMS: Final[Mapping[str, tuple[str, str | None]]] = {
    "RS256": ("RSA", None),
    "RS384": ("RSA", None),
    "RS512": ("RSA", None),
    "PS256": ("RSA", None),
    "PS384": ("RSA", None),
    "PS512": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    "EdDSA": ("OKP", None),
}
"""Algorithms with a public key, and the type and curve of their keys."""
_MOST_BYTES: Final = 16 << 10
"""Most bytes of a token."""
_KEY_BYTES: Final = 1 << 20
"""Most bytes of a key set."""
_FETCH_SECONDS: Final = 10.0
_EVERY_SECONDS: Final = 300.0
"""Seconds between two fetches of a key set from a URL."""
_AGAIN_SECONDS: Final = 10.0
"""Least seconds between two fetches that a failure or an unknown key causes."""


class _Key:
    """A public key of the set."""

    __slots__ = ("algorithm", "credential", "curve", "id", "key", "kind")

    def __init__(self, data: Mapping[str, Any], key: Any) -> None:
        self.id: Final = data.get("kid")
        self.kind: Final = data.get("kty")
        self.curve: Final = data.get("crv")
        self.algorithm: Final = data.get("alg")
        self.key: Final = key
        self.credential: Final = "key:" + hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()

    def fits(self, key_id: object, algorithm: str) -> bool:
        """Whether a token with that header may be signed by this key."""
        kind, curve = _ALGORITHMS[algorithm]
        return (
            self.kind == kind
            and (curve is None or self.curve == curve)
            and self.algorithm in (None, algorithm)
            and (key_id is None or self.id == key_id)
        )


@public
class WebTokens:
    """An authenticator by JSON web tokens, shown as bearer tokens.

    A token must be signed by a key of the set with an allowed algorithm, be for the audience, be by the issuer, and
    have an expiry. Methods may be called from any thread.

    Args:
        keys: the public keys, a JSON web key set: the path of a file, which is read again when it changes, or an
            ``https://`` URL, which is fetched every five minutes, and when a token has an unknown key.
        audience: the required audience (``aud``): the name of this service with the issuer.
        issuer: the required issuer (``iss``).
        algorithms: allowed algorithms; only those with public keys can be.
        name_claim: the claim with the caller's name.
        roles_claim: the claim with its roles: a list of strings, or one string with spaces between them.
        leeway: seconds by which clocks may differ.
        clock: a monotonic clock, in seconds, by which keys at a URL are fetched again.

    Raises:
        InvalidRequestError: an argument is wrong, or the keys cannot be read.
        DependencyError: the packages that check signatures are not installed.

    >>> bs.WebTokens("https://login.example.com/keys", audience="barrage", issuer="https://login.example.com")

    """

    def __init__(
        self,
        keys: str | os.PathLike[str],
        *,
        audience: str,
        issuer: str,
        algorithms: Sequence[str] = ("RS256", "ES256"),
        name_claim: str = "sub",
        roles_claim: str = "roles",
        leeway: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._algorithms = names(algorithms, "algorithms")
        for algorithm in self._algorithms:
            if algorithm not in _ALGORITHMS:
                known = ", ".join(_ALGORITHMS)
                raise InvalidRequestError(f"algorithms must be of {known}; {shown(algorithm)} is not.")
        self._audience = text(audience, "audience")
        self._issuer = text(issuer, "issuer")
        self._name_claim = text(name_claim, "name_claim")
        self._roles_claim = text(roles_claim, "roles_claim")
        self._leeway = seconds(leeway, "leeway")
        self._clock = callback(clock, "clock")
        try:
            import cryptography  # noqa: F401  (without it PyJWT only knows shared secrets)
            import jwt
        except ImportError as error:
            raise missing_extra("Checking web tokens needs", "auth", error) from error
        self._jwt: Final = jwt
        self._lock = threading.Lock()
        self._where = where = os.fspath(keys) if isinstance(keys, str | os.PathLike) else keys
        is_url = isinstance(where, str) and _is_https(where)
        if not isinstance(where, str) or not where.strip() or ("://" in where and not is_url):
            raise InvalidRequestError(f"keys must be the path of a file or an https:// URL, not {shown(keys)}.")
        self._url = where if is_url else None
        self._path = None if is_url else as_path(where, "keys", "file")
        self._fetching = False
        self._fetched = self._clock()
        self._is_wanted = False
        self._seen = None if self._path is None else file_stamp(self._path)
        self._keys: tuple[_Key, ...] = ()
        try:
            self._keys = self._parsed(self._data())
        except InvalidRequestError as error:
            if self._url is None:
                raise
            logger.error("no web token is accepted yet: %s", error)  # the provider may be started later
            self._is_wanted = True

    def __repr__(self) -> str:
        return f"<WebTokens of {self._issuer!r} for {self._audience!r}>"

    @property
    def is_fetching(self) -> bool:
        """Whether the keys are being fetched now."""
        return self._fetching

    def __call__(self, credentials: Credentials) -> Principal:
        """The caller; AuthenticationError when the token is missing, wrong or expired."""
        token = credentials.secret
        if credentials.scheme != "bearer" or token.count(".") != 2:
            raise refused()  # no web token: another authenticator may know it
        if len(token) > _MOST_BYTES:
            raise refused(f"the web token has more than {_MOST_BYTES:,} characters")
        try:
            header = self._jwt.get_unverified_header(token)
            algorithm, key_id = header.get("alg"), header.get("kid")
            if algorithm not in self._algorithms:
                allowed = ", ".join(self._algorithms)
                raise refused(
                    f"the algorithm {shown(algorithm)} of the web token is not among those allowed: {allowed}"
                )
            fitting = [key for key in self._keys if key.fits(key_id, algorithm)]
            if not fitting and self._url is not None:
                self._is_wanted = True
            for key in fitting:
                claims = self._claims(token, key, algorithm)
                if claims is not None:
                    return self._principal(claims, key)
        except (self._jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
            raise refused(self._reason(error)) from None
        if not fitting:
            raise refused(f"no key of the set is for web tokens with the key id {shown(key_id)} and {algorithm}")
        raise refused("no key of the set has signed the web token")

    quick = __call__

    def _reason(self, error: Exception) -> str:
        """Why a token is refused, for the log. It has no part of the token."""
        jwt = self._jwt
        if isinstance(error, jwt.MissingRequiredClaimError):
            return f"the web token has no claim {error.claim!r}"
        reasons = {
            jwt.ExpiredSignatureError: "the web token has expired",
            jwt.ImmatureSignatureError: "the web token is not valid yet, by its claim 'nbf' or 'iat'",
            jwt.InvalidAudienceError: f"the audience of the web token is not {shown(self._audience)}",
            jwt.InvalidIssuerError: f"the issuer of the web token is not {shown(self._issuer)}",
        }
        return reasons.get(type(error), "the web token is damaged, or has claims of the wrong type")

    def holds(self, principal: Principal) -> bool:
        """Whether the key that signed the token of ``principal`` is still in the set."""
        return any(key.credential == principal.credential for key in self._keys)

    def refresh(self, *, force: bool = False) -> None:
        """Read a changed file again, or start a fetch that is due on another thread.

        Called about once a second. ``force``: whether or not the file has changed or the fetch is due.
        """
        if self._path is not None:
            with self._lock:
                stamp = file_stamp(self._path)
                if stamp != self._seen or force:
                    self._seen = stamp
                    self._load()
            return
        with self._lock:
            passed = self._clock() - self._fetched
            is_due = force or passed >= _EVERY_SECONDS or (self._is_wanted and passed >= _AGAIN_SECONDS)
            if not is_due or self._fetching:
                return
            self._fetching = True
        thread = threading.Thread(target=self._fetch, name="barrage-web-keys", daemon=True)
        try:
            start_thread(thread)
        except BaseException:
            self._fetching = False
            raise

    def reread(self) -> tuple[frozenset[str], Callable[[], None]]:
        """Read a file of keys again, without applying it.

        Returns:
            No roles, because tokens name them, and a function that applies the keys. Keys at a URL are fetched only
            when it is called.

        Raises:
            InvalidRequestError: the file cannot be read, or is no key set.

        """
        if self._path is None:
            return frozenset(), partial(self.refresh, force=True)
        stamp = file_stamp(self._path)
        check_regular(self._path)
        keys = self._parsed(self._data())

        def apply() -> None:
            with self._lock:
                self._seen = stamp
                self._use(keys)

        return frozenset(), apply

    def _fetch(self) -> None:
        try:
            self._load()
        finally:
            self._fetched, self._fetching = self._clock(), False

    def _load(self) -> None:
        try:
            if self._path is not None:
                check_regular(self._path)
            keys = self._parsed(self._data())
        except InvalidRequestError as error:
            logger.error("the keys of web tokens stay as they were: %s", error)
            return
        self._use(keys)

    def _use(self, keys: tuple[_Key, ...]) -> None:
        self._is_wanted = False
        if {key.credential for key in keys} != {key.credential for key in self._keys}:
            logger.info("%d keys of web tokens of %s", len(keys), self._issuer)
        self._keys = keys

    def _claims(self, token: str, key: _Key, algorithm: str) -> Mapping[str, Any] | None:
        """The claims of a valid token; ``None`` if ``key`` has not signed it."""
        try:
            claims: Mapping[str, Any] = self._jwt.decode(
                token,
                key.key,
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._issuer,
                leeway=self._leeway,
                options={"require": ["exp", "aud", "iss", self._name_claim]},
            )
        except self._jwt.InvalidSignatureError:
            return None
        return claims

    def _principal(self, claims: Mapping[str, Any], key: _Key) -> Principal:
        name, roles = claims[self._name_claim], claims.get(self._roles_claim, ())
        if isinstance(roles, str):
            roles = roles.split()
        if not isinstance(name, str) or not name.strip():
            raise refused(f"the claim {shown(self._name_claim)} of the web token is no text, or an empty one")
        if not isinstance(roles, list | tuple) or not all(isinstance(role, str) for role in roles):
            raise refused(f"the claim {shown(self._roles_claim)} of the web token is no list of strings")
        return Principal(name, roles, float(claims["exp"]) + self._leeway, key.credential)

    def _data(self) -> bytes:
        """The bytes of the key set in the file or at the URL."""
        try:
            if self._path is not None:
                with self._path.open("rb") as file:
                    data = file.read(_KEY_BYTES + 1)
            else:
                assert self._url is not None
                request = urllib.request.Request(self._url, headers={"accept": "application/json"})
                with _opener().open(request, timeout=_FETCH_SECONDS) as answer:
                    data = answer.read(_KEY_BYTES + 1)
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "strerror", None) or getattr(error, "reason", None) or type(error).__name__
            raise InvalidRequestError(f"The keys at {self._where!r} cannot be read: {reason}.") from None
        if len(data) > _KEY_BYTES:
            raise InvalidRequestError(f"The keys at {self._where!r} have more than {_KEY_BYTES:,} bytes.")
        return data

    def _parsed(self, data: bytes) -> tuple[_Key, ...]:
        """The public keys for signatures in a set; all other keys are left out."""
        try:
            entries = json.loads(data)["keys"]
            found = [entry for entry in entries if entry.get("use") in (None, "sig")]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise InvalidRequestError(f"The keys at {self._where!r} are no JSON web key set.") from None
        keys = []
        for entry in found:
            if entry.get("kty") not in ("RSA", "EC", "OKP") or "d" in entry:
                continue
            try:
                keys.append(_Key(entry, self._jwt.PyJWK(entry).key))
            except (self._jwt.PyJWTError, ValueError, TypeError):
                logger.warning("a key of the set at %r cannot be used: %.100r", self._where, entry.get("kid"))
        if not keys:
            raise InvalidRequestError(f"The key set at {self._where!r} has no public key for signatures.")
        return tuple(keys)


def _is_https(text: str) -> bool:
    """Whether a text is an ``https://`` URL of a host."""
    try:
        parts = urlsplit(text)
        is_place = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return parts.scheme == "https" and is_place and text.isascii() and text.isprintable() and " " not in text


class _NoPlainRedirect(urllib.request.HTTPRedirectHandler):
    """Follows redirections to https only."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """The request for the new URL."""
        if not newurl.startswith("https://"):
            raise OSError("it redirects to a URL without https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoPlainRedirect)
