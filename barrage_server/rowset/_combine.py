"""Set operations and comparisons of two key storages, in the fastest form.

A result that equals an argument is that argument.
"""

from __future__ import annotations

import numpy as np

from barrage_server.rowset import _key_lists, _ranges
from barrage_server.rowset._key_storage import KeyStorage
from barrage_server.rowset._part import BITS
from barrage_server.rowset._patched import LEAST, MOST_AT_ONCE, Patch, Patched, is_inside, patch_of, patched
from barrage_server.rowset._ranges import Keys, Mask
from barrage_server.rowset._segments import Segments
from barrage_server.rowset._storage import (
    FEW_KEYS,
    NOTHING,
    RANGES_ALWAYS,
    KeyList,
    Ranges,
    Segmented,
    Span,
    of_keys,
    of_ranges,
    of_segments,
)


def union(one: KeyStorage, two: KeyStorage) -> KeyStorage:
    """Return the keys in either."""
    if not two.size or one is two:
        return one
    if not one.size:
        return two
    if one.is_contiguous and one.first <= two.first and two.last <= one.last:
        return one
    if two.is_contiguous and two.first <= one.first and one.last <= two.last:
        return two
    if one.is_contiguous and two.is_contiguous and max(one.first, two.first) - 1 <= min(one.last, two.last):
        return Span(min(one.first, two.first), max(one.last, two.last))
    if are_few(one, two):
        return of_keys(_key_lists.union(one.keys(), two.keys()))
    segments = one.segments() or two.segments()
    if segments is not None:
        first, second = _whole_segments(one, segments), _whole_segments(two, segments)
        if first is not None and second is not None:
            return of_segments(first | second)
    return of_ranges(*_ranges.union(one.ranges(), two.ranges()))


def intersection(one: KeyStorage, two: KeyStorage) -> KeyStorage:
    """Return the keys in both."""
    if one is two:
        return one
    first, last = max(one.first, two.first), min(one.last, two.last)
    if first > last:
        return NOTHING
    if two.is_contiguous:
        return within(one, first, last)
    if one.is_contiguous:
        return within(two, first, last)
    if are_few(one, two):
        return of_keys(_key_lists.intersection(one.keys(), two.keys()))
    if min(one.size, two.size) <= FEW_KEYS and (one.is_segmented or two.is_segmented):
        few, many = (one, two) if one.size < two.size else (two, one)
        return of_keys(few.keys()[many.contains(few.keys())])
    segments = one.segments() or two.segments()
    if segments is not None:
        return of_segments(_segments_beside(one, segments) & _segments_beside(two, segments))
    return of_ranges(*_ranges.intersection(one.ranges(), two.ranges()))


def difference(one: KeyStorage, two: KeyStorage) -> KeyStorage:
    """Return the keys of ``one`` that are not in ``two``."""
    if one is two:
        return NOTHING
    first, last = max(one.first, two.first), min(one.last, two.last)
    if first > last:
        return one
    if are_few(one, two):
        left = _key_lists.difference(one.keys(), two.keys())
        return one if len(left) == one.size else of_keys(left)
    if two.segments() is None:
        two = within(two, first, last)
        if not two.size:
            return one
        first, last = two.first, two.last
    if one.is_contiguous and two.is_contiguous:
        if first == one.first:
            return Span(last + 1, one.last) if last < one.last else NOTHING
        if last == one.last:
            return Span(one.first, first - 1)
    segments = two.segments()
    mine = one.segments() if segments is None else _whole_segments(one, segments)
    if mine is not None:
        return of_segments(mine - _segments_beside(two, mine))
    return of_ranges(*_ranges.difference(one.ranges(), two.ranges()))


def symmetric_difference(one: KeyStorage, two: KeyStorage) -> KeyStorage:
    """Return the keys in one of the two and not in both."""
    if not two.size:
        return one
    if not one.size:
        return two
    if one is two:
        return NOTHING
    if are_few(one, two):
        return of_keys(_key_lists.symmetric_difference(one.keys(), two.keys()))
    segments = one.segments()
    if segments is not None and two.size <= FEW_KEYS:
        return of_segments(segments.toggled(two.keys()))
    segments = segments or two.segments()
    if segments is not None:
        first, second = _whole_segments(one, segments), _whole_segments(two, segments)
        if first is not None and second is not None:
            return of_segments(first ^ second)
    return of_ranges(*_ranges.symmetric_difference(one.ranges(), two.ranges()))


