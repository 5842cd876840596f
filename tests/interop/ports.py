"""Ports of servers of which sessions are counted."""

from __future__ import annotations

import random
import socket
from typing import Final

__all__ = ["unused_port"]

_BELOW_EPHEMERAL: Final = range(20_000, 32_000)
"""Ports that the operating system does not hand out by itself."""
_PORTS: Final = iter(random.sample(_BELOW_EPHEMERAL, len(_BELOW_EPHEMERAL)))


def unused_port() -> int:
    """A free port that no server of this process has had before.

    Peers keep connecting to servers that have closed, to resolve a URI or to keep a session alive. A new server that
    got such a port by chance would have their sessions.
    """
    for port in _PORTS:
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:  # in use
            continue
        return port
    raise AssertionError("no port is free")
