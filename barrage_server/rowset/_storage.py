"""How an ordered set of row keys is held: four classes, which differ in speed alone, and the choice between them.

``Span``: one range, or no key. ``Ranges``: two int64 arrays. ``Bitmap``: a roaring bitmap, for scattered keys.
``KeyList``: the sorted keys that a set was made from. Most sets of scattered keys are only listed, sent and dropped, so
that a ``KeyList`` becomes ranges or a bitmap no sooner than a set operation asks for them.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from barrage_server.errors import RowSetError
from barrage_server.rowset import _ranges, _roaring
from barrage_server.rowset._ranges import NO_KEYS, Keys, Mask, RangeList

RANGES_ALWAYS: Final = 4096
"""Up to this many ranges, two arrays are never slower than a bitmap by more than microseconds."""
RANGES_PER_CONTAINER: Final = 32
"""Ranges per block of 65536 keys from which a bitmap costs less than two arrays: it pays for each block it touches."""
_CACHED: Final = 1 << 17  # arrays derived from another form are kept up to this length (1 MiB)
_SCATTERED: Final = 2  # keys per range up to which listing the keys costs less than their ranges
_LISTABLE: Final = 1 << 36  # keys
_FEW: Final = 16  # keys that are looked up in a bitmap of any size one by one
_APART: Final = 1024  # keys in between from which beginning a new window costs less than listing them


class KeyStorage:
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
        return self.size <= _SCATTERED * self.range_count()

    def range_count(self) -> int:
        """The number of ranges, none of which touches another."""
        return self.ranges()[0].size

    def ranges(self) -> RangeList:
        """The inclusive ranges, as read-only arrays."""
        raise NotImplementedError

    def keys(self) -> Keys:
        """All keys, as a read-only array. RowSetError when they are too many."""
        raise NotImplementedError

    def bitmap(self) -> _roaring.Bits | None:
        """The keys as a bitmap, when that is how they are held in set operations."""
        return None

    def head(self) -> RangeList:
        """The first ranges: at least eight, or all."""
        starts, ends = self.ranges()
        return starts[:8], ends[:8]

    def at(self, position: int) -> int:
        """The key at a position."""
        raise NotImplementedError

    def select(self, positions: Keys) -> Keys:
        """The key at each position; there is at least one."""
        raise NotImplementedError

    def rank(self, keys: Keys) -> Keys:
        """For each key, how many keys lie strictly below it."""
        raise NotImplementedError

    def find(self, keys: Keys) -> Keys:
        """The position of each key, -1 for a missing one."""
        raise NotImplementedError

    def holds(self, key: int) -> bool:
        """Whether a key within first..last is there."""
        raise NotImplementedError

    def contains(self, keys: Keys) -> Mask:
        """Whether each key is there."""
        return self.find(keys) >= 0

    def restrict(self, first: int, last: int) -> KeyStorage:
        """The keys within first..last."""
        raise NotImplementedError

    def slice(self, start: int, stop: int) -> KeyStorage:
        """The keys at positions start..stop-1, which are at least one."""
        raise NotImplementedError

    def shift(self, delta: int) -> KeyStorage:
        """Every key plus ``delta``."""
        raise NotImplementedError

    def blocks(self, bits: int) -> KeyStorage:
        """The numbers of the blocks of ``2**bits`` keys in which there is a key."""
        starts, ends = self.ranges()
        return of_ranges(*_ranges.merge(starts >> bits, ends >> bits))

    def subset(self, positions: KeyStorage) -> KeyStorage:
        """The keys at positions, neither of which are contiguous."""
        raise NotImplementedError

    def invert(self, keys: KeyStorage) -> KeyStorage | None:
        """The positions of keys in these, which are not contiguous; None when a key is missing."""
        raise NotImplementedError


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


class Ranges(KeyStorage):
    """Sorted ranges as two arrays, which must not be written to any more."""

    __slots__ = ("_keys", "_offsets", "_ranges")

    _keys: Keys | None
    _offsets: Keys | None

    def __init__(self, starts: Keys, ends: Keys, size: int | None = None) -> None:
        self.first, self.last = int(starts[0]), int(ends[-1])
        self.size = int((ends - starts).sum()) + starts.size if size is None else size
        self._ranges = _frozen(starts, ends)
        self._keys = self._offsets = None

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
        """The position of each range's first key, and the number of all keys."""
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
    """The keys themselves, in an array that must not be written to any more, and what they are in set operations.

    Args:
        keys: at least one, strictly increasing.
        count: the number of ranges; 0 when it is not known yet.
        settled: the same keys as ranges or a bitmap; None when that is not made yet.
        is_dense: whether they are to be a bitmap, rather than ranges; None when that is not known yet.

    """

    __slots__ = ("_count", "_is_dense", "_keys", "_ranges", "_settled")

    _ranges: RangeList | None

    def __init__(
        self, keys: Keys, count: int = 0, *, settled: KeyStorage | None = None, is_dense: bool | None = None
    ) -> None:
        keys.flags.writeable = False
        self.first, self.last, self.size = int(keys[0]), int(keys[-1]), int(keys.size)
        self._keys, self._count, self._settled, self._is_dense = keys, count, settled, is_dense
        self._ranges = None

    def settled(self) -> KeyStorage:
        """The same keys as ranges or a bitmap."""
        settled = self._settled
        if settled is None:
            if self._is_dense is None:
                self._is_dense = _is_dense(self._keys, self.range_count())
            settled = Bitmap(_roaring.from_keys(self._keys)) if self._is_dense else Ranges(*self.ranges(), self.size)
            self._settled = settled
        return settled

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

    def bitmap(self) -> _roaring.Bits | None:
        return self.settled().bitmap()

    def head(self) -> RangeList:
        return _ranges.compress(self._keys[:8])

    def at(self, position: int) -> int:
        return int(self._keys[position])

    def select(self, positions: Keys) -> Keys:
        return self._keys[positions]

    def rank(self, keys: Keys) -> Keys:
        return self._keys.searchsorted(keys, "left")

    def find(self, keys: Keys) -> Keys:
        return _find_in(self._keys, keys, 0)

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


