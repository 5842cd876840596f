"""Tables of other servers, followed and served here."""

from __future__ import annotations

from barrage_server.relay.followed_table import FollowedTable
from barrage_server.relay.follows import Follows
from barrage_server.relay.state import FollowedState
from barrage_server.relay.statistics import FollowedStatistics

__all__ = ["FollowedState", "FollowedStatistics", "FollowedTable", "Follows"]
