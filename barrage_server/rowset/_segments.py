"""Segments of scattered keys: aligned blocks of ``2**18``, as roaring bitmaps.

A set operation makes only the segments in which both sets have keys, and shares the others, so that a small change of a
large set costs the segments that it touches. The number of keys before each segment is known, so that a position is
found within one segment.

Measured with pyroaring 1.2: making a bitmap of a few keys takes 1.5 µs, of a range 1 µs, of many keys 13 ns each.
Listing the keys of a segment takes 3 to 20 µs. A rank or an index takes 3 µs where blocks of 65536 keys are dense, and
0.15 µs where they have at most 4096 keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from operator import xor
from typing import Any, Final

import numpy as np
from pyroaring import BitMap

from barrage_server.rowset import _part, _ranges
from barrage_server.rowset._part import BITS, FULL, LAST, WALK, WIDTH, Integers, Lows, Part, Parts
from barrage_server.rowset._ranges import NO_KEYS, Keys, Mask, RangeList

_RUN: Final = 5  # least mean length of ranges for which adding ranges is faster than listing keys
_BY_HAND: Final = 32  # most ranges for which plain Python is faster than arrays
_FEW: Final = 4  # most look-ups for which plain Python is faster than arrays
_FEW_LOOK_UPS: Final = 16  # most look-ups that are always made one by one
_DENSE: Final = 1 << 14  # least keys of a segment whose containers are probably bitsets
_NO_PART: Final = BitMap()


class Segments:
    """Immutable row keys; only results of operations may be empty.

    Attributes:
        numbers: the upper bits of the keys of each segment that has keys (int64, increasing).
        parts: the lowest bits of the keys of each segment, as an array of bitmaps, none of which is empty.
        offsets: the number of keys before each segment and, at the end, the number of all keys (int64).

    """

    __slots__ = ("numbers", "offsets", "parts")

    def __init__(self, numbers: Keys, parts: Parts, counts: Keys) -> None:
        """Keep the segments with keys, of which ``counts`` has the numbers."""
        if not counts.all():
            kept = np.flatnonzero(counts)
            numbers, parts, counts = numbers[kept], parts[kept], counts[kept]
        self.numbers, self.parts = numbers, parts
        self.offsets = np.zeros(counts.size + 1, np.int64)
        np.cumsum(counts, out=self.offsets[1:])

    @classmethod
    def _of(cls, numbers: Keys, parts: Iterable[Part]) -> Segments:
        made = np.fromiter(parts, np.object_, numbers.size)
        return cls(numbers, made, _part.sizes(made))

    @classmethod
    def from_keys(cls, keys: Keys) -> Segments:
        """Return the segments of strictly increasing keys."""
        numbers = keys >> BITS
        edges = _edges(numbers)
        lows = (keys & LAST).astype(np.uint32)
        return cls._of(numbers[edges[:-1]], (_part.of_keys(lows[begin:stop]) for begin, stop in _pairs(edges)))

    @classmethod
    def from_ranges(cls, starts: Keys, ends: Keys, within: Keys | None = None) -> Segments:
        """Return the segments of ranges.

        Args:
            starts: first keys.
            ends: last keys.
            within: increasing numbers of segments; others may be left out.

        """
        counts = (ends >> BITS) - (starts >> BITS) + 1
        if int(counts.sum()) <= _BY_HAND:
            return cls._by_hand(starts.tolist(), ends.tolist())
        if within is None:
            own = np.repeat(np.arange(starts.size), counts)
            numbers = np.arange(own.size) + np.repeat((starts >> BITS) - (np.cumsum(counts) - counts), counts)
            starts, ends = np.maximum(starts[own], numbers << BITS), np.minimum(ends[own], numbers << BITS | LAST)
        else:
            starts, ends, _, own = _ranges.overlaps((starts, ends), (within << BITS, within << BITS | LAST))
            numbers = within[own]
        if int((ends - starts).sum()) < _RUN * starts.size:
            return cls.from_keys(_ranges.expand(starts, ends))
        edges = _edges(numbers)
        counts = np.add.reduceat(ends - starts + 1, edges[:-1])
        lows, highs = starts & LAST, ends & LAST
        parts = np.empty(counts.size, np.object_)
        parts.fill(FULL)
        for place in np.flatnonzero(counts < WIDTH).tolist():
            begin, stop = edges[place : place + 2].tolist()
            parts[place] = _part.of_ranges(lows[begin:stop], highs[begin:stop])
        return cls(numbers[edges[:-1]], parts, counts)

    @classmethod
    def _by_hand(cls, starts: list[int], ends: list[int]) -> Segments:
        parts: dict[int, Part] = {}
        for start, end in zip(starts, ends, strict=True):
            for number in range(start >> BITS, (end >> BITS) + 1):
                low, high = max(start - (number << BITS), 0), min(end - (number << BITS), LAST)
                if high - low == LAST:
                    parts[number] = FULL
                else:
                    parts.setdefault(number, BitMap()).add_range(low, high + 1)
        return cls._of(np.array(list(parts), np.int64), parts.values())

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """The number of keys."""
        return self.offsets.item(-1)

    @property
    def first(self) -> int:
        """The smallest key."""
        return (self.numbers.item(0) << BITS) + int(self.parts[0].min())

    @property
    def last(self) -> int:
        """The largest key."""
        return (self.numbers.item(-1) << BITS) + int(self.parts[-1].max())

    def keys(self) -> Keys:
        """Return all keys, as a new array."""
        keys = np.empty(self.size, np.int64)
        for number, part, (begin, stop) in zip(self.numbers.tolist(), self.parts, _pairs(self.offsets), strict=True):
            np.add(_part.list_keys(part), np.int64(number << BITS), out=keys[begin:stop])
        return keys

    def ranges(self) -> RangeList:
        """Return the ranges; keys within long ranges are never listed."""
        starts = Segments._of(self.numbers, (part - part.shift(1) for part in self.parts))
        ends = Segments._of(self.numbers, (part - part.shift(-1) for part in self.parts))
        first, last, edges = starts.keys(), ends.keys(), starts.offsets[1:-1]
        joined = edges[first[edges] - 1 == last[edges - 1]]  # ranges that continue in the next segment
        return (np.delete(first, joined), np.delete(last, joined - 1)) if joined.size else (first, last)

    def range_count(self) -> int:
        """Return the number of ranges, which is that of keys without a predecessor."""
        parts = self.parts
        adjacent = np.flatnonzero(np.diff(self.numbers) == 1).tolist()
        joined = sum(LAST in parts[place] and 0 in parts[place + 1] for place in adjacent)
        return self.size - joined - int(sum(part.intersection_cardinality(part.shift(1)) for part in parts))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Segments)
            and np.array_equal(self.numbers, other.numbers)
            and np.array_equal(self.offsets, other.offsets)
            and all(mine is theirs or mine == theirs for mine, theirs in zip(self.parts, other.parts, strict=True))
        )

    # -- set operations -----------------------------------------------------------------------------------------------

    def _common(self, other: Segments) -> tuple[Keys, Keys]:
        """Return the places of the common segments, here and in ``other``."""
        if other.numbers.size > self.numbers.size:
            theirs, mine = other._common(self)
            return mine, theirs
        if not other.numbers.size:
            return NO_KEYS, NO_KEYS
        place = self.numbers.searchsorted(other.numbers)
        theirs = np.flatnonzero(self.numbers[np.minimum(place, self.numbers.size - 1)] == other.numbers)
        return place[theirs], theirs

    def _replaced(self, places: Keys, parts: Iterable[Part]) -> tuple[Parts, Keys]:
        """Return all parts, with ``parts`` at ``places``, and the number of keys of each."""
        made = np.fromiter(parts, np.object_, places.size)
        all_parts, counts = self.parts.copy(), np.diff(self.offsets)
        all_parts[places], counts[places] = made, _part.sizes(made)
        return all_parts, counts

    def __or__(self, other: Segments) -> Segments:
        if self.numbers.size < other.numbers.size:
            return other | self
        mine, theirs = self._common(other)
        parts, counts = self._replaced(mine, map(_part.union, self.parts[mine], other.parts[theirs]))
        return self._with_new(parts, counts, other, theirs)

    def _with_new(self, parts: Parts, counts: Keys, other: Segments, common: Keys) -> Segments:
        """Return segments with other parts, and those that only ``other`` has.

        Args:
            parts: the parts of this set's segments.
            counts: their sizes.
            other: another set.
            common: the places there of the segments that both have.

        """
        if common.size == other.numbers.size:
            return Segments(self.numbers, parts, counts)
        new = np.ones(other.numbers.size, np.bool_)
        new[common] = False
        at = self.numbers.searchsorted(other.numbers[new])
        return Segments(
            np.insert(self.numbers, at, other.numbers[new]),
            np.insert(parts, at, other.parts[new]),
            np.insert(counts, at, np.diff(other.offsets)[new]),
        )

    def __and__(self, other: Segments) -> Segments:
        mine, theirs = self._common(other)
        return Segments._of(self.numbers[mine], map(_part.intersection, self.parts[mine], other.parts[theirs]))

    def __sub__(self, other: Segments) -> Segments:
        mine, theirs = self._common(other)
        return Segments(
            self.numbers, *self._replaced(mine, map(_part.difference, self.parts[mine], other.parts[theirs]))
        )

    def __xor__(self, other: Segments) -> Segments:
        if self.numbers.size < other.numbers.size:
            return other ^ self
        mine, theirs = self._common(other)
        parts, counts = self._replaced(mine, map(xor, self.parts[mine], other.parts[theirs]))
        return self._with_new(parts, counts, other, theirs)

    def toggled(self, keys: Keys) -> Segments:
        """Return the symmetric difference with a few strictly increasing keys."""
        lows, number = keys.tolist(), self.numbers.item(0)
        if self.numbers.size == 1 and lows[0] >> BITS == number == lows[-1] >> BITS:
            return self._toggled_one(lows if not number else [low & LAST for low in lows])
        numbers = keys >> BITS
        edges = np.zeros(1, np.int64) if numbers[0] == numbers[-1] else _edges(numbers)[:-1]
        numbers = numbers[edges]
        places = self.numbers.searchsorted(numbers)
        if places[-1] == self.numbers.size or (self.numbers[places] != numbers).any():  # a segment comes
            return self ^ Segments.from_keys(keys)
        lows = (keys & LAST).tolist()
        pairs = pairwise([*edges.tolist(), keys.size])
        toggles = [BitMap(lows[begin:stop]) for begin, stop in pairs]
        return Segments(self.numbers, *self._replaced(places, map(xor, self.parts[places], toggles)))

    def _toggled_one(self, lows: list[int]) -> Segments:
        """Return the symmetric difference of one segment with a few keys of it."""
        parts = np.empty(1, np.object_)
        parts[0] = part = self.parts[0] ^ BitMap(lows)
        made = Segments.__new__(Segments)
        made.numbers, made.parts, made.offsets = self.numbers, parts, np.array((0, len(part)), np.int64)
        return made

    def _place(self, number: int) -> int | None:
        """Return the place of a segment; None when it has no keys."""
        place = int(self.numbers.searchsorted(number)) if self.numbers.size > 1 else 0
        return place if place < self.numbers.size and self.numbers[place] == number else None

    def _part(self, number: int) -> Part:
        """Return a segment's keys, of which there may be none."""
        place = self._place(number)
        return _NO_PART if place is None else self.parts[place]

    def is_disjoint(self, other: Segments) -> bool:
        """Whether no key is in both."""
        mine, theirs = self._common(other)
        return all(one.isdisjoint(two) for one, two in zip(self.parts[mine], other.parts[theirs], strict=True))

    def is_superset(self, other: Segments) -> bool:
        """Whether all keys of ``other`` are here."""
        mine, theirs = self._common(other)
        return theirs.size == other.numbers.size and all(
            one is two or one.issuperset(two) for one, two in zip(self.parts[mine], other.parts, strict=True)
        )

    # -- parts --------------------------------------------------------------------------------------------------------

    def restrict(self, first: int, last: int) -> Segments:
        """Return the keys within first..last."""
        low, high = self.numbers.searchsorted([first >> BITS, (last >> BITS) + 1]).tolist()
        numbers, parts, counts = (
            self.numbers[low:high],
            self.parts[low:high].copy(),
            np.diff(self.offsets[low : high + 1]),
        )
        for place in {0, numbers.size - 1} if numbers.size else ():
            base = int(numbers[place]) << BITS
            parts[place] = part = parts[place] & BitMap(range(max(first - base, 0), min(last - base, LAST) + 1))
            counts[place] = len(part)
        return Segments(numbers, parts, counts)

    def shift(self, delta: int) -> Segments:
        """Return each key plus ``delta``; a multiple of the width shares the parts."""
        numbers, rest = self.numbers + (delta >> BITS), delta & LAST
        if not rest:
            return Segments(numbers, self.parts, np.diff(self.offsets))
        leaves = BitMap(range(WIDTH - rest, WIDTH))
        moved: dict[int, Part] = {}
        for number, part in zip(numbers.tolist(), self.parts, strict=True):
            low = part.shift(rest)
            low.remove_range(WIDTH, 2 * WIDTH)
            if number in moved:
                low |= moved[number]
            moved[number], moved[number + 1] = low, (part & leaves).shift(rest - WIDTH)
        return Segments._of(np.array(list(moved), np.int64), moved.values())

    # -- positions ----------------------------------------------------------------------------------------------------

    def at(self, position: int) -> int:
        """Return the key at a position."""
        place = int(self.offsets.searchsorted(position, "right")) - 1
        return (int(self.numbers[place]) << BITS) + int(self.parts[place][position - int(self.offsets[place])])

    def window(self, start: int, stop: int) -> Keys:
        """Return the keys at one or more positions start..stop-1."""
        found = []
        place = int(self.offsets.searchsorted(start, "right")) - 1
        while start < stop:
            before, after = int(self.offsets[place]), int(self.offsets[place + 1])
            lows = _part.window(self.parts[place], start - before, min(stop, after) - before)
            found.append(lows + (int(self.numbers[place]) << BITS))
            start, place = after, place + 1
        return found[0] if len(found) == 1 else np.concatenate(found)

    def select(self, positions: Keys) -> Keys:
        """Return the key at each position."""
        place = self.offsets.searchsorted(positions, "right") - 1
        lows = self._look_up(place, positions - self.offsets[place], BitMap.__getitem__, _part.take)
        return lows + (self.numbers[place] << BITS)

    def rank(self, keys: Keys) -> Keys:
        """Return for each key how many keys are strictly below it."""
        if keys.size <= _FEW:
            return np.array([self._rank(key) for key in keys.tolist()], np.int64)
        place, here = self._places(keys)
        ranks = self.offsets[place]
        ranks[here] += self._look_up(place[here], keys[here] & LAST, _part.rank, _part.search)
        return ranks

    def find(self, keys: Keys) -> Keys:
        """Return the position of each key; -1 for a missing one."""
        if keys.size <= _FEW:
            return np.array([self._rank(key) if self.holds(key) else -1 for key in keys.tolist()], np.int64)
        place, here = self._places(keys)
        place = place[here]
        found = np.full(keys.size, -1, np.int64)
        inside = self._look_up(place, keys[here] & LAST, _part.find, _part.find_in)
        found[here] = np.where(inside < 0, -1, inside + self.offsets[place])
        return found

    def _rank(self, key: int) -> int:
        place = int(self.numbers.searchsorted(key >> BITS))
        before = int(self.offsets[place])
        if place == self.numbers.size or self.numbers[place] != key >> BITS:
            return before
        return before + _part.rank(self.parts[place], key & LAST)

    def holds(self, key: int) -> bool:
        """Whether a key is here."""
        place = self._place(key >> BITS)
        return place is not None and key & LAST in self.parts[place]

    def contains(self, keys: Keys) -> Mask:
        """Return for each key whether it is here."""
        if keys.size > max(WALK, self.size // 64):
            return self.find(keys) >= 0
        if keys.size <= _BY_HAND:
            return np.array(self._each_contained(keys.tolist()), np.bool_)
        place, present = self._places(keys)
        found = np.zeros(keys.size, np.bool_)
        parts = self.parts[place[present]].tolist()
        found[present] = [low in part for part, low in zip(parts, (keys[present] & LAST).tolist(), strict=True)]
        return found

    def _each_contained(self, keys: list[int]) -> list[bool]:
        """Return for each of one or more keys whether it is here."""
        number = keys[0] >> BITS
        part = self._part(number)
        if max(keys) >> BITS == number == min(keys) >> BITS:
            return [key & LAST in part for key in keys]
        found = []
        for key in keys:
            if key >> BITS != number:
                number = key >> BITS
                part = self._part(number)
            found.append(key & LAST in part)
        return found

    def _places(self, keys: Keys) -> tuple[Keys, Keys]:
        """Return the place of the segment of each key, or of the next one.

        Returns:
            The places, and the indices of the keys that have a segment.

        """
        numbers = keys >> BITS
        place = self.numbers.searchsorted(numbers)
        return place, np.flatnonzero(self.numbers[np.minimum(place, self.numbers.size - 1)] == numbers)

    def _look_up(
        self,
        places: Keys,
        wanted: Keys,
        one: Callable[[Part, int], int],
        many: Callable[[Lows, Keys], Integers],
    ) -> Integers:
        """Look up each of ``wanted`` in the part at its place.

        Args:
            places: places of parts.
            wanted: low bits of keys, or positions within the part.
            one: looks up one of ``wanted`` in a part.
            many: looks up some of ``wanted`` in the listed keys of a part.

        """
        if places.size <= _FEW_LOOK_UPS:
            return np.array(list(map(one, self.parts[places].tolist(), wanted.tolist())), np.int64)
        if (places == places[0]).all() and _is_listed(wanted.size, len(self.parts[places[0]])):
            return many(_part.list_keys(self.parts[places[0]]), wanted)  # the usual case for a viewport
        found = np.empty(places.size, np.int64)
        counts = np.bincount(places, minlength=self.numbers.size)
        is_listed = _is_listed(counts, np.diff(self.offsets))[places]
        singles, listed = np.flatnonzero(~is_listed), np.flatnonzero(is_listed)
        found[singles] = list(map(one, self.parts[places[singles]].tolist(), wanted[singles].tolist()))
        if listed.size:
            listed = listed[np.argsort(places[listed], kind="stable")]
            for begin, stop in _pairs(_edges(places[listed])):
                chosen = listed[begin:stop]
                found[chosen] = many(_part.list_keys(self.parts[places[chosen[0]]]), wanted[chosen])
        return found


def _is_listed(lookups: Any, size: Any) -> Any:
    """Whether listing the ``size`` keys of a part costs less than single look-ups."""
    return lookups * np.where(size > _DENSE, 3000, 150) > 8000 + size // 8


def _edges(numbers: Keys) -> Keys:
    """Return where runs of equal numbers begin, then the number of numbers."""
    if not numbers.size:
        return np.zeros(1, np.int64)
    return np.concatenate(([0], np.flatnonzero(numbers[1:] != numbers[:-1]) + 1, [numbers.size]))


def _pairs(edges: Keys) -> Iterable[tuple[int, int]]:
    return pairwise(edges.tolist())
