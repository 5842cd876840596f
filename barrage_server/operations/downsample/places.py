"""The places of rows along a column that never descends."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Final

import numpy as np

from barrage_server.engine.interrupts import check_interrupt
from barrage_server.engine.plan import Int64Array
from barrage_server.operations.downsample.axis import Axis, Number, NumberArray
from barrage_server.operations.downsample.blocks import BLOCK, PIECE, Growing
from barrage_server.operations.downsample.sequence import DisorderError, Sequence

__all__ = ["ColumnPlaces", "Places", "RowPlaces"]

_FEW: Final = 4


class Places(ABC):
    """Finds rows by their values on an axis.

    Attributes:
        axis: the axis.

    """

    axis: Axis

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return 0

    @abstractmethod
    def extend(self, rows: Sequence) -> None:
        """Add new rows.

        Raises:
            DisorderError: values descend or are missing.

        """

    @abstractmethod
    def read(self, rows: Sequence, start: int, end: int) -> NumberArray:
        """The values of the rows numbered from ``start`` to ``end``."""

    @abstractmethod
    def search(self, rows: Sequence, values: NumberArray) -> Int64Array:
        """The number of the first row with at least each of ascending values."""

    def value(self, rows: Sequence, number: int) -> Number:
        """The value of one row."""
        found: Number = self.read(rows, number, number + 1)[0].item()
        return found

    def first_from(self, rows: Sequence, value: Number) -> int:
        """The number of the first row with at least this value."""
        limits = self.axis.array([value])
        if self.axis.is_whole and limits[0].item() < value:
            return rows.end  # beyond 64 bits
        return int(self.search(rows, limits)[0])


class RowPlaces(Places):
    """The numbers of rows themselves."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis

    def extend(self, rows: Sequence) -> None:
        """Do nothing: the numbers are known."""

    def read(self, rows: Sequence, start: int, end: int) -> NumberArray:  # noqa: ARG002
        """The numbers."""
        return np.arange(start, end, dtype=np.int64)

    def search(self, rows: Sequence, values: NumberArray) -> Int64Array:
        """The numbers, clipped to the rows."""
        return np.clip(values, rows.begin, rows.end).astype(np.int64)


class ColumnPlaces(Places):
    """The values of a column, sampled at the first row of each block.

    Methods may be called from any thread.

    Args:
        axis: the axis.
        column: the number of the column.

    """

    def __init__(self, axis: Axis, column: int) -> None:
        self.axis = axis
        self._column = column
        self._lock = threading.Lock()
        self._samples = Growing(np.int64 if axis.is_whole else np.float64)
        self._base = 0  # the block of the first sample
        self._checked = -1  # the row behind the last one that was looked at; none yet
        self._last: Number = 0
        self._falls = False

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return self._samples.nbytes

    def extend(self, rows: Sequence) -> None:
        """Sample the new rows, and check that they do not descend."""
        with self._lock:
            if self._checked < rows.begin:
                self._samples.keep(len(self._samples.array))
                self._base, self._checked = rows.begin // BLOCK, rows.begin
            elif rows.begin // BLOCK - self._base > max(len(self._samples.array) // 2, 1024):
                self._samples.keep(rows.begin // BLOCK - self._base)
                self._base = rows.begin // BLOCK
            while self._checked < rows.end and not self._falls:
                check_interrupt()
                end = min(rows.end, self._checked - self._checked % PIECE + PIECE)
                self._look(rows, self._checked, end)
            if self._falls:
                raise DisorderError

    def _look(self, rows: Sequence, start: int, end: int) -> None:
        (array,) = rows.version.read(rows.range(start, end), (self._column,))
        values, valid = self.axis.numbers(array)
        had_rows = len(self._samples.array) > 0
        if valid is not None or (had_rows and values[0] < self._last) or (values[1:] < values[:-1]).any():
            self._falls = True
            return
        self._samples.add(values[-start % BLOCK :: BLOCK] if had_rows else _first_of_blocks(values, start))
        self._checked, self._last = end, values[-1].item()

    def read(self, rows: Sequence, start: int, end: int) -> NumberArray:
        """The values of rows."""
        (array,) = rows.version.read(rows.range(start, end), (self._column,))
        return self.axis.numbers(array)[0]

    def search(self, rows: Sequence, values: NumberArray) -> Int64Array:
        """Bisect, beginning with the blocks."""
        with self._lock:
            samples, base = self._samples.array, self._base
        blocks = base + np.searchsorted(samples, values)
        high = np.where(blocks < base + len(samples), blocks * BLOCK, rows.end).clip(rows.begin, rows.end)
        low = ((blocks - 1) * BLOCK).clip(rows.begin, high)
        if base * BLOCK > rows.begin:  # an older version, of which some blocks are not known any more
            low[blocks <= base] = rows.begin
        if len(values) <= _FEW and int((high - low).sum()) <= 2 * BLOCK * _FEW:
            for place, value in enumerate(values):
                if low[place] < high[place]:
                    near = self.read(rows, int(low[place]), int(high[place]))
                    low[place] += int(np.searchsorted(near, value))
            return low
        while True:
            open_ = np.flatnonzero(low < high)
            if not len(open_):
                return low
            middle = (low[open_] + high[open_]) >> 1
            numbers, places = np.unique(middle, return_inverse=True)
            (array,) = rows.version.read(rows.rows(numbers, numbers + 1), (self._column,))
            is_below = self.axis.numbers(array)[0][places] < values[open_]
            low[open_[is_below]] = middle[is_below] + 1
            high[open_[~is_below]] = middle[~is_below]


def _first_of_blocks(values: NumberArray, start: int) -> NumberArray:
    """The value of the first row of each block, and of the first row at all."""
    places = np.arange(-start % BLOCK, len(values), BLOCK)
    return values[places if start % BLOCK == 0 else np.append(0, places)]
