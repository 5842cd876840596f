"""Plans: the cells to read or write, page by page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from barrage_server.rowset import RowSet

__all__ = ["Int64Array", "ReadPlan", "Segment"]

Int64Array = npt.NDArray[np.int64]

# Row sets with ranges of at least this many rows on average are read range by range, others by offsets.
_LONG_RANGE = 256
_FEW_RANGES = 4
# Rows up to this number are read by offsets: counting their ranges costs more.
_FEW_ROWS = 32


class Segment(NamedTuple):
    """The part of a plan that lies in one page.

    Attributes:
        page: the page's number.
        where: which cells of the page, as a slice or as int64 offsets.
        start, stop: which rows of the plan these are.
        top: one more than the highest offset.
    """

    page: int
    where: slice | Int64Array
    start: int
    stop: int
    top: int


class ReadPlan:
    """The cells to read or write, in key order; made once for all columns.

    Attributes:
        size: number of rows.
        first_key: the lowest row key (0 for no rows).
        last_key: the highest row key (-1 for no rows).
        in_slots: a cache for columns with cells in slots: the mapping, the plan of the slots, and the position of each
            row among them (``None``: in the same order).
        in_source: a cache for columns whose rows have other keys in their source table: the mapping, and the plan of
            the rows there (a list for several tables).
        computed: a cache of columns computed for these rows, by view.
    """

    __slots__ = (
        "_keys",
        "_rows",
        "_segments",
        "_set",
        "computed",
        "first_key",
        "in_slots",
        "in_source",
        "last_key",
        "size",
    )

    def __init__(self, size: int, first_key: int, last_key: int, rows: RowSet | None, keys: Int64Array | None) -> None:
        self.size = size
        self.first_key = first_key
        self.last_key = last_key
        self._rows = self._set = rows
        self._keys = keys
        self._segments: dict[int, tuple[Segment, ...]] = {}
        self.in_slots: tuple[object, ReadPlan, Int64Array | None] | None = None
        self.in_source: tuple[object, Any] | None = None
        self.computed: dict[object, pa.Array] = {}

    @classmethod
    def of(cls, rows: ReadPlan | RowSet | Int64Array) -> ReadPlan:
        """A plan for a row set or strictly increasing int64 row keys; a plan as it is."""
        if isinstance(rows, ReadPlan):
            return rows
        return cls.from_row_set(rows) if isinstance(rows, RowSet) else cls.from_keys(rows)

    @classmethod
    def from_row_set(cls, rows: RowSet) -> ReadPlan:
        """A plan for the rows of a row set."""
        size = rows.size
        return cls(size, rows.first_key, rows.last_key, rows, None) if size else cls(0, 0, -1, None, None)

    @classmethod
    def from_range(cls, first: int, last: int) -> ReadPlan:
        """A plan for the row keys ``first`` to ``last``, both included."""
        return cls(last - first + 1, first, last, None, None) if last >= first else cls(0, 0, -1, None, None)

    @classmethod
    def from_keys(cls, keys: Int64Array) -> ReadPlan:
        """A plan for int64 row keys, which must be strictly increasing (unchecked)."""
        return cls(len(keys), int(keys[0]), int(keys[-1]), None, keys) if len(keys) else cls(0, 0, -1, None, keys)

    @property
    def is_contiguous(self) -> bool:
        """Whether the row keys have no gaps."""
        return self.last_key - self.first_key + 1 == self.size

    @property
    def rows(self) -> RowSet:
        """The row keys as a set."""
        if self._set is None:
            if self.is_contiguous:
                self._set = RowSet.from_range(self.first_key, self.last_key)
            else:
                self._set = RowSet.from_sorted_keys(self.keys)
        return self._set

    @property
    def keys(self) -> Int64Array:
        """The row keys, strictly increasing."""
        if self._keys is None:
            if self.is_contiguous or self._rows is None:
                self._keys = np.arange(self.first_key, self.last_key + 1, dtype=np.int64)
            else:
                self._keys = self._rows.keys()
        return self._keys

    def segments(self, page_bits: int) -> tuple[Segment, ...]:
        """The plan page by page, for pages of ``2**page_bits`` cells."""
        found = self._segments.get(page_bits)
        if found is None:
            found = self._segments[page_bits] = tuple(self._split(page_bits))
        return found

    def _split(self, page_bits: int) -> Iterable[Segment]:
        if self.size == 0:
            return ()
        if self.is_contiguous:
            return _split_ranges([(self.first_key, self.last_key)], page_bits)
        rows = self._rows if self.size > _FEW_ROWS else None
        if rows is not None and (rows.range_count <= _FEW_RANGES or rows.range_count * _LONG_RANGE <= self.size):
            starts, ends = rows.ranges()
            return _split_ranges(zip(starts.tolist(), ends.tolist(), strict=True), page_bits)
        return _split_keys(self.keys, page_bits)

    def locate(self, keys: Int64Array) -> tuple[Int64Array, slice | Int64Array]:
        """Where strictly increasing ``keys`` occur in this plan.

        Returns:
            The positions in the plan, and which of ``keys`` are at them (a slice or positions); of equal length.
        """
        # No bound is last_key + 1, which may be beyond int64: the keys would be compared as floats.
        low = int(keys.searchsorted(self.first_key))
        high = int(keys.searchsorted(self.last_key, "right"))
        wanted = keys[low:high]
        if self.is_contiguous:
            return wanted - self.first_key, slice(low, high)
        own = self.keys
        if len(wanted) <= len(own):
            positions = own.searchsorted(wanted)
            hit = np.flatnonzero(own[positions] == wanted)
            return positions[hit], hit + low
        positions = wanted.searchsorted(own)
        positions[positions == len(wanted)] = 0
        hit = np.flatnonzero(wanted[positions] == own) if len(wanted) else positions[:0]
        return hit, positions[hit] + low

    def __len__(self) -> int:
        return self.size


def _split_ranges(ranges: Iterable[tuple[int, int]], page_bits: int) -> Iterable[Segment]:
    mask = (1 << page_bits) - 1
    position = 0
    for first, last in ranges:
        while first <= last:
            offset = first & mask
            count = min(last - first, mask - offset) + 1
            yield Segment(first >> page_bits, slice(offset, offset + count), position, position + count, offset + count)
            position += count
            first += count


def _split_keys(keys: Int64Array, page_bits: int) -> Iterable[Segment]:
    mask = (1 << page_bits) - 1
    first_page, last_page = int(keys[0]) >> page_bits, int(keys[-1]) >> page_bits
    offsets = keys & mask
    if first_page == last_page:
        return (Segment(first_page, offsets, 0, len(keys), int(offsets[-1]) + 1),)
    if last_page - first_page < len(keys):
        edges = keys.searchsorted(np.arange(first_page + 1, last_page + 1, dtype=np.int64) << page_bits)
    else:
        edges = np.flatnonzero(np.diff(keys >> page_bits)) + 1
    places = np.concatenate(([0], edges, [len(keys)]))
    filled = places[1:] > places[:-1]
    starts, stops = places[:-1][filled], places[1:][filled]
    segments = []
    for page, low, high, start, stop in zip(
        (keys[starts] >> page_bits).tolist(),
        offsets[starts].tolist(),
        offsets[stops - 1].tolist(),
        starts.tolist(),
        stops.tolist(),
        strict=True,
    ):
        where = slice(low, high + 1) if high - low == stop - start - 1 else offsets[start:stop]
        segments.append(Segment(page, where, start, stop, high + 1))
    return segments
