"""Functions of a row and all rows before it in its group.

Null leaves the result as it was in the row before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.engine.plan import Int64Array
from barrage_server.operations.formula_view import Computation
from barrage_server.operations.update_by.functions import Scan, flags
from barrage_server.operations.update_by.segments import Flags, Numbers, accumulate, ends_of, filled
from barrage_server.operations.update_by.values import (
    DOUBLE,
    LONG,
    is_number,
    is_ordered,
    is_summed,
    numbers,
    ranks_of,
    storage_of,
    taken,
    written,
)
from barrage_server.wire.buffers import is_valid

__all__ = ["CountSoFar", "Extreme", "Fill", "Total", "good_runs", "spread"]

_FUNCTIONS: Final = {"cum_sum": np.add, "cum_prod": np.multiply, "cum_min": np.minimum, "cum_max": np.maximum}


def good_runs(good: Flags, starts: Int64Array) -> tuple[Int64Array, Int64Array, Int64Array]:
    """The runs of good items within segments.

    Returns:
        The places of good items; the beginnings of runs among these; and the segment of each run.

    """
    places = np.flatnonzero(good)
    segments = np.searchsorted(starts, places, "right") - 1
    begins = np.flatnonzero(np.diff(segments, prepend=-1))
    return places, begins, segments[begins]


def spread(good: Flags, starts: Int64Array, values: Numbers, carry: Numbers, known: Flags) -> tuple[Numbers, Flags]:
    """Extend the value of each good item up to the next one.

    Items before the first good one of a segment get the segment's carry.

    Args:
        good: the items that have a value of their own.
        starts: the beginnings of segments.
        values: one for each good item.
        carry: the value that precedes each segment.
        known: whether the carry is a value.

    """
    last = filled(good, starts)
    numbers_of_good = np.cumsum(good) - 1
    own = np.repeat(np.arange(len(starts)), ends_of(starts, len(good)) - starts)
    found, valid = carry[own], known[own]
    has = last >= 0
    found[has] = values[numbers_of_good[last[has]]]
    valid[has] = True
    return found, valid


class _Running(Scan):
    """A ufunc over all values so far."""

    _first_nan_stays = False

    def __init__(self, function: str, number: int, result: pa.DataType) -> None:
        self.inputs = (number,)
        self.types = (result,)
        self._function = _FUNCTIONS[function]
        self._dtype: Any = np.float64 if result == DOUBLE else np.int64

    def run(self, columns: Sequence[pa.Array], starts: Int64Array, carry: Sequence[pa.Array]) -> list[pa.Array]:
        """Accumulate values."""
        values, good = numbers(columns[0], self._dtype)
        before, known = numbers(carry[0], self._dtype)
        found, valid = self._run(values, good, starts, before, known)
        return [written(found, valid, self.types[0])]

    def _run(
        self, values: Numbers, good: Flags, starts: Int64Array, before: Numbers, known: Flags
    ) -> tuple[Numbers, Flags]:
        places, begins, segments = good_runs(good, starts)
        own = values[places]
        goes_on = known[segments]
        with np.errstate(invalid="ignore", over="ignore"):
            own[begins[goes_on]] = self._function(before[segments[goes_on]], own[begins[goes_on]])
        found = accumulate(self._function, own, begins)
        if self._first_nan_stays:
            is_nan = np.where(goes_on, np.isnan(before[segments]), np.isnan(values[places[begins]]))
            found[np.repeat(is_nan, ends_of(begins, len(found)) - begins)] = np.nan
        return spread(good, starts, found, before, known)


class Total(_Running):
    """The sum or product so far.

    It is a 64-bit integer, which wraps around, for integers, and a double for floats.
    """

    def __init__(self, function: str, number: int, data_type: pa.DataType) -> None:
        if not (is_summed if function == "cum_sum" else is_number)(data_type):
            raise TypeError
        super().__init__(function, number, DOUBLE if pat.is_floating(data_type) else LONG)


class Extreme(_Running):
    """The smallest or largest value so far.

    NaN is neither smaller nor larger: it stays if it is the first value.
    """

    def __init__(self, function: str, number: int, data_type: pa.DataType) -> None:
        if not is_ordered(data_type):
            raise TypeError
        super().__init__(function, number, data_type)
        self._is_text = not is_number(data_type) and storage_of(data_type) is None
        if pat.is_uint64(data_type):
            self._dtype = np.uint64
        if pat.is_floating(data_type):
            self._dtype = np.float64
            self._function = np.fmin if function == "cum_min" else np.fmax
            self._first_nan_stays = True

    def run(self, columns: Sequence[pa.Array], starts: Int64Array, carry: Sequence[pa.Array]) -> list[pa.Array]:
        """Compare text by its ranks, and other values as numbers."""
        if not self._is_text:
            return super().run(columns, starts, carry)
        both = pa.concat_arrays([columns[0], carry[0]])
        ranks, valid, where = ranks_of(both)
        size = len(columns[0])
        found, there = self._run(ranks[:size], valid[:size], starts, ranks[size:], valid[size:])
        return [taken(both, np.where(there, where[found] if len(where) else -1, -1))]


class Fill(Scan):
    """The last value that is not null."""

    def __init__(self, number: int, data_type: pa.DataType) -> None:
        self.inputs = (number,)
        self.types = (data_type,)

    def run(self, columns: Sequence[pa.Array], starts: Int64Array, carry: Sequence[pa.Array]) -> list[pa.Array]:
        """Take each value from the row of the last one."""
        values = columns[0]
        size = len(values)
        places = filled(np.asarray(is_valid(values)), starts)
        own = size + np.repeat(np.arange(len(starts)), ends_of(starts, size) - starts)
        both = pa.concat_arrays([values, carry[0]])
        return [taken(both, np.where(places < 0, own, places))]


class CountSoFar(Scan):
    """The number of rows so far that meet all conditions."""

    types = (LONG,)

    def __init__(self, names: Sequence[str], inputs: Sequence[int], conditions: Sequence[Computation]) -> None:
        self.inputs = tuple(inputs)
        self._names = tuple(names)
        self._conditions = tuple(conditions)

    def run(self, columns: Sequence[pa.Array], starts: Int64Array, carry: Sequence[pa.Array]) -> list[pa.Array]:
        """Count rows."""
        lengths = ends_of(starts, len(columns[0])) - starts
        holds = flags(self._conditions, dict(zip(self._names, columns, strict=True)), int(lengths.sum()))
        counted = np.cumsum(holds, dtype=np.int64)
        before, _ = numbers(carry[0], np.int64)
        base = before - (counted[starts] - holds[starts])
        return [pa.array(counted + np.repeat(base, lengths))]
