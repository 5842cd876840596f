"""The least and the greatest numbers of runs, and their places."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from barrage_server.engine.plan import Int64Array
from barrage_server.operations.downsample.numbers import DoubleArray

__all__ = ["Extremes", "expanded", "first_places", "run_starts"]


class Extremes(NamedTuple):
    """The least and the greatest number of each part, and their first places.

    Without any number they are NaN and -1.
    """

    least: DoubleArray
    least_at: Int64Array
    greatest: DoubleArray
    greatest_at: Int64Array

    @classmethod
    def of(cls, values: DoubleArray, offsets: Int64Array) -> Extremes:
        """The extremes of non-empty runs of ``values`` that begin at ``offsets``."""
        lengths = np.diff(offsets, append=len(values))
        least, greatest = np.fmin.reduceat(values, offsets), np.fmax.reduceat(values, offsets)
        return cls(
            least,
            first_places(values == np.repeat(least, lengths), offsets, lengths),
            greatest,
            first_places(values == np.repeat(greatest, lengths), offsets, lengths),
        )

    @classmethod
    def none(cls, count: int) -> Extremes:
        """The extremes of parts without numbers."""
        nothing, nowhere = np.full(count, np.nan), np.full(count, -1, np.int64)
        return cls(nothing, nowhere, nothing.copy(), nowhere.copy())

    def put(self, parts: Int64Array, other: Extremes) -> None:
        """Combine with the extremes of some parts, each named once."""
        for values, places, found, at, sign in (
            (self.least, self.least_at, other.least, other.least_at, 1),
            (self.greatest, self.greatest_at, other.greatest, other.greatest_at, -1),
        ):
            old, old_at = values[parts], places[parts]
            better = (at >= 0) & ((old_at < 0) | (sign * found < sign * old) | ((found == old) & (at < old_at)))
            values[parts[better]] = found[better]
            places[parts[better]] = at[better]


def first_places(
    hits: np.ndarray[tuple[int], np.dtype[np.bool_]], offsets: Int64Array, lengths: Int64Array
) -> Int64Array:
    """The place of the first hit in each run, or -1."""
    places = np.append(np.flatnonzero(hits), len(hits))
    found: Int64Array = places[np.searchsorted(places, offsets)]
    found[found >= offsets + lengths] = -1
    return found


def expanded(starts: Int64Array, lengths: Int64Array) -> Int64Array:
    """The numbers of ranges, concatenated."""
    offsets = np.cumsum(lengths) - lengths
    found: Int64Array = np.arange(int(lengths.sum()), dtype=np.int64) + np.repeat(starts - offsets, lengths)
    return found


def run_starts(values: Int64Array) -> Int64Array:
    """The places at which runs of equal values begin, of at least one value."""
    found: Int64Array = np.append(0, np.flatnonzero(values[1:] != values[:-1]) + 1)
    return found