class Bitmap(KeyStorage):
    """A roaring bitmap, which must not be changed any more."""

    __slots__ = ("_bits", "_count", "_ranges")

    _ranges: RangeList | None

    def __init__(self, bits: _roaring.Bits) -> None:
        self.first, self.last, self.size = bits.min(), bits.max(), len(bits)
        self._bits, self._count, self._ranges = bits, 0, None

    def bitmap(self) -> _roaring.Bits | None:
        return self._bits

    def range_count(self) -> int:
        if not self._count:
            self._count = _roaring.range_count(self._bits)
        return self._count

    def ranges(self) -> RangeList:
        ranges = self._ranges
        if ranges is None:
            ranges = _frozen(*_roaring.to_ranges(self._bits))
            if ranges[0].size <= _CACHED:
                self._ranges = ranges
        return ranges

    def keys(self) -> Keys:
        keys = _roaring.to_keys(self._bits)
        keys.flags.writeable = False
        return keys

    def head(self) -> RangeList:
        return _ranges.compress(_roaring.window(self._bits, 0, min(self.size, 8)))

    def _is_few(self, lookups: int, keys: int) -> bool:
        """Whether ranks or indexes, at 2 µs + 6 ns a block each, cost less than listing ``keys`` keys at 3 ns."""
        blocks = min((self.last - self.first) >> 16, self.size)
        return lookups * (2000 + 6 * blocks) <= max(3 * keys, 20_000)

    def _around(self, wanted: Keys) -> tuple[int, Keys] | None:
        """The number of keys below all of ``wanted``, and the keys from its first to its last.

        None when looking them up one by one costs less.
        """
        if wanted.size < 4:
            return None
        low = _roaring.count_below(self._bits, int(wanted.min()))
        high = max(low, int(self._bits.rank(max(0, int(wanted.max())))))
        if self._is_few(wanted.size, high - low):
            return None
        return low, _roaring.window(self._bits, low, high) if high > low else NO_KEYS

    def at(self, position: int) -> int:
        return int(self._bits[position])

    def select(self, positions: Keys) -> Keys:
        low, high = int(positions.min()), int(positions.max())
        if self._is_few(positions.size, high + 1 - low):
            return np.array([self._bits[position] for position in positions.tolist()], np.int64)
        return _roaring.window(self._bits, low, high + 1)[positions - low]

    def rank(self, keys: Keys) -> Keys:
        around = self._around(keys)
        if around is None:
            return np.array([_roaring.count_below(self._bits, key) for key in keys.tolist()], np.int64)
        return around[1].searchsorted(keys, "left") + around[0]

    def find(self, keys: Keys) -> Keys:
        around = self._around(keys)
        if around is None:
            bits = self._bits
            found = [bits.rank(key) - 1 if key >= 0 and key in bits else -1 for key in keys.tolist()]
            return np.array(found, np.int64)
        low, listed = around
        return _find_in(listed, keys, low) if listed.size else np.full(keys.size, -1, np.int64)

    def holds(self, key: int) -> bool:
        return key in self._bits

    def contains(self, keys: Keys) -> Mask:
        if keys.size <= max(_FEW, self.size // 64):  # unlike a rank, a look-up costs 0.1 µs in any bitmap
            return np.array([key >= 0 and key in self._bits for key in keys.tolist()], np.bool_)
        return self.find(keys) >= 0

    def restrict(self, first: int, last: int) -> KeyStorage:
        return of_bits(_roaring.restrict(self._bits, first, last))

    def slice(self, start: int, stop: int) -> KeyStorage:
        if stop - start <= _roaring.WALK:
            return of_keys(_roaring.window(self._bits, start, stop))
        return self.restrict(self._bits[start], self._bits[stop - 1])

    def shift(self, delta: int) -> KeyStorage:
        return Bitmap(self._bits.shift(delta))

    def subset(self, positions: KeyStorage) -> KeyStorage:
        starts, ends = positions.ranges()
        low, high = positions.first, positions.last + 1
        if not self._is_few(2 * starts.size, high - low):
            return of_keys(_roaring.window(self._bits, low, high)[positions.keys() - low])
        parts = [self.slice(start, end + 1).ranges() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        starts, ends = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return of_ranges(*_ranges.join_adjacent(starts, ends))

    def invert(self, keys: KeyStorage) -> KeyStorage | None:
        starts, ends = keys.ranges()
        edges = np.concatenate((starts, ends))
        if keys.size > 2 * edges.size:  # long ranges: their edges say it all
            first, last = np.split(self.find(edges), 2)
            if (first < 0).any() or (last - first != ends - starts).any():
                return None
            return of_ranges(*_ranges.join_adjacent(first, last))
        # A viewport of several windows: each is found by itself, without listing what lies between them.
        wanted = keys.keys()
        spacing = (self.last - self.first) // self.size + 1
        cuts = np.flatnonzero(np.diff(wanted) > _APART * spacing) + 1
        parts = np.split(wanted, cuts) if _FEW * cuts.size < wanted.size else [wanted]
        found = np.concatenate([self.find(part) for part in parts])
        return None if (found < 0).any() else of_keys(found)


NOTHING: Final = Span(0, -1)


# -- the choice --------------------------------------------------------------------------------------------------------


def of_keys(keys: Keys) -> KeyStorage:
    """Choose the form for strictly increasing keys, whose array stays the caller's."""
    if not keys.size:
        return NOTHING
    first, last = int(keys[0]), int(keys[-1])
    if last - first == keys.size - 1:
        return Span(first, last)
    count = _ranges.count_in(keys)
    if keys.size <= min(_CACHED, _SCATTERED * count):
        return KeyList(keys.copy(), count)
    if _is_dense(keys, count):
        return Bitmap(_roaring.from_keys(keys))
    return Ranges(*_ranges.compress(keys), keys.size)


def of_ranges(starts: Keys, ends: Keys) -> KeyStorage:
    """Choose the form for ranges that are sorted, disjoint and do not touch; their arrays are taken over."""
    count = starts.size
    if count == 0:
        return NOTHING
    if count == 1:
        return Span(int(starts[0]), int(ends[0]))
    if count <= RANGES_ALWAYS or _ranges.containers(starts, ends) * RANGES_PER_CONTAINER > count:
        return Ranges(starts, ends)
    size = int((ends - starts).sum()) + count
    if size <= min(_CACHED, _SCATTERED * count):
        return KeyList(_ranges.expand(starts, ends), count, is_dense=True)
    return Bitmap(_roaring.from_ranges(starts, ends, size))


def of_bits(bits: _roaring.Bits) -> KeyStorage:
    """Choose the form for the result of bitmap operations; ranges are computed for small ones only."""
    size = len(bits)
    if size == 0:
        return NOTHING
    first, last = bits.min(), bits.max()
    if last - first == size - 1:
        return Span(first, last)
    if size <= RANGES_ALWAYS:
        return Ranges(*_ranges.compress(_roaring.to_keys(bits)), size)
    return Bitmap(bits)


def listed(storage: KeyStorage) -> KeyStorage:
    """Keep the keys of a bitmap beside it, if they are few, for look-ups; any other form stays what it is."""
    if isinstance(storage, Bitmap) and storage.size <= _CACHED:
        return KeyList(storage.keys(), settled=storage)
    return storage


def bitmaps_of(one: KeyStorage, other: KeyStorage) -> tuple[_roaring.Bits, _roaring.Bits] | None:
    """Give both as bitmaps when at least one is held as a bitmap, and the other can reasonably be."""
    mine, theirs = one.bitmap(), other.bitmap()
    if mine is None and theirs is not None:
        mine = _bits_beside(one, theirs)
    elif theirs is None and mine is not None:
        theirs = _bits_beside(other, mine)
    return None if mine is None or theirs is None else (mine, theirs)


def _bits_beside(storage: KeyStorage, bits: _roaring.Bits) -> _roaring.Bits | None:
    """Give the keys as a bitmap to be combined with ``bits``; None when they span more blocks than is reasonable."""
    starts, ends = storage.ranges()
    if _ranges.containers(starts, ends) > 2 * RANGES_ALWAYS + len(bits) // RANGES_PER_CONTAINER:
        return None
    return _roaring.from_ranges(starts, ends, storage.size)


def _is_dense(keys: Keys, count: int) -> bool:
    """Whether a bitmap pays for keys that form ``count`` ranges."""
    if count <= RANGES_ALWAYS:
        return False
    blocks = keys >> 16
    return (int(np.count_nonzero(blocks[1:] != blocks[:-1])) + 1) * RANGES_PER_CONTAINER <= count


def _part_of(keys: Keys) -> KeyStorage:
    """Give some keys next to each other of a ``KeyList``."""
    if not keys.size:
        return NOTHING
    first, last = int(keys[0]), int(keys[-1])
    return Span(first, last) if last - first == keys.size - 1 else KeyList(keys.copy())


def _find_in(listed: Keys, wanted: Keys, low: int) -> Keys:
    """Give the place of each of ``wanted`` in ``listed``, plus ``low``; -1 for one that is not there."""
    index = listed.searchsorted(wanted, "left")
    return np.where(listed[np.minimum(index, listed.size - 1)] == wanted, index + low, -1)


def _frozen(starts: Keys, ends: Keys) -> RangeList:
    starts.flags.writeable = ends.flags.writeable = False
    return starts, ends


def _check_listable(size: int) -> None:
    if size > _LISTABLE:
        raise RowSetError(f"a row set of {size} keys cannot be listed; work on its ranges")
