"""Messages to the service manager of this process (systemd's ``Type=notify``)."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from typing import Final

__all__ = ["READY", "STOPPING", "notify"]

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"


def notify(state: str) -> bool:
    """Tell the service manager the state of this process.

    Its socket is in the environment variable ``NOTIFY_SOCKET``: a path, or a name that begins with ``@``. A service
    manager that does not read must not stop the program, so the call never waits or raises.

    Returns:
        Whether there is a service manager that was told.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.setblocking(False)
        manager.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
        return True
    return False
