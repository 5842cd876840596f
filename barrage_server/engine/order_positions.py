"""Positions of rows in an order, from the number of rows before each leaf."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from barrage_server.engine.order_blocks import Blocks
from barrage_server.engine.order_leaves import BITS, SLOTS, Masks, counts_of, nth_slots, packed
from barrage_server.engine.plan import Int64Array

__all__ = ["MOST_SELECTED", "Positions"]

MOST_SELECTED: Final = 1 << 14
"""Positions up to which :meth:`Positions.slots` is faster than ``RowSet.select``."""
_PER_LOOK_UP: Final = 2000
"""Leaves that can be counted in the time of one look-up in a row set."""
_RUN_BITS: Final = 4
_RUN: Final = 1 << _RUN_BITS
"""Leaves that are counted together. The sum of their rows must fit into 16 bits."""
_COLUMNS: Final = np.arange(_RUN)
_SINGLY: Final = 16
"""Leaves for each look-up so far; with fewer, counting every leaf costs less than counting in runs."""
_LOW_BYTES: Final = np.uint64(0x00FF00FF00FF00FF)
_SUM_OF_FOUR: Final = np.uint64(0x0001000100010001)


class Positions:
    """The positions of the rows of an order, valid until the order changes.

    ``OrderIndex.rows`` gives them, too, but applies all pending changes to its bitmaps first.

    Args:
        blocks: the blocks of the leaves.
        masks: the leaves.
    """

    def __init__(self, blocks: Blocks, masks: Masks) -> None:
        self._blocks, self._masks = blocks, masks
        self._runs = np.zeros(-(-len(masks) // _RUN) + 1, np.int64)  # rows before each run of leaves
        np.cumsum(_counts_of_runs(masks), out=self._runs[1:])
        self._leaves: Int64Array | None = None  # rows before each leaf, for many look-ups
        self._look_ups = 0

    @staticmethod
    def are_worth(look_ups: int, leaves: int, *, known: bool) -> bool:
        """Whether look-ups are faster with positions than with a row set.

        Args:
            look_ups: their number.
            leaves: the number of leaves.
            known: whether the leaves are counted already.
        """
        return known or leaves <= _PER_LOOK_UP * look_ups

    def of_places(self, leaves: Int64Array, offsets: Int64Array) -> Int64Array:
        """The number of rows before places behind ``offsets`` rows of their leaf."""
        found = offsets.astype(np.int64)  # a copy, to add to
        before = self._before_leaves(len(leaves))
        if before is not None:
            found += before[leaves]
            return found
        runs = leaves >> _RUN_BITS
        counts = self._counts_in(runs) * ((leaves & (_RUN - 1))[:, None] > _COLUMNS)
        found += self._runs[runs]
        found += counts.sum(axis=1, dtype=np.int64)
        return found

    def of_slots(self, slots: Int64Array) -> Int64Array:
        """The positions of slots that hold rows."""
        local = self._blocks.places(slots)
        leaves = local >> BITS
        return self.of_places(leaves, counts_of(self._masks[leaves] & packed(local & (SLOTS - 1))))

    def slots(self, positions: Int64Array) -> Int64Array:
        """The slots of the rows at ``positions``, in any order."""
        before = self._before_leaves(len(positions))
        if before is not None:
            leaves = before.searchsorted(positions, "right") - 1
            numbers = positions - before[leaves]
        else:
            runs = self._runs.searchsorted(positions, "right") - 1
            counts = self._counts_in(runs)
            numbers = positions - self._runs[runs]
            ends = counts.cumsum(axis=1, dtype=np.int64)
            inside = np.count_nonzero(ends <= numbers[:, None], axis=1)
            items = np.arange(len(positions))
            leaves = (runs << _RUN_BITS) + inside
            numbers -= ends[items, inside] - counts[items, inside]
        return self._blocks.slots(leaves) + nth_slots(self._masks[leaves], numbers)

    def _before_leaves(self, look_ups: int) -> Int64Array | None:
        """The rows before each leaf; ``None`` if that is not worth while."""
        self._look_ups += look_ups
        if self._leaves is None and len(self._masks) <= _SINGLY * self._look_ups:
            self._leaves = np.zeros(len(self._masks) + 1, np.int64)
            np.cumsum(np.bitwise_count(self._masks), out=self._leaves[1:])
        return self._leaves

    def _counts_in(self, runs: Int64Array) -> npt.NDArray[np.uint8]:
        """The rows of each leaf of runs, a line for each run.

        Those behind the last leaf mean nothing.
        """
        leaves = (runs << _RUN_BITS)[:, None] + _COLUMNS
        return np.bitwise_count(self._masks.take(leaves, mode="clip"))


def _counts_of_runs(masks: Masks) -> Int64Array:
    """The number of rows of each run of leaves, of which the last one may be shorter."""
    whole = len(masks) & -_RUN
    pairs = np.bitwise_count(np.ascontiguousarray(masks[:whole]).view(np.uint64))  # rows of two leaves each, in bytes
    eight = pairs.view(np.uint64)
    fours = (eight & _LOW_BYTES) + ((eight >> np.uint64(8)) & _LOW_BYTES)
    counts = ((fours * _SUM_OF_FOUR) >> np.uint64(48)).astype(np.int64)
    return np.append(counts, counts_of(masks[whole:]).sum()) if whole < len(masks) else counts
