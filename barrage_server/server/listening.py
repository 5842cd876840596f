"""Sockets that listen on an address."""

from __future__ import annotations

import errno
import socket

from barrage_server.errors import UnavailableError

__all__ = ["cannot_listen", "is_own_address", "listening_socket"]


def cannot_listen(host: str, port: int, setting: str) -> UnavailableError:
    """The error for an address that cannot be listened on.

    Args:
        host: the address.
        port: the TCP port.
        setting: the argument of the server that names the port, such as ``web_port``.

    """
    if not is_own_address(host):
        named = "http_host" if setting == "http_port" else "host"
        return UnavailableError(
            f"Cannot listen on {host}, which is no address of this machine. Set {named}= ({_flag(named)} on the "
            "command line) to one, such as 127.0.0.1; 0.0.0.0 is all of them."
        )
    return UnavailableError(
        f"Cannot listen on port {port} of {host}: is it in use? Choose another one with {setting}= ({_flag(setting)} "
        "on the command line); 0 takes a free one."
    )


def is_own_address(host: str) -> bool:
    """Whether ``host`` is an address of this machine, or a name of one."""
    try:
        family, address = _resolved(host, 0)
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.bind(address)
    except UnicodeError:
        return False
    except OSError as error:
        return not (isinstance(error, socket.gaierror) or error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT))
    return True


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
        family, address = _resolved(host, port)
        listening = socket.create_server(address, family=family, backlog=1)
    except (OSError, UnicodeError) as error:
        raise cannot_listen(host, port, setting) from error
    listening.setblocking(False)
    return listening


def _flag(setting: str) -> str:
    return f"--{setting.replace('_', '-')}"


def _resolved(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """The first address of ``host``, with ``port``."""
    family, _, _, _, address = socket.getaddrinfo(
        host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return family, (str(address[0]), port)
