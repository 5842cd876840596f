"""Aggregations as values, and the functions that make them: ``bs.agg``.

The names are those of Deephaven's Python client. Columns are written ``"total = price"``, or ``"price"`` for a result
of the same name. Aggregations leave nulls out, except the number of rows, first and last rows, lists of all values, and
formulas.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from barrage_server.arguments import flag, names, shown, text
from barrage_server.errors import InvalidRequestError
from barrage_server.plan.condition import Condition, check_condition
from barrage_server.plan.expression import Expression, column_texts, formula_text
from barrage_server.plan.texts import Texts
from barrage_server.public import public

__all__ = [
    "FIELDS",
    "Aggregation",
    "abs_sum",
    "avg",
    "count_",
    "count_distinct",
    "count_where",
    "distinct",
    "first",
    "formula",
    "group",
    "last",
    "max_",
    "median",
    "min_",
    "partition",
    "pct",
    "sorted_first",
    "sorted_last",
    "std",
    "sum_",
    "unique",
    "var",
    "weighted_avg",
    "weighted_sum",
]

Filter: TypeAlias = str | Condition | Expression

_ELSEWHERE: Final = {
    "average": "avg",
    "collect": "group",
    "list": "group",
    "mean": "avg",
    "n_unique": "count_distinct",
    "nunique": "count_distinct",
    "percentile": "pct",
    "quantile": "pct",
    "size": "count_",
    "stddev": "std",
    "stdev": "std",
    "variance": "var",
}
"""Functions by their names in other libraries."""


FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "weight": ("weighted_sum", "weighted_avg"),
    "order_by": ("sorted_first", "sorted_last"),
    "share": ("pct",),
    "with_mean": ("median", "pct"),
    "filters": ("count_where",),
    "with_nulls": ("count_distinct", "distinct", "unique"),
    "sentinel": ("unique",),
    "formula": ("formula",),
    "parameter": ("formula",),
    "with_keys": ("partition",),
}
"""The functions that have each of these fields."""


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
        with_mean: whether the mean of the two values in the middle is taken, if the share splits numbers into halves;
            of medians and percentiles. None: it is of a median, and is not of a percentile.
        filters: the conditions that rows must meet, formulas or trees; of ``count_where``.
        with_nulls: whether null is a value; of functions of the different values.
        sentinel: the result for a group with several values; of ``unique``.
        formula: the formula: ``"out = avg(a)"``, or with a parameter ``"avg(each)"``; of ``formula``.
        parameter: the name in a formula that stands for the column; of ``formula``.
        with_keys: whether constituents have the columns that tell groups apart; of ``partition``.

    """

    function: str
    columns: tuple[str, ...] = ()
    weight: str | None = None
    order_by: tuple[str, ...] = ()
    share: float = 0.5
    with_mean: bool | None = None
    filters: tuple[str | Condition, ...] = ()
    with_nulls: bool = False
    sentinel: str | bool | int | float | None = None
    formula: str | None = None
    parameter: str | None = None
    with_keys: bool = True


