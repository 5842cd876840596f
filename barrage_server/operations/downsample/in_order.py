"""Parts of rows that arrive in the order of their x."""

from __future__ import annotations

from collections.abc import Sequence as List

import numpy as np

from barrage_server.engine.plan import Int64Array
from barrage_server.operations.downsample.axis import Number
from barrage_server.operations.downsample.blocks import PIECE, Blocks
from barrage_server.operations.downsample.extremes import run_starts
from barrage_server.operations.downsample.marks import Marks, Patch, Span
from barrage_server.operations.downsample.places import Places
from barrage_server.operations.downsample.sequence import Sequence

__all__ = ["InOrder"]

_NONE = np.zeros(0, np.int64)


class InOrder:
    """Follows rows that are added at the end and leave at the front.

    A cycle costs the rows that are added.

    Args:
        span: what is shown.
        places: the column that they are plotted over.
        series: the columns that are plotted.

    """

    def __init__(self, span: Span, places: Places, series: List[Blocks]) -> None:
        self._span = span
        self._places = places
        self._axis = places.axis
        self._series = tuple(series)
        self._exponent = 0
        self._parts = self._starts = _NONE
        self._end = 0

    @property
    def nbytes(self) -> int:
        """Bytes of the state about the columns, which may be shared."""
        return self._places.nbytes + sum(blocks.nbytes for blocks in self._series)

    def follow(self, rows: Sequence) -> Patch:
        """The change since the last call.

        Raises:
            DisorderError: rows are out of order.

        """
        self._places.extend(rows)
        for blocks in self._series:
            blocks.extend(rows)
        exponent, start, end = self._frame(rows) if rows.end > rows.begin else (0, 0, 0)
        known = len(self._starts)
        dropped = int(np.searchsorted(np.append(self._starts[1:], self._end), start, "right")) if known else 0
        if dropped == known or exponent != self._exponent or end < self._end or start < self._starts[0]:
            self._exponent, self._end = exponent, end
            self._parts, self._starts = self._cut(rows, start, end)
            return Patch(True, known, ((0, self._marks(rows, 0)),))
        self._parts, self._starts = self._parts[dropped:], self._starts[dropped:]
        patches = []
        touched = len(self._starts)
        if end > self._end:
            touched -= self._grow(rows, end)
        if self._starts[0] < start:  # some of its rows have left
            self._starts = self._starts.copy()
            self._starts[0] = start
            if touched > 0:
                patches.append((0, self._marks(rows, 0, 1)))
        if touched < len(self._starts):
            patches.append((touched, self._marks(rows, touched)))
        return Patch(False, dropped, tuple(patches))

    def _grow(self, rows: Sequence, end: int) -> bool:
        """Add rows at the end. Returns whether the last part has grown."""
        has_grown = False
        for begin in range(self._end, end, PIECE):
            stop = min(end, begin + PIECE)
            parts = self._axis.parts(self._places.read(rows, begin, stop), self._exponent)
            new = np.flatnonzero(parts != np.append(self._parts[-1], parts[:-1]))
            has_grown |= begin == self._end and not (len(new) and new[0] == 0)
            self._parts = np.concatenate((self._parts, parts[new]))
            self._starts = np.concatenate((self._starts, begin + new))
        self._end = end
        return has_grown

    def _frame(self, rows: Sequence) -> tuple[int, int, int]:
        """The exponent of the parts, the first row shown, and the end of the rows."""
        span, axis, places = self._span, self._axis, self._places
        low, high = places.value(rows, rows.begin), places.value(rows, rows.end - 1)
        if span.tail_rows is not None:
            begin = places.value(rows, max(rows.begin, rows.end - span.tail_rows))
            exponent = axis.exponent(begin, high, span.pixels)
            return exponent, self._start(rows, begin, exponent), rows.end
        first, last = span.first, span.last
        if span.tail_x is not None:
            first = high - span.tail_x
        exponent = axis.exponent(
            *_ordered(low if first is None else first, high if last is None else last), span.pixels
        )
        start, end = rows.begin, rows.end
        if first is not None:
            start = self._start(rows, first, exponent)
            if start > rows.begin:  # the part before, so that the line comes from there
                start = self._start(rows, places.value(rows, start - 1), exponent)
        if last is not None:
            end = self._behind(rows, last, exponent)
            if end < rows.end:
                end = self._behind(rows, places.value(rows, end), exponent)
        return exponent, start, end

    def _start(self, rows: Sequence, value: Number, exponent: int) -> int:
        """The first row of the part of a value."""
        return self._places.first_from(rows, self._axis.border(self._axis.part(value, exponent), exponent))

    def _behind(self, rows: Sequence, value: Number, exponent: int) -> int:
        """The row behind the part of a value."""
        return self._places.first_from(rows, self._axis.border(self._axis.part(value, exponent) + 1, exponent))

    def _cut(self, rows: Sequence, start: int, end: int) -> tuple[Int64Array, Int64Array]:
        """The parts that have rows, and the first row of each."""
        if end - start <= PIECE:
            if start == end:
                return _NONE, _NONE
            parts = self._axis.parts(self._places.read(rows, start, end), self._exponent)
            new = run_starts(parts)
            return parts[new], start + new
        first, last = self._part_of(rows, start), self._part_of(rows, end - 1)
        most = 4 * self._span.pixels + 4
        if last - first <= most:
            return self._cut_between(rows, start, end, first, last)
        # the parts beside the range are far away
        second = self._behind(rows, self._places.value(rows, start), self._exponent)
        behind = self._start(rows, self._places.value(rows, end - 1), self._exponent)
        cuts = [(start, second), (second, behind), (behind, end)]
        found = [self._cut(rows, *cut) if cut[1] - cut[0] <= PIECE else self._cut_few(rows, *cut) for cut in cuts]
        return np.concatenate([each[0] for each in found]), np.concatenate([each[1] for each in found])

    def _cut_few(self, rows: Sequence, start: int, end: int) -> tuple[Int64Array, Int64Array]:
        return self._cut_between(rows, start, end, self._part_of(rows, start), self._part_of(rows, end - 1))

    def _cut_between(
        self, rows: Sequence, start: int, end: int, first: int, last: int
    ) -> tuple[Int64Array, Int64Array]:
        parts = np.arange(first, last + 1, dtype=np.int64)
        starts = self._places.search(rows, self._axis.borders(first, last, self._exponent)).clip(start, end)
        has_rows = np.append(starts[1:], end) > starts
        return parts[has_rows], starts[has_rows]

    def _part_of(self, rows: Sequence, number: int) -> int:
        return self._axis.part(self._places.value(rows, number), self._exponent)

    def _marks(self, rows: Sequence, start: int, stop: int | None = None) -> Marks:
        starts = self._starts[start:stop]
        ends = np.append(self._starts[1:], self._end)[: len(self._starts)][start:stop]
        found = [blocks.extremes(rows, starts, ends) for blocks in self._series]
        return Marks(
            starts.copy(),
            ends - 1,
            tuple(one.least_at for one in found),
            tuple(one.greatest_at for one in found),
        )


def _ordered(first: Number, last: Number) -> tuple[Number, Number]:
    return (first, last) if first <= last else (first, first)
