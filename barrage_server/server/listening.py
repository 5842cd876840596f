"""Sockets that listen on an address."""

from __future__ import annotations

import socket

from barrage_server.errors import UnavailableError

__all__ = ["cannot_listen", "listening_socket"]


def cannot_listen(host: str, port: int, setting: str) -> UnavailableError:
    """The error for an address that cannot be listened on.

    Args:
        host: the address.
        port: the TCP port.
        setting: the argument of the server that names the port, such as ``web_port``.

    """
    flag = setting.replace("_", "-")
    return UnavailableError(
        f"Cannot listen on {host}:{port}, which is {setting}; is the port in use? Choose another one with "
        f"{setting}= (--{flag} on the command line); 0 takes a free one."
    )


def listening_socket(host: str, port: int, setting: str) -> socket.socket:
    """A listening, non-blocking socket.

    Args:
        host: an address, or a name of one.
        port: 0 takes a free one.
        setting: the argument of the server that names the port, for the text of an error.

    Raises:
        UnavailableError: the address cannot be listened on.

    """
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.create_server((str(address[0]), port), family=family, backlog=1)
    except (OSError, UnicodeError) as error:
        raise cannot_listen(host, port, setting) from error
    listening.setblocking(False)
    return listening
