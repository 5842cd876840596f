"""What is kept for each group, so that rows can be added to an aggregation and taken away from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from barrage_server.engine.plan import Int64Array
from barrage_server.engine.values import from_cells, to_cells
from barrage_server.operations.group_totals import (
    DoubleArray,
    GroupArray,
    GroupTotals,
    divided,
    product,
    two_product,
)

__all__ = ["FUNCTIONS", "Accumulator", "is_number"]

_HUGE: Final = 2.0**480  # squares of larger numbers may be outside of the range of a double


class Accumulator(ABC):
    """The state of one aggregation of one column, for each group.

    Args:
        types: the types of its inputs: the column, and the weights of a weighted function.

    Attributes:
        type: the type of the result.
        metadata: that of the column of results.

    """

    inputs: ClassVar[int] = 1
    metadata: ClassVar[Mapping[str, str] | None] = None

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self.types = tuple(types)
        self.type = self.result_type(types)

    @classmethod
    @abstractmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        """The type of the result for inputs of these types; TypeError when it cannot be computed of them."""

    @property
    @abstractmethod
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """All of the state."""

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return sum(part.nbytes for part in self.parts)

    def reserve(self, count: int) -> None:
        """Have room for ``count`` groups at least."""
        for part in self.parts:
            part.reserve(count)

    def pack(self, living: Int64Array) -> None:
        """Keep the groups ``living`` only, which become the groups from 0."""
        for part in self.parts:
            part.pack(living)

    @abstractmethod
    def change(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Take rows in, or out.

        Args:
            groups: the groups concerned, ascending and different from each other.
            places: for each row, the position of its group in ``groups``.
            columns: the values of the inputs.
            sign: 1: the rows are added; -1: they are taken away.

        """

    def exchange(
        self, groups: Int64Array, places: Int64Array, old: Sequence[pa.Array], new: Sequence[pa.Array]
    ) -> None:
        """Take rows out as they were, and in as they are; see :meth:`change`."""
        self.change(groups, places, old, -1)
        self.change(groups, places, new, 1)

    @abstractmethod
    def results(self, groups: Int64Array) -> pa.Array:
        """The result for each of ``groups``."""

    def reuse(self, other: Accumulator) -> bool:  # noqa: ARG002  (most have nothing to share)
        """Use the state of ``other``, of the same inputs, if that is what this one needs; it is not changed then."""
        return False


