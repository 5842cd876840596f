"""A filter of new connections by address, in the operating system. Linux only.

gRPC accepts every connection, and reads its first bytes, before the process can shut it. A classic socket filter on the
listening sockets drops the packets that would open a connection. Open connections are not affected.
"""

from __future__ import annotations

import ctypes
import errno
import ipaddress
import socket
import struct
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final

from barrage_server.flight.sockets import tcp_sockets

__all__ = ["MOST_ADDRESSES", "AddressFilter"]

MOST_ADDRESSES: Final = 400
"""Most addresses of one filter: its program has fewer than the 4,096 instructions that the system takes."""
_ATTACH_FILTER, _DETACH_FILTER = 26, 27
# <linux/filter.h>: load a byte or a word, shift, jump, return; offsets from _NETWORK count from the network's header
_LOAD_BYTE, _LOAD, _SHIFT_RIGHT, _JUMP, _JUMP_IF_EQUAL, _RETURN = 0x30, 0x20, 0x74, 0x05, 0x15, 0x06
_NETWORK: Final = 0xFFF00000
_SOURCE_4, _SOURCE_6 = _NETWORK + 12, _NETWORK + 8
_DROP, _TAKE = 0, 0xFFFFFFFF

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AddressFilter:
    """The addresses that may not connect to listening sockets of this process.

    One thread uses it at a time.
    """

    def __init__(self) -> None:
        self._refused: frozenset[str] = frozenset()

    @property
    def refused(self) -> frozenset[str]:
        """The addresses that may not connect now."""
        return self._refused

    def refuse(self, ports: Collection[int], addresses: Collection[str]) -> None:
        """Refuse connections to ``ports`` from ``addresses``, and accept all others.

        Args:
            ports: those of the listening sockets.
            addresses: addresses of IPv4, and networks of IPv6 with 64 bits; :data:`MOST_ADDRESSES` of them at most.
        """
        wanted = frozenset(addresses)
        if wanted == self._refused or sys.platform != "linux":
            return
        networks = list[Network]()
        for address in wanted:
            with suppress(ValueError):  # a peer of another kind, which gRPC names in its own way
                networks.append(ipaddress.ip_network(address))
        code = _program(networks)
        buffer = ctypes.create_string_buffer(code, len(code))
        program = struct.pack("HP", len(code) // 8, ctypes.addressof(buffer))
        is_taken = True
        for listening in _listening(ports):
            try:
                if wanted:
                    listening.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)
                else:
                    listening.setsockopt(socket.SOL_SOCKET, _DETACH_FILTER, 0)
            except OSError as error:  # closed meanwhile, or too large for the system: the next call tries again
                is_taken = is_taken and error.errno == errno.ENOENT  # there was none to detach
        if is_taken:
            self._refused = wanted


def _listening(ports: Collection[int]) -> Iterator[socket.socket]:
    for found in tcp_sockets():
        with suppress(OSError):
            if found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) and found.getsockname()[1] in ports:
                yield found


def _program(networks: Iterable[Network]) -> bytes:
    """A filter that drops packets from the networks."""
    fourth, sixth = list[bytes](), list[bytes]()
    for network in networks:
        start = int(network.network_address)
        if network.version == 4:
            fourth += [_step(_JUMP_IF_EQUAL, start, 0, 1), _step(_RETURN, _DROP)]
        else:
            sixth += [
                _step(_LOAD, _SOURCE_6),
                _step(_JUMP_IF_EQUAL, start >> 96, 0, 3),
                _step(_LOAD, _SOURCE_6 + 4),
                _step(_JUMP_IF_EQUAL, start >> 64 & 0xFFFFFFFF, 0, 1),
                _step(_RETURN, _DROP),
            ]
    steps = [
        _step(_LOAD_BYTE, _NETWORK),
        _step(_SHIFT_RIGHT, 4),  # the version
        _step(_JUMP_IF_EQUAL, 6, 0, 1),
        _step(_JUMP, len(fourth) + 2),  # to the steps for IPv6
        _step(_LOAD, _SOURCE_4),
        *fourth,
        _step(_RETURN, _TAKE),
        *sixth,
        _step(_RETURN, _TAKE),
    ]
    return b"".join(steps)


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
