"""The extremes of a column in blocks of rows.

The extremes of longer runs are combined from these, without reading the rows again. Rows are those of a
:class:`Sequence`: they never change, so that operators share the blocks, whatever version each of them reads.
"""

from __future__ import annotations

import threading
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from barrage_server.engine.interrupts import check_interrupt
from barrage_server.engine.plan import Int64Array
from barrage_server.operations.downsample.extremes import Extremes, expanded
from barrage_server.operations.downsample.numbers import finite_doubles
from barrage_server.operations.downsample.sequence import Sequence

__all__ = ["BLOCK", "PIECE", "Blocks", "Growing"]

BITS: Final = 8
BLOCK: Final = 1 << BITS
PIECE: Final = 1 << 16
"""Rows that are read at a time."""


class Growing:
    """Numbers that are added at the end.

    An array taken from it does not change later.

    Args:
        dtype: their type.

    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        self._array: npt.NDArray[Any] = np.empty(64, dtype)
        self._count = 0

    @property
    def array(self) -> npt.NDArray[Any]:
        """The numbers."""
        return self._array[: self._count]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self._array.nbytes)

    def add(self, values: npt.NDArray[Any]) -> None:
        """Add numbers."""
        count = self._count + len(values)
        if count > len(self._array):
            enlarged = np.empty(max(count, 2 * len(self._array)), self._array.dtype)
            enlarged[: self._count] = self.array
            self._array = enlarged
        self._array[self._count : count] = values
        self._count = count

    def keep(self, start: int) -> None:
        """Drop the numbers before index ``start``."""
        self._array = self._array[start : self._count].copy()
        self._count = len(self._array)


class Blocks:
    """The extremes of one column in each complete block of rows.

    Methods may be called from any thread.

    Args:
        column: the number of the column.

    """

    def __init__(self, column: int) -> None:
        self.column = column
        self._lock = threading.Lock()
        self._base = -1  # the number of the first block; none yet
        self._least, self._greatest = Growing(np.float64), Growing(np.float64)
        self._least_at, self._greatest_at = Growing(np.uint8), Growing(np.uint8)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return sum(each.nbytes for each in self._all())

    def _all(self) -> tuple[Growing, ...]:
        return self._least, self._greatest, self._least_at, self._greatest_at

    def extend(self, rows: Sequence) -> None:
        """Add new complete blocks, and drop blocks whose rows left the table."""
        with self._lock:
            begin, end = -(-rows.begin >> BITS), rows.end >> BITS
            count = len(self._least.array)
            if self._base < 0 or (begin > self._base + count):
                for each in self._all():
                    each.keep(len(each.array))
                self._base, count = begin, 0
            elif begin - self._base > max(count // 2, 1024):
                for each in self._all():
                    each.keep(begin - self._base)
                count -= begin - self._base
                self._base = begin
            for block in range(self._base + count, end, PIECE >> BITS):
                check_interrupt()
                stop = min(end, block + (PIECE >> BITS))
                self._take(rows, block << BITS, stop << BITS)

    def _take(self, rows: Sequence, start: int, stop: int) -> None:
        (array,) = rows.version.read(rows.range(start, stop), (self.column,))
        values = finite_doubles(array).reshape(-1, BLOCK)
        places = np.arange(len(values))
        least_at, greatest_at = values.argmin(axis=1), values.argmax(axis=1)  # those of NaN, if there is one
        least, greatest = values[places, least_at], values[places, greatest_at]
        gaps = np.flatnonzero(np.isnan(least))
        if len(gaps):
            with_gaps = values[gaps]
            gap = np.isnan(with_gaps)
            low, high = np.where(gap, np.inf, with_gaps), np.where(gap, -np.inf, with_gaps)
            least_at[gaps], greatest_at[gaps] = low.argmin(axis=1), high.argmax(axis=1)
            least[gaps], greatest[gaps] = values[gaps, least_at[gaps]], values[gaps, greatest_at[gaps]]
        self._least.add(least)
        self._greatest.add(greatest)
        self._least_at.add(least_at)
        self._greatest_at.add(greatest_at)

    def extremes(self, rows: Sequence, starts: Int64Array, ends: Int64Array) -> Extremes:
        """The extremes of ascending, disjoint, non-empty runs of rows.

        Places are numbers of rows.
        """
        with self._lock:
            base, (least, greatest, least_at, greatest_at) = self._base, (each.array for each in self._all())
        found = Extremes.none(len(starts))
        first = np.maximum(-(-starts >> BITS), base)
        last = np.minimum(ends >> BITS, base + len(least))
        whole = first < last
        parts = np.flatnonzero(whole)
        if len(parts):
            lengths = last[parts] - first[parts]
            blocks = expanded(first[parts] - base, lengths)
            offsets = np.cumsum(lengths) - lengths
            low, high = Extremes.of(least[blocks], offsets), Extremes.of(greatest[blocks], offsets)
            inner = Extremes(
                low.least,
                _row_numbers(low.least_at, blocks, base, least_at),
                high.greatest,
                _row_numbers(high.greatest_at, blocks, base, greatest_at),
            )
            found.put(parts, inner)
        # what is left of each run, before and behind its blocks
        heads = np.where(whole, first << BITS, ends)
        tails = np.where(whole, last << BITS, ends)
        for run_starts, run_ends in ((starts, heads), (tails, ends)):
            parts = np.flatnonzero(run_starts < run_ends)
            for some in _pieces(parts, run_ends - run_starts):
                found.put(some, self._read(rows, run_starts[some], run_ends[some]))
        return found

    def _read(self, rows: Sequence, starts: Int64Array, ends: Int64Array) -> Extremes:
        check_interrupt()
        (array,) = rows.version.read(rows.rows(starts, ends), (self.column,))
        lengths = ends - starts
        offsets = np.cumsum(lengths) - lengths
        found = Extremes.of(finite_doubles(array), offsets)
        move = starts - offsets
        return found._replace(
            least_at=np.where(found.least_at < 0, -1, found.least_at + move),
            greatest_at=np.where(found.greatest_at < 0, -1, found.greatest_at + move),
        )


def _row_numbers(places: Int64Array, blocks: Int64Array, base: int, within: npt.NDArray[np.uint8]) -> Int64Array:
    chosen = blocks[places]
    return np.where(places < 0, -1, ((chosen + base) << BITS) + within[chosen])


def _pieces(parts: Int64Array, lengths: Int64Array) -> list[Int64Array]:
    """The parts in groups that are read together.

    A group has some 262,144 rows, or is one larger part.
    """
    if not len(parts):
        return []
    piece = np.cumsum(lengths[parts]) // (4 * PIECE)
    return np.split(parts, np.flatnonzero(np.diff(piece)) + 1)
