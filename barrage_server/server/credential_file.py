"""Credentials in a file: tokens, users with passwords, and client certificates.

The file is TOML, and each entry has a name and roles::

    [[tokens]]
    name = "desk-7"
    sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"   # or token = "...", in clear
    roles = ["trader"]
    expires = 2027-01-01T00:00:00Z

    [[users]]
    name = "anna"
    password = "$argon2id$v=19$m=65536,t=3,p=4$..."
    roles = ["trader"]

    [[certificates]]
    identity = "feed.example.com"   # the first subject alternative name, or else the common name
    name = "feed"
    roles = ["publisher"]

"""

from __future__ import annotations

import hashlib
import os
import re
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from barrage_server.arguments import shown
from barrage_server.errors import AuthenticationError, InvalidRequestError
from barrage_server.public import public
from barrage_server.server.authentication import CERTIFICATE, REFUSED, Credentials
from barrage_server.server.passwords import Passwords, check_hash
from barrage_server.server.principal import Principal
from barrage_server.server.watched_file import WatchedFile

__all__ = ["CredentialFile"]

_DIGEST: Final = re.compile(r"[0-9a-fA-F]{64}")
_PLACE: Final = re.compile(r"\(at (line \d+, column \d+|end of document)\)$")
_COMMON: Final = {"name", "roles", "expires"}
_MOST_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of a file.

    Attributes:
        tokens: principals by the digest of their token.
        users: principals and the hashes of their passwords, by name.
        certificates: principals by the identity of their certificate.
        valid: all these principals.
        roles: the names of their roles.

    """

    tokens: Mapping[bytes, Principal] = field(default_factory=dict)
    users: Mapping[str, tuple[Principal, str]] = field(default_factory=dict)
    certificates: Mapping[str, Principal] = field(default_factory=dict)
    valid: frozenset[Principal] = frozenset()
    roles: frozenset[str] = frozenset()

    def user(self, name: str) -> tuple[Principal, str] | None:
        """A user and its hash; ``None`` for an unknown or expired user."""
        found = self.users.get(name)
        return None if found is None or found[0].is_expired(time.time()) else found


@public
class CredentialFile:
    """An authenticator by a TOML file, which is read again when it changes.

    Methods may be called from any thread. When a changed file cannot be read, or is wrong, the log says so, and the
    former credentials stay valid.

    Args:
        path: the file.

    Raises:
        InvalidRequestError: the file cannot be read, or an entry is wrong; the text names the entry, without secrets.
        DependencyError: the file has users, and the package that checks their passwords is not installed.

    >>> server = bs.Server(token=bs.CredentialFile("credentials.toml"), roles=roles)

    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._passwords: Passwords | None = None
        self._file = WatchedFile(path, self._read, "credentials")

    def __repr__(self) -> str:
        return f"<CredentialFile {str(self._file.path)!r}>"

    def __call__(self, credentials: Credentials) -> Principal:
        """The caller; checking a password takes long.

        Raises:
            AuthenticationError: the credentials are missing or wrong.

        """
        found = self.quick(credentials)
        if found is not None:
            return found
        user = self._file.content.user(credentials.user)
        passwords = self._passwords
        assert passwords is not None
        if not passwords.verify(credentials.user, credentials.secret, None if user is None else user[1]):
            raise AuthenticationError(REFUSED)
        assert user is not None
        return user[0]

    def quick(self, credentials: Credentials) -> Principal | None:
        """The caller; ``None`` when a password must be hashed to decide."""
        content = self._file.content
        if credentials.scheme == CERTIFICATE:
            found = content.certificates.get(credentials.secret)
        else:
            found = content.tokens.get(hashlib.sha256(credentials.secret.encode("utf-8", "replace")).digest())
            if found is None and credentials.scheme == "basic" and content.users:
                user = content.user(credentials.user)
                assert self._passwords is not None
                if user is None or not self._passwords.is_known(credentials.user, credentials.secret, user[1]):
                    return None
                found = user[0]
        if found is None:
            raise AuthenticationError(REFUSED)
        return found

    def holds(self, principal: Principal) -> bool:
        """Whether the file still has the entry of ``principal``, unchanged."""
        return principal in self._file.content.valid

    @property
    def named_roles(self) -> frozenset[str]:
        """The names of all roles in the file."""
        return self._file.content.roles

    def refresh(self, *, force: bool = False) -> None:
        """Read the file again if it has changed, or in any case with ``force``.

        Called about once a second.
        """
        self._file.refresh(force=force)

    def reread(self) -> tuple[frozenset[str], Callable[[], None]]:
        """Read the file again, without applying it.

        Returns:
            The names of the roles in it, and a function that applies its entries.

        Raises:
            InvalidRequestError: the file cannot be read, or an entry is wrong.

        """
        content, apply = self._file.reread()
        return content.roles, apply

    def _read(self, path: Path) -> _Content:
        try:
            with path.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
        except OSError as error:
            raise InvalidRequestError(f"The credentials in {str(path)!r} cannot be read: {error.strerror}.") from None
        if len(data) > _MOST_BYTES:
            raise InvalidRequestError(f"The credentials in {str(path)!r} have more than {_MOST_BYTES:,} bytes.")
        try:
            content = _parsed(tomllib.loads(data.decode()))
        except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of long integers and of deep nesting
            # the text of the error may quote a secret; what it ends with may not
            place = _PLACE.search(str(error))
            where = "" if place is None else f" {place[0]}"
            raise InvalidRequestError(f"The credentials in {str(path)!r} are not TOML{where}.") from None
        except InvalidRequestError as error:
            raise InvalidRequestError(f"The credentials in {str(path)!r}: {error}") from None
        if content.users:
            hashes = [encoded for _, encoded in content.users.values()]
            if self._passwords is None:
                self._passwords = Passwords()
            try:
                self._passwords.expect(hashes)
            except InvalidRequestError as error:
                raise InvalidRequestError(f"The credentials in {str(path)!r}: {error}") from None
        return content


