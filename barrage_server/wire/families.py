"""Kinds of clients, and which column types each of them can read."""

from __future__ import annotations

from enum import Enum

__all__ = ["ClientFamily"]


class ClientFamily(Enum):
    """A kind of client, by what its readers understand.

    ``ARROW``: plain Arrow Flight clients and this project's own; they read everything a table can hold.
    ``TICKING``: Deephaven's clients on the C++ core (Python, C++, C#, Go, R); they read the fewest types.
    ``JAVA``: a Deephaven server, or its Java client.
    ``JAVASCRIPT``: Deephaven's browser and Node client.
    """

    ARROW = "arrow"
    TICKING = "ticking"
    JAVA = "java"
    JAVASCRIPT = "javascript"
