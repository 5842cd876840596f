"""A consumer's position in the stream of updates."""

from __future__ import annotations

from typing import Final

from barrage_server.client.update import Update

__all__ = ["Cursor"]

_FOLD_AT: Final = 16
_ALWAYS_KEPT: Final = 1 << 16


class Cursor:
    """Collects updates until they are taken, coalesced to one. The caller locks.

    A slow consumer gets fewer and larger updates. Its memory is bounded: when the values changed since its last update
    outweigh the table, they are copied from the history, which can then be freed. A cursor that has not started drops
    the updates instead, and begins with the next one.
    """

    def __init__(self) -> None:
        self._waiting: list[Update] = []
        self._weight = 0
        self.started = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def offer(self, update: Update) -> None:
        """Add the update that follows the last one offered."""
        self._waiting.append(update)
        change = update.change
        self._weight += change.removed.size * len(change.modified) + sum(rows.size for rows in change.modified)
        before = self._waiting[0].before
        if self._weight > max(_ALWAYS_KEPT, before.size * len(before.schema)):
            self._lighten()
        elif len(self._waiting) >= _FOLD_AT:
            self._fold()

    def take(self) -> Update | None:
        """Return all changes since the last call as one update; None for no changes."""
        if not self._waiting:
            return None
        self._fold()
        self._weight = 0
        return self._waiting.pop()

    def _fold(self) -> None:
        total = self._waiting[0]
        for update in self._waiting[1:]:
            total = total.then(update)
        self._waiting = [total]

    def _lighten(self) -> None:
        self._weight = 0
        if not self.started:
            self._waiting.clear()
            return
        self._fold()
        self._waiting[0].before.compact()
