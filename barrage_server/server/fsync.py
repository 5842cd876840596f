"""When changes of durable tables reach the disk."""

from __future__ import annotations

from enum import StrEnum

from barrage_server.public import public

__all__ = ["Fsync"]


@public
class Fsync(StrEnum):
    """When changes of durable tables reach the disk."""

    ALWAYS = "always"
    """Before publishers get their answer."""
    INTERVAL = "interval"
    """At most ten milliseconds later. A crash of the process loses nothing; a loss of power loses that time."""
    OS = "os"
    """When the operating system writes them."""
