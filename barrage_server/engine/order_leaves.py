"""Leaves of an order: bit masks of the slots that hold rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from barrage_server.engine.plan import Int64Array

__all__ = [
    "BITS",
    "SLOTS",
    "FilledLeaves",
    "Masks",
    "Occupied",
    "Rest",
    "by_leaf",
    "counts_of",
    "distinct",
    "first_slots",
    "last_slots",
    "nth_slots",
    "packed",
]

BITS: Final = 5
SLOTS: Final = 1 << BITS
"""Slots of a leaf."""

Masks: TypeAlias = npt.NDArray[np.uint32]
"""A number for each leaf: bit ``i`` says whether there is a row in slot ``i``."""

_ONE: Final = np.uint32(1)
_SORTED: Final = 64
"""Leaves of the order per given leaf, from which sorting the given ones costs less than a mask of all."""


def packed(counts: Int64Array) -> Masks:
    """The masks of leaves with ``counts`` rows each, in their first slots."""
    return ((np.uint64(1) << counts.astype(np.uint64)) - np.uint64(1)).astype(np.uint32)


def counts_of(masks: Masks) -> Int64Array:
    """The number of rows of each leaf."""
    return np.bitwise_count(masks).astype(np.int64)


def first_slots(masks: Masks) -> Int64Array:
    """The first slot of each leaf that holds a row, or 32."""
    return np.bitwise_count(~masks & (masks - _ONE)).astype(np.int64)


def last_slots(masks: Masks) -> Int64Array:
    """The last slot of each leaf that holds a row, or -1."""
    return np.frexp(masks.astype(np.float64))[1].astype(np.int64) - 1


def nth_slots(masks: Masks, numbers: Int64Array) -> Int64Array:
    """The slot of a row of each leaf, from the number of rows before it.

    Args:
        masks: the leaves.
        numbers: a number for each of them, less than its number of rows.
    """
    masks, left = masks.copy(), numbers.astype(np.uint8)
    found = np.zeros(len(masks), np.uint8)
    for width in (16, 8, 4, 2, 1):  # it is in the lower half of what is left, or in the upper one
        counts = np.bitwise_count(masks & np.uint32((1 << width) - 1))
        is_upper = left >= counts
        left -= counts * is_upper
        skipped = is_upper.view(np.uint8) * np.uint8(width)
        masks >>= skipped
        found += skipped
    return found.astype(np.int64)


def by_leaf(slots: Int64Array) -> tuple[Int64Array, Masks]:
    """Group distinct, ascending slots by leaf.

    Returns:
        The leaves, and for each leaf the mask of its slots.
    """
    if not len(slots):
        return slots, np.zeros(0, np.uint32)
    leaves = slots >> BITS
    begins = np.flatnonzero(np.append(True, leaves[1:] != leaves[:-1]))
    bits = np.left_shift(_ONE, (slots & (SLOTS - 1)).astype(np.uint32))
    return leaves[begins], np.bitwise_or.reduceat(bits, begins)


def distinct(parts: Sequence[Int64Array], total: int) -> Int64Array:
    """The different leaves in all parts, ascending, of ``total`` leaves."""
    if sum(map(len, parts)) * _SORTED < total:
        return np.unique(np.concatenate(parts))
    is_there = np.zeros(total, np.bool_)
    for leaves in parts:
        is_there[leaves] = True
    return np.flatnonzero(is_there)


class FilledLeaves:
    """The leaves that have rows, numbered from 0.

    If all leaves have rows, which is usual, a number is the position of the leaf, and no array is made.

    Args:
        masks: the leaves.

    Attributes:
        count: the number of leaves with rows.
    """

    def __init__(self, masks: Masks) -> None:
        self._leaves = None if len(masks) and masks.min() else np.flatnonzero(masks)
        self.count = len(masks) if self._leaves is None else len(self._leaves)

    def leaves(self, numbers: Int64Array) -> Int64Array:
        """The positions of the leaves with these numbers among all leaves."""
        return numbers if self._leaves is None else self._leaves[numbers]

    def of(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The entries of these leaves, of an array with one for each leaf."""
        return array if self._leaves is None else array[self._leaves]


