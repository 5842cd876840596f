"""State of groups that rows can be added to and removed from."""

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
from barrage_server.operations.exchange import Exchange, GroupChanges
from barrage_server.operations.group_totals import (
    DoubleArray,
    GroupArray,
    GroupTotals,
    divided,
    exact_exchange,
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
        """The type of the result; TypeError for inputs that do not fit."""

    @property
    @abstractmethod
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        """All parts of the state."""

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        return sum(part.nbytes for part in self.parts)

    def reserve(self, count: int) -> None:
        """Make room for at least ``count`` groups."""
        for part in self.parts:
            part.reserve(count)

    def pack(self, living: Int64Array) -> None:
        """Keep only the groups ``living``, renumbered from 0."""
        for part in self.parts:
            part.pack(living)

    @abstractmethod
    def change(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Add or remove rows.

        Args:
            groups: the groups concerned, ascending and different from each other.
            places: for each row, the position of its group in ``groups``.
            columns: the values of the inputs.
            sign: 1: the rows are added; -1: they are taken away.

        """

    def exchange(self, exchange: Exchange, inputs: tuple[int, ...]) -> None:
        """Replace the old values of rows by new ones.

        Args:
            exchange: the rows, which stay in their groups.
            inputs: the numbers of the columns.

        """
        old, new = exchange.columns(inputs)
        self.change(exchange.groups, exchange.places, old, -1)
        self.change(exchange.groups, exchange.places, new, 1)

    @abstractmethod
    def results(self, groups: Int64Array) -> pa.Array:
        """The result for each of ``groups``."""

    def reuse(self, other: Accumulator) -> bool:  # noqa: ARG002  (most have nothing to share)
        """Share the state of ``other``, of the same inputs, if it suffices.

        Returns:
            Whether the state is shared. This accumulator gets no changes then.

        """
        return False


class _OfValues(Accumulator):
    """Counts the values of each group that are not null."""

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
        """Count rows without nulls, and pass them on to :meth:`take_in`."""
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
        """Forget the rounding errors of groups without values."""

    def shown(self, groups: Int64Array, values: npt.NDArray[Any]) -> pa.Array:
        """Results as an array, with nulls for groups without values."""
        valid = self.numbers.array[groups] > 0
        values = np.ascontiguousarray(values)
        return from_cells(self.type, values, None if np.count_nonzero(valid) == len(valid) else valid)


class _IntegerSum(_OfValues):
    """Sums of 64-bit integers, which wrap around."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(types)
        self._sums = GroupArray(np.int64)

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        """uint64 for uint64, otherwise int64."""
        return pa.uint64() if pat.is_uint64(types[0]) else pa.int64()

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        return self._sums, self.numbers

    def take_in(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Change the sums; removing a value undoes its wrap-around."""
        self._sums.array[groups] += sign * _integer_sums(places, len(groups), self.summands(columns))

    def exchange(self, exchange: Exchange, inputs: tuple[int, ...]) -> None:
        """Change the sums by the differences."""
        changes = exchange.changes(_changes, inputs, self.summands)
        if changes is None:
            super().exchange(exchange, inputs)
        else:
            self._sums.array[exchange.groups] += changes[0]

    @staticmethod
    def summands(columns: Sequence[pa.Array]) -> Int64Array:
        """The summand of each row."""
        return _integers(columns[0])

    def results(self, groups: Int64Array) -> pa.Array:
        return self.shown(groups, self._sums.array[groups])


class _IntegerAbsSum(_IntegerSum):
    @staticmethod
    def summands(columns: Sequence[pa.Array]) -> Int64Array:
        values = _integers(columns[0])
        return values if pat.is_uint64(columns[0].type) else np.abs(values)


class _DoubleSum(_OfValues):
    """Sums of doubles, from which values are removed without rounding errors.

    The sums of floats are shown as floats.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(types)
        self.totals = GroupTotals()
        self._is_shared = False

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        return () if self._is_shared else (self.totals, self.numbers)

    def reuse(self, other: Accumulator) -> bool:
        """Share the state of another sum or mean."""
        if not isinstance(other, _DoubleSum) or isinstance(self, _DoubleAbsSum) != isinstance(other, _DoubleAbsSum):
            return False
        self.totals, self.numbers, self._is_shared = other.totals, other.numbers, True
        return True

    def take_in(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        self.totals.change(groups, places, self.summands(columns), sign)

    def exchange(self, exchange: Exchange, inputs: tuple[int, ...]) -> None:
        """Exchange values at once in groups that keep other values."""
        keeps_others = not np.count_nonzero(exchange.counts == self.numbers.array[exchange.groups])
        changes = exchange.changes(_changes, inputs, self.summands) if keeps_others else None
        if changes is None:
            super().exchange(exchange, inputs)
        else:
            self.totals.add(exchange.groups, changes)

    @staticmethod
    def summands(columns: Sequence[pa.Array]) -> DoubleArray:
        """The summand of each row."""
        return _doubles(columns[0])

    def clear(self, groups: Int64Array) -> None:
        self.totals.clear(groups)

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        """float32 for floats of up to 32 bits, otherwise a double."""
        found = super().result_type(types)
        return pa.float32() if pat.is_float16(types[0]) or pat.is_float32(types[0]) else found

    def results(self, groups: Int64Array) -> pa.Array:
        sums = self.totals.sums(groups)
        if self.type == pa.float64():
            return self.shown(groups, sums)
        with np.errstate(over="ignore"):
            return self.shown(groups, sums.astype(self.type.to_pandas_dtype()))


class _DoubleAbsSum(_DoubleSum):
    @staticmethod
    def summands(columns: Sequence[pa.Array]) -> DoubleArray:
        return np.abs(_doubles(columns[0]))


class _DoubleMean(_DoubleSum):
    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:
        return _OfValues.result_type(types)

    def results(self, groups: Int64Array) -> pa.Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.shown(groups, self.totals.sums(groups) / self.numbers.array[groups])


class _IntegerMean(_OfValues):
    """Means of integers, whose upper and lower 32 bits are added up apart.

    So sums of more than 64 bits are exact.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(types)
        self._upper = GroupArray(np.int64)
        self._lower = GroupArray(np.int64)

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        return self._upper, self._lower, self.numbers

    def take_in(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        values = _integers(columns[0])
        upper = values.view(np.uint64) >> np.uint64(32) if pat.is_uint64(self.types[0]) else values >> 32
        for part, halves in ((self._upper, upper), (self._lower, values & 0xFFFFFFFF)):
            changes = np.zeros(len(groups), np.int64)
            np.add.at(changes, places, halves.astype(np.int64))
            part.array[groups] += sign * changes

    def results(self, groups: Int64Array) -> pa.Array:
        sums = self._upper.array[groups] * 2.0**32 + self._lower.array[groups]
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.shown(groups, sums / self.numbers.array[groups])


class _Variance(_OfValues):
    """Variances from the sums of values and of their squares."""

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(types)
        self._sums = GroupTotals()
        self._squares = GroupTotals(3)

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        return self._sums, self._squares, self.numbers

    def take_in(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        """Change both sums. Values of 2**480 and more count as infinite."""
        values = _doubles(columns[0])
        values = np.where(np.abs(values) >= _HUGE, np.inf, values)
        self._sums.change(groups, places, values, sign)
        finite = np.flatnonzero(np.isfinite(values))
        squares, rest = two_product(values[finite], values[finite])
        for part in (squares, rest):
            self._squares.change(groups, places[finite], part, sign)

    def clear(self, groups: Int64Array) -> None:
        self._sums.clear(groups)
        self._squares.clear(groups)

    def variances(self, groups: Int64Array) -> DoubleArray:
        """The variances: NaN for one value, and with values that are not finite."""
        numbers = self.numbers.array[groups].astype(np.float64)
        sums, squares = self._sums.doubles(groups), self._squares.doubles(groups)
        with np.errstate(invalid="ignore", divide="ignore"):
            level = product(divided(sums, numbers), sums)
            spread = (squares[0] - level[0]) + (squares[1] - level[1])
            found = np.maximum(spread, 0.0) / (numbers - 1)
        found[self._sums.others(groups) | (numbers == 1)] = np.nan
        return found

    def results(self, groups: Int64Array) -> pa.Array:
        return self.shown(groups, self.variances(groups))


class _Deviation(_Variance):
    def results(self, groups: Int64Array) -> pa.Array:
        return self.shown(groups, np.sqrt(self.variances(groups)))


class _IntegerWeightedSum(_IntegerSum):
    """Sums of the products of integers, which wrap around."""

    inputs = 2

    @classmethod
    def result_type(cls, types: Sequence[pa.DataType]) -> pa.DataType:  # noqa: ARG003
        return pa.int64()

    @staticmethod
    def summands(columns: Sequence[pa.Array]) -> Int64Array:
        values, weights = map(_integers, columns)
        return values * weights


class _WeightedSum(_OfValues):
    """Sums of exact products."""

    inputs = 2

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(types)
        self.products = GroupTotals()

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        return self.products, self.numbers

    def take_in(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        values, weights = map(_doubles, columns)
        with np.errstate(invalid="ignore", over="ignore"):
            products, rest = two_product(values, weights)
        within = np.isfinite(rest)
        self.products.change(groups, places, products, sign)
        self.products.change(groups, places[within], rest[within], sign)

    def clear(self, groups: Int64Array) -> None:
        self.products.clear(groups)

    def results(self, groups: Int64Array) -> pa.Array:
        return self.shown(groups, self.products.sums(groups))


class _WeightedMean(_WeightedSum):
    def __init__(self, types: Sequence[pa.DataType]) -> None:
        super().__init__(types)
        self._weights = GroupTotals()

    @property
    def parts(self) -> Sequence[GroupArray | GroupTotals]:
        return self.products, self._weights, self.numbers

    def take_in(self, groups: Int64Array, places: Int64Array, columns: Sequence[pa.Array], sign: int) -> None:
        super().take_in(groups, places, columns, sign)
        self._weights.change(groups, places, _doubles(columns[1]), sign)

    def clear(self, groups: Int64Array) -> None:
        super().clear(groups)
        self._weights.clear(groups)

    def results(self, groups: Int64Array) -> pa.Array:
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.shown(groups, self.products.sums(groups) / self._weights.sums(groups))


def is_number(data_type: pa.DataType) -> bool:
    """Whether values of a type can be added up: numbers and booleans.

    Decimals cannot.
    """
    return bool(pat.is_integer(data_type) or pat.is_floating(data_type) or pat.is_boolean(data_type))


def _by_type(integer: type[Accumulator], floating: type[Accumulator]) -> Callable[[Sequence[pa.DataType]], Accumulator]:
    def made(types: Sequence[pa.DataType]) -> Accumulator:
        if not is_number(types[0]):
            raise TypeError
        return (floating if pat.is_floating(types[0]) else integer)(types)

    return made


def _weighted_sum(types: Sequence[pa.DataType]) -> Accumulator:
    """An integer sum, as long as 64 bits hold the inputs; otherwise a double."""
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
"""For each function, the maker of its accumulator for input types, and the number of inputs.

The maker raises TypeError for types that the function does not take.
"""


def _have_nulls(columns: Sequence[pa.Array]) -> bool:
    return any(column.null_count for column in columns)


def _integer_sums(places: Int64Array, groups: int, values: Int64Array) -> Int64Array:
    """The sums of values by place, which wrap around."""
    found = np.zeros(groups, np.int64)
    np.add.at(found, places, values)
    return found


def _changes(
    places: Int64Array,
    groups: int,
    old: Sequence[pa.Array],
    new: Sequence[pa.Array],
    summands: Callable[[Sequence[pa.Array]], npt.NDArray[Any]],
) -> GroupChanges | None:
    """What sums of 64-bit integers or doubles change by.

    ``None`` with nulls, and where :func:`exact_exchange` has none.
    """
    if _have_nulls(old) or _have_nulls(new):
        return None
    before, after = summands(old), summands(new)
    if before.dtype == np.int64:
        return (_integer_sums(places, groups, after - before),)
    found = exact_exchange(places, groups, before, after)
    return None if found is None else tuple(found)


def _integers(column: pa.Array) -> Int64Array:
    """Integers and booleans as 64-bit integers; uint64 keeps its bits."""
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
