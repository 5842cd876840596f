"""Arithmetic of range lists: sorted, disjoint, non-adjacent ranges of row keys.

A *range list* is a pair of int64 arrays ``(starts, ends)`` of equal length, with ``starts[i] <= ends[i]`` and
``ends[i] + 1 < starts[i + 1]``. No function visits ranges in Python, or adds 1 to a key that may be ``MAX_KEY``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from barrage_server.errors import RowSetError

Keys: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
RangeList: TypeAlias = tuple[Keys, Keys]

MAX_KEY: Final = (1 << 63) - 1
NO_KEYS: Final[Keys] = np.empty(0, np.int64)
NO_KEYS.flags.writeable = False
NO_RANGES: Final[RangeList] = (NO_KEYS, NO_KEYS)


def as_keys(values: npt.ArrayLike) -> Keys:
    """Return ``values`` as a one-dimensional int64 array, converted if needed.

    Raises:
        RowSetError: they are not integers of one dimension.

    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise RowSetError(f"row keys and positions come as one-dimensional arrays, not with {array.ndim} dimensions")
    if array.dtype == np.int64:
        return cast("Keys", array)
    if not array.size:
        return NO_KEYS
    if array.dtype.kind not in "iu" or (array.dtype.kind == "u" and int(array.max()) > MAX_KEY):
        raise RowSetError(
            f"row keys and positions are integers within 0 and 2**63 - 1, which these ({array.dtype}) are not"
        )
    return array.astype(np.int64)


def count_in(keys: Keys) -> int:
    """Return the number of ranges that make up strictly increasing ``keys``."""
    return int(np.count_nonzero(keys[1:] - keys[:-1] != 1)) + min(1, keys.size)


def compress(keys: Keys) -> RangeList:
    """Return the ranges that make up strictly increasing ``keys``."""
    if not keys.size:
        return NO_RANGES
    breaks = np.flatnonzero(np.diff(keys) != 1)
    starts = np.empty(breaks.size + 1, np.int64)
    ends = np.empty(breaks.size + 1, np.int64)
    starts[0] = keys[0]
    ends[-1] = keys[-1]
    starts[1:] = keys[breaks + 1]
    ends[:-1] = keys[breaks]
    return starts, ends


def expand(starts: Keys, ends: Keys) -> Keys:
    """Return all keys of the ranges, in order; the caller bounds their number."""
    lengths = ends - starts + 1
    if starts.size == 1:
        return np.arange(int(starts[0]), int(starts[0]) + int(lengths[0]), dtype=np.int64)
    if not starts.size:
        return NO_KEYS
    if int(lengths.max()) == 1:
        return starts.copy()
    before = np.cumsum(lengths) - lengths
    keys = np.repeat(starts - before, lengths)
    keys += np.arange(keys.size, dtype=np.int64)
    return keys


def offsets_of(starts: Keys, ends: Keys) -> Keys:
    """Return the position of the first key of each range, then the number of keys."""
    offsets = np.empty(starts.size + 1, np.int64)
    offsets[0] = 0
    np.cumsum(ends - starts + 1, out=offsets[1:])
    return offsets


def join_adjacent(starts: Keys, ends: Keys) -> RangeList:
    """Merge ranges that touch, of sorted and disjoint ranges."""
    if starts.size < 2:
        return starts, ends
    gap = starts[1:] - 1 != ends[:-1]
    if gap.all():
        return starts, ends
    return starts[np.concatenate(([True], gap))], ends[np.concatenate((gap, [True]))]


def merge(starts: Keys, ends: Keys) -> RangeList:
    """Return the union of ranges in any order, overlapping or not."""
    if starts.size < 2:
        return starts, ends
    order = np.argsort(starts, kind="stable")  # merges presorted runs in linear time
    starts = starts[order]
    reach = np.maximum.accumulate(ends[order])
    gap = starts[1:] - 1 > reach[:-1]
    return starts[np.concatenate(([True], gap))], reach[np.concatenate((gap, [True]))]


def _union(a: RangeList, b: RangeList) -> RangeList:
    return merge(np.concatenate((a[0], b[0])), np.concatenate((a[1], b[1])))


def symmetric_difference(a: RangeList, b: RangeList) -> RangeList:
    """Return the keys in one of two range lists and not in both."""
    edges = np.concatenate((_edges(a), _edges(b)))
    edges.sort(kind="stable")  # merges two sorted runs in linear time
    twice = (edges[1:] == edges[:-1]).nonzero()[0]  # both begin or end here, or one begins and the other ends
    if twice.size:
        kept = np.ones(edges.size, np.bool_)
        kept[twice] = kept[twice + 1] = False
        edges = edges[kept]
    return edges[::2].view(np.int64), (edges[1::2] - np.uint64(1)).view(np.int64)


