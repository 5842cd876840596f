"""Functions of the rows of a window around a row.

Null is left out of all functions but lists and formulas.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from barrage_server.engine.interrupts import check_interrupt
from barrage_server.engine.plan import Int64Array
from barrage_server.engine.ranges import ranges_of
from barrage_server.engine.values import concatenated, take
from barrage_server.errors import LimitError
from barrage_server.fixed_limits import LIST_ITEMS
from barrage_server.operations.budget import check_bytes, most_bytes
from barrage_server.operations.formula_view import Computation
from barrage_server.operations.members import lists_of
from barrage_server.operations.row_places import check_copies
from barrage_server.operations.update_by.functions import Frame, Window, Windows, flags
from barrage_server.operations.update_by.segments import Flags, Numbers, reduce_ranges, squares_of_ranges
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
from barrage_server.plan.update_by import DeltaControl
from barrage_server.wire.buffers import is_valid

__all__ = [
    "CountIn",
    "CountWhereIn",
    "Delta",
    "ExtremeIn",
    "FormulaIn",
    "ListIn",
    "MeanIn",
    "TotalIn",
    "WeightedMeanIn",
]

_FUNCTIONS: Final = {
    "rolling_sum": np.add,
    "rolling_prod": np.multiply,
    "rolling_min": np.minimum,
    "rolling_max": np.maximum,
}
_ITEMS: Final = 1 << 22
"""Values of windows in memory at a time; a single window may be larger."""


class _Rolling(Window):
    """A function of one column."""

    def __init__(self, number: int, result: pa.DataType, frame: Frame) -> None:
        self.inputs = (number,)
        self.type = result
        self.frame = frame


def _counts(valid: Flags, windows: Windows) -> Int64Array:
    """The number of values in each window."""
    sums = np.concatenate(([0], np.cumsum(valid, dtype=np.int64)))
    counted: Int64Array = sums[windows.end] - sums[windows.first]
    return counted


def _reduced(function: np.ufunc, values: Numbers, windows: Windows) -> Numbers:
    """Reduce each window by a ufunc; 0 for an empty one."""
    found = np.zeros(len(windows.first), values.dtype)
    some = np.flatnonzero(windows.first < windows.end)
    found[some] = reduce_ranges(function, values, windows.first[some], windows.end[some])
    return found


class TotalIn(_Rolling):
    """The sum or product of a window.

    A sum is a 64-bit integer for integers, and a double for floats. A product is a double.
    """

    def __init__(self, function: str, number: int, data_type: pa.DataType, frame: Frame) -> None:
        is_sum = function == "rolling_sum"
        if not (is_summed if is_sum else is_number)(data_type):
            raise TypeError
        super().__init__(number, DOUBLE if pat.is_floating(data_type) or not is_sum else LONG, frame)
        self._function = _FUNCTIONS[function]

    def run(self, columns: Sequence[pa.Array], windows: Windows) -> pa.Array:
        """Replace nulls by the identity, and reduce."""
        values, valid = numbers(columns[0], self.type.to_pandas_dtype())
        values[~valid] = self._function.identity
        return written(_reduced(self._function, values, windows), _counts(valid, windows) > 0, self.type)


class ExtremeIn(_Rolling):
    """The smallest or largest value of a window."""

    def __init__(self, function: str, number: int, data_type: pa.DataType, frame: Frame) -> None:
        if not is_ordered(data_type):
            raise TypeError
        super().__init__(number, data_type, frame)
        self._function = _FUNCTIONS[function]
        self._is_text = not is_number(data_type) and storage_of(data_type) is None
        self._dtype: Any = np.int64
        if pat.is_floating(data_type):
            self._dtype = np.float64
        elif pat.is_uint64(data_type):
            self._dtype = np.uint64

    def run(self, columns: Sequence[pa.Array], windows: Windows) -> pa.Array:
        """Replace nulls by the last value in the order, and reduce."""
        if self._is_text:
            values, valid, where = ranks_of(columns[0])
        else:
            values, valid = numbers(columns[0], self._dtype)
        some = values[valid]
        is_least = self._function is np.minimum
        if values.dtype == np.float64:
            values[~valid] = np.inf if is_least else -np.inf
        elif len(some):
            values[~valid] = some.max() if is_least else some.min()
        found, has = _reduced(self._function, values, windows), _counts(valid, windows) > 0
        if self._is_text:
            return taken(columns[0], np.where(has, where[found] if len(where) else -1, -1))
        return written(found, has, self.type)


class CountIn(_Rolling):
    """The number of values of a window."""

    def __init__(self, number: int, frame: Frame) -> None:
        super().__init__(number, LONG, frame)

    def run(self, columns: Sequence[pa.Array], windows: Windows) -> pa.Array:
        """Count values."""
        return pa.array(_counts(np.asarray(is_valid(columns[0])), windows))


class MeanIn(_Rolling):
    """The mean, or the standard deviation of a sample.

    The deviation of one value is NaN.
    """

    def __init__(self, function: str, number: int, data_type: pa.DataType, frame: Frame) -> None:
        if not is_summed(data_type):
            raise TypeError
        super().__init__(number, DOUBLE, frame)
        self._is_deviation = function == "rolling_std"

    def run(self, columns: Sequence[pa.Array], windows: Windows) -> pa.Array:
        """Divide sums, or sums of squared distances from the mean, by counts."""
        values, valid = numbers(columns[0], np.float64)
        counts = _counts(valid, windows)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            if not self._is_deviation:
                return written(_reduced(np.add, values, windows) / counts, counts > 0, DOUBLE)
            kept = np.concatenate(([0], np.cumsum(valid, dtype=np.int64)))  # where values are, without nulls
            first, end = kept[windows.first], kept[windows.end]
            several = np.flatnonzero(end - first > 1)
            variances = np.full(len(first), np.nan)
            spread = squares_of_ranges(values[valid], first[several], end[several])
            variances[several] = spread / (counts[several] - 1)
            return written(np.sqrt(variances), counts > 0, DOUBLE)


class WeightedMeanIn(Window):
    """The weighted mean, a double.

    Rows without a weight or value are left out.
    """

    type = DOUBLE

    def __init__(self, number: int, weight: int, types: Sequence[pa.DataType], frame: Frame) -> None:
        if not all(map(is_number, types)):
            raise TypeError
        self.inputs = (number, weight)
        self.frame = frame

    def run(self, columns: Sequence[pa.Array], windows: Windows) -> pa.Array:
        """Divide the sums of products by the sums of weights."""
        (values, valid), (weights, weighted) = (numbers(column, np.float64) for column in columns)
        both = valid & weighted
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            products = _reduced(np.add, np.where(both, values * weights, 0.0), windows)
            found = products / _reduced(np.add, np.where(both, weights, 0.0), windows)
        return written(found, _counts(both, windows) > 0, DOUBLE)


class CountWhereIn(Window):
    """The number of rows of a window that meet all conditions."""

    type = LONG

    def __init__(
        self, names: Sequence[str], inputs: Sequence[int], conditions: Sequence[Computation], frame: Frame
    ) -> None:
        self.inputs = tuple(inputs)
        self.frame = frame
        self._names = tuple(names)
        self._conditions = tuple(conditions)

    def run(self, columns: Sequence[pa.Array], windows: Windows) -> pa.Array:
        """Count rows."""
        values = dict(zip(self._names, columns, strict=False))
        return pa.array(_counts(flags(self._conditions, values, len(columns[0])), windows))


class ListIn(_Rolling):
    """All values of a window, with nulls, as a list."""

    def __init__(self, number: int, data_type: pa.DataType, frame: Frame) -> None:
        super().__init__(number, pa.list_(data_type), frame)
        self._most_bytes = most_bytes()

    def run(self, columns: Sequence[pa.Array], windows: Windows) -> pa.Array:
        """Take the values of each window.

        Raises:
            LimitError: they are too many.

        """
        lengths = windows.end - windows.first
        items = int(lengths.sum())
        if items > LIST_ITEMS.most:
            raise LimitError(
                f"The lists of a rolling_group would have {items:,} values, and {LIST_ITEMS.most:,} is the "
                f"most ({LIST_ITEMS.name}). Use a narrower window."
            )
        check_bytes(items * max(8.0, columns[0].nbytes / max(len(columns[0]), 1)), self._most_bytes)
        places = ranges_of(windows.first, lengths)
        check_copies(columns[0], places)
        return lists_of(take(columns[0], places), lengths)


class FormulaIn(Window):
    """The result of a formula over the lists of values of a window."""

    def __init__(self, formula: Computation, inputs: Mapping[str, int], frame: Frame) -> None:
        self.inputs = tuple(inputs.values())
        self.type = formula.type
        self.frame = frame
        self._names = tuple(inputs)
        self._formula = formula
        self._most_bytes = most_bytes()

    def run(self, columns: Sequence[pa.Array], windows: Windows) -> pa.Array:
        """Evaluate the formula, some windows at a time."""
        lengths = windows.end - windows.first
        parts: list[pa.Array] = []
        nbytes = 0
        for part in _pieces(lengths):
            places = ranges_of(windows.first[part], lengths[part])
            for column in columns:
                check_copies(column, places)
            lists = {
                name: lists_of(take(column, places), lengths[part])
                for name, column in zip(self._names, columns, strict=False)
            }
            parts.append(self._formula.evaluate(lists, len(lengths[part])))
            nbytes += parts[-1].nbytes
            check_bytes(nbytes, self._most_bytes)
        return concatenated(parts, self.type)


def _pieces(lengths: Int64Array) -> Iterator[slice]:
    """Slices of the windows, each with about ``_ITEMS`` values, or one large window."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(lengths):
        check_interrupt()
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + _ITEMS, "right")))
        yield slice(start, stop)
        start = stop


class Delta(_Rolling):
    """The difference from the value in the row before.

    It has the column's type, in which it wraps around.
    """

    def __init__(self, number: int, data_type: pa.DataType, control: DeltaControl) -> None:
        if not (is_number(data_type) or pat.is_timestamp(data_type)):
            raise TypeError
        super().__init__(number, LONG if pat.is_timestamp(data_type) else data_type, Frame(None, 2, 0))
        self._control = control

    def run(self, columns: Sequence[pa.Array], windows: Windows) -> pa.Array:
        """Subtract where both rows have a value."""
        values, valid = numbers(columns[0], self.type.to_pandas_dtype())
        own, before = values[windows.own], values[windows.first]
        both = valid[windows.first] & (windows.first < windows.own)
        with np.errstate(invalid="ignore", over="ignore"):
            found = own - before
        if self._control == DeltaControl.VALUE_DOMINATES:
            found = np.where(both, found, own)
        elif self._control == DeltaControl.ZERO_DOMINATES:
            found = np.where(both, found, np.zeros(1, own.dtype))
        else:
            return written(found, both & valid[windows.own], self.type)
        return written(found, valid[windows.own], self.type)
