"""Bounds of the connections whose sockets gRPC or Flight owns.

Bounded are the number of connections, and the time until a call on one shows valid credentials; until then its peer is
a stranger. gRPC neither counts the connections of an address nor ends connections that never make a call. So the
sockets are listed about once a second, and shut beyond a bound.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Set
from typing import Final, Protocol

from barrage_server.flight.address_filter import AddressFilter
from barrage_server.flight.sockets import PortScan, parse_peer, probe_when_silent
from barrage_server.log import Throttle
from barrage_server.server.limits import Limits
from barrage_server.server.log_ins import counted_address

__all__ = ["Connections", "Scan"]

logger = logging.getLogger("barrage_server.server")

_SHARE: Final = 50
"""Pause between two scans, as a multiple of a scan's time: two percent of a core for any number of sockets."""
_ENDS: Final = Throttle(20, 1.0)


class Scan(Protocol):
    """Lists and shuts sockets, as :class:`~barrage_server.flight.sockets.PortScan`."""

    def peers(self, ports: Collection[int], found: Callable[[socket.socket], object]) -> set[str]:
        """The connected peers."""

    def shut(self, peers: Set[str], *, discard: bool = False) -> int:
        """Shut the connections to these peers; return their number.

        ``discard``: whether to discard bytes that were received and not read.
        """


class Connections:
    """The connections to some ports. Methods may be called from any thread.

    Args:
        limits: the limits of the server.
        ports: returns the ports.
        scan: lists and shuts the sockets.
        timer: seconds, for the time that a scan takes.

    """

    def __init__(
        self,
        limits: Limits,
        ports: Callable[[], Collection[int]],
        scan: Scan | None = None,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._limits = limits
        self._ports = ports
        self._scan = PortScan() if scan is None else scan
        self._timer = timer
        self._lock = threading.Lock()
        self._filter = AddressFilter()
        self._scanning = threading.Lock()  # the watchdog's thread scans, and the thread that closes the server shuts
        self._known: set[str] = set()
        self._since: dict[str, float] = {}
        self._not_before = 0.0

    def __len__(self) -> int:
        return len(self._since)

    def let_in(self, peer: str) -> None:
        """Note that a call of ``peer`` has shown valid credentials."""
        if peer not in self._known:
            with self._lock:
                self._known.add(peer)

    def is_known(self, peer: str) -> bool:
        """Whether a call of ``peer`` has shown valid credentials."""
        return peer in self._known

    def tidy(self, now: float) -> None:
        """Scan the connections, and shut those beyond a bound.

        To be called about once a second, with the time.
        """
        if now < self._not_before:
            return
        begun = self._timer()
        with self._lock:
            before = set(self._known)
        with self._scanning:
            connected = self._scan.peers(self._ports(), self._prepare)
        self._since = {peer: self._since.get(peer, now) for peer in connected}
        with self._lock:
            self._known -= before - connected  # keeps peers that were let in meanwhile
            strangers = connected - self._known
        overdue = {peer for peer in strangers if now - self._since[peer] >= self._limits.credential_seconds}
        ends = overdue | self._beyond(connected, strangers)
        if ends:
            with self._scanning:
                count = self._scan.shut(ends)
            if count:
                text = "%d connections were shut: too many, or without credentials for too long"
                _ENDS.log(logger, logging.WARNING, text, count)
        self._not_before = now + _SHARE * (self._timer() - begun)

    def shut(self, peer: str) -> bool:
        """Shut the connection to a peer; return whether the last scan has seen it."""
        with self._scanning:
            return self._scan.shut({peer}) > 0

    def end(self, peers: Set[str], addresses: Set[str]) -> None:
        """Shut the connections to some peers, and refuse strangers from some addresses.

        Unread bytes of these connections are discarded. An address is not refused while one of its connections has
        shown credentials, as a proxy's has.

        Args:
            peers: the peers whose connections are shut.
            addresses: the addresses whose strangers are shut and refused, until a later call does not name them.

        """
        with self._lock:
            known = set(self._known)
        refused = addresses - {counted_address(peer) for peer in known} if addresses else addresses
        with self._scanning:
            self._filter.refuse(self._ports(), refused)  # first: a client that is shut may connect again at once
            connected = self._scan.peers(self._ports(), self._prepare)
            strangers = {peer for peer in connected - known if counted_address(peer) in refused} if refused else set()
            self._scan.shut(peers | strangers, discard=True)

    def shut_strangers(self, seconds: float, now: float) -> None:
        """Shut strangers whose connections are ``seconds`` old at ``now``."""
        with self._lock:
            strangers = self._since.keys() - self._known
        ends = {peer for peer in strangers if now - self._since[peer] >= seconds}
        with self._scanning:
            self._scan.shut(ends)

    def _prepare(self, connection: socket.socket) -> None:
        probe_when_silent(connection, self._limits.keepalive_seconds)

    def _beyond(self, connected: Set[str], strangers: Set[str]) -> set[str]:
        """The connections beyond the bounds: strangers first, then the newest first."""
        limits = self._limits
        ends: set[str] = set()
        if len(connected) > min(limits.connections, limits.connections_per_address):
            by_address: dict[str, list[str]] = defaultdict(list)
            for peer in sorted(connected, key=lambda peer: (peer in strangers, self._since[peer])):
                by_address[_address(peer)].append(peer)
            for peers in by_address.values():
                ends.update(peers[limits.connections_per_address :])
            rest = sorted(connected - ends, key=lambda peer: (peer in strangers, self._since[peer]))
            ends.update(rest[limits.connections :])
        return ends


def _address(peer: str) -> str:
    parsed = parse_peer(peer)
    return peer if parsed is None else parsed[0]
