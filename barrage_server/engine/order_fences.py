"""Codes that find the leaf of a row in an order without reading stored rows.

A code is a number in the order of the rows. Each leaf has the code of its first row. If codes are equal, the caller
compares the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from barrage_server.engine.order_leaves import FilledLeaves
from barrage_server.engine.plan import Int64Array

__all__ = ["Codes", "CodesOf", "Fences", "OrderCodes"]

Codes: TypeAlias = Sequence[npt.NDArray[Any]]
"""The codes of some rows: integer arrays of one length, the most significant first.

Rows with smaller codes come before rows with larger codes. Rows with equal codes are in any order.
"""
CodesOf: TypeAlias = Callable[[Int64Array], Codes]
"""Computes the codes of rows from their keys, in any order."""


class OrderCodes(NamedTuple):
    """The codes of rows to be placed, and a function for the codes of placed rows.

    Attributes:
        own: the codes of the rows to be placed. The last arrays may be left out.
        of: computes the codes of placed rows.
    """

    own: Codes
    of: CodesOf


class Fences:
    """The codes of the first row of each leaf with rows."""

    def __init__(self) -> None:
        self._codes: list[npt.NDArray[Any]] = []
        self.is_known = False

    @property
    def nbytes(self) -> int:
        """Bytes of the codes."""
        return sum(part.nbytes for part in self._codes)

    def forget(self) -> None:
        """Forget all codes, because codes of rows have changed."""
        self._codes, self.is_known = [], False

    def learn(self, leaves: Int64Array, total: int, codes: Codes) -> None:
        """Set the codes of all leaves with rows.

        Args:
            leaves: the leaves with rows, by position.
            total: the number of all leaves.
            codes: the codes of the first rows.
        """
        self._codes = []
        for part in codes:
            whole = np.zeros(total, part.dtype)
            whole[leaves] = part
            self._codes.append(whole)
        self.is_known = True

    def resize(self, front: int, total: int) -> None:
        """Add ``front`` leaves in front, and others at the end, up to ``total``."""
        if front or any(len(part) != total for part in self._codes):
            self._codes = [_resized(part, front, total) for part in self._codes]

    def spread(self, where: Int64Array, total: int) -> None:
        """Move the leaves to the positions ``where``, among ``total`` leaves."""
        for number, part in enumerate(self._codes):
            self._codes[number] = np.zeros(total, part.dtype)
            self._codes[number][where] = part

    def cut(self, first: int, end: int) -> None:
        """Forget leaves before ``first`` and from ``end`` on."""
        self._codes = [part[first:end].copy() for part in self._codes]

    def update(self, leaves: Int64Array, codes: Codes) -> None:
        """Set the codes of leaves that have other first rows."""
        for whole, part in zip(self._codes, codes, strict=True):
            whole[leaves] = part

    def bounds(self, leaves: FilledLeaves, codes: Codes) -> tuple[Int64Array, Int64Array]:
        """Bounds for the number of ``leaves`` whose first row comes before each row.

        Args:
            leaves: the leaves to count.
            codes: the codes of the rows, one array at least.

        Returns:
            For each row the least and the greatest number, int64.
        """
        low, high = np.zeros(0, np.int64), np.zeros(0, np.int64)
        for place, items in enumerate(codes):
            fences = leaves.of(self._codes[place])
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
    """The first place from ``low`` to before ``high`` with a larger code, per item.

    With ``or_equal`` an equal code counts as well. Without such a place, the result is ``high``.
    """
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
