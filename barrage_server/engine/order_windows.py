"""The leaves of an order to lay out again after a change, and their rows.

A leaf that overflows is spread over the smallest aligned window of leaves that has room ("packed-memory array": Bender,
Demaine and Farach-Colton, "Cache-oblivious B-trees", 2000). Where several rows came in one place, more are expected
there: the free leaves of the window are left behind them (Bender and Hu, "An adaptive packed-memory array", 2007), and
later rows take them without moving others. Windows end with their block (:mod:`.order_blocks`). A block in which no
window has room is full.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from barrage_server.engine.order_blocks import Blocks
from barrage_server.engine.order_leaves import SLOTS
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.ranges import joined, ranges_of

__all__ = ["FILLED", "Hot", "Windows", "is_thin", "lay_out", "windows_of"]

FILLED: Final = 22
"""Rows per leaf in a new order."""
_PACKED: Final = 28
"""Rows per leaf behind all others, or beside a place where more rows are expected."""
_DENSE, _SPARSE, _STEP = 0.95, 0.75, 0.012
"""Rows per slot of a spread window: in the smallest windows, the minimum, and the decrease per doubling."""
_FEW_LEAVES: Final = 64
_THIN: Final = 8
"""Slots per row from which all rows are laid out again."""
_HOT: Final = 4
"""Rows in one place at once from which more are expected there."""
_CYCLES: Final = 4
"""Cycles for which the free leaves behind such a place should last."""
_HOT_LEVELS: Final = 8
"""The most doublings of a window to leave that much room."""
_REACH: Final = 8
"""The most leaves, free ones included, into which an overflow is packed."""
_TRIES: Final = 3

Runs: TypeAlias = tuple[Int64Array, Int64Array]
"""Runs of leaves: the first leaf of each, and the leaf behind its last."""
_NONE: Final = np.zeros(0, np.int64)


class Hot(NamedTuple):
    """The places in which several rows have come at once.

    Attributes:
        leaves: the leaf of each place.
        rows: the number of rows that have come there.
        last: the position of the last of them among all rows that have come.
    """

    leaves: Int64Array
    rows: Int64Array
    last: Int64Array

    @classmethod
    def of(cls, leaves: Int64Array, offsets: Int64Array) -> Hot:
        """The hot places among the places of rows.

        Args:
            leaves: the leaf of each row that comes.
            offsets: the number of rows before it in the leaf.
        """
        if not len(leaves):
            return cls(leaves, leaves, leaves)
        begins = np.flatnonzero(np.append(True, (leaves[1:] != leaves[:-1]) | (offsets[1:] != offsets[:-1])))
        rows = np.diff(np.append(begins, len(leaves)))
        hot = rows >= _HOT
        return cls(leaves[begins[hot]], rows[hot], (begins + rows - 1)[hot])


class Windows(NamedTuple):
    """Runs of leaves that are laid out again.

    Attributes:
        starts, ends: the leaves of each window, ascending.
        sizes: the number of leaves of each window that get rows.
        is_packed: whether the first leaves of each window are filled first.
        total: the number of all leaves afterwards.
        front: the number of new leaves in front.
        crowded: the blocks in which leaves have more rows than slots.
        full: the crowded blocks in which no window has room. They must get more leaves first.
    """

    starts: Int64Array
    ends: Int64Array
    sizes: Int64Array
    is_packed: np.ndarray[tuple[int], np.dtype[np.bool_]]
    total: int
    front: int
    crowded: Int64Array = _NONE
    full: Int64Array = _NONE

    @classmethod
    def of_leaves(cls, leaves: Int64Array, total: int) -> Windows:
        """A window for each of ascending leaves, which have room for their rows.

        Args:
            leaves: the leaves.
            total: the number of all leaves.
        """
        return cls(leaves, leaves + 1, np.ones_like(leaves), np.zeros(len(leaves), np.bool_), total, 0)


def windows_of(
    totals: Int64Array, touched: Int64Array, hot: Hot, blocks: Blocks, whole: Runs = (_NONE, _NONE)
) -> Windows:
    """The windows to lay out again.

    Args:
        totals: the number of rows of each leaf after the change, which may exceed its slots.
        touched: leaves to lay out in any case.
        hot: the places in which several rows come at once.
        blocks: the blocks of the leaves.
        whole: windows to lay out in any case, which have room: their first leaves, and the leaves behind their last.
    """
    count, load = len(totals), int(totals.sum())
    if is_thin(count, load):
        size = max(1, -(-load // FILLED))
        return Windows(np.zeros(1, np.int64), np.array([count]), np.array([size]), np.zeros(1, np.bool_), count, 0)
    if not len(totals) or int(totals.max()) <= SLOTS:
        starts, ends, _ = joined(np.concatenate((touched, whole[0])), np.concatenate((touched + 1, whole[1])))
        return Windows(starts, ends, ends - starts, np.zeros(len(starts), np.bool_), count, 0)
    front = back = 0
    if totals[-1] > SLOTS:  # rows behind the last leaf get leaves of their own
        back = -(-int(totals[-1]) // _PACKED) - 1
    if totals[0] > SLOTS and count > 1:
        front = -(-int(totals[0]) // _PACKED) - 1
    padded = np.concatenate((np.zeros(front, np.int64), totals, np.zeros(back, np.int64)))
    at_ends = [(front + count - 1, front + count + back)] * bool(back) + [(0, front + 1)] * bool(front)
    is_crowded = padded > SLOTS
    is_crowded[[start for start, _ in at_ends[: bool(back)]]] = False
    is_crowded[[front] * bool(front)] = False
    is_crowded[ranges_of(whole[0] + front, whole[1] - whole[0])] = False
    crowded = np.flatnonzero(is_crowded)
    spread = _Spread(padded, hot._replace(leaves=hot.leaves + front), blocks.padded(front, len(padded)))
    in_blocks = blocks.of_leaves(crowded - front)
    near_starts, near_ends = spread.near(crowded)
    for tried in range(_TRIES):
        rest = np.setdiff1d(crowded, near_starts, assume_unique=True)
        starts, ends, total, full = spread.aligned(rest)
        clash = _overlap(near_starts, near_ends, starts, ends)
        if not clash.any():
            break
        clash |= tried == _TRIES - 2
        near_starts, near_ends = near_starts[~clash], near_ends[~clash]
    first, behind = np.array(at_ends, np.int64).reshape(-1, 2).T
    starts, ends, _ = joined(
        np.concatenate((first, touched + front, whole[0] + front, near_starts, starts)),
        np.concatenate((behind, touched + front + 1, whole[1] + front, near_ends, ends)),
    )
    places = np.minimum(np.searchsorted(near_starts, starts), max(len(near_starts) - 1, 0))
    is_packed = np.zeros(len(starts), np.bool_)
    if len(near_starts):
        is_packed = (near_starts[places] == starts) & (near_ends[places] == ends)
    return Windows(starts, ends, ends - starts, is_packed, total, front, np.unique(in_blocks), np.sort(full))


def is_thin(leaves: int, rows: int) -> bool:
    """Whether most slots of ``leaves`` are free, so that all rows are laid out again."""
    return leaves > _FEW_LEAVES and rows * _THIN < leaves * SLOTS


class _Spread:
    """Finds leaves over which an overflow can be spread.

    Args:
        rows: the number of rows of each leaf after the change.
        hot: the leaves to which several rows come at once, and how many.
        blocks: the blocks of the leaves. The numbers of leaves align windows.
    """

    def __init__(self, rows: Int64Array, hot: Hot, blocks: Blocks) -> None:
        self._count, self._blocks = len(rows), blocks
        self._rows, self._free = _summed(rows), np.flatnonzero(rows == 0)
        self._hot, self._heat = hot.leaves, _summed(hot.rows)

    def near(self, crowded: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Disjoint windows that each begin with a crowded leaf and include free ones.

        A window lies within one block. Some crowded leaves may have none.

        Returns:
            The first leaf of each window, and the leaf behind its last.
        """
        ends, limits = np.zeros(len(crowded), np.int64), self._blocks.ends[self._blocks.of_leaves(crowded)]
        for size in range(2, _REACH + 1):
            end = crowded + size
            open_ = np.flatnonzero((ends == 0) & (end <= limits))
            start, end = crowded[open_], end[open_]
            fits = (self._rows[end] - self._rows[start] <= _PACKED * size) & self._has_free(start, end)
            ends[open_[fits]] = end[fits]
        found = ends > 0
        starts, ends = crowded[found], ends[found]
        if len(starts) > 1:
            reached = np.concatenate(([0], np.maximum.accumulate(ends)[:-1]))
            alone = starts >= reached
            starts, ends = starts[alone], ends[alone]
        return starts, ends

    def _has_free(self, starts: Int64Array, ends: Int64Array) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether there are leaves without rows among those from each start to its end."""
        found: np.ndarray[tuple[int], np.dtype[np.bool_]]
        found = np.searchsorted(self._free, ends) > np.searchsorted(self._free, starts)
        return found

    def _heat_of(self, starts: Int64Array, ends: Int64Array) -> Int64Array:
        """The rows that come several at once to the leaves from each start to its end."""
        return self._heat[np.searchsorted(self._hot, ends)] - self._heat[np.searchsorted(self._hot, starts)]

    def aligned(self, crowded: Int64Array) -> tuple[Int64Array, Int64Array, int, Int64Array]:
        """Aligned windows with room for the rows of crowded leaves.

        Returns:
            The first leaf of each window; the leaf behind its last; the number of all leaves afterwards, which grows
                only where there is a single block; and the blocks in which no window has room.
        """
        count, level = self._count, 1
        starts, ends, full = [_NONE], [_NONE], [_NONE]
        own = self._blocks.of_leaves(crowded)
        begins, limits, offsets = self._blocks.begins, self._blocks.ends, self._blocks.offsets
        while len(crowded):
            numbers = (crowded + offsets[own]) >> level
            is_first = np.append(True, (numbers[1:] != numbers[:-1]) | (own[1:] != own[:-1]))
            window, owners, numbers = np.cumsum(is_first) - 1, own[is_first], numbers[is_first]
            low = np.maximum((numbers << level) - offsets[owners], begins[owners])
            high = np.minimum(((numbers + 1) << level) - offsets[owners], limits[owners])
            rows, sizes = self._rows[high] - self._rows[low], high - low
            fits = rows <= SLOTS * sizes * max(_SPARSE, _DENSE - level * _STEP)
            if level <= _HOT_LEVELS:
                spare = sizes - -(-rows // _PACKED)
                fits &= spare * _PACKED >= _CYCLES * self._heat_of(low, high)
            is_full = ~fits & (low == begins[owners]) & (high == limits[owners])
            if (
                len(begins) == 1
                and is_full.any()
                and (size := max(count + 1, -(-int(rows[0]) * 10 // (7 * SLOTS)))) <= self._blocks.longest
            ):
                count = size
                high, fits, is_full = np.array([count]), np.array([True]), np.array([False])
            starts.append(low[fits])
            ends.append(high[fits])
            full.append(owners[is_full])
            is_open = ~(fits | is_full)[window]
            crowded, own = crowded[is_open], own[is_open]
            level += 1
        return np.concatenate(starts), np.concatenate(ends), count, np.concatenate(full)


def lay_out(windows: Windows, rows: Int64Array, cuts: Int64Array) -> Int64Array:
    """The number of rows of each leaf of all windows.

    Args:
        windows: the leaves.
        rows: the number of rows of each window.
        cuts: positions in the rows of all windows, ascending. More rows are expected at each cut.
    """
    leaves, ends = windows.ends - windows.starts, np.cumsum(rows)
    window = np.searchsorted(ends, cuts)  # a position at an end is behind the last row of that window
    some = (leaves[window] > 1) & ~windows.is_packed[window] & (windows.sizes[window] == leaves[window])
    cuts, window = cuts[some], window[some]
    # leaves that are left free in each window, if the others are packed
    parts = _Parts.of(ends, window, cuts)
    spare = leaves - np.bincount(parts.window, -(-parts.rows // _PACKED), minlength=len(leaves)).astype(np.int64)
    keep = spare[window] > 0
    if not keep.all():
        cuts, window = cuts[keep], window[keep]
        parts = _Parts.of(ends, window, cuts)
    hot = np.bincount(window, minlength=len(leaves))
    is_cut = hot[parts.window] > 0
    sizes = np.where(is_cut, -(-parts.rows // _PACKED), windows.sizes[parts.window])
    room = np.where(is_cut, sizes, leaves[parts.window])
    gaps = np.flatnonzero(parts.is_hot)
    owner = parts.window[gaps]
    number = np.arange(len(gaps)) - (np.cumsum(hot) - hot)[owner]
    room[gaps] += spare[owner] // hot[owner] + (number < spare[owner] % hot[owner])
    part = np.repeat(np.arange(len(room)), room)
    leaf = ranges_of(np.zeros_like(room), room)
    few, more = np.divmod(parts.rows, np.maximum(sizes, 1))  # the first leaves have a row more
    even = np.where(leaf < sizes[part], few[part] + (leaf < more[part]), 0)
    packed = np.clip(parts.rows[part] - _PACKED * leaf, 0, _PACKED)
    found: Int64Array = np.where((parts.is_hot | windows.is_packed[parts.window])[part], packed, even)
    return found


class _Parts(NamedTuple):
    """The rows of windows, cut where more are expected.

    Attributes:
        window: the window of each part.
        rows: the number of rows of the part.
        is_hot: whether more rows are expected behind the part.
    """

    window: Int64Array
    rows: Int64Array
    is_hot: np.ndarray[tuple[int], np.dtype[np.bool_]]

    @classmethod
    def of(cls, ends: Int64Array, window: Int64Array, cuts: Int64Array) -> _Parts:
        """The parts of windows.

        Args:
            ends: the position behind the last row of each window.
            window: the window of each cut.
            cuts: the positions of the cuts.
        """
        at_end = cuts == ends[window]
        inner = np.flatnonzero(~at_end)
        windows = np.concatenate((np.arange(len(ends)), window[inner]))
        stops = np.concatenate((ends, cuts[inner]))
        is_hot = np.zeros(len(windows), np.bool_)
        is_hot[window[at_end]] = True
        is_hot[len(ends) :] = True
        order = np.lexsort((stops, windows))
        stops = stops[order]
        return cls(windows[order], np.diff(stops, prepend=0), is_hot[order])


def _summed(numbers: np.ndarray[tuple[int], np.dtype[Any]]) -> Int64Array:
    """The sums of the first ``i`` numbers, for ``i`` from 0 to all."""
    found = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum(numbers, out=found[1:])
    return found


def _overlap(
    starts: Int64Array, ends: Int64Array, others: Int64Array, their_ends: Int64Array
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each of some disjoint runs overlaps one of the others."""
    if not len(others) or not len(starts):
        return np.zeros(len(starts), np.bool_)
    others, their_ends, _ = joined(others, their_ends)
    behind = np.searchsorted(their_ends, starts, side="right")  # the first one that ends behind the start
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = behind < len(others)
    found[found] = others[behind[found]] < ends[found]
    return found