def _parsed(data: Mapping[str, Any]) -> _Content:
    tokens: dict[bytes, Principal] = {}
    users: dict[str, tuple[Principal, str]] = {}
    certificates: dict[str, Principal] = {}
    for kind in data:
        if kind not in ("tokens", "users", "certificates"):
            raise InvalidRequestError(f"There is no {shown(kind)}; there are [[tokens]], [[users]], [[certificates]].")
        if not isinstance(data[kind], list) or not all(isinstance(entry, dict) for entry in data[kind]):
            raise InvalidRequestError(f"{kind} is a list of tables: [[{kind}]].")
    for number, entry in enumerate(data.get("tokens", ()), 1):
        where = f"[[tokens]] number {number}"
        _check_fields(entry, where, {"sha256", "token"})
        digest = _token_digest(entry, where)
        if digest in tokens:
            raise InvalidRequestError(f"{where} has the token of another entry.")
        tokens[digest] = _principal(entry, where, "token", digest.hex())
    for number, entry in enumerate(data.get("users", ()), 1):
        where = f"[[users]] number {number}"
        _check_fields(entry, where, {"password"})
        encoded = _string(entry, where, "password")
        if not encoded.startswith("$argon2"):
            raise InvalidRequestError(f"{where}: password is not an Argon2 hash, which begins with '$argon2id$'.")
        try:
            check_hash(encoded)
        except InvalidRequestError as error:
            raise InvalidRequestError(f"{where}: {error}") from None
        principal = _principal(entry, where, "password", hashlib.sha256(encoded.encode()).hexdigest())
        if ":" in principal.name:
            raise InvalidRequestError(
                f"{where}: name has a colon; Basic credentials end the name of a user at the first one (RFC 7617)."
            )
        if principal.name in users:
            raise InvalidRequestError(f"{where} has the name of another entry.")
        users[principal.name] = principal, encoded
    for number, entry in enumerate(data.get("certificates", ()), 1):
        where = f"[[certificates]] number {number}"
        _check_fields(entry, where, {"identity"})
        identity = _string(entry, where, "identity")
        if identity in certificates:
            raise InvalidRequestError(f"{where} has the identity of another entry.")
        certificates[identity] = _principal(entry, where, "certificate", identity)
    principals = (*tokens.values(), *(principal for principal, _ in users.values()), *certificates.values())
    roles = frozenset[str]().union(*(principal.role_names for principal in principals))
    return _Content(tokens, users, certificates, frozenset(principals), roles)


def _check_fields(entry: Mapping[str, Any], where: str, own: set[str]) -> None:
    unknown = sorted(set(entry) - own - _COMMON)
    if unknown:
        known = ", ".join(sorted(own | _COMMON))
        raise InvalidRequestError(f"{where} has the unknown field {shown(unknown[0])}; there are: {known}.")


def _token_digest(entry: Mapping[str, Any], where: str) -> bytes:
    if ("token" in entry) == ("sha256" in entry):
        raise InvalidRequestError(f"{where} needs either token or sha256.")
    if "token" in entry:
        return hashlib.sha256(_string(entry, where, "token").encode()).digest()
    digest = _string(entry, where, "sha256")
    if not _DIGEST.fullmatch(digest):
        raise InvalidRequestError(f"{where}: sha256 must be 64 hexadecimal digits.")
    return bytes.fromhex(digest)


def _principal(entry: Mapping[str, Any], where: str, kind: str, identity: str) -> Principal:
    roles = entry.get("roles", [])
    if not isinstance(roles, list) or not all(isinstance(role, str) for role in roles):
        raise InvalidRequestError(f"{where}: roles must be a list of names.")
    expires = entry.get("expires")
    if expires is not None and not (isinstance(expires, datetime) and expires.tzinfo is not None):
        raise InvalidRequestError(f"{where}: expires must be a date and time with an offset: 2027-01-01T00:00:00Z.")
    until = None if expires is None else expires.timestamp()
    return Principal(_string(entry, where, "name"), roles, until, f"{kind}:{identity}")


def _string(entry: Mapping[str, Any], where: str, name: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value.strip():
        raise InvalidRequestError(f"{where}: {name} must be a string that is not empty.")
    return value
