"""One segment of scattered keys, as a roaring bitmap of their lowest bits."""

from __future__ import annotations

from array import array
from itertools import islice
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap

from barrage_server.rowset._ranges import Keys

BITS: Final = 18
"""A segment covers ``2**BITS`` keys. More make small changes copy more; fewer make large sets have more segments."""
WIDTH: Final = 1 << BITS
LAST: Final = WIDTH - 1
FULL: Final = BitMap(range(WIDTH))
WALK: Final = 1024
"""The most neighbouring keys that are iterated over, rather than listed with their whole segment."""

Part: TypeAlias = Any  # a BitMap; the library has no types
Parts: TypeAlias = npt.NDArray[np.object_]
Lows: TypeAlias = npt.NDArray[np.uint32]
Integers: TypeAlias = npt.NDArray[np.integer[Any]]


def union(one: Part, two: Part) -> Part:
    """Return the keys in either.

    A part that both sets share is kept as it is. Parts with all keys are ``FULL``, here and below.
    """
    return one if one is two else FULL if one is FULL or two is FULL else one | two


def intersection(one: Part, two: Part) -> Part:
    """Return the keys in both."""
    return two if one is FULL or one is two else one if two is FULL else one & two


def difference(one: Part, two: Part) -> Part:
    """Return the keys of the first that the second lacks."""
    return BitMap() if two is FULL or one is two else one - two


def search(listed: Lows, wanted: Keys) -> Integers:
    """Return for each of ``wanted`` how many of the sorted ``listed`` are below it."""
    return listed.searchsorted(wanted.astype(np.uint32), "left")


def take(listed: Lows, positions: Keys) -> Integers:
    """Return the key at each position."""
    return listed[positions]


def rank(part: Part, low: int) -> int:
    """Return how many keys are strictly below ``low``."""
    return int(part.rank(low - 1)) if low else 0


def find(part: Part, low: int) -> int:
    """Return the position of ``low``; -1 when it is missing."""
    return int(part.rank(low)) - 1 if low in part else -1


def list_keys(part: Part) -> Lows:
    """Return all keys (uint32, increasing)."""
    return np.frombuffer(part.to_array(), np.uint32)


def window(part: Part, begin: int, stop: int) -> Keys:
    """Return the keys of a part at positions begin..stop-1."""
    count = stop - begin
    if count > WALK:
        return list_keys(part)[begin:stop].astype(np.int64)
    return np.fromiter(islice(part.iter_equal_or_larger(part[begin]), count), np.int64, count)


def of_keys(lows: Lows) -> Part:
    """Return the part with these increasing keys."""
    buffer = array("I")
    buffer.frombytes(lows.tobytes())
    return BitMap(buffer)


def of_ranges(starts: Keys, ends: Keys) -> Part:
    """Return the part with these ranges, given by the lowest bits of their keys."""
    if starts.size == 1:
        return BitMap(range(int(starts[0]), int(ends[0]) + 1))
    part = BitMap()
    for first, last in zip(starts.tolist(), ends.tolist(), strict=True):
        part.add_range(first, last + 1)
    return part


def sizes(parts: Parts) -> Keys:
    """Return the number of keys of each part."""
    return np.fromiter(map(len, parts), np.int64, parts.size)


def find_in(listed: Integers, wanted: Keys) -> Keys:
    """Return the index of each of ``wanted`` in the sorted ``listed``; -1 if missing.

    ``listed`` is not empty.
    """
    index = listed.searchsorted(wanted.astype(listed.dtype, copy=False), "left")
    return np.where(listed[np.minimum(index, listed.size - 1)] == wanted, index, -1)
