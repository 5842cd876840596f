"""The log of refused batches: a loss of rows that their publisher must mend."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final

from barrage_server.errors import PublishError
from barrage_server.publish.ledger import Identity

__all__ = ["RefusedBatches", "Warn"]

logger = logging.getLogger("barrage_server.publish")

Warn = Callable[..., object]
"""Logs a text with its arguments at the level WARNING."""
_MOST_KNOWN: Final = 1_000
"""Most publishers and tables whose refused batch is remembered as logged."""


class RefusedBatches:
    """Warns of refused batches, once until their publisher commits to the table.

    Methods may be called from any thread.

    Args:
        warn: logs a warning. Callers can cause one for each name that they choose, which it bounds.
    """

    def __init__(self, warn: Warn = logger.warning) -> None:
        self._warn = warn
        self._known: OrderedDict[tuple[str, str | None, str], None] = OrderedDict()  # publisher, epoch and table
        self._lock = threading.Lock()

    def warn(self, identity: Identity, tables: Collection[str], batch: int, error: PublishError) -> None:
        """Warn that ``batch`` is not committed into ``tables``."""
        for table in tables:
            if not self._is_new((identity.publisher, identity.epoch, table)):
                continue
            text = "batch %d of publisher %r is not committed into table %s: %s: %s"
            self._warn(text, batch, identity.publisher, table, type(error).__name__, error)

    def committed(self, identity: Identity, tables: Collection[str]) -> None:
        """Warn again when another batch of the publisher is refused in ``tables``."""
        if self._known:
            with self._lock:
                for table in tables:
                    self._known.pop((identity.publisher, identity.epoch, table), None)

    def _is_new(self, key: tuple[str, str | None, str]) -> bool:
        with self._lock:
            if key in self._known:
                return False
            self._known[key] = None
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
            return True
