"""What an ordered set of row keys is held in: the interface of all forms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from barrage_server.rowset._ranges import Keys, Mask, RangeList
from barrage_server.rowset._segments import Segments

SCATTERED: Final = 2
"""Keys per range up to which listing the keys costs less than their ranges."""
OBJECT_BYTES: Final = 200
"""Of a row set with its storage, and of an array besides its values."""


class KeyStorage(ABC):
    """Immutable row keys: the interface of all forms.

    Arguments are checked by the caller: positions are within 0..size-1, bounds within first..last, and there is at
    least one key unless a method says otherwise. Derived arrays are made on demand and kept. Two threads may derive
    the same value at the same time, which does no harm.

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
    def is_scattered(self) -> bool:
        """Whether most ranges have one key, so that listing the keys costs less than their ranges."""
        return self.size <= SCATTERED * self.range_count()

    def range_count(self) -> int:
        """The number of ranges, none of which touches another."""
        return self.ranges()[0].size

    @abstractmethod
    def ranges(self) -> RangeList:
        """The inclusive ranges, as read-only arrays."""

    @abstractmethod
    def keys(self) -> Keys:
        """All keys, as a read-only array. RowSetError when they are too many."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory, about, without derived arrays."""
        return OBJECT_BYTES

    def packed(self) -> KeyStorage:
        """The same keys without derived arrays, and not as a small part of a large array."""
        return self

    def segments(self) -> Segments | None:
        """The keys as segments, when that is how they are held in set operations."""
        return None

    def head(self) -> RangeList:
        """The first ranges: at least eight, or all."""
        starts, ends = self.ranges()
        return starts[:8], ends[:8]

    @abstractmethod
    def at(self, position: int) -> int:
        """The key at a position."""

    @abstractmethod
    def select(self, positions: Keys) -> Keys:
        """The key at each position; there is at least one."""

    @abstractmethod
    def rank(self, keys: Keys) -> Keys:
        """For each key, how many keys lie strictly below it."""

    @abstractmethod
    def find(self, keys: Keys) -> Keys:
        """The position of each key, -1 for a missing one."""

    @abstractmethod
    def holds(self, key: int) -> bool:
        """Whether a key within first..last is there."""

    def contains(self, keys: Keys) -> Mask:
        """Whether each key is there."""
        return self.find(keys) >= 0

    @abstractmethod
    def restrict(self, first: int, last: int) -> KeyStorage:
        """The keys within first..last."""

    @abstractmethod
    def slice(self, start: int, stop: int) -> KeyStorage:
        """The keys at positions start..stop-1, which are at least one."""

    @abstractmethod
    def shift(self, delta: int) -> KeyStorage:
        """Every key plus ``delta``."""

    @abstractmethod
    def blocks(self, bits: int) -> KeyStorage:
        """The numbers of the blocks of ``2**bits`` keys in which there is a key."""

    @abstractmethod
    def subset(self, positions: KeyStorage) -> KeyStorage:
        """The keys at positions, which are not contiguous."""

    @abstractmethod
    def invert(self, keys: KeyStorage) -> KeyStorage | None:
        """The positions of keys in these; None when a key is missing."""
