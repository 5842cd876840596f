"""A map from dense integer keys to row keys: an array over a range of keys.

It takes four bytes per key, computes no hash, and answers exactly. The range grows only over keys that leave at most
half of it empty; other keys are not covered.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from barrage_server.engine.memory import GrowingArray
from barrage_server.engine.plan import Int64Array

__all__ = ["DirectRows"]

# End of the row keys that fit four bytes; 0 means no row.
_ROW_LIMIT = (1 << 32) - 1
# Places per key: most when the range grows, and number at which it begins to shrink.
_GROWING, _SPARSE = 2, 6
_SMALL = 1 << 12
_SLACK = 16  # the array is made larger by this part of it, in memory that is not touched before it is used


class DirectRows:
    """The row keys of the integer keys from ``first`` to before ``end``.

    Attributes:
        first: the first key of the range.
        end: one more than the last key of the range.
        count: the number of keys with a row.
    """

    __slots__ = ("_empty", "_places", "count", "end", "first")

    def __init__(self) -> None:
        self._places = GrowingArray(0, np.uint32)
        self._empty = 0  # number of places at the front known to be empty
        self.first = self.end = 0
        self.count = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the array."""
        return (self.end - self.first) * self._places.dtype.itemsize

    @property
    def is_sparse(self) -> bool:
        """Whether the range has so few keys that a hash index takes less memory."""
        return self.end - self.first > max(_SMALL, _SPARSE * self.count)

    def covers(self, keys: Int64Array) -> npt.NDArray[np.bool_]:
        """Whether each key is within the range."""
        within: npt.NDArray[np.bool_] = (keys - self.first).view(np.uint64) < self.end - self.first
        return within

    def find(self, keys: Int64Array) -> Int64Array | None:
        """The row keys of keys, -1 where there is none.

        ``None`` unless all keys are within the range.
        """
        return self.lookup(keys) if np.count_nonzero(self.covers(keys)) == len(keys) else None

    def lookup(self, keys: Int64Array) -> Int64Array:
        """The row keys of keys within the range, -1 where there is none."""
        rows: Int64Array = self._places.array.take(keys - self.first).astype(np.int64)
        rows -= 1
        return rows

    def set(self, keys: Int64Array, rows: Int64Array) -> None:
        """Set the rows of keys that are within the range and have none."""
        if len(keys) == 0:
            return
        if int(rows.max()) >= _ROW_LIMIT and self._places.array.itemsize == 4:
            narrow = self._places.array
            self._places = GrowingArray(len(narrow), np.uint64)
            self._places.array[:] = narrow
        places = keys - self.first
        self._places.array[places] = rows + 1
        self._empty = min(self._empty, int(places.min()))
        self.count += len(keys)

    def remove(self, keys: Int64Array, rows: Int64Array) -> None:
        """Remove distinct keys within the range, where they still have these ``rows``."""
        places = (keys - self.first)[self.lookup(keys) == rows]
        self._places.array[places] = 0
        self.count -= len(places)

    def end_for(self, keys: Int64Array, *, others: int = 0, highest: int = 0) -> int:
        """The end of a larger range that covers more of ``keys``.

        The present end if the range may not grow. A range without keys restarts at the lowest of ``keys``.

        Args:
            keys: distinct keys that are not within the range.
            others: the number of other keys of the index that the range does not cover.
            highest: an upper bound of ``keys`` and these others. Keys in random order are dense once there are many.
        """
        if self.count == 0:
            self._restart(int(keys.min()))
        if others and self.end <= highest < self.first + _GROWING * (self.count + others + len(keys)):
            return highest + 1
        behind = keys[keys >= self.end]
        if len(behind) == 0:
            return self.end
        end, more = int(behind.max()) + 1, len(behind)
        if end - self.end > _GROWING * more:
            # With the first n of these keys, at least as many places are taken as the range may have.
            behind.sort()
            places = behind - self.end
            numbers = np.arange(1, more + 1, dtype=np.int64)
            dense = np.flatnonzero((places >= 0) & (places < _GROWING * numbers))
            if len(dense) == 0:
                return self.end
            end, more = int(behind[dense[-1]]) + 1, int(dense[-1]) + 1
        if end - self.first > max(_SMALL, _GROWING * (self.count + more)):
            self._trim()
            if end - self.first > max(_SMALL, _GROWING * (self.count + more)):
                return self.end
        return end

    def grow(self, end: int) -> None:
        """Extend the range to ``end``."""
        self.end = end
        size = end - self.first
        if size > len(self._places.array):
            self._places.resize(size + size // _SLACK)

    def shrink(self, places: int) -> Int64Array:
        """Shorten the range by ``places`` keys; returns the row keys that fall out."""
        end = max(self.first, self.end - places)
        lost = self._places.array[end - self.first : self.end - self.first]
        rows: Int64Array = lost[lost != 0].astype(np.int64) - 1
        lost[:] = 0
        del lost
        self.end = end
        self._empty = min(self._empty, end - self.first)
        self.count -= len(rows)
        self._places.resize(end - self.first)
        return rows

    def _restart(self, first: int) -> None:
        self.first = self.end = first
        self._places = GrowingArray(0, self._places.array.dtype)
        self._empty = 0

    def _trim(self) -> None:
        """Move the start of the range up, if a large part of its front is empty."""
        places = self._places.array[: self.end - self.first]
        while self._empty < len(places):
            used = places[self._empty : self._empty + _SMALL] != 0
            if used.any():
                self._empty += int(used.argmax())
                break
            self._empty += len(used)
        if self._empty * 4 >= len(places):
            kept = len(places) - self._empty
            places[:kept] = places[self._empty :]
            del places  # what it is a part of changes its size
            self._places.resize(kept)
            self.first += self._empty
            self._empty = 0
