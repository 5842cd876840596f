"""Tables with subscribers: their shared feeds, and the wake-up on changes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakKeyDictionary

from barrage_server.engine import Table
from barrage_server.engine.restricted import source_of
from barrage_server.server.dispatcher import ChangeSignal, Dispatcher
from barrage_server.subscription import SubscriptionLimits, TableFeed
from barrage_server.wire.families import ClientFamily

__all__ = ["FeedEntry", "TableFeeds"]

logger = logging.getLogger("barrage_server.server")


_Key: TypeAlias = tuple[Table, ClientFamily, tuple[int, ...] | None]


@dataclass(slots=True)
class FeedEntry:
    """The feed of one table, and the number of streams that follow it."""

    feed: TableFeed
    key: _Key
    signal: ChangeSignal
    count: int = 0
    stop: Callable[[], None] = lambda: None

    @property
    def table(self) -> Table:
        """The table."""
        return self.feed.table


class TableFeeds:
    """The tables with subscribers. Only these have a listener."""

    def __init__(self, dispatcher: Dispatcher, limits: SubscriptionLimits) -> None:
        self._dispatcher = dispatcher
        self._limits = limits
        self._lock = threading.Lock()
        self._tables: dict[_Key, FeedEntry] = {}
        self._warned: WeakKeyDictionary[Table, set[ClientFamily]] = WeakKeyDictionary()

    def feed(
        self, table: Table, family: ClientFamily = ClientFamily.ARROW, columns: tuple[int, ...] | None = None
    ) -> TableFeed:
        """The feed of ``table`` for one answer: that of its subscribers, or a new one."""
        with self._lock:
            entry = self._tables.get((table, family, columns))
        return entry.feed if entry is not None else self._new_feed(table, family, columns)

    def join(
        self, table: Table, family: ClientFamily = ClientFamily.ARROW, columns: tuple[int, ...] | None = None
    ) -> FeedEntry:
        """Subscribe to ``table`` until :meth:`leave`.

        Args:
            table: the table.
            family: the family of the client.
            columns: numbers of the columns that exist for the subscriber; ``None``: all.

        Raises:
            InternalError: the table failed in a cycle, and does not change any more.

        """
        table.check_usable()
        key = (table, family, columns)
        feed = self.feed(*key)  # outside of the lock, because making one takes long
        with self._lock:
            entry = self._tables.get(key)
            if entry is None:
                signal = ChangeSignal()
                entry = FeedEntry(feed, key, signal)
                entry.stop = table.add_listener(lambda *_: self._dispatcher.changed(signal))
                self._tables[key] = entry
            entry.count += 1
            return entry

    def leave(self, entry: FeedEntry) -> None:
        """End one subscription; the last one removes the listener and the feed."""
        with self._lock:
            entry.count -= 1
            if not entry.count:
                entry.stop()
                del self._tables[entry.key]

    def tidy(self, now: float) -> None:
        """Free memory that feeds do not need any more.

        To be called about once a second.
        """
        with self._lock:
            feeds = [entry.feed for entry in self._tables.values()]
        for feed in feeds:
            feed.tidy(now)

    def count(self, table: Table) -> int:
        """Number of streams that follow ``table``, or a part of it."""
        with self._lock:
            return sum(entry.count for (followed, _, _), entry in self._tables.items() if source_of(followed) is table)

    def _new_feed(self, table: Table, family: ClientFamily, columns: tuple[int, ...] | None) -> TableFeed:
        """A new feed; logs its unconvertible columns once for each table and family."""
        feed = TableFeed(table, self._limits, family, columns)
        if not feed.view.left_out:
            return feed
        with self._lock:
            warned = self._warned.setdefault(table, set())
            is_first = family not in warned
            warned.add(family)
        if is_first:
            types = dict(zip(table.schema.names, table.schema.types, strict=True))
            told = ", ".join(f"{name} ({types[name]})" for name in feed.view.left_out)
            logger.warning(
                "%s clients get %s without the columns that they have no type for: %s",
                family.name,
                table.name,
                told,
            )
        return feed
