"""The positions of a live table's consumers in its stream of updates."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from barrage_server.client.cursor import Cursor
from barrage_server.client.update import Update

__all__ = ["Positions"]

logger = logging.getLogger("barrage_server.client")


class Positions:
    """One cursor for each iterator over the updates, and one for the next iterator.

    An iterator takes over the cursor of the iterator that ended last, so that successive loops miss nothing; beside a
    running iterator, a new one begins with the next update. All methods may be called from any thread, and none blocks.

    Args:
        collects: whether updates are kept for the first iterator before it begins.
    """

    def __init__(self, *, collects: bool) -> None:
        # Reentrant: iterators return their cursors when they are freed, which may happen inside any of these methods.
        self._lock = threading.RLock()
        self._resting: Cursor | None = Cursor() if collects else None
        self._taken: tuple[Cursor, ...] = ()
        self._watchers: tuple[Callable[[], None], ...] = ()

    def begin(self) -> Cursor:
        """Return the cursor of a new iterator."""
        with self._lock:
            cursor, self._resting = self._resting or Cursor(), None
            cursor.started = True
            self._taken = (*self._taken, cursor)
            return cursor

    def end(self, cursor: Cursor) -> None:
        """End an iterator: the next one continues from its position."""
        with self._lock:
            if any(entry is cursor for entry in self._taken):
                self._taken = tuple(entry for entry in self._taken if entry is not cursor)
                self._resting = cursor

    def offer(self, update: Update) -> None:
        """Add the update that follows the last one offered."""
        with self._lock:
            for cursor in (*self._taken, *(() if self._resting is None else (self._resting,))):
                cursor.offer(update)

    def take(self, cursor: Cursor) -> Update | None:
        """Take the changes since the last take from ``cursor``, as one update or None."""
        with self._lock:
            return cursor.take()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call ``watcher()``, on any thread, at new updates and at the end of the stream."""
        with self._lock:
            self._watchers = (*self._watchers, watcher)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """End :meth:`watch`."""
        with self._lock:
            self._watchers = tuple(entry for entry in self._watchers if entry is not watcher)

    def wake(self) -> None:
        """Call the watchers."""
        for watcher in self._watchers:
            try:
                watcher()
            except Exception:  # a closed event loop, whose waiter is gone: the others must still be woken
                logger.debug("a waiter for updates is gone", exc_info=True)
                self.unwatch(watcher)
