"""Ordered sets of 64-bit row keys, as immutable values.

Positions are the ranks of keys: the key at position ``i`` is the ``i``-th smallest. A table's row set maps between
the two spaces that the protocol speaks of: row keys (which survive the insertion of other rows) and row positions
(what a viewport is made of).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from barrage_server.errors import RowSetError
from barrage_server.public import public
from barrage_server.rowset import _ranges, _roaring
from barrage_server.rowset._held import RANGES_ALWAYS, RANGES_PER_CONTAINER, HeldKeys, as_keys
from barrage_server.rowset._ranges import MAX_KEY, NO_KEYS, Keys, Mask

__all__ = ["RowSet"]

_FEW: Final = 16  # keys that are looked up in a bitmap one by one, whatever its size
_APART: Final = 1024  # keys in between from which it costs less to begin a new window than to list them


@public
class RowSet(HeldKeys):
    """An immutable ordered set of row keys (int64, 0 to 2**63 - 1)."""

    __slots__ = ()

    EMPTY: ClassVar[RowSet]

    @classmethod
    def empty(cls) -> RowSet:
        """Give the set without keys."""
        return cls.EMPTY

    # -- set operations -----------------------------------------------------------------------------------------------

    def _bits_beside(self, bits: _roaring.Bits) -> _roaring.Bits | None:
        """Give this set as a bitmap to be combined with ``bits``; None when it spans more blocks than is reasonable."""
        if self._bits is not None:
            return self._bits
        starts, ends = self.ranges()
        if _ranges.containers(starts, ends) > 2 * RANGES_ALWAYS + len(bits) // RANGES_PER_CONTAINER:
            return None
        return _roaring.from_ranges(starts, ends, self._size)

    def _pair(self, other: RowSet) -> tuple[Any, Any]:
        """Give both sets as bitmaps when one is a bitmap and the other can be one, else ``(None, None)``."""
        if self._bits is not None:
            return self._bits, other._bits_beside(self._bits)
        if other._bits is not None:
            return self._bits_beside(other._bits), other._bits
        return None, None

    def __or__(self, other: RowSet) -> RowSet:
        if not isinstance(other, RowSet):
            return NotImplemented
        if not other._size or self is other:
            return self
        if not self._size:
            return other
        if self.is_contiguous and self._first <= other._first and other._last <= self._last:
            return self
        if other.is_contiguous and other._first <= self._first and self._last <= other._last:
            return other
        if (
            self.is_contiguous
            and other.is_contiguous
            and max(self._first, other._first) - 1 <= min(self._last, other._last)
        ):
            return RowSet._span(min(self._first, other._first), max(self._last, other._last))
        mine, theirs = self._pair(other)
        if mine is not None and theirs is not None:
            return RowSet._of_bits(mine | theirs)
        return RowSet._of_ranges(*_ranges.union(self.ranges(), other.ranges()))

    def __and__(self, other: RowSet) -> RowSet:
        if not isinstance(other, RowSet):
            return NotImplemented
        if self is other:
            return self
        first, last = max(self._first, other._first), min(self._last, other._last)
        if first > last:
            return RowSet.EMPTY
        if other.is_contiguous:
            return self.restrict(first, last)
        if self.is_contiguous:
            return other.restrict(first, last)
        if (self._bits is None) != (other._bits is None):
            listed, bitmap = (self, other) if self._bits is None else (other, self)
            mine, theirs = listed.restrict(first, last)._pair(bitmap)
        else:
            mine, theirs = self._bits, other._bits
        if mine is not None and theirs is not None:
            return RowSet._of_bits(mine & theirs)
        return RowSet._of_ranges(*_ranges.intersection(self.ranges(), other.ranges()))

    def __sub__(self, other: RowSet) -> RowSet:
        if not isinstance(other, RowSet):
            return NotImplemented
        if self is other:
            return RowSet.EMPTY
        first, last = max(self._first, other._first), min(self._last, other._last)
        if first > last:
            return self
        if other._bits is None:
            other = other.restrict(first, last)
            if not other._size:
                return self
            first, last = other._first, other._last
        if self.is_contiguous and other.is_contiguous and (first == self._first or last == self._last):
            return (
                RowSet.from_range(last + 1, self._last)
                if first == self._first
                else RowSet._span(self._first, first - 1)
            )
        mine, theirs = self._pair(other)
        if mine is not None and theirs is not None:
            return RowSet._of_bits(mine - theirs)
        if mine is not None and other.range_count <= _FEW:
            return RowSet._of_bits(_roaring.without(mine, *other.ranges()))
        return RowSet._of_ranges(*_ranges.difference(self.ranges(), other.ranges()))

    def is_disjoint(self, other: RowSet) -> bool:
        """Tell whether no key is in both."""
        if max(self._first, other._first) > min(self._last, other._last):
            return True
        mine, theirs = self._pair(other)
        if mine is not None and theirs is not None:
            return bool(mine.isdisjoint(theirs))
        return not (self & other)._size

    def is_superset(self, other: RowSet) -> bool:
        """Tell whether every key of ``other`` is in this set."""
        if not other._size:
            return True
        if other._first < self._first or other._last > self._last or other._size > self._size:
            return False
        if self.is_contiguous:
            return True
        mine, theirs = self._pair(other)
        if mine is not None and theirs is not None:
            return bool(mine.issuperset(theirs))
        starts, ends = self.ranges()
        other_starts, other_ends = other.ranges()
        return bool((other_ends <= ends[np.searchsorted(starts, other_starts, "right") - 1]).all())

    @classmethod
    def union_all(cls, sets: Iterable[RowSet]) -> RowSet:
        """Give the keys that are in any of the sets."""
        parts = [part for part in sets if part._size]
        if len(parts) < 3:
            return cls.EMPTY if not parts else parts[0] | parts[-1]
        listed = [part for part in parts if part._bits is None]
        result = cls.EMPTY
        if listed:
            ranges = [part.ranges() for part in listed]
            merged = _ranges.merge(
                np.concatenate([starts for starts, _ in ranges]), np.concatenate([ends for _, ends in ranges])
            )
            result = cls._of_ranges(*merged)
        for part in parts:
            if part._bits is not None:
                result = result | part
        return result

    # -- parts --------------------------------------------------------------------------------------------------------

    def restrict(self, first: int, last: int) -> RowSet:
        """Give the keys within first..last, both included."""
        first, last = max(int(first), self._first), min(int(last), self._last)
        if first > last:
            return RowSet.EMPTY
        if first == self._first and last == self._last:
            return self
        if self.is_contiguous:
            return RowSet._span(first, last)
        keys = self._own_keys()
        if keys is not None:
            return RowSet._cut(keys[keys.searchsorted(first) : keys.searchsorted(last, "right")])
        if self._bits is not None:
            return RowSet._of_bits(_roaring.restrict(self._bits, first, last))
        starts, ends = self.ranges()
        low, high = int(np.searchsorted(ends, first, "left")), int(np.searchsorted(starts, last, "right"))
        if low >= high:
            return RowSet.EMPTY
        starts, ends = starts[low:high].copy(), ends[low:high].copy()
        starts[0] = max(first, int(starts[0]))
        ends[-1] = min(last, int(ends[-1]))
        return RowSet._of_ranges(starts, ends)

    def slice(self, start: int, stop: int) -> RowSet:
        """Give the keys at positions start..stop-1, as far as there are such."""
        start, stop = max(int(start), 0), min(int(stop), self._size)
        if start >= stop:
            return RowSet.EMPTY
        if stop - start == self._size:
            return self
        if self.is_contiguous:
            return RowSet._span(self._first + start, self._first + stop - 1)
        keys = self._own_keys()
        if keys is not None:
            return RowSet._cut(keys[start:stop])
        if self._bits is not None:
            if stop - start <= _roaring.WALK:
                return RowSet.from_sorted_keys(_roaring.window(self._bits, start, stop))
            return RowSet._of_bits(_roaring.restrict(self._bits, self._bits[start], self._bits[stop - 1]))
        first, last = _ranges.at(self.ranges(), self._range_offsets(), np.array([start, stop - 1], np.int64)).tolist()
        return self.restrict(first, last)

    def shift(self, delta: int) -> RowSet:
        """Give every key plus ``delta``. RowSetError when one would leave 0..2**63-1."""
        delta = int(delta)
        if delta == 0 or not self._size:
            return self
        if self._first + delta < 0 or self._last + delta > MAX_KEY:
            raise RowSetError(f"shifting {self!r} by {delta} leaves the space of row keys, 0 to 2**63 - 1")
        if self.is_contiguous:
            return RowSet._span(self._first + delta, self._last + delta)
        keys = self._own_keys()
        if keys is not None:
            return RowSet._as_keys(keys + delta, self.range_count, is_dense=self._is_dense)
        if self._bits is not None:
            return RowSet._as_bitmap(self._bits.shift(delta))
        starts, ends = self.ranges()
        return RowSet._as_listed(starts + delta, ends + delta, self._size)

    def blocks(self, bits: int) -> RowSet:
        """Give the numbers of the blocks of ``2**bits`` keys, counted from key 0, in which there is a key."""
        if not self._size:
            return self
        if self.is_contiguous:
            return RowSet._span(self._first >> bits, self._last >> bits)
        keys = self._own_keys()
        if keys is not None:
            numbers = keys >> bits
            differs = np.ones(numbers.size, np.bool_)
            np.not_equal(numbers[1:], numbers[:-1], out=differs[1:])
            return RowSet.from_sorted_keys(numbers[differs])
        starts, ends = self.ranges()
        return RowSet._of_ranges(*_ranges.merge(starts >> bits, ends >> bits))

    # -- positions and keys -------------------------------------------------------------------------------------------

    def _is_few(self, lookups: int, keys: int) -> bool:
        """Tell whether so many ranks or indexes, at 2 µs + 6 ns a block, cost less than listing the keys at 3 ns."""
        blocks = min((self._last - self._first) >> 16, self._size)
        return lookups * (2000 + 6 * blocks) <= max(3 * keys, 20_000)

    def _around(self, bits: _roaring.Bits, wanted: Keys) -> tuple[int, Keys] | None:
        """Give the number of keys below all of ``wanted``, and the keys from its first to its last.

        None when it costs less to look them up one by one.
        """
        if wanted.size < 4:
            return None
        low = _roaring.count_below(bits, int(wanted.min()))
        high = max(low, int(bits.rank(max(0, int(wanted.max())))))
        if self._is_few(wanted.size, high - low):
            return None
        return low, _roaring.window(bits, low, high) if high > low else NO_KEYS

    def __getitem__(self, position: int) -> int:
        """Give the key at ``position``. RowSetError when it is not within 0..size-1."""
        if not 0 <= position < self._size:
            raise RowSetError(f"position {position} is outside of a row set of {self._size} keys")
        if self.is_contiguous:
            return self._first + int(position)
        keys = self._own_keys()
        if keys is not None:
            return int(keys[int(position)])
        if self._bits is not None:
            return int(self._bits[int(position)])
        offsets = self._range_offsets()
        index = int(np.searchsorted(offsets, position, "right")) - 1
        return int(self.ranges()[0][index]) + int(position) - int(offsets[index])

    def __iter__(self) -> Iterator[int]:
        """Go through the keys one by one: for people and tests. Programs use ``keys()`` and ``ranges()``."""
        return iter(self.keys().tolist())

    def select(self, positions: npt.ArrayLike) -> Keys:
        """Give the key at each of the positions (int64, in any order). RowSetError when one is not within 0..size-1."""
        wanted = as_keys(positions)
        if not wanted.size:
            return wanted.copy()
        low, high = int(wanted.min()), int(wanted.max())
        if low < 0 or high >= self._size:
            raise RowSetError(f"position {low if low < 0 else high} is outside of a row set of {self._size} keys")
        if self.is_contiguous:
            return wanted + self._first
        keys = self._own_keys()
        if keys is not None:
            return keys[wanted]
        bits = self._bits
        if bits is None:
            return _ranges.at(self.ranges(), self._range_offsets(), wanted)
        if self._is_few(wanted.size, high + 1 - low):
            return np.array([bits[position] for position in wanted.tolist()], np.int64)
        return _roaring.window(bits, low, high + 1)[wanted - low]

    def rank(self, keys: npt.ArrayLike) -> Keys:
        """Give for each key (int64, in any order) how many keys of this set lie strictly below it."""
        wanted = as_keys(keys)
        if not wanted.size or not self._size:
            return np.zeros(wanted.size, np.int64)
        if self.is_contiguous:
            return np.clip(wanted, self._first, self._last) - self._first + (wanted > self._last)
        own = self._own_keys()
        if own is not None:
            return np.searchsorted(own, wanted, "left")
        bits = self._bits
        if bits is None:
            return _ranges.count_below(self.ranges(), self._range_offsets(), wanted)
        around = self._around(bits, wanted)
        if around is None:
            return np.array([_roaring.count_below(bits, key) for key in wanted.tolist()], np.int64)
        return np.searchsorted(around[1], wanted, "left") + around[0]

    def find(self, keys: npt.ArrayLike) -> Keys:
        """Give the position of each key (int64, in any order), or -1 for one that is not in the set."""
        wanted = as_keys(keys)
        if not wanted.size or not self._size:
            return np.full(wanted.size, -1, np.int64)
        if self.is_contiguous:
            return np.where((wanted >= self._first) & (wanted <= self._last), wanted - self._first, -1)
        own = self._own_keys()
        if own is not None:
            return _find_in(own, wanted, 0)
        bits = self._bits
        if bits is None:
            held = _ranges.holds(self.ranges(), wanted)
            return np.where(held, _ranges.count_below(self.ranges(), self._range_offsets(), wanted), -1)
        around = self._around(bits, wanted)
        if around is None:
            found = [bits.rank(key) - 1 if key >= 0 and key in bits else -1 for key in wanted.tolist()]
            return np.array(found, np.int64)
        low, listed = around
        return _find_in(listed, wanted, low) if listed.size else np.full(wanted.size, -1, np.int64)

    def contains(self, keys: npt.ArrayLike) -> Mask:
        """Tell for each key (int64, in any order) whether it is in the set."""
        wanted = as_keys(keys)
        if not wanted.size or not self._size:
            return np.zeros(wanted.size, np.bool_)
        if self.is_contiguous:
            return (wanted >= self._first) & (wanted <= self._last)
        if self._own_keys() is not None:
            return self.find(wanted) >= 0
        bits = self._bits
        if bits is None:
            return _ranges.holds(self.ranges(), wanted)
        if wanted.size <= max(
            _FEW, self._size // 64
        ):  # unlike a rank, a look-up costs 0.1 µs however large the bitmap is
            return np.array([key >= 0 and key in bits for key in wanted.tolist()], np.bool_)
        return self.find(wanted) >= 0

    def subset(self, positions: RowSet) -> RowSet:
        """Give the keys at those positions; positions beyond the size are left out."""
        positions = positions.restrict(0, self._size - 1)
        if self.is_contiguous:
            return positions.shift(self._first)
        if positions.is_contiguous:
            return self.slice(positions._first, positions._last + 1)
        own = self._own_keys()
        if own is not None:
            return RowSet.from_sorted_keys(own[positions.keys()])
        bits = self._bits
        if bits is None:
            offsets = self._range_offsets()
            starts, ends, _, own = _ranges.overlaps(positions.ranges(), (offsets[:-1], offsets[1:] - 1))
            delta = self.ranges()[0][own] - offsets[own]
            return RowSet._of_ranges(starts + delta, ends + delta)
        starts, ends = positions.ranges()
        if self._is_few(2 * starts.size, positions._last - positions._first):
            parts = [self.slice(start, end + 1) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
            return RowSet.union_all(parts)
        low = positions._first
        return RowSet.from_sorted_keys(_roaring.window(bits, low, positions._last + 1)[positions.keys() - low])

    def invert(self, keys: RowSet) -> RowSet:
        """Give the positions of those keys. RowSetError when one of them is not in the set."""
        if not keys._size:
            return keys
        if self.is_contiguous:
            return keys.shift(-self._first) if self.is_superset(keys) else self._lacks(keys)
        own = self._own_keys()
        if own is not None:
            found = _find_in(own, keys.keys(), 0)
            return self._lacks(keys) if (found < 0).any() else RowSet.from_sorted_keys(found)
        bits = self._bits
        starts, ends = keys.ranges()
        if bits is None:
            own_starts = self.ranges()[0]
            starts, ends, _, own = _ranges.overlaps((starts, ends), self.ranges())
            if int((ends - starts).sum()) + starts.size != keys._size:
                return self._lacks(keys)
            delta = self._range_offsets()[own] - own_starts[own]
            return RowSet._of_ranges(*_ranges.join_adjacent(starts + delta, ends + delta))
        edges = np.concatenate((starts, ends))
        if keys._size > 2 * edges.size:  # long ranges: their edges say it all
            first, last = np.split(self.find(edges), 2)
            if (first < 0).any() or (last - first != ends - starts).any():
                return self._lacks(keys)
            return RowSet._of_ranges(*_ranges.join_adjacent(first, last))
        # A viewport of several windows: each is found by itself, without listing what lies between them.
        wanted = keys.keys()
        spacing = (self._last - self._first) // self._size + 1
        cuts = np.flatnonzero(np.diff(wanted) > _APART * spacing) + 1
        parts = np.split(wanted, cuts) if _FEW * cuts.size < wanted.size else [wanted]
        found = np.concatenate([self.find(part) for part in parts])
        return self._lacks(keys) if (found < 0).any() else RowSet.from_sorted_keys(found)

    def _lacks(self, keys: RowSet) -> RowSet:
        raise RowSetError(f"row key {(keys - self).first_key} is not in the row set, so it has no position")


def _find_in(listed: Keys, wanted: Keys, low: int) -> Keys:
    """Give the place of each of ``wanted`` in ``listed``, plus ``low``; -1 for one that is not there."""
    index = np.searchsorted(listed, wanted, "left")
    return np.where(listed[np.minimum(index, listed.size - 1)] == wanted, index + low, -1)


RowSet.EMPTY = RowSet()
