"""Positions of rows in an order, from the number of rows before each leaf."""

from __future__ import annotations

from typing import Final

import numpy as np

from barrage_server.engine.order_blocks import Blocks
from barrage_server.engine.order_leaves import BITS, SLOTS, Masks, counts_of, nth_slots, packed
from barrage_server.engine.plan import Int64Array

__all__ = ["MOST_SELECTED", "Positions"]

MOST_SELECTED: Final = 1 << 14
"""Positions up to which :meth:`Positions.slots` is faster than ``RowSet.select``."""
_PER_LOOK_UP: Final = 2000
"""Leaves that can be counted in the time of one look-up in a row set."""


class Positions:
    """The positions of the rows of an order, valid until the order changes.

    ``OrderIndex.rows`` gives them, too, but applies all pending changes to its bitmaps first.

    Args:
        blocks: the blocks of the leaves.
        masks: the leaves.
    """

    def __init__(self, blocks: Blocks, masks: Masks) -> None:
        self._blocks, self._masks = blocks, masks
        self._before = np.zeros(len(masks) + 1, np.int64)
        np.cumsum(np.bitwise_count(masks), out=self._before[1:])

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
        found: Int64Array = self._before[leaves] + offsets
        return found

    def of_slots(self, slots: Int64Array) -> Int64Array:
        """The positions of slots that hold rows."""
        local = self._blocks.places(slots)
        leaves = local >> BITS
        return self.of_places(leaves, counts_of(self._masks[leaves] & packed(local & (SLOTS - 1))))

    def slots(self, positions: Int64Array) -> Int64Array:
        """The slots of the rows at ``positions``, in any order."""
        leaves = self._before.searchsorted(positions, "right") - 1
        return self._blocks.slots(leaves) + nth_slots(self._masks[leaves], positions - self._before[leaves])
