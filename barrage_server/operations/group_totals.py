"""Sums of floats by group, from which numbers can be removed again.

A sum is kept as two or three doubles, each of which holds what the ones before it cannot (some 106 or 159 bits). So the
rest after a removal does not depend on the size of the removed numbers. The numbers of one change are first summed by
group without any rounding: each is split into parts that are multiples of one power of two (Rump, Ogita and Oishi,
"Accurate floating-point summation", 2008), whose sums are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from barrage_server.engine.memory import GrowingArray
from barrage_server.engine.plan import Int64Array

__all__ = ["DoubleArray", "Doubles", "GroupArray", "GroupTotals", "divided", "exact_exchange", "product", "two_product"]

DoubleArray = npt.NDArray[np.float64]
Doubles = tuple[DoubleArray, DoubleArray]
"""Numbers as sums of two doubles each."""

_LARGE = 2.0**900  # sums of larger numbers may exceed the range of a double, although later ones bring them back
_SCALE = 2.0**-128
_SPLITTER = float((1 << 27) + 1)


class GroupArray:
    """A number for each group, initially zero.

    Args:
        dtype: the type of the numbers.

    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._array = GrowingArray(0, dtype)

    @property
    def array(self) -> npt.NDArray[Any]:
        """The numbers in the order of groups.

        The array is valid until :meth:`reserve` or :meth:`pack` is called.
        """
        return self._array.array

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers."""
        return self._array.nbytes

    def reserve(self, count: int) -> None:
        """Make room for at least ``count`` groups."""
        there = len(self._array.array)
        if count > there:
            self._array.resize(max(count, there + (there >> 1), 16))

    def pack(self, living: Int64Array) -> None:
        """Keep only the numbers of the groups ``living``, ascending, renumbered from 0.

        Groups that came since the last :meth:`reserve` have zero.
        """
        if len(living):
            self.reserve(int(living[-1]) + 1)
        kept = self.array[living]
        self._array = GrowingArray(len(kept), kept.dtype)
        self._array.array[:] = kept


class GroupTotals:
    """The sum of the numbers of each group.

    NaN and infinities are counted, so that they can be removed, too.

    Args:
        words: the doubles of each sum, of 53 bits each. A change is rounded to what they hold, counted from the largest
            number that was there.

    """

    def __init__(self, words: int = 2) -> None:
        self._words = [GroupArray(np.float64) for _ in range(words)]
        self._nans = GroupArray(np.int64)
        self._infinite: dict[float, GroupArray] = {}  # how many, by sign
        self._large: GroupTotals | None = None  # of large numbers, in units of 1 / _SCALE
        self._has_nans = False
        self._groups = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the sums."""
        large = 0 if self._large is None else self._large.nbytes
        return int(large + sum(part.nbytes for part in self._parts()))

    def reserve(self, count: int) -> None:
        """Make room for at least ``count`` groups."""
        self._groups = max(self._groups, count)
        for part in self._parts():
            part.reserve(count)
        if self._large is not None:
            self._large.reserve(count)

    def pack(self, living: Int64Array) -> None:
        """Keep only the sums of the groups ``living``, renumbered from 0."""
        self._groups = len(living)
        for part in self._parts():
            part.pack(living)
        if self._large is not None:
            self._large.pack(living)

    def change(self, groups: Int64Array, places: Int64Array, values: DoubleArray, sign: int) -> None:
        """Add or remove numbers.

        Args:
            groups: the groups concerned, different from each other.
            places: for each number, the position of its group in ``groups``.
            values: the numbers.
            sign: 1 to add, -1 to take away.

        """
        largest = _largest(values)
        if not largest < _LARGE:
            places, values = self._change_unusual(groups, places, values, sign)
            largest = _largest(values)
        self.add(groups, _exact_sums(places, -values if sign < 0 else values, len(groups), largest))

    def add(self, groups: Int64Array, parts: Sequence[DoubleArray]) -> None:
        """Add numbers to the sums of ``groups``.

        Args:
            groups: the groups, different from each other.
            parts: arrays with an entry for each group, which are added up. Of two, the second has what the first cannot
                hold.

        """
        sums = [word.array[groups] for word in self._words]
        if len(sums) == len(parts) == 2:
            sums = _sum_of_pairs(sums, parts)
        else:
            for part in parts:
                sums = _plus(sums, part)
        for word, found in zip(self._words, sums, strict=True):
            word.array[groups] = found

    def _change_unusual(
        self, groups: Int64Array, places: Int64Array, values: DoubleArray, sign: int
    ) -> tuple[Int64Array, DoubleArray]:
        """Apply NaN, infinities and large numbers.

        Returns the places and values of the other numbers.
        """
        finite = np.isfinite(values)
        if not finite.all():
            self._change_others(groups, places[~finite], values[~finite], sign)
            places, values = places[finite], values[finite]
        large = np.abs(values) >= _LARGE
        if large.any():
            if self._large is None:
                self._large = GroupTotals(len(self._words))
                self._large.reserve(self._groups)
            self._large.change(groups, places[large], values[large] * _SCALE, sign)
            places, values = places[~large], values[~large]
        return places, values

    def clear(self, groups: Int64Array) -> None:
        """Set the sums of ``groups`` to zero: they have no numbers left."""
        for part in self._parts():
            part.array[groups] = 0
        if self._large is not None:
            self._large.clear(groups)

    def doubles(self, groups: Int64Array) -> Doubles:
        """The sums of the finite numbers of ``groups``."""
        words = [word.array[groups] for word in self._words]
        if self._large is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                large = [part / _SCALE for part in self._large.doubles(groups)]
                near = words[0] + large[0]
                for part in large:
                    words = _plus(words, part)
            beyond = ~np.isfinite(near)
            words[0][beyond] = near[beyond]
            for word in words[1:]:
                word[beyond] = 0
        return words[0], words[1]

    def sums(self, groups: Int64Array) -> DoubleArray:
        """The sums of ``groups``.

        They are NaN with a NaN, and with infinities of both signs.
        """
        found: DoubleArray
        if self._large is None:
            found = self._words[0].array[groups]  # the others have what it cannot hold
        else:
            high, low = self.doubles(groups)
            with np.errstate(over="ignore"):
                found = high + low
        for infinity, numbers in self._infinite.items():
            there = numbers.array[groups] > 0
            meet = np.isnan(found[there]) | (found[there] == -infinity)
            found[there] = np.where(meet, np.nan, infinity)
        if self._has_nans:
            found[self._nans.array[groups] > 0] = np.nan
        return found

    def others(self, groups: Int64Array) -> npt.NDArray[np.bool_]:
        """Which of ``groups`` have numbers that are not finite."""
        found = self._nans.array[groups] > 0 if self._has_nans else np.zeros(len(groups), np.bool_)
        for numbers in self._infinite.values():
            found |= numbers.array[groups] > 0
        return found

    def _parts(self) -> list[GroupArray]:
        return [*self._words, *([self._nans] if self._has_nans else ()), *self._infinite.values()]

    def _change_others(self, groups: Int64Array, places: Int64Array, values: DoubleArray, sign: int) -> None:
        nans = np.isnan(values)
        if nans.any():
            self._has_nans = True
            self._nans.reserve(self._groups)
            self._nans.array[groups] += sign * np.bincount(places[nans], minlength=len(groups))
        for infinity in (np.inf, -np.inf):
            those = values == infinity
            if those.any():
                numbers = self._infinite.setdefault(infinity, GroupArray(np.int64))
                numbers.reserve(self._groups)
                numbers.array[groups] += sign * np.bincount(places[those], minlength=len(groups))


