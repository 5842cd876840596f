"""Passwords against their Argon2 hashes. Checking one takes tens of milliseconds and megabytes, on purpose."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from barrage_server.errors import InvalidRequestError, LimitError
from barrage_server.extras import missing_extra

__all__ = ["Passwords"]

_AT_A_TIME: Final = 2
"""Hashes computed at a time: each takes a processor and, by default, 64 MiB."""
_WAITING: Final = 64
"""Callers that may wait for their turn; further ones are refused."""
_KEPT: Final = 10_000
"""Passwords remembered as right."""
_KEPT_SECONDS: Final = 300.0
_MOST_BYTES: Final = 1 << 10


class Passwords:
    """Checks passwords, and remembers the right ones for some minutes. Methods may be called from any thread.

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
        self._key = secrets.token_bytes(32)  # digests of passwords mean nothing outside of this process
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, float] = OrderedDict()
        self._turns = threading.BoundedSemaphore(_AT_A_TIME)
        self._waiting = 0
        self._decoy = ""

    def expect(self, hashes: Sequence[str]) -> None:
        """Take these hashes as examples: a password of an unknown user takes as long as one of theirs.

        Raises:
            InvalidRequestError: one is no Argon2 hash.

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
        """Whether the password was found right lately."""
        digest = self._digest(user, password, encoded)
        with self._lock:
            until = self._known.get(digest)
            return until is not None and self._clock() < until

    def verify(self, user: str, password: str, encoded: str | None) -> bool:
        """Whether the password fits its hash; for ``None``, an unknown user, False after the same time.

        Raises:
            LimitError: too many callers wait for theirs.

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
            self._known[self._digest(user, password, encoded)] = self._clock() + _KEPT_SECONDS
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return True

    def _fits(self, password: str, encoded: str) -> bool:
        try:
            return bool(self._hasher.verify(encoded, password))
        except self._argon2.exceptions.VerificationError:
            return False

    def _digest(self, user: str, password: str, encoded: str) -> bytes:
        message = "\0".join((user, password, encoded)).encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, message, "sha256")
