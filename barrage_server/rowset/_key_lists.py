"""Set operations on few keys, as strictly increasing int64 arrays.

They are faster than operations on ranges.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from barrage_server.rowset._ranges import Keys, Mask

MOST: Final = 1 << 13
"""The most keys, of both operands together, whose lists are used."""


def union(*parts: Keys) -> Keys:
    """Return the keys of one or more parts."""
    keys = np.concatenate(parts)
    keys.sort(kind="stable")  # merges sorted runs in linear time
    differs = keys[1:] != keys[:-1]
    return keys if differs.all() else keys[np.concatenate(([True], differs))]


def intersection(a: Keys, b: Keys) -> Keys:
    """Return the keys in both; the smaller array itself if it has no others."""
    few, many = (a, b) if a.size <= b.size else (b, a)
    there = _among(few, many)
    return few if there.all() else few[there]


def difference(a: Keys, b: Keys) -> Keys:
    """Return the keys of ``a`` that ``b`` lacks; ``a`` itself if ``b`` lacks all."""
    if b.size > a.size:
        there = _among(a, b)
        return a[~there] if there.any() else a
    places = a.searchsorted(b)
    places = places[a[np.minimum(places, a.size - 1)] == b]
    if not places.size:
        return a
    left = np.ones(a.size, np.bool_)
    left[places] = False
    return a[left]


def symmetric_difference(a: Keys, b: Keys) -> Keys:
    """Return the keys in one of the two and not in both."""
    keys = np.concatenate((a, b))
    keys.sort(kind="stable")
    differs = keys[1:] != keys[:-1]
    if np.count_nonzero(differs) == differs.size:
        return keys
    single = np.concatenate(([True], differs))
    single[:-1] &= differs
    return keys[single]


def _among(keys: Keys, listed: Keys) -> Mask:
    places = listed.searchsorted(keys)
    found: Mask = listed[np.minimum(places, listed.size - 1)] == keys
    return found
