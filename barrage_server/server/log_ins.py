"""Bounds of failed log-ins, by address."""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from barrage_server.errors import AuthenticationError, LimitError
from barrage_server.flight.sockets import parse_peer
from barrage_server.server.authentication import Credentials
from barrage_server.server.recent import RecentMap

__all__ = ["LogIns", "counted_address"]

_WINDOW: Final = 60.0
"""Seconds over which failures are counted."""
_MOST_ADDRESSES: Final = 10_000
_MOST_ACCEPTED: Final = 10_000
_IPV6_PREFIX: Final = 64
"""Bits of an IPv6 address that count: one client may have all addresses of that network."""


class LogIns:
    """Bounds the checks of credentials from an address that shows wrong ones.

    After ``most`` failures of an address in a minute, its credentials are refused without a check, except those that
    were accepted before: a client that guesses does not lock out others behind its address. Methods may be called from
    any thread.

    Args:
        most: failures of one address a minute.
        clock: a monotonic clock, in seconds.

    """

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: RecentMap[str, tuple[float, float]] = RecentMap(_MOST_ADDRESSES)  # by address: number, time
        self._accepted: RecentMap[bytes, None] = RecentMap(_MOST_ACCEPTED)
        self._pending: set[bytes] = set()  # digests of credentials that are being checked
        self._key = secrets.token_bytes(32)

    @contextmanager
    def attempt(self, credentials: Credentials, peer: str) -> Iterator[None]:
        """Count the check of a caller's credentials, which the ``with`` body makes.

        Raises:
            LimitError: the address has shown too many wrong credentials; the body is not run.

        """
        address, digest = counted_address(peer), self._digest(credentials)
        with self._lock:
            is_new = digest not in self._accepted and digest not in self._pending
            if is_new:
                if self._failed(address) > self._most - 1:
                    raise LimitError(
                        f"There were {self._most} log-ins with wrong credentials from {address} within a minute "
                        f"(failed_log_ins); wait, then try again."
                    )
                self._pending.add(digest)
                self._count(address, 1)  # a failure until it succeeds: many may be checked at a time
        try:
            yield
        except BaseException as error:
            with self._lock:
                self._pending.discard(digest)
                is_wrong = isinstance(error, AuthenticationError)
                if is_wrong != is_new:
                    self._count(address, 1 if is_wrong else -1)
            raise
        with self._lock:
            self._pending.discard(digest)
            if is_new:
                self._count(address, -1)
            self._accepted.put(digest, None)

    def _count(self, address: str, change: int) -> None:
        self._failures.put(address, (max(0.0, self._failed(address) + change), self._clock()))

    def _failed(self, address: str) -> float:
        """Failures that count now: earlier ones fade evenly, ``most`` of them a minute."""
        number, since = self._failures.get(address, (0.0, 0.0))
        return max(0.0, number - (self._clock() - since) * self._most / _WINDOW)

    def _digest(self, credentials: Credentials) -> bytes:
        text = "\0".join((credentials.scheme, credentials.user, credentials.secret))
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._key, digest_size=16).digest()


def counted_address(peer: str) -> str:
    """The unit in which addresses count: an IPv4 address, or an IPv6 network."""
    parsed = parse_peer(peer)
    if parsed is None:
        return peer
    address = ipaddress.ip_address(parsed[0])
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
