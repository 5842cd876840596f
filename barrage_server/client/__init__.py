"""The client: follow tables of a server, read them, publish them."""

from barrage_server.client.client import Client
from barrage_server.client.connecting import connect
from barrage_server.client.info import TableInfo, TableList
from barrage_server.client.iteration import AsyncUpdates, Updates
from barrage_server.client.live import LiveTable
from barrage_server.client.publication import Publication
from barrage_server.client.remote_table import RemoteTable
from barrage_server.client.state import LiveState
from barrage_server.client.update import Update
from barrage_server.client.upload import PublishResult
from barrage_server.client.view_change import KEEP, Keep
from barrage_server.flight.retry import RetryPolicy
from barrage_server.subscription import Dialect

__all__ = [
    "KEEP",
    "AsyncUpdates",
    "Client",
    "Dialect",
    "Keep",
    "LiveState",
    "LiveTable",
    "Publication",
    "PublishResult",
    "RemoteTable",
    "RetryPolicy",
    "TableInfo",
    "TableList",
    "Update",
    "Updates",
    "connect",
]
