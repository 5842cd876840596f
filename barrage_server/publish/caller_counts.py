"""The use of a shared resource by each caller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

__all__ = ["CallerCounts", "share_of_one"]


def share_of_one(limit: int) -> int:
    """The most that one caller may have: ``limit`` less a tenth for others."""
    return max(1, limit - limit // 10)


class CallerCounts:
    """A number for each caller; 0 takes no memory. Not thread-safe."""

    def __init__(self) -> None:
        self._numbers: Counter[Hashable] = Counter()

    def __getitem__(self, caller: Hashable) -> int:
        return self._numbers[caller]

    def __len__(self) -> int:
        return len(self._numbers)

    def add(self, caller: Hashable, number: int = 1) -> None:
        """Add ``number`` to the number of ``caller``."""
        self._numbers[caller] += number

    def remove(self, caller: Hashable, number: int = 1) -> None:
        """Subtract ``number`` from the number of ``caller``, which is at least as large."""
        self._numbers[caller] -= number
        if not self._numbers[caller]:
            del self._numbers[caller]
