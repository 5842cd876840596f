"""The interface of all storages of an ordered set of row keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from barrage_server.rowset._ranges import Keys, Mask, RangeList
from barrage_server.rowset._segments import Segments

SCATTERED: Final = 2
"""The most keys per range for which a list of keys costs less than ranges."""
OBJECT_BYTES: Final = 200
"""Bytes of a row set with its storage, and of an array besides its values."""


class KeyStorage(ABC):
    """Immutable row keys.

    The caller checks arguments: positions are within 0..size-1, bounds within first..last, and there is at least one
    key unless a method says otherwise. Derived arrays are made on demand and kept. Two threads may derive the same
    value at the same time, which does no harm.

    Attributes:
        first, last: the smallest and the largest key; 0 and -1 without keys.
        size: the number of keys.

    """

    __slots__ = ("first", "last", "size")

    first: int
    last: int
    size: int

    @property
    def is_contiguous(self) -> bool:
        """Whether the keys are one range, or none."""
        return self.last - self.first + 1 == self.size

    @property
    def is_segmented(self) -> bool:
        """Whether set operations should use segments."""
        return self.segments() is not None

    @property
    def is_scattered(self) -> bool:
        """Whether most ranges have one key, so that a list of keys costs less."""
        return self.size <= SCATTERED * self.range_count()

    def range_count(self) -> int:
        """Return the number of ranges, none of which touches another."""
        return self.ranges()[0].size

    @abstractmethod
    def ranges(self) -> RangeList:
        """Return the inclusive ranges, as read-only arrays."""

    @abstractmethod
    def keys(self) -> Keys:
        """Return all keys, as a read-only array; RowSetError when they are too many."""

    @property
    def nbytes(self) -> int:
        """Estimated bytes of memory, without derived arrays."""
        return OBJECT_BYTES

    def packed(self) -> KeyStorage:
        """Return the same keys without derived arrays, and not as a view."""
        return self

    def segments(self) -> Segments | None:
        """Return the keys as segments, if set operations should use segments."""
        return None

    def head(self) -> RangeList:
        """Return the first ranges: at least eight, or all."""
        starts, ends = self.ranges()
        return starts[:8], ends[:8]

    @abstractmethod
    def at(self, position: int) -> int:
        """Return the key at a position."""

    @abstractmethod
    def select(self, positions: Keys) -> Keys:
        """Return the key at each of one or more positions."""

    @abstractmethod
    def rank(self, keys: Keys) -> Keys:
        """Return for each key how many keys are strictly below it."""

    @abstractmethod
    def find(self, keys: Keys) -> Keys:
        """Return the position of each key; -1 for a missing one."""

    @abstractmethod
    def holds(self, key: int) -> bool:
        """Whether a key within first..last is in the set."""

    def contains(self, keys: Keys) -> Mask:
        """Return for each key whether it is in the set."""
        return self.find(keys) >= 0

    @abstractmethod
    def restrict(self, first: int, last: int) -> KeyStorage:
        """Return the keys within first..last."""

    @abstractmethod
    def slice(self, start: int, stop: int) -> KeyStorage:
        """Return the keys at one or more positions start..stop-1."""

    @abstractmethod
    def shift(self, delta: int) -> KeyStorage:
        """Return each key plus ``delta``."""

    @abstractmethod
    def blocks(self, bits: int) -> KeyStorage:
        """Return the numbers of the blocks of ``2**bits`` keys that have a key."""

    @abstractmethod
    def subset(self, positions: KeyStorage) -> KeyStorage:
        """Return the keys at positions, which are not contiguous."""

    @abstractmethod
    def invert(self, keys: KeyStorage) -> KeyStorage | None:
        """Return the positions of ``keys``; None when a key is missing."""
