"""The four storages of an ordered set of row keys, and the choice between them.

They differ in speed only.

- ``Span``: one range, or no key. Contiguous keys are always a ``Span``.
- ``Ranges``: two int64 arrays.
- ``Segmented``: bitmaps of aligned segments, for scattered keys.
- ``KeyList``: the sorted keys that a set was made from. Most sets of scattered keys are only listed, sent and dropped,
  so that a ``KeyList`` is converted to ranges or segments only when a set operation needs them.

A fifth one, :mod:`._patched`, is chosen by operations that exchange keys, and not by content.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from barrage_server.errors import RowSetError
from barrage_server.rowset import _ranges
from barrage_server.rowset._key_storage import OBJECT_BYTES, SCATTERED, KeyStorage
from barrage_server.rowset._part import BITS, find_in
from barrage_server.rowset._ranges import Keys, Mask, RangeList
from barrage_server.rowset._segments import Segments

RANGES_ALWAYS: Final = 4096
"""The most ranges for which two arrays are at most microseconds slower than segments."""
RANGES_PER_SEGMENT: Final = 128
"""The least ranges per segment for which segments cost less than two arrays."""
FEW_KEYS: Final = 1024
"""The most keys for which look-ups in segments cost less than making or cutting segments."""
_LISTED_ALWAYS: Final = 32  # most keys that are listed whatever their ranges
_CACHED: Final = 1 << 17  # greatest length of a derived array that is kept (1 MiB)
_SHORT: Final = 8  # most keys per range for which set operations on few keys list them
_LISTABLE: Final = 1 << 36  # most keys that are listed
_PART_BYTES: Final = 32 << 10  # bytes of a dense segment


def _own(keys: Keys) -> Keys:
    """Copy ``keys`` if they would keep a much larger array in memory."""
    base = keys.base
    return keys if base is None or getattr(base, "nbytes", 1 << 62) <= 2 * keys.nbytes else keys.copy()


class Span(KeyStorage):
    """The keys first..last; none when ``last < first``."""

    __slots__ = ("_ranges",)

    _ranges: RangeList | None

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last, self.size = first, last, last - first + 1
        self._ranges = None

    def range_count(self) -> int:
        return min(1, self.size)

    def ranges(self) -> RangeList:
        ranges = self._ranges
        if ranges is None:
            count = self.range_count()
            ranges = self._ranges = _frozen(np.full(count, self.first), np.full(count, self.last))
        return ranges

    def keys(self) -> Keys:
        _check_listable(self.size)
        keys = np.arange(self.first, self.last + 1, dtype=np.int64)
        keys.flags.writeable = False
        return keys

    def at(self, position: int) -> int:
        return self.first + position

    def select(self, positions: Keys) -> Keys:
        return positions + self.first

    def rank(self, keys: Keys) -> Keys:
        return np.clip(keys, self.first, self.last) - self.first + (keys > self.last)

    def find(self, keys: Keys) -> Keys:
        return np.where(self.contains(keys), keys - self.first, -1)

    def holds(self, key: int) -> bool:
        return self.first <= key <= self.last

    def contains(self, keys: Keys) -> Mask:
        return (keys >= self.first) & (keys <= self.last)

    def restrict(self, first: int, last: int) -> KeyStorage:
        return Span(first, last)

    def slice(self, start: int, stop: int) -> KeyStorage:
        return Span(self.first + start, self.first + stop - 1)

    def shift(self, delta: int) -> KeyStorage:
        return Span(self.first + delta, self.last + delta)

    def blocks(self, bits: int) -> KeyStorage:
        return Span(self.first >> bits, self.last >> bits)

    def subset(self, positions: KeyStorage) -> KeyStorage:
        return positions.shift(self.first) if self.first else positions

    def invert(self, keys: KeyStorage) -> KeyStorage | None:
        if keys.first < self.first or keys.last > self.last:
            return None
        return keys.shift(-self.first) if self.first else keys


class Ranges(KeyStorage):
    """Sorted ranges as two arrays, which become read-only."""

    __slots__ = ("_keys", "_offsets", "_ranges")

    _keys: Keys | None
    _offsets: Keys | None

    def __init__(self, starts: Keys, ends: Keys, size: int | None = None) -> None:
        self.first, self.last = int(starts[0]), int(ends[-1])
        self.size = int((ends - starts).sum()) + starts.size if size is None else size
        self._ranges = _frozen(starts, ends)
        self._keys = self._offsets = None

    @property
    def nbytes(self) -> int:
        return OBJECT_BYTES + 2 * (OBJECT_BYTES + self._ranges[0].nbytes)

    @property
    def is_short(self) -> bool:
        """Whether ranges are so short that operations on keys cost less."""
        return self.size <= _SHORT * self._ranges[0].size

    def packed(self) -> KeyStorage:
        starts, ends = self._ranges
        return Ranges(_own(starts), _own(ends), self.size)

    def ranges(self) -> RangeList:
        return self._ranges

    def keys(self) -> Keys:
        keys = self._keys
        if keys is None:
            _check_listable(self.size)
            keys = _ranges.expand(*self._ranges)
            keys.flags.writeable = False
            if keys.size <= _CACHED:
                self._keys = keys
        return keys

    def _positions(self) -> Keys:
        """Return the position of the first key of each range, then the number of keys."""
        offsets = self._offsets
        if offsets is None:
            offsets = self._offsets = _ranges.offsets_of(*self._ranges)
        return offsets

    def at(self, position: int) -> int:
        offsets = self._positions()
        index = int(offsets.searchsorted(position, "right")) - 1
        return int(self._ranges[0][index]) + position - int(offsets[index])

    def select(self, positions: Keys) -> Keys:
        return _ranges.at(self._ranges, self._positions(), positions)

    def rank(self, keys: Keys) -> Keys:
        return _ranges.count_below(self._ranges, self._positions(), keys)

    def find(self, keys: Keys) -> Keys:
        return np.where(self.contains(keys), self.rank(keys), -1)

    def holds(self, key: int) -> bool:
        starts, ends = self._ranges
        return key <= int(ends[int(starts.searchsorted(key, "right")) - 1])

    def contains(self, keys: Keys) -> Mask:
        return _ranges.holds(self._ranges, keys)

    def restrict(self, first: int, last: int) -> KeyStorage:
        starts, ends = self._ranges
        low, high = int(ends.searchsorted(first, "left")), int(starts.searchsorted(last, "right"))
        if low >= high:
            return NOTHING
        starts, ends = starts[low:high].copy(), ends[low:high].copy()
        starts[0] = max(first, int(starts[0]))
        ends[-1] = min(last, int(ends[-1]))
        return of_ranges(starts, ends)

    def slice(self, start: int, stop: int) -> KeyStorage:
        return self.restrict(*self.select(np.array([start, stop - 1])).tolist())

    def shift(self, delta: int) -> KeyStorage:
        starts, ends = self._ranges
        return Ranges(starts + delta, ends + delta, self.size)

    def blocks(self, bits: int) -> KeyStorage:
        starts, ends = self._ranges
        return of_ranges(*_ranges.merge(starts >> bits, ends >> bits))

    def subset(self, positions: KeyStorage) -> KeyStorage:
        offsets = self._positions()
        starts, ends, _, own = _ranges.overlaps(positions.ranges(), (offsets[:-1], offsets[1:] - 1))
        delta = self._ranges[0][own] - offsets[own]
        return of_ranges(starts + delta, ends + delta)

    def invert(self, keys: KeyStorage) -> KeyStorage | None:
        starts, ends, _, own = _ranges.overlaps(keys.ranges(), self._ranges)
        if int((ends - starts).sum()) + starts.size != keys.size:
            return None
        delta = self._positions()[own] - self._ranges[0][own]
        return of_ranges(*_ranges.join_adjacent(starts + delta, ends + delta))


class KeyList(KeyStorage):
    """The keys in an array, with ranges or segments for set operations.

    Args:
        keys: one or more keys, strictly increasing; the array becomes read-only.
        count: the number of ranges; 0 when it is not known yet.
        settled: the same keys as ranges or segments; None when they are not made yet.
        is_dense: whether set operations use segments rather than ranges; None when it is not known yet.

    """

    __slots__ = ("_count", "_is_dense", "_keys", "_ranges", "_settled")

    _ranges: RangeList | None

    def __init__(
        self, keys: Keys, count: int = 0, *, settled: KeyStorage | None = None, is_dense: bool | None = None
    ) -> None:
        keys.setflags(write=False)
        self.first, self.last, self.size = keys.item(0), keys.item(-1), keys.size
        self._keys, self._count, self._settled, self._is_dense = keys, count, settled, is_dense
        self._ranges = None

    @property
    def nbytes(self) -> int:
        return 2 * OBJECT_BYTES + self._keys.nbytes

    def packed(self) -> KeyStorage:
        return KeyList(_own(self._keys), self._count, is_dense=self._is_dense)

    def settled(self) -> KeyStorage:
        """Return the same keys as ranges or segments."""
        settled = self._settled
        if settled is None:
            is_dense = self._settles_dense()
            settled = Segmented(Segments.from_keys(self._keys)) if is_dense else Ranges(*self.ranges(), self.size)
            self._settled = settled
        return settled

    @property
    def is_segmented(self) -> bool:
        return self.segments() is not None if self._settled is not None else self._settles_dense()

    def _settles_dense(self) -> bool:
        """Whether set operations use segments."""
        if self._is_dense is None:
            self._is_dense = _is_dense(self._keys, self.range_count())
        return self._is_dense

    def range_count(self) -> int:
        if not self._count:
            self._count = _ranges.count_in(self._keys)
        return self._count

    def ranges(self) -> RangeList:
        if self._ranges is None:
            self._ranges = _frozen(*_ranges.compress(self._keys))
        return self._ranges

    def keys(self) -> Keys:
        return self._keys

    def segments(self) -> Segments | None:
        return self.settled().segments() if self._settled is not None or self._settles_dense() else None

    def head(self) -> RangeList:
        return _ranges.compress(self._keys[:8])

    def at(self, position: int) -> int:
        return int(self._keys[position])

    def select(self, positions: Keys) -> Keys:
        return self._keys[positions]

    def rank(self, keys: Keys) -> Keys:
        return self._keys.searchsorted(keys, "left")

    def find(self, keys: Keys) -> Keys:
        return find_in(self._keys, keys)

    def holds(self, key: int) -> bool:
        return int(self._keys[int(self._keys.searchsorted(key))]) == key

    def restrict(self, first: int, last: int) -> KeyStorage:
        return _part_of(self._keys[self._keys.searchsorted(first) : self._keys.searchsorted(last, "right")])

    def slice(self, start: int, stop: int) -> KeyStorage:
        return _part_of(self._keys[start:stop])

    def shift(self, delta: int) -> KeyStorage:
        return KeyList(self._keys + delta, self._count, is_dense=self._is_dense)

    def blocks(self, bits: int) -> KeyStorage:
        numbers = self._keys >> bits
        differs = np.ones(numbers.size, np.bool_)
        np.not_equal(numbers[1:], numbers[:-1], out=differs[1:])
        return of_keys(numbers[differs])

    def subset(self, positions: KeyStorage) -> KeyStorage:
        return of_keys(self._keys[positions.keys()])

    def invert(self, keys: KeyStorage) -> KeyStorage | None:
        found = self.find(keys.keys())
        return None if (found < 0).any() else of_keys(found)


class Segmented(KeyStorage):
    """Segments, for scattered keys."""

    __slots__ = ("_count", "_ranges", "_segments")

    _ranges: RangeList | None

    def __init__(self, segments: Segments) -> None:
        self.first, self.last, self.size = segments.first, segments.last, segments.size
        self._segments, self._count, self._ranges = segments, 0, None

    @property
    def nbytes(self) -> int:
        counts = np.diff(self._segments.offsets)
        return int(np.minimum(2 * counts, _PART_BYTES).sum()) + OBJECT_BYTES * (2 + counts.size)

    def packed(self) -> KeyStorage:
        return Segmented(self._segments)

    def segments(self) -> Segments:
        return self._segments

    def range_count(self) -> int:
        if not self._count:
            self._count = self._segments.range_count()
        return self._count

    def ranges(self) -> RangeList:
        ranges = self._ranges
        if ranges is None:
            ranges = _frozen(*self._segments.ranges())
            if ranges[0].size <= _CACHED:
                self._ranges = ranges
        return ranges

    def keys(self) -> Keys:
        _check_listable(self.size)
        keys = self._segments.keys()
        keys.flags.writeable = False
        return keys

    def head(self) -> RangeList:
        return _ranges.compress(self._segments.window(0, min(self.size, 8)))

    def at(self, position: int) -> int:
        return self._segments.at(position)

    def select(self, positions: Keys) -> Keys:
        return self._segments.select(positions)

    def rank(self, keys: Keys) -> Keys:
        return self._segments.rank(keys)

    def find(self, keys: Keys) -> Keys:
        return self._segments.find(keys)

    def holds(self, key: int) -> bool:
        return self._segments.holds(key)

    def contains(self, keys: Keys) -> Mask:
        return self._segments.contains(keys)

    def restrict(self, first: int, last: int) -> KeyStorage:
        return of_segments(self._segments.restrict(first, last))

    def slice(self, start: int, stop: int) -> KeyStorage:
        if stop - start <= FEW_KEYS:
            return of_keys(self._segments.window(start, stop))
        return self.restrict(self.at(start), self.at(stop - 1))

    def shift(self, delta: int) -> KeyStorage:
        return Segmented(self._segments.shift(delta))

    def blocks(self, bits: int) -> KeyStorage:
        starts, ends = self.ranges()
        return of_ranges(*_ranges.merge(starts >> bits, ends >> bits))

    def subset(self, positions: KeyStorage) -> KeyStorage:
        if positions.is_scattered:
            return of_keys(self.select(positions.keys()))
        starts, ends = positions.ranges()
        if positions.size <= FEW_KEYS:
            windows = zip(starts.tolist(), (ends + 1).tolist(), strict=True)
            return of_keys(np.concatenate([self._segments.window(start, stop) for start, stop in windows]))
        ranges = self.select(starts), self.select(ends)
        return of_segments(self._segments & Segments.from_ranges(*ranges, self._segments.numbers))

    def invert(self, keys: KeyStorage) -> KeyStorage | None:
        if keys.is_scattered:
            found = self.find(keys.keys())
            return None if (found < 0).any() else of_keys(found)
        starts, ends = keys.ranges()  # positions of the edges tell whether all keys between are present
        first, last = self.find(starts), self.find(ends)
        if (first < 0).any() or (last - first != ends - starts).any():
            return None
        return of_ranges(*_ranges.join_adjacent(first, last))


NOTHING: Final = Span(0, -1)


# -- the choice --------------------------------------------------------------------------------------------------------


def of_keys(keys: Keys) -> KeyStorage:
    """Choose the storage of strictly increasing keys, whose array is not taken over."""
    if not keys.size:
        return NOTHING
    first, last = keys.item(0), keys.item(-1)
    if last - first == keys.size - 1:
        return Span(first, last)
    if keys.size <= _LISTED_ALWAYS:
        return KeyList(keys.copy())
    count = _ranges.count_in(keys)
    if keys.size <= min(_CACHED, SCATTERED * count):
        return KeyList(keys.copy(), count)
    if _is_dense(keys, count):
        return Segmented(Segments.from_keys(keys))
    return Ranges(*_ranges.compress(keys), keys.size)


def of_ranges(starts: Keys, ends: Keys) -> KeyStorage:
    """Choose the storage of a range list, whose arrays become read-only."""
    count = starts.size
    if count == 0:
        return NOTHING
    if count == 1:
        return Span(int(starts[0]), int(ends[0]))
    if count <= RANGES_ALWAYS or _ranges.blocks(starts, ends, BITS) * RANGES_PER_SEGMENT > count:
        return Ranges(starts, ends)
    size = int((ends - starts).sum()) + count
    if size <= min(_CACHED, SCATTERED * count):
        return KeyList(_ranges.expand(starts, ends), count, is_dense=True)
    return Segmented(Segments.from_ranges(starts, ends))


def of_segments(segments: Segments) -> KeyStorage:
    """Choose the storage of the result of an operation on segments."""
    size = segments.size
    if size == 0:
        return NOTHING
    if size <= RANGES_ALWAYS:
        return of_ranges(*_ranges.compress(segments.keys()))
    made = Segmented(segments)
    return Span(made.first, made.last) if made.is_contiguous else made


def listed(storage: KeyStorage) -> KeyStorage:
    """List the keys of small segments beside the segments, for look-ups."""
    if isinstance(storage, Segmented) and storage.size <= _CACHED:
        return KeyList(storage.keys(), settled=storage)
    return storage


def _is_dense(keys: Keys, count: int) -> bool:
    """Whether segments cost less for keys of ``count`` ranges."""
    if count <= RANGES_ALWAYS:
        return False
    numbers = keys >> BITS
    return (int(np.count_nonzero(numbers[1:] != numbers[:-1])) + 1) * RANGES_PER_SEGMENT <= count


def _part_of(keys: Keys) -> KeyStorage:
    """Choose the storage of neighbouring keys of a ``KeyList``."""
    if not keys.size:
        return NOTHING
    first, last = int(keys[0]), int(keys[-1])
    return Span(first, last) if last - first == keys.size - 1 else KeyList(keys.copy())


def _frozen(starts: Keys, ends: Keys) -> RangeList:
    starts.setflags(write=False)
    ends.setflags(write=False)
    return starts, ends


def _check_listable(size: int) -> None:
    if size > _LISTABLE:
        raise RowSetError(f"a row set of {size} keys cannot be listed; work on its ranges")
