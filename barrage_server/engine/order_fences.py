"""Codes that tell between which leaves of an order a row belongs, without reading the rows that are there.

A code is a number in the order of the rows. Each leaf has that of its first row. Where codes are equal, the caller
compares the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from barrage_server.engine.plan import Int64Array

__all__ = ["Codes", "CodesOf", "Fences", "OrderCodes"]

Codes: TypeAlias = Sequence[npt.NDArray[Any]]
"""Arrays of one length, of integers: the codes of some rows, those that count most first.

A row whose codes are smaller than another's comes before it. One with equal codes may come before it or behind it.
"""
CodesOf: TypeAlias = Callable[[Int64Array], Codes]
"""Gives the codes of rows, by their keys in any order."""


class OrderCodes(NamedTuple):
    """The codes of rows that seek their places, and of those that have one.

    Attributes:
        own: the codes of the rows that seek. The last arrays may be left out.
        of: what gives those of the others.

    """

    own: Codes
    of: CodesOf


class Fences:
    """The codes of the first row of each leaf that has rows."""

    def __init__(self) -> None:
        self._codes: list[npt.NDArray[Any]] = []
        self.is_known = False

    @property
    def nbytes(self) -> int:
        """Bytes of the codes."""
        return sum(part.nbytes for part in self._codes)

    def forget(self) -> None:
        """Forget all codes: rows have others now."""
        self._codes, self.is_known = [], False

    def learn(self, leaves: Int64Array, total: int, codes: Codes) -> None:
        """Take note of the first rows of all leaves with rows, of ``total`` leaves."""
        self._codes = []
        for part in codes:
            whole = np.zeros(total, part.dtype)
            whole[leaves] = part
            self._codes.append(whole)
        self.is_known = True

    def resize(self, front: int, total: int) -> None:
        """There are ``front`` more leaves in front, and ``total`` then."""
        if front or any(len(part) != total for part in self._codes):
            self._codes = [_resized(part, front, total) for part in self._codes]

    def spread(self, where: Int64Array, total: int) -> None:
        """The leaves have the positions ``where``, of ``total`` then."""
        for number, part in enumerate(self._codes):
            self._codes[number] = np.zeros(total, part.dtype)
            self._codes[number][where] = part

    def cut(self, first: int, end: int) -> None:
        """Forget leaves before ``first`` and from ``end`` on."""
        self._codes = [part[first:end].copy() for part in self._codes]

    def update(self, leaves: Int64Array, codes: Codes) -> None:
        """Some leaves have other first rows."""
        for whole, part in zip(self._codes, codes, strict=True):
            whole[leaves] = part

    def bounds(self, leaves: Int64Array, codes: Codes) -> tuple[Int64Array, Int64Array]:
        """For each of some rows how many of ``leaves`` begin before it for certain, and how many at most.

        Args:
            leaves: the leaves that count, ascending.
            codes: those of the rows, one array at least.

        """
        low, high = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for place, items in enumerate(codes):
            whole = self._codes[place]
            fences = whole if len(whole) == len(leaves) else whole[leaves]
            if place:
                end = high
                high = _first_place(fences, items, low, end, or_equal=False)
                low = _first_place(fences, items, low, end, or_equal=True)
            else:
                low = np.searchsorted(fences, items, side="left").astype(np.int64)
                high = np.searchsorted(fences, items, side="right").astype(np.int64)
        return low, high


def _first_place(
    fences: npt.NDArray[Any], items: npt.NDArray[Any], low: Int64Array, high: Int64Array, *, or_equal: bool
) -> Int64Array:
    """For each item the first place from ``low`` whose code is larger, or also equal; otherwise ``high``."""
    low, high = low.copy(), high.copy()
    while len(open_ := np.flatnonzero(low < high)):
        middle = (low[open_] + high[open_]) >> 1
        found = fences[middle]
        is_before = found >= items[open_] if or_equal else found > items[open_]
        high[open_[is_before]] = middle[is_before]
        low[open_[~is_before]] = middle[~is_before] + 1
    return low


def _resized(part: npt.NDArray[Any], front: int, total: int) -> npt.NDArray[Any]:
    whole = np.zeros(total, part.dtype)
    kept = min(len(part), total - front)
    whole[front : front + kept] = part[:kept]
    return whole