class _OfValues(Accumulator):
    """Knows how many values each group has that are not null."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(types)
        self.numbers = GroupArray(np.int64)

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        """A double, of numbers and booleans."""
        for data_type in types:
            if not is_number(data_type):
                raise TypeError
        return pa.float64()

    def change(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Count what is not null, and take that in, or out."""
        there = [valid for _, valid in map(to_cells, columns) if valid is not None] if _have_nulls(columns) else []
        if there:
            kept = np.flatnonzero(np.logical_and.reduce(there))
            places, columns = places[kept], [column.take(pa.array(kept)) for column in columns]
        self.numbers.array[groups] += sign * np.bincount(places, minlength=len(groups))
        self.take_in(groups, places, columns, sign)
        if sign < 0:
            self.clear(groups[self.numbers.array[groups] == 0])

    @abstractmethod
    def take_in(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """:meth:`change` for rows without nulls."""

    def clear(self, groups: Int64Array) -> None:
        """Forget rounding errors of groups that have no values left."""

    def shown(self, groups: Int64Array, values: npt.NDArray[Any]) -> pa.Array:
        """Results as an array, with nulls for groups without values."""
        valid = self.numbers.array[groups] > 0
        values = np.ascontiguousarray(values)
        return from_cells(self.type, values, None if valid.all() else valid)


class _IntegerSum(_OfValues):
    """64-bit integers that wrap around."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(types)
        self._sums = GroupArray(np.int64)

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        """Of unsigned 64-bit integers such ones, of other integers and booleans signed ones."""
        return pa.uint64() if pat.is_uint64(types[0]) else pa.int64()

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """Sums, and numbers of values."""
        return self._sums, self.numbers

    def take_in(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Add to sums, or take away; what wraps around comes back."""
        changes = np.zeros(len(groups), np.int64)
        np.add.at(changes, places, self.of(_integers(columns[0])))
        self._sums.array[groups] += sign * changes

    def of(self, values: Int64Array) -> Int64Array:
        """What of a value is added up: the value."""
        return values

    def results(self, groups: Int64Array) -> pa.Array:
        """The sums."""
        return self.shown(groups, self._sums.array[groups])


class _IntegerAbsSum(_IntegerSum):
    def of(self, values: Int64Array) -> Int64Array:
        """What of a value is added up: its size."""
        return values if pat.is_uint64(self.types[0]) else np.abs(values)


class _DoubleSum(_OfValues):
    """Doubles, of which numbers can be taken away again without a trace. Those of floats are shown as floats."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(types)
        self.totals = GroupTotals()
        self._is_shared = False

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """Sums, and numbers of values."""
        return () if self._is_shared else (self.totals, self.numbers)

    def reuse(self, other: Accumulator) -> bool:
        """Those of sums are those of means."""
        if not isinstance(other, _DoubleSum) or isinstance(self, _DoubleAbsSum) != isinstance(other, _DoubleAbsSum):
            return False
        self.totals, self.numbers, self._is_shared = other.totals, other.numbers, True
        return True

    def take_in(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Add to sums, or take away."""
        self.totals.change(groups, places, self.of(_doubles(columns[0])), sign)

    def exchange(
        self, groups: Int64Array, places: Int64Array, old: Sequence[pa.Array], new: Sequence[pa.Array]
    ) -> None:
        """Add what values have become and take away what they were, at once where each group keeps some of them."""
        exchanged = np.bincount(places, minlength=len(groups))
        if _have_nulls(old) or _have_nulls(new) or (exchanged == self.numbers.array[groups]).any():
            super().exchange(groups, places, old, new)
        else:
            self.totals.exchange(groups, places, self.of(_doubles(old[0])), self.of(_doubles(new[0])))

    def of(self, values: DoubleArray) -> DoubleArray:
        """What of a value is added up: the value."""
        return values

    def clear(self, groups: Int64Array) -> None:
        """Make sums of nothing zero."""
        self.totals.clear(groups)

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        """A float of floats, and of numbers that are narrower; else a double."""
        found = super().result_type(types)
        return pa.float32() if pat.is_float16(types[0]) or pat.is_float32(types[0]) else found

    def results(self, groups: Int64Array) -> pa.Array:
        """The sums."""
        with np.errstate(over="ignore"):
            return self.shown(groups, self.totals.sums(groups).astype(self.type.to_pandas_dtype()))


class _DoubleAbsSum(_DoubleSum):
    def of(self, values: DoubleArray) -> DoubleArray:
        """What of a value is added up: its size."""
        return np.abs(values)


class _DoubleMean(_DoubleSum):
    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        """A double."""
        return _OfValues.result_type(types)

    def results(self, groups: Int64Array) -> pa.Array:
        """Sums by numbers."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.shown(groups, self.totals.sums(groups) / self.numbers.array[groups])


class _IntegerMean(_OfValues):
    """Of integers, whose sum may have more than 64 bits: the upper and the lower halves apart."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(types)
        self._upper = GroupArray(np.int64)
        self._lower = GroupArray(np.int64)

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """Sums of both halves, and numbers of values."""
        return self._upper, self._lower, self.numbers

    def take_in(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Add to sums, or take away."""
        values = _integers(columns[0])
        upper = values.view(np.uint64) >> np.uint64(32) if pat.is_uint64(self.types[0]) else values >> 32
        for part, halves in ((self._upper, upper), (self._lower, values & 0xFFFFFFFF)):
            changes = np.zeros(len(groups), np.int64)
            np.add.at(changes, places, halves.astype(np.int64))
            part.array[groups] += sign * changes

    def results(self, groups: Int64Array) -> pa.Array:
        """Sums by numbers."""
        sums = self._upper.array[groups] * 2.0**32 + self._lower.array[groups]
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.shown(groups, sums / self.numbers.array[groups])


class _Variance(_OfValues):
    """Sums of the values and of their squares."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(types)
        self._sums = GroupTotals()
        self._squares = GroupTotals(3)

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """Both sums, and numbers of values."""
        return self._sums, self._squares, self.numbers

    def take_in(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Add to sums, or take away. Numbers of 2**480 and more count as infinite."""
        values = _doubles(columns[0])
        values = np.where(np.abs(values) >= _HUGE, np.inf, values)
        self._sums.change(groups, places, values, sign)
        finite = np.flatnonzero(np.isfinite(values))
        squares, rest = two_product(values[finite], values[finite])
        for part in (squares, rest):
            self._squares.change(groups, places[finite], part, sign)

    def clear(self, groups: Int64Array) -> None:
        """Make sums of nothing zero."""
        self._sums.clear(groups)
        self._squares.clear(groups)

    def variances(self, groups: Int64Array) -> DoubleArray:
        """The variances: NaN of one value, and where one is not finite."""
        numbers = self.numbers.array[groups].astype(np.float64)
        sums, squares = self._sums.doubles(groups), self._squares.doubles(groups)
        with np.errstate(invalid="ignore", divide="ignore"):
            level = product(divided(sums, numbers), sums)
            spread = (squares[0] - level[0]) + (squares[1] - level[1])
            found = np.maximum(spread, 0.0) / (numbers - 1)
        found[self._sums.others(groups) | (numbers == 1)] = np.nan
        return found

    def results(self, groups: Int64Array) -> pa.Array:
        """The variances."""
        return self.shown(groups, self.variances(groups))


class _Deviation(_Variance):
    def results(self, groups: Int64Array) -> pa.Array:
        """The roots of the variances."""
        return self.shown(groups, np.sqrt(self.variances(groups)))


class _IntegerWeightedSum(_IntegerSum):
    """Sums of the products of integers, which wrap around."""

    inputs = 2

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:  # noqa: ARG003
        """A 64-bit integer."""
        return pa.int64()

    def take_in(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Add to sums, or take away."""
        changes = np.zeros(len(groups), np.int64)
        values, weights = map(_integers, columns)
        np.add.at(changes, places, values * weights)
        self._sums.array[groups] += sign * changes


class _WeightedSum(_OfValues):
    """Sums of the products, each without rounding."""

    inputs = 2

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(types)
        self.products = GroupTotals()

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """Sums of products, and numbers of values."""
        return self.products, self.numbers

    def take_in(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Add to sums, or take away."""
        values, weights = map(_doubles, columns)
        with np.errstate(invalid="ignore", over="ignore"):
            products, rest = two_product(values, weights)
        within = np.isfinite(rest)
        self.products.change(groups, places, products, sign)
        self.products.change(groups, places[within], rest[within], sign)

    def clear(self, groups: Int64Array) -> None:
        """Make sums of nothing zero."""
        self.products.clear(groups)

    def results(self, groups: Int64Array) -> pa.Array:
        """The sums of products."""
        return self.shown(groups, self.products.sums(groups))


class _WeightedMean(_WeightedSum):
    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(types)
        self._weights = GroupTotals()

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """Sums of products and of weights, and numbers of values."""
        return self.products, self._weights, self.numbers

    def take_in(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Add to sums, or take away."""
        super().take_in(groups, places, columns, sign)
        self._weights.change(groups, places, _doubles(columns[1]), sign)

    def clear(self, groups: Int64Array) -> None:
        """Make sums of nothing zero."""
        super().clear(groups)
        self._weights.clear(groups)

    def results(self, groups: Int64Array) -> pa.Array:
        """The sums of products by those of weights."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.shown(groups, self.products.sums(groups) / self._weights.sums(groups))


def is_number(data_type: pa.DataType) -> bool:
    """Whether values of a type can be added up: numbers of fixed width but decimals, and booleans."""
    return bool(pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_boolean(data_type))


def _by_type(integer: type[Accumulator], floating: type[Accumulator]) -> Callable[[Sequence[pa.DataType]], Accumulator]:
    def made(types: Sequence[pa.DataType]) -> Accumulator:
        if not is_number(types[0]):
            raise TypeError
        return (floating if pat.is_floating(types[0]) else integer)(types)

    return made


def _weighted_sum(types: Sequence[pa.DataType]) -> Accumulator:
    """Of integers whole numbers, as long as 64 bits hold the integers."""
    if not all(map(is_number, types)):
        raise TypeError
    is_double = any(pat.is_floating(each) or pat.is_uint64(each) for each in types)
    return (_WeightedSum if is_double else _IntegerWeightedSum)(types)


FUNCTIONS: Final[dict[str, tuple[Callable[[Sequence[pa.DataType]], Accumulator], int]]] = {
    "sum": (_by_type(_IntegerSum, _DoubleSum), 1),
    "abs_sum": (_by_type(_IntegerAbsSum, _DoubleAbsSum), 1),
    "avg": (_by_type(_IntegerMean, _DoubleMean), 1),
    "var": (_Variance, 1),
    "std": (_Deviation, 1),
    "weighted_sum": (_weighted_sum, 2),
    "weighted_avg": (_WeightedMean, 2),
}
"""What makes the accumulator of a function for inputs of some types, and how many inputs it has. The first raises
TypeError when the function cannot be computed of such inputs.
"""


def _have_nulls(columns: Sequence[pa.Array]) -> bool:
    return any(column.null_count for column in columns)


def _integers(column: pa.Array) -> Int64Array:
    """Integers and booleans as 64-bit integers; unsigned ones of 64 bits keep their bits."""
    if pat.is_boolean(column.type):
        column = pc.cast(column, pa.uint8())
    wide = column if pat.is_uint64(column.type) else pc.cast(column, pa.int64())
    return np.asarray(wide.to_numpy(zero_copy_only=False)).view(np.int64)


def _doubles(column: pa.Array) -> DoubleArray:
    if pat.is_boolean(column.type):
        column = pc.cast(column, pa.uint8())
    if column.type != pa.float64():
        column = pc.cast(column, pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False))
