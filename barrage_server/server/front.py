"""The implementation that serves the port for Arrow Flight."""

from __future__ import annotations

import importlib.util
import ipaddress
import logging
from enum import StrEnum
from typing import Final

from barrage_server.public import public

__all__ = ["Front", "is_loopback"]

logger = logging.getLogger("barrage_server.server")

_PACKAGES: Final = ("grpc", "grpc_health", "grpc_reflection", "google.protobuf")


@public
class Front(StrEnum):
    """The implementation that serves the port for Arrow Flight, with one contract.

    ``PYARROW``: ``pyarrow.flight``, with a thread for each call; it does not bound what callers without credentials
    send. ``GRPC``: gRPC on one event loop, with the bounds of :class:`~barrage_server.server.limits.Limits`; needs the
    extra ``deephaven``. ``AUTO``: ``GRPC`` on addresses beyond this machine, if it is installed, else ``PYARROW``.
    """

    AUTO = "auto"
    PYARROW = "pyarrow"
    GRPC = "grpc"

    def on(self, host: str) -> Front:
        """The front for an address: ``PYARROW`` or ``GRPC``."""
        if self is not Front.AUTO:
            return self
        if is_loopback(host):
            return Front.PYARROW
        if all(_is_there(name) for name in _PACKAGES):
            return Front.GRPC
        logger.warning(
            "pyarrow serves %s, and does not bound what callers without credentials send: the packages of the extra "
            "deephaven are not installed",
            host,
        )
        return Front.PYARROW


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:
        return False