def exact_exchange(places: Int64Array, groups: int, old: DoubleArray, new: DoubleArray) -> Sequence[DoubleArray] | None:
    """What sums change by where new numbers replace old ones, without rounding.

    Args:
        places: for each number, the place of its group.
        groups: the number of groups.
        old: the former numbers.
        new: the present numbers.

    Returns:
        The parts for :meth:`GroupTotals.add`. ``None`` if a number is not finite, or too large for this.

    """
    values = np.concatenate((old, new))
    largest = _largest(values)
    if not largest < _LARGE:
        return None
    np.negative(old, out=values[: len(old)])
    return _exact_sums(np.concatenate((places, places)), values, groups, largest)


def two_product(first: DoubleArray, second: DoubleArray) -> Doubles:
    """The exact products of doubles, as two doubles each.

    They are exact while they are within the range of a double.
    """
    result = first * second
    first_high, second_high = _upper_half(first), _upper_half(second)
    first_low, second_low = first - first_high, second - second_high
    rest = ((first_high * second_high - result) + first_high * second_low + first_low * second_high) + (
        first_low * second_low
    )
    return result, rest


def product(first: Doubles, second: Doubles) -> Doubles:
    """The products of numbers of two doubles each."""
    high, low = two_product(first[0], second[0])
    return _normal(high, low + (first[0] * second[1] + first[1] * second[0]))


