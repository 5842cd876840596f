"""The last rows of each group in an order.

By these, appended rows find their places without a search.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from barrage_server.engine.order_fences import Codes
from barrage_server.engine.plan import Int64Array
from barrage_server.operations.group_totals import GroupArray
from barrage_server.operations.nearest_rows import NearestRows

__all__ = ["LastRows"]

_MOST_RECENT = 1 << 17
"""New rows kept for :meth:`LastRows.behind` until the next change, at most."""
_MOST = np.uint64((1 << 64) - 1)


class LastRows:
    """The last row of each group, as far as it is known.

    Rows are in the order of their groups, then of the codes of their stamps if they have some, then of their row keys.
    Codes are those of :func:`~barrage_server.operations.ordering.rough_codes`: equal ones are of equal stamps, but for
    the smallest and the largest.
    """

    def __init__(self) -> None:
        self._keys = GroupArray(np.int64)  # one more than the row key; 0 if it is not known
        self._codes = GroupArray(np.uint64)
        self._recent: tuple[Codes, Int64Array] | None = None  # former last rows, and the rows behind them

    @property
    def nbytes(self) -> int:
        """Bytes of the row keys and codes."""
        recent = 0 if self._recent is None else sum(part.nbytes for part in (*self._recent[0], self._recent[1]))
        return self._keys.nbytes + self._codes.nbytes + recent

    def keys_of(self, groups: Int64Array) -> Int64Array:
        """The key of each group's last row; -1 if it is not known."""
        self._reserve(groups)
        found: Int64Array = self._keys.array[groups] - 1
        return found

    def behind(self, codes: Codes, *, or_equal: bool) -> tuple[Int64Array, Int64Array]:
        """The keys of the rows before and behind given things, where known.

        They are known for things behind the last rows, and among the rows that have come since the former last rows.

        Args:
            codes: their groups, and the codes of their stamps.
            or_equal: whether a row with an equal stamp is before them.

        Returns:
            The row before each, or -1 if it is not known; and the next row of the group, or -1.

        """
        before = self.before(codes, or_equal=or_equal)
        behind = np.full(len(before), -1, np.int64)
        others = np.flatnonzero((before < 0) & (codes[1] > 0) & (codes[1] < _MOST))
        if self._recent is None or not len(others):
            return before, behind
        (groups, stamps), keys = self._recent
        mine = codes[0][others]
        count = max(int(mine.max()), int(groups[-1])) + 1
        places = NearestRows(groups, stamps, count, before_equal=not or_equal).places_of(mine, codes[1][others])
        place = np.maximum(places - 1, 0)
        known = np.flatnonzero((places > 0) & (groups[place] == mine))
        others, place = others[known], place[known]
        before[others] = keys[place]
        following = np.minimum(place + 1, len(keys) - 1)
        behind[others] = np.where((following > place) & (groups[following] == mine[known]), keys[following], -1)
        return before, behind

    def before(self, codes: Codes, keys: Int64Array | None = None, *, or_equal: bool = False) -> Int64Array:
        """The key of the group's last row, if it comes before a thing; otherwise -1.

        Args:
            codes: their groups, and the codes of their stamps.
            keys: their row keys, if they are rows; then these tell between equal stamps.
            or_equal: whether a row with an equal stamp counts as before things that are not rows.

        """
        groups = codes[0]
        last = self.keys_of(groups)
        is_before = np.full(len(groups), or_equal) if keys is None else last < keys
        if len(codes) > 1:
            mine, theirs = codes[1], self._codes.array[groups]
            is_before &= (mine == theirs) & (mine > 0) & (mine < _MOST)
            is_before |= theirs < mine
        return np.where(is_before, last, -1)

    def note(self, codes: Codes, keys: Int64Array, counts: npt.NDArray[np.int64]) -> Int64Array:
        """Record new rows.

        Args:
            codes: their groups and the codes of their stamps, in order.
            keys: their row keys.
            counts: the rows that each group has then.

        Returns:
            The groups among them whose last row is not known.

        """
        groups = codes[0]
        self._recent = None
        if not len(groups):
            return groups
        if len(codes) > 1 and len(groups) <= _MOST_RECENT:
            self._recent = self._with_former(codes, keys)
        ends = np.flatnonzero(np.append(groups[1:] != groups[:-1], True))
        rows = np.diff(ends, prepend=-1)
        last, lasts = groups[ends], [part[ends] for part in codes]
        self._reserve(groups)
        is_last = (self.before(lasts, keys[ends]) >= 0) | (counts[last] == rows)
        self._keys.array[last[~is_last & self._are_unclear(lasts)]] = 0
        unknown: Int64Array = last[(self._keys.array[last] == 0) & ~is_last]
        self.learn([part[is_last] for part in lasts], keys[ends[is_last]])
        return unknown

    def _with_former(self, codes: Codes, keys: Int64Array) -> tuple[Codes, Int64Array] | None:
        """Rows that come behind the last ones of their groups, after these."""
        former = self.before(codes, keys)
        unclear = self._are_unclear(codes)
        if unclear.any():
            former[np.isin(codes[0], codes[0][unclear])] = -1
        some = np.flatnonzero(former >= 0)
        if not len(some):
            return None
        groups, stamps, keys, former = codes[0][some], codes[1][some], keys[some], former[some]
        begins = np.flatnonzero(np.append(True, groups[1:] != groups[:-1]))
        own = groups[begins]
        parts = [(own, groups), (self._codes.array[own], stamps), (former[begins], keys)]
        whole = [np.insert(part, begins, first) for first, part in parts]
        return (whole[0], whole[1]), whole[2]

    def _are_unclear(self, codes: Codes) -> npt.NDArray[np.bool_]:
        """Which codes cannot tell things from the last rows of their groups."""
        if len(codes) == 1:
            return np.zeros(len(codes[0]), np.bool_)
        mine = codes[1]
        found: npt.NDArray[np.bool_] = (mine == self._codes.array[codes[0]]) & ((mine == 0) | (mine == _MOST))
        return found

    def learn(self, codes: Codes, keys: Int64Array) -> None:
        """Record rows as the last ones of their groups."""
        self._reserve(codes[0])
        self._keys.array[codes[0]] = keys + 1
        if len(codes) > 1:
            self._codes.array[codes[0]] = codes[1]

    def forget(self, groups: Int64Array, keys: Int64Array) -> None:
        """Remove rows from their groups."""
        self._reserve(groups)
        if len(groups):
            self._recent = None
        self._keys.array[groups[self._keys.array[groups] == keys + 1]] = 0

    def shift(self, groups: Int64Array, before: Int64Array, after: Int64Array) -> None:
        """Give rows new keys."""
        self._reserve(groups)
        self._recent = None
        mine = self._keys.array[groups] == before + 1
        self._keys.array[groups[mine]] = after[mine] + 1

    def pack(self, living: Int64Array) -> None:
        """Keep only the groups ``living``, renumbered from 0."""
        self._recent = None
        self._keys.pack(living)
        self._codes.pack(living)

    def _reserve(self, groups: Int64Array) -> None:
        count = int(groups.max()) + 1 if len(groups) else 0
        self._keys.reserve(count)
        self._codes.reserve(count)