def sum_(cols: Texts = ()) -> Aggregation:
    """The sum of the values; null if all values are null.

    The sum of integers and booleans is a 64-bit integer, which wraps around; it is unsigned for unsigned 64-bit
    integers. The sum of floats is a float, and the sum of doubles a double.
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
    """The mean with the weights in ``wcol``, a double.

    Rows without a weight are left out. The mean is null if no row has a weight.
    """
    return _of("weighted_avg", cols, text(wcol, "wcol"))


def weighted_sum(wcol: str, cols: Texts = ()) -> Aggregation:
    """The sum of the products with the weights in ``wcol``.

    It is a 64-bit integer for integers, otherwise a double.

    Rows without a weight are left out.
    """
    return _of("weighted_sum", cols, text(wcol, "wcol"))


def min_(cols: Texts = ()) -> Aggregation:
    """The smallest value; NaN if there is one."""
    return _of("min", cols)


def max_(cols: Texts = ()) -> Aggregation:
    """The largest value; NaN if there is one."""
    return _of("max", cols)


def median(cols: Texts = (), average_evenly_divided: bool = True) -> Aggregation:
    """The value in the middle.

    Args:
        cols: the columns.
        average_evenly_divided: whether the median of numbers is a double, and that of floats a float: of an even
            number of values the mean of the two in the middle. Otherwise, and of other types, it is the larger of
            both, in the type of the column.

    """
    is_mean = flag(average_evenly_divided, "average_evenly_divided")
    return replace(_of("median", cols), with_mean=None if is_mean else False)


def pct(percentile: float, cols: Texts = (), average_evenly_divided: bool = False) -> Aggregation:
    """The value at a part of the way from the smallest to the largest value.

    It is the value that is nearest to that place, of two the larger.

    Args:
        percentile: the part of the way, from 0 to 1.
        cols: the columns.
        average_evenly_divided: whether numbers give a double, and floats a float: the last value up to that part of
            the way, or the mean with the next one if there are as many behind it as up to it.

    """
    is_mean = flag(average_evenly_divided, "average_evenly_divided")
    return replace(_of("pct", cols), share=percentile, with_mean=True if is_mean else None)


def first(cols: Texts = ()) -> Aggregation:
    """The value in the first row, also if it is null."""
    return _of("first", cols)


def last(cols: Texts = ()) -> Aggregation:
    """The value in the last row, also if it is null."""
    return _of("last", cols)


def sorted_first(order_by: Texts, cols: Texts = ()) -> Aggregation:
    """The value in the first row in the order of ``order_by``, null or not."""
    return replace(_of("sorted_first", cols), order_by=names(column_texts(order_by), "order_by", single=True))


def sorted_last(order_by: Texts, cols: Texts = ()) -> Aggregation:
    """The value in the last row in the order of ``order_by``, null or not."""
    return replace(_of("sorted_last", cols), order_by=names(column_texts(order_by), "order_by", single=True))


def count_(col: str) -> Aggregation:
    """The number of rows, a 64-bit integer, as the column ``col``."""
    return _of("count", text(col, "col"))


def count_where(col: str, filters: Filter | Sequence[Filter]) -> Aggregation:
    """The number of rows that meet all conditions.

    It is the column ``col``, a 64-bit integer.

    >>> bs.agg.count_where("large", ["size > 100", "sym == `A`"])
    """
    return replace(_of("count_where", text(col, "col")), filters=conditions(filters, "filters"))


def count_distinct(cols: Texts = (), count_nulls: bool = False) -> Aggregation:
    """The number of different values, a 64-bit integer.

    Null and NaN count as two more values with ``count_nulls``.
    """
    return replace(_of("count_distinct", cols), with_nulls=flag(count_nulls, "count_nulls"))


def distinct(cols: Texts = (), include_nulls: bool = False) -> Aggregation:
    """The different values in order, as a list.

    The result for a group of nulls alone is null, unless ``include_nulls`` is true.
    """
    return replace(_of("distinct", cols), with_nulls=flag(include_nulls, "include_nulls"))


def unique(cols: Texts = (), include_nulls: bool = False, non_unique_sentinel: Any = None) -> Aggregation:
    """The only value of the group, or ``non_unique_sentinel`` if there are several.

    The result for a group of nulls alone is null.

    Args:
        cols: the columns.
        include_nulls: whether null is a value.
        non_unique_sentinel: a number, string or boolean that the columns can hold; null without.

    """
    sentinel = non_unique_sentinel.item() if hasattr(non_unique_sentinel, "dtype") else non_unique_sentinel
    if sentinel is not None and not isinstance(sentinel, str | bool | int | float):
        raise InvalidRequestError(f"non_unique_sentinel must be a number, string or boolean, not {shown(sentinel)}.")
    return replace(_of("unique", cols), with_nulls=flag(include_nulls, "include_nulls"), sentinel=sentinel)


def group(cols: Texts = ()) -> Aggregation:
    """All values, with nulls, as a list in the order of the rows."""
    return _of("group", cols)


def partition(col: str, include_by_columns: bool = True) -> Aggregation:
    """The rows of the group as a table, its *constituent*, as a column of that name.

    A cell is a text that stands for the table, as Deephaven's clients see it. The tables themselves are those of
    ``bs.PartitionedTable.from_partitioned_table`` of the result.

    >>> by_sym = trades.agg_by([bs.agg.partition("rows"), bs.agg.sum_("size")], by="sym")
    >>> bs.PartitionedTable.from_partitioned_table(by_sym).get_constituent("ACME")

    Args:
        col: the name of the column.
        include_by_columns: whether the constituents have the columns that tell groups apart.

    """
    with_keys = flag(include_by_columns, "include_by_columns")
    return replace(_of("partition", text(col, "col")), with_keys=with_keys)


def formula(formula: str | Expression, formula_param: str | None = None, cols: Texts = ()) -> Aggregation:
    """The result of a formula over the lists of values of each group.

    The language is that of ``docs/queries.md``.

    >>> bs.agg.formula("spread = max(price) - min(price)")
    >>> bs.agg.formula("avg(each) / 2", "each", ["half = price"])

    Args:
        formula: ``"out = f(a, b)"``, which names its result and columns; the columns that tell groups apart are single
            values in it. With ``formula_param`` the formula alone.
        formula_param: the name in the formula that stands for each of ``cols``.
        cols: the columns, if there is a ``formula_param``.

    """
    parameter = None if formula_param is None else text(formula_param, "formula_param")
    if parameter is None and cols:
        raise InvalidRequestError("cols must be left out without a formula_param: the formula names its columns.")
    return replace(_of("formula", cols), formula=formula_text(formula, "formula"), parameter=parameter)


if not TYPE_CHECKING:  # type checkers know the names

    def __getattr__(name: str) -> Any:
        """Tell the nearest name of a function that is not there."""
        wanted = _ELSEWHERE.get(name.rstrip("_").lower())
        close = [wanted] if wanted else difflib.get_close_matches(name, __all__, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise AttributeError(f"There is no aggregation {name!r}.{hint}")


def conditions(value: Any, what: str) -> tuple[str | Condition, ...]:
    """Check that ``value`` is a condition or a list of conditions.

    A condition is a formula, an expression or a tree of ``bs.condition``.

    Raises:
        InvalidRequestError: ``value`` is something else; ``what`` is the name of the argument.
        LimitError: a tree is too large.

    """
    listed = value if isinstance(value, Sequence) and not isinstance(value, str) else (value,)
    for entry in listed:
        if not isinstance(entry, str | Condition | Expression):
            raise InvalidRequestError(f"{what} must be formulas or conditions, not {shown(entry)}.")
        if isinstance(entry, Condition):
            check_condition(entry)
    return tuple(entry.text if isinstance(entry, Expression) else entry for entry in listed)


def _of(function: str, cols: Texts, weight: str | None = None) -> Aggregation:
    found = column_texts(cols)
    return Aggregation(function, names(found, "cols", single=True) if found else (), weight)
