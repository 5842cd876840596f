"""Sockets that listen on an address."""

from __future__ import annotations

import socket

from barrage_server.errors import UnavailableError

__all__ = ["listening_socket"]


def listening_socket(host: str, port: int, what: str) -> socket.socket:
    """A listening, non-blocking socket.

    Args:
        host: an address, or a name of one.
        port: 0 takes a free one.
        what: the purpose that errors name.

    Raises:
        UnavailableError: the address cannot be listened on.

    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.create_server((str(address[0]), port), family=family, backlog=1)
    except (OSError, UnicodeError) as error:
        raise UnavailableError(f"Cannot listen on {host}:{port} for {what}; is the port in use?") from error
    listening.setblocking(False)
    return listening