def divided(number: Doubles, by: DoubleArray) -> Doubles:
    """Quotients of numbers of two doubles by doubles."""
    high = number[0] / by
    back, rest = two_product(high, by)
    low = ((number[0] - back) - rest + number[1]) / by
    return _normal(high, low)


def _plus(words: list[DoubleArray], part: DoubleArray) -> list[DoubleArray]:
    """Add a double to sums of several doubles."""
    found = []
    for word in words:
        total, part = _normal(word, part)
        found.append(total)
    found[-1] = found[-1] + part
    for place in range(len(found) - 1, 0, -1):  # each is again what those before it do not hold
        found[place - 1], found[place] = _normal(found[place - 1], found[place])
    return found


def _sum_of_pairs(first: Sequence[DoubleArray], second: Sequence[DoubleArray]) -> list[DoubleArray]:
    """Sums of numbers of two doubles each.

    The error is about 3 * 2**-106 of the sum at most (Joldes, Muller and Popescu, "Tight and rigorous error bounds for
    basic building blocks of double-word arithmetic", 2017, algorithm 6).
    """
    high, rest = _normal(first[0], second[0])
    low, least = _normal(first[1], second[1])
    high, low = _ordered_normal(high, rest + low)
    return list(_ordered_normal(high, least + low))


def _ordered_normal(first: DoubleArray, second: DoubleArray) -> Doubles:
    """:func:`_normal` where no number of ``second`` is larger than that of ``first``."""
    total = first + second
    return total, second - (total - first)


def _normal(first: DoubleArray, second: DoubleArray) -> Doubles:
    """Sums of two doubles each, with the rounding error of the first (Knuth)."""
    total = first + second
    shown = total - first
    return total, (first - (total - shown)) + (second - shown)


def _upper_half(values: DoubleArray) -> DoubleArray:
    scaled = _SPLITTER * values
    upper: DoubleArray = scaled - (scaled - values)
    return upper


def _largest(values: DoubleArray) -> float:
    """The greatest magnitude; 0 without values, and NaN if there is a NaN."""
    return float(np.maximum.reduce(np.abs(values), initial=0.0))


def _exact_sums(places: Int64Array, values: DoubleArray, count: int, largest: float) -> Sequence[DoubleArray]:
    """The sums of ``values`` by place, as several arrays of exact parts.

    Each array has ``count`` entries. The sum of the arrays is the sum of the values, without rounding. Of two arrays,
    the second has what the first cannot hold.
    """
    parts: list[DoubleArray] = []
    bits = int(len(values) + 2).bit_length()
    while largest:
        sigma = math.ldexp(1.0, math.frexp(largest)[1] + bits)
        upper = (values + sigma) - sigma
        parts.append(np.bincount(places, upper, count).astype(np.float64, copy=False))
        values = values - upper
        left = np.count_nonzero(values)
        if not left:
            break
        if left < len(values) // 2:
            places, values = places[values != 0], values[values != 0]
        largest = _largest(values)
    return _normal(*parts) if len(parts) == 2 else parts
