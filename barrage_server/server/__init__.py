"""The Arrow Flight server, to embed in any process."""

from __future__ import annotations

from barrage_server.server.auth import Authenticator, Credentials
from barrage_server.server.durability import Fsync
from barrage_server.server.limits import Limits
from barrage_server.server.listing import ServedTables
from barrage_server.server.server import Server
from barrage_server.server.statistics import ServerStatistics, SubscriptionGauges, TableStatistics

__all__ = [
    "Authenticator",
    "Credentials",
    "Fsync",
    "Limits",
    "ServedTables",
    "Server",
    "ServerStatistics",
    "SubscriptionGauges",
    "TableStatistics",
]
