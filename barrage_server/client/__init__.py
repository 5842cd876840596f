"""The client: follow tables of a server, read them, publish them."""

from barrage_server.client.client import Client, connect
from barrage_server.client.info import TableInfo
from barrage_server.client.live import KEEP, LiveTable
from barrage_server.client.publication import Publication
from barrage_server.client.retry import RetryPolicy
from barrage_server.client.state import LiveState
from barrage_server.client.update import Update
from barrage_server.subscription import Dialect

__all__ = [
    "KEEP",
    "Client",
    "Dialect",
    "LiveState",
    "LiveTable",
    "Publication",
    "RetryPolicy",
    "TableInfo",
    "Update",
    "connect",
]
