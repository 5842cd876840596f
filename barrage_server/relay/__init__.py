"""The relay: a server that follows tables of other servers and serves them."""

from __future__ import annotations

from barrage_server.relay.followed_table import FollowedTable
from barrage_server.relay.server import Server
from barrage_server.relay.state import FollowedState
from barrage_server.relay.statistics import FollowedStatistics, RelayStatistics

__all__ = ["FollowedState", "FollowedStatistics", "FollowedTable", "RelayStatistics", "Server"]