def _edges(ranges: RangeList) -> npt.NDArray[np.uint64]:
    """Return where ranges and the gaps after them begin, in order.

    MAX_KEY + 1 is 2**63 as uint64.
    """
    edges = np.empty(2 * ranges[0].size, np.uint64)
    edges[::2] = ranges[0].view(np.uint64)
    np.add(ranges[1].view(np.uint64), np.uint64(1), out=edges[1::2])
    return edges


def overlaps(a: RangeList, b: RangeList) -> tuple[Keys, Keys, Keys, Keys]:
    """Return the overlaps of the ranges of ``a`` with the ranges of ``b``.

    ``a`` and ``b`` may have ranges that touch, and then so may the result.

    Returns:
        ``(starts, ends, index in a, index in b)``.

    """
    if a[0].size > b[0].size:
        starts, ends, in_b, in_a = overlaps(b, a)
        return starts, ends, in_a, in_b
    low = np.searchsorted(b[1], a[0], "left")
    counts = np.maximum(np.searchsorted(b[0], a[1], "right") - low, 0)
    in_a = np.repeat(np.arange(a[0].size, dtype=np.int64), counts)
    in_b = np.arange(in_a.size, dtype=np.int64) + np.repeat(low - (np.cumsum(counts) - counts), counts)
    return np.maximum(a[0][in_a], b[0][in_b]), np.minimum(a[1][in_a], b[1][in_b]), in_a, in_b


def complement(starts: Keys, ends: Keys) -> RangeList:
    """Return the keys of 0..MAX_KEY in none of the ranges, which may touch."""
    starts, ends = join_adjacent(starts, ends)
    if not starts.size:
        return np.zeros(1, np.int64), np.full(1, MAX_KEY, np.int64)
    first = 0 if starts[0] > 0 else 1
    last = starts.size if ends[-1] < MAX_KEY else starts.size - 1
    gap_starts = np.concatenate(([0], ends[:last] + 1))[first:]
    gap_ends = np.concatenate((starts - 1, [MAX_KEY]))[first : last + 1]
    return gap_starts, gap_ends


def intersection(a: RangeList, b: RangeList) -> RangeList:
    """Return the keys in both."""
    starts, ends, _, _ = overlaps(a, b)
    return starts, ends


def _difference(a: RangeList, b: RangeList) -> RangeList:
    return intersection(a, complement(*b))


def _in_window(a: RangeList, b: RangeList, operation: Callable[[RangeList, RangeList], RangeList]) -> RangeList:
    """Apply ``operation`` to ``a`` within the hull of ``b``, and copy the rest."""
    low = int(np.searchsorted(a[1], max(int(b[0][0]) - 1, 0), "left"))
    high = int(np.searchsorted(a[0], min(int(b[1][-1]), MAX_KEY - 1) + 1, "right"))
    if high < low:
        high = low
    starts, ends = operation((a[0][low:high], a[1][low:high]), b)
    if low == 0 and high == a[0].size:
        return starts, ends
    return np.concatenate((a[0][:low], starts, a[0][high:])), np.concatenate((a[1][:low], ends, a[1][high:]))


def union(a: RangeList, b: RangeList) -> RangeList:
    """Return the keys in either.

    The larger list is copied, not sorted, outside the hull of the smaller one.
    """
    if a[0].size < b[0].size:
        a, b = b, a
    return _in_window(a, b, _union) if b[0].size else a


def difference(a: RangeList, b: RangeList) -> RangeList:
    """Return the keys of ``a`` that ``b`` lacks."""
    return _in_window(a, b, _difference) if b[0].size and a[0].size else a


def count_below(ranges: RangeList, offsets: Keys, keys: Keys) -> Keys:
    """Return for each of ``keys``, in any order, how many keys are strictly below it."""
    starts, ends = ranges
    index = np.searchsorted(starts, keys, "left") - 1  # the last range that starts below the key
    inside = np.minimum(keys - 1, ends[index]) - starts[index] + 1
    return np.where(index < 0, 0, offsets[index] + inside)


def holds(ranges: RangeList, keys: Keys) -> Mask:
    """Return for each key whether it is in one of the ranges."""
    index = np.searchsorted(ranges[0], keys, "right") - 1
    return (index >= 0) & (keys <= ranges[1][index])


def at(ranges: RangeList, offsets: Keys, positions: Keys) -> Keys:
    """Return the key at each position; positions are within 0..size-1."""
    index = np.searchsorted(offsets, positions, "right") - 1
    return ranges[0][index] + (positions - offsets[index])


def blocks(starts: Keys, ends: Keys, bits: int) -> int:
    """Return the number of aligned blocks of ``2**bits`` keys that the ranges touch."""
    if not starts.size:
        return 0
    first, last = starts >> bits, ends >> bits
    return int((last - first).sum()) + starts.size - int(np.count_nonzero(first[1:] == last[:-1]))
