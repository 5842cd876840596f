"""Rows appended to their groups that have no places in an order yet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from barrage_server.engine.plan import Int64Array
from barrage_server.rowset import RowSet

__all__ = ["WaitingRows"]

_MOST_PARTS = 64


class WaitingRows:
    """Waiting rows, each with the former last row of its group.

    Attributes:
        count: how many wait.

    """

    def __init__(self) -> None:
        self.count = 0
        self._parts: list[tuple[Int64Array, Int64Array]] = []

    @property
    def nbytes(self) -> int:
        """Bytes of their row keys and those of the last rows."""
        return 2 * np.dtype(np.int64).itemsize * self.count

    def add(self, keys: Int64Array, behind: Int64Array) -> None:
        """Add rows by keys, with the keys of the last rows of their groups, or -1."""
        self._parts.append((keys, behind))
        self.count += len(keys)
        if len(self._parts) > _MOST_PARTS:  # of one row each they would take much more than their cells
            self._parts = [self._joined()]

    @property
    def keys(self) -> Int64Array:
        """Their row keys, in the order in which :meth:`take` chooses."""
        self._parts = [self._joined()]
        return self._parts[0][0]

    def take(self, chosen: npt.NDArray[np.bool_] | None = None) -> tuple[RowSet, Int64Array]:
        """Remove the rows that are ``chosen``, or all.

        Args:
            chosen: one flag for each of :attr:`keys`.

        Returns:
            The rows, and for each the last row of its group when it came.

        """
        keys, behind = self._joined()
        self._parts = [] if chosen is None else [(keys[~chosen], behind[~chosen])]
        if chosen is not None:
            keys, behind = keys[chosen], behind[chosen]
        self.count -= len(keys)
        order = np.argsort(keys)
        return RowSet.from_sorted_keys(keys[order]), behind[order]

    def _joined(self) -> tuple[Int64Array, Int64Array]:
        keys, behind = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        return keys, behind
