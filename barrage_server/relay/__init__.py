"""Tables of other servers, followed and served here.

:mod:`~barrage_server.relay.followed_table` and :mod:`~barrage_server.relay.source` load the client, which most servers
never need: they are imported where a table is followed.
"""

from __future__ import annotations

from barrage_server.relay.follows import Follows
from barrage_server.relay.state import FollowedState
from barrage_server.relay.statistics import FollowedStatistics

__all__ = ["FollowedState", "FollowedStatistics", "Follows"]
