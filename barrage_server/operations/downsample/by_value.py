"""Parts of rows in any order, which are sorted by their x."""

from __future__ import annotations

from collections.abc import Sequence as List

import numpy as np
import pyarrow as pa

from barrage_server.engine.interrupts import check_interrupt
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.sorting import order_of_small
from barrage_server.engine.version import TableVersion
from barrage_server.operations.budget import check_bytes, most_bytes
from barrage_server.operations.downsample.axis import Axis, Number, NumberArray
from barrage_server.operations.downsample.extremes import first_places, run_starts
from barrage_server.operations.downsample.marks import Marks, Span
from barrage_server.operations.downsample.numbers import DoubleArray, finite_doubles

__all__ = ["ByValue"]

_ROW_BYTES = 48
"""Bytes of a row while its part is computed."""


class ByValue:
    """Sorts rows into parts. A call costs all rows.

    Args:
        span: what is shown.
        axis: the column that they are plotted over.
        column: its number; None: the positions of rows.
        series: the numbers of the columns that are plotted.

    """

    def __init__(self, span: Span, axis: Axis, column: int | None, series: List[int]) -> None:
        self._span = span
        self._axis = axis
        self._column = column
        self._series = tuple(series)
        self._most_bytes = most_bytes()

    def marks(self, version: TableVersion) -> Marks:
        """The marks of all parts; rows are numbered by position.

        Raises:
            LimitError: there are too many rows.

        """
        check_bytes(version.size * _ROW_BYTES, self._most_bytes)
        values, rows = self._values(version)
        parts, inside = self._parts(values)
        rows, values, parts = rows[inside], values[inside], parts[inside]
        if not len(rows):
            nothing = np.zeros(0, np.int64)
            return Marks(nothing, nothing, (nothing,) * len(self._series), (nothing,) * len(self._series))
        order = order_of_small(parts, int(parts.min()), int(parts.max()))
        rows, values, parts = rows[order], values[order], parts[order]
        offsets = run_starts(parts)
        lengths = np.diff(offsets, append=len(parts))
        first = np.repeat(np.minimum.reduceat(values, offsets), lengths)
        last = np.repeat(np.maximum.reduceat(values, offsets), lengths)
        least: list[Int64Array] = []
        greatest: list[Int64Array] = []
        for number in self._series:
            numbers = self._numbers(version, number)[rows]
            for found, pick in ((least, np.fmin), (greatest, np.fmax)):
                found.append(
                    _rows_of(rows, numbers == np.repeat(pick.reduceat(numbers, offsets), lengths), offsets, lengths)
                )
        return Marks(
            _rows_of(rows, values == first, offsets, lengths),
            _last_rows(rows, values == last, offsets),
            tuple(least),
            tuple(greatest),
        )

    def _values(self, version: TableVersion) -> tuple[NumberArray, Int64Array]:
        """The values on the axis that are present, and the positions of their rows."""
        if self._column is None:
            rows = np.arange(version.size, dtype=np.int64)
            values: NumberArray = rows
        else:
            values, valid = self._axis.numbers(_whole(version, self._column))
            rows = np.arange(version.size, dtype=np.int64) if valid is None else np.flatnonzero(valid)
            values = values if valid is None else values[rows]
        if self._span.tail_rows is not None:
            place = int(np.searchsorted(rows, version.size - self._span.tail_rows))
            rows, values = rows[place:], values[place:]
        return values, rows

    def _parts(self, values: NumberArray) -> tuple[Int64Array, Int64Array]:
        """The part of each value, and the indices of values that are shown."""
        if not len(values):
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        span, axis = self._span, self._axis
        low, high = values.min().item(), values.max().item()
        first, last = span.first, span.last
        if span.tail_x is not None:
            first = high - span.tail_x
        begin: Number = low if first is None else first
        exponent = axis.exponent(begin, max(begin, high if last is None else last), span.pixels)
        parts = axis.parts(values, exponent)
        shown = np.ones(len(parts), np.bool_)
        if first is not None:
            limit = axis.part(first, exponent)
            before = parts[parts < limit]
            shown &= parts >= (before.max() if len(before) else limit)
        if last is not None:
            limit = axis.part(last, exponent)
            behind = parts[parts > limit]
            shown &= parts <= (behind.min() if len(behind) else limit)
        return parts, np.flatnonzero(shown)

    @staticmethod
    def _numbers(version: TableVersion, column: int) -> DoubleArray:
        check_interrupt()
        return finite_doubles(_whole(version, column))


def _whole(version: TableVersion, column: int) -> pa.Array:
    (array,) = version.read(version.row_set, (column,))
    return array


def _rows_of(
    rows: Int64Array, hits: np.ndarray[tuple[int], np.dtype[np.bool_]], offsets: Int64Array, lengths: Int64Array
) -> Int64Array:
    places = first_places(hits, offsets, lengths)
    return np.where(places < 0, -1, rows[places])


def _last_rows(rows: Int64Array, hits: np.ndarray[tuple[int], np.dtype[np.bool_]], offsets: Int64Array) -> Int64Array:
    places = np.flatnonzero(hits)
    ends = np.append(offsets[1:], len(rows))
    return rows[places[np.searchsorted(places, ends) - 1]]
