"""The sockets of gRPC's connections: to shut connections, and to set options.

``pyarrow.flight`` cannot cancel a call from the server, and a write to a client that does not read blocks without
limit. Shutting the TCP socket under the call makes it fail at once. Linux and macOS.
"""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import stat
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = [
    "PortScan",
    "connection_counts",
    "parse_peer",
    "peer_name",
    "probe_when_silent",
    "shut_all",
    "shut_peer",
    "tcp_sockets",
]

_FD_DIRECTORIES = (Path("/proc/self/fd"), Path("/dev/fd"))
_MOST_DESCRIPTORS = 1 << 20
_DISCARDED_BYTES = 1 << 18
Address = tuple[str, int]


def parse_peer(peer: str) -> Address | None:
    """Parse host and port of a peer; ``None`` for texts of another form.

    ``peer``: a :func:`peer_name`, or gRPC's form, ``ipv4:127.0.0.1:50000``.
    """
    family, _, rest = peer.partition(":")
    host, _, port = urllib.parse.unquote(rest if family in ("ipv4", "ipv6") else peer).rpartition(":")
    try:
        return _normal(host.strip("[]"), int(port))
    except ValueError:
        return None


def peer_name(peer: str) -> str:
    """A peer in the usual form: ``127.0.0.1:50000``, or ``[::1]:50000`` for IPv6."""
    address = parse_peer(peer)
    if address is None:
        return urllib.parse.unquote(peer)
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def shut_peer(peer: str, port: int) -> bool:
    """Shut the connection of ``peer`` to the listening ``port`` of this process.

    All streams of that connection end: a Flight client has one connection for all of its calls.

    Returns:
        Whether there was such a connection.
    """
    wanted = parse_peer(peer)
    return wanted is not None and _shut(port, lambda remote: remote == wanted) > 0


def shut_all(port: int) -> int:
    """Shut all connections accepted on ``port``; returns their number."""
    return _shut(port, lambda _: True)


class PortScan:
    """The connections accepted on some listening ports of this process.

    A known descriptor of an unchanged socket is not inspected again.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, str | None]] = {}  # by descriptor: the inode, and the peer if connected

    def peers(self, ports: Collection[int], found: Callable[[socket.socket], object] = lambda _: None) -> set[str]:
        """The connected peers, as of :func:`peer_name`; ``found`` gets each new socket."""
        seen: dict[int, tuple[int, str | None]] = {}
        for number in _descriptors():
            try:
                status = os.fstat(number)
                if not stat.S_ISSOCK(status.st_mode):
                    continue
                known = self._seen.get(number)
                if known is None or known[0] != status.st_ino or known[1] is None:
                    known = (status.st_ino, _accepted(number, ports, found))
                seen[number] = known
            except (OSError, ValueError):
                continue  # closed meanwhile, or not connected
        self._seen = seen
        return {peer for _, peer in seen.values() if peer is not None}

    def shut(self, peers: Set[str], *, discard: bool = False) -> int:
        """Shut the connections to those peers; returns their number.

        Args:
            peers: addresses with ports.
            discard: whether to throw away received bytes that were not read.
        """
        count = 0
        for number, (inode, peer) in self._seen.items():
            if peer not in peers:
                continue
            with suppress(OSError), _borrowed(number) as connection:
                if os.fstat(number).st_ino == inode:
                    connection.shutdown(socket.SHUT_RDWR)
                    count += 1
                    if discard:
                        _discard(connection)
        return count


def probe_when_silent(connection: socket.socket, seconds: float) -> None:
    """Let the operating system probe a connection, and close it if its peer vanished.

    Args:
        connection: a TCP connection.
        seconds: silence before the first probe. The connection ends after four times that without an answer.
    """
    whole = max(1, round(seconds))
    options = (("TCP_KEEPIDLE", whole), ("TCP_KEEPINTVL", whole), ("TCP_KEEPCNT", 3))
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in options:
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def connection_counts(ports: Iterable[int]) -> dict[int, int]:
    """Count the connections of this process by local port, for its listening ports."""
    counts = dict.fromkeys(ports, 0)
    for connection in tcp_sockets():
        with suppress(OSError, ValueError):  # not connected, or closed meanwhile
            port = connection.getsockname()[1]
            if port in counts and connection.getpeername():
                counts[port] += 1
    return counts


def tcp_sockets() -> Iterator[socket.socket]:
    """All open TCP sockets of this process, borrowed until the next iteration."""
    for number in _descriptors():
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with _borrowed(number) as connection:
                if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
                    yield connection
        except OSError:
            continue  # closed meanwhile


def _accepted(number: int, ports: Collection[int], found: Callable[[socket.socket], object]) -> str | None:
    """The peer of a descriptor accepted on one of the ports; None for any other."""
    with _borrowed(number) as connection:
        if connection.family not in (socket.AF_INET, socket.AF_INET6) or connection.type != socket.SOCK_STREAM:
            return None
        if connection.getsockname()[1] not in ports:
            return None
        host, port = _normal(*_pair(connection.getpeername()))
        found(connection)
        return peer_name(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")


def _shut(port: int, chosen: Callable[[Address], bool]) -> int:
    count = 0
    for connection in tcp_sockets():
        with suppress(OSError, ValueError):  # not connected, or closed meanwhile: nothing to end
            local, remote = connection.getsockname(), connection.getpeername()
            if local[1] == port and chosen(_normal(*_pair(remote))):
                connection.shutdown(socket.SHUT_RDWR)
                count += 1
    return count


def _discard(connection: socket.socket) -> None:
    """Throw away received bytes of a shut connection before its owner reads them."""
    with suppress(OSError):  # nothing is left
        while connection.recv_into(bytearray(_DISCARDED_BYTES), flags=socket.MSG_DONTWAIT):
            pass


def _descriptors() -> Iterable[int]:
    """The descriptors of this process, or the range of all possible ones.

    Listing them needs a free descriptor.
    """
    for directory in _FD_DIRECTORIES:
        try:
            return [int(entry.name) for entry in directory.iterdir() if entry.name.isdecimal()]
        except OSError:
            continue
    import resource

    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return range(_MOST_DESCRIPTORS if most == resource.RLIM_INFINITY else min(most, _MOST_DESCRIPTORS))


@contextmanager
def _borrowed(number: int) -> Iterator[socket.socket]:
    """A socket that gRPC keeps using.

    It is a duplicate, which stays valid when gRPC closes its own, as long as a descriptor is free.
    """
    try:
        duplicate = os.dup(number)
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
    else:
        with socket.socket(fileno=duplicate) as connection:
            yield connection
        return
    connection = socket.socket(fileno=number)
    try:
        yield connection
    finally:
        connection.detach()


def _pair(address: Any) -> Address:
    return str(address[0]), int(address[1])


def _normal(host: str, port: int) -> Address:
    address = ipaddress.ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), port
