"""Bounds of calls without credentials, by address, at the ports that gRPC serves.

gRPC hands every call to the event loop, even after its caller has reset it. A caller that opens and resets calls as
fast as it can would queue thousands of them there, before the calls of others.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Set
from typing import Final

from barrage_server.errors import LimitError, UnavailableError
from barrage_server.flight.address_filter import MOST_ADDRESSES
from barrage_server.log import Throttle
from barrage_server.server.log_ins import counted_address
from barrage_server.server.recent import RecentMap
from barrage_server.server.workers import Workers

__all__ = ["StrangerCalls"]

logger = logging.getLogger("barrage_server.server")

_MOST_ADDRESSES: Final = 10_000
_MOST_ENDED: Final = 10_000
_REST: Final = 10
"""Pause after ending connections, as a multiple of the time that it took: a tenth of a core."""
_SHORTEST_REST: Final = 0.005
"""Least seconds of that pause."""
_ENDED_SECONDS: Final = 2.0
"""Seconds after the end of a connection for which its calls, which arrived before, are refused unseen."""
_ENDS: Final = Throttle(20, 1.0)


class StrangerCalls:
    """Admits calls without credentials, by a token bucket for each address.

    The connection of a call beyond the bound ends, its other calls are refused unseen, and its address may not connect
    for a while. Calls on a connection that has shown valid credentials are not counted. Methods may be called from any
    thread.

    Args:
        per_second: calls of one address a second, and as many at once; at least one.
        is_known: returns whether the connection of a peer has shown valid credentials.
        end: shuts the connections to some peers, and refuses strangers from some addresses.
        clock: a monotonic clock, in seconds.
        refused_seconds: seconds for which an address may not connect.

    Attributes:
        refused: number of calls that were not admitted, and of other calls on their connections.

    """

    def __init__(
        self,
        per_second: int,
        is_known: Callable[[str], bool],
        end: Callable[[Set[str], Set[str]], object],
        clock: Callable[[], float],
        refused_seconds: float = 60.0,
    ) -> None:
        self.refused = 0
        self._per_second = per_second
        self._is_known = is_known
        self._end = end
        self._clock = clock
        self._refused_seconds = refused_seconds
        self._lock = threading.Lock()
        self._budgets: RecentMap[str, tuple[float, float]] = RecentMap(_MOST_ADDRESSES)  # by address: calls left, time
        self._ended: RecentMap[str, float] = RecentMap(_MOST_ENDED)  # by peer: the time of the end of its connection
        self._ending: set[str] = set()  # peers whose connections have still to be shut
        self._refused: RecentMap[str, float] = RecentMap(MOST_ADDRESSES)  # by address: refused until when
        self._worker = Workers(1, "barrage-ends")
        self._may_end = threading.Event()
        self._is_closed = False

    @property
    def refusal(self) -> str:
        """The text of the error for a call that is not admitted."""
        return (
            f"There were more than {self._per_second:,} calls a second without credentials from your address "
            f"(stranger_calls_per_second). Show a token, or wait."
        )

    def has_ended(self, peer: str) -> bool:
        """Whether the connection to ``peer`` has just been ended; counts a refused call."""
        when = self._ended.get(peer)
        if when is None or self._clock() - when >= _ENDED_SECONDS:
            return False
        self.refused += 1
        return True

    def admit(self, peer: str) -> bool:
        """Count a call without credentials; False beyond the bound: its connection ends."""
        if self._is_known(peer):
            return True
        address = counted_address(peer)
        with self._lock:
            now, most = self._clock(), float(self._per_second)
            left, when = self._budgets.get(address, (most, now))
            left = min(most, left + (now - when) * most)
            is_admitted = left >= 1.0
            self._budgets.put(address, (left - 1.0 if is_admitted else left, now))
            if is_admitted or self._is_closed:
                return is_admitted
            self.refused += 1
            self._ended.put(peer, now)
            self._refused.put(address, now + self._refused_seconds)
            must_begin = not self._ending
            self._ending.add(peer)
        self._log(address)
        if must_begin:
            self._begin()
        return False

    def tidy(self) -> None:
        """Let addresses connect again after their time.

        To be called about once a second.
        """
        with self._lock:
            if not self._refused:
                return
            addresses = self._refused_addresses()
        self._end(frozenset(), addresses)

    def close(self) -> None:
        """End no more connections."""
        self._is_closed = True
        self._may_end.set()
        self._worker.shutdown()

    def _begin(self) -> None:
        try:
            self._worker.submit(self._end_all)
        except (LimitError, UnavailableError):  # no thread: the next call on such a connection tries again
            with self._lock:
                self._ending.clear()

    def _end_all(self) -> None:
        """Shut connections until none is left to shut, with a pause after each scan."""
        while not self._is_closed:
            began = time.perf_counter()
            with self._lock:
                peers, addresses = set(self._ending), self._refused_addresses()
            try:
                self._end(peers, addresses)
            except Exception:  # a further call on one of these connections tries again
                logger.exception("connections without credentials could not be ended")
            with self._lock:
                self._ending -= peers
                if not self._ending:
                    return
            self._may_end.wait(max(_SHORTEST_REST, _REST * (time.perf_counter() - began)))

    def _refused_addresses(self) -> Set[str]:
        """The addresses that may not connect now. To be called with the lock."""
        now = self._clock()
        while self._refused and next(iter(self._refused.values())) <= now:
            self._refused.popitem(last=False)
        return set(self._refused)

    def _log(self, address: str) -> None:
        text = "a connection of %s ends: there were more than %d calls a second without credentials from there"
        _ENDS.log(logger, logging.WARNING, text, address, self._per_second)
