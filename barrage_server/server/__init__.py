"""The Arrow Flight server, to embed in any process."""

from __future__ import annotations

from barrage_server.server.access import Right, Role
from barrage_server.server.authentication import Authenticator, Credentials
from barrage_server.server.credential_file import CredentialFile
from barrage_server.server.front import Front
from barrage_server.server.fsync import Fsync
from barrage_server.server.limits import Limits
from barrage_server.server.listing import ServedTables
from barrage_server.server.principal import Principal
from barrage_server.server.server import Server
from barrage_server.server.statistics import (
    ResultStatistics,
    ServerStatistics,
    StreamGauges,
    SubscriptionGauges,
    TableStatistics,
)
from barrage_server.server.token_file import TokenFile
from barrage_server.server.web_tokens import WebTokens

__all__ = [
    "Authenticator",
    "CredentialFile",
    "Credentials",
    "Front",
    "Fsync",
    "Limits",
    "Principal",
    "ResultStatistics",
    "Right",
    "Role",
    "ServedTables",
    "Server",
    "ServerStatistics",
    "StreamGauges",
    "SubscriptionGauges",
    "TableStatistics",
    "TokenFile",
    "WebTokens",
]
