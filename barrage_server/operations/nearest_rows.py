"""The positions of many stamps among sorted rows of an as-of join."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.engine.plan import Int64Array
from barrage_server.engine.sorting import order_of_small, sort_with_positions
from barrage_server.operations.ordering import code_of

__all__ = ["NearestRows"]

_LIMIT = 1 << 62
_FEW_GROUPS = 1 << 16


class NearestRows:
    """Right rows as ascending numbers, made of their group and stamp.

    Each look-up sorts what it looks for, so that it reads them in order, which single searches do not.

    Args:
        groups: the group of each row, in the order of groups and stamps.
        codes: their stamps, as numbers in the same order.
        count: the number of groups.
        before_equal: whether rows with an equal stamp are behind what is looked for.

    """

    def __init__(self, groups: Int64Array, codes: npt.NDArray[np.uint64], count: int, *, before_equal: bool) -> None:
        self._low, self._high = int(codes.min()), int(codes.max())
        self._distinct: npt.NDArray[np.uint64] | None = None
        if (self._high - self._low + 3) * count >= _LIMIT:
            self._distinct = np.unique(codes)
            codes = self._numbered(codes)
            self._low, self._high = int(codes.min()), int(codes.max())
        self._span = self._high - self._low + 3
        self._rows = self._joined(groups, codes)
        self._count = count
        self._before_equal = before_equal

    def places(self, groups: Int64Array, stamps: pa.Array) -> Int64Array | None:
        """The position of the first row behind each group and stamp.

        The result is ``None`` if stamps are null or NaN.
        """
        codes = code_of(stamps)
        return None if codes is None else self.places_of(groups, codes)

    def places_of(self, groups: Int64Array, codes: npt.NDArray[np.uint64]) -> Int64Array:
        """The position of the first row behind each group and code."""
        if self._distinct is not None:
            codes = self._numbered(codes)
        joined = self._joined(groups, codes)
        if self._count <= _FEW_GROUPS and (codes[1:] >= codes[:-1]).all():  # as in tables that are appended to
            positions = order_of_small(groups, 0, self._count - 1)  # in linear time
            ordered = joined.take(positions)
        else:
            ordered, positions = sort_with_positions(joined)
        found = np.empty(len(groups), np.int64)
        found[positions] = np.searchsorted(self._rows, ordered, "left" if self._before_equal else "right")
        return found

    def _numbered(self, codes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Codes of rows as odd numbers, and codes between them as even numbers."""
        assert self._distinct is not None
        places = self._distinct.searchsorted(codes)
        known = self._distinct[np.minimum(places, len(self._distinct) - 1)] == codes
        numbered: npt.NDArray[np.uint64] = (2 * places + known).astype(np.uint64)
        return numbered

    def _joined(self, groups: Int64Array, codes: npt.NDArray[np.uint64]) -> Int64Array:
        """Each group and code as one number; codes beyond all rows are clipped."""
        low, high = np.uint64(self._low), np.uint64(self._high)
        within = (np.clip(codes, low, high) - low + np.uint64(1)).view(np.int64)
        within -= codes < low
        within += codes > high
        joined: Int64Array = groups * self._span + within
        return joined
