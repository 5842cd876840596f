"""Aggregations of the numbers in a list: nulls are left out, NaN wins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from barrage_server.formula.builtin import NUMBER, NUMBER_LIST, Builtin, Fixed, Signature
from barrage_server.formula.kinds import DOUBLE, INTEGERS, LONG, Kind
from barrage_server.formula.segments import Numbers, item_kind, numbers_of, segments_of
from barrage_server.formula.vectors import AnyArray, Arrow, Cells, both, from_arrow, present

__all__ = ["FUNCTIONS"]


def _wide(ufunc: Any) -> Callable[[Numbers], Cells]:
    """An aggregation by a ufunc of doubles or 64-bit integers."""

    def run(numbers: Numbers) -> Cells:
        wide = numbers.values.astype(np.float64 if numbers.values.dtype.kind == "f" else np.int64, copy=False)
        return numbers.answer(numbers.reduce(ufunc, wide))

    return run


def _absolute(function: Callable[[Numbers], Cells]) -> Callable[[Numbers], Cells]:
    """An aggregation of absolute values."""

    def run(numbers: Numbers) -> Cells:
        values = numbers.values
        wide = values if values.dtype.kind == "f" else values.astype(np.int64)
        return function(numbers._replace(values=np.abs(wide)))

    return run


def _mean(numbers: Numbers) -> AnyArray:
    total = numbers.reduce(np.add, numbers.values.astype(np.float64, copy=False))
    found: AnyArray = total / numbers.lengths
    return found


def _variance(numbers: Numbers) -> AnyArray:
    """The variance of a sample; NaN for one value."""
    distance = numbers.values.astype(np.float64, copy=False) - numbers.spread(_mean(numbers))
    found: AnyArray = numbers.reduce(np.add, distance * distance) / (numbers.lengths - 1)
    return found


def _extreme(ufunc: Any) -> Callable[[Numbers], Cells]:
    return lambda numbers: numbers.answer(numbers.reduce(ufunc, numbers.values))


def _median(numbers: Numbers) -> Cells:
    if not len(numbers.values):
        return numbers.answer(np.zeros(len(numbers.lengths)))
    ordered = numbers.ordered().astype(np.float64, copy=False)
    last = len(ordered) - 1
    low = ordered[np.minimum(numbers.starts + np.maximum(numbers.lengths - 1, 0) // 2, last)]
    high = ordered[np.minimum(numbers.starts + numbers.lengths // 2, last)]
    middle = np.where(numbers.lengths % 2 == 1, high, low / 2 + high / 2)
    return numbers.answer(np.where(numbers.has_nan(), np.nan, middle))


def _percentile(numbers: Numbers, part: float) -> Cells:
    """The item nearest to a part of the way from the lowest to the highest."""
    if not len(numbers.values):
        return numbers.answer(np.zeros(len(numbers.lengths), numbers.values.dtype))
    place = np.floor(part * np.maximum(numbers.lengths - 1, 0) + 0.5).astype(np.int64)
    found = numbers.ordered()[np.minimum(numbers.starts + place, len(numbers.values) - 1)]
    if found.dtype.kind == "f":
        found = np.where(numbers.has_nan(), found.dtype.type(np.nan), found)
    return numbers.answer(found)


def _count(test: Callable[[AnyArray], AnyArray]) -> Callable[[Numbers], Cells]:
    def run(numbers: Numbers) -> Cells:
        found = numbers.reduce(np.add, np.asarray(test(numbers.values)).astype(np.int64))
        return numbers.answer(found, np.ones(len(found), np.bool_))

    return run


def _distinct(numbers: Numbers) -> Cells:
    """The number of different numbers; NaN counts as one."""
    ordered = numbers.ordered()
    is_new = np.ones(len(ordered), np.bool_)
    if len(ordered):
        same = ordered[1:] == ordered[:-1]
        if ordered.dtype.kind == "f":
            same = same | (np.isnan(ordered[1:]) & np.isnan(ordered[:-1]))
        is_new[1:] = ~same
        is_new[numbers.starts[numbers.lengths > 0]] = True
    return numbers.answer(numbers.reduce(np.add, is_new.astype(np.int64)), np.ones(len(numbers.lengths), np.bool_))


def _aggregation(
    name: str, kind: Kind | Callable[[tuple[Kind, ...]], Kind], function: Callable[[Numbers], Cells], meaning: str
) -> Builtin:
    def bind(kinds: tuple[Kind, ...]) -> Callable[[Arrow], Cells]:
        return lambda lists: function(numbers_of(lists, kinds[0]))

    return Builtin(name, meaning, (Signature((NUMBER_LIST,), kind, bind, binds=True),))


def _check_part(part: float | None) -> None:
    if part is None or not 0 <= part <= 1:
        raise ValueError("a percentile is between 0 and 1")


def _total(kinds: tuple[Kind, ...]) -> Kind:
    """The kind of a sum of numbers or lists: long, or double with floats."""
    return LONG if all((kind.item or kind) in INTEGERS for kind in kinds) else DOUBLE


def _weighted(*, is_mean: bool) -> Callable[[tuple[Kind, ...]], Callable[[Arrow, Arrow], Cells]]:
    """Sums or means of one list's items, weighted by another's.

    Pairs with a null are left out. The result is null if the lengths differ.
    """

    def bind(kinds: tuple[Kind, ...]) -> Callable[[Arrow, Arrow], Cells]:
        dtype = np.float64 if is_mean or _total(kinds) is DOUBLE else np.int64
        first, second = kinds[0].item, kinds[1].item
        assert first is not None
        assert second is not None

        def run(a: Arrow, b: Arrow) -> Cells:
            left, right = segments_of(a), segments_of(b)
            is_even = left.lengths == right.lengths
            items, others = from_arrow(left.items, first), from_arrow(right.items, second)
            assert isinstance(items, Cells)
            assert isinstance(others, Cells)
            keep_left, keep_right = np.repeat(is_even, left.lengths), np.repeat(is_even, right.lengths)
            x, w = items.values[keep_left].astype(dtype), others.values[keep_right].astype(dtype)
            known = both(
                None if items.valid is None else items.valid[keep_left],
                None if others.valid is None else others.valid[keep_right],
            )
            known = np.ones(len(x), np.bool_) if known is None else known
            lengths = np.where(is_even, left.lengths, 0)
            starts = np.cumsum(lengths) - lengths
            before = np.concatenate(([0], np.cumsum(known)))
            kept = before[starts + lengths] - before[starts]
            pairs = Numbers(x[known], before[starts], kept, both(left.valid, right.valid))
            weights = w[known]
            total = pairs.reduce(np.add, pairs.values * weights)
            return pairs.answer(total / pairs.reduce(np.add, weights) if is_mean else total)

        return run

    return bind


def _sum_of_arguments(kinds: tuple[Kind, ...]) -> Callable[..., Cells]:
    dtype = np.float64 if _total(kinds) is DOUBLE else np.int64

    def run(*given: Cells) -> Cells:
        total, valid = np.zeros((), dtype), np.zeros((), np.bool_)
        for each in given:
            is_there = present(each)
            total = total + np.where(is_there, each.values, 0).astype(dtype, copy=False)
            valid = valid | is_there
        return Cells(total, None if valid.all() else valid)

    return run


FUNCTIONS: Final = (
    Builtin(
        "sum",
        "The sum of several numbers that are not null: a long, which wraps, or a double.",
        (Signature((NUMBER,), _total, _sum_of_arguments, binds=True, repeats=True),),
    ),
    _aggregation("sum", _total, _wide(np.add), "Of a list: the sum of its numbers."),
    _aggregation("product", _total, _wide(np.multiply), "The product: a long, which wraps, or a double."),
    _aggregation("absSum", _total, _absolute(_wide(np.add)), "The sum of sizes."),
    _aggregation("avg", DOUBLE, lambda numbers: numbers.answer(_mean(numbers)), "The mean."),
    _aggregation("absAvg", DOUBLE, _absolute(lambda numbers: numbers.answer(_mean(numbers))), "The mean of sizes."),
    _aggregation("min", item_kind, _extreme(np.minimum), "Of a list: its smallest number."),
    _aggregation("max", item_kind, _extreme(np.maximum), "Of a list: its largest number."),
    _aggregation(
        "var", DOUBLE, lambda numbers: numbers.answer(_variance(numbers)), "The sample variance; NaN of one number."
    ),
    _aggregation(
        "std",
        DOUBLE,
        lambda numbers: numbers.answer(np.sqrt(_variance(numbers))),
        "The sample standard deviation; NaN of one number.",
    ),
    _aggregation(
        "ste",
        DOUBLE,
        lambda numbers: numbers.answer(np.sqrt(_variance(numbers) / numbers.lengths)),
        "The standard error of the mean; NaN of one number.",
    ),
    _aggregation("median", DOUBLE, _median, "The median; NaN if one number is."),
    Builtin(
        "percentile",
        "The number at a literal part (0 to 1) of the way from the lowest to the highest; NaN if one is.",
        (
            Signature(
                (Fixed(DOUBLE), NUMBER_LIST),
                item_kind,
                lambda kinds: lambda part, lists: _percentile(numbers_of(lists, kinds[1]), part),
                binds=True,
                check=_check_part,
            ),
        ),
    ),
    _aggregation("countPos", LONG, _count(lambda a: a > 0), "How many numbers are above 0."),
    _aggregation("countNeg", LONG, _count(lambda a: a < 0), "How many numbers are below 0."),
    _aggregation("countZero", LONG, _count(lambda a: a == 0), "How many numbers are 0."),
    _aggregation("countDistinct", LONG, _distinct, "How many different numbers there are."),
    Builtin(
        "wsum",
        "The sum of values times weights; null if the lengths differ.",
        (Signature((NUMBER_LIST, NUMBER_LIST), _total, _weighted(is_mean=False), binds=True),),
    ),
    Builtin(
        "wavg",
        "The mean by weights; null if the lengths differ.",
        (Signature((NUMBER_LIST, NUMBER_LIST), DOUBLE, _weighted(is_mean=True), binds=True),),
    ),
)