class Occupied(NamedTuple):
    """The slots of some leaves that hold rows.

    Attributes:
        slots: the slots within their leaf, leaf by leaf, ascending; and one more number at the end.
        starts: the position in ``slots`` of the first slot of each leaf.
        counts: the number of slots of each leaf.
    """

    slots: Int64Array
    starts: Int64Array
    counts: Int64Array

    @classmethod
    def of(cls, masks: Masks) -> Self:
        """The occupied slots of leaves with these masks."""
        bits = np.unpackbits(masks.astype("<u4").view(np.uint8), bitorder="little")
        slots = np.append(np.flatnonzero(bits) & (SLOTS - 1), 0)
        counts = counts_of(masks)
        return cls(slots, np.cumsum(counts) - counts, counts)


class Rest:
    """The leaves without the rows that go, before anything is written.

    Args:
        masks: the leaves.
        gone: the slots of the rows that go, ascending, by the positions of their leaves.

    Attributes:
        masks: the leaves with the rows that stay.
        leaves: the leaves that have lost rows, ascending.
    """

    def __init__(self, masks: Masks, gone: Int64Array) -> None:
        self.masks = masks.copy()
        self._former = masks
        self.leaves, lost = by_leaf(gone)
        self.masks[self.leaves] &= ~lost

    @classmethod
    def unchanged(cls, masks: Masks) -> Self:
        """The leaves as they are, read-only: no row goes."""
        found = cls.__new__(cls)
        found.masks = found._former = masks
        found.leaves = np.zeros(0, np.int64)
        return found

    def would_overflow(self, leaves: Int64Array) -> bool:
        """Whether a leaf would get more rows than it has slots.

        Args:
            leaves: the leaf of each new row, ascending.
        """
        if not len(leaves):
            return False
        begins = np.flatnonzero(np.append(True, leaves[1:] != leaves[:-1]))
        rows = counts_of(self.masks[leaves[begins]]) + np.diff(np.append(begins, len(leaves)))
        return int(rows.max()) > SLOTS

    def has_lost_first(self, leaves: Int64Array) -> npt.NDArray[np.bool_]:
        """Whether each leaf has lost its first row."""
        found: npt.NDArray[Any] = first_slots(self.masks[leaves]) != first_slots(self._former[leaves])
        return found

    def first(self, leaves: Int64Array) -> Int64Array:
        """The first occupied slot of each leaf, within the leaf, or 32."""
        return first_slots(self.masks[leaves])

    def former_first(self, leaves: Int64Array) -> Int64Array:
        """The first slot of each leaf that was occupied before the change, or 32."""
        return first_slots(self._former[leaves])

    def until(self, leaves: Int64Array, slots: Int64Array) -> tuple[Int64Array, Int64Array]:
        """The number of rows up to and including a slot, and the next occupied slot.

        Args:
            leaves: the leaves.
            slots: one slot of each leaf, within the leaf.

        Returns:
            The number of rows, and the next slot within the leaf, or 32; both int64.
        """
        masks, up_to = self.masks[leaves], packed(slots + 1)
        return counts_of(masks & up_to), first_slots(masks & ~up_to)

    def resized(self, front: int, total: int) -> Rest:
        """The leaves with ``front`` more in front, and ``total`` in all."""
        return self.spread(np.arange(front, front + len(self.masks)), total) if total > len(self.masks) else self

    def spread(self, where: Int64Array, total: int) -> Rest:
        """Move the leaves to the positions ``where``, among ``total`` leaves."""
        masks, former = np.zeros(total, np.uint32), np.zeros(total, np.uint32)
        masks[where], former[where] = self.masks, self._former
        self.masks, self._former = masks, former
        self.leaves = where[self.leaves]
        return self