def exchanged(one: KeyStorage, removed: KeyStorage, added: KeyStorage) -> KeyStorage:
    """Return other keys: without ``removed``, and with ``added``.

    Args:
        one: the present keys.
        removed: some of them.
        added: keys that are not among them without ``removed``.

    """
    if not isinstance(one, Segmented | Patched) or removed.size + added.size > MOST_AT_ONCE:
        return symmetric_difference(one, symmetric_difference(removed, added))
    left, came = removed.keys(), added.keys()
    if one.size >= LEAST and is_inside(one, left) and is_inside(one, came):
        held = patched(one, patch_of(left, came))
        if held is not None:
            return held
    return toggled(one, _key_lists.symmetric_difference(left, came))


def toggled(one: KeyStorage, keys: Keys, come: Mask | None = None) -> KeyStorage:
    """Return the keys in one of ``one`` and ``keys``.

    Args:
        one: the present keys.
        keys: strictly increasing keys.
        come: whether each of them comes, because it is missing; ``None`` if that is not known.

    """
    if not keys.size:
        return one
    if isinstance(one, Segmented | Patched) and keys.size <= FEW_KEYS:
        if come is not None and one.size >= LEAST and is_inside(one, keys):
            held = patched(one, Patch(keys, np.where(come, 1, -1)))
            if held is not None:
                return held
        return of_segments(one.segments().toggled(keys))
    return symmetric_difference(one, of_keys(keys))


def are_disjoint(one: KeyStorage, two: KeyStorage) -> bool:
    """Whether no key is in both."""
    if max(one.first, two.first) > min(one.last, two.last):
        return True
    if min(one.size, two.size) > FEW_KEYS:
        segments = one.segments() or two.segments()
        if segments is not None:
            return _segments_beside(one, segments).is_disjoint(_segments_beside(two, segments))
    return not intersection(one, two).size


def is_superset(one: KeyStorage, two: KeyStorage) -> bool:
    """Whether every key of ``two`` is in ``one``."""
    if not two.size:
        return True
    if two.first < one.first or two.last > one.last or two.size > one.size:
        return False
    if one.is_contiguous:
        return True
    if two.size <= FEW_KEYS and (one.is_segmented or two.is_segmented):
        return bool(one.contains(two.keys()).all())
    segments = one.segments() or two.segments()
    if segments is not None:
        first, second = _segments_beside(one, segments), _segments_beside(two, segments)
        return second.size == two.size and first.is_superset(second)
    starts, ends = one.ranges()
    other_starts, other_ends = two.ranges()
    return bool((other_ends <= ends[np.searchsorted(starts, other_starts, "right") - 1]).all())


def are_few(*operands: KeyStorage) -> bool:
    """Whether operations on lists of keys are fastest: few keys, in short ranges."""
    if sum([held.size for held in operands]) > _key_lists.MOST:
        return False
    return all(isinstance(held, KeyList) or (isinstance(held, Ranges) and held.is_short) for held in operands)


def within(storage: KeyStorage, first: int, last: int) -> KeyStorage:
    """Return the keys within first..last."""
    first, last = max(first, storage.first), min(last, storage.last)
    if first > last:
        return NOTHING
    return storage if first == storage.first and last == storage.last else storage.restrict(first, last)


def _whole_segments(storage: KeyStorage, beside: Segments) -> Segments | None:
    """Return all keys as segments; None when there would be too many segments."""
    segments = storage.segments()
    if segments is not None:
        return segments
    most = RANGES_ALWAYS + beside.numbers.size
    if isinstance(storage, KeyList):
        return Segments.from_keys(storage.keys()) if storage.size <= most else None
    starts, ends = storage.ranges()
    return Segments.from_ranges(starts, ends) if _ranges.blocks(starts, ends, BITS) <= most else None


def _segments_beside(storage: KeyStorage, beside: Segments) -> Segments:
    """Return as segments the keys that can be in segments of ``beside``."""
    return storage.segments() or Segments.from_ranges(*storage.ranges(), beside.numbers)
