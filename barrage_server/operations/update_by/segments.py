"""Vectorised computations along segments and over ranges of a flat array.

A segment begins at each of ``starts``, which ascend from 0, and ends before the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from barrage_server.engine.plan import Int64Array
from barrage_server.engine.ranges import ranges_of

__all__ = ["Flags", "Numbers", "accumulate", "ends_of", "filled", "linear", "reduce_ranges", "squares_of_ranges"]

Numbers = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]

_REPEATED: Final = 8
"""Average reads per item, by overlapping ranges, from which on partial results pay."""
_FEW: Final = 1024


def ends_of(starts: Int64Array, size: int) -> Int64Array:
    """The end of each segment of an array of ``size`` items."""
    return np.append(starts[1:], size)[: len(starts)]


def filled(valid: Flags, starts: Int64Array) -> Int64Array:
    """The nearest valid item at or before each item of its segment; -1 without one."""
    size = len(valid)
    places = np.maximum.accumulate(np.where(valid, np.arange(size), -1)) if size else np.zeros(0, np.int64)
    first = np.zeros(size, np.int64)
    first[starts] = starts
    places[places < np.maximum.accumulate(first)] = -1
    return places


@np.errstate(invalid="ignore", over="ignore")
def accumulate(function: np.ufunc, values: Numbers, starts: Int64Array) -> Numbers:
    """``function`` of each item and all before it in its segment, left to right.

    The items of many segments are taken together, item by item. The rest of long segments is accumulated segment by
    segment.
    """
    found = values.copy()
    lengths = ends_of(starts, len(values)) - starts
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    longer = len(lengths)  # segments with more items than were taken
    taken = 1
    state = values[starts]
    while longer > taken:
        longer = int(np.searchsorted(-lengths, -taken))
        places = starts[:longer] + taken
        state = function(state[:longer], values[places])
        found[places] = state
        taken += 1
    for start, length in zip(starts[:longer].tolist(), lengths[:longer].tolist(), strict=True):
        if length > taken:
            part = found[start + taken - 1 : start + length]
            function.accumulate(part, out=part)
    return found


@np.errstate(invalid="ignore", over="ignore")
def linear(function: np.ufunc, factors: Numbers, terms: Numbers, starts: Int64Array) -> Numbers:
    """``x[i] = function(factors[i] * x[i - 1], terms[i])`` along each segment.

    The first item of a segment is its term.

    Args:
        function: ``add``, ``minimum`` or ``maximum``.
        factors: doubles from 0 to 1.
        terms: doubles.
        starts: where the segments begin.

    """
    size = len(terms)
    lengths = ends_of(starts, size) - starts
    longest = int(lengths.max(initial=0))
    if longest * longest > 4 * size + _FEW:
        return _linear_in_rows(function, factors, terms, starts)
    found = terms.astype(np.float64)
    order = np.argsort(-lengths, kind="stable")
    starts, lengths = starts[order], -lengths[order]
    state = found[starts]
    for taken in range(1, longest):
        longer = int(np.searchsorted(lengths, -taken))
        places = starts[:longer] + taken
        state = function(factors[places] * state[:longer], terms[places])
        found[places] = state
    return found


def _linear_in_rows(function: np.ufunc, factors: Numbers, terms: Numbers, starts: Int64Array) -> Numbers:
    """The same as :func:`linear`, for long segments.

    The items are arranged in rows of the square root of their number. All rows are computed together; then the state of
    each row is passed to the next.
    """
    size = len(terms)
    width = max(1, int(np.sqrt(size)))
    height = -(-size // width)
    padded = width * height
    begins: Flags = np.zeros(padded, np.bool_)
    begins[starts] = True
    begins[0] = True
    ratio: Numbers = np.zeros(padded)
    term: Numbers = np.zeros(padded)
    ratio[:size], term[:size] = factors, terms
    # a row of these is an item of all rows: neighbours in memory
    begins = np.ascontiguousarray(begins.reshape(height, width).T)
    ratio, term = (np.ascontiguousarray(each.reshape(height, width).T) for each in (ratio, term))
    local = np.empty((width, height))
    weight = np.empty((width, height))  # of what comes from the row before
    state = term[0]
    passed = np.where(begins[0], 0.0, ratio[0])
    goes_on = ~begins[0]
    open_ = np.empty((width, height), np.bool_)
    local[0], weight[0], open_[0] = state, passed, goes_on
    for item in range(1, width):
        state = np.where(begins[item], term[item], function(ratio[item] * state, term[item]))
        passed = passed * ratio[item]
        goes_on = goes_on & ~begins[item]
        local[item], weight[item], open_[item] = state, passed, goes_on
    carries = np.zeros(height)
    carry = 0.0
    is_open, ratios, lasts = goes_on.tolist(), passed.tolist(), state.tolist()
    for row in range(height):
        carries[row] = carry
        carry = float(function(_times(ratios[row], carry), lasts[row])) if is_open[row] else lasts[row]
    incoming = np.where(np.isfinite(carries), weight * carries, carries)
    found = np.where(open_, function(incoming, local), local)
    return np.ascontiguousarray(found.T).reshape(-1)[:size]


def _times(ratio: float, carry: float) -> float:
    """Their product; an infinite ``carry`` stays infinite."""
    return ratio * carry if np.isfinite(carry) else carry


@np.errstate(invalid="ignore", over="ignore")
def reduce_ranges(function: np.ufunc, values: Numbers, first: Int64Array, end: Int64Array) -> Numbers:
    """``function`` of the items of each range, of which none is empty.

    With much overlap, the result of a range is combined from two partial results: from the multiple of a power of two
    within the range, to its left and to its right ("disjoint sparse table").

    Ranges that overlap much are put together from two partial results each: from the multiple of a power of two within
    the range, to its left and to its right ("disjoint sparse table").
    """
    lengths = end - first
    if int(lengths.sum()) <= _REPEATED * len(values) + _FEW:
        bounds = np.empty(2 * len(first), np.int64)
        bounds[::2], bounds[1::2] = first, end
        return function.reduceat(np.append(values, values[:1]), bounds)[::2] if len(first) else values[:0]
    found = values[first]
    for level in _levels(len(values), first, end):
        right = function.accumulate(values[level.right], axis=1)
        left = function.accumulate(values[level.left], axis=1)
        found[level.ranges] = function(left[level.in_left], right[level.in_right])
    return found


@np.errstate(invalid="ignore", over="ignore")
def squares_of_ranges(values: Numbers, first: Int64Array, end: Int64Array) -> Numbers:
    """The sum of squared distances from the mean, for each non-empty range.

    Distances are first taken from an item of the range, so that large items elsewhere do not matter.
    """
    lengths = end - first
    sums, squares = np.zeros(len(first)), np.zeros(len(first))
    if int(lengths.sum()) <= _REPEATED * len(values) + _FEW:
        if len(first):
            distances = values[ranges_of(first, lengths)] - np.repeat(values[first], lengths)
            starts = np.cumsum(lengths) - lengths
            sums, squares = (np.add.reduceat(each, starts) for each in (distances, distances * distances))
    else:
        for level in _levels(len(values), first, end):
            middle = values[level.right[:, :1]]
            for places, own in ((level.right, level.in_right), (level.left, level.in_left)):
                distances = values[places] - middle
                sums[level.ranges] += np.add.accumulate(distances, axis=1)[own]
                squares[level.ranges] += np.add.accumulate(distances * distances, axis=1)[own]
    return np.maximum(squares - sums * sums / lengths, 0.0)


class _Level(NamedTuple):
    """The ranges that a multiple of a power of two divides, and none larger.

    The multiple lies behind the first item.

    Attributes:
        ranges: which ranges.
        left, right: for each of these multiples the places before it, nearest first, and those from it on.
        in_left, in_right: for each range, where its last item on that side is among them.

    """

    ranges: Int64Array
    left: Int64Array
    right: Int64Array
    in_left: tuple[Int64Array, Int64Array]
    in_right: tuple[Int64Array, Int64Array]


def _levels(size: int, first: Int64Array, end: Int64Array) -> Iterator[_Level]:
    """The ranges with more than one item, by the power of two."""
    last = end - 1
    powers = np.frexp((first ^ last).astype(np.float64))[1]
    longest = int((end - first).max(initial=0))
    for bits in np.unique(powers[powers > 0]).tolist():
        some = np.flatnonzero(powers == bits)
        middles, rows = np.unique(last[some] >> (bits - 1), return_inverse=True)
        middles = middles << (bits - 1)
        steps = np.arange(min(longest, 1 << (bits - 1)))
        middle = middles[rows]
        yield _Level(
            some,
            np.maximum(middles[:, None] - 1 - steps, 0),
            np.minimum(middles[:, None] + steps, size - 1),
            (rows, middle - 1 - first[some]),
            (rows, last[some] - middle),
        )
