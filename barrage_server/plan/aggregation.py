"""Aggregations of the rows of a group, as values, and the functions that make them: ``bs.agg``.

The names are those of Deephaven's Python client. Columns are written ``"total = price"``, or ``"price"`` for a result
of the same name. Null is left out of every
aggregation but the number of rows, and those of a first or last row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from barrage_server.arguments import names, text
from barrage_server.public import public

__all__ = [
    "Aggregation",
    "abs_sum",
    "avg",
    "count_",
    "first",
    "last",
    "max_",
    "median",
    "min_",
    "pct",
    "sorted_first",
    "sorted_last",
    "std",
    "sum_",
    "var",
    "weighted_avg",
    "weighted_sum",
]

Texts: TypeAlias = str | Sequence[str]


@public
@dataclass(frozen=True, slots=True)
class Aggregation:
    """One function over the rows of each group, for some columns.

    Attributes:
        function: ``sum``, ``avg`` and so on.
        columns: results and the columns they are of: ``"total = price"`` or ``"price"``. Of ``count`` the result alone.
            Empty in an aggregation of all columns.
        weight: the column with the weights; of weighted functions.
        order_by: the columns that the rows of a group are ordered by; of sorted functions.
        share: which of the values in order, from 0 to 1; of percentiles.

    """

    function: str
    columns: tuple[str, ...] = ()
    weight: str | None = None
    order_by: tuple[str, ...] = ()
    share: float = 0.5


def sum_(cols: Texts = ()) -> Aggregation:
    """The sum: 64-bit integers, which wrap around, of integers and booleans; doubles of floating-point numbers.

    Of nothing but nulls it is null.
    """
    return _of("sum", cols)


def abs_sum(cols: Texts = ()) -> Aggregation:
    """The sum of absolute values, typed as :func:`sum_`."""
    return _of("abs_sum", cols)


def avg(cols: Texts = ()) -> Aggregation:
    """The mean, a double; null of nothing but nulls."""
    return _of("avg", cols)


def std(cols: Texts = ()) -> Aggregation:
    """The standard deviation of a sample, a double: NaN of one value, null of none."""
    return _of("std", cols)


def var(cols: Texts = ()) -> Aggregation:
    """The variance of a sample, a double: NaN of one value, null of none."""
    return _of("var", cols)


def weighted_avg(wcol: str, cols: Texts = ()) -> Aggregation:
    """The mean with the weights in ``wcol``, a double. Rows without a weight are left out; without any it is null."""
    return _of("weighted_avg", cols, text(wcol, "wcol"))


def weighted_sum(wcol: str, cols: Texts = ()) -> Aggregation:
    """The sum of the products with the weights in ``wcol``, a double. Rows without a weight are left out."""
    return _of("weighted_sum", cols, text(wcol, "wcol"))


def min_(cols: Texts = ()) -> Aggregation:
    """The smallest value; NaN if there is one."""
    return _of("min", cols)


def max_(cols: Texts = ()) -> Aggregation:
    """The largest value; NaN if there is one."""
    return _of("max", cols)


def median(cols: Texts = ()) -> Aggregation:
    """The value in the middle. Of an even number of numbers the mean of the two in the middle, as a double."""
    return _of("median", cols)


def pct(percentile: float, cols: Texts = ()) -> Aggregation:
    """The value at a part of the way from the smallest to the largest, from 0 to 1: the nearest, of two the larger."""
    return replace(_of("pct", cols), share=percentile)


def first(cols: Texts = ()) -> Aggregation:
    """The value in the first row, also if it is null."""
    return _of("first", cols)


def last(cols: Texts = ()) -> Aggregation:
    """The value in the last row, also if it is null."""
    return _of("last", cols)


def sorted_first(order_by: Texts, cols: Texts = ()) -> Aggregation:
    """The value in the row that is the first in the order of some columns, also if it is null."""
    return replace(_of("sorted_first", cols), order_by=names(order_by, "order_by", single=True))


def sorted_last(order_by: Texts, cols: Texts = ()) -> Aggregation:
    """The value in the row that is the last in the order of some columns, also if it is null."""
    return replace(_of("sorted_last", cols), order_by=names(order_by, "order_by", single=True))


def count_(col: str) -> Aggregation:
    """The number of rows, a 64-bit integer, as a column of that name."""
    return _of("count", text(col, "col"))


def _of(function: str, cols: Texts, weight: str | None = None) -> Aggregation:
    return Aggregation(function, names(cols, "cols", single=True) if cols else (), weight)
