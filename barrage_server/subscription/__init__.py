"""The messages to each subscriber, as state machines without sockets or clocks."""

from barrage_server.subscription.feed import SubscriptionLimits, TableFeed
from barrage_server.subscription.message import Dialect, EncodedMessage
from barrage_server.subscription.snapshot import snapshot_message
from barrage_server.subscription.subscription import Poll, Subscription, SubscriptionStatistics
from barrage_server.subscription.window import Window

__all__ = [
    "Dialect",
    "EncodedMessage",
    "Poll",
    "Subscription",
    "SubscriptionLimits",
    "SubscriptionStatistics",
    "TableFeed",
    "Window",
    "snapshot_message",
]
