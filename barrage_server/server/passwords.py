"""Checks of passwords against Argon2 hashes.

A check takes tens of milliseconds and megabytes, by design of the hash.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.extras import missing_extra
from barrage_server.server.recent import RecentMap

__all__ = ["Passwords"]

_AT_A_TIME: Final = 2
"""Most hashes computed at a time: each takes a processor and, by default, 64 MiB."""
_WAITING: Final = 64
"""Most callers that wait for a check; further ones are refused."""
_KEPT: Final = 10_000
"""Most cached results of successful checks."""
_KEPT_SECONDS: Final = 300.0
_MOST_BYTES: Final = 1 << 10


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
            InvalidRequestError: one of them is not an Argon2 hash.

        """
        found = []
        for encoded in hashes:
            try:
                found.append(self._argon2.extract_parameters(encoded))
            except self._argon2.exceptions.InvalidHashError:
                raise InvalidRequestError(
                    "A password is no Argon2 hash; argon2.PasswordHasher().hash() makes one."
                ) from None
        slowest = max(found, key=lambda parameters: parameters.time_cost * parameters.memory_cost)
        self._decoy = self._argon2.PasswordHasher.from_parameters(slowest).hash(secrets.token_hex(16))

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
