"""A mapping of bounded size, for what callers make the server remember."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

__all__ = ["RecentMap"]

Key = TypeVar("Key")
Value = TypeVar("Value")


class RecentMap(OrderedDict[Key, Value], Generic[Key, Value]):
    """A mapping that keeps the entries put last, in that order.

    Args:
        most: most entries.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def put(self, key: Key, value: Value) -> None:
        """Set an entry, as the latest one; beyond the bound the oldest is dropped."""
        self[key] = value
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)
