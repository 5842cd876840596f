"""Checks of passwords against Argon2 hashes.

A check takes tens of milliseconds and megabytes, by design of the hash.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.extras import missing_extra
from barrage_server.server.recent import RecentMap

__all__ = ["Passwords", "check_hash"]

_AT_A_TIME: Final = 2
"""Most hashes computed at a time: each takes a processor and, by default, 64 MiB."""
_WAITING: Final = 64
"""Most callers that wait for a check; further ones are refused."""
_KEPT: Final = 10_000
"""Most cached results of successful checks."""
_KEPT_SECONDS: Final = 300.0
_MOST_BYTES: Final = 1 << 10
_MOST_MEMORY: Final = 1 << 21
"""Most KiB of memory that a hash may take, which is what RFC 9106 recommends first."""
_MOST_WORK: Final = 1 << 23
"""Most KiB of memory, times the passes over it, that a hash may take: some seconds."""
_MOST_LANES: Final = 256
"""Most lanes of a hash, each of which is a thread."""
_LEAST_LANE: Final = 8
"""Least KiB of memory of a lane."""
_LEAST_SALT: Final = 8
_LEAST_HASH: Final = 4
"""Least bytes of a salt and of a hash in Argon2."""
_OLD: Final = 16
"""The version of a hash that names none."""
_VERSIONS: Final = (_OLD, 19)
# The library reads hashes that Argon2 refuses: its own check of their form is to compute them.
_NUMBER: Final = "(0|[1-9][0-9]{0,9})"
_HASH: Final = re.compile(
    rf"\$argon2(?:id|i|d)(?:\$v={_NUMBER})?\$m={_NUMBER},t={_NUMBER},p={_NUMBER}\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)"
)
_NO_HASH: Final = "A password is no Argon2 hash; argon2.PasswordHasher().hash() makes one."


def check_hash(encoded: str) -> None:
    """Check that a hash is whole, and that a check against it takes a bounded effort.

    Raises:
        InvalidRequestError: it is not; the text has no part of the hash but its parameters.

    """
    found = _HASH.fullmatch(encoded)
    if found is None:
        raise InvalidRequestError(_NO_HASH)
    version, memory, passes, lanes = (_OLD if group is None else int(group) for group in found.groups()[:4])
    salt, result = (_decoded(group) for group in found.groups()[4:])
    if version not in _VERSIONS or len(salt) < _LEAST_SALT or len(result) < _LEAST_HASH:
        raise InvalidRequestError(_NO_HASH)
    if passes < 1 or lanes < 1 or memory < _LEAST_LANE * lanes:
        raise InvalidRequestError(
            f"The hash of a password has m={memory}, t={passes}, p={lanes}; Argon2 has at least t=1, p=1, and m of "
            f"{_LEAST_LANE} times p."
        )
    if memory > _MOST_MEMORY or lanes > _MOST_LANES or memory * passes > _MOST_WORK:
        raise InvalidRequestError(
            f"The hash of a password has m={memory}, t={passes}, p={lanes}; this server computes hashes of at most "
            f"m={_MOST_MEMORY} (2 GiB), p={_MOST_LANES}, and m times t of {_MOST_WORK}. Hash the password anew."
        )


def _decoded(text: str) -> bytes:
    """Base64 without padding; empty if it is damaged."""
    try:
        found = base64.b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""
    return found if base64.b64encode(found).decode().rstrip("=") == text else b""


class Passwords:
    """Checks passwords, and caches successful checks for some minutes.

    Methods may be called from any thread.

    Args:
        clock: a monotonic clock, in seconds.

    Raises:
        DependencyError: ``argon2-cffi`` is not installed.

    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        try:
            import argon2
        except ImportError as error:
            raise missing_extra("Checking passwords needs", "auth", error) from error
        self._argon2: Final = argon2
        self._hasher: Final = argon2.PasswordHasher()
        self._clock = clock
        self._key = secrets.token_bytes(32)  # so that digests of passwords are useless outside of this process
        self._lock = threading.Lock()
        self._known: RecentMap[bytes, float] = RecentMap(_KEPT)
        self._turns = threading.BoundedSemaphore(_AT_A_TIME)
        self._waiting = 0
        self._decoy = ""

    def expect(self, hashes: Sequence[str]) -> None:
        """Make the check for an unknown user as slow as the slowest of these hashes.

        Raises:
            InvalidRequestError: one of them is not an Argon2 hash, or takes more memory than there is.

        """
        found = []
        for encoded in hashes:
            check_hash(encoded)
            found.append(self._argon2.extract_parameters(encoded))
        slowest = max(found, key=lambda parameters: parameters.time_cost * parameters.memory_cost)
        try:
            self._decoy = self._argon2.PasswordHasher.from_parameters(slowest).hash(secrets.token_hex(16))
        except self._argon2.exceptions.HashingError as error:
            raise InvalidRequestError(
                f"A hash as slow as the slowest one of a password cannot be computed here: {error}."
            ) from None

    def is_known(self, user: str, password: str, encoded: str) -> bool:
        """Whether the cache has a successful check of the password."""
        digest = self._digest(user, password, encoded)
        with self._lock:
            until = self._known.get(digest)
            return until is not None and self._clock() < until

    def verify(self, user: str, password: str, encoded: str | None) -> bool:
        """Whether the password fits its hash.

        For ``None``, the hash of an unknown user: False, after the time of a check.

        Raises:
            LimitError: too many callers wait for a check.

        """
        if len(password) > _MOST_BYTES:
            return False
        if encoded is not None and self.is_known(user, password, encoded):
            return True
        with self._lock:
            if self._waiting >= _WAITING:
                raise LimitError(
                    f"{_WAITING} callers wait for this server to check their passwords, and no more may; "
                    "try again later."
                )
            self._waiting += 1
        try:
            with self._turns:
                fits = self._fits(password, self._decoy if encoded is None else encoded)
        finally:
            with self._lock:
                self._waiting -= 1
        if encoded is None or not fits:
            return False
        with self._lock:
            self._known.put(self._digest(user, password, encoded), self._clock() + _KEPT_SECONDS)
        return True

    def _fits(self, password: str, encoded: str) -> bool:
        try:
            return bool(self._hasher.verify(encoded, password))
        except self._argon2.exceptions.VerificationError:
            return False

    def _digest(self, user: str, password: str, encoded: str) -> bytes:
        message = "\0".join((user, password, encoded)).encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, message, "sha256")
