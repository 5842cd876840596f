"""Blocks of an order's leaves: runs of bounded length in a sparse numbering.

A leaf has a position among all leaves and a number, which is part of the row keys of its slots. The numbers of a block
are consecutive; between two blocks, numbers are unused. A full block gets more leaves behind it, and only its rows
move: later blocks keep their numbers, until none are free between two blocks.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Self

import numpy as np

from barrage_server.engine.cells import MAX_PAGE_BITS
from barrage_server.engine.order_leaves import BITS, SLOTS
from barrage_server.engine.plan import Int64Array

__all__ = ["LEAVES", "Blocks", "Growth"]

LEAVES: Final = 1 << 13
"""The most leaves of a block, and the least that a cycle rewrites when a block is full."""
_MIDDLE: Final = 1 << (40 - BITS)
"""The initial number of the first leaf, with free numbers on both sides."""
_PAGE: Final = 1 << (MAX_PAGE_BITS - BITS)
"""Leaves per page of cells. A block begins with a page, so that no cells are reserved between blocks."""
_STRIDE: Final = 256 * _PAGE
_FRONT_STRIDE: Final = 8 * _PAGE
"""Numbers between blocks: to a new block behind, and to a new block in front, where fewer numbers are free."""
_FEWEST: Final = 4 * _PAGE
"""The least distance in numbers between blocks after renumbering."""
_LOAD: Final = 0.57
"""Rows per slot of a block after growth."""


class Blocks(NamedTuple):
    """The blocks of all leaves.

    Attributes:
        begins: the position of the first leaf of each block, ascending from 0.
        numbers: the numbers of these leaves.
        total: the number of leaves.
        longest: the leaves of a block at most.
    """

    begins: Int64Array
    numbers: Int64Array
    total: int
    longest: int

    @classmethod
    def of(cls, total: int, longest: int) -> Self:
        """Blocks for ``total`` leaves. There is at least one block."""
        begins = np.arange(0, max(total, 1), longest)
        return cls(begins, _MIDDLE + np.arange(len(begins)) * _STRIDE, total, longest)

    @property
    def ends(self) -> Int64Array:
        """The position behind the last leaf of each block."""
        return np.append(self.begins[1:], self.total)

    @property
    def offsets(self) -> Int64Array:
        """The difference between number and position of the leaves of each block."""
        return self.numbers - self.begins

    @property
    def first_slot(self) -> int:
        """The row key of the first slot."""
        return int(self.numbers[0]) << BITS

    @property
    def last_slot(self) -> int:
        """The row key of the last slot."""
        return ((self.total + int(self.offsets[-1])) << BITS) - 1

    def of_leaves(self, leaves: Int64Array) -> Int64Array:
        """The block of each leaf, from the positions of the leaves."""
        if len(self.begins) == 1:
            return np.zeros(len(leaves), np.int64)
        return np.searchsorted(self.begins, leaves, side="right") - 1

    def slots(self, leaves: Int64Array) -> Int64Array:
        """The row keys of the first slots of leaves."""
        if len(self.begins) == 1:
            return (leaves + int(self.numbers[0])) << BITS
        return (leaves + self.offsets[self.of_leaves(leaves)]) << BITS

    def places(self, slots: Int64Array) -> Int64Array:
        """Row keys of slots with the number of each leaf replaced by its position.

        Negative keys are no slots, and remain unchanged.
        """
        if len(self.begins) == 1:
            return np.where(slots < 0, slots, slots - (self.numbers[0] << BITS))
        block = np.searchsorted(self.numbers, slots >> BITS, side="right") - 1
        return np.where(slots < 0, slots, slots - (self.offsets[block] << BITS))

    def padded(self, front: int, total: int) -> Blocks:
        """The blocks with more leaves in the first and the last one.

        Args:
            front: the number of new leaves in front.
            total: the number of all leaves afterwards.
        """
        if not front and total == self.total:
            return self
        begins, numbers = self.begins + front, self.numbers.copy()
        begins[0], numbers[0] = 0, numbers[0] - front
        return self._replace(begins=begins, numbers=numbers, total=total)

    def spread(self, where: Int64Array, total: int) -> Blocks:
        """The blocks after their leaves have moved to the positions ``where``.

        Each block ends with the new leaves behind it; there are ``total`` leaves afterwards.
        """
        return self._replace(begins=where[self.begins], total=total)

    def cut(self, first: int, end: int) -> Blocks:
        """The blocks of the leaves from ``first`` to before ``end``."""
        some = (self.ends > first) & (self.begins < end)
        begins = np.maximum(self.begins[some], first)
        return Blocks(begins - first, begins + self.offsets[some], end - first, self.longest)

    def extended(self, front: int, total: int) -> Blocks:
        """The blocks with more leaves at both ends.

        Leaves for which the first or the last block has no room get blocks of their own.

        Args:
            front: the number of new leaves in front.
            total: the number of all leaves afterwards.
        """
        back = total - front - self.total
        blocks = self
        if back:
            mine = min(back, max(0, self.longest - (self.total - int(self.begins[-1]))))
            more = np.arange(self.total + mine, self.total + back, self.longest)
            last = _page_of(int(self.numbers[-1]))
            numbers = last + _STRIDE * np.arange(1, len(more) + 1)
            begins, numbers = np.append(self.begins, more), np.append(self.numbers, numbers)
            blocks = Blocks(begins, numbers, self.total + back, self.longest)
        if front:
            mine = min(front, max(0, self.longest - int(blocks.ends[0])))
            blocks = blocks.padded(mine, blocks.total + mine)
            front -= mine
        while front:
            size, first = min(front, self.longest), int(blocks.numbers[0])
            # the last half of the numbers in front is used sparingly: there may be no others
            number = first - size - (_FRONT_STRIDE if first > _MIDDLE >> 1 else LEAVES)
            begins = np.append(0, blocks.begins + size)
            blocks = Blocks(begins, np.append(number, blocks.numbers), blocks.total + size, self.longest)
            front -= size
        return blocks


class Growth(NamedTuple):
    """The blocks after full ones have grown.

    Attributes:
        blocks: the blocks.
        where: the new position of each leaf.
        starts, ends: the runs of leaves whose rows must be laid out again.
    """

    blocks: Blocks
    where: Int64Array
    starts: Int64Array
    ends: Int64Array

    @classmethod
    def of(cls, blocks: Blocks, rows: Int64Array, full: Int64Array) -> Self:
        """Give full blocks more leaves.

        Args:
            blocks: the blocks.
            rows: the rows that each is to have.
            full: which of them grow, ascending.
        """
        sizes = blocks.ends - blocks.begins
        longest = blocks.longest
        half = max(1, longest >> 1)
        more = np.zeros(len(sizes), np.int64)
        needed = np.ceil(rows[full] / (_LOAD * SLOTS)).astype(np.int64) - sizes[full]
        more[full] = np.maximum(-(-needed // half), 1) * half
        grown = np.concatenate(([0], np.cumsum(sizes + more)))
        where = np.arange(blocks.total) + np.repeat(np.cumsum(more) - more, sizes)
        numbers, lengths = blocks.numbers.tolist(), sizes.tolist()
        owners = list(range(len(numbers)))  # the former block of each
        is_moved = np.zeros(len(numbers), np.bool_)
        is_moved[full] = True
        for block in reversed(full.tolist()):
            extra, size = int(more[block]), lengths[block]
            after = numbers[block + 1] if block + 1 < len(numbers) else None
            if size + extra <= longest and (after is None or numbers[block] + size + extra <= after):
                lengths[block] += extra
                continue
            new = [min(longest, extra - begin) for begin in range(0, extra, longest)]
            moved = _make_room(numbers, lengths, block, len(new))
            is_moved[[owners[each] for each in range(block + 1, block + 1 + moved)]] = True
            lengths[block + 1 : block + 1] = new
            owners[block + 1 : block + 1] = [owners[block]] * len(new)
        begins = np.cumsum(lengths) - lengths
        result = Blocks(begins.astype(np.int64), np.array(numbers, np.int64), int(grown[-1]), longest)
        return cls(result, where, grown[:-1][is_moved], grown[1:][is_moved])


def _make_room(numbers: list[int], lengths: list[int], block: int, count: int) -> int:
    """Insert the numbers of ``count`` new blocks behind a block.

    Renumbers as few of the later blocks as possible.

    Returns:
        How many blocks behind the new ones have other numbers than before.
    """
    low = _page_of(numbers[block] + lengths[block] - 1)
    moved, step = 0, _STRIDE
    while block + 1 + moved < len(numbers):
        span = numbers[block + 1 + moved] - low
        found = _page_of(span // (count + moved + 1))
        if found >= (_FEWEST if moved else _PAGE):
            step = found
            break
        moved += 1
    numbers[block + 1 : block + 1 + moved] = [low + step * each for each in range(1, count + moved + 1)]
    return moved


def _page_of(number: int) -> int:
    """The number of the first leaf of the page of a leaf."""
    return number - number % _PAGE
